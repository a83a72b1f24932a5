"""``sidecar run``: one prompt, headless. Exit codes are CONTRACT 1's."""

import functools
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

import anyio
import anyio.abc

from sidecar.cli.answers import allow_once, pick, refuse
from sidecar.cli.arguments import RunOptions
from sidecar.cli.render import JsonRenderer, Renderer, TextRenderer
from sidecar.cli.terminal import Terminal, open_terminal
from sidecar.client import Client, open_client
from sidecar.config import config_file, load_configuration, state_directory
from sidecar.errors import AgentFault, ConfigFault, EditorFault, SidecarError, Unavailable
from sidecar.session.conversation import Turn
from sidecar.session.events import SessionEvent, TurnEnded
from sidecar.session.interaction import OpenUrl, Withdrawal
from sidecar.workspace.actor import SessionActor
from sidecar.workspace.broker import Pending
from sidecar.workspace.sessions import FrontHooks

EXIT_ENDED: Final = 0
EXIT_OTHERWISE: Final = 1
EXIT_USAGE: Final = 2
EXIT_CANCELLED: Final = 3
EXIT_UNAVAILABLE: Final = 4
CANCEL_GRACE_SECONDS: Final = 10.0


def main(options: RunOptions) -> int:
    """Run the prompt and return the exit code."""
    for name in ("connection", "tags", "contexts", "forwards", "record"):
        if getattr(options, name):
            raise ConfigFault(f"--{name.rstrip('s') if name != 'tags' else 'tag'} cannot be used with this agent yet")
    prompt = sys.stdin.read() if options.prompt == "-" else options.prompt
    if not prompt.strip():
        raise ConfigFault("the prompt is empty; give text, or - to read it from standard input")
    return anyio.run(functools.partial(_Run(options, prompt).main))


class _Run:
    """One run: the client, the session, and who answers questions."""

    def __init__(self, options: RunOptions, prompt: str) -> None:
        self._options = options
        self._prompt = prompt
        self._terminal: Terminal | None = open_terminal() if options.permission == "ask" else None
        self._renderer = self._make_renderer()
        self._shown: set[str] = set()
        self._stopped: str | None = None
        self._actor: SessionActor | None = None
        self._client: Client | None = None

    def _make_renderer(self) -> Renderer:
        options = self._options
        if options.output == "json":
            return JsonRenderer(_now, strict=options.strict)
        return TextRenderer(quiet=options.output == "quiet", strict=options.strict)

    async def main(self) -> int:
        """Open the client, send the prompt, wait for its end."""
        configuration = load_configuration(self._options.common.config)
        for sentence in (*configuration.warnings, *configuration.problems):
            self._renderer.note("warning", sentence)
        hooks = FrontHooks(open_url=_has_terminal_url, notice=self._notice, keep_raw=self._options.output == "json")
        failure: SidecarError | None = None
        code = EXIT_OTHERWISE
        try:
            async with open_client(configuration, hooks, on_trouble=lambda text: self._renderer.note("warning", text)) as client:
                self._client = client
                code = await self._drive(client)
        except* SidecarError as group:
            failure = first_of(group)
        self._renderer.finish()
        if failure is not None:
            self._renderer.note("error", failure.message)
            return EXIT_CANCELLED if self._stopped is not None else _code_of(failure)
        return code

    def _notice(self, agent: str, severity: str, title: str, description: str | None) -> None:
        if severity in {"warning", "error"}:
            self._renderer.note(severity, f"{agent}: {title}{': ' + description if description else ''}")

    async def _drive(self, client: Client) -> int:
        with ExitStack() as stack:
            async with anyio.create_task_group() as tasks:
                stack.callback(client.workspace.broker.subscribe(lambda: self._questions(client, tasks)))
                tasks.start_soon(self._watch_signals)
                tasks.start_soon(self._watch_time)
                try:
                    turn = await self._send(client)
                finally:
                    tasks.cancel_scope.cancel()
        if self._stopped is not None:
            return EXIT_CANCELLED
        if turn.outcome == "unknown":
            return EXIT_UNAVAILABLE
        return EXIT_ENDED if turn.outcome == "ended" and turn.stop_reason == "end_turn" else EXIT_OTHERWISE

    async def _session(self, client: Client) -> SessionActor:
        options = self._options
        wishes = {name: value for name in ("mode", "model", "effort") if (value := getattr(options, name)) is not None}
        folder = options.cwd or "."
        if options.session is None:
            params = {"workspace": folder, **wishes, **({"agent": options.agent} if options.agent else {})}
            return client.workspace.actor((await client.call("session.new", params))["sessionId"])
        loaded = await client.call("session.load", await self._named_session(client, options.session))
        actor = client.workspace.actor(loaded["sessionId"])
        for name, value in wishes.items():
            await client.call("config.set", {"id": name, "value": value, "sessionId": loaded["sessionId"]})
        return actor

    async def _named_session(self, client: Client, name: str) -> Mapping[str, Any]:
        """Find a stored session by our id, the agent's id, or its title."""
        listed: Sequence[Mapping[str, Any]] = (await client.call("session.list"))["sessions"]
        for key in ("sessionId", "agentSessionId", "title"):
            found = [entry for entry in listed if entry.get(key) == name]
            if len(found) == 1 and found[0].get("sessionId"):
                return {"sessionId": found[0]["sessionId"]}
            if len(found) > 1:
                raise EditorFault(f"several sessions are called {name!r}; give the id (sidecar sessions lists them)")
        agent = self._options.agent
        if agent is None:
            raise EditorFault(f"no stored session {name!r}; give --agent to load it by the agent's id")
        return {"agentSessionId": name, "agent": agent}

    async def _send(self, client: Client) -> Turn:
        actor = self._actor = await self._session(client)
        session_id = actor.identity.session_id
        ended = anyio.Event()
        ours: str | None = None

        def seen(batch: Sequence[SessionEvent]) -> None:
            self._renderer.events(session_id, batch)
            if any(isinstance(event, TurnEnded) and event.turn_id == ours for event in batch):
                ended.set()

        if self._stopped is not None:
            raise Unavailable("stopped before the prompt was sent")
        actor.observe(seen)
        outcome = await client.call("prompt", {"text": self._prompt, "sessionId": session_id})
        ours = str(outcome["turnId"])
        turn = actor.state.conversation.turn_index.get(ours)
        if turn is None or turn.running:
            await ended.wait()
        return actor.state.conversation.turn_index[ours]

    # --- stopping ------------------------------------------------------------------------------------------------------

    async def _watch_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                if self._stopped is not None:
                    raise Unavailable("stopped before the agent had answered")
                await self._stop("cancelled")

    async def _watch_time(self) -> None:
        if self._options.timeout is not None:
            with anyio.move_on_after(self._options.timeout):
                await anyio.sleep_forever()
            await self._stop(f"no end within {self._options.timeout:g} s")
            with anyio.move_on_after(CANCEL_GRACE_SECONDS):
                await anyio.sleep_forever()
            raise Unavailable("the agent did not answer the cancel")

    async def _stop(self, why: str) -> None:
        self._stopped = why
        self._renderer.note("warning", f"{why}; the agent is asked to stop")
        if self._actor is None or self._client is None or self._actor.running_turn_id is None:
            raise Unavailable(f"{why} before the prompt was sent")
        self._actor.cancel(self._client.workspace.spawn)

    # --- questions -----------------------------------------------------------------------------------------------------

    def _questions(self, client: Client, tasks: anyio.abc.TaskGroup) -> None:
        for pending in client.workspace.broker.pending():
            if pending.id not in self._shown:
                self._shown.add(pending.id)
                tasks.start_soon(self._answer, client, pending)

    async def _answer(self, client: Client, pending: Pending) -> None:
        shown = pending.to_json()
        session_id = pending.asker.session_id
        self._renderer.question(session_id, shown)
        answer: Mapping[str, Any] | None
        if self._options.permission == "allow-once":
            answer, line = allow_once(shown, [str(config_file(self._options.common.config)[0].parent), str(state_directory())])
            self._renderer.note("warning", line)
            answer = answer or refuse(shown)
        elif self._terminal is not None:
            answer = await self._ask_user(self._terminal, pending)
        else:
            answer = refuse(shown)
        if answer is None:
            client.workspace.broker.withdraw(pending, Withdrawal.TURN_CANCELLED)
        else:
            client.workspace.broker.answer(pending.id, answer)
        self._renderer.answered(session_id, shown, answer)

    async def _ask_user(self, terminal: Terminal, pending: Pending) -> Mapping[str, Any] | None:
        async with _ASKING:
            full = pending.to_json(full=True)
            answer = await terminal.ask(lambda device: pick(full, device.read, device.write))
        return answer if answer is not None else refuse(full)


_ASKING = anyio.Lock()


async def _has_terminal_url(_: OpenUrl) -> bool:
    """Nothing opens by itself here; the user opened it from the terminal or declined."""
    return False


def _now() -> str:
    import datetime as dt  # noqa: PLC0415 - only for NDJSON

    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def first_of(group: BaseExceptionGroup[SidecarError]) -> SidecarError:
    """Return the first error of a group, however deep."""
    first = group.exceptions[0]
    return first_of(first) if isinstance(first, BaseExceptionGroup) else first


def _code_of(error: SidecarError) -> int:
    if isinstance(error, Unavailable | AgentFault):
        return EXIT_UNAVAILABLE
    return EXIT_USAGE if isinstance(error, ConfigFault | EditorFault) else EXIT_OTHERWISE
