"""The question how to sign in to an agent, from the methods it offers (ACP v1, authentication)."""

from collections.abc import Mapping, Sequence
from typing import Any

from sidecar.session.events import JsonObject
from sidecar.session.interaction import SignIn, SignInMethod
from sidecar.session.lenient import texts_in


def sign_in_question(agent: str, command: Sequence[str], methods: Sequence[JsonObject], message: str) -> SignIn:
    """Return the question; a method without an id or name is left out.

    ``command`` is how the agent is started: a terminal method runs the same program with its own arguments added.
    """
    return SignIn(target=agent, methods=[m for entry in methods if (m := _method(command, entry)) is not None], message=message)


def _method(program: Sequence[str], entry: Mapping[str, Any]) -> SignInMethod | None:
    method_id, name = entry.get("id"), entry.get("name")
    if not isinstance(method_id, str) or not isinstance(name, str):
        return None
    kind = entry.get("type") if isinstance(entry.get("type"), str) else "agent"
    description = entry.get("description")
    command = (*program, *texts_in(entry.get("args"))) if kind == "terminal" else ()
    return SignInMethod(
        id=method_id,
        name=name,
        kind=str(kind),
        description=description if isinstance(description, str) else None,
        command=command,
    )
