"""All sessions of this sidecar, the agents behind them, and the questions of both: what the fronts work with."""

import logging
import os
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio.abc

from sidecar.agents.supervisor import AgentSupervisor, Start
from sidecar.config import Configuration
from sidecar.errors import EditorFault, SidecarError, to_rpc_error
from sidecar.session.interaction import Answered, OpenUrl, QuestionBody, QuestionHandle, Withdrawal
from sidecar.session.ports import ConnectionSink, Loss
from sidecar.session.restore import restored_events
from sidecar.store.sessions import SessionRecord
from sidecar.transport.process import start_agent
from sidecar.workspace.actor import SessionActor, SessionIdentity
from sidecar.workspace.broker import Asker, Broker
from sidecar.workspace.hooks import FrontHooks, SystemClock
from sidecar.workspace.opening import WISHES, Opening
from sidecar.workspace.records import Records
from sidecar.workspace.resources import Resources
from sidecar.workspace.terminals import Terminals

__all__ = ["FrontHooks", "SystemClock", "Workspace", "existing_folder"]

_log = logging.getLogger(__name__)


class _AgentSink:
    """Where a connection reports what belongs to no session known here."""

    def __init__(self, workspace: "Workspace", agent: str) -> None:
        self._workspace = workspace
        self._agent = agent

    def ask(self, question: QuestionBody, answered: Answered) -> QuestionHandle:
        origin = getattr(question, "origin", None) or "agent"
        return self._workspace.broker.ask(Asker(None, self._agent, origin), question, answered)

    def notice(self, severity: str, title: str, description: str | None = None) -> None:
        self._workspace.hooks.notice(self._agent, severity, title, description)

    def sessions_changed(self) -> None:
        self._workspace.hooks.agent_changed(self._agent, "running", None)

    def lost(self, loss: Loss) -> None:
        for actor in self._workspace.actors():
            if actor.connection is not None and actor.connection.closed is not None and actor.identity.agent == self._agent:
                actor.connection_lost(loss)


class Workspace:
    """Owns the actors and the broker. ``tasks`` is the root task group: what runs here ends with it."""

    def __init__(
        self,
        tasks: anyio.abc.TaskGroup,
        configuration: Configuration,
        hooks: FrontHooks | None = None,
        *,
        records: Records | None = None,
        start: Start = start_agent,
    ) -> None:
        self.configuration = configuration
        self.hooks = hooks or FrontHooks()
        self.clock = SystemClock()
        self.folders: list[str] = []
        self.active_folder: str | None = None
        self.records = records
        self._tasks = tasks
        self._actors: dict[str, SessionActor] = {}
        self.broker = Broker(self.clock, self.spawn, self)
        self.resources = Resources(lambda: self.configuration, self.hooks, self.folders)
        self.terminals = self.resources.terminals = Terminals(tasks, self.broker, self.resources.terminal_environment)
        self.supervisor = AgentSupervisor(tasks, self, self.resources.needs(self.clock.monotonic), start)
        self._opening = Opening(self.supervisor, lambda: self.configuration)

    # --- what the supervisor and the broker ask for -------------------------------------------------------------------------

    def connection_sink(self, agent: str) -> ConnectionSink:
        """Return where a connection of ``agent`` reports to."""
        return _AgentSink(self, agent)

    def agent_state(self, agent: str, state: str, message: str | None) -> None:
        """Pass an agent's state on to the front."""
        self.hooks.agent_changed(agent, state, message)

    async def open_url(self, body: OpenUrl) -> bool:
        """Have the front open an address the user agreed to."""
        return await self.hooks.open_url(body)

    async def guide(self, session_id: str, text: str) -> None:
        """Send guidance that goes with a permission answer."""
        actor = self._actors.get(session_id)
        if actor is not None:
            await actor.guide(text)

    def spawn(self, job: Callable[[], Awaitable[None]]) -> None:
        """Run a job in the root task group; its errors become notices, never a crash."""

        async def guarded() -> None:
            try:
                await job()
            except SidecarError as error:
                self.hooks.notice("sidecar", "error", error.message, None)
            except Exception as error:  # noqa: BLE001  the top of a job: a bug in one costs no other session anything
                _log.exception("a job failed")
                self.hooks.notice("sidecar", "error", to_rpc_error(error)["message"], None)

        self._tasks.start_soon(guarded)

    # --- sessions -----------------------------------------------------------------------------------------------------------

    def actors(self) -> list[SessionActor]:
        """Every session that is not closed, oldest first."""
        return list(self._actors.values())

    def actor(self, session_id: str) -> SessionActor:
        """Return the session; raises ``EditorFault`` naming those there are."""
        if (found := self._actors.get(session_id)) is not None:
            return found
        known = ", ".join(self._actors) or "none"
        raise EditorFault(f"there is no session {session_id!r} here (open sessions: {known}); see session.list")

    async def create(self, agent: str | None, cwd: str, **more: Any) -> SessionActor:
        """Make a session without starting its agent; ``more`` are the wishes and directories named for it."""
        settings = self.configuration.settings.agent_named(agent)
        folder = existing_folder(cwd)
        spec, left_out = await self.resources.specification(settings, folder, **more)
        actor = self.adopt(SessionIdentity(f"s-{secrets.token_hex(4)}", settings.name, spec))
        self._opening.named[actor.identity.session_id] = frozenset(name for name in WISHES if more.get(name))
        for sentence in left_out:
            actor.notice("warning", sentence)
        return actor

    def adopt(self, identity: SessionIdentity) -> SessionActor:
        """Make the actor of a session (new or stored) and let its queue run."""
        actor = SessionActor(identity, self.broker, self._opening, self.clock, lambda: f"t-{secrets.token_hex(4)}")
        self._actors[identity.session_id] = actor
        if self.records is not None:
            self.records.follow(actor)
        self.terminals.follow(actor)
        self._tasks.start_soon(actor.run)
        self.hooks.session_added(actor)
        return actor

    async def revive(self, session_id: str) -> SessionActor:
        """Return the session of our id, from the store when it is not open; raises ``EditorFault`` when nobody knows it."""
        if (found := self._actors.get(session_id)) is not None:
            return found
        record = await self.records.get(session_id) if self.records is not None else None
        if record is None:
            raise EditorFault(f"there is no session {session_id!r}, open or stored; see session.list")
        return await self._from_record(record)

    async def known_session(self, agent: str, agent_session_id: str) -> SessionActor | None:
        """Return the open or stored session of an agent's id, or None."""
        if (found := self.open_session(agent, agent_session_id)) is not None:
            return found
        record = await self.records.find(agent, agent_session_id) if self.records is not None else None
        return None if record is None else await self._from_record(record)

    def open_session(self, agent: str, agent_session_id: str) -> SessionActor | None:
        """Return the open session of an agent's id, or None."""
        named = (a for a in self.actors() if (a.identity.agent, a.identity.agent_session_id) == (agent, agent_session_id))
        return next(named, None)

    async def _from_record(self, record: SessionRecord) -> SessionActor:
        """Make the actor of a stored session, showing what is stored until the agent replays."""
        settings = self.configuration.settings.agent_named(record.agent)
        spec, left_out = await self.resources.specification(
            settings,
            existing_folder(record.cwd),
            mode=record.mode,
            model=record.model,
            effort=record.effort,
            additional_directories=record.additional_directories,
        )
        identity = SessionIdentity(
            record.session_id, record.agent, spec, record.agent_session_id, record.generation, record.remote
        )
        stored = await self.records.turns(record.session_id) if self.records is not None else None
        if (found := self._actors.get(record.session_id)) is not None:
            return found  # another one was faster
        actor = self.adopt(identity)
        if stored is not None:
            actor.state.apply(restored_events(stored.turns))
        for sentence in left_out:
            actor.notice("warning", sentence)
        return actor

    def drop(self, actor: SessionActor, *, forget: bool = False) -> None:
        """Take a session off the list without telling the agent; ``forget`` also deletes what is stored."""
        actor.forgotten = forget
        self._end(actor)
        if actor.connection is not None and actor.identity.agent_session_id is not None:
            actor.connection.forget_session(actor.identity.agent_session_id)
        self.spawn(lambda: self.supervisor.stop_own(actor.identity.session_id))
        if forget and self.records is not None:
            self.records.delete(actor.identity.session_id)

    async def close(self, actor: SessionActor) -> None:
        """End a session: cancel what runs, free it at the agent, forget it here."""
        connection, agent_session_id = actor.connection, actor.identity.agent_session_id
        actor.cancel()
        self._end(actor)
        try:
            if connection is not None and agent_session_id is not None:
                await connection.close_session(agent_session_id)
        finally:
            self.spawn(lambda: self.supervisor.stop_own(actor.identity.session_id))

    def _end(self, actor: SessionActor) -> None:
        actor.end()
        self._actors.pop(actor.identity.session_id, None)
        self._opening.named.pop(actor.identity.session_id, None)

    async def restart(self, agent: str, folder: str | None = None) -> bool:
        """End the agent's process; running turns end as unknown, and the next need starts it anew."""
        concerned = [
            (actor, actor.connection)
            for actor in self.actors()
            if actor.identity.agent == agent and folder in {None, actor.identity.spec.cwd}
        ]
        stopped = await self.supervisor.stop(agent, folder)
        for actor, before in concerned:
            if before is not None and actor.connection is before:
                actor.connection_lost(Loss("the agent was restarted", expected=True))
        return stopped

    def settle(self) -> None:
        """Withdraw every question, synchronously, at the end."""
        self.broker.withdraw_all(Withdrawal.SHUTDOWN)

    async def aclose(self) -> None:
        """End every session and agent in bounded time."""
        self.settle()
        for actor in self.actors():
            actor.end()
        await self.supervisor.aclose()


def existing_folder(cwd: str) -> str:
    """Return ``cwd`` as an absolute path of a folder that exists; raises ``EditorFault`` otherwise."""
    path = Path(cwd).expanduser()
    try:
        absolute = path if path.is_absolute() else Path.cwd() / path
        if not absolute.is_dir():
            raise EditorFault(f"{cwd} is not a folder; a session needs an existing one")
        return os.path.normpath(absolute)
    except (OSError, ValueError) as error:
        raise EditorFault(f"{cwd!r} cannot be used as a session's folder ({type(error).__name__})") from error
