"""All sessions of this sidecar, the agents behind them, and the questions of both: what the fronts work with."""

import datetime as dt
import os
import secrets
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import anyio.abc
import attrs

from sidecar.agents.acp import ConnectionOptions, Offers
from sidecar.agents.supervisor import AgentNeeds, AgentSupervisor, Start
from sidecar.auth.mcp_entries import mcp_server_entries
from sidecar.auth.secret_values import CommandRunner, SecretResolver
from sidecar.auth.token_command import TokenCommand
from sidecar.config import AgentSettings, Configuration, state_directory, without_own_secrets
from sidecar.errors import AgentFault, EditorFault, SidecarError, Unavailable
from sidecar.session.interaction import Answered, OpenUrl, QuestionBody, QuestionHandle, SignInAnswer, Withdrawal
from sidecar.session.ports import AgentConnection, ConnectionSink, Loss, SessionOpened, SessionSpec
from sidecar.session.restore import restored_events
from sidecar.store.secrets import open_secret_store
from sidecar.store.sessions import SessionRecord
from sidecar.transport.peer import Tap
from sidecar.transport.process import start_agent
from sidecar.workspace.actor import SessionActor, SessionIdentity
from sidecar.workspace.broker import Asker, Broker
from sidecar.workspace.records import Records
from sidecar.workspace.sign_in import sign_in_question, wants_sign_in
from sidecar.workspace.wishes import apply_wishes

WISHES: Final = ("mode", "model", "effort")
AUTOPILOT: Final = "autopilot"


class SystemClock:
    """Real time."""

    def iso(self) -> str:
        """UTC, milliseconds."""
        return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()


async def _open_nothing(_: OpenUrl) -> bool:
    return False


@attrs.define
class FrontHooks:
    """What the front in use can do. ``open_url`` returns whether a browser really got the address."""

    open_url: Callable[[OpenUrl], Awaitable[bool]] = _open_nothing
    agent_changed: Callable[[str, str, str | None], None] = lambda _agent, _state, _message: None
    notice: Callable[[str, str, str, str | None], None] = lambda _agent, _severity, _title, _description: None
    session_added: Callable[[SessionActor], None] = lambda _: None
    offers: Offers = attrs.field(factory=Offers)
    keep_raw: bool = False
    tap: Tap | None = None


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
        self._named: dict[str, frozenset[str]] = {}
        self.broker = Broker(self.clock, self.spawn, self)
        self._tokens: dict[str, TokenCommand] = {}
        self._runner = CommandRunner(str(state_directory()), forbidden=self.folders)
        settings = configuration.settings
        self._resolver = SecretResolver(lambda: open_secret_store(settings.secrets.store, state_directory()), self._runner)
        needs = AgentNeeds(
            environment=lambda: without_own_secrets(os.environ, self.configuration.settings),
            variables=lambda agent: self._resolver.resolve_environment(agent.env),
            options=self._options,
            monotonic=self.clock.monotonic,
            forbidden=lambda: self.folders,
        )
        self.supervisor = AgentSupervisor(tasks, self, needs, start)

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

        self._tasks.start_soon(guarded)

    def _options(self, agent: AgentSettings) -> ConnectionOptions:
        limits = self.configuration.settings.limits
        token = None
        if agent.auth == "client" and agent.token_command:
            token = self._tokens.setdefault(agent.name, TokenCommand(agent.token_command, self._runner)).answer
        return ConnectionOptions(
            max_message_bytes=limits.max_message_bytes,
            load_timeout_seconds=limits.load_timeout_seconds,
            keep_raw=self.hooks.keep_raw,
            offers=self.hooks.offers,
            token=token,
            tap=self.hooks.tap,
        )

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

    async def specification(self, agent: AgentSettings, cwd: str, **more: Any) -> tuple[SessionSpec, list[str]]:
        """Return what a new session of ``agent`` in ``cwd`` is given, and sentences on what was left out."""
        servers, left_out = await mcp_server_entries(self.configuration.settings.mcp_servers.values(), self._resolver)
        spec = SessionSpec(
            cwd=cwd,
            mcp_servers=tuple(servers),
            mode=more.get("mode") or agent.mode,
            model=more.get("model") or agent.model,
            effort=more.get("effort") or agent.effort,
            additional_directories=tuple(more.get("additional_directories") or ()),
            execution_target=more.get("execution_target"),
            source=more.get("source"),
        )
        return spec, left_out

    async def create(self, agent: str | None, cwd: str, **more: Any) -> SessionActor:
        """Make a session without starting its agent; ``more`` are the wishes and directories named for it."""
        settings = self.configuration.settings.agent_named(agent)
        folder = existing_folder(cwd)
        spec, left_out = await self.specification(settings, folder, **more)
        actor = self.adopt(SessionIdentity(f"s-{secrets.token_hex(4)}", settings.name, spec))
        self._named[actor.identity.session_id] = frozenset(name for name in WISHES if more.get(name))
        for sentence in left_out:
            actor.notice("warning", sentence)
        return actor

    def adopt(self, identity: SessionIdentity) -> SessionActor:
        """Make the actor of a session (new or stored) and let its queue run."""
        actor = SessionActor(identity, self.broker, self, self.clock, lambda: f"t-{secrets.token_hex(4)}")
        self._actors[identity.session_id] = actor
        if self.records is not None:
            self.records.follow(actor)
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
        for actor in self.actors():
            if actor.identity.agent == agent and actor.identity.agent_session_id == agent_session_id:
                return actor
        record = await self.records.find(agent, agent_session_id) if self.records is not None else None
        return None if record is None else await self._from_record(record)

    async def _from_record(self, record: SessionRecord) -> SessionActor:
        """Make the actor of a stored session, showing what is stored until the agent replays."""
        settings = self.configuration.settings.agent_named(record.agent)
        spec, left_out = await self.specification(
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
        actor = self.adopt(identity)
        if stored is not None:
            actor.state.apply(restored_events(stored.turns))
        for sentence in left_out:
            actor.notice("warning", sentence)
        return actor

    def drop(self, actor: SessionActor, *, forget: bool = False) -> None:
        """Take a session off the list without telling the agent; ``forget`` also deletes what is stored."""
        actor.end()
        self._actors.pop(actor.identity.session_id, None)
        if actor.connection is not None and actor.identity.agent_session_id is not None:
            actor.connection.forget_session(actor.identity.agent_session_id)
        if forget and self.records is not None:
            self.records.delete(actor.identity.session_id)

    async def open(self, actor: SessionActor) -> tuple[AgentConnection, SessionOpened]:
        """Connect and create or load the session, signing in once where the agent asks for it; then apply the wishes."""
        identity = actor.identity
        settings = self.configuration.settings.agent_named(identity.agent)
        connection = await self.supervisor.connect(settings, identity.spec.cwd, identity.session_id)
        try:
            opened = await self._open_once(connection, actor)
        except AgentFault as fault:
            if not connection.info.auth_methods or not wants_sign_in(fault, connection.info.generation):
                raise
            await self._sign_in(connection, actor, fault)
            opened = await self._open_once(connection, actor)
        await self._wish(connection, actor, opened.agent_session_id, settings)
        return connection, opened

    async def _open_once(self, connection: AgentConnection, actor: SessionActor) -> SessionOpened:
        identity = actor.identity
        if identity.agent_session_id is None:
            return await connection.new_session(identity.spec, actor)
        caps = connection.info.capabilities
        if not caps.load and not caps.resume:
            actor.notice(
                "warning",
                f"{identity.agent} cannot load sessions; a new one was begun",
                "What was said before is shown here, but the agent does not know it.",
            )
            return await connection.new_session(identity.spec, actor)
        replay = actor.replay or identity.remote
        return await connection.load_session(identity.agent_session_id, identity.spec, actor, replay=replay)

    async def _sign_in(self, connection: AgentConnection, actor: SessionActor, fault: AgentFault) -> None:
        """Ask the user how to sign in; raises what the agent said when they do not."""
        decided = anyio.Event()
        answer: SignInAnswer | None = None

        def answered(given: object) -> None:
            nonlocal answer
            answer = given if isinstance(given, SignInAnswer) else None
            decided.set()

        question = sign_in_question(actor.identity.agent, connection.info.auth_methods, fault.message)
        handle = actor.ask(question, answered)
        try:
            await decided.wait()
        finally:
            handle.withdraw(Withdrawal.SESSION_CLOSED)
        if answer is None or answer.action != "start" or answer.method is None:
            raise fault
        chosen = next(m for m in question.methods if m.id == answer.method)
        if chosen.kind == "terminal":
            raise Unavailable(f"sign in with `{' '.join(chosen.command)}` in a terminal, then use agent.restart")
        await connection.authenticate(answer.method)

    async def _wish(
        self, connection: AgentConnection, actor: SessionActor, agent_session_id: str, settings: AgentSettings
    ) -> None:
        spec = actor.identity.spec
        wishes: dict[str, str | bool] = {name: value for name in WISHES if (value := getattr(spec, name)) is not None}
        missed = await apply_wishes(connection, actor, agent_session_id, wishes)
        named = self._named.get(actor.identity.session_id, frozenset())
        wanted = [sentence for sentence in missed if sentence.split(" ", 1)[0] in named]
        if wanted:
            await connection.close_session(agent_session_id)
            raise EditorFault("; ".join(wanted) + ". Nothing was sent.")
        if settings.supervised and _has_option(actor, AUTOPILOT):
            missed += await apply_wishes(connection, actor, agent_session_id, {AUTOPILOT: "off"})
        for sentence in missed:
            actor.notice("warning", sentence)

    async def close(self, actor: SessionActor) -> None:
        """End a session: cancel what runs, free it at the agent, forget it here."""
        connection, agent_session_id = actor.connection, actor.identity.agent_session_id
        actor.cancel()
        actor.end()
        self._actors.pop(actor.identity.session_id, None)
        if connection is not None and agent_session_id is not None:
            await connection.close_session(agent_session_id)

    async def restart(self, agent: str, folder: str | None = None) -> bool:
        """End the agent's process; running turns end as unknown, and the next need starts it anew."""
        stopped = await self.supervisor.stop(agent, folder)
        for actor in self.actors():
            meant = actor.identity.agent == agent and folder in {None, actor.identity.spec.cwd}
            if meant and actor.connection is not None:
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


def _has_option(actor: SessionActor, option_id: str) -> bool:
    return any(option.get("id") == option_id for option in actor.state.conversation.config_options or ())
