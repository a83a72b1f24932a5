"""What a session holds: turns of parts, and the lists beside them. Data only; ``reducer.py`` changes it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

import attrs

from sidecar.session.events import JsonObject, Meta, Role
from sidecar.session.terminals import TerminalView
from sidecar.session.text import TextBuffer

FINAL_STATUSES: Final = frozenset({"completed", "failed", "cancelled", "canceled", "rejected", "denied", "error", "skipped"})
Section: TypeAlias = Literal[
    "plan", "commands", "config", "tools", "usage", "title", "mcp", "compaction", "steering", "queue", "state"
]
SECTIONS: Final[tuple[Section, ...]] = get_args(Section)
MessageKey: TypeAlias = tuple[Role, str]


@attrs.define(eq=False)
class Part:
    """One piece of a turn, in the order the agent began it. ``part_id`` is ours and never used again in this session."""

    part_id: str
    turn: "Turn"
    meta: Meta


@attrs.define(eq=False)
class TextPart(Part):
    """Text of one role. ``echo`` marks the agent's repetition of the prompt: always a prefix of what the turn's prompt holds."""

    role: Role
    message_id: str | None
    echo: bool = False
    buffer: TextBuffer = attrs.field(factory=TextBuffer)


@attrs.define(eq=False)
class ContentPart(Part):
    """A content block other than text, packed (``text.pack``)."""

    role: Role
    message_id: str | None
    block: Any
    echo: bool = False


@attrs.define(eq=False)
class ToolPart(Part):
    """A tool call. ``fields`` as in ``ToolCallChanged`` with long strings packed; the agent's ``status`` is never altered."""

    tool_call_id: str
    fields: dict[str, Any] = attrs.field(factory=dict[str, Any])
    announced: bool = False

    @property
    def finished(self) -> bool:
        """Whether the agent itself reported an end."""
        return self.fields.get("status") in FINAL_STATUSES

    @property
    def closed(self) -> bool:
        """Whether we closed it because its turn ended first."""
        return not self.finished and not self.turn.running

    @property
    def shown_status(self) -> str:
        """What to show: the agent's status, or what became of a call the agent never finished."""
        if not self.finished:
            if not self.turn.running:
                return "cancelled" if self.turn.cancelled else "unfinished"
            if self.turn.cancel_requested_at is not None:
                return "cancelling"
        status = self.fields.get("status")
        return status if isinstance(status, str) else "pending"


@attrs.define(eq=False)
class UnknownPart(Part):
    """An update of a kind not known here, kept as JSON text (as the object itself when it has no JSON text).

    It does not interrupt running text.
    """

    update_kind: str
    raw: str | JsonObject


@attrs.define(eq=False)
class Turn:
    """A prompt and all that followed it.

    ``origin``: ``prompt`` (sent by us), ``replay`` (from a load), ``preamble`` (what came before any turn).
    """

    turn_id: str
    origin: Literal["prompt", "replay", "preamble"]
    text: str = ""
    prompt: Any = ()
    started_at: str = ""
    running: bool = True
    cancel_requested_at: str | None = None
    outcome: Literal["ended", "failed", "unknown"] | None = None
    stop_reason: str | None = None
    error: str | None = None
    ended_at: str = ""
    meta: Meta = None
    parts: list[Part] = attrs.field(factory=list[Part])
    last: Part | None = None
    open_messages: dict[MessageKey, TextPart] = attrs.field(factory=dict[MessageKey, TextPart])
    echoes: list[str] | None = None

    @property
    def cancelled(self) -> bool:
        """Whether the user stopped it: an agent that then answers ``end_turn`` was cancelled all the same."""
        return self.outcome != "unknown" and (self.cancel_requested_at is not None or self.stop_reason == "cancelled")

    @property
    def ended_as(self) -> str | None:
        """One word on how it ended: cancelled, failed, unknown, or the agent's stop reason; None while it runs."""
        if self.running or self.outcome is None:
            return None
        if self.outcome == "unknown":
            return "unknown"
        if self.cancelled:
            return "cancelled"
        return "failed" if self.outcome == "failed" else self.stop_reason or "ended"


@attrs.frozen
class Notice:
    """Something told beside the conversation."""

    notice_id: str
    severity: str
    title: str
    description: str | None
    source: str
    meta: Meta


@attrs.define(eq=False)
class Compaction:
    """One compaction of the agent's context."""

    compaction_id: str
    status: str | None = None
    summary: Sequence[JsonObject] = ()
    summary_text: TextBuffer = attrs.field(factory=TextBuffer)
    error: str | None = None
    meta: Meta = None


@attrs.define(eq=False)
class Steering:
    """Text added to a running turn, and what became of it."""

    message_id: str | None
    state: str
    text: str | None


class Watcher(Protocol):
    """Told of every change, in order; see ``cursor.py``."""

    def turn_started(self, turn: Turn) -> None: ...
    def turn_ended(self, turn: Turn) -> None: ...
    def part_added(self, part: Part) -> None: ...
    def text_grew(self, part: TextPart, start: int) -> None: ...
    def part_meta_changed(self, part: TextPart) -> None: ...
    def tool_changed(self, part: ToolPart, fields: Iterable[str]) -> None: ...
    def terminal_changed(self, terminal: TerminalView) -> None: ...
    def section_changed(self, section: Section) -> None: ...
    def notice_added(self, notice: Notice) -> None: ...


@attrs.define(eq=False)
class Conversation:
    """One build of a session's state: what is shown, or what a load is building beside it.

    ``watchers`` is empty while it is being built.
    """

    watchers: list[Watcher]
    turns: list[Turn] = attrs.field(factory=list[Turn])
    turn_index: dict[str, Turn] = attrs.field(factory=dict[str, Turn])
    current: Turn | None = None
    tool_parts: dict[str, ToolPart] = attrs.field(factory=dict[str, ToolPart])
    terminals: dict[str, TerminalView] = attrs.field(factory=dict[str, TerminalView])
    plan: Sequence[JsonObject] = ()
    commands: Sequence[JsonObject] = ()
    modes: Sequence[JsonObject] | None = None
    mode: str | None = None
    config_options: Sequence[JsonObject] | None = None
    usage: dict[str, Any] = attrs.field(factory=dict[str, Any])
    title: str | None = None
    updated_at: str | None = None
    tools: Sequence[JsonObject] = ()
    mcp: dict[str, JsonObject] = attrs.field(factory=dict[str, JsonObject])
    compactions: dict[str, Compaction] = attrs.field(factory=dict[str, Compaction])
    steering: list[Steering] = attrs.field(factory=list[Steering])
    incomplete: str | None = None
    metas: dict[str, Mapping[str, Any]] = attrs.field(factory=dict[str, Mapping[str, Any]])

    @property
    def running_turn(self) -> Turn | None:
        """The turn that waits for its end, if any."""
        return self.current if self.current is not None and self.current.running else None
