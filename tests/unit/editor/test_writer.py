"""The writer never blocks its caller, keeps the order, and ends quietly when nobody reads any more."""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator

import anyio
import pytest

from sidecar.editor.writer import ATOMIC_BYTES, HIGH_WATER_BYTES, FrameWriter

pytestmark = pytest.mark.anyio
WAIT_SECONDS = 5.0


class Pipe:
    """A pipe with a reader the test controls."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        self.broken = 0

    def writer(self) -> FrameWriter:
        loop = asyncio.get_running_loop()

        def on_loop(act: Callable[[], None]) -> None:
            with contextlib.suppress(RuntimeError):  # the test is over and its loop closed
                loop.call_soon_threadsafe(act)

        def on_broken() -> None:
            self.broken += 1

        return FrameWriter(self.writing, on_loop, on_broken)

    def read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            data += os.read(self.reading, size - len(data))
        return bytes(data)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    for fd in (made.reading, made.writing):
        try:
            os.close(fd)
        except OSError:
            continue


async def test_a_small_frame_is_in_the_pipe_when_write_returns(pipe: Pipe) -> None:
    writer = pipe.writer()
    writer.write(b"small")
    os.set_blocking(pipe.reading, False)
    assert os.read(pipe.reading, 100) == b"small"
    assert writer.queued == 0


async def test_frames_of_all_sizes_keep_their_order_behind_a_reader_that_is_late(pipe: Pipe) -> None:
    writer = pipe.writer()
    frames = [
        bytes([number % 256]) * size
        for number, size in enumerate([10, ATOMIC_BYTES, 300_000, 5, 70_000, 1, ATOMIC_BYTES + 1] * 8)
    ]
    began = time.monotonic()
    for frame in frames:
        writer.write(frame)
    assert time.monotonic() - began < 1
    expected = b"".join(frames)
    assert await anyio.to_thread.run_sync(pipe.read, len(expected)) == expected
    assert writer.flush(WAIT_SECONDS)


async def test_room_is_there_at_once_while_little_waits_and_comes_when_it_was_read(pipe: Pipe) -> None:
    writer = pipe.writer()
    with anyio.fail_after(WAIT_SECONDS):
        await writer.room()
    writer.write(b"x" * (HIGH_WATER_BYTES + 200_000))
    with anyio.move_on_after(0.05) as waiting:
        await writer.room()
    assert waiting.cancelled_caught
    reader = threading.Thread(target=pipe.read, args=(HIGH_WATER_BYTES + 200_000,), daemon=True)
    reader.start()
    with anyio.fail_after(WAIT_SECONDS):
        await writer.room()


async def test_a_flush_is_bounded(pipe: Pipe) -> None:
    writer = pipe.writer()
    writer.write(b"x" * 1_000_000)
    began = time.monotonic()
    assert not writer.flush(0.1)
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("size", [10, 1_000_000])
async def test_a_broken_pipe_is_told_once_frees_all_who_wait_and_takes_more_in_silence(pipe: Pipe, size: int) -> None:
    writer = pipe.writer()
    os.close(pipe.reading)
    writer.write(b"x" * size)
    writer.write(b"y" * 2 * HIGH_WATER_BYTES)
    with anyio.fail_after(WAIT_SECONDS):
        await writer.room()
        while not pipe.broken:
            await anyio.lowlevel.checkpoint()
    writer.write(b"more")
    assert writer.flush(WAIT_SECONDS)
    assert pipe.broken == 1


async def test_a_pipe_made_non_blocking_by_its_other_user_loses_nothing(pipe: Pipe) -> None:
    os.set_blocking(pipe.writing, False)
    writer = pipe.writer()
    data = bytes(range(256)) * 4000
    writer.write(b"s" * 100)
    writer.write(data)
    assert await anyio.to_thread.run_sync(pipe.read, 100 + len(data)) == b"s" * 100 + data
    assert writer.flush(WAIT_SECONDS)
