"""A workspace in memory: scripted agents instead of processes, everything else is the real thing."""

import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from sidecar.config import Layer, combine
from sidecar.config.layers import read_table
from sidecar.transport.process import AgentProcess, ExitStatus, Launch
from sidecar.transport.streams import MemoryStream, WriteTicket, memory_pair
from sidecar.workspace.actor import SessionActor
from sidecar.workspace.broker import Pending
from sidecar.workspace.operations import operations
from sidecar.workspace.sessions import FrontHooks, Workspace
from tests.peers.scripted import WAIT_SECONDS, ScriptedAgent, play_on

Make = Callable[[Launch], ScriptedAgent]


class _Ended:
    def __init__(self) -> None:
        self.status: ExitStatus | None = None
        self._known = anyio.Event()

    def tell(self) -> None:
        self.status = self.status or ExitStatus(0)
        self._known.set()

    def __await__(self) -> Any:
        return self._known.wait().__await__()


class MemoryProcess:
    """What the supervisor needs of a process, over a memory stream."""

    pid = 4711

    def __init__(self, launch: Launch, stream: MemoryStream) -> None:
        self.launch = launch
        self.exit = _Ended()
        self._stream = stream

    async def receive(self) -> bytes:
        data = await self._stream.receive()
        if not data:
            self.exit.tell()
        return data

    @property
    def queued_bytes(self) -> int:
        return self._stream.queued_bytes

    def write(self, line: bytes, *, urgent: bool = False) -> WriteTicket:
        return self._stream.write(line, urgent=urgent)

    async def describe_end(self) -> str | None:
        return None

    def stderr_tail(self) -> str:
        return ""

    def describe_exit(self) -> str:
        return f"{self.launch.name} exited with code 0."

    async def aclose(self) -> None:
        self.exit.tell()
        await self._stream.aclose()


class Bench:
    """One workspace under test, with what it told its front."""

    def __init__(self, workspace: Workspace, folder: Path) -> None:
        self.workspace = workspace
        self.folder = folder
        self.agents: list[ScriptedAgent] = []
        self.their_ends: list[MemoryStream] = []
        self.launches: list[Launch] = []
        self.notices: list[tuple[str, str, str, str | None]] = []
        self.opened_urls: list[str] = []
        self.agent_states: list[tuple[str, str]] = []
        self._operations = operations(workspace)

    @property
    def agent(self) -> ScriptedAgent:
        """The agent started last."""
        return self.agents[-1]

    async def kill(self) -> None:
        """End the agent started last."""
        await self.their_ends[-1].aclose()

    async def call(self, operation: str, **params: Any) -> Any:
        """Run an operation; bounded."""
        with anyio.fail_after(WAIT_SECONDS):
            return await self._operations[operation](params)

    async def new(self, **params: Any) -> SessionActor:
        """Open a session in the bench's folder."""
        made = await self.call("session.new", workspace=str(self.folder), **params)
        return self.workspace.actor(made["sessionId"])

    async def prompt(self, actor: SessionActor, text: str, **params: Any) -> str:
        """Send a prompt and return the id of its turn."""
        outcome = await self.call("prompt", sessionId=actor.identity.session_id, text=text, **params)
        return str(outcome["turnId"])

    async def run(self, actor: SessionActor, text: str) -> Mapping[str, Any]:
        """Send a prompt, wait for its end and return the turn as JSON."""
        return await self.turn(actor, await self.prompt(actor, text))

    async def turn(self, actor: SessionActor, turn_id: str) -> Mapping[str, Any]:
        """Wait for the end of a turn and return it as JSON."""
        await self.until(lambda: self._ended(actor, turn_id) and actor.running_turn_id != turn_id, actor)
        turns = actor.state.to_json()["turns"]
        return next(turn for turn in turns if turn["turnId"] == turn_id)

    @staticmethod
    def _ended(actor: SessionActor, turn_id: str) -> bool:
        turn = actor.state.conversation.turn_index.get(turn_id)
        return turn is not None and not turn.running

    async def until(self, condition: Callable[[], bool], actor: SessionActor | None = None) -> None:
        """Wait until ``condition`` holds, looking after each change of questions or of the session; bounded."""
        changed = anyio.Event()

        def wake() -> None:
            changed.set()

        stop = self.workspace.broker.subscribe(wake)
        states = [a.state for a in ([actor] if actor is not None else self.workspace.actors())]
        for state in states:
            state.subscribe(wake)
        try:
            with anyio.move_on_after(WAIT_SECONDS):
                while not condition():
                    await changed.wait()
                    changed = anyio.Event()
        finally:
            stop()
            for state in states:
                state.unsubscribe(wake)
        assert condition(), "what was waited for did not happen"

    async def question(self, number: int = 1) -> Pending:
        """Wait until ``number`` questions wait and return the last."""
        await self.until(lambda: len(self.workspace.broker.pending()) >= number)
        return self.workspace.broker.pending()[number - 1]

    def told(self, agent: str, severity: str, title: str, description: str | None) -> None:
        self.notices.append((agent, severity, title, description))

    async def open_url(self, body: Any) -> bool:
        self.opened_urls.append(body.url.reveal())
        return True


def text_of(turn: Mapping[str, Any], role: str = "agent") -> str:
    """Return the text of a turn."""
    return "".join(part["text"] for part in turn["parts"] if part["kind"] == "text" and part["role"] == role)


@asynccontextmanager
async def bench(make: Make | ScriptedAgent, folder: Path, **settings: Any) -> AsyncGenerator[Bench, None]:
    """Yield a workspace whose agent ``scripted`` is played by ``make``; ``settings`` are those of ``[agents.scripted]``."""
    agent = {"protocol": "kiro-v3", "command": [sys.executable], **settings}
    limits = agent.pop("limits", {})
    mcp = agent.pop("mcp_servers", {})
    layer: Layer = read_table(
        {"agent": "scripted", "agents": {"scripted": agent}, "limits": limits, "mcp_servers": mcp}, "test settings"
    )
    assert not layer.problems, layer.problems
    configuration = combine(layer)
    async with anyio.create_task_group() as outer:

        async def start(launch: Launch, tasks: anyio.abc.TaskGroup) -> AgentProcess:
            played = make if isinstance(make, ScriptedAgent) else make(launch)
            ours, theirs = memory_pair()
            under_test.their_ends.append(theirs)
            under_test.agents.append(played)
            under_test.launches.append(launch)
            outer.start_soon(play_on, played, theirs)
            return MemoryProcess(launch, ours)  # pyright: ignore[reportReturnType]  # as much of a process as is used

        hooks = FrontHooks()
        async with anyio.create_task_group() as tasks:
            workspace = Workspace(tasks, configuration, hooks, start=start)
            under_test = Bench(workspace, folder)
            hooks.open_url = under_test.open_url
            hooks.notice = under_test.told
            hooks.agent_changed = lambda name, state, _: under_test.agent_states.append((name, state))
            try:
                yield under_test
            finally:
                with anyio.move_on_after(WAIT_SECONDS, shield=True):
                    await workspace.aclose()
                tasks.cancel_scope.cancel()
        outer.cancel_scope.cancel()
