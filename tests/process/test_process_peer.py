"""A peer over a real process: every way an agent can fail ends in a clear error in bounded time."""

import json
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import attrs
import pytest

from sidecar.errors import AgentFault, Unavailable
from sidecar.rpc.messages import IncomingRequest, RequestId
from sidecar.transport.handler import Noise
from sidecar.transport.peer import Peer
from sidecar.transport.process import AgentProcess, Launch, start_agent

pytestmark = [pytest.mark.process, pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")]

WAIT_SECONDS = 5.0

PRELUDE = """
import json, os, sys, time
def read():
    line = sys.stdin.buffer.readline()
    return json.loads(line) if line else os._exit(0)
def say(message):
    os.write(1, json.dumps(message).encode() + b"\\n")
def answer(request, result):
    say({"jsonrpc": "2.0", "id": request["id"], "result": result})
"""


@attrs.define
class Recorder:
    notifications: list[tuple[str, Any]] = attrs.field(factory=list[tuple[str, Any]])
    noise: list[Noise] = attrs.field(factory=list[Noise])
    closed: list[str] = attrs.field(factory=list[str])

    def on_request(self, request: IncomingRequest) -> None:
        raise AssertionError(request.method)

    def on_notification(self, method: str, params: Any) -> None:
        self.notifications.append((method, params))

    def on_item(self, item: object) -> None:
        raise AssertionError(item)

    def on_batch_end(self) -> None:
        """Nothing is collected per read."""

    def on_noise(self, noise: Noise) -> None:
        self.noise.append(noise)

    def on_cancelled(self, request_id: RequestId) -> None:
        raise AssertionError(request_id)

    def on_closed(self, reason: str) -> None:
        self.closed.append(reason)


@asynccontextmanager
async def agent(body: str) -> AsyncGenerator[tuple[Peer, AgentProcess, Recorder], None]:
    recorder = Recorder()
    async with anyio.create_task_group() as tasks:
        argv = [sys.executable, "-c", PRELUDE + body]
        process = await start_agent(Launch(argv=argv, cwd="/", env=os.environ, name="kiro"), tasks)
        peer = Peer(process, recorder, name="kiro")
        tasks.start_soon(peer.run)
        yield peer, process, recorder
        await process.stop()


async def failure(peer: Peer, method: str, timeout: float | None = None) -> str:  # noqa: ASYNC109 - handed on
    with anyio.fail_after(WAIT_SECONDS):
        try:
            await peer.request(method, {}, timeout=timeout)
        except (AgentFault, Unavailable) as error:
            return error.message
    raise AssertionError("the request was answered")


async def test_an_agent_that_dies_at_once_fails_the_first_request_with_the_whole_story() -> None:
    async with agent("sys.stderr.write('error: unexpected argument --model\\n'); sys.exit(2)") as (peer, _, recorder):
        began = time.monotonic()
        told = await failure(peer, "initialize")
        assert time.monotonic() - began < 1.0 + 0.5  # the start of an interpreter included
        assert told.startswith("initialize was not answered: kiro exited with code 2 after ")
        assert told.endswith("Its error output ends with:\nerror: unexpected argument --model")
        assert len(recorder.closed) == 1


async def test_an_agent_killed_in_the_middle_of_a_turn_is_told_with_its_signal() -> None:
    async with agent("read(); say({'method': 'session/update'}); os.kill(os.getpid(), 9)") as (peer, _, recorder):
        assert "kiro was ended by SIGKILL" in await failure(peer, "session/prompt")
        assert recorder.notifications == [("session/update", None)]


async def test_an_agent_that_hangs_times_out_and_answers_the_next_request() -> None:
    async with agent("first = read(); second = read(); answer(second, 2); answer(first, 1); read()") as (peer, _, recorder):
        assert await failure(peer, "session/list", 0.3) == "kiro did not answer session/list within 0.3 s"
        assert await peer.request("session/list", timeout=WAIT_SECONDS) == 2
        with anyio.fail_after(WAIT_SECONDS):
            while not recorder.noise:
                await anyio.lowlevel.checkpoint()
        assert [noise.kind for noise in recorder.noise] == ["unusable"]


async def test_noise_and_floods_on_both_outputs_do_not_delay_an_answer() -> None:
    body = (
        "request = read()\nprint('npm WARN old lockfile', flush=True)\n"
        "for _ in range(200): os.write(2, b'e' * 9999 + b'\\n'); say({'method': 'n', 'params': 'x' * 9999})\n"
        "answer(request, 'done'); read()"
    )
    async with agent(body) as (peer, process, recorder):
        assert await peer.request("initialize", timeout=WAIT_SECONDS) == "done"
        assert len(recorder.notifications) == 200
        assert [noise.kind for noise in recorder.noise] == ["not-json"]
        assert len(process.stderr_tail()) <= 64 * 1024


async def test_an_agent_that_closes_its_input_ends_waiting_requests_and_not_the_reading() -> None:
    async with agent("read(); os.close(0); say({'method': 'closed'}); time.sleep(60)") as (peer, _, recorder):
        peer.notify("go")
        with anyio.fail_after(WAIT_SECONDS):
            while not recorder.notifications:
                await anyio.lowlevel.checkpoint()
            while not peer.notify("y").lost:
                await anyio.lowlevel.checkpoint()
        assert await failure(peer, "session/prompt") == "session/prompt was not sent: kiro no longer reads its input"
        assert recorder.closed == []


async def test_a_cancel_overtakes_a_prompt_the_agent_has_not_begun_to_read() -> None:
    body = (
        "first = read(); answer(first, 'up')\n"
        "order = []\n"
        "while len(order) < 3: order.append(read()['method'])\n"
        "say({'method': 'order', 'params': order}); read()"
    )
    async with agent(body) as (peer, _, recorder):
        await peer.request("initialize", timeout=WAIT_SECONDS)
        peer.notify("big", "x" * 10_000_000)
        peer.notify("session/prompt")
        peer.notify("session/cancel", urgent=True)
        with anyio.fail_after(WAIT_SECONDS):
            while not recorder.notifications:
                await anyio.lowlevel.checkpoint()
        assert recorder.notifications == [("order", ["big", "session/cancel", "session/prompt"])]


async def test_a_line_of_sixty_megabytes_from_a_process_is_read_in_bounded_memory() -> None:
    size = 60 << 20
    body = f"request = read(); answer(request, 'x' * {size}); read()"
    before = peak_kilobytes()
    async with agent(body) as (peer, _, _):
        assert len(await peer.request("big", timeout=4 * WAIT_SECONDS)) == size
    assert peak_kilobytes() - before < 300 * 1024


def peak_kilobytes() -> int:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // 1024 if sys.platform == "darwin" else peak


async def test_what_the_agent_receives_is_one_ascii_line_per_message() -> None:
    body = "line = sys.stdin.buffer.readline(); say({'method': 'got', 'params': list(line)}); read()"
    async with agent(body) as (peer, _, recorder):
        peer.notify("m", {"text": "é\u2028\n\ud83d"})
        with anyio.fail_after(WAIT_SECONDS):
            while not recorder.notifications:
                await anyio.lowlevel.checkpoint()
        line = bytes(recorder.notifications[0][1])
        assert line.isascii()
        assert json.loads(line)["params"] == {"text": "é\u2028\n\ud83d"}
