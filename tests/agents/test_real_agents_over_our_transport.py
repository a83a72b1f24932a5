"""Real agents behind the guardian and the peer: their frames arrive whole, and nothing of theirs stays, whatever they ignore."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import attrs
import psutil
import pytest

from sidecar.rpc.messages import IncomingRequest
from sidecar.transport.peer import Peer
from sidecar.transport.process import AgentProcess, Launch, start_agent
from tests.agents.conftest import RealAgent
from tests.peers.line_client import Message

pytestmark = [pytest.mark.agent, pytest.mark.anyio]
TURN_SECONDS = 30
STOP_SECONDS = 5


class AllowingHandler:
    """Keeps the updates and allows once whatever is asked."""

    def __init__(self) -> None:
        self.peer: Peer | None = None
        self.updates: list[Message] = []
        self.asked: list[IncomingRequest] = []
        self.unusable: list[object] = []

    def on_request(self, request: IncomingRequest) -> None:
        assert self.peer is not None
        self.asked.append(request)
        option = next(option for option in request.params["options"] if option["kind"] == "allow_once")
        answered = self.peer.answer(request.id, {"outcome": {"outcome": "selected", "optionId": option["optionId"]}})
        assert answered

    def on_notification(self, method: str, params: Any) -> None:
        if method == "session/update":
            self.updates.append(params["update"])

    def on_item(self, item: object) -> None:
        self.unusable.append(item)

    def on_batch_end(self) -> None:
        """Nothing is held back until the end of a read."""

    def on_noise(self, noise: object) -> None:
        self.unusable.append(noise)

    def on_cancelled(self, request_id: int | str) -> None:
        self.unusable.append(request_id)

    def on_closed(self, reason: str) -> None:
        """The end of the agent is seen at the process."""


@attrs.frozen
class Conversation:
    process: AgentProcess
    peer: Peer
    handler: AllowingHandler
    session_id: str

    async def prompt(self, text: str) -> Message:
        params = {"sessionId": self.session_id, "prompt": [{"type": "text", "text": text}]}
        return await self.peer.request("session/prompt", params, timeout=TURN_SECONDS)


@asynccontextmanager
async def conversation(agent: RealAgent) -> AsyncGenerator[Conversation]:
    async with anyio.create_task_group() as tasks:
        process = await start_agent(Launch(argv=agent.argv, cwd=str(agent.cwd), env=agent.env, name="the agent"), tasks)
        handler = AllowingHandler()
        handler.peer = peer = Peer(process, handler)
        tasks.start_soon(peer.run)
        await peer.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}}, timeout=TURN_SECONDS)
        session = await peer.request("session/new", {"cwd": str(agent.cwd), "mcpServers": []}, timeout=TURN_SECONDS)
        yield Conversation(process, peer, handler, session["sessionId"])
        await process.stop()
        tasks.cancel_scope.cancel()


def working_in(folder: Path) -> list[str]:
    """Return the names of all processes on this machine whose working folder is ``folder``."""
    found = psutil.process_iter(["name", "cwd"])
    return [process.info["name"] for process in found if process.info["cwd"] == str(folder)]


async def readable(fifo: Path) -> None:
    """Return when something was written into ``fifo``."""
    descriptor = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    try:
        await anyio.wait_readable(descriptor)
    finally:
        os.close(descriptor)


async def test_a_turn_of_the_example_agent_arrives_whole(example_agent: RealAgent) -> None:
    async with conversation(example_agent) as talk:
        assert (await talk.prompt("hello"))["stopReason"] == "end_turn"
        kinds = [update["sessionUpdate"] for update in talk.handler.updates]
        assert kinds.count("tool_call") == 2
        assert talk.handler.unusable == []


async def test_string_ids_and_lines_of_hundreds_of_kilobytes_pass(codex_acp: RealAgent) -> None:
    async with conversation(codex_acp) as talk:
        assert (await talk.prompt("run: seq 1 20000 | tee numbers.txt"))["stopReason"] == "end_turn"
        assert [type(request.id) for request in talk.handler.asked] == [str]
        assert max(len(str(update)) for update in talk.handler.updates) > 100_000
        assert talk.handler.unusable == []


async def test_an_agent_that_ignores_the_end_of_its_input_is_ended_with_the_command_it_runs(codex_acp: RealAgent) -> None:
    started = codex_acp.cwd / "started"
    os.mkfifo(started)
    async with conversation(codex_acp) as talk, anyio.create_task_group() as turn:
        turn.start_soon(talk.prompt, "run: echo > started; sleep 600")
        with anyio.fail_after(TURN_SECONDS):
            await readable(started)
        assert len(working_in(codex_acp.cwd)) >= 2  # the agent and its command
        turn.cancel_scope.cancel()
        with anyio.fail_after(STOP_SECONDS):
            await talk.process.stop()
        assert working_in(codex_acp.cwd) == []
