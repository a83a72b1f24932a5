"""Which reply belongs to which request: one ``Connection`` per peer, no I/O (JSON-RPC 2.0, and the withdrawals of ACP and LSP).

Ids of the two directions are two name spaces. What an id may live through stands in ``OUTGOING`` and ``INCOMING`` as data; the
methods only walk those tables.
"""

from collections import OrderedDict
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, cast

import attrs

from sidecar.errors import INTERNAL_ERROR, INVALID_REQUEST, Unavailable
from sidecar.rpc.messages import (
    Cancelled,
    Incoming,
    IncomingNotification,
    IncomingReply,
    IncomingRequest,
    Message,
    RequestId,
    RpcError,
    Unusable,
    error_message,
    is_request_id,
    notification_message,
    request_message,
    result_message,
)

FORGOTTEN_KEPT = 1024


@attrs.frozen
class Cancellation:
    """How a protocol withdraws a request: the notification's method and the member of its params that holds the id."""

    method: str
    member: str


ACP_CANCELLATION: Final = Cancellation("$/cancel_request", "requestId")
LSP_CANCELLATION: Final = Cancellation("$/cancelRequest", "id")


class Sent(Enum):
    """Where a request of ours stands."""

    WAITING = "waiting"
    CANCELLING = "cancelling"
    FORGOTTEN = "forgotten"
    DONE = "done"


class Received(Enum):
    """Where a request of the peer stands."""

    OPEN = "open"
    WITHDRAWN = "withdrawn"
    ANSWERED = "answered"


class Step(Enum):
    """What can happen to an id."""

    REPLY = "reply"
    CANCEL = "cancel"
    FORGET = "forget"
    ANSWER = "answer"
    CLOSE = "close"


OUTGOING: Final[Mapping[tuple[Sent, Step], Sent]] = {
    (Sent.WAITING, Step.REPLY): Sent.DONE,
    (Sent.WAITING, Step.CANCEL): Sent.CANCELLING,
    (Sent.WAITING, Step.FORGET): Sent.FORGOTTEN,
    (Sent.WAITING, Step.CLOSE): Sent.DONE,
    (Sent.CANCELLING, Step.REPLY): Sent.DONE,
    (Sent.CANCELLING, Step.FORGET): Sent.FORGOTTEN,
    (Sent.CANCELLING, Step.CLOSE): Sent.DONE,
    (Sent.FORGOTTEN, Step.REPLY): Sent.DONE,
    (Sent.FORGOTTEN, Step.CLOSE): Sent.DONE,
}
INCOMING: Final[Mapping[tuple[Received, Step], Received]] = {
    (Received.OPEN, Step.CANCEL): Received.WITHDRAWN,
    (Received.OPEN, Step.ANSWER): Received.ANSWERED,
    (Received.OPEN, Step.CLOSE): Received.ANSWERED,
    (Received.WITHDRAWN, Step.ANSWER): Received.ANSWERED,
    (Received.WITHDRAWN, Step.CLOSE): Received.ANSWERED,
}


@attrs.frozen
class Closed:
    """What a closed connection leaves behind: our requests without a reply, and the peer's that can get no answer any more."""

    pending: list[tuple[int, str]]
    unanswered: list[RequestId]


@attrs.define
class _Outgoing:
    method: str
    state: Sent = Sent.WAITING


class Connection:
    """The ids of one peer, both directions. Every method is synchronous; nothing is sent, messages are returned."""

    def __init__(self, cancellation: Cancellation = ACP_CANCELLATION) -> None:
        self._cancellation = cancellation
        self._next_id = 0
        self._sent: dict[int, _Outgoing] = {}
        self._forgotten: OrderedDict[int, None] = OrderedDict()
        self._received: dict[RequestId, Received] = {}
        self._closed = False

    def request(self, method: str, params: Any = None) -> tuple[int, Message]:
        """Return a new id and the request to send. Raises Unavailable when the connection is closed."""
        if self._closed:
            raise Unavailable(f"{method} was not sent: the connection is closed")
        request_id = self._next_id
        self._next_id += 1
        self._sent[request_id] = _Outgoing(method)
        return request_id, request_message(request_id, method, params)

    def notification(self, method: str, params: Any = None) -> Message:
        """Return the notification to send."""
        return notification_message(method, params)

    def receive(self, message: object) -> Incoming:
        """Say what a decoded message is. Never raises: what fits nothing is ``Unusable``."""
        if self._closed:
            return Unusable("the connection is closed")
        if isinstance(message, list):
            return _refused(None, "batches are not part of this protocol; send one message at a time")
        if not isinstance(message, dict):
            return _refused(None, "a message is one JSON object")
        known = cast("dict[str, Any]", message)
        method = known.get("method")
        if isinstance(method, str):
            return self._receive_call(known, method)
        if method is not None:
            given = known.get("id")
            return _refused(given if is_request_id(given) else None, "method is a string")
        return self._receive_reply(known)

    def answer(self, request_id: RequestId, result: Any) -> Message | None:
        """Return the one reply of an open incoming request, or None when that id is not open (already answered)."""
        return result_message(request_id, result) if self._step_incoming(request_id, Step.ANSWER) else None

    def refuse(self, request_id: RequestId, code: int, message: str, data: Any = None) -> Message | None:
        """Return the one reply, an error, of an open incoming request, or None when that id is not open."""
        return error_message(request_id, code, message, data) if self._step_incoming(request_id, Step.ANSWER) else None

    def cancel(self, request_id: int) -> Message | None:
        """Return the notification that withdraws our request (its reply is still awaited), or None when it is not waiting."""
        if not self._step_outgoing(request_id, Step.CANCEL):
            return None
        return notification_message(self._cancellation.method, {self._cancellation.member: request_id})

    def forget(self, request_id: int) -> None:
        """Nobody waits for this reply any more: should it come, it is ``Unusable`` as a late reply."""
        self._step_outgoing(request_id, Step.FORGET)

    def is_open(self, request_id: RequestId) -> bool:
        """Return whether the peer still waits for an answer to its request."""
        return is_request_id(request_id) and request_id in self._received

    def close(self) -> Closed:
        """End both tables. Closing twice gives an empty remainder."""
        pending = [(request_id, entry.method) for request_id, entry in self._sent.items()]
        unanswered = list(self._received)
        self._closed = True
        self._sent.clear()
        self._forgotten.clear()
        self._received.clear()
        return Closed(pending, unanswered)

    def _receive_call(self, message: Message, method: str) -> Incoming:
        params = message.get("params")
        if "id" not in message:
            return self._receive_notification(method, params)
        request_id = message["id"]
        if not is_request_id(request_id):
            return _refused(None, f"the id of {_shown(method)} is neither a string nor a whole number")
        if request_id in self._received:
            return _refused(None, f"{_shown(method)} uses the id of a request that is still open")
        self._received[request_id] = Received.OPEN
        return IncomingRequest(request_id, method, params)

    def _receive_notification(self, method: str, params: Any) -> Incoming:
        if method != self._cancellation.method:
            return IncomingNotification(method, params)
        target = cast("dict[str, Any]", params).get(self._cancellation.member) if isinstance(params, dict) else None
        if is_request_id(target) and self._step_incoming(target, Step.CANCEL):
            return Cancelled(target)
        return Unusable("a cancellation names no open request")

    def _receive_reply(self, message: Message) -> Incoming:
        request_id = message.get("id")
        if not is_request_id(request_id):
            if "error" in message or "result" in message:
                return Unusable("a reply without a usable id")
            return _refused(None, "a message has a method, a result or an error")
        known = self._match(request_id)
        if known is None:
            return Unusable("a reply to an id that is not waiting: never sent, or answered before")
        entry = self._sent[known]
        self._step_outgoing(known, Step.REPLY)
        if entry.state is Sent.FORGOTTEN:
            return Unusable(f"late reply to {entry.method}, which nobody waits for any more")
        return _reply(known, entry.method, message, tolerated=None if known == request_id else "the id came back as a string")

    def _match(self, request_id: RequestId) -> int | None:
        if isinstance(request_id, int):
            return request_id if request_id in self._sent else None
        return next((known for known in _as_number(request_id) if known in self._sent), None)

    def _step_outgoing(self, request_id: int, step: Step) -> bool:
        entry = self._sent.get(request_id)
        following = OUTGOING.get((entry.state, step)) if entry is not None else None
        if entry is None or following is None:
            return False
        if following is Sent.DONE:
            del self._sent[request_id]
            self._forgotten.pop(request_id, None)
            return True
        entry.state = following
        if following is Sent.FORGOTTEN:
            self._forgotten[request_id] = None
            if len(self._forgotten) > FORGOTTEN_KEPT:
                del self._sent[self._forgotten.popitem(last=False)[0]]
        return True

    def _step_incoming(self, request_id: RequestId, step: Step) -> bool:
        state = self._received.get(request_id) if is_request_id(request_id) else None
        following = INCOMING.get((state, step)) if state is not None else None
        if following is None:
            return False
        if following is Received.ANSWERED:
            del self._received[request_id]
        else:
            self._received[request_id] = following
        return True


def _refused(request_id: RequestId | None, reason: str) -> Unusable:
    return Unusable(reason, error_message(request_id, INVALID_REQUEST, reason))


def _shown(method: str) -> str:
    return ascii(method[:80])


def _as_number(text: str) -> list[int]:
    """Return the number a string id stands for when it is written the one way we would write it."""
    return [int(text)] if text.isascii() and text.isdecimal() and len(text) <= 18 and str(int(text)) == text else []


def _reply(request_id: int, method: str, message: Message, *, tolerated: str | None) -> IncomingReply:
    raw = message.get("error")
    if raw is None:
        if "result" not in message:
            tolerated = "neither result nor error; taken as a null result"
        return IncomingReply(request_id, method, message.get("result"), None, tolerated)
    return IncomingReply(request_id, method, None, _error(raw), tolerated)


def _error(raw: object) -> RpcError:
    if not isinstance(raw, dict):
        return RpcError(INTERNAL_ERROR, raw if isinstance(raw, str) else "the peer answered with an error it did not describe")
    fields = cast("dict[str, Any]", raw)
    code, text = fields.get("code"), fields.get("message")
    return RpcError(
        code if isinstance(code, int) and not isinstance(code, bool) else INTERNAL_ERROR,
        text if isinstance(text, str) else "the peer answered with an error it did not describe",
        fields.get("data"),
    )
