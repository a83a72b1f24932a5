"""Run the sidecar with a heartbeat in its event loop: ``python -m tests.benchmarks.stall LOG ARGUMENTS...``.

Each gap in the beat is appended to LOG as ``monotonic-seconds gap-seconds``. Time in which the thread was ready to run and other
processes had the processors is not counted (scheduler statistics of Linux): it is the machine's, not ours.
"""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable

from sidecar.__main__ import main

BEAT_SECONDS = 0.005
LOGGED_SECONDS = 0.005


class Heartbeat:
    def __init__(self, loop: asyncio.AbstractEventLoop, log: str) -> None:
        self._loop = loop
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._schedule = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
        self._waited = 0.0
        self._beat_at = time.monotonic()
        loop.call_soon(self._beat)

    def _beat(self) -> None:
        now = time.monotonic()
        waited = int(os.pread(self._schedule, 200, 0).split()[1]) / 1e9
        gap = now - self._beat_at - (waited - self._waited)
        if gap > LOGGED_SECONDS:
            os.write(self._log, b"%f %f\n" % (now, gap))
        self._beat_at, self._waited = now + BEAT_SECONDS, waited
        self._loop.call_later(BEAT_SECONDS, self._beat)


def beating(make: Callable[[], asyncio.AbstractEventLoop], log: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return what makes loops as ``make`` does, each with a heartbeat."""

    def new_event_loop() -> asyncio.AbstractEventLoop:
        loop = make()
        Heartbeat(loop, log)
        return loop

    return new_event_loop


if __name__ == "__main__":
    asyncio.events.new_event_loop = beating(asyncio.events.new_event_loop, sys.argv[1])
    sys.exit(main(sys.argv[2:]))
