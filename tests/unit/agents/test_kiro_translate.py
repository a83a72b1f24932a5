"""What Kiro says beside the standard: its own kinds, snapshots and notes become events; nothing of it ends a turn or asks."""

from typing import Any, cast

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.acp.kiro_v3 import FROM_AGENT, INFO_KINDS
from sidecar.agents.acp_translate import translate_notification, translate_update
from sidecar.session.events import (
    CompactionChanged,
    InfoChanged,
    McpServersReplaced,
    NoticeAdded,
    SessionEvent,
    SteeringChanged,
    ToolCallChanged,
    ToolsReplaced,
    TurnEnded,
    TurnStarted,
    UnknownUpdate,
    UsageChanged,
)

SERVER: dict[str, Any] = {"name": "docs", "status": "failed", "failedAuthorization": True, "errorMessage": "401", "tools": []}


def info(kind: str, **members: Any) -> dict[str, Any]:
    return {"sessionUpdate": "session_info_update", "_meta": {"kiro": {"kind": kind, **members}}}


INFO_CASES: list[tuple[dict[str, Any], SessionEvent]] = [
    (
        info("context_usage", usagePercentage=3.5, breakdown={"tools": {"tokens": 9}}),
        UsageChanged({"percent": 3.5, "breakdown": {"tools": {"tokens": 9}}}),
    ),
    (info("context_usage", usagePercentage=4), UsageChanged({"percent": 4})),
    (
        info("turn_completion", elapsedTime=1200, status="success", promptTurnSummaries=[{"unit": "credit", "usage": 0.1}]),
        UsageChanged(
            {"turn": {"elapsedTime": 1200, "status": "success", "promptTurnSummaries": [{"unit": "credit", "usage": 0.1}]}}
        ),
    ),
    (info("steering_queued", messageId="m", content="use tabs"), SteeringChanged("queued", ("m",), "use tabs")),
    (info("steering_injected", messageId="m"), SteeringChanged("injected", ("m",))),
    (info("steering_cleared", messageIds=["a", 3, "b"]), SteeringChanged("cleared", ("a", "b"))),
    (info("summarization_started"), CompactionChanged("summarization", "in_progress")),
    (info("summarization_completed", executionId="e"), CompactionChanged("e", "completed")),
    (info("summarization_failed", message="too long"), CompactionChanged("summarization", "failed", error="too long")),
    (info("summary_message", content="short"), CompactionChanged("summarization", summary=({"type": "text", "text": "short"},))),
    (info("display_error", message="boom", errorType="Throttled"), NoticeAdded("error", "boom", "Throttled", "kiro")),
    (info("focus_update", title="Fix the test"), InfoChanged(title="Fix the test")),
]


@pytest.mark.parametrize(("update", "expected"), INFO_CASES, ids=[case[0]["_meta"]["kiro"]["kind"] for case in INFO_CASES])
def test_a_kind_becomes_its_event_with_meta_and_raw(update: dict[str, Any], expected: SessionEvent) -> None:
    [event] = translate_update(update, keep_raw=True)
    changes: dict[str, Any] = {"raw": update}
    if not isinstance(expected, SteeringChanged):
        changes["meta"] = update["_meta"]
    assert event == attrs.evolve(cast("Any", expected), **changes)


def test_a_queued_prompt_is_a_note() -> None:
    [event] = translate_update(info("queued", activeSessionId="sess_2"))
    assert isinstance(event, NoticeAdded)
    assert event.description == "Session sess_2 is at work."


@pytest.mark.parametrize(
    "kind",
    [
        "turn_start",
        "turn_end",
        "user_message_id_assigned",
        "pending_interaction",
        "interaction_resolved",
        "summarization_separator",
    ],
)
def test_marks_of_a_turn_and_mirrors_of_a_question_change_nothing_and_keep_their_meta(kind: str) -> None:
    update = info(kind, stopReason="end_turn", toolCallId="t", options=[{"optionId": "accept"}])
    assert translate_update(update) == [InfoChanged(meta=update["_meta"])]


@pytest.mark.parametrize("kind", ["hook_update", "model_routed", "recap", "steering_inclusion", "from_the_future"])
def test_a_kind_without_a_meaning_here_is_kept_raw(kind: str) -> None:
    update = info(kind, x=1)
    assert translate_update(update) == [UnknownUpdate(f"session_info_update/{kind}", update)]


@pytest.mark.parametrize("kind", ["context_usage", "display_error", "focus_update", "summary_message"])
def test_a_known_kind_without_its_content_is_kept_raw(kind: str) -> None:
    update = info(kind, usagePercentage="3", message=5, title={}, content=[])
    assert translate_update(update) == [UnknownUpdate(f"session_info_update/{kind}", update)]


def test_a_standard_title_beside_a_kind_counts_too() -> None:
    update: dict[str, Any] = {**info("focus_update", title="T"), "title": "T"}
    first, second = translate_update(update, keep_raw=True)
    assert first == InfoChanged(title="T", meta=update["_meta"])
    assert second == InfoChanged(title="T", meta=update["_meta"], raw=update)


@given(
    st.sampled_from(sorted(INFO_KINDS)),
    st.dictionaries(
        st.sampled_from(["message", "title", "messageIds", "breakdown", "stopReason"]),
        st.none() | st.integers() | st.text() | st.lists(st.integers()),
    ),
)
def test_no_kind_ever_ends_or_starts_a_turn(kind: str, members: dict[str, Any]) -> None:
    events = translate_update(info(kind, **members))
    assert events
    assert not any(isinstance(event, TurnEnded | TurnStarted) for event in events)


def notice(severity: str, title: str, description: str | None = None) -> list[SessionEvent]:
    return [NoticeAdded(severity, title, description, "kiro")]


NOTES: list[tuple[str, dict[str, Any], list[SessionEvent]]] = [
    ("_kiro/mcp/status", {"servers": [SERVER, {"status": "nameless"}]}, [McpServersReplaced([SERVER])]),
    ("_kiro/mcp/status", {"servers": []}, [McpServersReplaced([])]),
    ("_kiro/tools/didChange", {"tags": [{"tag": "read", "source": "s"}]}, [ToolsReplaced(({"tag": "read", "source": "s"},))]),
    ("_kiro/error/rate_limit", {"message": "slow down"}, notice("warning", "The model service limits requests", "slow down")),
    (
        "_kiro/customAgent/not_found",
        {"requestedAgent": "a", "fallbackAgent": "b"},
        notice("warning", "The custom agent a was not found", "b is used instead."),
    ),
    (
        "_kiro/customAgent/config_error",
        {"path": "/a.json", "error": "bad"},
        notice("error", "A custom agent's file has an error", "/a.json: bad"),
    ),
    ("_kiro/system/notify", {"level": "warn", "message": "m"}, notice("warning", "m")),
    ("_kiro/system/notify", {"message": "m"}, notice("info", "m")),
    ("_kiro/policy/changed", {"status": "loaded"}, notice("info", "The permission policy changed (loaded)")),
    (
        "_kiro/policy/changed",
        {"status": "invalid", "errors": ["line 3", {"message": "line 4"}]},
        notice("warning", "The permission policy changed (invalid)", "line 3; line 4"),
    ),
    ("_kiro/policy/error", {"message": "unreadable"}, notice("error", "The permission policy could not be used", "unreadable")),
    ("_kiro/mcp/governance_disabled", {}, notice("warning", "MCP servers are switched off by your organisation")),
    (
        "_kiro.dev/metadata",
        {"contextUsagePercentage": 12.5, "turnDurationMs": 3},
        [UsageChanged({"percent": 12.5, "turn": {"turnDurationMs": 3}})],
    ),
    (
        "_kiro.dev/compaction/status",
        {"status": {"type": "failed", "error": "e"}, "summary": "s"},
        [CompactionChanged("compaction", "failed", ({"type": "text", "text": "s"},), error="e")],
    ),
    (
        "_kiro.dev/commands/available",
        {"commands": [{"name": "/compact"}], "tools": [{"name": "t"}], "mcpServers": [SERVER]},
        [ToolsReplaced(({"name": "t"},)), McpServersReplaced([SERVER])],
    ),
    (
        "_kiro.dev/mcp/server_init_failure",
        {"serverName": "docs", "error": "e"},
        notice("warning", "The MCP server docs could not be started", "e"),
    ),
    ("_kiro.dev/error/rate_limit", {"message": "m"}, notice("warning", "The model service limits requests", "m")),
    (
        "_kiro.dev/agent/not_found",
        {"requestedAgent": "a", "fallbackAgent": None},
        notice("warning", "The agent a was not found"),
    ),
    ("_kiro.dev/agent/config_error", {"error": "e"}, notice("error", "An agent's file has an error", "e")),
    ("_kiro.dev/agent/switched", {"agentName": "b"}, notice("info", "The agent switched to b")),
    (
        "_kiro.dev/session/update",
        {"update": {"sessionUpdate": "tool_call_chunk", "toolCallId": "t", "title": "x", "kind": "edit"}},
        [ToolCallChanged("t", {"title": "x", "kind": "edit"})],
    ),
    (
        "_kiro.dev/session/update",
        {"update": {"sessionUpdate": "retry_warning", "attempt": 1, "message": "trying again"}},
        notice("warning", "trying again"),
    ),
    (
        "_kiro.dev/session/update",
        {"update": {"sessionUpdate": "model_fallback", "from": "a"}},
        [UnknownUpdate("model_fallback", {"sessionUpdate": "model_fallback", "from": "a"})],
    ),
]


@pytest.mark.parametrize(("method", "params", "events"), NOTES, ids=[f"{i} {note[0]}" for i, note in enumerate(NOTES)])
def test_a_notification_becomes_these_events_of_its_session(
    method: str, params: dict[str, Any], events: list[SessionEvent]
) -> None:
    assert translate_notification(method, params) == (None, events)
    assert translate_notification(method, {**params, "sessionId": "s"})[0] == "s"


@pytest.mark.parametrize("method", ["_kiro/sessions/changed", "elicitation/complete", "$/progress", "$/anything"])
def test_notifications_known_by_their_method_alone_give_no_events(method: str) -> None:
    assert translate_notification(method, {"upserted": [], "elicitationId": "e"}) == (None, [])


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("_kiro/steering/documents_changed", {"sessionId": "s", "documents": ["x" * 10]}),
        ("_kiro/governance/state", {"sessionId": "s", "features": {}}),
        ("_session/retrying", {"attempt": 1}),
        ("_kiro.dev/clear/status", {"sessionId": "s"}),
        ("_kiro/mcp/status", {"servers": "none"}),
        ("_kiro/customAgent/renamed", {"a": 1}),
        ("something/else", None),
        ("_x", [1]),
    ],
)
def test_any_other_notification_is_kept_raw(method: str, params: Any) -> None:
    _, events = translate_notification(method, params)
    assert events == [UnknownUpdate(method, {"method": method, "params": params})]


def test_no_address_of_a_sign_in_survives_anywhere() -> None:
    url = "https://login.example/authorize?state=sentinel&code_challenge=sentinel"
    server = {
        **SERVER,
        "authorizationUrl": url,
        "origin": {"authorizationUrl": url, "auth": [{"oauthUrl": url}]},
        "errorMessage": f"open {url} now",
    }
    bodies: list[tuple[str, Any]] = [
        ("_kiro/mcp/status", {"sessionId": "s", "servers": [server]}),
        ("_kiro/mcp/status", {"sessionId": "s", "servers": {"broken": server}}),
        ("_kiro.dev/mcp/oauth_request", {"sessionId": "s", "serverName": "docs", "oauthUrl": url}),
        ("_kiro.dev/commands/available", {"mcpServers": [server]}),
        ("_kiro/session/notify", {"deep": [{"authorizationUrl": url}]}),
    ]
    for method, params in bodies:
        _, events = translate_notification(method, params)
        assert events
        assert "sentinel" not in repr(events)
        assert "authorizationUrl" not in repr(events)
    [snapshot] = translate_notification(*bodies[0])[1]
    assert isinstance(snapshot, McpServersReplaced)
    assert snapshot.servers[0]["errorMessage"] == "open https://login.example/authorize now"
    assert snapshot.servers[0]["failedAuthorization"] is True


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["sessionId", "servers", "tags", "message", "update", "sessionUpdate", "status", "errors", "name"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
METHODS = sorted({*FROM_AGENT, *(note[0] for note in NOTES), "_kiro.dev/mcp/oauth_request", "_other"})


@settings(max_examples=300)
@given(st.sampled_from(METHODS), JSON)
def test_no_notification_raises(method: str, params: object) -> None:
    session_id, events = translate_notification(method, params)
    assert session_id is None or isinstance(session_id, str)
    assert events or method == "_kiro/sessions/changed"
