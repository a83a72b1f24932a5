"""``sidecar demo``: the main job on the built-in agent, in a folder of its own, with no network and no model.

At a terminal the user answers everything. Without one, ``sidecar demo`` is itself the word for this one run: permissions are
answered as by ``run --permission allow-once``, each of them printed; the agent is the built-in one, the folder new and empty.
Addresses are declined then, since nobody is there to open them.
"""

import functools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anyio

from sidecar.cli.answers import protected_paths
from sidecar.cli.arguments import DemoOptions
from sidecar.cli.output import Output
from sidecar.cli.questioner import Policy, Questioner
from sidecar.cli.render import TextRenderer, tell_on_stderr
from sidecar.cli.run import EXIT_CANCELLED, EXIT_OTHERWISE, code_of, refuse_to_open
from sidecar.cli.stopping import Stopper
from sidecar.cli.terminal import open_terminal
from sidecar.cli.urls import url_opener
from sidecar.client import Client, first_error, open_client
from sidecar.config import DEMO_AGENT, Configuration, load_configuration
from sidecar.errors import SidecarError
from sidecar.log import redact
from sidecar.session.events import McpServersReplaced, SessionEvent, TurnEnded
from sidecar.workspace.actor import SessionActor
from sidecar.workspace.sessions import FrontHooks

TOUR: Final = "tour"
SIGN_IN: Final = "sign in"
SERVER: Final = "demo-search"


def main(options: DemoOptions) -> int:
    """Run the tour and return its exit code."""
    configuration = load_configuration(options.common.config)
    with tempfile.TemporaryDirectory(prefix="sidecar-demo-") as folder:
        return anyio.run(functools.partial(_Demo(configuration, folder, protected_paths(options.common.config)).main))


class _Demo:
    """One tour. Everything it says goes to standard output, so that it reads in order wherever that leads."""

    def __init__(self, configuration: Configuration, folder: str, protected: Sequence[str]) -> None:
        self._configuration = configuration
        self._folder = folder
        self._protected = protected
        self._terminal = open_terminal()
        self._events: list[SessionEvent] = []
        self._news = anyio.Event()

    async def main(self) -> int:
        """Show everything; 0 when it went through."""
        stopper = Stopper(self._tell, None)
        out = Output(stopper.output_broken)
        self._renderer = TextRenderer(out, self._tell, quiet=False)
        code = 0
        async with stopper:
            try:
                await self._show(stopper)
            except* SidecarError as group:
                error = first_error(group)
                code = code_of(error)
                self._tell("error", error.message)
            self._renderer.finish()
            await stopper.last_wait(out.finish)
        if out.broken is not None:
            if not out.gone:
                tell_on_stderr("error", f"standard output cannot be written: {out.broken}")
            return EXIT_OTHERWISE
        return EXIT_CANCELLED if stopper.stopped is not None else code

    def _tell(self, _: str, text: str) -> None:
        self._line(f"    ({redact(text)})")

    def _line(self, text: str = "") -> None:
        self._renderer.own_line(text)

    async def _show(self, stopper: Stopper) -> None:
        self._line(f"The built-in agent works in {self._folder}; nothing leaves this machine.")
        if self._terminal is not None:
            self._line("You answer its questions.")
        else:
            self._line('No terminal: what it may do is answered with "allow once", each time printed; addresses are declined.')
        hooks = FrontHooks(
            open_url=url_opener(self._tell) if self._terminal is not None else refuse_to_open, session_added=self._follow
        )
        with anyio.CancelScope() as scope:
            async with open_client(self._configuration, hooks, store=False) as client:
                stopper.watch(scope, client)
                policy = Policy(self._terminal, self._terminal is None, self._protected)
                async with anyio.create_task_group() as tasks:
                    Questioner(client, self._renderer, policy, tasks).start()
                    await self._steps(client, stopper)
                    tasks.cancel_scope.cancel()
        if stopper.stopped is None:
            self._show_files()

    def _follow(self, actor: SessionActor) -> None:
        def seen(batch: Sequence[SessionEvent]) -> None:
            self._renderer.events(actor.identity.session_id, batch)
            self._events += [event for event in batch if isinstance(event, McpServersReplaced | TurnEnded)]
            self._news.set()

        actor.observe(seen)

    async def _steps(self, client: Client, stopper: Stopper) -> None:
        made = await client.call("session.new", {"agent": DEMO_AGENT, "workspace": self._folder})
        actor = stopper.actor = client.workspace.actor(made["sessionId"])
        self._step(1, "a prompt: the agent answers, edits a file, runs a line, and calls a tool that wants a sign-in")
        await self._prompt(client, actor, TOUR)
        if stopper.stopped is not None:
            return
        self._step(2, f"the sign-in of the MCP server {SERVER}")
        status = await self._sign_in(client, actor)
        for name, server in actor.state.conversation.mcp.items():
            problem = server.get("errorMessage")
            self._line(f"    {name}: {server.get('status')}{' (' + str(problem) + ')' if problem else ''}")
        if status == "connected":
            self._step(3, "the same tool again")
            await self._prompt(client, actor, SIGN_IN)

    def _step(self, number: int, title: str) -> None:
        self._line()
        self._line(f"--- {number}. {title}")
        self._line()

    async def _prompt(self, client: Client, actor: SessionActor, text: str) -> None:
        self._line(f"> {text}")
        begun = len(self._events)
        sent = await client.call("prompt", {"text": text, "sessionId": actor.identity.session_id})
        await self._until(begun, lambda event: isinstance(event, TurnEnded) and event.turn_id == sent["turnId"])

    async def _sign_in(self, client: Client, actor: SessionActor) -> str:
        """Start the sign-in and wait for the snapshot that says how it ended; return the server's status."""
        begun = len(self._events)
        await client.call("mcp.authenticate", {"server": SERVER, "sessionId": actor.identity.session_id})
        began = False

        def is_over(event: SessionEvent) -> bool:
            nonlocal began
            status = _status(event)
            began = began or status == "connecting"
            return began and status not in {None, "connecting"}

        return str(_status(await self._until(begun, is_over)))

    async def _until(self, start: int, wanted: Callable[[SessionEvent], bool]) -> SessionEvent:
        """Return the first event from ``start`` on that is ``wanted``, waiting for it; the stopper bounds the wait."""
        while True:
            while start < len(self._events):
                event = self._events[start]
                start += 1
                if wanted(event):
                    return event
            self._news = anyio.Event()
            await self._news.wait()

    def _show_files(self) -> None:
        for path in sorted(Path(self._folder).iterdir()):
            self._line()
            self._line(f"--- {path.name} holds now:")
            self._line(path.read_text(encoding="utf-8").rstrip())
        self._line()
        self._line('Next: connect your editor (see the README), or: sidecar run --agent kiro "your prompt"')


def _status(event: SessionEvent) -> str | None:
    """Return what a snapshot says of the server, None when it is no snapshot or does not name it."""
    if not isinstance(event, McpServersReplaced):
        return None
    named: list[Mapping[str, Any]] = [server for server in event.servers if server.get("name") == SERVER]
    return str(named[0].get("status")) if named else None
