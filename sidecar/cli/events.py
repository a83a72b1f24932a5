"""Session events as lines of NDJSON (CONTRACT 1): one a protocol event, never coalesced, with the raw protocol data. Pure.

Beside the types of the contract there are those of updates it does not name: ``user_message session_info commands modes mode
config mcp_status tools compaction steering notice unknown``. Where one update means several events, it is one line still.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from sidecar.codec import ABSENT
from sidecar.session.events import (
    CommandsReplaced,
    CompactionChanged,
    ConfigReplaced,
    ContentAdded,
    InfoChanged,
    LoadBegan,
    LoadEnded,
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
from sidecar.session.lenient import object_or_none

Line: TypeAlias = tuple[str, Mapping[str, Any]]

_ROLES: Final = {"agent": "delta", "thought": "reasoning", "user": "user_message"}
_DONE: Final = frozenset({"completed", "failed", "cancelled"})
_CANCELLED: Final = frozenset({"cancelled", "canceled", "interrupted"})


class EventLines:
    """The lines of one session. Knows which tool calls are open, since the end of a cancelled turn ends them too."""

    def __init__(self) -> None:
        self._open: dict[str, bool] = {}
        self._loading = False
        self.ended = False

    def of_batch(self, batch: Sequence[SessionEvent]) -> list[Line]:
        """Return ``(type, data)`` for the events of one read; ``data`` is the update as received where there is one.

        What a load replays gives no lines, since it was said before this run; the end of the turn is the last line. What a
        permission request says of its tool call stands in the line of the request.
        """
        lines: list[Line] = []
        for event, following in zip(batch, [*batch[1:], None], strict=False):
            if isinstance(event, LoadBegan | LoadEnded):
                self._loading = isinstance(event, LoadBegan)
            elif not (self._loading or self.ended or _is_told_by(event, following)):
                lines += self._of(event)
        return lines

    def _of(self, event: SessionEvent) -> list[Line]:
        if isinstance(event, ToolCallChanged):
            return [] if event.raw is None and not event.announced else [self._tool(event)]
        if isinstance(event, TurnEnded):
            self.ended = True
            return [*self._left_open(event), _ended(event)]
        encode = _ENCODERS.get(type(event))
        return [encode(event)] if encode is not None else []

    def _tool(self, event: ToolCallChanged) -> Line:
        data = _raw(event, toolCallId=event.tool_call_id, **dict(event.fields))
        status = event.fields.get("status")
        if status in _DONE:
            self._open.pop(event.tool_call_id, None)
            cancelled = event.fields.get("failure_reason") in _CANCELLED or status == "cancelled"
            return ("tool_call_cancelled" if cancelled else "tool_call_complete", data)
        began = self._open.get(event.tool_call_id, False)
        runs = status == "in_progress"
        self._open[event.tool_call_id] = began or runs
        if event.announced:
            return ("tool_call_start", data)
        return ("tool_call_ready" if runs and not began else "tool_call_delta", data)

    def _left_open(self, event: TurnEnded) -> list[Line]:
        open_calls, self._open = list(self._open), {}
        if event.stop_reason != "cancelled":
            return []
        return [("tool_call_cancelled", {"toolCallId": call, "turnId": event.turn_id}) for call in open_calls]


def _is_told_by(event: SessionEvent, following: SessionEvent | None) -> bool:
    """Whether ``event`` is a first part of one update that the event after it carries as received."""
    update = object_or_none(getattr(following, "raw", None))
    return (
        isinstance(event, InfoChanged)
        and event.raw is None
        and update is not None
        and update.get("sessionUpdate") == "session_info_update"
        and update.get("title", ABSENT) == event.title
    )


def _raw(event: Any, **fallback: Any) -> Mapping[str, Any]:
    raw = getattr(event, "raw", None)
    return raw if raw is not None else {key: value for key, value in fallback.items() if value is not None}


def _text(event: TextDelta) -> Line:
    return (_ROLES[event.role], _raw(event, text=event.text, messageId=event.message_id))


def _content(event: ContentAdded) -> Line:
    return (_ROLES[event.role], _raw(event, content=event.block, messageId=event.message_id))


def _ended(event: TurnEnded) -> Line:
    data = {**_raw(event), "turnId": event.turn_id, "outcome": event.outcome}
    if event.outcome != "ended":
        return ("turn_error", {"message": event.error, **data})
    return ("turn_cancelled" if event.stop_reason == "cancelled" else "turn_complete", data)


def _info(event: InfoChanged) -> Line:
    data = _raw(event, title=event.title if isinstance(event.title, str) else None)
    return ("title_changed" if isinstance(event.title, str) else "session_info", data)


def _notice(event: NoticeAdded) -> Line:
    return ("notice", _raw(event, severity=event.severity, title=event.title, description=event.description))


def _compaction(event: CompactionChanged) -> Line:
    summary = event.summary_text or None
    return ("compaction", _raw(event, compactionId=event.compaction_id, status=event.status, summary=summary))


_ENCODERS: Final[Mapping[type, Callable[[Any], Line]]] = {
    TextDelta: _text,
    ContentAdded: _content,
    InfoChanged: _info,
    NoticeAdded: _notice,
    CompactionChanged: _compaction,
    PlanReplaced: lambda event: ("plan", _raw(event, entries=list(event.entries))),
    UsageChanged: lambda event: ("usage", _raw(event, **dict(event.fields))),
    CommandsReplaced: lambda event: ("commands", _raw(event, availableCommands=list(event.commands))),
    ModesReplaced: lambda event: ("modes", _raw(event, availableModes=list(event.available), currentModeId=event.current)),
    ModeChanged: lambda event: ("mode", _raw(event, currentModeId=event.mode_id)),
    ConfigReplaced: lambda event: ("config", _raw(event, configOptions=list(event.options))),
    McpServersReplaced: lambda event: ("mcp_status", {"servers": list(event.servers)}),
    ToolsReplaced: lambda event: ("tools", _raw(event, tools=list(event.tools))),
    SteeringChanged: lambda event: ("steering", _raw(event, state=event.state, messageIds=list(event.message_ids))),
    UnknownUpdate: lambda event: ("unknown", event.raw),
}
