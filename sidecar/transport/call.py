"""A request on its way: who waits for its reply, and how it is taken back before it was sent."""

from collections.abc import Callable
from typing import Any, Protocol

import anyio

from sidecar.errors import Unavailable
from sidecar.rpc.messages import IncomingReply
from sidecar.transport.streams import WriteTicket


class Waiter:
    """Who waits for a reply: ``outcome`` is the reply, or the error to raise."""

    __slots__ = ("done", "method", "on_reply", "outcome", "request_id")

    def __init__(self, request_id: int, method: str, on_reply: Callable[[IncomingReply], None] | None) -> None:
        self.request_id = request_id
        self.method = method
        self.done: anyio.Event = anyio.Event()
        self.on_reply = on_reply
        self.outcome: IncomingReply | Exception | None = None

    def settle(self, outcome: IncomingReply | Exception) -> None:
        if self.outcome is not None:
            return
        self.outcome = outcome
        if self.on_reply is not None and isinstance(outcome, IncomingReply):
            try:
                self.on_reply(outcome)
            except Exception as error:  # noqa: BLE001 - it belongs to the caller of the request, who gets it
                self.outcome = error
        self.done.set()


class WaitsForReplies(Protocol):
    """What a call needs of its peer."""

    async def wait(self, call: "Call", timeout: float | None) -> Any:  # noqa: ASYNC109 - the peer's fault has its own error
        """Wait for a begun request; see ``Call.result``."""
        ...


class Call:
    """A request that was sent (or waits to be): it can be taken back until its first byte left."""

    __slots__ = ("_peer", "ticket", "waiter")

    def __init__(self, peer: WaitsForReplies, waiter: Waiter, ticket: WriteTicket) -> None:
        self._peer = peer
        self.waiter: Waiter = waiter
        self.ticket: WriteTicket = ticket

    @property
    def begun(self) -> bool:
        """Whether the peer will see the request."""
        return self.ticket.begun

    def withdraw(self) -> bool:
        """Take the request back before any of it was sent; its waiter then gets Unavailable. False when it is too late."""
        if not self.ticket.withdraw():
            return False
        self.waiter.settle(Unavailable(f"{self.waiter.method} was taken back before it was sent"))
        return True

    async def result(self, timeout: float | None = None) -> Any:  # noqa: ASYNC109 - the peer's fault has its own error
        """Return the result; raises as ``Peer.request`` does. ``timeout`` is in seconds from now."""
        return await self._peer.wait(self, timeout)
