"""The demo agent's own stdin and stdout as a byte stream, on any kind of file that a parent can hand down.

Two daemon threads do the blocking reads and writes, so that a client that does not read never stops the loop.
"""

import asyncio
import contextlib
import functools
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import BinaryIO, Final

import anyio

from sidecar.transport.streams import Outbox, WriteTicket

READ_BYTES: Final = 65536
FLUSH_SECONDS: Final = 2.0
"""How long the end of the process waits for a client that still reads."""


class StdioStream:
    """Implements ``ByteStream``. Must be made inside a running event loop."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._loop = asyncio.get_running_loop()
        self._outbox = Outbox()
        self._unread: deque[bytes] = deque()
        self._ended = False
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._blocks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._read_blocks, args=(source,), name="demo stdin", daemon=True).start()
        threading.Thread(target=self._write_blocks, args=(sink,), name="demo stdout", daemon=True).start()

    @property
    def queued_bytes(self) -> int:
        return self._outbox.queued_bytes

    async def receive(self) -> bytes:
        while not self._unread:
            if self._ended:
                return b""
            self._wake.clear()
            await self._wake.wait()
        return self._unread.popleft()

    def write(self, line: bytes, *, urgent: bool = False) -> WriteTicket:  # noqa: ARG002 - the signature of a byte stream
        """Queue ``line`` behind all others: an answer of the agent must not overtake the updates it ends."""
        ticket = self._outbox.put(line)
        if self._idle.is_set():
            self._pump()
        return ticket

    async def describe_end(self) -> str:
        return ""

    async def aclose(self) -> None:
        """Let what is queued go out, for a bounded time."""
        with anyio.move_on_after(FLUSH_SECONDS, shield=True):
            await self._idle.wait()
        self._outbox.close()
        self._end()

    def _pump(self) -> None:
        """Hand everything that waits to the writer thread as one block."""
        lines: list[bytes] = []
        while (line := self._outbox.begin()) is not None:
            lines.append(line)
        if lines:
            self._idle.clear()
            self._blocks.put(b"".join(lines))
        else:
            self._idle.set()

    def _feed(self, data: bytes) -> None:
        self._unread.append(data)
        self._wake.set()

    def _end(self) -> None:
        self._ended = True
        self._wake.set()

    def _break(self) -> None:
        """Nobody reads any more."""
        self._outbox.close()
        self._idle.set()
        self._end()

    def _read_blocks(self, source: BinaryIO) -> None:
        with contextlib.suppress(OSError):
            while data := source.read(READ_BYTES):
                self._call(functools.partial(self._feed, data))
        self._call(self._end)

    def _write_blocks(self, sink: BinaryIO) -> None:
        try:
            while True:
                rest = memoryview(self._blocks.get())
                while rest:
                    rest = rest[sink.write(rest) or 0 :]
                self._call(self._pump)
        except OSError:
            self._call(self._break)

    def _call(self, action: Callable[[], None]) -> None:
        """Run ``action`` on the loop; the loop may be gone by then, and the process with it."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(action)
