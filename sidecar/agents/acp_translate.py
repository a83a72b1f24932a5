"""ACP updates and replies turned into session events (ACP v1, session/update). Pure and total: any JSON gives events.

An update of a kind not known here, or one that lacks what its kind cannot do without, becomes ``UnknownUpdate`` with the update
as received. Paths are kept as received, be they relative, absolute or ``file://`` URIs.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from sidecar.acp import schema_updates as u
from sidecar.acp.kiro_v3 import failure_reason, inner_object, kiro_meta
from sidecar.agents.acp_permission import UnreadableRequest, read_permission
from sidecar.agents.kiro_translate import translate_info, translate_notification
from sidecar.codec import ABSENT, Absent, BadShape, Wire, converter
from sidecar.session.events import (
    CommandsReplaced,
    CompactionChanged,
    ConfigReplaced,
    ContentAdded,
    InfoChanged,
    JsonObject,
    ModeChanged,
    ModesReplaced,
    NoticeAdded,
    PlanReplaced,
    Role,
    SessionEvent,
    TextDelta,
    ToolCallChanged,
    UnknownUpdate,
    UsageChanged,
)

if TYPE_CHECKING:
    from sidecar.acp.schema import SessionModeState

__all__ = [
    "UnreadableRequest",
    "read_permission",
    "tool_fields",
    "translate_notification",
    "translate_session_reply",
    "translate_update",
]

Raw: TypeAlias = JsonObject | None
_W = TypeVar("_W", bound=Wire)
_Read: TypeAlias = Callable[[Any, Any], Any]
_Translate: TypeAlias = Callable[[Any, JsonObject, Raw], list[SessionEvent] | None]
"""Read class, update as received, raw to attach; None when the update makes no sense after all."""


def translate_update(update: Mapping[str, Any], *, keep_raw: bool = False) -> list[SessionEvent]:
    """Return what one ``update`` of ``session/update`` means; ``keep_raw`` attaches it to the first event as received."""
    kind = update.get("sessionUpdate")
    row = _readers().get(kind) if isinstance(kind, str) else None
    if row is not None:
        read, translate = row
        try:
            events = translate(read(update, None), update, update if keep_raw else None)
        except BadShape:
            events = None
        if events is not None:
            return events
    return [UnknownUpdate(kind if isinstance(kind, str) else "", update)]


def translate_session_reply(result: Any) -> list[SessionEvent]:
    """Return what the reply of new, load, resume, fork or set_config_option says of modes and config options."""
    if not isinstance(result, Mapping):
        return []
    reply = cast("JsonObject", result)
    events: list[SessionEvent] = []
    if isinstance(reply.get("modes"), Mapping) and (modes := _read_modes(reply["modes"])) is not None:
        available = [mode for mode in _objects(reply["modes"]["availableModes"]) if isinstance(mode.get("id"), str)]
        events.append(ModesReplaced(available, modes.current_mode_id, _meta(modes)))
    if isinstance(reply.get("configOptions"), list):
        events.append(ConfigReplaced(_objects(reply["configOptions"])))
    return events


def _read_modes(value: JsonObject) -> "SessionModeState | None":
    from sidecar.acp.schema import SessionModeState  # a schema of many classes, for agents with modes only

    return _structure(value, SessionModeState)


def tool_fields(found: u.ToolCallFields) -> dict[str, Any]:
    """Return the fields of a tool call that the message carries, as ``ToolCallChanged.fields``; null changes nothing."""
    fields: dict[str, Any] = {}
    _put_text(fields, "title", found.title)
    _put_text(fields, "name", found.name)
    _put_text(fields, "kind", found.kind)
    _put_text(fields, "status", found.status)
    if isinstance(found.content, tuple):
        fields["content"] = list(found.content)
    if isinstance(found.locations, tuple):
        fields["locations"] = [location for location in found.locations if isinstance(location.get("path"), str)]
    if found.raw_input is not ABSENT and found.raw_input is not None:
        fields["raw_input"] = found.raw_input
    if found.raw_output is not ABSENT and found.raw_output is not None:
        fields["raw_output"] = found.raw_output
    if found.meta and (kiro := inner_object(found.meta, "kiro")):
        _put_kiro(fields, kiro)
    return fields


def _put_text(fields: dict[str, Any], name: str, value: str | Absent | None) -> None:
    if isinstance(value, str):
        fields[name] = value


def _put_kiro(fields: dict[str, Any], kiro: JsonObject) -> None:
    if "name" not in fields and isinstance(tool := kiro.get("toolId"), str):
        fields["name"] = tool
    if (reason := failure_reason(kiro)) is not None:
        fields["failure_reason"] = reason


def _structure(value: Any, cls: type[_W]) -> _W | None:
    try:
        return converter().structure(value, cls)
    except BadShape:
        return None


@functools.cache
def _readers() -> Mapping[str, tuple[_Read, _Translate]]:
    """Return reader and translator by kind, the readers looked up once."""
    made = converter()
    return {kind: (made.get_structure_hook(cls), translate) for kind, (cls, translate) in _TABLE.items()}


def _objects(items: Sequence[Any]) -> list[JsonObject]:
    return [cast("JsonObject", item) for item in items if isinstance(item, Mapping)]


def _meta(found: Wire) -> JsonObject | None:
    return None if found.meta is ABSENT else found.meta


def _text(value: str | Absent | None) -> str | None:
    return value if isinstance(value, str) else None


def _is_replay(update: JsonObject) -> bool:
    return kiro_meta(update).get("replay") is True


def _chunk(role: Role, found: u.ContentChunk, update: JsonObject, raw: Raw) -> list[SessionEvent] | None:
    block = found.content
    kind = block.get("type")
    message_id = _text(found.message_id)
    meta = _meta(found)
    if kind != "text":
        return [ContentAdded(role, block, message_id, meta, _is_replay(update), raw)] if isinstance(kind, str) else None
    text = block.get("text")
    if not isinstance(text, str):
        return None
    inner = block.get("_meta")
    if isinstance(inner, Mapping):
        meta = {**cast("JsonObject", inner), **(meta or {})}
    return [TextDelta(role, text, message_id, meta, _is_replay(update), raw)]


def _tool_call(found: u.ToolCallFields, update: JsonObject, raw: Raw) -> list[SessionEvent]:
    announced = isinstance(found, u.ToolCall)
    return [ToolCallChanged(found.tool_call_id, tool_fields(found), announced, _meta(found), _is_replay(update), raw)]


def _plan(found: u.Plan, _: JsonObject, raw: Raw) -> list[SessionEvent]:
    return [PlanReplaced(found.entries, _meta(found), raw)]


def _plan_update(found: u.PlanUpdate, _: JsonObject, raw: Raw) -> list[SessionEvent] | None:
    return [PlanReplaced(found.plan.entries, _meta(found), raw)] if isinstance(found.plan, u.PlanItems) else None


def _plan_removed(found: u.PlanRemoved, _: JsonObject, raw: Raw) -> list[SessionEvent]:
    return [PlanReplaced((), _meta(found), raw)]


def _commands(found: u.AvailableCommandsUpdate, _: JsonObject, raw: Raw) -> list[SessionEvent]:
    named = [command for command in found.available_commands if isinstance(command.get("name"), str)]
    return [CommandsReplaced(named, _meta(found), raw)]


def _mode(found: u.CurrentModeUpdate, _: JsonObject, raw: Raw) -> list[SessionEvent]:
    return [ModeChanged(found.current_mode_id, _meta(found), raw)]


def _config(found: u.ConfigOptionUpdate, _: JsonObject, raw: Raw) -> list[SessionEvent]:
    return [ConfigReplaced(found.config_options, _meta(found), raw)]


def _info(found: u.SessionInfoUpdate, update: JsonObject, raw: Raw) -> list[SessionEvent]:
    events: list[SessionEvent] = []
    if isinstance(kiro_meta(update).get("kind"), str):
        events = translate_info(update, raw)
    if not events or found.title is not ABSENT or found.updated_at is not ABSENT:
        events.insert(0, InfoChanged(found.title, found.updated_at, _meta(found), None if events else raw))
    return events


def _usage(found: u.UsageUpdate, _: JsonObject, raw: Raw) -> list[SessionEvent]:
    fields: dict[str, Any] = {"used": found.used}
    if found.size is not ABSENT:
        fields["size"] = found.size
    if isinstance(found.cost, Mapping):
        fields["cost"] = found.cost
    return [UsageChanged(fields, _meta(found), raw)]


def _notice(found: u.Notice, _: JsonObject, raw: Raw) -> list[SessionEvent]:
    severity = found.severity if isinstance(found.severity, str) else "info"
    return [NoticeAdded(severity, found.title, _text(found.description), meta=_meta(found), raw=raw)]


def _compaction(found: u.CompactionUpdate, _: JsonObject, raw: Raw) -> list[SessionEvent]:
    summary = found.summary if isinstance(found.summary, tuple) else None
    return [CompactionChanged(found.compaction_id, found.status, summary, error=_text(found.error), meta=_meta(found), raw=raw)]


def _compaction_chunk(found: u.CompactionSummaryChunk, _: JsonObject, raw: Raw) -> list[SessionEvent] | None:
    text = found.content.get("text")
    if found.content.get("type") != "text" or not isinstance(text, str):
        return None
    return [CompactionChanged(found.compaction_id, summary_text=text, meta=_meta(found), raw=raw)]


_TABLE: Final[Mapping[str, tuple[type[Wire], _Translate]]] = {
    "user_message_chunk": (u.UserMessageChunk, functools.partial(_chunk, "user")),
    "agent_message_chunk": (u.AgentMessageChunk, functools.partial(_chunk, "agent")),
    "agent_thought_chunk": (u.AgentThoughtChunk, functools.partial(_chunk, "thought")),
    "tool_call": (u.ToolCall, _tool_call),
    "tool_call_update": (u.ToolCallUpdate, _tool_call),
    "plan": (u.Plan, _plan),
    "plan_update": (u.PlanUpdate, _plan_update),
    "plan_removed": (u.PlanRemoved, _plan_removed),
    "available_commands_update": (u.AvailableCommandsUpdate, _commands),
    "current_mode_update": (u.CurrentModeUpdate, _mode),
    "config_option_update": (u.ConfigOptionUpdate, _config),
    "session_info_update": (u.SessionInfoUpdate, _info),
    "usage_update": (u.UsageUpdate, _usage),
    "notice": (u.Notice, _notice),
    "compaction_update": (u.CompactionUpdate, _compaction),
    "compaction_summary_chunk": (u.CompactionSummaryChunk, _compaction_chunk),
}
