"""One peer over a byte stream: lines of one read in, messages dispatched in the order of the wire, replies matched to requests.

There is no task, queue or lock per message: a read is cut, decoded and dispatched in one go, and the handler's methods are
called synchronously. What cannot be used comes as ``Noise`` and never ends the reading.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Literal, TypeAlias, cast

import anyio
import attrs

from sidecar.codec import encode_line
from sidecar.errors import INTERNAL_ERROR, INVALID_REQUEST, AgentFault, SidecarError, Unavailable, to_rpc_error
from sidecar.rpc.connection import Connection
from sidecar.rpc.framing import LineFramer, Oversize, Partial
from sidecar.rpc.messages import (
    Cancelled,
    IncomingNotification,
    IncomingReply,
    IncomingRequest,
    Message,
    RequestId,
    RpcError,
    Unusable,
    error_message,
)
from sidecar.rpc.salvage import salvage
from sidecar.transport.call import Call, Waiter
from sidecar.transport.handler import NOISE_EXCERPT_BYTES, Decode, Noise, PeerHandler, decode_line, decode_lines
from sidecar.transport.streams import ByteStream, WriteTicket

__all__ = ["Call", "Decode", "Noise", "Peer", "PeerHandler", "Tap", "decode_line", "decode_lines"]

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
ERROR_TEXT_CHARACTERS = 2000
COURTESY_LIMIT_BYTES = 64 * 1024
"""With more than this unread by the peer, its unusable messages get no error reply."""

Tap: TypeAlias = Callable[[Literal["in", "out"], bytes], None]


@attrs.define(eq=False, repr=False)
class Peer:
    """Requests, notifications and answers over one ``ByteStream``. ``name`` is the peer in messages ("the agent kiro").

    ``decode`` turns the lines of one read into messages, ``Noise`` and items; ``tap`` sees every line, in both directions.
    """

    _stream: ByteStream
    _handler: PeerHandler
    name: str = attrs.field(default="the agent", kw_only=True)
    _decode: Decode = attrs.field(default=decode_lines, kw_only=True, alias="decode")
    _max_message_bytes: int = attrs.field(default=MAX_MESSAGE_BYTES, kw_only=True, alias="max_message_bytes")
    _tap: Tap | None = attrs.field(default=None, kw_only=True, alias="tap")
    _framer: LineFramer = attrs.field(init=False)
    _connection: Connection = attrs.field(init=False, factory=Connection)
    _waiters: dict[int, Waiter] = attrs.field(init=False, factory=dict[int, Waiter])
    _closed: str | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self._framer = LineFramer(self._max_message_bytes)

    @property
    def closed(self) -> str | None:
        """Why nothing more comes or goes, or None while it does."""
        return self._closed

    @property
    def queued_bytes(self) -> int:
        """How many bytes wait for the peer to read."""
        return self._stream.queued_bytes

    async def run(self) -> None:
        """Read until the end of the stream. Then, or when cancelled, pending requests fail and ``on_closed`` is called once."""
        reason = f"the sidecar closed the connection to {self.name}"
        try:
            while data := await self._stream.receive():
                self._dispatch(self._framer.feed(data))
            self._dispatch(self._framer.end())
            reason = f"{self.name} closed its output"
            reason = await self._stream.describe_end() or reason
        except OSError as error:
            reason = f"{self.name} could not be read ({type(error).__name__})"
        finally:
            self.close(reason)

    def close(self, reason: str) -> None:
        """Fail what is pending with ``reason`` and tell the handler; the stream itself is left to its owner."""
        if self._closed is not None:
            return
        self._closed = reason
        for request_id, method in self._connection.close().pending:
            self._settle(request_id, Unavailable(f"{method} was not answered: {reason}"))
        self._handler.on_closed(reason)

    def begin(
        self, method: str, params: Any = None, *, on_reply: Callable[[IncomingReply], None] | None = None, urgent: bool = False
    ) -> "Call":
        """Send a request now and wait for it later with ``Call.result``, which must be awaited once.

        ``on_reply`` sees the reply in the order of the wire, before the waiter. Raises Unavailable on a closed connection.
        """
        if self._closed is not None:
            raise Unavailable(f"{method} was not sent: {self._closed}")
        request_id, message = self._connection.request(method, params)
        waiter = self._waiters[request_id] = Waiter(request_id, method, on_reply)
        try:
            ticket = self._send(message, urgent=urgent)
        except BaseException:
            self._release(waiter)
            raise
        self._watch_loss(ticket, waiter, method)
        return Call(self, waiter, ticket)

    async def request(
        self,
        method: str,
        params: Any = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the peer's fault has its own error
        on_reply: Callable[[IncomingReply], None] | None = None,
        urgent: bool = False,
    ) -> Any:
        """Send a request and return its result; ``timeout`` is in seconds.

        ``on_reply`` sees the reply in the order of the wire, before this returns. Raises AgentFault for an error reply (with its
        code) and for no reply in time, Unavailable when the connection closes. Cancelling forgets the request.
        """
        return await self.begin(method, params, on_reply=on_reply, urgent=urgent).result(timeout)

    async def wait(self, call: "Call", timeout: float | None) -> Any:  # noqa: ASYNC109 - as above
        """Wait for a begun request; see ``Call.result``."""
        waiter = call.waiter
        try:
            with anyio.move_on_after(timeout):
                await waiter.done.wait()
        finally:
            self._release(waiter)
            if waiter.outcome is None:
                call.ticket.withdraw()
        if waiter.outcome is None:
            raise AgentFault(f"{self.name} did not answer {waiter.method} within {timeout:g} s")
        return self._result(waiter.method, waiter.outcome)

    def _release(self, waiter: Waiter) -> None:
        self._waiters.pop(waiter.request_id, None)
        if waiter.outcome is None:
            self._connection.forget(waiter.request_id)

    def notify(self, method: str, params: Any = None, *, urgent: bool = False) -> WriteTicket:
        """Send a notification; on a closed connection the ticket comes back lost."""
        return self._send(self._connection.notification(method, params), urgent=urgent)

    def answer(self, request_id: RequestId, result: Any, *, urgent: bool = True) -> bool:
        """Answer the peer's request; False when it was answered before, or the connection is closed."""
        return self._reply(self._connection.answer(request_id, result), urgent=urgent)

    def refuse(self, request_id: RequestId, code: int, message: str, data: Any = None) -> bool:
        """Answer the peer's request with an error; False as in ``answer``."""
        return self._reply(self._connection.refuse(request_id, code, message, data), urgent=True)

    def _dispatch(self, items: Sequence[bytes | Oversize | Partial]) -> None:
        if not items:
            return
        for kind, group in groupby(items, type):
            if kind is bytes:
                self._dispatch_lines(cast("list[bytes]", list(group)))
            else:
                for item in group:
                    self._skipped(item)
        self._guard("the end of a read", self._handler.on_batch_end)

    def _dispatch_lines(self, lines: list[bytes]) -> None:
        if self._tap is not None:
            for line in lines:
                self._tap("in", line)
        for item in self._decoded(lines):
            if self._closed is not None:
                return
            if item is None or isinstance(item, (dict, list, str, int, float)):
                self._message(cast("object", item))
            elif isinstance(item, Noise):
                self._handler.on_noise(item)
            else:
                self._guard(type(item).__name__, self._handler.on_item, item)

    def _decoded(self, lines: list[bytes]) -> list[object]:
        try:
            return self._decode(lines)
        except Exception as error:  # noqa: BLE001 - a decoder's fault must not cost the messages; it is reported
            self._fault("a read", error)
            return decode_lines(lines)

    def _message(self, message: object) -> None:
        incoming = self._connection.receive(message)
        if isinstance(incoming, IncomingNotification):
            self._guard(incoming.method, self._handler.on_notification, incoming.method, incoming.params)
        elif isinstance(incoming, IncomingReply):
            if incoming.tolerated is not None:
                self._handler.on_noise(Noise("tolerated", f"the reply to {incoming.method}: {incoming.tolerated}"))
            self._settle(incoming.id, incoming)
        elif isinstance(incoming, IncomingRequest):
            self._request(incoming)
        elif isinstance(incoming, Cancelled):
            self._guard("a cancellation", self._handler.on_cancelled, incoming.id)
        else:
            self._unusable(incoming)

    def _request(self, request: IncomingRequest) -> None:
        try:
            self._handler.on_request(request)
        except Exception as error:  # noqa: BLE001 - the peer always gets its answer, the handler's fault is reported
            answer = to_rpc_error(error)
            self.refuse(request.id, answer["code"], answer["message"], answer.get("data"))
            if not isinstance(error, SidecarError):
                self._fault(request.method, error)

    def _unusable(self, unusable: Unusable) -> None:
        if unusable.reply is not None and self._stream.queued_bytes < COURTESY_LIMIT_BYTES:
            self._send(unusable.reply, urgent=True)
        self._handler.on_noise(Noise("unusable", unusable.reason))

    def _skipped(self, item: bytes | Oversize | Partial) -> None:
        if isinstance(item, Oversize):
            self._oversize(item)
        elif isinstance(item, Partial):
            detail = f"{self.name} stopped in the middle of a line"
            self._handler.on_noise(Noise("partial", detail, len(item.data), item.data[:NOISE_EXCERPT_BYTES]))

    def _oversize(self, item: Oversize) -> None:
        """Report a skipped line, and let the one request fail that it answered or made."""
        limit = self._max_message_bytes
        detail = f"{self.name} sent a line of {item.size} bytes; more than {limit} are not read"
        self._handler.on_noise(Noise("oversize", detail, item.size))
        fragment = salvage(item)
        if fragment.id is None:
            return
        if fragment.is_reply:
            self._message(error_message(fragment.id, INTERNAL_ERROR, detail))
        elif fragment.method is not None and self._stream.queued_bytes < COURTESY_LIMIT_BYTES:
            self._send(error_message(fragment.id, INVALID_REQUEST, detail), urgent=True)

    def _guard(self, what: str, call: Callable[..., None], *arguments: Any) -> None:
        try:
            call(*arguments)
        except Exception as error:  # noqa: BLE001 - one bad message must not end the reading; it is reported
            self._fault(what, error)

    def _fault(self, what: str, error: Exception) -> None:
        if isinstance(error, SidecarError):
            self._handler.on_noise(Noise("refused", f"{what}: {error.message}", error=error))
        else:
            self._handler.on_noise(Noise("bug", f"{what} could not be handled ({type(error).__name__})", error=error))

    def _settle(self, request_id: int, outcome: IncomingReply | Exception) -> None:
        waiter = self._waiters.get(request_id)
        if waiter is not None:
            waiter.settle(outcome)

    def _watch_loss(self, ticket: WriteTicket, waiter: Waiter, method: str) -> None:
        lost = Unavailable(f"{method} was not sent: {self.name} no longer reads its input")
        if ticket.lost:
            waiter.settle(lost)
        else:
            ticket.on_lost = lambda: waiter.settle(lost)

    def _result(self, method: str, outcome: IncomingReply | Exception) -> Any:
        if isinstance(outcome, Exception):
            raise outcome
        if outcome.error is not None:
            raise self._agent_fault(method, outcome.error)
        return outcome.result

    def _agent_fault(self, method: str, error: RpcError) -> AgentFault:
        text = error.message[:ERROR_TEXT_CHARACTERS] + ("…" if len(error.message) > ERROR_TEXT_CHARACTERS else "")
        told = f"{self.name} answered {method} with an error: {text} ({error.code})"
        return AgentFault(told, agent_code=error.code, data=error.data)

    def _reply(self, message: Message | None, *, urgent: bool) -> bool:
        if message is None or self._closed is not None:
            return False
        try:
            self._send(message, urgent=urgent)
        except (TypeError, RecursionError) as error:
            self._send(error_message(message["id"], INTERNAL_ERROR, "the sidecar's answer could not be written"), urgent=urgent)
            self._fault("an answer", error)
        return True

    def _send(self, message: Message, *, urgent: bool) -> WriteTicket:
        line = encode_line(message)
        if self._tap is not None:
            self._tap("out", line)
        return self._stream.write(line, urgent=urgent)
