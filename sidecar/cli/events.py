"""Session events as lines of NDJSON (CONTRACT 1): one a protocol event, never coalesced, with the raw protocol data. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from sidecar.session.events import (
    CommandsReplaced,
    CompactionChanged,
    ConfigReplaced,
    ContentAdded,
    InfoChanged,
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
    UnknownUpdate,
    UsageChanged,
)

Line = tuple[str, Mapping[str, Any]]

_ROLES: Final = {"agent": "delta", "thought": "reasoning", "user": "user_message"}
_DONE: Final = frozenset({"completed", "failed"})


def event_lines(event: SessionEvent) -> list[Line]:
    """Return ``(type, data)`` for an event; ``data`` is the update as received where there is one."""
    encode = _ENCODERS.get(type(event))
    return encode(event) if encode is not None else []


def _raw(event: Any, **fallback: Any) -> Mapping[str, Any]:
    raw = getattr(event, "raw", None)
    return raw if raw is not None else {key: value for key, value in fallback.items() if value is not None}


def _text(event: TextDelta) -> list[Line]:
    return [(_ROLES[event.role], _raw(event, text=event.text, messageId=event.message_id))]


def _content(event: ContentAdded) -> list[Line]:
    return [(_ROLES[event.role], _raw(event, content=event.block, messageId=event.message_id))]


def _tool(event: ToolCallChanged) -> list[Line]:
    data = _raw(event, toolCallId=event.tool_call_id, **dict(event.fields))
    status = event.fields.get("status")
    if status in _DONE:
        cancelled = event.fields.get("failure_reason") == "cancelled"
        done = ("tool_call_cancelled" if cancelled else "tool_call_complete", data)
        return [("tool_call_start", data), done] if event.announced else [done]
    if event.announced:
        return [("tool_call_start", data)]
    return [("tool_call_ready" if status == "in_progress" else "tool_call_delta", data)]


def _ended(event: TurnEnded) -> list[Line]:
    data = {**_raw(event), "turnId": event.turn_id, "outcome": event.outcome}
    data |= {"error": event.error} if event.error is not None else {}
    if event.outcome != "ended":
        return [("turn_error", data)]
    return [("turn_cancelled" if event.stop_reason == "cancelled" else "turn_complete", data)]


def _info(event: InfoChanged) -> list[Line]:
    data = _raw(event, title=event.title if isinstance(event.title, str) else None)
    return [("title_changed" if isinstance(event.title, str) else "session_info", data)]


def _named(kind: str) -> Callable[[Any], list[Line]]:
    return lambda event: [(kind, _raw(event))]


def _notice(event: NoticeAdded) -> list[Line]:
    return [("notice", _raw(event, severity=event.severity, title=event.title, description=event.description))]


_ENCODERS: Final[Mapping[type, Callable[[Any], list[Line]]]] = {
    TextDelta: _text,
    ContentAdded: _content,
    ToolCallChanged: _tool,
    TurnEnded: _ended,
    InfoChanged: _info,
    NoticeAdded: _notice,
    PlanReplaced: lambda event: [("plan", _raw(event, entries=list(event.entries)))],
    UsageChanged: lambda event: [("usage", _raw(event, **dict(event.fields)))],
    CommandsReplaced: lambda event: [("commands", _raw(event, availableCommands=list(event.commands)))],
    ModesReplaced: lambda event: [("modes", _raw(event, availableModes=list(event.available), currentModeId=event.current))],
    ModeChanged: lambda event: [("mode", _raw(event, currentModeId=event.mode_id))],
    ConfigReplaced: lambda event: [("config", _raw(event, configOptions=list(event.options)))],
    McpServersReplaced: lambda event: [("mcp_status", {"servers": list(event.servers)})],
    ToolsReplaced: lambda event: [("tools", _raw(event, tools=list(event.tools)))],
    CompactionChanged: _named("compaction"),
    SteeringChanged: lambda event: [("steering", _raw(event, state=event.state, messageIds=list(event.message_ids)))],
    UnknownUpdate: lambda event: [("unknown", event.raw)],
}
