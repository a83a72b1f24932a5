"""The lists beside the turns (plan, commands, config, usage, MCP servers, ...): each event replaces or merges one. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from sidecar.session.conversation import Compaction, Conversation, Section, Steering
from sidecar.session.events import (
    Absent,
    CommandsReplaced,
    CompactionChanged,
    ConfigReplaced,
    InfoChanged,
    MarkedIncomplete,
    McpServersReplaced,
    Meta,
    ModeChanged,
    ModesReplaced,
    PlanReplaced,
    SteeringChanged,
    ToolsReplaced,
    UsageChanged,
)

SectionHandler: TypeAlias = Callable[[Conversation, Any], Sequence[Section]]


def _set_meta(conversation: Conversation, section: Section, meta: Meta) -> None:
    if meta is None:
        conversation.metas.pop(section, None)
    else:
        conversation.metas[section] = meta


def _plan(conversation: Conversation, event: PlanReplaced) -> Sequence[Section]:
    conversation.plan = list(event.entries)
    _set_meta(conversation, "plan", event.meta)
    return ("plan",)


def _commands(conversation: Conversation, event: CommandsReplaced) -> Sequence[Section]:
    conversation.commands = list(event.commands)
    _set_meta(conversation, "commands", event.meta)
    return ("commands",)


def _modes(conversation: Conversation, event: ModesReplaced) -> Sequence[Section]:
    conversation.modes = list(event.available)
    conversation.mode = event.current
    return ("config",)


def _mode(conversation: Conversation, event: ModeChanged) -> Sequence[Section]:
    if conversation.mode == event.mode_id:
        return ()
    conversation.mode = event.mode_id
    return ("config",)


def _config(conversation: Conversation, event: ConfigReplaced) -> Sequence[Section]:
    conversation.config_options = list(event.options)
    _set_meta(conversation, "config", event.meta)
    return ("config",)


def _info(conversation: Conversation, event: InfoChanged) -> Sequence[Section]:
    if not isinstance(event.title, Absent):
        conversation.title = event.title
    if not isinstance(event.updated_at, Absent):
        conversation.updated_at = event.updated_at
    if event.meta is not None:
        _set_meta(conversation, "title", event.meta)
    return ("title",)


def _usage(conversation: Conversation, event: UsageChanged) -> Sequence[Section]:
    conversation.usage = {**conversation.usage, **event.fields}
    if event.meta is not None:
        _set_meta(conversation, "usage", event.meta)
    return ("usage",)


def _tools(conversation: Conversation, event: ToolsReplaced) -> Sequence[Section]:
    conversation.tools = list(event.tools)
    return ("tools",)


def _mcp(conversation: Conversation, event: McpServersReplaced) -> Sequence[Section]:
    servers = {str(server.get("name", "")): server for server in event.servers}
    if servers == conversation.mcp:
        return ()
    conversation.mcp = servers
    return ("mcp",)


def _compaction(conversation: Conversation, event: CompactionChanged) -> Sequence[Section]:
    compaction = conversation.compactions.setdefault(event.compaction_id, Compaction(event.compaction_id))
    if event.status is not None:
        compaction.status = event.status
    if event.summary is not None:
        compaction.summary = list(event.summary)
    if event.error is not None:
        compaction.error = event.error
    if event.meta is not None:
        compaction.meta = event.meta
    compaction.summary_text.append(event.summary_text)
    return ("compaction",)


def _steering(conversation: Conversation, event: SteeringChanged) -> Sequence[Section]:
    ids = set(event.message_ids)
    known = {item.message_id for item in conversation.steering}
    if event.state != "queued":
        for item in conversation.steering:
            if item.state == "queued" and (not ids or item.message_id in ids):
                item.state = event.state
    fresh: list[str | None] = [message_id for message_id in event.message_ids if message_id not in known]
    if not ids and event.state == "queued":
        fresh = [None]
    conversation.steering += [Steering(message_id, event.state, event.text) for message_id in fresh]
    return ("steering",)


def _incomplete(conversation: Conversation, event: MarkedIncomplete) -> Sequence[Section]:
    if conversation.incomplete is not None:
        return ()
    conversation.incomplete = event.reason
    return ("state",)


SECTION_HANDLERS: Mapping[type, SectionHandler] = {
    PlanReplaced: _plan,
    CommandsReplaced: _commands,
    ModesReplaced: _modes,
    ModeChanged: _mode,
    ConfigReplaced: _config,
    InfoChanged: _info,
    UsageChanged: _usage,
    ToolsReplaced: _tools,
    McpServersReplaced: _mcp,
    CompactionChanged: _compaction,
    SteeringChanged: _steering,
    MarkedIncomplete: _incomplete,
}
