"""A flood while the editor does not read: what it costs in time and memory, and whether all of it arrives afterwards."""

import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import attrs
import msgspec

from tests.benchmarks.agent import CYCLE, chunk_line, text_of
from tests.benchmarks.ends import Sidecar, memory
from tests.benchmarks.setting import Setting

MEGABYTE: Final = 1_000_000
DEAF_SECONDS: Final = 5
QUICK_DEAF_SECONDS: Final = 1
SETTLED_SECONDS: Final = 0.5


@attrs.frozen
class Outcome:
    """``growth`` in MB at the peak, ``stall`` in ms: the longest gap in the heartbeat of the event loop."""

    growth: float
    stall: float


def stall_while_deaf(setting: Setting) -> float:
    """The longest time in ms in which the event loop served nobody."""
    return max(_flood(setting, deaf=True).stall for _ in range(setting.pick(3, 1)))


def growth_while_deaf(setting: Setting) -> float:
    """MB at the peak over the same flood with an editor that reads."""
    return _flood(setting, deaf=True).growth - _flood(setting, deaf=False).growth


def _flood(setting: Setting, *, deaf: bool) -> Outcome:
    folder = setting.fresh()
    log = folder / "stalls"
    with Sidecar(folder, wrapped=("-m", "tests.benchmarks.stall", str(log))) as ours:
        ours.prompt("flood 2000 0")
        ours.drain()
        ours.settle()
        cycle = [text_of(number, 0) for number in range(CYCLE)]
        size = sum(len(chunk_line("bench-session", text)) for text in cycle)
        cycles = setting.pick(200, 20) * MEGABYTE // size + 1
        before = memory(ours.pid, "VmRSS")
        began = time.monotonic()
        ours.prompt(f"flood {cycles * CYCLE} 0")
        if deaf:
            time.sleep(setting.pick(DEAF_SECONDS, QUICK_DEAF_SECONDS))
        received = _Text()
        for body in ours.frames():
            if received.take(body):
                break
        ended = time.monotonic()
        growth = memory(ours.pid, "VmHWM") - before
        ours.settle()
        _check_nothing_lost(received, "".join(cycle), cycles)
        return Outcome(growth, 1000 * max(_stalls(log, began, ended), default=0.0))


class _Text:
    """The text of one turn as the editor gets it, as a checksum."""

    def __init__(self) -> None:
        self.crc = 0
        self.seq = 0

    def take(self, body: bytes) -> bool:
        """Take one frame; return whether the turn ended with it."""
        message: dict[str, Any] = msgspec.json.decode(body)
        if message.get("method") != "sidecar/session/changed":
            return False
        params = cast("dict[str, Any]", message["params"])
        if self.seq and params["seq"] != self.seq + 1:
            raise AssertionError(f"a gap in the stream after {self.seq}")
        self.seq = params["seq"]
        over = False
        for change in params["changes"]:
            if change["kind"] == "part_text":
                self.crc = zlib.crc32(change["text"].encode(), self.crc)
            over = over or change["kind"] == "turn_ended"
        return over


def _check_nothing_lost(received: _Text, cycle: str, cycles: int) -> None:
    crc, text = 0, cycle.encode()
    for _ in range(cycles):
        crc = zlib.crc32(text, crc)
    if crc != received.crc:
        raise AssertionError("the text that came is not the text that was sent")


def _stalls(log: Path, began: float, ended: float) -> Iterator[float]:
    for line in log.read_text().splitlines() if log.exists() else ():
        at, gap = line.split()
        if began <= float(at) <= ended:
            yield float(gap)
