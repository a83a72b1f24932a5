"""Sends what changed, when the editor has room: at once after a pause, at most once an interval in a flood, never when idle."""

import time
from collections.abc import Awaitable, Callable
from typing import Final

import anyio

FRAME_INTERVAL_SECONDS: Final = 0.016
"""62 frames a second at most, but for full ones; what changes meanwhile goes with the next one."""


class Pump:
    """Calls ``send`` soon after ``mark``. An editor that does not read holds it back; marks cost nothing then."""

    def __init__(
        self, room: Callable[[], Awaitable[None]], send: Callable[[], bool], interval: float = FRAME_INTERVAL_SECONDS
    ) -> None:
        self._room = room
        self._send = send
        self._interval = interval
        self._dirty = anyio.Event()
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
        sent_at = float("-inf")
        while True:
            await self._dirty.wait()
            early = sent_at + self._interval - time.monotonic()
            if early > 0:
                await anyio.sleep(early)
            await self._room()
            self._dirty = anyio.Event()
            sent_at = time.monotonic()
            if self._send():
                self._dirty.set()
                sent_at = float("-inf")  # a full frame: what is left follows as fast as the editor reads
            elif self._stopped:
                return
