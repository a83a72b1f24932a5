"""Notifications of Kiro CLI V2 (``_kiro.dev/*``) turned into session events (Kiro facts, V2 private surface). Pure and total."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from sidecar.acp import kiro_v2 as v2
from sidecar.acp import kiro_v3 as k
from sidecar.acp.kiro_v3 import inner_object
from sidecar.acp.schema_updates import ToolCallFields
from sidecar.agents.mcp_snapshot import mcp_servers
from sidecar.codec import BadShape, Wire, converter
from sidecar.session.events import (
    CompactionChanged,
    JsonObject,
    McpServersReplaced,
    NoticeAdded,
    SessionEvent,
    ToolCallChanged,
    ToolsReplaced,
    UnknownUpdate,
    UsageChanged,
)

SOURCE: Final = "kiro"
COMPACTION_ID: Final = "compaction"
COMPACTION_WORDS: Final[Mapping[str, str]] = {"started": "in_progress", "completed": "completed", "failed": "failed"}

_W = TypeVar("_W", bound=Wire)
_Note: TypeAlias = Callable[[JsonObject], list[SessionEvent] | None]


def translate_v2(method: str, params: JsonObject) -> list[SessionEvent] | None:
    """Return the events of a ``_kiro.dev/*`` notification without sign-in addresses; None when it is not understood."""
    translate = _NOTES.get(method.removeprefix(v2.PREFIX))
    return translate(params) if translate is not None else None


def _read(value: Any, cls: type[_W]) -> _W | None:
    try:
        return converter().structure(value, cls)
    except BadShape:
        return None


def _notice(severity: str, title: str, description: Any = None) -> list[SessionEvent]:
    return [NoticeAdded(severity, title, description if isinstance(description, str) else None, SOURCE)]


def _metadata(params: JsonObject) -> list[SessionEvent] | None:
    found = _read(params, v2.Metadata)
    if found is None:
        return None
    fields: dict[str, Any] = {}
    if isinstance(found.context_usage_percentage, int | float):
        fields["percent"] = found.context_usage_percentage
    turn: dict[str, Any] = {}
    if isinstance(found.metering_usage, tuple):
        turn["meteringUsage"] = list(found.metering_usage)
    if isinstance(found.turn_duration_ms, int | float):
        turn["turnDurationMs"] = found.turn_duration_ms
    if turn:
        fields["turn"] = turn
    return [UsageChanged(fields)] if fields else None


def _compaction(params: JsonObject) -> list[SessionEvent] | None:
    found = _read(params, v2.CompactionStatus)
    if found is None:
        return None
    summary = ({"type": "text", "text": found.summary},) if isinstance(found.summary, str) else None
    error = found.status.error if isinstance(found.status.error, str) else None
    word = COMPACTION_WORDS.get(found.status.type, found.status.type)
    return [CompactionChanged(COMPACTION_ID, word, summary, error=error)]


def _available(params: JsonObject) -> list[SessionEvent] | None:
    """Commands of V2 run only through its own execute method, which has no route here: tools and servers are kept."""
    found = _read(params, v2.CommandsAvailable)
    if found is None:
        return None
    events: list[SessionEvent] = []
    if isinstance(found.tools, tuple):
        events.append(ToolsReplaced(found.tools))
    if isinstance(found.mcp_servers, tuple):
        events.append(McpServersReplaced(mcp_servers(found.mcp_servers)))
    return events or None


def _server_failed(params: JsonObject) -> list[SessionEvent] | None:
    found = _read(params, v2.McpServerEvent)
    return _notice("warning", f"The MCP server {found.server_name} could not be started", found.error) if found else None


def _server_sign_in(params: JsonObject) -> list[SessionEvent] | None:
    found = _read(params, v2.McpServerEvent)
    return _notice("warning", f"The MCP server {found.server_name} wants you to sign in") if found else None


def _rate_limit(params: JsonObject) -> list[SessionEvent] | None:
    found = _read(params, k.RateLimit)
    return _notice("warning", "The model service limits requests", found.message) if found else None


def _not_found(params: JsonObject) -> list[SessionEvent] | None:
    found = _read(params, k.CustomAgentNotFound)
    if found is None:
        return None
    used = f"{found.fallback_agent} is used instead." if isinstance(found.fallback_agent, str) else None
    return _notice("warning", f"The agent {found.requested_agent} was not found", used)


def _config_error(params: JsonObject) -> list[SessionEvent] | None:
    found = _read(params, k.CustomAgentConfigError)
    if found is None:
        return None
    where = f"{found.path}: {found.error}" if isinstance(found.path, str) else found.error
    return _notice("error", "An agent's file has an error", where)


def _switched(params: JsonObject) -> list[SessionEvent] | None:
    found = _read(params, v2.AgentSwitched)
    return _notice("info", f"The agent switched to {found.agent_name}") if found else None


def _session_update(params: JsonObject) -> list[SessionEvent]:
    """Read what V2 sends beside the standard updates; its own words on retries and stalls are passed on, none are invented."""
    update = inner_object(params, "update")
    kind = update.get("sessionUpdate")
    if kind == "tool_call_chunk" and (found := _read(update, ToolCallFields)) is not None:
        fields = {name: value for name in ("title", "kind") if isinstance(value := getattr(found, name), str)}
        return [ToolCallChanged(found.tool_call_id, fields)]
    message = update.get("message")
    if kind in _SPOKEN and isinstance(message, str) and message:
        return _notice("warning", message)
    return [UnknownUpdate(kind if isinstance(kind, str) else "", update or params)]


_SPOKEN: Final = frozenset({"retry_warning", "stream_stall_notice"})

_NOTES: Final[Mapping[str, _Note]] = {
    "metadata": _metadata,
    "compaction/status": _compaction,
    "commands/available": _available,
    "mcp/server_init_failure": _server_failed,
    "mcp/oauth_request": _server_sign_in,
    "error/rate_limit": _rate_limit,
    "agent/not_found": _not_found,
    "agent/config_error": _config_error,
    "agent/switched": _switched,
    "session/update": _session_update,
}
