"""Scripted agents in memory: the client's end is a byte stream, and waiting for what they received is bounded."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio

from sidecar.transport.streams import MemoryStream, memory_pair
from tests.peers.scripted import WAIT_SECONDS, ScriptedAgent, play_on


@asynccontextmanager
async def in_memory(agent: ScriptedAgent, capacity: int = 1 << 30) -> AsyncGenerator[MemoryStream, None]:
    """Yield the client's end of a stream with ``agent`` playing at the other; both end with the block."""
    ours, theirs = memory_pair(capacity)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(play_on, agent, theirs)
        try:
            yield ours
        finally:
            tasks.cancel_scope.cancel()


async def until(agent: ScriptedAgent, condition: Callable[[ScriptedAgent], bool], seconds: float = WAIT_SECONDS) -> None:
    """Wait until ``condition`` holds for what ``agent`` received; fails after ``seconds`` and says what was waited for."""
    with anyio.move_on_after(seconds):
        while not condition(agent):
            changed = anyio.Event()
            agent.on_change = changed.set
            await changed.wait()
    got = [message.get("method", "reply") for message in agent.received]
    assert condition(agent), f"not within {seconds} s; the agent waits for {agent.waits} and got {got}"


async def until_done(agent: ScriptedAgent) -> None:
    """Wait until the list of steps was played to its end, and fail on what went wrong so far."""
    await until(agent, lambda played: played.done)
    assert not agent.failures, "\n".join(agent.failures)


async def until_called(agent: ScriptedAgent, method: str, times: int = 1) -> None:
    """Wait until ``method`` came ``times`` times."""
    await until(agent, lambda played: len(played.calls(method)) >= times)
