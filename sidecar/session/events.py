"""What an agent (whatever its wire) reports about one session, in the order it was received.

A batch is the list of events of one read from the wire. Events carry no session id: they are handed to the ``SessionSink`` of
their session. ``meta`` is the agent's ``_meta`` as received (None when absent) and travels on to editor, store and replay.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import attrs

from sidecar.codec import ABSENT, Absent

Json: TypeAlias = Any
JsonObject: TypeAlias = Mapping[str, Any]
Meta: TypeAlias = Mapping[str, Any] | None
Role: TypeAlias = Literal["user", "agent", "thought"]


@attrs.frozen
class TextDelta:
    """Text appended to a message. ``message_id`` None means "the running message of that role".

    ``raw`` holds the update as received when the consumer asked for uncoalesced events, else None.
    """

    role: Role
    text: str
    message_id: str | None = None
    meta: Meta = None
    replay: bool = False
    raw: JsonObject | None = None


@attrs.frozen
class ContentAdded:
    """A content block other than text (image, audio, resource, resource_link, or a kind not known), as received."""

    role: Role
    block: JsonObject
    message_id: str | None = None
    meta: Meta = None
    replay: bool = False
    raw: JsonObject | None = None


@attrs.frozen
class ToolCallChanged:
    """A tool call appeared or changed. ``fields`` holds only what the message carried; lists replace.

    Keys: ``title, name, kind, status`` (str), ``content`` (list of content dicts as received), ``locations`` (list of
    ``{"path", "line"?}``), ``raw_input``, ``raw_output`` (any JSON), ``failure_reason`` (str). ``announced`` is true for a wire
    ``tool_call``, false for an update or for a permission request's stub.
    """

    tool_call_id: str
    fields: Mapping[str, Any]
    announced: bool = False
    meta: Meta = None
    replay: bool = False
    raw: JsonObject | None = None


@attrs.frozen
class TerminalChanged:
    """A terminal that tool calls show (content ``{"type": "terminal", "terminalId"}``) appeared or changed.

    ``fields`` holds what changed, among ``command``, ``cwd`` (str), ``truncated``, ``released`` (bool), ``exitStatus``
    (``{"exitCode", "signal"}``). ``output`` replaces the end of its output that is shown, ``appended`` adds to it. ``live`` is
    true for one the sidecar runs, which no replay brings again.
    """

    terminal_id: str
    fields: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    output: str | None = None
    appended: str = ""
    live: bool = False


@attrs.frozen
class PlanReplaced:
    """The whole plan: entries ``{"content", "priority", "status", "_meta"?}`` as received; empty clears it."""

    entries: Sequence[JsonObject]
    meta: Meta = None
    raw: JsonObject | None = None


@attrs.frozen
class CommandsReplaced:
    """All commands of the agent: ``{"name", "description", "input"?, "_meta"?}`` as received."""

    commands: Sequence[JsonObject]
    meta: Meta = None
    raw: JsonObject | None = None


@attrs.frozen
class ModesReplaced:
    """The modes of a session reply: ``available`` are ``{"id", "name", "description"?}``; ``current`` the agent's own choice."""

    available: Sequence[JsonObject]
    current: str | None
    meta: Meta = None
    raw: JsonObject | None = None


@attrs.frozen
class ModeChanged:
    """The agent says which mode is current."""

    mode_id: str
    meta: Meta = None
    raw: JsonObject | None = None


@attrs.frozen
class ConfigReplaced:
    """The complete list of config options, as received (ACP v1, SessionConfigOption), in the agent's order."""

    options: Sequence[JsonObject]
    meta: Meta = None
    raw: JsonObject | None = None


@attrs.frozen
class InfoChanged:
    """Title or time of the last change; ``ABSENT`` = unchanged, None = cleared."""

    title: str | Absent | None = ABSENT
    updated_at: str | Absent | None = ABSENT
    meta: Meta = None
    raw: JsonObject | None = None


@attrs.frozen
class UsageChanged:
    """Context and cost as reported: keys among ``used, size`` (tokens), ``percent``, ``cost``, ``breakdown``, ``turn``."""

    fields: JsonObject
    meta: Meta = None
    raw: JsonObject | None = None


@attrs.frozen
class NoticeAdded:
    """Something the user should see that is not part of the conversation. ``severity``: info, warning, error or another word."""

    severity: str
    title: str
    description: str | None = None
    source: str = "agent"
    meta: Meta = None
    raw: JsonObject | None = None


@attrs.frozen
class CompactionChanged:
    """The agent compacts its context. ``status``: in_progress, completed, failed, cancelled or another word.

    ``summary`` None keeps what is known; ``summary_text`` is appended.
    """

    compaction_id: str
    status: str | None = None
    summary: Sequence[JsonObject] | None = None
    summary_text: str = ""
    error: str | None = None
    meta: Meta = None
    raw: JsonObject | None = None


@attrs.frozen
class ToolsReplaced:
    """The agent's native tools (Kiro V3, tools/didChange), as received; replaces the list."""

    tools: Sequence[JsonObject]
    raw: JsonObject | None = None


@attrs.frozen
class McpServersReplaced:
    """Full snapshot of the session's MCP servers: ``{"name", "status", "failedAuthorization"?, "errorMessage"?, ...}``.

    ``authorizationUrl`` never appears here: the reader drops it (Kiro V3 client guide, MCP status).
    """

    servers: Sequence[JsonObject]
    raw: JsonObject | None = None


@attrs.frozen
class SteeringChanged:
    """What became of steering text: ``state`` queued, injected, cleared or dropped."""

    state: str
    message_ids: Sequence[str] = ()
    text: str | None = None
    raw: JsonObject | None = None


@attrs.frozen
class TurnStarted:
    """The sidecar sent a prompt. ``prompt`` is the list of content blocks sent; ``text`` what the user typed."""

    turn_id: str
    text: str
    prompt: Sequence[JsonObject] = ()
    started_at: str = ""


@attrs.frozen
class TurnEnded:
    """The reply of the prompt arrived (the only end of a turn), or it can no longer arrive.

    ``outcome``: ``ended`` (see ``stop_reason``, kept even when unknown), ``failed`` (see ``error``), ``unknown`` (the agent was
    lost before it answered; the prompt is never sent again). ``cancel_requested`` is remembered by the session itself.
    """

    turn_id: str
    outcome: Literal["ended", "failed", "unknown"]
    stop_reason: str | None = None
    error: str | None = None
    ended_at: str = ""
    meta: Meta = None
    raw: JsonObject | None = None


@attrs.frozen
class CancelRequested:
    """The user asked to stop the running turn."""

    turn_id: str
    at: str = ""


@attrs.frozen
class LoadBegan:
    """``session/load`` was sent: what follows builds the session from empty, beside what is shown."""


@attrs.frozen
class LoadEnded:
    """The load reply arrived. ``ok`` false throws the new build away and keeps what was shown."""

    ok: bool
    replayed: bool = True


@attrs.frozen
class MarkedIncomplete:
    """A frame of this session was dropped or could not be read; a reload is offered."""

    reason: str


@attrs.frozen
class UnknownUpdate:
    """An update of a kind not known here. ``raw`` is kept, shown as kind ``unknown`` and relayed; its body is not logged."""

    kind: str
    raw: JsonObject


SessionEvent: TypeAlias = (
    TextDelta
    | ContentAdded
    | ToolCallChanged
    | TerminalChanged
    | PlanReplaced
    | CommandsReplaced
    | ModesReplaced
    | ModeChanged
    | ConfigReplaced
    | InfoChanged
    | UsageChanged
    | NoticeAdded
    | CompactionChanged
    | ToolsReplaced
    | McpServersReplaced
    | SteeringChanged
    | TurnStarted
    | TurnEnded
    | CancelRequested
    | LoadBegan
    | LoadEnded
    | MarkedIncomplete
    | UnknownUpdate
)
