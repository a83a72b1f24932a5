"""However the sidecar, its guardian or the agent ends, nothing the agent started is left after five seconds."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from typing import IO, cast

import anyio
import pytest

from sidecar.transport.process import AgentProcess, ExitStatus, Launch, start_agent
from tests.process.trees import GONE_SECONDS, STANDIN, TAG, forest, left_after, marked, python_environment

pytestmark = [pytest.mark.process, pytest.mark.skipif(sys.platform != "linux", reason="finds processes through /proc")]

FOREST_SIZE = 6


@pytest.fixture
def tag() -> Iterator[str]:
    name = uuid.uuid4().hex
    yield name
    for pid in marked(name):
        os.kill(pid, signal.SIGKILL)


class Standin:
    """A sidecar in a process of its own, in a session of its own, with a forest as its agent."""

    def __init__(self, tag: str, *modes: str) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-c", STANDIN, TAG, tag, forest(tag), "stubborn", *modes],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=python_environment(),
            start_new_session=True,
        )
        words = self.read().split()
        assert words[0] == "ready"
        self.guardian, self.agent = int(words[1]), int(words[2])
        assert len(marked(tag)) >= FOREST_SIZE

    def read(self) -> str:
        return cast("IO[bytes]", self.popen.stdout).readline().decode()

    def end_input(self) -> None:
        cast("IO[bytes]", self.popen.stdin).close()

    def close(self) -> None:
        self.popen.kill()
        self.popen.wait()
        cast("IO[bytes]", self.popen.stdout).close()
        cast("IO[bytes]", self.popen.stdin).close()


@pytest.fixture
def standin(tag: str) -> Iterator[Standin]:
    started = Standin(tag, "bare")
    yield started
    started.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_nothing_is_left_when_a_signal_ends_the_sidecar(standin: Standin, tag: str, number: signal.Signals) -> None:
    standin.popen.send_signal(number)
    assert left_after(tag) == []


def test_nothing_is_left_when_the_sidecars_whole_process_group_is_killed(standin: Standin, tag: str) -> None:
    os.killpg(standin.popen.pid, signal.SIGKILL)
    assert left_after(tag) == []


def test_nothing_is_left_when_the_sidecar_stops_at_its_end_of_input(standin: Standin, tag: str) -> None:
    standin.end_input()
    assert left_after(tag) == []
    assert standin.popen.wait(GONE_SECONDS) == 0


def test_a_killed_guardian_hands_its_tree_to_the_sidecar_which_ends_it(tag: str) -> None:
    standin = Standin(tag)
    try:
        os.kill(standin.guardian, signal.SIGKILL)
        assert standin.read().split() == ["ended", "None", "9"]
        assert left_after(tag) == []
    finally:
        standin.close()


def test_a_guardian_asked_to_end_by_a_stranger_ends_its_tree(standin: Standin, tag: str) -> None:
    os.kill(standin.guardian, signal.SIGTERM)
    assert left_after(tag) == []


def test_a_stopped_process_is_ended_too(standin: Standin, tag: str) -> None:
    os.kill(standin.agent, signal.SIGSTOP)
    standin.popen.kill()
    assert left_after(tag) == []


async def _grown(tag: str, mode: str, tasks: anyio.abc.TaskGroup) -> AgentProcess:
    argv = [sys.executable, "-c", forest(tag), mode, "bare"]
    process = await start_agent(Launch(argv=argv, cwd="/", env={**os.environ, TAG: tag}, name="forest"), tasks)
    with anyio.fail_after(GONE_SECONDS):
        assert await process.receive() == b"up\n"
    return process


@pytest.mark.anyio
async def test_what_an_agent_leaves_behind_at_its_own_end_is_ended(tag: str) -> None:
    async with anyio.create_task_group() as tasks:
        process = await _grown(tag, "exit", tasks)
        with anyio.fail_after(GONE_SECONDS):
            assert (await process.exit).code == 3
            assert await process.receive() == b""
    assert left_after(tag, 0) == []


@pytest.mark.anyio
async def test_what_a_killed_agent_leaves_behind_is_ended(tag: str) -> None:
    async with anyio.create_task_group() as tasks:
        process = await _grown(tag, "stubborn", tasks)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        with anyio.fail_after(GONE_SECONDS):
            assert await process.exit == ExitStatus(None, signal.SIGKILL)
    assert left_after(tag, 0) == []


@pytest.mark.anyio
async def test_stopping_an_agent_that_ignores_end_of_file_and_term_takes_less_than_five_seconds(tag: str) -> None:
    async with anyio.create_task_group() as tasks:
        process = await _grown(tag, "stubborn", tasks)
        began = time.monotonic()
        await process.stop()
        assert time.monotonic() - began < GONE_SECONDS
        assert marked(tag) == []


@pytest.mark.anyio
async def test_cancelling_the_owner_ends_the_tree(tag: str) -> None:
    began = time.monotonic()
    async with anyio.create_task_group() as tasks:
        await _grown(tag, "stubborn", tasks)
        began = time.monotonic()
        tasks.cancel_scope.cancel()
    assert time.monotonic() - began < GONE_SECONDS
    assert marked(tag) == []
