"""Every kind of update becomes events, every detail the model has room for is in them, and nothing an agent sends raises."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.agents.acp_translate import translate_session_reply, translate_update
from sidecar.session.events import (
    CommandsReplaced,
    CompactionChanged,
    ConfigReplaced,
    ContentAdded,
    InfoChanged,
    ModeChanged,
    ModesReplaced,
    NoticeAdded,
    PlanReplaced,
    SessionEvent,
    TextDelta,
    ToolCallChanged,
    UnknownUpdate,
    UsageChanged,
)

META: dict[str, Any] = {"kiro": {"timestamp": 1}, "vendor": [1]}
IMAGE: dict[str, Any] = {"type": "image", "data": "AA==", "mimeType": "image/png"}
ENTRY: dict[str, Any] = {"content": "step", "priority": "high", "status": "pending", "_meta": {"a": 1}}
COMMAND: dict[str, Any] = {"name": "review", "description": "d", "input": {"hint": "what"}, "_meta": {"kiro": {"type": "skill"}}}
OPTION: dict[str, Any] = {
    "id": "model",
    "name": "Model",
    "type": "select",
    "category": "model",
    "currentValue": "a",
    "options": [],
    "new": 1,
}
DIFF: dict[str, Any] = {"type": "diff", "path": "file:///w/a.txt", "oldText": "", "newText": "x"}

CASES: list[tuple[dict[str, Any], list[SessionEvent]]] = [
    (
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}},
        [TextDelta("agent", "hi")],
    ),
    (
        {"content": {"text": "", "type": "text"}, "messageId": "m", "sessionUpdate": "agent_thought_chunk", "_meta": META},
        [TextDelta("thought", "", "m", META)],
    ),
    (
        {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "q"}, "_meta": {"kiro": {"replay": True}}},
        [TextDelta("user", "q", None, {"kiro": {"replay": True}}, replay=True)],
    ),
    (
        {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "q"}, "_meta": {"kiro": {"replay": "yes"}}},
        [TextDelta("user", "q", None, {"kiro": {"replay": "yes"}})],
    ),
    (
        {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": "x", "_meta": {"in": 1}},
            "_meta": {"out": 2},
        },
        [TextDelta("agent", "x", None, {"in": 1, "out": 2})],
    ),
    ({"sessionUpdate": "agent_message_chunk", "content": IMAGE}, [ContentAdded("agent", IMAGE)]),
    (
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "hologram", "z": 1}, "messageId": "m"},
        [ContentAdded("agent", {"type": "hologram", "z": 1}, "m")],
    ),
    (
        {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Run", "kind": "execute", "status": "pending", "rawInput": {}},
        [ToolCallChanged("t", {"title": "Run", "kind": "execute", "status": "pending", "raw_input": {}}, announced=True)],
    ),
    (
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "t",
            "name": "write_file",
            "kind": "brew_coffee",
            "status": "paused",
            "content": [DIFF, {"type": "terminal", "terminalId": "1"}],
            "locations": [{"path": "hello.txt", "line": 0}, {"line": 3}, {"path": "/w/b", "x": 1}],
            "rawOutput": {"output": "o", "exitCode": 0},
            "schema_version": 2,
            "_meta": META,
        },
        [
            ToolCallChanged(
                "t",
                {
                    "name": "write_file",
                    "kind": "brew_coffee",
                    "status": "paused",
                    "content": [DIFF, {"type": "terminal", "terminalId": "1"}],
                    "locations": [{"path": "hello.txt", "line": 0}, {"path": "/w/b", "x": 1}],
                    "raw_output": {"output": "o", "exitCode": 0},
                },
                meta=META,
            )
        ],
    ),
    (
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "t",
            "title": None,
            "status": None,
            "content": None,
            "rawInput": None,
            "kind": 7,
            "locations": "here",
        },
        [ToolCallChanged("t", {})],
    ),
    ({"sessionUpdate": "tool_call_update", "toolCallId": "t", "content": []}, [ToolCallChanged("t", {"content": []})]),
    (
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "t",
            "status": "failed",
            "_meta": {"kiro": {"failureReason": "gone", "toolId": "run_command"}},
        },
        [
            ToolCallChanged(
                "t",
                {"status": "failed", "name": "run_command", "failure_reason": "error"},
                meta={"kiro": {"failureReason": "gone", "toolId": "run_command"}},
            )
        ],
    ),
    ({"sessionUpdate": "plan", "entries": [ENTRY], "_meta": META}, [PlanReplaced((ENTRY,), META)]),
    ({"sessionUpdate": "plan", "entries": []}, [PlanReplaced(())]),
    (
        {"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": [ENTRY]}},
        [PlanReplaced((ENTRY,))],
    ),
    ({"sessionUpdate": "plan_removed", "planId": "p"}, [PlanReplaced(())]),
    (
        {"sessionUpdate": "available_commands_update", "availableCommands": [COMMAND, {"description": "nameless"}]},
        [CommandsReplaced([COMMAND])],
    ),
    ({"sessionUpdate": "current_mode_update", "currentModeId": "plan"}, [ModeChanged("plan")]),
    ({"sessionUpdate": "config_option_update", "configOptions": [OPTION]}, [ConfigReplaced((OPTION,))]),
    ({"sessionUpdate": "session_info_update", "title": "T"}, [InfoChanged(title="T")]),
    ({"sessionUpdate": "session_info_update", "title": None, "updatedAt": "2026"}, [InfoChanged(title=None, updated_at="2026")]),
    ({"sessionUpdate": "session_info_update", "title": 5, "_meta": {"pi": 1}}, [InfoChanged(meta={"pi": 1})]),
    ({"sessionUpdate": "usage_update", "used": 10, "size": 100}, [UsageChanged({"used": 10, "size": 100})]),
    (
        {"sessionUpdate": "usage_update", "used": 10, "size": 100, "cost": {"amount": 0.1, "currency": "USD"}},
        [UsageChanged({"used": 10, "size": 100, "cost": {"amount": 0.1, "currency": "USD"}})],
    ),
    ({"sessionUpdate": "usage_update", "used": 10, "cost": None}, [UsageChanged({"used": 10})]),
    (
        {"sessionUpdate": "notice", "severity": "warning", "title": "t", "description": "d"},
        [NoticeAdded("warning", "t", "d")],
    ),
    ({"sessionUpdate": "notice", "severity": "dire", "title": "t", "description": None}, [NoticeAdded("dire", "t")]),
    (
        {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "in_progress"},
        [CompactionChanged("c", "in_progress")],
    ),
    (
        {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "failed", "error": "e", "summary": [IMAGE]},
        [CompactionChanged("c", "failed", (IMAGE,), error="e")],
    ),
    (
        {"sessionUpdate": "compaction_summary_chunk", "compactionId": "c", "content": {"type": "text", "text": "s"}},
        [CompactionChanged("c", summary_text="s")],
    ),
]

KINDS = sorted({str(update["sessionUpdate"]) for update, _ in CASES})


@pytest.mark.parametrize(("update", "events"), CASES, ids=range(len(CASES)))
def test_an_update_becomes_these_events(update: dict[str, Any], events: list[SessionEvent]) -> None:
    assert translate_update(update) == events


@pytest.mark.parametrize(("update", "events"), CASES, ids=range(len(CASES)))
def test_the_update_as_received_is_attached_on_request(update: dict[str, Any], events: list[SessionEvent]) -> None:
    first, *rest = translate_update(update, keep_raw=True)
    assert getattr(first, "raw", None) is update
    assert len(rest) == len(events) - 1


MALFORMED: list[dict[str, Any]] = [
    {},
    {"sessionUpdate": None},
    {"sessionUpdate": 7},
    {"sessionUpdate": "subagent_update", "sessionId": "child"},
    {"sessionUpdate": "session_message", "messageId": "m"},
    {"sessionUpdate": "agent_message_chunk"},
    {"sessionUpdate": "agent_message_chunk", "content": "hi"},
    {"sessionUpdate": "agent_message_chunk", "content": [{"type": "text", "text": "x"}]},
    {"sessionUpdate": "agent_message_chunk", "content": {"type": "text"}},
    {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": 3}},
    {"sessionUpdate": "agent_message_chunk", "content": {"text": "typeless"}},
    {"sessionUpdate": "tool_call", "title": "no id"},
    {"sessionUpdate": "tool_call_update", "toolCallId": 3},
    {"sessionUpdate": "plan", "entries": {"a": 1}},
    {"sessionUpdate": "plan", "entries": ["step"]},
    {"sessionUpdate": "plan_update", "plan": {"type": "markdown", "planId": "p", "content": "# p"}},
    {"sessionUpdate": "plan_removed"},
    {"sessionUpdate": "available_commands_update", "availableCommands": None},
    {"sessionUpdate": "current_mode_update"},
    {"sessionUpdate": "config_option_update", "configOptions": [1]},
    {"sessionUpdate": "usage_update", "used": "many", "size": 1},
    {"sessionUpdate": "notice", "severity": "info"},
    {"sessionUpdate": "compaction_update", "compactionId": "c"},
    {"sessionUpdate": "compaction_summary_chunk", "compactionId": "c", "content": IMAGE},
]


@pytest.mark.parametrize("update", MALFORMED, ids=range(len(MALFORMED)))
def test_what_is_unknown_or_makes_no_sense_is_kept_raw(update: dict[str, Any]) -> None:
    kind = update.get("sessionUpdate")
    assert translate_update(update) == [UnknownUpdate(kind if isinstance(kind, str) else "", update)]


KEYS = [
    "content", "messageId", "toolCallId", "title", "name", "kind", "status", "locations", "rawInput", "rawOutput", "entries",
    "plan", "planId", "availableCommands", "currentModeId", "configOptions", "updatedAt", "used", "size", "cost", "severity",
    "description", "compactionId", "summary", "error", "_meta", "type", "text", "path", "kiro", "replay", "failureReason",
]  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.sampled_from(["text", "items", "\ud83d"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=300)
@given(st.sampled_from([*KINDS, "new_kind"]), st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6), st.booleans())
def test_no_update_raises_and_none_vanishes(kind: str, members: dict[str, Any], keep_raw: bool) -> None:
    update = {"sessionUpdate": kind, **members}
    events = translate_update(update, keep_raw=keep_raw)
    assert events
    assert not keep_raw or getattr(events[0], "raw", None) is update


@given(JSON)
def test_no_reply_raises(value: object) -> None:
    translate_session_reply(value)
    translate_session_reply({"modes": value, "configOptions": value})


def test_a_session_reply_tells_modes_and_options() -> None:
    mode = {"id": "ask", "name": "Ask", "description": None, "_meta": {"x": 1}}
    modes = {"currentModeId": "ask", "availableModes": [mode, {"name": "no id"}, 3], "_meta": {"m": 1}}
    reply = {"sessionId": "s", "modes": modes, "configOptions": [OPTION, 3], "models": {"currentModelId": "x"}}
    assert translate_session_reply(reply) == [ModesReplaced([mode], "ask", {"m": 1}), ConfigReplaced([OPTION])]


@pytest.mark.parametrize(
    "reply",
    [None, [], {}, {"modes": None, "configOptions": None}, {"modes": {"availableModes": []}}, {"configOptions": {"a": 1}}],
)
def test_a_reply_that_says_nothing_of_them_gives_no_events(reply: object) -> None:
    assert translate_session_reply(reply) == []


def test_an_empty_list_of_options_clears_them() -> None:
    assert translate_session_reply({"configOptions": []}) == [ConfigReplaced([])]
