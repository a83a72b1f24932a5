"""Terminals beside the turns: what is shown, what a reader is sent, and what a load leaves alone."""

from sidecar.session.cursor import Cursor
from sidecar.session.events import LoadBegan, LoadEnded, SessionEvent, TerminalChanged, TextDelta
from sidecar.session.model import SessionState
from sidecar.session.terminals import MAX_TERMINALS, SHOWN_CHARACTERS
from tests.unit.session.reference_client import ReferenceClient

OURS = TerminalChanged("ours", {"command": "make", "cwd": "/w"}, output="one\n", live=True)


def state_of(*events: SessionEvent) -> SessionState:
    state = SessionState()
    state.apply(events)
    return state


def test_output_is_replaced_or_appended_and_fields_are_merged() -> None:
    state = state_of(OURS, TerminalChanged("ours", {"truncated": True}, output="two\n", live=True))
    state.apply([TerminalChanged("theirs", appended="a"), TerminalChanged("theirs", {"other": 1}, appended="b")])
    assert state.to_json()["terminals"] == [
        {"terminalId": "ours", "command": "make", "cwd": "/w", "output": "two\n", "truncated": True},
        {"terminalId": "theirs", "output": "ab", "truncated": False},
    ]


def test_no_more_than_the_end_of_the_output_and_the_newest_terminals_are_kept() -> None:
    state = state_of(TerminalChanged("t", appended="x" * SHOWN_CHARACTERS), TerminalChanged("t", appended="y"))
    (shown,) = state.to_json()["terminals"]
    assert (len(shown["output"]), shown["output"][-1], shown["truncated"]) == (SHOWN_CHARACTERS, "y", True)
    state.apply([TerminalChanged(str(number)) for number in range(MAX_TERMINALS)])
    kept = [terminal["terminalId"] for terminal in state.to_json()["terminals"]]
    assert kept == [str(number) for number in range(MAX_TERMINALS)]


def test_a_reader_gets_the_newest_state_of_a_terminal_once_and_nothing_when_nothing_changed() -> None:
    state = state_of(OURS)
    client, cursor = ReferenceClient(state.to_json()), Cursor(state)
    for number in range(1000):
        state.apply([TerminalChanged("ours", output=f"{number}\n", live=True)])
    changes = cursor.take(1 << 20)
    assert [change["kind"] for change in changes] == ["terminal"]
    client.apply(changes)
    assert client.view["terminals"] == state.to_json()["terminals"]
    state.apply([TerminalChanged("ours", output="999\n", live=True)])
    assert not cursor.pending


def test_a_load_keeps_what_runs_here_and_builds_what_its_history_shows_anew() -> None:
    state = state_of(OURS, TerminalChanged("theirs", appended="old"))
    client, cursor = ReferenceClient(state.to_json()), Cursor(state)
    state.apply([LoadBegan(), TextDelta("user", "hello"), TerminalChanged("theirs", appended="new")])
    state.apply([TerminalChanged("ours", {"exitStatus": {"exitCode": 0, "signal": None}}, live=True)])
    state.apply([LoadEnded(ok=True)])
    client.apply(cursor.take(1 << 20))
    shown = {terminal["terminalId"]: terminal for terminal in state.to_json()["terminals"]}
    assert shown["theirs"]["output"] == "new"
    assert shown["ours"]["output"] == "one\n"
    assert shown["ours"]["exitStatus"] == {"exitCode": 0, "signal": None}
    assert {terminal["terminalId"]: terminal for terminal in client.view["terminals"]} == shown


def test_a_load_that_failed_changes_no_terminal() -> None:
    state = state_of(OURS, TerminalChanged("theirs", appended="old"))
    before = state.to_json()["terminals"]
    state.apply([LoadBegan(), TerminalChanged("theirs", appended="new"), LoadEnded(ok=False)])
    assert state.to_json()["terminals"] == before
