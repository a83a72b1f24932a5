"""Replies of an ACP agent read leniently into values of the session model. Pure."""

from collections.abc import Callable
from typing import Any

from sidecar.rpc.messages import IncomingReply
from sidecar.session.events import JsonObject, TurnEnded
from sidecar.session.lenient import object_at, object_or_none, objects_in, text_or_none
from sidecar.session.ports import SessionPage


def turn_ended(turn_id: str, reply: IncomingReply, ended_at: str) -> TurnEnded:
    """Return the end of a turn that the reply of ``session/prompt`` means; unknown stop reasons are kept."""
    if reply.error is not None:
        error = {"code": reply.error.code, "message": reply.error.message, "data": reply.error.data}
        return TurnEnded(turn_id, "failed", error=reply.error.message, ended_at=ended_at, raw={"error": error})
    result = object_at(reply.result)
    reason = result.get("stopReason")
    return TurnEnded(
        turn_id,
        "ended",
        stop_reason=reason if isinstance(reason, str) else None,
        ended_at=ended_at,
        meta=object_or_none(result.get("_meta")),
        raw=result,
    )


def read_page(result: Any, to_ours: Callable[[str], str] = str) -> SessionPage:
    """Read a page of ``session/list``; entries without an id are left out, folders told as they are here."""
    page = object_at(result)
    sessions = [_listed(entry, to_ours) for entry in objects_in(page.get("sessions")) if isinstance(entry.get("sessionId"), str)]
    return SessionPage(sessions, text_or_none(page.get("nextCursor")))


def _listed(entry: JsonObject, to_ours: Callable[[str], str]) -> JsonObject:
    shown: dict[str, Any] = {"agentSessionId": entry["sessionId"], "cwd": to_ours(str(entry.get("cwd") or ""))}
    shown |= {key: entry[key] for key in ("title", "updatedAt", "additionalDirectories") if entry.get(key) is not None}
    if entry.get("_meta") is not None:
        shown["meta"] = entry["_meta"]
    return shown
