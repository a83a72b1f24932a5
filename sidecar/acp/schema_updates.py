"""ACP protocol 1: content blocks, tool calls, and everything ``session/update`` can carry (ACP v1, content, tool calls, plan).

Lists that travel on as received (``entries``, ``content``, ``config_options`` …) hold plain objects; the classes of their members
stand here too and read one object at a time.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, TypeAlias

import attrs

from sidecar.codec import ABSENT, Absent, Unknown, Wire

TOOL_KINDS: Final = frozenset({"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"})
TOOL_STATUSES: Final = frozenset({"pending", "in_progress", "completed", "failed"})
PLAN_PRIORITIES: Final = frozenset({"high", "medium", "low"})
PLAN_STATUSES: Final = frozenset({"pending", "in_progress", "completed"})
NOTICE_SEVERITIES: Final = frozenset({"info", "warning", "error"})
COMPACTION_STATUSES: Final = frozenset({"in_progress", "completed", "failed", "cancelled"})

JsonObject: TypeAlias = Mapping[str, Any]


@attrs.frozen
class TextContent(Wire):
    """Plain text or Markdown."""

    TAG: ClassVar = ("type", "text")

    text: str
    annotations: JsonObject | Absent | None = ABSENT


@attrs.frozen
class ImageContent(Wire):
    """An image; ``data`` is base64."""

    TAG: ClassVar = ("type", "image")

    data: str
    mime_type: str
    uri: str | Absent | None = ABSENT
    annotations: JsonObject | Absent | None = ABSENT


@attrs.frozen
class AudioContent(Wire):
    """A sound; ``data`` is base64."""

    TAG: ClassVar = ("type", "audio")

    data: str
    mime_type: str
    annotations: JsonObject | Absent | None = ABSENT


@attrs.frozen
class ResourceLink(Wire):
    """A resource the reader may fetch. ``size`` in bytes."""

    TAG: ClassVar = ("type", "resource_link")

    uri: str
    name: str
    title: str | Absent | None = ABSENT
    description: str | Absent | None = ABSENT
    mime_type: str | Absent | None = ABSENT
    size: int | Absent | None = ABSENT
    annotations: JsonObject | Absent | None = ABSENT


@attrs.frozen
class ResourceContents(Wire):
    """The contents of a resource: ``text``, or ``blob`` as base64."""

    uri: str
    mime_type: str | Absent | None = ABSENT
    text: str | Absent = ABSENT
    blob: str | Absent = ABSENT


@attrs.frozen
class EmbeddedResource(Wire):
    """A resource with its contents."""

    TAG: ClassVar = ("type", "resource")

    resource: ResourceContents
    annotations: JsonObject | Absent | None = ABSENT


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | Unknown


@attrs.frozen
class ToolContent(Wire):
    """A content block in a tool call."""

    TAG: ClassVar = ("type", "content")

    content: ContentBlock


@attrs.frozen
class Diff(Wire):
    """A file's text before and after. ``old_text`` null, absent or empty: a new file. ``path`` may be a ``file://`` URI."""

    TAG: ClassVar = ("type", "diff")

    path: str
    new_text: str
    old_text: str | Absent | None = ABSENT


@attrs.frozen
class TerminalContent(Wire):
    """A terminal created with ``terminal/create``, shown live."""

    TAG: ClassVar = ("type", "terminal")

    terminal_id: str


ToolCallContent: TypeAlias = ToolContent | Diff | TerminalContent | Unknown


@attrs.frozen
class ToolCallLocation(Wire):
    """A place a tool works on; ``line`` is 1-based."""

    path: str
    line: int | Absent | None = ABSENT


@attrs.frozen
class ToolCallFields(Wire):
    """What ``tool_call``, ``tool_call_update`` and a permission's stub may carry; only ``tool_call_id`` is needed.

    ``title`` is required of a ``tool_call`` by the schema and not here: an agent that forgets it is still shown.
    """

    tool_call_id: str
    title: str | Absent | None = ABSENT
    name: str | Absent | None = ABSENT
    kind: str | Absent | None = ABSENT
    status: str | Absent | None = ABSENT
    content: tuple[JsonObject, ...] | Absent | None = ABSENT
    locations: tuple[JsonObject, ...] | Absent | None = ABSENT
    raw_input: Any = ABSENT
    raw_output: Any = ABSENT


@attrs.frozen
class ToolCall(ToolCallFields):
    """A tool call begins."""

    TAG: ClassVar = ("sessionUpdate", "tool_call")


@attrs.frozen
class ToolCallUpdate(ToolCallFields):
    """A tool call changed: only what is present; ``content`` and ``locations`` replace."""

    TAG: ClassVar = ("sessionUpdate", "tool_call_update")


@attrs.frozen
class ContentChunk(Wire):
    """A piece of a message; a changed ``message_id`` begins another message."""

    content: JsonObject
    message_id: str | Absent | None = ABSENT


@attrs.frozen
class UserMessageChunk(ContentChunk):
    """Of the user's message, in a replay (some agents echo it in a live turn)."""

    TAG: ClassVar = ("sessionUpdate", "user_message_chunk")


@attrs.frozen
class AgentMessageChunk(ContentChunk):
    """Of the agent's answer."""

    TAG: ClassVar = ("sessionUpdate", "agent_message_chunk")


@attrs.frozen
class AgentThoughtChunk(ContentChunk):
    """Of the agent's reasoning."""

    TAG: ClassVar = ("sessionUpdate", "agent_thought_chunk")


@attrs.frozen
class PlanEntry(Wire):
    """A step of the plan."""

    content: str
    priority: str | Absent = ABSENT
    status: str | Absent = ABSENT


@attrs.frozen
class Plan(Wire):
    """The whole plan; ``PlanEntry`` types an entry."""

    TAG: ClassVar = ("sessionUpdate", "plan")

    entries: tuple[JsonObject, ...]


@attrs.frozen
class PlanItems(Wire):
    """A named plan made of entries (unstable)."""

    TAG: ClassVar = ("type", "items")

    plan_id: str
    entries: tuple[JsonObject, ...]


@attrs.frozen
class PlanUpdate(Wire):
    """One of several plans (unstable); bodies other than ``items`` stay ``Unknown``."""

    TAG: ClassVar = ("sessionUpdate", "plan_update")

    plan: PlanItems | Unknown


@attrs.frozen
class PlanRemoved(Wire):
    """A plan is gone (unstable)."""

    TAG: ClassVar = ("sessionUpdate", "plan_removed")

    plan_id: str


@attrs.frozen
class AvailableCommand(Wire):
    """A slash command of the agent; ``input`` is ``{"hint"}`` when it takes text."""

    name: str
    description: str | Absent = ABSENT
    input: JsonObject | Absent | None = ABSENT


@attrs.frozen
class AvailableCommandsUpdate(Wire):
    """All commands; ``AvailableCommand`` types one."""

    TAG: ClassVar = ("sessionUpdate", "available_commands_update")

    available_commands: tuple[JsonObject, ...]


@attrs.frozen
class CurrentModeUpdate(Wire):
    """The agent changed the mode."""

    TAG: ClassVar = ("sessionUpdate", "current_mode_update")

    current_mode_id: str


@attrs.frozen
class ConfigOptionUpdate(Wire):
    """All config options; ``sidecar.acp.schema.ConfigOption`` types one."""

    TAG: ClassVar = ("sessionUpdate", "config_option_update")

    config_options: tuple[JsonObject, ...]


@attrs.frozen
class SessionInfoUpdate(Wire):
    """Title and time of the last change: absent is unchanged, null is cleared. Kiro V3 puts its own events into ``meta``."""

    TAG: ClassVar = ("sessionUpdate", "session_info_update")

    title: str | Absent | None = ABSENT
    updated_at: str | Absent | None = ABSENT


@attrs.frozen
class UsageUpdate(Wire):
    """Context tokens used and available; ``cost`` is ``{"amount", "currency"}``."""

    TAG: ClassVar = ("sessionUpdate", "usage_update")

    used: int
    size: int | Absent = ABSENT
    cost: JsonObject | Absent | None = ABSENT


@attrs.frozen
class Notice(Wire):
    """A message beside the conversation (needs ``session.notices``)."""

    TAG: ClassVar = ("sessionUpdate", "notice")

    title: str
    severity: str | Absent = ABSENT
    description: str | Absent | None = ABSENT


@attrs.frozen
class CompactionUpdate(Wire):
    """The agent compacts its context (needs ``session.compaction``); ``summary`` replaces."""

    TAG: ClassVar = ("sessionUpdate", "compaction_update")

    compaction_id: str
    status: str
    summary: tuple[JsonObject, ...] | Absent | None = ABSENT
    error: str | Absent | None = ABSENT


@attrs.frozen
class CompactionSummaryChunk(Wire):
    """A piece of the summary."""

    TAG: ClassVar = ("sessionUpdate", "compaction_summary_chunk")

    compaction_id: str
    content: JsonObject


SessionUpdate: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCall
    | ToolCallUpdate
    | Plan
    | PlanUpdate
    | PlanRemoved
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | Notice
    | CompactionUpdate
    | CompactionSummaryChunk
    | Unknown
)


@attrs.frozen
class SessionNotification(Wire):
    """The params of ``session/update``."""

    session_id: str
    update: SessionUpdate
