"""Files that completion offers, links made of them, and which words are commands of ours."""

from pathlib import Path

import pytest

from sidecar.editor.transcript_actions import file_links, find_files
from sidecar.editor.transcript_slash import SlashCommand, read_command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (".git/config", "src/app.py", "src/deep/app.py", "README.md", "with space.md", "node_modules/x/app.py"):
        path = tmp_path / "ws" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (tmp_path / "secret.txt").write_text("x")
    (tmp_path / "ws" / "outside").symlink_to(tmp_path / "secret.txt")
    return tmp_path / "ws"


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("app", ["src/app.py", "src/deep/app.py"]),
        ("APP", ["src/app.py", "src/deep/app.py"]),
        ("deep/", ["src/deep/app.py"]),
        ("config", []),
        ("space", []),
        ("nothing", []),
    ],
)
def test_files_of_version_control_and_names_that_cannot_be_typed_are_left_out(folder: Path, typed: str, found: list[str]) -> None:
    assert find_files(str(folder), typed) == found


def test_the_search_is_bounded(folder: Path) -> None:
    assert find_files(str(folder), "", limit=1) == ["outside"] or find_files(str(folder), "", limit=1) == ["README.md"]
    assert len(find_files(str(folder), "app", visited=1)) <= 1


def test_only_files_below_the_folder_become_links(folder: Path) -> None:
    text = "see @src/app.py, @README.md and @outside @../secret.txt mail a@README.md @src"
    links = file_links(text, str(folder))
    assert [link["name"] for link in links] == ["src/app.py", "README.md"]
    assert all(link["type"] == "resource_link" and link["uri"].startswith("file:///") for link in links)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/new", SlashCommand("new", "")),
        ("  /model  auto \n", SlashCommand("model", "auto")),
        ("/mcp my server", SlashCommand("mcp", "my server")),
        ("/models", None),
        ("/unknown", None),
        ("/model a\nand more", None),
        ("say /new", None),
        ("/", None),
        ("", None),
    ],
)
def test_a_command_is_the_whole_prompt(text: str, command: SlashCommand | None) -> None:
    assert read_command(text) == command
