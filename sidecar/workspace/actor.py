"""One session as the user works with it: its state, the prompts that wait, the turn that runs, and the agent behind it.

An actor is the ``SessionSink`` of its session. It survives its agent: when the connection is lost the next need starts a fresh
one and loads the session; a prompt whose outcome is unknown is never sent again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol

import anyio
import attrs

from sidecar.errors import AgentFault, EditorFault, Refused, SidecarError, Unavailable
from sidecar.session.events import (
    CancelRequested,
    JsonObject,
    LoadEnded,
    NoticeAdded,
    SessionEvent,
    TurnEnded,
    TurnStarted,
)
from sidecar.session.interaction import Answered, Form, PermissionRequest, QuestionBody, QuestionHandle, Withdrawal
from sidecar.session.model import SessionState
from sidecar.session.ports import AgentConnection, Loss, SessionOpened, SessionSpec
from sidecar.session.text import unpack
from sidecar.workspace.broker import Asker, Broker, Clock
from sidecar.workspace.turns import PromptQueue, QueuedPrompt

CANCEL_PATIENCE_SECONDS: Final = 10.0
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

    async def open(self, actor: "SessionActor") -> tuple[AgentConnection, SessionOpened]:
        """Connect and create or load ``actor``'s session; the actor is bound as its sink."""
        ...


class SessionActor:
    """Folds events into state, runs one turn at a time, keeps the queue."""

    chosen_names: ClassVar = frozenset({"mode", "model", "effort"})

    def __init__(
        self, identity: SessionIdentity, broker: Broker, opener: Opener, clock: Clock, new_turn_id: Callable[[], str]
    ) -> None:
        self.identity = identity
        self.state = SessionState()
        self.queue = PromptQueue()
        self.connection: AgentConnection | None = None
        self.closed = False
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
        self._phase = "idle"
        self._since = clock.iso()
        self._message: str | None = None
        self._offers: list[str] = []
        self._last_frame_at: str | None = None
        self._listeners: list[Callable[[Sequence[SessionEvent]], None]] = []
        self._show_status()

    # --- the sink ---------------------------------------------------------------------------------------------------------

    def apply(self, batch: Sequence[SessionEvent]) -> None:
        """Take the events of one read; observers see them after the state does."""
        self._last_frame_at = self._clock.iso()
        self.state.apply(batch)
        for event in batch:
            if type(event) is LoadEnded and event.ok:
                self.replayed = event.replayed
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
        self._phase, self._message, self._offers = phase, message, list(offers)
        self._show_status()

    def _show_status(self) -> None:
        identity = self.identity
        status: dict[str, Any] = {"state": self._phase, "since": self._since, "agent": identity.agent, "held": self.queue.held}
        status |= {"remote": identity.remote} if identity.remote else {}
        status |= {"message": self._message} if self._message else {}
        status |= {"offers": self._offers} if self._offers else {}
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
        if self.closed:
            raise Refused("the session is closed; load it or start a new one")
        async with self._lock:
            if self.connection is not None:
                return self.connection
            before = self._phase
            self._set_phase("opening")
            try:
                connection, opened = await self._opener.open(self)
            except BaseException as error:
                self._set_phase(
                    "lost" if before == "lost" else "idle", error.message if isinstance(error, SidecarError) else None
                )
                raise
            self.opened(connection, opened)
            return connection

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

    # --- turns ------------------------------------------------------------------------------------------------------------

    async def prompt(self, text: str, blocks: Sequence[JsonObject], while_running: str = "queue") -> dict[str, str]:
        """Send a prompt, or queue it, steer with it or replace the running turn: ``{"turnId", "state"}``."""
        if self._running is not None:
            if while_running == "steer":
                outcome = await self.steer(text)
                if outcome["state"] == "steered":
                    return {"turnId": self.running_turn_id or "", "state": "steered"}
                return {"turnId": outcome["turnId"], "state": "queued"}
            if while_running == "replace":
                item = self._queue(text, blocks, first=True)
                self.cancel()
                self.resume()
                return {"turnId": item.turn_id, "state": "queued"}
            item = self._queue(text, blocks)
            return {"turnId": item.turn_id, "state": "queued"}
        await self.ensure_open()
        waiting = len(self.queue) > 0 or self._running is not None
        item = self._queue(text, blocks)
        self.resume()
        return {"turnId": item.turn_id, "state": "queued" if waiting else "started"}

    def _queue(self, text: str, blocks: Sequence[JsonObject], *, first: bool = False, origin: str = "user") -> QueuedPrompt:
        item = QueuedPrompt(self._new_turn_id(), text, blocks, self._clock.iso(), origin)
        self.queue.add(item, first=first)
        self._show_queue()
        return item

    def resume(self) -> None:
        """Let the queue go on."""
        self.queue.held = False
        self._show_queue()
        self._wake.set()

    def edit_queue(self, change: Callable[[PromptQueue], Any]) -> list[dict[str, Any]]:
        """Change the queue and return it."""
        change(self.queue)
        self._show_queue()
        return self.queue.to_json()

    async def run(self) -> None:
        """Send queued prompts one after the other, for as long as the session is open. Owned by the workspace's task group."""
        while not self.closed:
            item = self.queue.next()
            if item is None:
                self._wake = anyio.Event()
                await self._wake.wait()
                continue
            self._show_queue()
            await self._run_turn(item)

    async def _run_turn(self, item: QueuedPrompt) -> None:
        self._running = item
        self._ended = anyio.Event()
        try:
            connection = await self.ensure_open()
            if self.queue.held and self._phase == "cancelling":
                return
            self._set_phase("running")
            self.apply([TurnStarted(item.turn_id, item.text, item.blocks, self._clock.iso())])
            agent_session_id = self.identity.agent_session_id
            if agent_session_id is None:
                raise Unavailable("the session has no id at the agent")
            await connection.prompt(agent_session_id, item.turn_id, item.blocks)
        except SidecarError as error:
            self._end_unsent(item, error)
        finally:
            self._running = None
            self._ended.set()
            if self._phase in {"running", "cancelling"}:
                self._set_phase("idle")

    def _end_unsent(self, item: QueuedPrompt, error: SidecarError) -> None:
        """Show a turn that could not even be sent as failed, and hold what waits behind it."""
        turn = self.state.conversation.turn_index.get(item.turn_id)
        events: list[SessionEvent] = []
        if turn is None:
            events.append(TurnStarted(item.turn_id, item.text, item.blocks, self._clock.iso()))
        if turn is None or turn.running:
            events.append(TurnEnded(item.turn_id, "failed", error=error.message, ended_at=self._clock.iso()))
        if events:
            self.apply(events)
        self.queue.held = bool(len(self.queue))
        self._show_queue()

    def cancel(self, spawn: Callable[[Callable[[], Awaitable[None]]], None] | None = None) -> dict[str, str]:
        """Stop the running turn: questions are answered cancelled, then the agent is told once. ``{"state"}``.

        The queue is held until the user sends or resumes. When idle nothing is sent.
        """
        running = self._running
        if running is None:
            return {"state": "idle"}
        self.queue.held = True
        self._show_queue()
        if self._phase == "cancelling":
            return {"state": "cancelling"}
        self._set_phase("cancelling")
        if self.state.running_turn is not None:
            self.apply([CancelRequested(running.turn_id, self._clock.iso())])
        for pending in self._broker.pending():
            if pending.asker.session_id == self.identity.session_id and isinstance(pending.body, PermissionRequest | Form):
                self._broker.withdraw(pending, Withdrawal.TURN_CANCELLED)
        if self.connection is not None and self.identity.agent_session_id is not None:
            self.connection.cancel(self.identity.agent_session_id)
        if spawn is not None:
            spawn(self._offer_way_out)
        return {"state": "cancelling"}

    async def _offer_way_out(self) -> None:
        """After a while of cancelling, offer to restart the agent; nothing is done without the user."""
        with anyio.move_on_after(CANCEL_PATIENCE_SECONDS):
            await self._ended.wait()
            return
        if self._phase == "cancelling":
            self._set_phase("cancelling", "the agent has not answered the cancel", [RESTART_OFFER])

    async def wait_idle(self) -> None:
        """Wait until no turn runs."""
        if self._running is not None:
            await self._ended.wait()

    async def steer(self, text: str) -> dict[str, str]:
        """Add text to the running turn: ``{"state": "steered" | "queued" | "unsupported", "turnId"?}``.

        Text the agent did not take returns to the queue, first in line.
        """
        connection, agent_session_id = self.connection, self.identity.agent_session_id
        if connection is None or agent_session_id is None or self._running is None:
            raise EditorFault("no turn is running; send a prompt instead")
        state = "unsupported"
        if connection.info.capabilities.steer:
            try:
                state = (await connection.steer(agent_session_id, text)).state
            except (AgentFault, Unavailable) as error:
                self.notice("warning", "The agent did not take the guidance; it waits as the next prompt", error.message)
        if state == "steered":
            return {"state": "steered"}
        item = self._queue(text, [{"type": "text", "text": text}], first=True, origin="steer")
        self._wake.set()
        return {"state": "queued", "turnId": item.turn_id, **({"reason": "unsupported"} if state == "unsupported" else {})}

    async def guide(self, text: str) -> None:
        """Send guidance that goes with a permission answer: as steering before it, else as the first queued prompt."""
        if self._running is not None:
            await self.steer(text)
        else:
            self._queue(text, [{"type": "text", "text": text}], first=True, origin="guidance")
            self._wake.set()

    # --- the end -----------------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Close for good: questions withdrawn, the runner stops."""
        self.closed = True
        self._broker.withdraw_session(self.identity.session_id, Withdrawal.SESSION_CLOSED)
        self._set_phase("ended")
        self._wake.set()

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
