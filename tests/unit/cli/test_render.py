"""What stands on standard output, and that writing it holds nothing up."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from sidecar.cli.output import Output
from sidecar.cli.render import JsonRenderer, Renderer, TextRenderer, tell_as_json
from sidecar.session.events import ContentAdded, LoadBegan, LoadEnded, NoticeAdded, SessionEvent, TextDelta, ToolCallChanged

WAIT_SECONDS = 5.0
Make = Callable[[Output, Callable[[str, str], None]], Renderer]


def text(out: Output, tell: Callable[[str, str], None]) -> Renderer:
    return TextRenderer(out, tell, quiet=False)


def quiet(out: Output, tell: Callable[[str, str], None]) -> Renderer:
    return TextRenderer(out, tell, quiet=True)


def said(value: str, role: Any = "agent") -> TextDelta:
    return TextDelta(role, value)


async def printed(make: Make, use: Callable[[Renderer], None]) -> tuple[str, list[tuple[str, str]]]:
    """Return what stands on standard output and the notes, after ``use`` and the end."""
    reader, writer = os.pipe()
    notes: list[tuple[str, str]] = []
    out = Output(descriptor=writer)
    renderer = make(out, lambda severity, told: notes.append((severity, told)))
    use(renderer)
    renderer.finish()
    with anyio.fail_after(WAIT_SECONDS):
        await out.finish()
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        return file.read().decode(), notes


def events(*batch: SessionEvent) -> Callable[[Renderer], None]:
    """Each event comes with a read of its own."""
    return lambda renderer: [renderer.events("s-1", [event]) for event in batch].clear()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("batch", "shown"),
    [
        ((said("one "), said("two")), "one two\n"),
        ((said("line\n"),), "line\n"),
        ((), ""),
        ((said("half \ud83d"), said("\ude80 whole")), "half \N{ROCKET} whole\n"),
        ((said("half \ud83d"),), "half \\ud83d\n"),
        ((said("a\r"), said("\nb\x1b[2J\u202e")), "a\nb\\u{1b}[2J\\u{202e}\n"),
        ((said("thought", "thought"), said("mine", "user")), ""),
        ((LoadBegan(), said("old"), LoadEnded(ok=True), said("new")), "new\n"),
        ((ContentAdded("agent", {"type": "image"}), said("x")), "x\n"),
        ((said("emoji \N{WOMAN}\u200d\N{PERSONAL COMPUTER}"),), "emoji \N{WOMAN}\u200d\N{PERSONAL COMPUTER}\n"),
    ],
)
async def test_the_answer_is_printed_as_said_but_for_what_controls_a_terminal(
    batch: tuple[SessionEvent, ...], shown: str
) -> None:
    assert (await printed(text, events(*batch)))[0] == shown
    assert (await printed(quiet, events(*batch)))[0] == shown


@pytest.mark.anyio
async def test_a_tool_call_is_a_line_of_its_own_and_none_when_quiet() -> None:
    batch = (
        said("before"),
        ToolCallChanged("t", {"title": "Edit\x1b a", "status": "pending"}, announced=True),
        ToolCallChanged("t", {"status": "completed"}),
        said("after"),
    )
    assert (await printed(text, events(*batch)))[0] == "before\n[completed] Edit\\u{1b} a\nafter\n"
    assert (await printed(quiet, events(*batch)))[0] == "before\nafter\n"


@pytest.mark.anyio
async def test_warnings_of_the_agent_are_notes_and_no_data() -> None:
    shown, notes = await printed(text, events(NoticeAdded("warning", "careful", "now"), NoticeAdded("info", "nothing")))
    assert (shown, notes) == ("", [("warning", "careful: now")])


@pytest.mark.anyio
@pytest.mark.parametrize("make", [text, quiet, JsonRenderer])
async def test_a_hidden_address_is_printed_by_nobody(make: Make) -> None:
    address = "https://as.example/authorize?state=Zq7-sentinel&x=1"

    def use(renderer: Renderer) -> None:
        renderer.hide(address)
        renderer.events("s-1", [said(f"go to {address} now")])

    shown, _ = await printed(make, use)
    assert "sentinel" not in shown
    assert "go to *** now" in shown


@pytest.mark.anyio
async def test_numbers_that_json_does_not_have_and_half_characters_leave_whole_lines() -> None:
    raw = {"sessionUpdate": "x", "n": float("nan"), "half": "\ud83d"}
    shown, _ = await printed(JsonRenderer, events(TextDelta("agent", "x", raw=raw)))
    assert shown.isascii()
    assert json.loads(shown)["data"]["n"] is None


@pytest.mark.anyio
async def test_a_reader_that_does_not_read_holds_nothing_up() -> None:
    reader, writer = os.pipe()
    out = Output(descriptor=writer)
    with anyio.fail_after(WAIT_SECONDS):
        for _ in range(64):
            out.write("x" * 65536)
        with anyio.move_on_after(0.01) as gave_up:
            await out.finish()
        assert gave_up.cancelled_caught
    left = 64 * 65536
    while left:
        left -= len(os.read(reader, 65536))
    with anyio.fail_after(WAIT_SECONDS):
        await out.finish()
    os.close(reader)
    os.close(writer)


@pytest.mark.anyio
async def test_a_reader_that_has_gone_is_told_once() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    told = anyio.Event()
    out = Output(lambda _: told.set(), descriptor=writer)
    out.write("x")
    with anyio.fail_after(WAIT_SECONDS):
        await told.wait()
        out.write("y")
        await out.settled()
        await out.finish()
    assert out.broken == "Broken pipe"
    os.close(writer)


def test_a_strict_note_is_one_object_whatever_it_holds(capfd: pytest.CaptureFixture[str]) -> None:
    tell_as_json("error", 'two\nlines "quoted" \ud83d token=abcdefghij ' + "x " * 9000)
    (line,) = capfd.readouterr().err.splitlines()
    note = json.loads(line)
    assert note["type"] == "error"
    assert "abcdefghij" not in note["message"]


def test_run_loads_nothing_of_the_language_server() -> None:
    heavy = ("pygls", "lsprotocol", "keyring", "watchfiles", "http", "urllib.request", "email")
    code = f"import sys, sidecar.cli.run; print([name for name in {heavy} if name in sys.modules])"
    repository = str(Path(__file__).resolve().parents[3])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([repository, *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
