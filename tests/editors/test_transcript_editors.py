"""The transcript in real editors on the built-in demo agent: Neovim and both Helix versions in tmux, with a user at the keys."""

import re
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

import psutil
import pytest

from tests.editors.terminal import HELIX_NAMES, TerminalEditor

pytestmark = [
    pytest.mark.editor,
    pytest.mark.process,
    pytest.mark.skipif(sys.platform == "win32", reason="tmux is not there"),
]

HEADING = "## Your prompt"
GONE_SECONDS = 5.0
EDITORS = ("nvim", *HELIX_NAMES)
TYPING_SECONDS = 0.06


@pytest.fixture
def open_editor(tmp_path: Path) -> Generator[Callable[..., TerminalEditor]]:
    opened: list[TerminalEditor] = []

    def make(name: str, *, pace_ms: int = 20) -> TerminalEditor:
        editor = TerminalEditor(name, tmp_path, pace_ms=pace_ms)
        opened.append(editor)
        editor.until(lambda: _opened_transcript(editor), "the transcript was not opened", within=60)
        return editor

    yield make
    for editor in opened:
        editor.close()


def _opened_transcript(editor: TerminalEditor) -> bool:
    """Ask for the transcript until the editor knows the command: it does once the server has started."""
    if HEADING in editor.screen():
        return True
    editor.run("transcript.open")
    time.sleep(0.5)
    return HEADING in editor.screen()


def send(editor: TerminalEditor, text: str) -> None:
    editor.end_of_buffer()
    editor.type(text)
    editor.normal()
    editor.run("transcript.send")


def choose(editor: TerminalEditor, title: str) -> None:
    """Pick an entry of the code actions at the cursor."""
    editor.code_actions()
    editor.sees(title)
    if editor.name in HELIX_NAMES:
        entries = [line for line in editor.screen().splitlines() if re.search(r"\bq\d+: |\bSend\b|\bCancel the|\bRedraw\b", line)]
        at = next(number for number, line in enumerate(entries) if title in line)
        editor.keys(*["Down"] * at, "Enter")
    else:
        found = re.search(rf"^\s*(\d+): {re.escape(title)}", editor.screen(), re.MULTILINE)
        assert found is not None
        editor.keys(found[1], "Enter")


def composer_of(text: str) -> str:
    return text.rpartition(HEADING + "\n")[2].strip("\n ")


@pytest.mark.parametrize("name", EDITORS)
def test_the_prompt_and_the_stream_stay_whole_while_the_user_types(open_editor: Callable[..., TerminalEditor], name: str) -> None:
    editor = open_editor(name, pace_ms=8)
    send(editor, "long")
    editor.holds("Paragraph 1:")
    editor.end_of_buffer()
    typed = ""
    began = time.monotonic()
    while time.monotonic() - began < 8:
        word = f"w{len(typed)} "
        editor.type(word)
        typed += word
        time.sleep(TYPING_SECONDS)
    text = editor.holds("Paragraph 60:", within=60)
    numbers = [int(number) for number in re.findall(r"^Paragraph (\d+):", text, re.MULTILINE)]
    assert numbers == list(range(1, 61))
    assert composer_of(text) == typed.strip()
    assert "\nlong\n" in text.partition(HEADING)[0]
    assert text.count(HEADING) == 1
    assert len(editor.sidecars()) == 1, "the transcript started a second sidecar"


@pytest.mark.parametrize("name", EDITORS)
def test_consent_is_answered_where_the_editor_shows_it_and_by_code_action(
    open_editor: Callable[..., TerminalEditor], name: str
) -> None:
    editor = open_editor(name)
    send(editor, "run echo hello")
    editor.sees("asks for permission")
    if name == "helix-new":
        editor.keys("j")  # any other key leaves it undecided
        editor.sees("Undecided")
    elif name == "nvim":
        editor.sees("Type number and <Enter>")
        editor.keys("q", "Enter")
        editor.sees("Undecided")
        editor.keys("Enter")
    text = editor.holds("### Question q1")
    assert "answered “" not in text
    editor.search("### Question q1")
    choose(editor, "q1: Allow")
    text = editor.holds("It printed 6 characters")
    assert "*Question q1: answered “Allow”.*" in text
    assert re.search(r"pattern: echo hello\n", text)


@pytest.mark.parametrize("name", ["helix-new", "nvim"])
def test_consent_is_answered_in_the_editors_own_dialog(open_editor: Callable[..., TerminalEditor], name: str) -> None:
    editor = open_editor(name)
    send(editor, "run echo hello")
    editor.sees("Always deny")
    editor.keys(*(["Down", "Enter"] if name == "helix-new" else ["2", "Enter"]))
    assert "answered “Allow”" in editor.holds("It printed 6 characters")


@pytest.mark.parametrize("name", EDITORS)
def test_a_code_action_cancels_the_running_turn(open_editor: Callable[..., TerminalEditor], name: str) -> None:
    editor = open_editor(name)
    send(editor, "slow")
    editor.holds("## demo")
    editor.search(HEADING)
    choose(editor, "Cancel the running turn")
    text = editor.holds("*The turn was cancelled.*")
    assert "Until the last one" not in text


@pytest.mark.parametrize("name", EDITORS)
def test_nothing_survives_when_the_editor_is_killed_in_the_middle_of_a_turn(
    open_editor: Callable[..., TerminalEditor], name: str
) -> None:
    editor = open_editor(name)
    send(editor, "slow")
    editor.holds("## demo")
    assert len(editor.processes()) >= 3, "the agent does not run"
    editor.kill()
    _, alive = psutil.wait_procs(editor.processes(), timeout=GONE_SECONDS)
    assert [process.cmdline() for process in alive] == []


@pytest.mark.parametrize("name", EDITORS)
def test_what_the_user_undoes_is_not_put_back_and_redraw_shows_it_again(
    open_editor: Callable[..., TerminalEditor], name: str
) -> None:
    editor = open_editor(name, pace_ms=2)
    send(editor, "markdown")
    editor.holds("> A quotation at the end.")
    editor.search("> A quotation at the end")
    editor.type("xd" if name in HELIX_NAMES else "dd")
    time.sleep(3.0)
    assert "> A quotation at the end." not in editor.written()
    editor.run("transcript.redraw")
    text = editor.holds("> A quotation at the end.")
    assert text.count("# A small heading") == 1
