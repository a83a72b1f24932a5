"""The ends of a child's three pipes and of the guardian's socket, as asyncio protocols."""

import asyncio
from collections import deque
from typing import cast

import anyio

from sidecar.transport.exits import ExitStatus
from sidecar.transport.streams import Outbox, WriteTicket

READ_AHEAD_BYTES = 256 * 1024
STDERR_TAIL_BYTES = 64 * 1024


class InputPipe(asyncio.BaseProtocol):
    """The child's stdin: one line at a time is in the transport's hands; the others wait where they can be overtaken."""

    def __init__(self) -> None:
        self._outbox = Outbox()
        self._transport: asyncio.WriteTransport | None = None
        self._blocked = False
        self._closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)
        self._transport.set_write_buffer_limits(high=0)
        self._pump()

    def pause_writing(self) -> None:
        self._blocked = True

    def resume_writing(self) -> None:
        self._blocked = False
        self._pump()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._transport = None
        self._closing = True
        self._outbox.close()

    @property
    def queued_bytes(self) -> int:
        """Bytes the child has not taken yet."""
        held = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return self._outbox.queued_bytes + held

    def write(self, line: bytes, *, urgent: bool) -> WriteTicket:
        ticket = self._outbox.put(line, urgent=urgent)
        self._pump()
        return ticket

    def close(self) -> None:
        """Give the child its end of file after the line being written; what was not begun is lost."""
        self._closing = True
        self._outbox.close()
        if self._transport is not None:
            self._transport.close()

    def finish(self) -> None:
        """Give the child its end of file after everything queued."""
        self._closing = True
        self._pump()

    def abort(self) -> None:
        """Drop the pipe at once, a line being written included."""
        self.close()
        if self._transport is not None and self._transport.get_write_buffer_size():  # asyncio closes an empty one by itself, once
            self._transport.abort()

    def _pump(self) -> None:
        while self._transport is not None and not self._blocked:
            line = self._outbox.begin()
            if line is None:
                if self._closing:  # later: closed from within resume_writing, asyncio would report the loss twice
                    asyncio.get_running_loop().call_soon(self.close)
                return
            self._transport.write(line)


class OutputPipe(asyncio.Protocol):
    """The child's stdout: blocks as they were read. Reading pauses while ``READ_AHEAD_BYTES`` wait for the receiver."""

    def __init__(self) -> None:
        self._blocks: deque[bytes] = deque()
        self._held = 0
        self._paused = False
        self._transport: asyncio.ReadTransport | None = None
        self._wake: asyncio.Future[None] | None = None
        self.ended = anyio.Event()
        self.received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        self._blocks.append(data)
        self._held += len(data)
        self.received += len(data)
        if self._held > READ_AHEAD_BYTES and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._notify()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._transport = None
        self.ended.set()
        self._notify()

    @property
    def waiting(self) -> bool:
        """Whether blocks were read that nobody has received yet."""
        return bool(self._blocks)

    async def receive(self) -> bytes:
        while not self._blocks:
            if self.ended.is_set():
                return b""
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        data = self._blocks.popleft()
        self._held -= len(data)
        if self._paused and self._held <= READ_AHEAD_BYTES // 2 and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return data

    def abort(self) -> None:
        """Stop reading; what was read is still received, then the end of the stream."""
        if self._transport is not None:
            self._transport.close()
        self.ended.set()
        self._notify()

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
        self._wake = None


class ErrorTail(asyncio.Protocol):
    """The child's stderr: always drained, the last ``STDERR_TAIL_BYTES`` kept."""

    def __init__(self) -> None:
        self._tail = bytearray()
        self._cut = False
        self._transport: asyncio.BaseTransport | None = None
        self.ended = anyio.Event()
        self.received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self._tail += data
        excess = len(self._tail) - STDERR_TAIL_BYTES
        if excess > 0:
            del self._tail[:excess]
            self._cut = True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._transport = None
        self.ended.set()

    def abort(self) -> None:
        """Stop reading."""
        if self._transport is not None:
            self._transport.close()
        self.ended.set()

    def text(self) -> str:
        """Return the tail from its first whole line on: half a line could hide half a secret from the redaction."""
        if not self._cut:
            return self._tail.decode("utf-8", "replace")
        _, found, whole = self._tail.partition(b"\n")
        if not found:
            return f"(one line of more than {STDERR_TAIL_BYTES} bytes, not shown)"
        return whole.decode("utf-8", "replace")


class GuardianStatus(asyncio.Protocol):
    """The guardian's lines (see ``guardian.py``). ``closed`` is set when the guardian itself is gone."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._held = b""
        self.started = anyio.Event()
        self.finished = anyio.Event()
        self.closed = anyio.Event()
        self.pid: int | None = None
        self.spawn_error: str | None = None
        self.status: ExitStatus | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        *lines, self._held = (self._held + data).split(b"\n")
        for line in lines:
            word, _, value = line.decode("ascii", "replace").partition(" ")
            self._take(word, value)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._transport = None
        for event in (self.started, self.finished, self.closed):
            event.set()

    def end(self) -> None:
        """Ask the guardian to end the tree now."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"e")

    def abort(self) -> None:
        """Leave the guardian alone, which it takes as the end of the sidecar."""
        if self._transport is not None:
            self._transport.abort()

    def _take(self, word: str, value: str) -> None:
        if word == "spawned":
            self.pid = int(value)
            self.started.set()
        elif word == "spawn-error":
            self.spawn_error = value
            self.started.set()
        elif word == "exit":
            self.status = ExitStatus(int(value))
            self.finished.set()
        elif word == "signal":
            self.status = ExitStatus(None, int(value))
            self.finished.set()
