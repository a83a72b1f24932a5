"""The part of a session that runs no turns: the sink, what is shown of it, and the agent behind it.

It survives its agent: when the connection is lost, the next need starts a fresh one and loads the session.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol

import anyio
import attrs

from sidecar.errors import Refused, SidecarError
from sidecar.session.events import JsonObject, LoadEnded, MarkedIncomplete, NoticeAdded, SessionEvent
from sidecar.session.interaction import Answered, QuestionBody, QuestionHandle, Withdrawal
from sidecar.session.model import SessionState
from sidecar.session.ports import AgentConnection, Loss, SessionOpened, SessionSpec
from sidecar.session.text import unpack
from sidecar.workspace.broker import Asker, Broker, Clock
from sidecar.workspace.turns import PromptQueue, QueuedPrompt

RESTART_OFFER: Final = "agent.restart"
RELOAD_OFFER: Final = "session.load"


@attrs.define
class SessionIdentity:
    """Which session this is: ours, the agent's, and what has to be sent again when it is loaded."""

    session_id: str
    agent: str
    spec: SessionSpec
    agent_session_id: str | None = None
    generation: str | None = None
    remote: bool = False


class Opener(Protocol):
    """Opens the session at an agent: the workspace's part that knows agents, sign-in and wishes."""

    async def open(self, actor: "SessionCore") -> tuple[AgentConnection, SessionOpened]:
        """Connect and create or load ``actor``'s session; the actor is bound as its sink."""
        ...


class SessionCore:
    """The sink of a session, what is shown of it, and the agent behind it. ``actor.SessionActor`` adds the turns."""

    chosen_names: ClassVar = frozenset({"mode", "model", "effort"})

    def __init__(
        self, identity: SessionIdentity, broker: Broker, opener: Opener, clock: Clock, new_turn_id: Callable[[], str]
    ) -> None:
        self.identity = identity
        self.state = SessionState()
        self.queue = PromptQueue()
        self.connection: AgentConnection | None = None
        self.closed = False
        self.forgotten = False
        self.replay = True
        self.replayed = False
        self.chosen: dict[str, str] = {}
        self._broker = broker
        self._opener = opener
        self._clock = clock
        self._new_turn_id = new_turn_id
        self._lock = anyio.Lock()
        self._wake = anyio.Event()
        self._ended = anyio.Event()
        self._running: QueuedPrompt | None = None
        self._cancel_wanted = False
        self._idle_cancels: int = 0
        self._phase = "idle"
        self._since = clock.iso()
        self._message: str | None = None
        self._offers: Sequence[str] = ()
        self._last_frame_at: str | None = None
        self._listeners: list[Callable[[Sequence[SessionEvent]], None]] = []
        self._at_end: list[Callable[[], None]] = []
        self._show_status()

    # --- the sink ---------------------------------------------------------------------------------------------------------

    def apply(self, batch: Sequence[SessionEvent]) -> None:
        """Take the events of one read; observers see them after the state does."""
        self._last_frame_at = self._clock.iso()
        self.state.apply(batch)
        for event in batch:
            if type(event) is LoadEnded and event.ok:
                self.replayed = event.replayed
                self._show_status()
            elif type(event) is MarkedIncomplete:
                self._show_status()
        for listener in self._listeners:
            listener(batch)

    def ask(self, question: QuestionBody, answered: Answered) -> QuestionHandle:
        """Put a question of this session to the user."""
        asker = Asker(self.identity.session_id, self.identity.agent, getattr(question, "origin", None) or "agent")
        return self._broker.ask(asker, question, answered)

    def tool_call(self, tool_call_id: str) -> JsonObject | None:
        """Return what is known of a tool call."""
        part = self.state.conversation.tool_parts.get(tool_call_id)
        return {name: unpack(value) for name, value in part.fields.items()} if part is not None else None

    def observe(self, listener: Callable[[Sequence[SessionEvent]], None]) -> Callable[[], None]:
        """Call ``listener(batch)`` for every batch; returns the way to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def when_ended(self, listener: Callable[[], None]) -> None:
        """Call ``listener()`` when the session is closed."""
        self._at_end.append(listener)

    # --- status -----------------------------------------------------------------------------------------------------------

    @property
    def phase(self) -> str:
        """``idle``, ``opening``, ``running``, ``cancelling``, ``lost`` or ``ended``."""
        return self._phase

    @property
    def running_turn_id(self) -> str | None:
        """The turn that was sent and has not ended."""
        return self._running.turn_id if self._running is not None else None

    @property
    def last_frame_at(self) -> str | None:
        """When something last came from the agent; ages are plain time since then."""
        return self._last_frame_at

    def _set_phase(self, phase: str, message: str | None = None, offers: Sequence[str] = ()) -> None:
        if phase != self._phase:
            self._since = self._clock.iso()
        self._phase, self._message, self._offers = phase, message, offers
        self._show_status()

    def _show_status(self) -> None:
        identity = self.identity
        status: dict[str, Any] = {"state": self._phase, "since": self._since, "agent": identity.agent, "held": self.queue.held}
        status |= {"remote": identity.remote} if identity.remote else {}
        status |= {"message": self._message} if self._message else {}
        offers = [*self._offers, *([RELOAD_OFFER] if self.state.conversation.incomplete is not None else [])]
        status |= {"offers": offers} if offers else {}
        status |= {"generation": identity.generation} if identity.generation else {}
        self.state.set_status(status)

    def _show_queue(self) -> None:
        self.state.set_queue(self.queue.to_json())
        self._show_status()

    def notice(self, severity: str, title: str, description: str | None = None) -> None:
        """Tell something beside the conversation, from the sidecar itself."""
        self.state.apply([NoticeAdded(severity, title, description, source="sidecar")])

    # --- the agent behind it -------------------------------------------------------------------------------------------------

    async def ensure_open(self) -> AgentConnection:
        """Return the connection, starting the agent and creating or loading the session first where needed."""
        self._refuse_closed()
        async with self._lock:
            self._refuse_closed()
            if self.connection is not None and self.connection.closed is None:
                return self.connection
            self.connection = None
            before = self._phase
            self._set_phase("opening")
            try:
                connection, opened = await self._opener.open(self)
            except BaseException as error:
                if not self.closed:
                    self._set_phase(
                        "lost" if before == "lost" else "idle", error.message if isinstance(error, SidecarError) else None
                    )
                raise
            if self.closed:
                await connection.close_session(opened.agent_session_id)
            self._refuse_closed()
            self.opened(connection, opened)
            return connection

    def _refuse_closed(self) -> None:
        if self.closed:
            raise Refused("the session is closed; load it or start a new one")

    def opened(self, connection: AgentConnection, opened: SessionOpened) -> None:
        """The agent has the session now."""
        self.connection = connection
        self.identity.agent_session_id = opened.agent_session_id
        self.identity.remote = opened.remote
        if opened.remote:
            self.identity.spec = attrs.evolve(self.identity.spec, source="remote")
        self.identity.generation = connection.info.generation
        for sentence in opened.skipped:
            self.notice("warning", "Something was not sent to the agent", sentence)
        self._set_phase("running" if self._running is not None else "idle")

    async def reload(self, *, replay: bool) -> None:
        """Load the session again over the same connection; what is shown stays until the agent's history is complete."""
        async with self._lock:
            self.replay = replay
            self.connection = None
        await self.ensure_open()

    def remember_wish(self, name: str, value: str | bool) -> None:
        """Keep what the user chose for this session; sent again when it is loaded."""
        if name in self.chosen_names and isinstance(value, str):
            self.chosen[name] = value
            self.identity.spec = attrs.evolve(self.identity.spec, **{name: value})

    def connection_lost(self, loss: Loss) -> None:
        """The agent is gone; its running turn and questions have ended already."""
        self.connection = None
        self._broker.withdraw_session(self.identity.session_id, Withdrawal.AGENT_LOST)
        if not self.closed and not loss.expected:
            self.queue.held = bool(len(self.queue))
            self._set_phase("lost", loss.reason, [RESTART_OFFER])
        else:
            self._set_phase("ended" if self.closed else "idle")

    # --- the end -----------------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Close for good: questions withdrawn, the runner stops."""
        self.closed = True
        self._broker.withdraw_session(self.identity.session_id, Withdrawal.SESSION_CLOSED)
        self._set_phase("ended")
        self._wake.set()
        while self._at_end:
            self._at_end.pop()()

    def mapping(self) -> Mapping[str, Any]:
        """Return the session in one line of a list."""
        identity = self.identity
        shown: dict[str, Any] = {
            "sessionId": identity.session_id,
            "agent": identity.agent,
            "cwd": identity.spec.cwd,
            "title": self.state.conversation.title,
            "state": self._phase,
        }
        if identity.agent_session_id is not None:
            shown["agentSessionId"] = identity.agent_session_id
        if self._last_frame_at is not None:
            shown["lastFrameAt"] = self._last_frame_at
        return shown
