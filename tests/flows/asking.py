"""Questions of a scripted agent put on the wire by hand, and what the wire got back."""

from collections.abc import Mapping, Sequence
from typing import Any

from sidecar.workspace.actor import SessionActor
from tests.flows.harness import Bench
from tests.peers.memory import until, until_called
from tests.peers.scripted import Message, ReplyTo

ALLOW: Message = {"optionId": "yes", "name": "Allow", "kind": "allow_once"}
ALWAYS: Message = {"optionId": "always", "name": "Always allow", "kind": "allow_always"}
REJECT: Message = {"optionId": "no", "name": "Deny", "kind": "reject_once"}
OPTIONS = (ALLOW, ALWAYS, REJECT)
CANCELLED: Message = {"outcome": {"outcome": "cancelled"}}


async def turn(b: Bench, actor: SessionActor) -> str:
    """Begin a turn that does nothing until it is cancelled; return its id."""
    turn_id = await b.prompt(actor, "silent")
    await until_called(b.agent, "session/prompt")
    return turn_id


def ask(
    b: Bench, actor: SessionActor, *, options: Sequence[Message] = OPTIONS, meta: Mapping[str, Any] | None = None, **call: Any
) -> ReplyTo:
    """Ask for permission: ``call`` is the tool call, ``meta`` stands under ``_meta.kiro``."""
    params: Message = {
        "sessionId": actor.identity.agent_session_id,
        "toolCall": {"toolCallId": "call-1", "status": "pending", **call},
        "options": list(options),
    }
    if meta is not None:
        params["_meta"] = {"kiro": dict(meta)}
    return b.agent.ask("session/request_permission", params)


def shell(line: str, root: str | None = None, **more: Any) -> Message:
    """Return the private part of a request to run ``line``."""
    consent: Message = {"capability": "shell", "resource": line, "triggeringResource": line, **more}
    return {"command": line, "consent": consent | ({"workspaceRoot": root} if root is not None else {})}


async def reply_to(b: Bench, asked: ReplyTo) -> Message:
    """Return the reply to a request of the agent, once it came; bounded."""
    await until(b.agent, lambda agent: asked.request_id in agent.replies())
    return b.agent.replies()[asked.request_id]


def times_answered(b: Bench, asked: ReplyTo) -> int:
    """Count the replies to a request of the agent."""
    return sum("method" not in message and message.get("id") == asked.request_id for message in b.agent.received)
