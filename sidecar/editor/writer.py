"""One daemon thread owns the pipe to the editor, so that an editor that does not read stops nobody.

Only replies, questions and other small frames are queued without asking; whoever produces in bulk awaits ``room()`` first.
"""

import os
import select
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

import anyio

HIGH_WATER_BYTES: Final = 1 << 20
BATCH_BYTES: Final = 1 << 18
ATOMIC_BYTES: Final = 4096
"""What a pipe that polls writable takes without blocking (POSIX PIPE_BUF on Linux; never less than 512 elsewhere)."""

FLUSH_SECONDS: Final = 1.0


class FrameWriter:
    """Writes bytes to ``fd`` in the order of the calls, all made from the thread of the event loop.

    ``on_broken`` is called once, on the loop, when the other end is gone; what is written after that is dropped in silence.
    """

    def __init__(self, fd: int, on_loop: Callable[[Callable[[], None]], None], on_broken: Callable[[], None]) -> None:
        self._fd = fd
        self._on_loop = on_loop
        self._on_broken = on_broken
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._changed = threading.Condition()
        self._broken = False
        self._told = False
        self._waiters: list[anyio.Event] = []
        self._poll = _poll_for(fd)
        self._thread = threading.Thread(target=self._drain, name="editor writer", daemon=True)
        self._thread.start()

    @property
    def queued(self) -> int:
        """Bytes not yet taken by the pipe."""
        return self._queued

    def write(self, data: bytes) -> None:
        """Send ``data`` whole. Never blocks and never raises: a small frame goes out at once when nothing is before it."""
        if self._broken:
            return
        if not self._queued and len(data) <= ATOMIC_BYTES and self._poll is not None and self._poll.poll(0):
            data = self._write_now(data)
            if not data:
                return
        with self._changed:
            self._queue.append(data)
            self._queued += len(data)
            self._changed.notify_all()

    async def room(self) -> None:
        """Return when less than ``HIGH_WATER_BYTES`` wait, or when nobody will ever read them."""
        while self._queued >= HIGH_WATER_BYTES and not self._broken:
            event = anyio.Event()
            self._waiters.append(event)
            await event.wait()

    def flush(self, seconds: float = FLUSH_SECONDS) -> bool:
        """Block until all is written, at most ``seconds``; return whether it was. For the end of the process only."""
        with self._changed:
            self._changed.wait_for(lambda: self._broken or not self._queued, seconds)
            return not self._queued

    def _write_now(self, data: bytes) -> bytes:
        """Write what the pipe takes; return the rest."""
        try:
            return data[os.write(self._fd, data) :]
        except BlockingIOError:
            return data
        except OSError:
            self._break()
            return b""

    def _drain(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._queue))
                batch = self._take_batch()
            if not self._write_all(batch):
                with self._changed:
                    self._broken = True
                    self._changed.notify_all()
                self._on_loop(self._break)
                return
            with self._changed:
                self._queued -= len(batch)
                self._changed.notify_all()
            if self._waiters and self._queued < HIGH_WATER_BYTES:
                self._on_loop(self._wake)

    def _take_batch(self) -> bytes:
        size = len(self._queue[0])
        pieces = [self._queue.popleft()]
        while self._queue and size + len(self._queue[0]) <= BATCH_BYTES:
            size += len(self._queue[0])
            pieces.append(self._queue.popleft())
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _write_all(self, data: bytes) -> bool:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._fd, view) :]
            except BlockingIOError:  # the other side of a shared file description made it non-blocking
                select.select([], [self._fd], [])
            except OSError:
                return False
        return True

    def _break(self) -> None:
        with self._changed:
            self._broken = True
            self._queue.clear()
            self._queued = 0
            self._changed.notify_all()
        self._wake()
        first, self._told = not self._told, True
        if first:
            self._on_broken()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for event in waiters:
            event.set()


def _poll_for(fd: int) -> "select.poll | None":
    """Return a poll object when a writable ``fd`` is sure to take a small frame whole: a pipe or a socket."""
    if sys.platform == "win32":
        return None
    mode = os.fstat(fd).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return None
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return poll
