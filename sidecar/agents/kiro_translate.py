"""What Kiro reports beside the standard updates, turned into session events (Kiro V3 client guide; captures). Pure and total.

``session_info_update`` carries the engine's own events in ``_meta.kiro.kind``; ``_kiro/*`` notifications carry the rest. None of
them ends a turn, asks a question, or opens an address: a turn ends with the reply of its prompt, a permission is asked by its
own request. What is not understood stays raw as ``UnknownUpdate``; bodies are never logged.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar, cast

from sidecar.acp import kiro_v3 as k
from sidecar.acp.kiro_v2 import PREFIX as V2_PREFIX
from sidecar.acp.kiro_v3 import inner_object, kiro_meta, without_sign_in_urls
from sidecar.agents.kiro_v2_translate import translate_v2
from sidecar.agents.mcp_snapshot import mcp_servers, without_sign_in
from sidecar.codec import BadShape, Wire, converter
from sidecar.session.events import (
    CompactionChanged,
    InfoChanged,
    JsonObject,
    McpServersReplaced,
    NoticeAdded,
    SessionEvent,
    SteeringChanged,
    ToolsReplaced,
    UnknownUpdate,
    UsageChanged,
)

SOURCE: Final = "kiro"
COMPACTION_ID: Final = "summarization"
"""Stands in where an event of a summarization carries no id of its own."""

_W = TypeVar("_W", bound=Wire)
_Raw: TypeAlias = JsonObject | None
_Info: TypeAlias = Callable[[JsonObject, JsonObject, _Raw], SessionEvent | None]
_Note: TypeAlias = Callable[[JsonObject], list[SessionEvent] | None]


def translate_info(update: JsonObject, raw: JsonObject | None = None) -> list[SessionEvent]:
    """Return what the ``_meta.kiro.kind`` of a ``session_info_update`` means; ``raw`` is attached to the first event.

    A kind that changes nothing shown (marks of a turn, mirrors of a permission request) keeps only its ``_meta``.
    """
    kiro = kiro_meta(update)
    kind = kiro.get("kind")
    if not isinstance(kind, str):
        return []
    meta = inner_object(update, "_meta")
    if kind in _MARKS:
        return [InfoChanged(meta=meta, raw=raw)]
    translate = _INFO.get(kind)
    event = translate(kiro, meta, raw) if translate is not None else None
    return [event if event is not None else UnknownUpdate(f"session_info_update/{kind}", update)]


def translate_notification(method: str, params: Any) -> tuple[str | None, list[SessionEvent]]:
    """Return ``(session id or None, events)`` of a notification other than ``session/update``.

    Protocol notifications (``$/…``, ``elicitation/complete``) and the agent's own session list give no events: their receivers
    know them by method.
    """
    if method in _SILENT or method.startswith("$/"):
        return None, []
    body = without_sign_in(params) if _MCP in method else without_sign_in_urls(params)
    known: JsonObject = cast("JsonObject", body) if isinstance(body, Mapping) else {}
    session_id = known.get("sessionId")
    events = translate_v2(method, known) if method.startswith(V2_PREFIX) else _translate_v3(method, known)
    unknown: list[SessionEvent] = [UnknownUpdate(method, {"method": method, "params": body})]
    return session_id if isinstance(session_id, str) else None, unknown if events is None else events


def _translate_v3(method: str, params: JsonObject) -> list[SessionEvent] | None:
    translate = _NOTES.get(method)
    return translate(params) if translate is not None else None


def _read(value: Any, cls: type[_W]) -> _W | None:
    try:
        return converter().structure(value, cls)
    except BadShape:
        return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _ids(kiro: JsonObject) -> tuple[str, ...]:
    several: Any = kiro.get("messageIds")
    found = cast("list[Any]", several) if isinstance(several, list) else [kiro.get("messageId")]
    return tuple(item for item in found if isinstance(item, str))


# --- kinds of session_info_update -----------------------------------------------------------------------------------------


def _turn_completion(kiro: JsonObject, meta: JsonObject, raw: _Raw) -> SessionEvent:
    return UsageChanged({"turn": {key: value for key, value in kiro.items() if key != "kind"}}, meta, raw)


def _context_usage(kiro: JsonObject, meta: JsonObject, raw: _Raw) -> SessionEvent | None:
    percent, breakdown = kiro.get("usagePercentage"), kiro.get("breakdown")
    fields: dict[str, Any] = {}
    if isinstance(percent, int | float) and not isinstance(percent, bool):
        fields["percent"] = percent
    if isinstance(breakdown, Mapping):
        fields["breakdown"] = breakdown
    return UsageChanged(fields, meta, raw) if fields else None


def _focus(kiro: JsonObject, meta: JsonObject, raw: _Raw) -> SessionEvent | None:
    title = _text(kiro.get("title"))
    return InfoChanged(title=title, meta=meta, raw=raw) if title is not None else None


def _display_error(kiro: JsonObject, meta: JsonObject, raw: _Raw) -> SessionEvent | None:
    message = _text(kiro.get("message"))
    return NoticeAdded("error", message, _text(kiro.get("errorType")), SOURCE, meta, raw) if message is not None else None


def _queued(kiro: JsonObject, meta: JsonObject, raw: _Raw) -> SessionEvent:
    active = _text(kiro.get("activeSessionId"))
    description = f"Session {active} is at work." if active is not None else None
    return NoticeAdded("info", "The agent put the prompt into its queue", description, SOURCE, meta, raw)


def _steering(state: str) -> _Info:
    def translate(kiro: JsonObject, _: JsonObject, raw: _Raw) -> SessionEvent:
        return SteeringChanged(state, _ids(kiro), _text(kiro.get("content")), raw)

    return translate


def _summarization(status: str) -> _Info:
    def translate(kiro: JsonObject, meta: JsonObject, raw: _Raw) -> SessionEvent:
        error = _text(kiro.get("error")) or _text(kiro.get("message")) if status == "failed" else None
        return CompactionChanged(_compaction_id(kiro), status, error=error, meta=meta, raw=raw)

    return translate


def _summary(kiro: JsonObject, meta: JsonObject, raw: _Raw) -> SessionEvent | None:
    for key in ("content", "summary", "message", "text"):
        if (text := _text(kiro.get(key))) is not None:
            return CompactionChanged(_compaction_id(kiro), summary=({"type": "text", "text": text},), meta=meta, raw=raw)
    return None


def _compaction_id(kiro: JsonObject) -> str:
    return _text(kiro.get("summarizationId")) or _text(kiro.get("executionId")) or COMPACTION_ID


_MARKS: Final = frozenset(
    {
        "turn_start",
        "turn_end",
        "user_message_id_assigned",
        "pending_interaction",
        "interaction_resolved",
        "summarization_separator",
    }
)

_INFO: Final[Mapping[str, _Info]] = {
    "turn_completion": _turn_completion,
    "context_usage": _context_usage,
    "focus_update": _focus,
    "display_error": _display_error,
    "queued": _queued,
    "steering_queued": _steering("queued"),
    "steering_injected": _steering("injected"),
    "steering_cleared": _steering("cleared"),
    "steering_dropped": _steering("dropped"),
    "summarization_started": _summarization("in_progress"),
    "summarization_completed": _summarization("completed"),
    "summarization_failed": _summarization("failed"),
    "summary_message": _summary,
}


# --- notifications ----------------------------------------------------------------------------------------------------------


def _mcp_status(params: JsonObject) -> list[SessionEvent] | None:
    found = _read(params, k.McpStatus)
    return [McpServersReplaced(mcp_servers(found.servers))] if found is not None else None


def _tools_changed(params: JsonObject) -> list[SessionEvent] | None:
    found = _read(params, k.ToolsChanged)
    return [ToolsReplaced(found.tags)] if found is not None else None


def _rate_limit(params: JsonObject) -> list[SessionEvent] | None:
    found = _read(params, k.RateLimit)
    return [NoticeAdded("warning", "The model service limits requests", found.message, SOURCE)] if found is not None else None


def _agent_not_found(params: JsonObject) -> list[SessionEvent] | None:
    found = _read(params, k.CustomAgentNotFound)
    if found is None:
        return None
    used = f"{found.fallback_agent} is used instead." if isinstance(found.fallback_agent, str) else None
    return [NoticeAdded("warning", f"The custom agent {found.requested_agent} was not found", used, SOURCE)]


def _agent_config_error(params: JsonObject) -> list[SessionEvent] | None:
    found = _read(params, k.CustomAgentConfigError)
    if found is None:
        return None
    where = f"{found.path}: {found.error}" if isinstance(found.path, str) else found.error
    return [NoticeAdded("error", "A custom agent's file has an error", where, SOURCE)]


def _system_notify(params: JsonObject) -> list[SessionEvent] | None:
    found = _read(params, k.SystemNotify)
    if found is None:
        return None
    level = found.level if isinstance(found.level, str) else "info"
    return [NoticeAdded("warning" if level == "warn" else level, found.message, None, SOURCE)]


def _policy_changed(params: JsonObject) -> list[SessionEvent] | None:
    found = _read(params, k.PolicyChanged)
    if found is None:
        return None
    problems = [_problem(error) for error in found.errors] if isinstance(found.errors, tuple) else []
    description = "; ".join(problem for problem in problems if problem) or None
    severity = "warning" if problems else "info"
    return [NoticeAdded(severity, f"The permission policy changed ({found.status})", description, SOURCE)]


def _policy_error(params: JsonObject) -> list[SessionEvent] | None:
    problem = _problem(params) or _problem(params.get("error"))
    return [NoticeAdded("error", "The permission policy could not be used", problem, SOURCE)] if problem else None


def _problem(error: Any) -> str | None:
    """Return the text of an error that is a string or an object with a message."""
    if isinstance(error, Mapping):
        found = cast("JsonObject", error)
        return _text(found.get("message")) or _text(found.get("error"))
    return _text(error)


def _mcp_disabled(params: JsonObject) -> list[SessionEvent]:
    return [NoticeAdded("warning", "MCP servers are switched off by your organisation", _problem(params), SOURCE)]


_MCP: Final = "/mcp/"
_SILENT: Final = frozenset({"_kiro/sessions/changed", "elicitation/complete"})

_NOTES: Final[Mapping[str, _Note]] = {
    "_kiro/mcp/status": _mcp_status,
    "_kiro/mcp/governance_disabled": _mcp_disabled,
    "_kiro/tools/didChange": _tools_changed,
    "_kiro/error/rate_limit": _rate_limit,
    "_kiro/customAgent/not_found": _agent_not_found,
    "_kiro/customAgent/config_error": _agent_config_error,
    "_kiro/system/notify": _system_notify,
    "_kiro/policy/changed": _policy_changed,
    "_kiro/policy/error": _policy_error,
}
