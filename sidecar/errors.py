"""Errors that carry whose fault they are, and their one mapping to JSON-RPC.

Every message is a sentence for a person: what happened, where, and what to do. Bodies a peer sent belong in ``data`` only when
they are safe to show; secrets and authorisation URLs never stand in an exception.
"""

from typing import Any

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800
AUTH_REQUIRED = -32000
RESOURCE_NOT_FOUND = -32002
REFUSED = -32003
UNAVAILABLE = -32004
AGENT_ERROR = -32005


class SidecarError(Exception):
    """Base of all errors that may reach a peer or the user.

    ``code`` is the JSON-RPC error code used when the error answers a request; ``data`` is an optional JSON value for programs.
    """

    code: int = INTERNAL_ERROR

    def __init__(self, message: str, *, code: int | None = None, data: Any = None) -> None:
        super().__init__(message)
        self.message = message
        self.data = data
        if code is not None:
            self.code = code


class EditorFault(SidecarError):
    """The editor (or a script in its place) sent something that cannot be used: unknown operation, bad params."""

    code = INVALID_PARAMS


class ConfigFault(SidecarError):
    """A configuration file or command line holds a wrong value; names file, key, and what is allowed."""

    code = INVALID_PARAMS


class AgentFault(SidecarError):
    """The agent broke the protocol, answered with an error, did not answer in time, or died.

    ``agent_code`` is the agent's own JSON-RPC error code, or None when it sent none.
    """

    code = AGENT_ERROR

    def __init__(self, message: str, *, agent_code: int | None = None, data: Any = None) -> None:
        super().__init__(message, data=data)
        self.agent_code = agent_code


class Refused(SidecarError):
    """The sidecar or the user said no: policy, missing consent, a protected path."""

    code = REFUSED


class Unavailable(SidecarError):
    """What was asked for is not there: the agent does not offer it, is not installed, or is not running."""

    code = UNAVAILABLE


class SidecarBug(SidecarError):
    """An invariant of ours does not hold."""

    code = INTERNAL_ERROR


def to_rpc_error(error: BaseException) -> dict[str, Any]:
    """Return the JSON-RPC error object ``{"code": int, "message": str, "data"?: ...}`` for ``error``.

    Foreign exceptions become -32603 with the class name only, since their text may hold anything.
    """
    if isinstance(error, SidecarError):
        result: dict[str, Any] = {"code": error.code, "message": error.message}
        if error.data is not None:
            result["data"] = error.data
        return result
    return {"code": INTERNAL_ERROR, "message": f"internal error ({type(error).__name__}); see the sidecar's log"}
