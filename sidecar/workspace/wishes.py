"""Bring a session to the user's mode, model and effort, as far as the session's own options contain them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import anyio

from sidecar.errors import AgentFault, Unavailable
from sidecar.session.ports import AgentConnection
from sidecar.session.wishes import Already, Decision, NotOffered, NotReported, SetMode, SetOption, decide

if TYPE_CHECKING:
    from sidecar.workspace.actor_core import SessionCore

OPTION_WAIT_SECONDS: Final = 4.0
"""Kiro reports its model option seconds after the session began (Kiro facts, frame orders 10)."""


async def apply_wishes(
    connection: AgentConnection, actor: "SessionCore", agent_session_id: str, wishes: Mapping[str, str | bool]
) -> list[str]:
    """Set each wish that is offered, in order; return one sentence for each that was not."""
    return [
        sentence
        for name, value in wishes.items()
        if (sentence := await _apply(connection, actor, agent_session_id, name, value)) is not None
    ]


async def _apply(
    connection: AgentConnection, actor: "SessionCore", agent_session_id: str, name: str, value: str | bool
) -> str | None:
    decision = await _decision(actor, name, value) if connection.info.late_options else _decide(actor, name, value)
    try:
        if isinstance(decision, SetOption):
            await connection.set_config(agent_session_id, decision.option_id, decision.value)
            decision = _decide(actor, name, value)
        elif isinstance(decision, SetMode):
            await connection.set_mode(agent_session_id, decision.mode_id)
            return None
    except (AgentFault, Unavailable) as error:
        return f"{name} {value!r} could not be set: {error.message}"
    if isinstance(decision, Already):
        return None
    if isinstance(decision, NotOffered):
        offered = ", ".join(decision.offered) or "none"
        return f"{name} {value!r} is not offered in this session (offered: {offered}); the agent keeps {decision.current!r}"
    if isinstance(decision, NotReported):
        return f"this session has no option for {name}; {value!r} was not set"
    return f"the agent did not take {name} {value!r}"


def _decide(actor: "SessionCore", name: str, value: str | bool) -> Decision:
    conversation = actor.state.conversation
    modes = None if conversation.modes is None else {"available": conversation.modes, "current": conversation.mode}
    return decide(conversation.config_options or (), modes, name, value)


async def _decision(actor: "SessionCore", name: str, value: str | bool) -> Decision:
    """Decide, waiting a bounded time for an option that may still be reported."""
    changed = anyio.Event()

    def wake(_: object) -> None:
        changed.set()

    stop = actor.observe(wake)
    try:
        decision = _decide(actor, name, value)
        with anyio.move_on_after(OPTION_WAIT_SECONDS):
            while isinstance(decision, NotReported):
                await changed.wait()
                changed = anyio.Event()
                decision = _decide(actor, name, value)
    finally:
        stop()
    return decision
