"""The pump behind every stream: at once after a pause, bounded in a flood, silent when idle or when the editor does not read."""

import time

import anyio
import pytest
from anyio.lowlevel import checkpoint

from sidecar.editor.pump import FRAME_INTERVAL_SECONDS, FRAMES_AT_ONCE, Pump

pytestmark = pytest.mark.anyio

TICKS = 50


class Sink:
    def __init__(self) -> None:
        self.open = anyio.Event()
        self.open.set()
        self.sent: list[float] = []
        self.rest = 0

    async def room(self) -> None:
        await self.open.wait()

    def send(self) -> bool:
        self.sent.append(time.monotonic())
        self.rest -= 1
        return self.rest > 0


async def settle() -> None:
    for _ in range(TICKS):
        await checkpoint()


async def test_the_first_changes_after_a_pause_go_out_at_once_and_idle_means_silence() -> None:
    sink = Sink()
    pump = Pump(sink.room, sink.send, interval=1000.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pump.run)
        await settle()
        assert sink.sent == []
        for number in range(FRAMES_AT_ONCE):
            pump.mark()
            await settle()
            assert len(sink.sent) == number + 1
        pump.mark()
        await settle()
        assert len(sink.sent) == FRAMES_AT_ONCE, "the next one waits for its time"
        tasks.cancel_scope.cancel()


async def test_a_flood_is_sent_once_an_interval_and_a_few_frames_ahead_at_most() -> None:
    sink = Sink()
    pump = Pump(sink.room, sink.send)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pump.run)
        with anyio.fail_after(5):
            while len(sink.sent) < FRAMES_AT_ONCE + 6:
                pump.mark()
                await checkpoint()
        tasks.cancel_scope.cancel()
    assert sink.sent[-1] - sink.sent[0] >= FRAME_INTERVAL_SECONDS * 6 * 0.9


async def test_what_did_not_fit_into_one_frame_follows_at_once() -> None:
    sink = Sink()
    sink.rest = 5
    pump = Pump(sink.room, sink.send, interval=1000.0)
    pump.mark()
    pump.stop()
    with anyio.fail_after(5):
        await pump.run()
    assert len(sink.sent) == 5


async def test_an_editor_that_does_not_read_is_sent_nothing_until_it_does_and_then_one_frame() -> None:
    sink = Sink()
    sink.open = anyio.Event()
    pump = Pump(sink.room, sink.send, interval=0.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pump.run)
        for _ in range(100):
            pump.mark()
            await checkpoint()
        assert sink.sent == []
        sink.open.set()
        await settle()
        assert len(sink.sent) == 1
        tasks.cancel_scope.cancel()


async def test_what_is_left_is_sent_before_the_end() -> None:
    sink = Sink()
    pump = Pump(sink.room, sink.send, interval=0.0)
    pump.stop()
    with anyio.fail_after(5):
        await pump.run()
    assert len(sink.sent) == 1
