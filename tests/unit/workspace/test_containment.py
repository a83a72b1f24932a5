"""Where paths lead: nothing outside of the session's folders, whatever it is called (security cases O24-O26; pains 131)."""

import os
import stat
from pathlib import Path

import pytest

from sidecar.errors import Refused
from sidecar.session.protected import why_protected
from sidecar.workspace.containment import Place, resolve
from sidecar.workspace.containment_folder import opened_folder
from sidecar.workspace.files_rules import FileRules, own_paths
from sidecar.workspace.text_file import UnusableFile
from sidecar.workspace.text_file_disk import ChangedMeanwhile, Snapshot, existing_file, read_file, write_file


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    """Return a workspace beside a folder that is none of the session's, whose name begins the same."""
    folder = tmp_path / "ws"
    (folder / "sub").mkdir(parents=True)
    (folder / "notes.txt").write_text("inside\n")
    (tmp_path / "ws-evil").mkdir()
    (tmp_path / "ws-evil" / "x").write_text("secret\n")
    (tmp_path / "other").mkdir()
    return folder


def test_paths_and_file_uris_of_the_workspace_lead_to_its_files(ws: Path) -> None:
    target = str(ws / "notes.txt")
    odd = ws / "a b%20c.txt"
    odd.write_text("odd\n")
    for raw in (
        target,
        f"{ws}/./sub/../notes.txt",
        (ws / "notes.txt").as_uri(),
        f"file://localhost{target}",
        "notes.txt",
        "sub/../notes.txt",
    ):
        assert resolve(raw, [str(ws)]).path == os.path.realpath(target)
        assert resolve(raw, [str(ws)]).shown == "notes.txt"
    assert existing_file(resolve(odd.as_uri(), [str(ws)])).text == "odd\n"
    assert existing_file(resolve(str(odd), [str(ws)])).text == "odd\n"
    assert resolve(str(ws / "new" / "deep" / "file"), [str(ws)]).parts == ("new", "deep", "file")


def test_a_further_folder_of_the_session_counts(ws: Path) -> None:
    other = ws.parent / "other"
    assert resolve(str(other / "x"), [str(ws), str(other)]).root == os.path.realpath(other)
    with pytest.raises(Refused, match="outside"):
        resolve(str(other / "x"), [str(ws)])


ESCAPES = [
    "../x",
    "../ws-evil/x",
    "{ws}/../ws-evil/x",
    "{parent}/ws-evil/x",
    "{ws}-evil/x",
    "/etc/passwd",
    "sub/../../ws-evil/x",
    "file://{ws}/../ws-evil/x",
    "file://{ws}/%2e%2e/ws-evil/x",
    "file://{ws}/%2E%2E%2Fws-evil%2Fx",
    "file:///etc/passwd",
    "FILE:///etc/passwd",
    "file:/etc/passwd",
    "file://server/share/x",
    "file:relative",
    "file://{ws}/a%00b",
    "{ws}/a\0b",
    "",
    "http://example.com/x",
    "untitled:Untitled-1",
    "vscode-remote://host/x",
    "\ud800",
]


@pytest.mark.parametrize("raw", ESCAPES)
def test_o24_nothing_outside_is_reached(ws: Path, raw: str) -> None:
    with pytest.raises(Refused) as caught:
        resolve(raw.format(ws=ws, parent=ws.parent), [str(ws)])
    assert "secret" not in caught.value.message


def test_percent_signs_of_a_plain_path_are_a_name_and_no_way_up(ws: Path) -> None:
    place = resolve(f"{ws}/%2e%2e/x", [str(ws)])
    assert place.parts == ("%2e%2e", "x")
    assert resolve(f"file://{ws}/%252e%252e/x", [str(ws)]).parts == ("%2e%2e", "x")


def test_o25_links_that_lead_out_are_refused_and_their_target_is_untouched(ws: Path) -> None:
    outside = ws.parent / "ws-evil"
    (ws / "door").symlink_to(outside)
    (ws / "window").symlink_to(outside / "x")
    (ws / "deep").symlink_to(ws / "door")
    for raw in ("door/x", "window", "deep/x", "door", "door/new"):
        with pytest.raises(Refused, match="outside"):
            resolve(raw, [str(ws)])
    assert (outside / "x").read_text() == "secret\n"
    assert sorted(path.name for path in outside.iterdir()) == ["x"]


def test_links_to_nothing_are_refused_wherever_they_point(ws: Path) -> None:
    (ws / "dangling").symlink_to(ws.parent / "ws-evil" / "not-there")
    (ws / "inner").symlink_to(ws / "not-there")
    (ws / "loop").symlink_to(ws / "loop")
    for raw in ("dangling", "inner"):
        with pytest.raises(Refused):
            resolve(raw, [str(ws)])
    with pytest.raises((Refused, UnusableFile)):
        read_file(resolve("loop", [str(ws)]))
    assert not (ws.parent / "ws-evil" / "not-there").exists()


def test_a_link_that_stays_inside_is_followed_and_kept(ws: Path) -> None:
    (ws / "alias").symlink_to("notes.txt")
    place = resolve("alias", [str(ws)])
    write_file(place, "changed\n", existing_file(place))
    assert (ws / "alias").is_symlink()
    assert (ws / "notes.txt").read_text() == "changed\n"


def test_the_workspace_may_itself_be_reached_by_a_link(ws: Path) -> None:
    (ws.parent / "shortcut").symlink_to(ws)
    for folder, raw in ((ws.parent / "shortcut", ws / "notes.txt"), (ws, ws.parent / "shortcut" / "notes.txt")):
        assert existing_file(resolve(str(raw), [str(folder)])).text == "inside\n"


def test_folders_are_known_by_identity_and_not_by_spelling(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that does not tell case apart, seen through its effect: two spellings, one identity."""
    other = ws.parent / "WS"
    real = os.path.realpath(ws)
    found = os.stat

    def easy(path: "str | os.PathLike[str] | int", **rest: object) -> os.stat_result:
        plain = str(path)
        return found(plain.replace(str(other), real) if isinstance(path, str | os.PathLike) else path, **rest)  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownVariableType]

    monkeypatch.setattr(os, "stat", easy)
    place = resolve(str(other / "notes.txt"), [str(ws)])
    assert (place.root, place.parts) == (str(other), ("notes.txt",))


def test_a_folder_swapped_for_a_link_between_check_and_use_is_no_way_out(ws: Path) -> None:
    place = resolve("sub/x", [str(ws)])
    (ws / "sub").rmdir()
    (ws / "sub").symlink_to(ws.parent / "ws-evil")
    with pytest.raises(Refused, match="changed meanwhile"):
        read_file(place)
    with pytest.raises(Refused, match="changed meanwhile"):
        write_file(place, "pwned\n", None)
    assert (ws.parent / "ws-evil" / "x").read_text() == "secret\n"


def test_a_file_swapped_for_a_link_between_check_and_use_is_no_way_out(ws: Path) -> None:
    place = resolve("notes.txt", [str(ws)])
    before = existing_file(place)
    (ws / "notes.txt").unlink()
    (ws / "notes.txt").symlink_to(ws.parent / "ws-evil" / "x")
    with pytest.raises(UnusableFile, match="link"):
        read_file(place)
    with pytest.raises(ChangedMeanwhile):
        write_file(place, "pwned\n", before)
    assert (ws.parent / "ws-evil" / "x").read_text() == "secret\n"


def test_a_workspace_moved_away_and_replaced_is_not_the_workspace(ws: Path) -> None:
    place = resolve("notes.txt", [str(ws)])
    ws.rename(ws.parent / "moved")
    ws.symlink_to(ws.parent / "ws-evil")
    with pytest.raises(Refused, match="changed meanwhile"), opened_folder(place):
        pass


# --- files on the disk ---


def place_of(ws: Path, name: str) -> Place:
    return resolve(name, [str(ws)])


@pytest.mark.parametrize("mode", [0o644, 0o755, 0o600, 0o664])
def test_mode_and_executable_bit_survive_a_write(ws: Path, mode: int) -> None:
    (ws / "run.sh").write_bytes(b"\xef\xbb\xbfecho\r\n")
    (ws / "run.sh").chmod(mode)
    place = place_of(ws, "run.sh")
    after = write_file(place, "echo\ndone\n", existing_file(place))
    assert (ws / "run.sh").read_bytes() == b"\xef\xbb\xbfecho\r\ndone\r\n"
    assert stat.S_IMODE((ws / "run.sh").stat().st_mode) == mode
    assert existing_file(place) == after
    assert sorted(path.name for path in ws.iterdir()) == ["notes.txt", "run.sh", "sub"]


def test_the_set_user_id_bit_is_not_given_to_a_text_an_agent_wrote(ws: Path) -> None:
    (ws / "notes.txt").chmod(0o4755)
    place = place_of(ws, "notes.txt")
    write_file(place, "x\n", existing_file(place))
    assert stat.S_IMODE((ws / "notes.txt").stat().st_mode) == 0o755


def test_a_new_file_gets_its_folders_and_the_usual_mode(ws: Path) -> None:
    before = os.umask(0o027)
    try:
        write_file(place_of(ws, "new/deep/file.txt"), "x\r\ny", None)
    finally:
        os.umask(before)
    assert (ws / "new/deep/file.txt").read_bytes() == b"x\r\ny"
    assert stat.S_IMODE((ws / "new/deep/file.txt").stat().st_mode) == 0o640


def test_a_write_over_a_file_that_changed_meanwhile_changes_nothing(ws: Path) -> None:
    place = place_of(ws, "notes.txt")
    before = existing_file(place)
    (ws / "notes.txt").write_text("by somebody else\n")
    with pytest.raises(ChangedMeanwhile):
        write_file(place, "x\n", before)
    (ws / "new.txt").write_text("just made\n")
    with pytest.raises(ChangedMeanwhile):
        write_file(place_of(ws, "new.txt"), "x\n", None)
    (ws / "notes.txt").unlink()
    with pytest.raises((ChangedMeanwhile, UnusableFile)):
        write_file(place, "x\n", before)
    assert sorted(path.name for path in ws.iterdir()) == ["new.txt", "sub"]


def test_what_cannot_be_handled_as_a_text_file_says_why(ws: Path) -> None:
    os.mkfifo(ws / "pipe")
    (ws / "pic.png").write_bytes(b"\x89PNG\0\0")
    with (ws / "huge.txt").open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    said = {
        "sub": "folder",
        "pipe": "pipe",
        "pic.png": "binary",
        "huge.txt": "bytes",
        ".": "folder",
        "notes.txt/x": "not a folder",
    }
    for name, words in said.items():
        with pytest.raises(UnusableFile, match=words):
            read_file(place_of(ws, name))
    assert read_file(place_of(ws, "absent")) is None
    assert read_file(place_of(ws, "absent/deep")) is None
    with pytest.raises(UnusableFile, match="folder"):
        write_file(place_of(ws, "sub"), "x", None)


def test_a_read_only_file_is_not_replaced_behind_its_owners_back(ws: Path) -> None:
    (ws / "notes.txt").chmod(0o444)
    place = place_of(ws, "notes.txt")
    with pytest.raises(UnusableFile, match="read-only"):
        write_file(place, "x\n", existing_file(place))
    assert (ws / "notes.txt").read_text() == "inside\n"


def test_a_file_with_another_name_elsewhere_is_not_changed_there(ws: Path) -> None:
    """A hard link out of the workspace: replacing the file leaves the other name's content alone."""
    outside = ws.parent / "ws-evil" / "x"
    (ws / "linked").hardlink_to(outside)
    place = place_of(ws, "linked")
    write_file(place, "x\n", existing_file(place))
    assert outside.read_text() == "secret\n"


def test_a_snapshot_shows_no_content_in_its_repr(ws: Path) -> None:
    found: Snapshot = existing_file(place_of(ws, "notes.txt"))
    assert "inside" not in repr(found)


# --- rules ---

PROTECTED = [
    ".vscode/settings.json",
    ".vscode/tasks.json",
    ".VSCode/Tasks.json",
    ".git/hooks/pre-commit",
    ".git/config",
    ".GIT/config",
    ".g\u200cit/config",
    "git~1/config",
    ".git /config",
    ".kiro/settings/mcp.json",
    ".nvim.lua",
    ".helix/config.toml",
    "project.code-workspace",
    ".sidecar.toml",
    ".mcp.json",
    "sub/.git/config",
    "sub/.envrc",
]


@pytest.mark.parametrize("name", PROTECTED)
def test_o26_files_that_decide_what_is_run_ask_with_the_reason(ws: Path, name: str) -> None:
    place = resolve(name, [str(ws)])
    reason = FileRules(own=list).why_ask(name, place)
    assert reason is not None
    assert "decides what is run" in reason
    FileRules(own=list).check(place)


def test_a_link_to_a_protected_file_is_protected_under_its_own_name(ws: Path) -> None:
    (ws / ".git" / "hooks").mkdir(parents=True)
    (ws / "harmless").symlink_to(".git/hooks")
    assert FileRules(own=list).why_ask("harmless/pre-commit", resolve("harmless/pre-commit", [str(ws)])) is not None


def test_ordinary_files_do_not_ask_and_more_can_be_protected(ws: Path) -> None:
    for name in ("notes.txt", "src/.github.py", "gitconfig.md", "vscode/x"):
        assert FileRules(own=list).why_ask(name, resolve(name, [str(ws)])) is None
    more = FileRules(own=list, protected=("deploy/*", "*.TF"))
    for name in ("deploy/run", "infra/main.tf"):
        assert more.why_ask(name, resolve(name, [str(ws)])) is not None
    assert why_protected("deploy/run") is None


def test_the_sidecars_own_files_are_nobodys_to_write_or_read(ws: Path) -> None:
    own = ws / "state"
    own.mkdir()
    (ws / "alias").symlink_to(own)
    rules = FileRules(own=lambda: [str(own), str(ws / "not-yet" / "config.toml")])
    for name in (
        "state/trust.json",
        "alias/trust.json",
        "state",
        "STATE/trust.json",
        "not-yet/config.toml",
        "Not-Yet/CONFIG.toml",
    ):
        with pytest.raises(Refused, match="sidecar itself"):
            rules.check(resolve(name, [str(ws)]))
    rules.check(resolve("stateful/x", [str(ws)]))
    rules.check(resolve("not-yet/other", [str(ws)]))


def test_state_and_configuration_of_this_user_are_own_files(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIDECAR_STATE", str(ws / "st"))
    monkeypatch.setenv("SIDECAR_CONFIG", str(ws / "dev.toml"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(ws / "cfg"))
    for name in ("st/trust.json", "dev.toml", "cfg/sidecar/config.toml"):
        with pytest.raises(Refused, match="sidecar itself"):
            FileRules().check(resolve(name, [str(ws)]))
    FileRules().check(resolve("notes.txt", [str(ws)]))
    named = str(ws / "named.toml")
    assert set(own_paths(named, "built-in settings")) == {named, *own_paths()}
