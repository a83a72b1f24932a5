"""Every fault an agent can have, through the real language server: told or healed in bounded time, and nobody else is touched.

One sidecar serves all of them, one agent and session after the other, as one editor would over a day (cases O39 and O40).
"""

import contextlib
import re
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.peers.faults import AT_PROMPT, AT_START
from tests.peers.lsp_client import LspClient
from tests.process.editor_world import NOISE, PLUGIN, REPOSITORY, START_SECONDS, World, text_of, turn_of

REFUSED = {
    "exit_at_once": "exited with code 7.*configuration is broken",
    "half_then_exit": "exited with code 0",
    "closes_stdout": "closed its output but goes on running",
    "dead_launcher": "exited with code 3",
}
"""Agents that never get as far as a session, and what the user is told."""

SILENT = {"never_replies", "never_reads"}
BROKEN_OFF = {"closes_stdout_in_turn", "exit_in_turn", "kill_in_turn", "half_in_turn"}
STUCK = {"prompt_unanswered", "stops_reading", "endless_line"}
FAILED = {"result_and_error"}
ANSWERS = {"repeated_id", "id_as_string"}
LARGE = {"long_line", "flood"}
"""Looked at in an editor of their own: a whole turn of these is not asked for again and again."""

AMOUNTS = {"flood": "20", "long_line": "60", "endless_line": "20", "stderr_flood": "5", "stderr_flood_first": "5"}
PEAK_BYTES = 300_000_000


def _table(name: str) -> dict[str, Any]:
    words = [sys.executable, "-m", "tests.peers.faults", name, *([AMOUNTS[name]] if name in AMOUNTS else [])]
    return {"protocol": "acp", "command": words, "env": {"PYTHONPATH": str(REPOSITORY)}}


def _good() -> dict[str, Any]:
    return {"protocol": "acp", "command": [sys.executable, "-m", "tests.peers.plain"], "env": {"PYTHONPATH": str(REPOSITORY)}}


@contextlib.contextmanager
def editor(root: Path) -> Generator[LspClient]:
    """Start a sidecar that knows an agent for each fault, and a good one; it must end cleanly."""
    root.mkdir()
    world = World(root, {**{name: _table(name) for name in (*AT_START, *AT_PROMPT)}, "good": _good()})
    with world.start(ignore=[*NOISE, "window/showMessage"]) as client:
        client.initialize(PLUGIN, **world.options("good"))
        yield client


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Generator[LspClient]:
    """One editor for all faults of this file."""
    with editor(tmp_path_factory.mktemp("faults") / "world") as client:
        yield client


def session(client: LspClient, agent: str) -> str:
    return str(client.result("sidecar/session/new", {"agent": agent}, within=START_SECONDS)["sessionId"])


def prompt(client: LspClient, session_id: str, text: str = "hello") -> str:
    asked = {"text": text, "sessionId": session_id}
    return str(client.result("sidecar/prompt", asked, within=START_SECONDS)["turnId"])


def idle(client: LspClient, session_id: str) -> None:
    """Wait for the end of what runs in a session, without asking for its text."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        sessions = client.result("sidecar/status", within=START_SECONDS)["sessions"]
        if next(item["state"] for item in sessions if item["sessionId"] == session_id) == "idle":
            return
        assert time.monotonic() < deadline, f"the turn did not end: {sessions}"


def another_session_works(client: LspClient) -> None:
    """The next ordinary prompt elsewhere is answered."""
    session_id = session(client, "good")
    turn = turn_of(client, prompt(client, session_id, "still there?"), sessionId=session_id)
    assert text_of(turn) == "You said: still there?"
    client.result("sidecar/session/close", {"sessionId": session_id})
    assert client.process.poll() is None


def peak(client: LspClient) -> int:
    """Return the most memory the sidecar ever held, in bytes."""
    status = Path(f"/proc/{client.process.pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def test_the_faults_are_all_looked_at() -> None:
    named = {*REFUSED, *SILENT, *BROKEN_OFF, *STUCK, *FAILED, *ANSWERS}
    assert named <= {*AT_START, *AT_PROMPT}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_an_agent_that_does_not_come_up_is_told_with_its_reason(shared: LspClient, name: str) -> None:
    before = time.monotonic()
    told = shared.error("sidecar/session/new", {"agent": name}, within=START_SECONDS)["message"]
    assert time.monotonic() - before < START_SECONDS
    assert re.search(REFUSED[name], told, re.DOTALL)
    another_session_works(shared)


@pytest.mark.parametrize("name", sorted(SILENT))
def test_an_agent_that_says_nothing_holds_up_nobody_and_waiting_for_it_can_be_ended(shared: LspClient, name: str) -> None:
    waiting = shared.request("sidecar/session/new", {"agent": name})
    another_session_works(shared)
    shared.cancel(waiting)
    assert shared.reply(waiting)["error"]["code"] == -32800
    another_session_works(shared)


@pytest.mark.parametrize("name", sorted({*AT_START, *AT_PROMPT} - {*REFUSED, *SILENT, *BROKEN_OFF, *STUCK, *FAILED, *LARGE}))
def test_a_fault_an_agent_survives_costs_no_turn_of_anybody(shared: LspClient, name: str) -> None:
    session_id = session(shared, name)
    turn = turn_of(shared, prompt(shared, session_id), sessionId=session_id)
    assert (turn["outcome"], turn["stopReason"]) == ("ended", "end_turn")
    if name not in ANSWERS:
        assert text_of(turn).endswith("alive")
    again = turn_of(shared, prompt(shared, session_id), sessionId=session_id)
    assert again["outcome"] == "ended"
    assert text_of(again) == "alive"
    another_session_works(shared)


@pytest.mark.parametrize("name", sorted(FAILED))
def test_a_reply_that_makes_no_sense_ends_its_turn_only(shared: LspClient, name: str) -> None:
    session_id = session(shared, name)
    turn = turn_of(shared, prompt(shared, session_id), sessionId=session_id)
    assert turn["outcome"] == "failed"
    assert turn["error"]
    assert text_of(turn_of(shared, prompt(shared, session_id), sessionId=session_id)) == "alive"
    another_session_works(shared)


@pytest.mark.parametrize("name", sorted(BROKEN_OFF))
def test_a_turn_whose_agent_goes_keeps_its_words_and_its_outcome_is_unknown(shared: LspClient, name: str) -> None:
    session_id = session(shared, name)
    turn = turn_of(shared, prompt(shared, session_id), sessionId=session_id)
    assert turn["outcome"] == "unknown"
    assert "not sent again" in turn["error"]
    assert text_of(turn) == "last words"
    another_session_works(shared)


@pytest.mark.parametrize("name", sorted(STUCK))
def test_an_agent_that_is_stuck_in_a_turn_is_ended_when_the_user_says_so(shared: LspClient, name: str) -> None:
    session_id = session(shared, name)
    turn_id = prompt(shared, session_id)
    another_session_works(shared)
    assert shared.result("sidecar/cancel", {"sessionId": session_id})["state"] == "cancelling"
    shared.result("sidecar/agent/restart", {"sessionId": session_id}, within=START_SECONDS)
    assert turn_of(shared, turn_id, sessionId=session_id)["outcome"] == "unknown"
    another_session_works(shared)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of a process is read from /proc")
@pytest.mark.parametrize("name", ["long_line", "endless_line", "nested_arrays", "long_number", "flood"])
def test_no_message_however_large_or_deep_costs_much_memory(name: str, tmp_path: Path) -> None:
    """O39: below 300 MB, the 60 MB line included."""
    with editor(tmp_path / "world") as client:
        session_id = session(client, name)
        prompt(client, session_id)
        if name not in STUCK:
            idle(client, session_id)
        another_session_works(client)
        assert peak(client) < PEAK_BYTES
        client.result("sidecar/agent/restart", {"sessionId": session_id}, within=START_SECONDS)
