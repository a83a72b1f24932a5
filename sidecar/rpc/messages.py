"""What ``Connection.receive`` makes of one decoded message (JSON-RPC 2.0, sections 4 and 5)."""

from typing import Any, TypeAlias, TypeGuard

import attrs

RequestId: TypeAlias = int | str
Message: TypeAlias = dict[str, Any]

VERSION = "2.0"


def is_request_id(value: object) -> TypeGuard[RequestId]:
    """Return whether ``value`` may name a request: a whole number or a string. A bool never does; 0 and "" do."""
    return isinstance(value, (int, str)) and not isinstance(value, bool)


@attrs.frozen
class RpcError:
    """The ``error`` member of a reply. ``code`` -32603 and a stand-in text where the peer sent none that can be used."""

    code: int
    message: str
    data: Any = attrs.field(default=None, repr=False)


@attrs.frozen
class IncomingRequest:
    """The peer wants an answer: exactly one ``Connection.answer`` or ``refuse``. ``params`` None = absent or null."""

    id: RequestId
    method: str
    params: Any = attrs.field(default=None, repr=False)


@attrs.frozen
class IncomingNotification:
    """The peer tells something. ``params`` None = absent or null."""

    method: str
    params: Any = attrs.field(default=None, repr=False)


@attrs.frozen
class IncomingReply:
    """The answer to our request ``id`` (always the id as we sent it). ``error`` None means success, also with ``result`` None.

    ``tolerated`` says in words where the peer bent the rules (None = it did not).
    """

    id: int
    method: str
    result: Any = attrs.field(default=None, repr=False)
    error: RpcError | None = None
    tolerated: str | None = None


@attrs.frozen
class Cancelled:
    """The peer withdrew its open request ``id``. It still gets its one answer (ACP v1, $/cancel_request)."""

    id: RequestId


@attrs.frozen
class Unusable:
    """A message that fits nothing. ``reason`` names the rule, never the body; ``reply`` is to be sent when there is one."""

    reason: str
    reply: Message | None = attrs.field(default=None, repr=False)


Incoming: TypeAlias = IncomingRequest | IncomingNotification | IncomingReply | Cancelled | Unusable


def result_message(request_id: RequestId, result: Any) -> Message:
    """Return the reply that carries a result."""
    return {"jsonrpc": VERSION, "id": request_id, "result": result}


def error_message(request_id: RequestId | None, code: int, message: str, data: Any = None) -> Message:
    """Return the reply that carries an error; id None only where the request's own id cannot be known."""
    error: Message = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": VERSION, "id": request_id, "error": error}


def notification_message(method: str, params: Any = None) -> Message:
    """Return a notification; params None are left out."""
    message: Message = {"jsonrpc": VERSION, "method": method}
    if params is not None:
        message["params"] = params
    return message


def request_message(request_id: RequestId, method: str, params: Any = None) -> Message:
    """Return a request; params None are left out."""
    message: Message = {"jsonrpc": VERSION, "id": request_id, "method": method}
    if params is not None:
        message["params"] = params
    return message
