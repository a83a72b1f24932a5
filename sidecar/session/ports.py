"""Where agents and the workspace meet: the workspace calls an ``AgentConnection``; a connection reports to sinks.

Sinks are called synchronously, in the order of the wire, from the loop that reads the agent; they must not block. ACP (a child
process) and AHP (a host behind a WebSocket) implement the same ports.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs

from sidecar.errors import AgentFault
from sidecar.session.events import JsonObject, SessionEvent
from sidecar.session.interaction import Answered, QuestionBody, QuestionHandle

EMPTY: Mapping[str, Any] = {}


@attrs.frozen
class Capabilities:
    """What the running agent offers, as booleans, plus values it announced. Absent means not offered.

    ``announced`` holds the agent's extension method names; ``values`` lists such as ``sessionSources``, ``sessionListScopes``,
    ``executionTargets``, ``replayMarking``, ``logging`` exactly as announced.
    """

    load: bool = False
    resume: bool = False
    list: bool = False
    close: bool = False
    delete: bool = False
    fork: bool = False
    rename: bool = False
    compact: bool = False
    context: bool = False
    export: bool = False
    history: bool = False
    steer: bool = False
    usage: bool = False
    consents: bool = False
    image: bool = False
    audio: bool = False
    embedded_context: bool = False
    additional_directories: bool = False
    mcp_http: bool = False
    mcp_sse: bool = False
    mcp_authenticate: bool = False
    logout: bool = False
    announced: Sequence[str] = ()
    values: Mapping[str, Any] = EMPTY


@attrs.frozen
class AgentInfo:
    """Who answers: ``name`` is the configured name; ``title`` and ``version`` what the agent says.

    ``generation`` names the dialect (kiro-v3, kiro-v2, acp); with ``late_options`` options may be reported after a session began.
    """

    name: str
    title: str | None = None
    version: str | None = None
    generation: str | None = None
    pid: int | None = None
    capabilities: Capabilities = Capabilities()
    auth_methods: Sequence[JsonObject] = ()
    remote: bool = False
    late_options: bool = False


@attrs.frozen
class SessionSpec:
    """Everything the client owns about a session; sent on new and again on load. Paths are absolute.

    ``mcp_servers`` are ACP MCP entries with secrets resolved; ``mode``, ``model``, ``effort`` the user's wishes.
    """

    cwd: str
    additional_directories: Sequence[str] = ()
    mcp_servers: Sequence[JsonObject] = ()
    mode: str | None = None
    model: str | None = None
    effort: str | None = None
    execution_target: str | None = None
    source: str | None = None


@attrs.frozen
class SessionOpened:
    """A session exists at the agent. ``skipped`` are sentences on inputs the agent cannot take (told to the user)."""

    agent_session_id: str
    remote: bool = False
    skipped: Sequence[str] = ()
    meta: JsonObject | None = None


@attrs.frozen
class SessionQuery:
    """One page of ``session/list``. ``scope`` and ``source`` are sent only when announced."""

    cwd: str | None = None
    cursor: str | None = None
    scope: str | None = None
    source: str | None = None


@attrs.frozen
class SessionPage:
    """``sessions``: ``{"agentSessionId", "cwd", "title"?, "updatedAt"?, "additionalDirectories"?, "meta"?}``."""

    sessions: Sequence[JsonObject]
    next_cursor: str | None = None


@attrs.frozen
class SteerResult:
    """``state``: steered, dropped (the agent did not take it) or unsupported."""

    state: str
    message_id: str | None = None


@attrs.frozen
class Loss:
    """Why a connection ended: a sentence for the user, exit code or signal, the redacted tail of stderr."""

    reason: str
    exit_code: int | None = None
    signal: int | None = None
    stderr_tail: str = ""
    expected: bool = False


class SessionSink(Protocol):
    """The workspace's end of one session."""

    def apply(self, batch: Sequence[SessionEvent]) -> None:
        """Take the events of one read, in order."""
        ...

    def ask(self, question: QuestionBody, answered: Answered) -> QuestionHandle:
        """Put a question to the user; ``answered`` is called exactly once, now or later."""
        ...

    def tool_call(self, tool_call_id: str) -> JsonObject | None:
        """Return what is known of a tool call (the keys of ``ToolCallChanged.fields``), to complete a permission's stub."""
        ...


class FilesService(Protocol):
    """The user's files as an agent may read and write them: buffers first, the disk else (ACP v1, file system).

    ``sink`` is that of the session that asks. Both raise ``SidecarError``: not there, no text, not permitted, changed meanwhile.
    """

    async def read_text(self, sink: SessionSink, path: str, line: int | None = None, limit: int | None = None) -> str:
        """Return the text of a file; ``line`` counts from 1 (0 is taken as 1), ``limit`` is a number of lines."""
        ...

    async def write_text(self, sink: SessionSink, path: str, content: str) -> None:
        """Make ``content`` the text of a file, which is made when it is not there; it is on the disk when this returns."""
        ...


@attrs.frozen
class TerminalRequest:
    """What ``terminal/create`` asks for: a program and its arguments, or with ``args`` None or empty most likely a shell line.

    ``cwd`` None is the session's folder; ``output_limit`` is in bytes, None for our own.
    """

    command: str
    args: Sequence[str] | None = None
    env: Mapping[str, str] = EMPTY
    cwd: str | None = None
    output_limit: int | None = None


@attrs.frozen
class TerminalExit:
    """How a command ended: its exit code, or the name of the signal that ended it; both None when the end was not seen."""

    code: int | None = None
    signal: str | None = None


@attrs.frozen
class TerminalText:
    """The end of a command's output within its limit; ``exit`` is None while it runs."""

    output: str
    truncated: bool
    exit: TerminalExit | None = None


class TerminalService(Protocol):
    """Commands an agent has the client run (ACP v1, terminals). ``sink`` is that of the session that asks.

    Every method raises ``SidecarError``: no leave of the user, too many, cannot be started, no such terminal (any more).
    """

    async def create(self, sink: SessionSink, request: TerminalRequest) -> str:
        """Start a command the user allowed, asking where that is not known; return the terminal's id."""
        ...

    def output(self, sink: SessionSink, terminal_id: str) -> TerminalText:
        """Return what it printed."""
        ...

    async def wait(self, sink: SessionSink, terminal_id: str) -> TerminalExit:
        """Wait for its end, however long, also past its release."""
        ...

    async def kill(self, sink: SessionSink, terminal_id: str) -> None:
        """End it and everything it started; the id stays valid."""
        ...

    async def release(self, sink: SessionSink, terminal_id: str) -> None:
        """Forget the id, ending what still runs; the output stays shown."""
        ...

    def shell(self) -> str:
        """Return the name of the shell that runs shell lines, such as ``bash``."""
        ...

    def leave(self, sink: SessionSink, terminal_ids: Sequence[str]) -> None:
        """The agent that made these is gone: release them without waiting."""
        ...


class ConnectionSink(Protocol):
    """The workspace's end of one agent connection, for what belongs to no known session."""

    def ask(self, question: QuestionBody, answered: Answered) -> QuestionHandle:
        """As ``SessionSink.ask``, for requests without a known session (marked by ``origin``)."""
        ...

    def notice(self, severity: str, title: str, description: str | None = None) -> None:
        """Tell the user something about the agent as a whole."""
        ...

    def sessions_changed(self) -> None:
        """The agent's own list of sessions changed."""
        ...

    def lost(self, loss: Loss) -> None:
        """The connection is gone; called once, after every running turn got its ``TurnEnded``."""
        ...


class AgentConnection(Protocol):
    """One running agent with any number of sessions.

    Every method raises ``AgentFault`` (the agent failed, with its own message), ``Unavailable`` (not offered, not running) or
    ``Refused``. Events of a call reach the sink before the call returns.
    """

    @property
    def info(self) -> AgentInfo:
        """What is known since ``initialize``."""
        ...

    @property
    def closed(self) -> str | None:
        """Why the connection is over, or None while it lives."""
        ...

    async def new_session(self, spec: SessionSpec, sink: SessionSink) -> SessionOpened:
        """Create a session; ``sink`` gets everything about it, including what came before the reply."""
        ...

    async def load_session(
        self, agent_session_id: str, spec: SessionSpec, sink: SessionSink, *, replay: bool = True
    ) -> SessionOpened:
        """Restore a session; the sink is in place before the request is sent; bounded by the configured deadline."""
        ...

    async def list_sessions(self, query: SessionQuery) -> SessionPage:
        """One page of the agent's sessions."""
        ...

    async def prompt(self, agent_session_id: str, turn_id: str, blocks: Sequence[JsonObject]) -> None:
        """Send one prompt and wait for its end, which the sink has seen as ``TurnEnded(turn_id)`` when this returns."""
        ...

    def cancel(self, agent_session_id: str) -> None:
        """Ask the agent to stop the running prompt (once; never when idle). Never waits."""
        ...

    async def steer(self, agent_session_id: str, text: str) -> SteerResult:
        """Add text to the running turn."""
        ...

    async def clear_steering(self, agent_session_id: str) -> Sequence[str]:
        """Take back queued steering; returns the message ids cleared."""
        ...

    async def set_config(self, agent_session_id: str, option_id: str, value: str | bool) -> None:
        """Set a config option; the full new list reaches the sink."""
        ...

    async def set_mode(self, agent_session_id: str, mode_id: str) -> None:
        """Set the mode by ``session/set_mode``."""
        ...

    async def close_session(self, agent_session_id: str) -> None:
        """Free the session at the agent and forget its sink."""
        ...

    async def delete_session(self, agent_session_id: str) -> None:
        """Delete the stored session at the agent."""
        ...

    async def fork_session(
        self, agent_session_id: str, spec: SessionSpec, sink: SessionSink, *, message_id: str | None = None
    ) -> SessionOpened:
        """Branch a session."""
        ...

    async def extension(self, agent_session_id: str | None, operation: str, params: JsonObject) -> JsonObject:
        """Run an announced typed extension: ``rename, compact, context, export, history, usage, consents``."""
        ...

    async def mcp_authenticate(self, agent_session_id: str, server: str) -> None:
        """Start the sign-in of an MCP server, on the user's act."""
        ...

    async def authenticate(self, method_id: str) -> None:
        """Sign in to the agent with one of its ``auth_methods`` (never a terminal one)."""
        ...

    def wants_sign_in(self, fault: AgentFault) -> bool:
        """Return whether this error of the agent means that the user has to sign in."""
        ...

    def forget_session(self, agent_session_id: str) -> None:
        """Drop the sink without telling the agent."""
        ...

    async def aclose(self) -> None:
        """End the connection in bounded time; nothing of it survives."""
        ...
