"""A reader that starts from a snapshot and applies changes sees what a fresh snapshot shows, whenever it reads."""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.session.cursor import Cursor, measure
from sidecar.session.events import (
    CancelRequested,
    CommandsReplaced,
    CompactionChanged,
    ConfigReplaced,
    ContentAdded,
    InfoChanged,
    LoadBegan,
    LoadEnded,
    MarkedIncomplete,
    McpServersReplaced,
    ModeChanged,
    ModesReplaced,
    NoticeAdded,
    PlanReplaced,
    SessionEvent,
    SteeringChanged,
    TextDelta,
    ToolCallChanged,
    ToolsReplaced,
    TurnEnded,
    TurnStarted,
    UnknownUpdate,
    UsageChanged,
)
from sidecar.session.model import SessionState
from tests.unit.session.reference_client import ReferenceClient

ALL = 10**6
TEXTS = st.sampled_from(["", "a", "Hello ", "hi", "h", "i there", "\ud83d", "\ude00 x", "é", "中文" * 40, "x" * 300])
IDS = st.sampled_from([None, "m1", "m2"])
METAS = st.sampled_from([None, None, {"kiro": {"a": 1}}, {"kiro": {"b": 2}}, {"other": True}])
ROLES = st.sampled_from(["user", "agent", "thought"])
BLOCKS = st.sampled_from(
    [{"type": "image", "data": "QUJD"}, {"type": "resource_link", "uri": "file:///a"}, {"type": "text", "text": "hi"}]
)
STATUSES = st.sampled_from(["pending", "in_progress", "completed", "failed", "paused"])
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "title": st.sampled_from(["Run", "Run it"]),
        "status": STATUSES,
        "kind": st.just("execute"),
        "content": st.lists(
            st.sampled_from([{"type": "diff", "path": "a", "newText": "é" * 5000}, {"type": "content"}]), max_size=2
        ),
        "raw_input": st.sampled_from([None, {"command": "ls"}]),
        "raw_output": st.sampled_from([None, {"exitCode": 0}]),
        "failure_reason": st.just("denied"),
    },
)
DICTS = st.sampled_from([{"name": "x", "_meta": {"k": 1}}, {"name": "y"}, {"content": "step", "status": "pending"}])
SERVERS = st.sampled_from([{"name": "docs", "status": "connected"}, {"name": "docs", "status": "failed", "errorMessage": "no"}])
TURN_IDS = st.sampled_from(["t1", "t2", "t3"])
BOOLS = st.booleans()

EVENTS: st.SearchStrategy[SessionEvent] = st.one_of(
    st.builds(TextDelta, ROLES, TEXTS, IDS, METAS, BOOLS),
    st.builds(TextDelta, ROLES, TEXTS, IDS, METAS, BOOLS),
    st.builds(ContentAdded, ROLES, BLOCKS, IDS, METAS, BOOLS),
    st.builds(ToolCallChanged, st.sampled_from(["c1", "c2", "c3"]), FIELDS, BOOLS, METAS),
    st.builds(ToolCallChanged, st.sampled_from(["c1", "c2", "c3"]), FIELDS, BOOLS, METAS),
    st.builds(TurnStarted, TURN_IDS, st.sampled_from(["hi there", "Hello", ""]), st.lists(BLOCKS, max_size=2)),
    st.builds(
        TurnEnded,
        TURN_IDS,
        st.sampled_from(["ended", "failed", "unknown"]),
        st.sampled_from([None, "end_turn", "cancelled", "odd"]),
        st.sampled_from([None, "boom"]),
        st.just("2026-01-01"),
        METAS,
    ),
    st.builds(CancelRequested, TURN_IDS, st.just("2026-01-01")),
    st.builds(PlanReplaced, st.lists(DICTS, max_size=2), METAS),
    st.builds(CommandsReplaced, st.lists(DICTS, max_size=2), METAS),
    st.builds(ModesReplaced, st.lists(DICTS, max_size=2), st.sampled_from([None, "ask"])),
    st.builds(ModeChanged, st.sampled_from(["ask", "code"])),
    st.builds(ConfigReplaced, st.just([{"id": "model", "options": [{"value": "a", "_meta": {}}], "_meta": {"q": 1}}]), METAS),
    st.builds(InfoChanged, st.sampled_from([None, "Title"]), st.sampled_from([None, "now"]), METAS),
    st.builds(UsageChanged, st.sampled_from([{"used": 1}, {"size": 9}]), METAS),
    st.builds(NoticeAdded, st.just("info"), st.just("note"), meta=METAS),
    st.builds(
        CompactionChanged,
        st.sampled_from(["k1", "k2"]),
        st.sampled_from([None, "in_progress", "completed"]),
        summary_text=TEXTS,
    ),
    st.builds(ToolsReplaced, st.lists(DICTS, max_size=2)),
    st.builds(McpServersReplaced, st.lists(SERVERS, max_size=2)),
    st.builds(
        SteeringChanged,
        st.sampled_from(["queued", "injected", "dropped"]),
        st.lists(st.sampled_from(["s1", "s2"]), max_size=2),
        st.sampled_from([None, "go on"]),
    ),
    st.builds(LoadBegan),
    st.builds(LoadEnded, BOOLS, BOOLS),
    st.builds(MarkedIncomplete, st.just("a frame was dropped")),
    st.builds(UnknownUpdate, st.just("odd"), st.just({"sessionUpdate": "odd", "n": 1.5})),
)
STEPS = st.lists(
    st.one_of(
        st.lists(EVENTS, min_size=1, max_size=8),
        st.integers(min_value=1, max_value=600),
        st.sampled_from(["queue", "status", "new reader"]),
    ),
    max_size=25,
)


def _canonical(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _run(steps: Sequence[Any]) -> tuple[SessionState, list[tuple[ReferenceClient, Cursor]]]:
    state = SessionState()
    readers: list[tuple[ReferenceClient, Cursor]] = [(ReferenceClient(state.to_json(ALL)), Cursor(state, ALL))]
    for number, step in enumerate(steps):
        if isinstance(step, int):
            client, cursor = readers[number % len(readers)]
            client.apply(cursor.take(step))
        elif step == "queue":
            state.set_queue([{"id": str(number), "text": "next"}])
        elif step == "status":
            state.set_status({"running": bool(number % 2), "waiting": number})
        elif step == "new reader":
            readers.append((ReferenceClient(state.to_json(ALL)), Cursor(state, ALL)))
        else:
            state.apply(step)
    return state, readers


def _drain(cursor: Cursor, size: int = 500) -> list[dict[str, Any]]:
    changes: list[dict[str, Any]] = []
    while cursor.pending:
        taken = cursor.take(size)
        assert taken, "a pending cursor gives at least one change"
        changes += taken
    return changes


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_changes_applied_to_a_snapshot_equal_a_fresh_snapshot(steps: Sequence[Any]) -> None:
    state, readers = _run(steps)
    for client, cursor in readers:
        client.apply(_drain(cursor))
        assert _canonical(client.view) == _canonical(state.to_json(ALL))
        assert not cursor.take(1000)


@settings(max_examples=50, deadline=None)
@given(STEPS)
def test_everything_given_to_a_reader_is_json(steps: Sequence[Any]) -> None:
    state, readers = _run(steps)
    for _, cursor in readers:
        for change in _drain(cursor):
            assert json.loads(json.dumps(change)) == change
    json.dumps(state.to_json())


LIVE = st.lists(
    st.one_of(
        st.tuples(st.just("text"), IDS, st.sampled_from(["a", "bb", "c" * 200])),
        st.tuples(st.just("tool"), st.sampled_from(["c1", "c2", "c3"]), STATUSES),
        st.tuples(st.just("take"), st.none(), st.integers(min_value=1, max_value=400)),
        st.tuples(st.just("plan"), st.none(), st.none()),
    ),
    max_size=60,
)


@settings(max_examples=100, deadline=None)
@given(LIVE)
def test_a_change_of_a_tool_call_or_plan_never_overtakes_text_that_came_before_it(steps: Sequence[tuple[str, Any, Any]]) -> None:
    state = SessionState()
    cursor = Cursor(state)
    sent = 0
    received = 0

    def check(changes: Sequence[dict[str, Any]]) -> None:
        nonlocal received
        for change in changes:
            received += len(change.get("text", ""))
            fields = change.get("fields", change.get("part", {}).get("toolCall", {}))
            needed = fields.get("title") or "".join(entry["content"] for entry in change.get("plan", [])) or "0"
            assert received >= int(needed)

    for what, name, value in steps:
        if what == "text":
            state.apply([TextDelta("agent", value, name)])
            sent += len(value)
        elif what == "tool":
            state.apply([ToolCallChanged(name, {"status": value, "title": str(sent)})])
        elif what == "plan":
            state.apply([PlanReplaced([{"content": str(sent)}])])
        else:
            check(cursor.take(value))
    check(_drain(cursor, 100))
    assert received == sent


def test_a_reader_that_never_reads_holds_one_mark_per_entity() -> None:
    state = SessionState()
    cursor = Cursor(state)
    state.apply([TurnStarted("t1", "go")])
    for number in range(20_000):
        state.apply(
            [
                TextDelta("agent", "word "),
                ToolCallChanged("c1", {"title": str(number)}) if number == 0 else TextDelta("agent", "x"),
            ]
        )
    for _ in range(5000):
        state.apply([ToolCallChanged("c1", {"raw_output": {"n": 1}}), UsageChanged({"used": 1})])
    changes = cursor.take(10**9)
    kinds = [change["kind"] for change in changes]
    assert kinds == [
        "turn_started",
        "steering",
        "state",
        "part_added",
        "part_text",
        "part_added",
        "part_added",
        "part_text",
        "tool_call",
        "usage",
    ]
    assert sum(len(change.get("text", "")) for change in changes) == 20_000 * 5 + 19_999


def test_a_frame_holds_about_as_many_bytes_as_asked_and_loses_nothing() -> None:
    state = SessionState()
    cursor = Cursor(state)
    text = "".join(chr(0x4E00 + number % 5000) if number % 3 else "a" for number in range(50_000))
    state.apply([TextDelta("agent", text)])
    received = ""
    while cursor.pending:
        changes = cursor.take(4000)
        assert sum(len(json.dumps(change)) for change in changes) < 4600
        received += "".join(change.get("text", "") for change in changes)
    assert received == text


def test_a_change_too_big_for_a_frame_is_given_whole() -> None:
    state = SessionState()
    state.apply([ToolCallChanged("c1", {"title": "x"})])
    cursor = Cursor(state)
    state.apply([ToolCallChanged("c1", {"content": [{"type": "diff", "newText": "y" * 100_000}]}), TextDelta("agent", "after")])
    first = cursor.take(1000)
    assert [change["kind"] for change in first] == ["tool_call"]
    assert len(first[0]["fields"]["content"][0]["newText"]) == 100_000
    assert [change["kind"] for change in cursor.take(1000)] == ["part_added", "part_text"]


def test_only_the_fields_that_changed_travel_again() -> None:
    state = SessionState()
    cursor = Cursor(state)
    state.apply(
        [
            ToolCallChanged(
                "c1", {"title": "x", "content": [{"type": "diff", "newText": "y" * 9999}], "status": "pending"}, announced=True
            )
        ]
    )
    cursor.take(10**6)
    state.apply([ToolCallChanged("c1", {"title": "x", "status": "completed"})])
    assert cursor.take(10**6) == [
        {
            "kind": "tool_call",
            "turnId": "before-1",
            "partId": "p2",
            "toolCallId": "c1",
            "fields": {"status": "completed", "closed": False, "shownStatus": "completed"},
        }
    ]


def test_listeners_are_called_once_per_batch_and_may_leave_while_called() -> None:
    state = SessionState()
    calls: list[str] = []

    def leaving() -> None:
        calls.append("leaving")
        state.unsubscribe(leaving)

    state.subscribe(leaving)
    state.subscribe(lambda: calls.append("staying"))
    state.apply([TextDelta("agent", "a"), TextDelta("agent", "b"), PlanReplaced([])])
    state.set_queue([])
    state.set_status({"running": True})
    state.set_status({"running": True})
    assert calls == ["leaving", "staying", "staying", "staying"]


def test_a_closed_cursor_follows_nothing() -> None:
    state = SessionState()
    cursor = Cursor(state)
    state.apply([TextDelta("agent", "a")])
    cursor.close()
    cursor.close()
    state.apply([TextDelta("agent", "b")])
    assert not cursor.pending
    assert cursor.take(100) == []


def test_the_measure_follows_the_size_of_the_json() -> None:
    deep: Any = "x"
    for _ in range(500):
        deep = [deep]
    for value in ("abc" * 1000, "é" * 1000, {"a": [1, 2.5, None, True] * 50}, ["x" * 10] * 100):
        assert 0.5 * len(json.dumps(value)) < measure(value) < 3 * len(json.dumps(value)) + 50
    assert measure(deep) < 10_000
