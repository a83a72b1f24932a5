"""A load builds the session from empty beside what is shown, and takes its place as one reset, or leaves no trace."""

from typing import Any

import pytest

from sidecar.session.cursor import Cursor
from sidecar.session.events import (
    CommandsReplaced,
    ContentAdded,
    InfoChanged,
    LoadBegan,
    LoadEnded,
    MarkedIncomplete,
    McpServersReplaced,
    NoticeAdded,
    PlanReplaced,
    SessionEvent,
    TextDelta,
    ToolCallChanged,
    TurnEnded,
    TurnStarted,
)
from sidecar.session.model import SessionState
from tests.unit.session.reference_client import ReferenceClient
from tests.unit.session.test_reducer import IMAGE, agent, parts_of, state_after, tool, user


def loaded(*events: SessionEvent) -> SessionState:
    return state_after(LoadBegan(), *events, LoadEnded(ok=True))


def turns_of(state: SessionState) -> list[list[Any]]:
    return [parts_of(state, number) for number in range(len(state.to_json()["turns"]))]


def test_replayed_user_messages_begin_turns() -> None:
    state = loaded(
        user("one"),
        ContentAdded("user", IMAGE),
        agent("first"),
        user("tw", "u2"),
        user("o", "u2"),
        tool("c", "completed"),
        user("three", "u3"),
        user("four", "u4"),
    )
    assert turns_of(state) == [
        [("user", "one"), "content", ("agent", "first")],
        [("user", "two"), ("c", "completed")],
        [("user", "three")],
        [("user", "four")],
    ]
    assert {turn["origin"] for turn in state.to_json()["turns"]} == {"replay"}


def test_a_load_replaces_what_was_shown_and_what_the_agent_did_not_tell_again_is_gone() -> None:
    state = state_after(TurnStarted("t1", "a"), agent("old"), TurnEnded("t1", "ended", "end_turn"))
    state.apply(
        [
            PlanReplaced([{"content": "old"}]),
            CommandsReplaced([{"name": "old"}]),
            InfoChanged("Title"),
            MarkedIncomplete("dropped"),
        ]
    )
    state.apply([LoadBegan(), user("a", "u1"), agent("new", "m1"), CommandsReplaced([{"name": "new"}])])
    assert parts_of(state) == [("agent", "old")]
    assert state.to_json()["state"] == {"incomplete": "dropped", "loading": True}
    state.apply([LoadEnded(ok=True)])
    shown = state.to_json()
    assert turns_of(state) == [[("user", "a"), ("agent", "new")]]
    assert (shown["plan"], shown["commands"], shown["title"], shown["state"]) == ([], [{"name": "new"}], "Title", {})


def test_a_failed_load_leaves_what_was_shown() -> None:
    state = state_after(TurnStarted("t1", "a"), agent("old"), TurnEnded("t1", "ended", "end_turn"))
    before = state.to_json()
    state.apply([LoadBegan(), user("x"), agent("half"), PlanReplaced([{"content": "x"}])])
    state.apply([LoadEnded(ok=False)])
    assert state.to_json() == before
    state.apply([agent(" and on")])
    assert parts_of(state) == [("agent", "old and on")]


def test_a_load_without_replay_keeps_the_turns_and_takes_the_rest() -> None:
    state = state_after(TurnStarted("t1", "a"), agent("old"), tool("c", "pending"), TurnEnded("t1", "ended", "end_turn"))
    state.apply([CommandsReplaced([{"name": "old"}]), LoadBegan(), LoadEnded(ok=True, replayed=False)])
    assert turns_of(state) == [[("agent", "old"), ("c", "unfinished")]]
    assert state.to_json()["commands"] == []
    state.apply([tool("c", "completed"), agent("late")])
    assert turns_of(state) == [[("agent", "old"), ("c", "completed"), ("agent", "late")]]


@pytest.mark.parametrize("again", [1, 2])
def test_a_history_replayed_twice_is_shown_once(again: int) -> None:
    history: list[SessionEvent] = [
        user("hello", "u1"),
        agent("ha", "m1"),
        agent("ha", "m1"),
        ContentAdded("agent", IMAGE, "m1"),
        tool("c1", "pending", announced=True),
        tool("c1", "completed"),
        agent("done", "m2"),
        user("more", "u2"),
        agent("ok", "m3"),
    ]
    state = loaded(*history, *history * again)
    assert turns_of(state) == [
        [("user", "hello"), ("agent", "haha"), "content", ("c1", "completed"), ("agent", "done")],
        [("user", "more"), ("agent", "ok")],
    ]


def test_a_message_that_says_more_after_it_was_left_loses_nothing() -> None:
    state = loaded(user("q", "u1"), agent("a", "m1"), tool("c", "completed"), agent("b", "m1"), agent("c", "m1"))
    assert turns_of(state) == [[("user", "q"), ("agent", "a"), ("c", "completed"), ("agent", "bc")]]


def test_messages_without_ids_are_never_compared() -> None:
    state = loaded(user("q"), agent("same"), tool("c", "completed"), agent("same"))
    assert turns_of(state) == [[("user", "q"), ("agent", "same"), ("c", "completed"), ("agent", "same")]]


def test_live_text_with_a_known_id_is_never_compared() -> None:
    state = loaded(user("q", "u1"), agent("same", "m1"))
    state.apply([TurnStarted("t1", "go"), tool("c", "completed"), agent("same", "m1"), agent("same", "m1")])
    assert parts_of(state) == [("c", "completed"), ("agent", "samesame")]


def test_a_turn_begun_during_a_load_survives_its_failure() -> None:
    state = state_after(LoadBegan(), user("old", "u1"), TurnStarted("t1", "go"), agent("on it"), LoadEnded(ok=False))
    assert [turn["turnId"] for turn in state.to_json()["turns"]] == ["t1"]
    state.apply([tool("c", "pending"), TurnEnded("t1", "ended", "end_turn")])
    assert parts_of(state) == [("agent", "on it"), ("c", "unfinished")]


def test_a_turn_running_when_a_load_ends_still_gets_its_end() -> None:
    state = state_after(
        TurnStarted("t1", "go"), agent("a"), LoadBegan(), user("x"), TurnEnded("t1", "unknown"), LoadEnded(ok=True)
    )
    assert turns_of(state) == [[("user", "x")]]
    state = state_after(
        TurnStarted("t1", "go"), agent("a"), LoadBegan(), user("x"), LoadEnded(ok=True), TurnEnded("t1", "unknown")
    )
    assert [turn.get("endedAs") for turn in state.to_json()["turns"]] == ["unknown", None]


def test_replay_marked_updates_outside_a_load_begin_turns_but_never_inside_a_live_one() -> None:
    state = state_after(user("old", replay=True), TextDelta("agent", "answer", replay=True))
    assert [turn["origin"] for turn in state.to_json()["turns"]] == ["replay"]
    state.apply([TurnStarted("t1", "go"), user("old", replay=True)])
    assert [turn["origin"] for turn in state.to_json()["turns"]] == ["replay", "prompt"]


def test_notices_and_known_mcp_failures_outlive_a_load() -> None:
    failed = McpServersReplaced([{"name": "docs", "status": "failed"}])
    state = state_after(NoticeAdded("info", "one"), failed, LoadBegan(), failed, NoticeAdded("info", "two"), LoadEnded(ok=True))
    assert [notice["title"] for notice in state.to_json()["notices"]] == ["one", 'MCP server "docs" failed', "two"]


def test_an_end_without_a_begin_and_a_second_begin_are_harmless() -> None:
    state = state_after(agent("a"), LoadEnded(ok=True), LoadEnded(ok=False))
    assert parts_of(state) == [("agent", "a")]
    state.apply([LoadBegan(), user("half"), LoadBegan(), user("whole"), LoadEnded(ok=True)])
    assert turns_of(state) == [[("user", "whole")]]


def test_a_reader_gets_a_load_as_one_reset_with_the_last_turns() -> None:
    state = state_after(TurnStarted("t1", "a"), agent("old"))
    cursor = Cursor(state, turns=2)
    client = ReferenceClient(state.to_json(2))
    state.apply([agent(" more"), LoadBegan(), *(user(f"q{number}", f"u{number}") for number in range(5)), LoadEnded(ok=True)])
    changes = cursor.take(10**6)
    assert next(change["kind"] for change in changes) == "reset"
    assert [change["turn"]["turnId"] for change in changes if change["kind"] == "turn_started"]
    client.apply(changes)
    assert client.view == state.to_json(2)
    assert client.view["before"] == state.to_json(2)["turns"][0]["turnId"]


def test_changes_of_turns_older_than_the_readers_window_can_be_skipped() -> None:
    state = loaded(user("a", "u1"), ToolCallChanged("c", {"status": "pending"}), user("b", "u2"))
    cursor = Cursor(state, turns=1)
    client = ReferenceClient(state.to_json(1))
    state.apply([tool("c", "completed")])
    client.apply(cursor.take(1000))
    assert client.view == state.to_json(1)
