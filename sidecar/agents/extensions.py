"""Typed private methods of Kiro agents behind the operations that use them, and what counts as a refusal of one."""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from sidecar.errors import AUTH_REQUIRED, METHOD_NOT_FOUND, AgentFault
from sidecar.session.events import JsonObject
from sidecar.session.lenient import object_at

SIGN_IN_WORDS: Final = ("auth", "log in", "login", "logged in", "sign in", "signed in", "credential", "token", "api key", "401")
REFUSAL_MARKS: Final = ("persistenceclassification", "persistence classification", "unknown ext method", "method not found")


@attrs.frozen
class Extension:
    """One private method: how its params are made from the operation's, and whether it takes long."""

    method: str
    keys: tuple[str, ...] = ()
    with_session: bool = True
    slow: bool = False
    defaults: Mapping[str, Any] = attrs.field(factory=dict[str, Any])

    def params(self, agent_session_id: str | None, given: JsonObject) -> dict[str, Any]:
        """Return the params to send (Kiro facts, section 9.2)."""
        wanted = dict(self.defaults)
        wanted |= {key: given[key] for key in self.keys if given.get(key) is not None}
        if self.with_session and agent_session_id is not None:
            wanted["sessionId"] = agent_session_id
        return wanted


EXTENSIONS: Final[Mapping[str, Extension]] = {
    "rename": Extension("_kiro/session/rename", ("title",)),
    "compact": Extension("_kiro/session/compact", slow=True),
    "context": Extension("_kiro/session/context", ("subcommand", "path", "force"), defaults={"subcommand": "show"}),
    "export": Extension("_kiro/session/export"),
    "history": Extension("_kiro/session/history", ("beforeMessageId", "limit")),
    "usage": Extension("_kiro/account/getUsage", with_session=False),
    "consents": Extension("_kiro/permissions/list", ("scope",)),
}


def is_refusal(fault: AgentFault) -> bool:
    """Return whether the agent says it has no such method, rather than that the method failed (Kiro facts, section 11)."""
    if fault.agent_code == METHOD_NOT_FOUND:
        return True
    details = object_at(fault.data).get("details", fault.data)
    text = f"{fault.message} {details if isinstance(details, str) else ''}".lower()
    return any(mark in text for mark in REFUSAL_MARKS)


def wants_sign_in(fault: AgentFault, *, kiro: bool) -> bool:
    """Return whether an error means that the user has to sign in.

    -32000 says so (ACP v1, errors); Kiro uses the same code for other things, so there its words have to say it too.
    """
    if fault.agent_code != AUTH_REQUIRED:
        return False
    text = f"{fault.message} {fault.data if isinstance(fault.data, str) else ''}".lower()
    if kiro:
        return "not found" not in text and any(word in text for word in SIGN_IN_WORDS)
    return "not found" not in text
