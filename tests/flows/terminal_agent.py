"""An agent that has the client run commands: sends the requests a test names and gives back the replies."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from sidecar.workspace.actor import SessionActor
from sidecar.workspace.broker import Pending
from tests.flows.harness import Bench, Make, bench
from tests.peers.kiro_v3 import kiro_v3
from tests.peers.memory import until
from tests.peers.scripted import WAIT_SECONDS, ScriptedAgent, member


class TerminalAgent:
    """One session of an agent that was told it may use terminals."""

    def __init__(self, under_test: Bench, actor: SessionActor) -> None:
        self.bench = under_test
        self.actor = actor
        self.answers: list[str] = []

    @property
    def session(self) -> str:
        return self.actor.identity.agent_session_id or ""

    def ask(self, method: str, **params: Any) -> Any:
        """Send a request of the agent; return its id."""
        return self.bench.agent.ask(method, {"sessionId": self.session, **params}).request_id

    async def reply(self, request_id: Any) -> dict[str, Any]:
        """Wait for the reply to a request."""
        agent = self.bench.agent
        with anyio.fail_after(WAIT_SECONDS):
            await until(agent, lambda a: any(m.get("id") == request_id and "method" not in m for m in a.received))
        return next(m for m in agent.received if m.get("id") == request_id and "method" not in m)

    async def waits(self, terminal_id: str) -> Any:
        """Have the agent wait for the end of a command; return the id of its request, which has arrived."""
        request_id = self.ask("terminal/wait_for_exit", terminalId=terminal_id)
        await self.call("terminal/output", terminalId=terminal_id)
        return request_id

    def replied(self, request_id: Any) -> bool:
        return any(m.get("id") == request_id and "method" not in m for m in self.bench.agent.received)

    async def call(self, method: str, **params: Any) -> Any:
        """Send a request and return its result."""
        reply = await self.reply(self.ask(method, **params))
        assert "result" in reply, reply
        return reply["result"]

    async def fails(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return its error."""
        return (await self.reply(self.ask(method, **params)))["error"]

    async def create(self, command: str, args: list[str] | None = None, **more: Any) -> str:
        """Have a command run that the user allows when asked; return the terminal's id."""
        request_id = self.ask("terminal/create", command=command, **({} if args is None else {"args": args}), **more)
        await self.answer("allow-once")
        return str(member(await self.reply(request_id), "result", "terminalId"))

    async def answer(self, option: str) -> Pending:
        """Wait for a question and answer it."""
        pending = await self.bench.question()
        assert (await self.bench.call("pending.answer", id=pending.id, optionId=option))["accepted"]
        return pending

    async def ended(self, terminal_id: str) -> dict[str, Any]:
        """Wait for the end of a command: its output and exit status."""
        await self.call("terminal/wait_for_exit", terminalId=terminal_id)
        return await self.call("terminal/output", terminalId=terminal_id)

    async def ran(self, command: str, args: list[str] | None = None, **more: Any) -> dict[str, Any]:
        """Have a command run to its end."""
        return await self.ended(await self.create(command, args, **more))

    def view(self, terminal_id: str) -> dict[str, Any]:
        """What is shown of a terminal."""
        return next(t for t in self.actor.state.to_json()["terminals"] if t["terminalId"] == terminal_id)

    async def shows(self, terminal_id: str, text: str) -> None:
        """Wait until the end of the output that is shown holds ``text``."""
        await self.bench.until(lambda: text in self.view(terminal_id)["output"], self.actor)


@asynccontextmanager
async def terminal_agent(
    folder: Path, make: "Make | ScriptedAgent | None" = None, **new: Any
) -> AsyncGenerator[TerminalAgent, None]:
    """Yield an agent with an open session in ``folder`` under a front that shows terminals."""
    async with bench(make or kiro_v3(), folder) as b:
        b.workspace.hooks.terminals = True
        actor = await b.new(**new)
        await b.run(actor, "answer")
        yield TerminalAgent(b, actor)
