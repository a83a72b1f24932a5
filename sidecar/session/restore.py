"""Stored turns back into events, for sessions whose agent cannot replay them. Pure; the inverse of ``encode.turn_json``."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

from sidecar.session.events import (
    ContentAdded,
    JsonObject,
    Role,
    SessionEvent,
    TextDelta,
    ToolCallChanged,
    TurnEnded,
    TurnStarted,
    UnknownUpdate,
)
from sidecar.session.lenient import object_or_none, objects_in, text_or_none

_TOOL_FIELDS: Mapping[str, str] = {"rawInput": "raw_input", "rawOutput": "raw_output", "failureReason": "failure_reason"}
_OURS = frozenset({"toolCallId", "meta", "closed", "shownStatus"})
_ROLES = frozenset({"user", "agent", "thought"})


def restored_events(turns: Iterable[JsonObject]) -> list[SessionEvent]:
    """Return the events that build these turns again; what cannot be read is left out."""
    events: list[SessionEvent] = []
    for turn in turns:
        turn_id = turn.get("turnId")
        if not isinstance(turn_id, str):
            continue
        prompt: Any = turn.get("prompt")
        started = str(turn.get("startedAt") or "")
        events.append(TurnStarted(turn_id, str(turn.get("text") or ""), objects_in(prompt), started))
        events += [event for part in objects_in(turn.get("parts")) if (event := _part_event(part)) is not None]
        events.append(_end(turn_id, turn))
    return events


def _end(turn_id: str, turn: JsonObject) -> TurnEnded:
    outcome = turn.get("outcome")
    known = outcome if outcome in {"ended", "failed", "unknown"} else "unknown" if turn.get("state") == "running" else "ended"
    return TurnEnded(
        turn_id,
        cast("Literal['ended', 'failed', 'unknown']", known),
        stop_reason=text_or_none(turn.get("stopReason")),
        error=text_or_none(turn.get("error")),
        ended_at=str(turn.get("endedAt") or ""),
        meta=object_or_none(turn.get("meta")),
    )


def _part_event(part: JsonObject) -> SessionEvent | None:
    kind, role, meta = part.get("kind"), part.get("role"), object_or_none(part.get("meta"))
    message_id = text_or_none(part.get("messageId"))
    if kind == "text" and role in _ROLES:
        return TextDelta(cast("Role", role), str(part.get("text") or ""), message_id, meta)
    if kind == "content" and role in _ROLES and isinstance(part.get("block"), Mapping):
        return ContentAdded(cast("Role", role), part["block"], message_id, meta)
    if kind == "unknown" and isinstance(part.get("raw"), Mapping):
        return UnknownUpdate(str(part.get("updateKind")), part["raw"])
    call = object_or_none(part.get("toolCall"))
    if kind == "tool" and call is not None and isinstance(call.get("toolCallId"), str):
        fields = {_TOOL_FIELDS.get(key, key): value for key, value in call.items() if key not in _OURS}
        return ToolCallChanged(call["toolCallId"], fields, announced=True, meta=object_or_none(call.get("meta")))
    return None
