"""Sends what changed, when the editor has room: at once after a pause, at a bounded rate in a flood, never when idle."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

FRAME_INTERVAL_SECONDS: Final = 1 / 60
"""In the long run, but for full frames; what changes meanwhile goes with the next one."""

FRAMES_AT_ONCE: Final = 4
"""So many may go ahead of that rate, so that a stream that is slower than it never waits, whenever its pieces come."""


class Pump:
    """Calls ``send`` soon after ``mark``. An editor that does not read holds it back; marks cost nothing then."""

    def __init__(
        self, room: Callable[[], Awaitable[None]], send: Callable[[], bool], interval: float = FRAME_INTERVAL_SECONDS
    ) -> None:
        self._room = room
        self._send = send
        self._interval = interval
        self._dirty = asyncio.Event()  # kept and cleared: a new one for each frame is a good part of its cost
        self._stopped = False

    def mark(self) -> None:
        """Something is to be sent."""
        self._dirty.set()

    def stop(self) -> None:
        """End after what is marked was sent."""
        self._stopped = True
        self._dirty.set()

    async def run(self) -> None:
        """Pump until stopped; ``send`` returns whether it left something for the next frame."""
        due = float("-inf")
        while True:
            await self._dirty.wait()
            early = due - time.monotonic()
            if early > 0:
                await anyio.sleep(early)
            await self._room()
            self._dirty.clear()
            due = max(due, time.monotonic() - (FRAMES_AT_ONCE - 1) * self._interval) + self._interval
            if self._send():
                self._dirty.set()
                due = float("-inf")  # a full frame: what is left follows as fast as the editor reads
                await checkpoint()
            elif self._stopped:
                return
