"""Opening a session at its agent: connect, create or load, sign in once where the agent asks for it, apply the wishes."""

from collections.abc import Callable
from typing import Final

import anyio

from sidecar.agents.supervisor import AgentSupervisor
from sidecar.config import AgentSettings, Configuration
from sidecar.errors import AgentFault, EditorFault, Unavailable
from sidecar.session.interaction import SignInAnswer, Withdrawal
from sidecar.session.ports import AgentConnection, SessionOpened
from sidecar.workspace.actor_core import SessionCore
from sidecar.workspace.sign_in import sign_in_question
from sidecar.workspace.wishes import apply_wishes

WISHES: Final = ("mode", "model", "effort")
AUTOPILOT: Final = "autopilot"


class Opening:
    """Implements ``actor_core.Opener``. ``named`` holds the wishes the user named for one session: those must be met."""

    def __init__(self, supervisor: AgentSupervisor, configuration: Callable[[], Configuration]) -> None:
        self._supervisor = supervisor
        self._configuration = configuration
        self.named: dict[str, frozenset[str]] = {}

    async def open(self, actor: SessionCore) -> tuple[AgentConnection, SessionOpened]:
        """Connect and create or load the session, signing in once where the agent asks for it; then apply the wishes."""
        identity = actor.identity
        settings = self._configuration().settings.agent_named(identity.agent)
        connection = await self._supervisor.connect(settings, identity.spec.cwd, identity.session_id)
        try:
            opened = await self._open_once(connection, actor)
        except AgentFault as fault:
            if not connection.info.auth_methods or not connection.wants_sign_in(fault):
                raise
            await self._sign_in(connection, actor, settings, fault)
            opened = await self._open_once(connection, actor)
        await self._wish(connection, actor, opened.agent_session_id, settings)
        return connection, opened

    async def _open_once(self, connection: AgentConnection, actor: SessionCore) -> SessionOpened:
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

    async def _sign_in(self, connection: AgentConnection, actor: SessionCore, settings: AgentSettings, fault: AgentFault) -> None:
        """Ask the user how to sign in; raises what the agent said when they do not."""
        decided = anyio.Event()
        answer: SignInAnswer | None = None

        def answered(given: object) -> None:
            nonlocal answer
            answer = given if isinstance(given, SignInAnswer) else None
            decided.set()

        question = sign_in_question(settings.name, settings.command, connection.info.auth_methods, fault.message)
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
        self, connection: AgentConnection, actor: SessionCore, agent_session_id: str, settings: AgentSettings
    ) -> None:
        spec = actor.identity.spec
        wishes: dict[str, str | bool] = {name: value for name in WISHES if (value := getattr(spec, name)) is not None}
        missed = await apply_wishes(connection, actor, agent_session_id, wishes)
        named = self.named.get(actor.identity.session_id, frozenset())
        wanted = [sentence for sentence in missed if sentence.split(" ", 1)[0] in named]
        if wanted:
            await connection.close_session(agent_session_id)
            raise EditorFault("; ".join(wanted) + ". Nothing was sent.")
        if settings.supervised and _has_option(actor, AUTOPILOT):
            missed += await apply_wishes(connection, actor, agent_session_id, {AUTOPILOT: "off"})
        for sentence in missed:
            actor.notice("warning", sentence)


def _has_option(actor: SessionCore, option_id: str) -> bool:
    return any(option.get("id") == option_id for option in actor.state.conversation.config_options or ())
