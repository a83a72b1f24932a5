"""NDJSON: one line a protocol event, as received."""

from typing import Any

import pytest

from sidecar.agents.acp_frames import turn_ended
from sidecar.agents.acp_translate import translate_update
from sidecar.cli.events import EventLines
from sidecar.rpc.messages import IncomingReply
from sidecar.session.events import CancelRequested, LoadBegan, LoadEnded, SessionEvent, TextDelta, ToolCallChanged, TurnEnded

TEXT = {"type": "text", "text": "hi"}


def lines_of(*updates: dict[str, Any]) -> list[tuple[str, Any]]:
    lines = EventLines()
    return [line for update in updates for line in lines.of_batch(translate_update(update, keep_raw=True))]


@pytest.mark.parametrize(
    ("kind", "update"),
    [
        ("delta", {"sessionUpdate": "agent_message_chunk", "content": TEXT, "messageId": "m", "_meta": {"x": 1}}),
        ("reasoning", {"sessionUpdate": "agent_thought_chunk", "content": TEXT}),
        ("user_message", {"sessionUpdate": "user_message_chunk", "content": TEXT}),
        (
            "delta",
            {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "AA==", "mimeType": "image/png"}},
        ),
        ("tool_call_start", {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x", "status": "in_progress"}),
        ("tool_call_complete", {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x", "status": "completed"}),
        ("tool_call_delta", {"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "y"}),
        ("tool_call_ready", {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "in_progress"}),
        ("tool_call_complete", {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "failed"}),
        (
            "tool_call_cancelled",
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": "t",
                "status": "failed",
                "_meta": {"kiro": {"failureReason": "cancelled"}},
            },
        ),
        ("plan", {"sessionUpdate": "plan", "entries": [{"content": "a", "priority": "high", "status": "pending"}]}),
        ("usage", {"sessionUpdate": "usage_update", "used": 1, "size": 10}),
        ("title_changed", {"sessionUpdate": "session_info_update", "title": "T"}),
        ("session_info", {"sessionUpdate": "session_info_update", "_meta": {"kiro": {"kind": "turn_start"}}}),
        ("commands", {"sessionUpdate": "available_commands_update", "availableCommands": []}),
        ("mode", {"sessionUpdate": "current_mode_update", "currentModeId": "ask"}),
        ("config", {"sessionUpdate": "config_option_update", "configOptions": []}),
        ("unknown", {"sessionUpdate": "of_tomorrow", "body": [1, None, True]}),
    ],
)
def test_an_update_is_one_line_with_all_it_held(kind: str, update: dict[str, Any]) -> None:
    assert lines_of(update) == [(kind, update)]


def test_an_update_that_means_two_things_is_one_line_still() -> None:
    update = {
        "sessionUpdate": "session_info_update",
        "title": "T",
        "_meta": {"kiro": {"kind": "context_usage", "usagePercentage": 3.5}},
    }
    assert len(translate_update(update, keep_raw=True)) == 2
    assert lines_of(update) == [("usage", update)]


def test_a_tool_call_gets_ready_once() -> None:
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "in_progress"}
    assert [kind for kind, _ in lines_of(update, update)] == ["tool_call_ready", "tool_call_delta"]


def test_what_a_permission_request_says_of_its_call_is_no_line_of_its_own() -> None:
    assert EventLines().of_batch([ToolCallChanged("t", {"title": "x"})]) == []


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        ({"stopReason": "end_turn", "usage": {"totalTokens": 3}}, "turn_complete"),
        ({"stopReason": "max_tokens"}, "turn_complete"),
        ({"stopReason": "brand_new"}, "turn_complete"),
        ({"stopReason": "cancelled"}, "turn_cancelled"),
        ({}, "turn_complete"),
    ],
)
def test_the_reply_of_the_prompt_ends_the_turn_as_received(result: dict[str, Any], kind: str) -> None:
    (line,) = EventLines().of_batch([turn_ended("t-1", IncomingReply(1, "session/prompt", result), "")])
    assert line == (kind, {**result, "turnId": "t-1", "outcome": "ended"})


def test_an_empty_batch_and_events_of_our_own_give_no_line() -> None:
    assert EventLines().of_batch([]) == []
    assert EventLines().of_batch([CancelRequested("t-1")]) == []


def test_a_cancelled_turn_closes_its_open_tool_calls_and_nothing_comes_after_it() -> None:
    lines = EventLines()
    call: list[SessionEvent] = [ToolCallChanged("t", {"status": "pending"}, announced=True)]
    lines.of_batch(call)
    ended = lines.of_batch([TurnEnded("t-1", "ended", stop_reason="cancelled"), TextDelta("agent", "late")])
    assert [kind for kind, _ in ended] == ["tool_call_cancelled", "turn_cancelled"]
    assert lines.of_batch([TextDelta("agent", "later still")]) == []


def test_a_lost_agent_is_an_error_with_its_sentence() -> None:
    (line,) = EventLines().of_batch([TurnEnded("t-1", "unknown", error="it is gone")])
    assert line == ("turn_error", {"message": "it is gone", "turnId": "t-1", "outcome": "unknown"})


def test_replayed_history_gives_no_lines() -> None:
    lines = EventLines()
    old, new = TextDelta("agent", "old"), TextDelta("agent", "new")
    assert lines.of_batch([LoadBegan(), old]) == []
    assert lines.of_batch([old, LoadEnded(ok=True), new]) == [("delta", {"text": "new"})]
