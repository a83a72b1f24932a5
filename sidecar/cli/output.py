"""Standard output behind a thread of its own: a reader that does not read holds up neither an interrupt nor a question."""

import asyncio
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

import anyio

from sidecar.errors import SidecarError

MAX_WAITING_BYTES: Final = 64 * 1024 * 1024
"""With more than this unread the caller waits, so that an agent cannot fill the memory."""

SETTLE_SECONDS: Final = 1.0


class Output:
    """Writes text to a descriptor, in order. Made inside the loop; ``on_broken`` is called there when nobody reads any more."""

    def __init__(self, on_broken: Callable[[str], None] = lambda _: None, *, descriptor: int | None = None) -> None:
        """``broken`` says why nothing can be written any more, ``gone`` that the reader left.

        ``descriptor`` is standard output when it is not given; a process without one writes nothing.
        """
        self.broken: str | None = None
        self.gone = False
        self._on_broken = on_broken
        self._descriptor = _standard_output() if descriptor is None else descriptor
        self._loop = asyncio.get_running_loop()
        self._pieces: deque[bytes] = deque()
        self._waiting = 0
        self._ending = False
        self._settling: list[anyio.Event] = []
        self._changed = threading.Condition()
        self._done = anyio.Event()
        threading.Thread(target=self._run, name="standard output", daemon=True).start()

    def write(self, text: str) -> None:
        """Queue ``text``; what cannot be written as UTF-8 becomes an escape."""
        self.write_bytes(text.encode("utf-8", "backslashreplace"))

    def write_bytes(self, data: bytes) -> None:
        """Queue bytes."""
        with self._changed:
            if self.broken is not None or self._ending or not data:
                return
            self._pieces.append(data)
            self._waiting += len(data)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting <= MAX_WAITING_BYTES or self.broken is not None)

    async def settled(self) -> None:
        """Wait until what was written so far has reached the reader, for a second at most."""
        written = anyio.Event()
        with self._changed:
            if not self._waiting or self.broken is not None:
                return
            self._settling.append(written)
        with anyio.move_on_after(SETTLE_SECONDS):
            await written.wait()

    async def finish(self) -> None:
        """Wait until everything is written or cannot be."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        await self._done.wait()

    def _run(self) -> None:
        while (data := self._next()) is not None:
            try:
                _write_all(self._descriptor, data)
            except OSError as error:
                self.gone = isinstance(error, BrokenPipeError)
                self._fail(error.strerror or "input/output error")
                break
            with self._changed:
                self._waiting -= len(data)
                self._changed.notify_all()
                settled = [] if self._waiting else self._settling.copy()
                self._settling = self._settling[len(settled) :]
            for event in settled:
                self._tell(event.set)
        self._tell(self._done.set)

    def _next(self) -> bytes | None:
        with self._changed:
            self._changed.wait_for(lambda: self._pieces or self._ending)
            if not self._pieces:
                return None
            data = b"".join(self._pieces)
            self._pieces.clear()
            return data

    def _fail(self, reason: str) -> None:
        with self._changed:
            self.broken = reason
            self._pieces.clear()
            self._changed.notify_all()
        self._tell(lambda: self._on_broken(reason))

    def _tell(self, call: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # the loop has ended; nobody waits any more
            return


def _standard_output() -> int:
    if sys.stdout is None:
        return os.open(os.devnull, os.O_WRONLY)
    sys.stdout.flush()
    return sys.stdout.fileno()


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:  # whoever shares the terminal made it non-blocking
            select.select([], [descriptor], [])


def write_text(text: str) -> None:
    """Write text to standard output at once. Raises ``BrokenPipeError``, and ``SidecarError`` for a full disk and the like."""
    try:
        _write_all(_standard_output(), text.encode("utf-8", "backslashreplace"))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise SidecarError(f"standard output cannot be written: {error.strerror or 'input/output error'}") from None
