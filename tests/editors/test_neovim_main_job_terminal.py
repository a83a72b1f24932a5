"""The main job as a user sees it: Neovim in a terminal with the configuration of the README, word for word, and keys."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import installed
from tests.editors.neovim_terminal import Terminal
from tests.editors.neovim_world import START_SECONDS, assert_nothing_stays, processes_of
from tests.process.editor_world import REPOSITORY, World, peer

pytestmark = [pytest.mark.editor, pytest.mark.process]

URL = "https://as.example/authorize?a=%2B%26%23&state=S3NT1NEL;$x&n='(1)'&e=%action"
ASKED = "Type number and <Enter>"
SPIES = """
vim.ui.open = function(address)
  vim.fn.writefile({ address }, vim.env.HOME .. '/opened')
  return vim.system({ 'true' })
end
vim.api.nvim_create_autocmd('LspAttach', { callback = function() print('the server is there') end })
"""


def readme_configuration() -> str:
    """Return the Lua that the README tells a user of Neovim to write."""
    found = re.search(r"\*\*Neovim.*?```lua\n(.*?)```", (REPOSITORY / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def on_a_terminal(tmp_path: Path, agent: str) -> Iterator[tuple[World, Terminal]]:
    """Start Neovim on a Python file of a git repository, with the configuration of the README and ``SPIES``."""
    world = World(tmp_path, {"kiro3": peer("tests.peers.kiro_v3", protocol="kiro-v3", url=URL)})
    world.config.write_text(f'agent = "{agent}"\n' + world.config.read_text(encoding="utf-8"), encoding="utf-8")
    settings = world.home / ".config" / "nvim"
    settings.mkdir(parents=True)
    (settings / "init.lua").write_text(readme_configuration() + SPIES, encoding="utf-8")
    (world.workspace / ".git").mkdir()
    (world.workspace / "a.py").write_text("print(1)\n", encoding="utf-8")
    with Terminal(world, [installed.nvim(), "-i", "NONE", "-n", "a.py"], world.workspace) as terminal:
        terminal.see("the server is there", START_SECONDS)
        yield world, terminal


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[tuple[World, Terminal]]:
    yield from on_a_terminal(tmp_path, "demo")


@pytest.fixture
def kiro(tmp_path: Path) -> Iterator[tuple[World, Terminal]]:
    yield from on_a_terminal(tmp_path, "kiro3")


def test_the_readmes_command_prompts_and_the_last_line_tells_what_goes_on(demo: tuple[World, Terminal]) -> None:
    _, terminal = demo
    terminal.ex('Sidecar prompt {"text": "slow please"}')
    terminal.see("demo: slow please", START_SECONDS)
    terminal.ex("Sidecar cancel")
    terminal.see("demo: cancelled", START_SECONDS)


def test_the_question_is_a_numbered_list_and_the_number_typed_answers_it(demo: tuple[World, Terminal]) -> None:
    world, terminal = demo
    terminal.ex('Sidecar prompt {"text": "edit written by the test"}')
    screen = terminal.see(ASKED, START_SECONDS)
    assert "demo asks for permission: Edit sidecar-demo.txt" in screen
    assert "│ +1: written by the test" in screen
    assert "Your answer:\n1: Deny\n2: Allow\n3: Always allow\n4: Always deny\n" in screen
    assert not (world.workspace / "sidecar-demo.txt").exists()
    terminal.press("2", "Enter")
    terminal.see("demo: done", START_SECONDS)
    assert "written by the test" in (world.workspace / "sidecar-demo.txt").read_text(encoding="utf-8")


def test_the_first_number_refuses(demo: tuple[World, Terminal]) -> None:
    world, terminal = demo
    terminal.ex('Sidecar prompt {"text": "edit written by the test"}')
    terminal.see(ASKED, START_SECONDS)
    terminal.press("1", "Enter")
    terminal.see("demo: done", START_SECONDS)
    assert not (world.workspace / "sidecar-demo.txt").exists()


@pytest.mark.parametrize(
    "keys",
    [("Enter",), ("x", "=", "2", "Enter"), ("y", "Enter"), ("0", "Enter"), ("9", "Enter"), ("Escape",), ("q",)],
    ids="".join,
)
def test_keys_that_are_no_number_of_the_list_answer_nothing(demo: tuple[World, Terminal], keys: tuple[str, ...]) -> None:
    world, terminal = demo
    terminal.ex('Sidecar prompt {"text": "edit written by the test"}')
    terminal.see(ASKED, START_SECONDS)
    terminal.press(*keys)
    screen = terminal.see("Press ENTER or type command to continue", START_SECONDS)
    assert "Undecided, and still waiting: demo asks for permission" in screen
    assert not (world.workspace / "sidecar-demo.txt").exists()
    terminal.press("Enter")
    terminal.ex("Sidecar pending.ask")
    terminal.see(ASKED, START_SECONDS)
    terminal.press("1", "Enter")
    terminal.see("demo: done", START_SECONDS)
    assert not (world.workspace / "sidecar-demo.txt").exists()


def test_a_page_is_opened_after_the_user_chose_open_and_its_query_is_never_on_the_screen(kiro: tuple[World, Terminal]) -> None:
    world, terminal = kiro
    opened = world.home / "opened"
    terminal.ex('Sidecar prompt {"text": "url"}')
    screen = terminal.see(ASKED, START_SECONDS)
    assert "Host: as.example" in screen
    assert "1: Decline\n2: Open\n" in screen
    assert "S3NT1NEL" not in screen
    assert not opened.exists()
    terminal.press("2", "Enter")
    assert "S3NT1NEL" not in terminal.see("kiro3: done", START_SECONDS)
    assert opened.read_text(encoding="utf-8") == URL + "\n"


def test_a_sign_in_of_an_mcp_server_begins_with_the_users_command(kiro: tuple[World, Terminal]) -> None:
    world, terminal = kiro
    terminal.ex("Sidecar session.new")
    terminal.ex('Sidecar mcp.authenticate {"server": "docs"}')
    screen = terminal.see(ASKED, START_SECONDS)
    assert "docs" in screen
    terminal.press("2", "Enter")
    terminal.until(lambda _: (world.home / "opened").exists(), START_SECONDS)
    assert (world.home / "opened").read_text(encoding="utf-8") == URL + "\n"


def test_an_agent_that_crashes_is_told_with_its_last_words(demo: tuple[World, Terminal]) -> None:
    _, terminal = demo
    terminal.ex('Sidecar prompt {"text": "crash"}')
    screen = terminal.see("no prompt is sent a second time", START_SECONDS)
    assert "exited with code 70" in screen
    assert "demo agent: crashed, as you asked" in screen


def test_a_wrong_parameter_is_told_with_the_right_one(demo: tuple[World, Terminal]) -> None:
    _, terminal = demo
    terminal.ex('Sidecar prompt {"txt": "hello"}')
    terminal.see("prompt: unknown parameter 'txt'; did you mean 'text'?", START_SECONDS)


def test_nothing_stays_when_the_user_quits_while_the_agent_speaks(demo: tuple[World, Terminal]) -> None:
    world, terminal = demo
    terminal.ex('Sidecar prompt {"text": "slow please"}')
    terminal.see("demo: slow please", START_SECONDS)
    assert len(processes_of(world)) >= 3
    terminal.ex("qa!")
    terminal.until_left()
    assert_nothing_stays(world)
