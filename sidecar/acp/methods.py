"""The methods of ACP protocol 1 in one table: who sends what, what is answered, and which capability it needs."""

from collections.abc import Mapping
from typing import Any, Final, Literal, cast

import attrs

from sidecar.acp import schema as s
from sidecar.acp import schema_requests as r
from sidecar.acp import schema_updates as u
from sidecar.codec import Wire

Side = Literal["client", "agent", "both"]


@attrs.frozen
class Method:
    """A row: ``sender`` sends it. ``params`` types what we receive, ``result`` what we are answered; None where we only send.

    ``needs`` is the path of the capability the other side must have announced (in ``agentCapabilities`` or
    ``clientCapabilities``), None when it needs none. ``stable`` false: not in the stable schema.
    """

    name: str
    sender: Side
    kind: Literal["request", "notification"]
    params: Any = None
    result: type[Wire] | None = None
    needs: str | None = None
    stable: bool = True


_TABLE: Final = (
    Method("initialize", "client", "request", result=s.InitializeResult),
    Method("authenticate", "client", "request", result=s.EmptyResult),
    Method("logout", "client", "request", result=s.EmptyResult, needs="auth.logout"),
    Method("session/new", "client", "request", result=s.NewSessionResult),
    Method("session/load", "client", "request", result=s.SessionResult, needs="loadSession"),
    Method("session/resume", "client", "request", result=s.SessionResult, needs="sessionCapabilities.resume"),
    Method("session/list", "client", "request", result=s.ListSessionsResult, needs="sessionCapabilities.list"),
    Method("session/delete", "client", "request", result=s.EmptyResult, needs="sessionCapabilities.delete"),
    Method("session/close", "client", "request", result=s.EmptyResult, needs="sessionCapabilities.close"),
    Method("session/fork", "client", "request", result=s.NewSessionResult, needs="sessionCapabilities.fork", stable=False),
    Method("session/set_mode", "client", "request", result=s.EmptyResult),
    Method("session/set_config_option", "client", "request", result=s.SetConfigOptionResult),
    Method("session/prompt", "client", "request", result=s.PromptResult),
    Method("session/cancel", "client", "notification"),
    Method("session/update", "agent", "notification", params=u.SessionNotification),
    Method("session/request_permission", "agent", "request", params=r.RequestPermission),
    Method("fs/read_text_file", "agent", "request", params=r.ReadTextFile, needs="fs.readTextFile"),
    Method("fs/write_text_file", "agent", "request", params=r.WriteTextFile, needs="fs.writeTextFile"),
    Method("terminal/create", "agent", "request", params=r.CreateTerminal, needs="terminal"),
    Method("terminal/output", "agent", "request", params=r.TerminalRequest, needs="terminal"),
    Method("terminal/wait_for_exit", "agent", "request", params=r.TerminalRequest, needs="terminal"),
    Method("terminal/kill", "agent", "request", params=r.TerminalRequest, needs="terminal"),
    Method("terminal/release", "agent", "request", params=r.TerminalRequest, needs="terminal"),
    Method("elicitation/create", "agent", "request", params=r.Elicitation, needs="elicitation"),
    Method("elicitation/complete", "agent", "notification", params=r.CompleteElicitation, needs="elicitation.url"),
    Method("$/cancel_request", "both", "notification", params=r.CancelRequest),
)

METHODS: Final[Mapping[str, Method]] = {method.name: method for method in _TABLE}


def announced(capabilities: Mapping[str, Any], needs: str) -> bool:
    """Return whether ``capabilities`` (as received) hold the path ``needs`` as true or as an object."""
    value: Any = capabilities
    for word in needs.split("."):
        value = cast("Mapping[str, Any]", value).get(word) if isinstance(value, Mapping) else None
    return s.offered(value)
