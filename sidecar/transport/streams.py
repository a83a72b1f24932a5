"""Byte streams to a peer: what they promise, the order in which lines leave, and two ends in memory for tests."""

from collections import deque
from collections.abc import Callable
from typing import Protocol

import anyio


class WriteTicket:
    """One line given to a stream: ``queued``, then ``begun`` (it will be completed), ``withdrawn``, or ``lost`` with the stream.

    ``on_lost`` is called once, synchronously, when the stream ended before the line was begun.
    """

    __slots__ = ("_outbox", "line", "on_lost", "state", "urgent")

    def __init__(self, outbox: "Outbox", line: bytes, urgent: bool) -> None:
        self._outbox = outbox
        self.line = line
        self.urgent = urgent
        self.state = "queued"
        self.on_lost: Callable[[], None] | None = None

    @property
    def begun(self) -> bool:
        """Whether the first byte was handed over, so that the peer will get the line whole unless the stream breaks."""
        return self.state == "begun"

    @property
    def lost(self) -> bool:
        """Whether the stream ended before the line was begun; the peer never saw any of it."""
        return self.state == "lost"

    def withdraw(self) -> bool:
        """Take the line back; False when it was begun, lost or withdrawn already."""
        return self._outbox.withdraw(self)


class Outbox:
    """Lines waiting for a peer in two lanes: urgent ones leave first, a begun line is never interrupted. Unbounded by itself."""

    def __init__(self) -> None:
        self._urgent: deque[WriteTicket] = deque()
        self._normal: deque[WriteTicket] = deque()
        self._closed = False
        self.queued_bytes = 0

    def put(self, line: bytes, *, urgent: bool = False) -> WriteTicket:
        """Queue ``line``; on a closed outbox the ticket comes back lost."""
        ticket = WriteTicket(self, line, urgent)
        if self._closed:
            ticket.state, ticket.line = "lost", b""
            return ticket
        (self._urgent if urgent else self._normal).append(ticket)
        self.queued_bytes += len(line)
        return ticket

    def begin(self) -> bytes | None:
        """Return the next line to send, from then on begun, or None when nothing waits."""
        for lane in (self._urgent, self._normal):
            while lane:
                ticket = lane.popleft()
                if ticket.state == "queued":
                    return self._release(ticket, "begun")
        return None

    def withdraw(self, ticket: WriteTicket) -> bool:
        """Forget a queued line; its bytes are freed at once."""
        if ticket.state != "queued":
            return False
        self._release(ticket, "withdrawn")
        return True

    def close(self) -> None:
        """Lose every queued line and tell those who asked to know."""
        self._closed = True
        waiting = [ticket for lane in (self._urgent, self._normal) for ticket in lane if ticket.state == "queued"]
        self._urgent.clear()
        self._normal.clear()
        for ticket in waiting:
            self._release(ticket, "lost")
        for ticket in waiting:
            if ticket.on_lost is not None:
                ticket.on_lost()

    def _release(self, ticket: WriteTicket, state: str) -> bytes:
        line, ticket.line, ticket.state = ticket.line, b"", state
        self.queued_bytes -= len(line)
        return line


class ByteStream(Protocol):
    """A two-way stream of bytes with one reader."""

    async def receive(self) -> bytes:
        """Return the next bytes in the order sent, or ``b""`` at the end of the stream."""
        ...

    def write(self, line: bytes, *, urgent: bool = False) -> WriteTicket:
        """Take ``line`` for sending; never blocks. An urgent line overtakes those not yet begun."""
        ...

    @property
    def queued_bytes(self) -> int:
        """How many bytes wait for the peer to read."""
        ...

    async def describe_end(self) -> str:
        """Say in a sentence why ``receive`` came to the end, or "" when there is no more to say. Takes a bounded time."""
        ...

    async def aclose(self) -> None:
        """End the stream in a bounded time; lines not begun are lost."""
        ...


class MemoryStream:
    """One end of ``memory_pair``. ``capacity`` is how many unread bytes the other end holds before lines queue here."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._outbox = Outbox()
        self._incoming: list[bytes] = []
        self._incoming_bytes = 0
        self._ended = False
        self._wake: anyio.Event | None = None
        self._other: MemoryStream = self

    def connect(self, other: "MemoryStream") -> None:
        """Make ``other`` the end that reads what is written here."""
        self._other = other

    async def receive(self) -> bytes:
        """Return everything unread as one block."""
        while not self._incoming:
            if self._ended:
                return b""
            self._wake = anyio.Event()
            await self._wake.wait()
        data = b"".join(self._incoming)
        self._incoming.clear()
        self._incoming_bytes = 0
        self._other._pump()  # noqa: SLF001 - the two ends are one object in two halves
        return data

    def write(self, line: bytes, *, urgent: bool = False) -> WriteTicket:
        ticket = self._outbox.put(line, urgent=urgent)
        self._pump()
        return ticket

    @property
    def queued_bytes(self) -> int:
        return self._outbox.queued_bytes

    async def describe_end(self) -> str:
        return ""

    async def aclose(self) -> None:
        """End both directions; what the other end has not read yet it still reads."""
        for end in (self, self._other):
            end._finish()  # noqa: SLF001 - as above

    def _pump(self) -> None:
        other = self._other
        while other._incoming_bytes < self._capacity:  # noqa: SLF001 - as above
            line = self._outbox.begin()
            if line is None:
                return
            if line:  # nothing would read as the end of the stream
                other._deliver(line)  # noqa: SLF001 - as above

    def _deliver(self, data: bytes) -> None:
        self._incoming.append(data)
        self._incoming_bytes += len(data)
        self._notify()

    def _finish(self) -> None:
        self._outbox.close()
        self._ended = True
        self._notify()

    def _notify(self) -> None:
        if self._wake is not None:
            self._wake.set()
            self._wake = None


def memory_pair(capacity: int = 1 << 30) -> tuple[MemoryStream, MemoryStream]:
    """Return two connected ends; with a small ``capacity`` an end that does not read lets lines queue at the other."""
    left, right = MemoryStream(capacity), MemoryStream(capacity)
    left.connect(right)
    right.connect(left)
    return left, right
