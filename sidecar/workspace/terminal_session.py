"""The commands an agent has us run in one session: with the user's leave, in the session's folders, counted.

A command ends when its turn is cancelled, its session closes or its agent is gone; what it started in the background ends
with it. Its output stays shown.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import anyio
import anyio.abc

from sidecar.errors import RESOURCE_NOT_FOUND, Refused, Unavailable
from sidecar.session.events import CancelRequested, SessionEvent, TerminalChanged, TurnEnded, TurnStarted
from sidecar.session.interaction import Answer, PermissionRequest, Withdrawal
from sidecar.session.lenient import object_at
from sidecar.session.ports import TerminalRequest
from sidecar.transport.process import Launch
from sidecar.transport.terminal import Terminal
from sidecar.workspace.actor import SessionActor
from sidecar.workspace.containment import resolve
from sidecar.workspace.terminal_commands import Command, read_command
from sidecar.workspace.terminal_consent import AllowedCommands, Decision, permission_for, seen_texts
from sidecar.workspace.terminal_entry import TerminalEntry

MAX_RUNNING: Final = 16
MAX_KEPT: Final = 32
DEFAULT_LIMIT_BYTES: Final = 1024 * 1024
MAX_LIMIT_BYTES: Final = 16 * 1024 * 1024

Environment: TypeAlias = Callable[[], Mapping[str, str]]
Open: TypeAlias = Callable[[Launch, anyio.abc.TaskGroup, int], Awaitable[Terminal]]


class SessionTerminals:
    """Those of one session."""

    def __init__(self, actor: SessionActor, tasks: anyio.abc.TaskGroup, environment: Environment, start: Open) -> None:
        self.allowed = AllowedCommands()
        self.entries: dict[str, TerminalEntry] = {}
        self._actor = actor
        self._tasks = tasks
        self._environment = environment
        self._open = start
        self._starting = 0
        self._cancelled_turn: str | None = None

    # --- starting -----------------------------------------------------------------------------------------------------------

    async def create(self, request: TerminalRequest) -> str:
        """Start a command; raises ``Refused`` or ``Unavailable``, in words for the agent."""
        turn_id = self._actor.running_turn_id
        self._check(turn_id)
        running = sum(entry.running for entry in self.entries.values()) + self._starting
        if running >= MAX_RUNNING:
            raise Unavailable(
                f"{running} commands run in this session already, and no more are started at once. Wait for one to exit "
                "(terminal/wait_for_exit), or end one (terminal/kill, terminal/release)."
            )
        self._starting += 1
        try:
            return await self._start(request, turn_id)
        finally:
            self._starting -= 1

    def _check(self, turn_id: str | None) -> None:
        if self._actor.closed:
            raise Refused("the session is closed; nothing is run for it any more")
        if turn_id is not None and turn_id == self._cancelled_turn:
            raise Refused("the user cancelled this turn; nothing is run for it any more")

    async def _start(self, request: TerminalRequest, turn_id: str | None) -> str:
        command = read_command(request, self._folder(request.cwd), self._environment())
        if command.risky or not self.allowed.take(command.texts, command.cwd, self._actor.identity.spec.cwd):
            await self._ask(command)
            self._check(turn_id)
        limit = DEFAULT_LIMIT_BYTES if request.output_limit is None else min(request.output_limit, MAX_LIMIT_BYTES)
        launch = Launch(argv=command.argv, cwd=command.cwd, env=command.env, name=request.command.partition("\n")[0][:80])
        terminal = await self._open(launch, self._tasks, limit)
        entry = TerminalEntry(f"term_{secrets.token_hex(4)}", terminal, turn_id, self._show)
        self.entries[entry.terminal_id] = entry
        self._show(TerminalChanged(entry.terminal_id, {"command": command.shown, "cwd": command.cwd}, live=True))
        self._tasks.start_soon(entry.run)
        self._forget_old()
        try:
            self._check(turn_id)
        except Refused:
            self._let_go([entry])
            raise
        return entry.terminal_id

    def _folder(self, given: str | None) -> str:
        spec = self._actor.identity.spec
        path = resolve(given or spec.cwd, (spec.cwd, *spec.additional_directories)).path
        if not Path(path).is_dir():
            raise Unavailable(f"{given} is not a folder, so no command can run there. Give an existing one as cwd, or none.")
        return path

    async def _ask(self, command: Command) -> None:
        """Ask the user for leave; raises ``Refused`` without it."""
        decided = anyio.Event()
        decision: Decision | None = None

        def answered(answer: Answer | Withdrawal) -> None:
            nonlocal decision
            decision = Decision(answer)
            decided.set()

        handle = self._actor.ask(permission_for(command.shown, command.cwd, self._tool_call(command)), answered)
        try:
            await decided.wait()
        finally:
            handle.withdraw(Withdrawal.AGENT_WITHDREW)
        if decision is None or not decision.allowed:
            raise Refused("not run: no answer" if decision is None else f"not run: {decision.reason}")

    def _tool_call(self, command: Command) -> str:
        """Return the tool call of the running turn that shows this command, else a name of our own."""
        turn = self._actor.state.running_turn
        for call_id, part in reversed(self._actor.state.conversation.tool_parts.items()):
            if part.turn is turn:
                known = self._actor.tool_call(call_id) or {}
                raw: Any = known.get("raw_input")
                shown = PermissionRequest(call_id, str(known.get("title", "")), (), "execute", _text(raw), raw_input=raw)
                if not seen_texts(shown).isdisjoint(command.texts):
                    return call_id
        return f"terminal-{secrets.token_hex(4)}"

    def _show(self, event: TerminalChanged) -> None:
        self._actor.state.apply([event])

    def _forget_old(self) -> None:
        """An agent that never releases what ended does not fill the memory."""
        ended = [entry for entry in self.entries.values() if not entry.running]
        for entry in ended[: max(0, len(self.entries) - MAX_KEPT)]:
            self._let_go([entry])

    # --- the end ------------------------------------------------------------------------------------------------------------

    def entry(self, terminal_id: str) -> TerminalEntry:
        """Return one whose id is valid."""
        if (found := self.entries.get(terminal_id)) is None:
            raise Unavailable(
                f"there is no terminal {terminal_id!r} in this session (any more); make one with terminal/create",
                code=RESOURCE_NOT_FOUND,
            )
        return found

    def forget(self, terminal_id: str) -> TerminalEntry:
        """Make the id invalid; what it printed stays shown."""
        entry = self.entry(terminal_id)
        del self.entries[terminal_id]
        self._show(TerminalChanged(terminal_id, {"released": True}, live=True))
        return entry

    def _let_go(self, entries: Sequence[TerminalEntry]) -> None:
        for entry in entries:
            self.forget(entry.terminal_id)
            self._tasks.start_soon(entry.end)

    def leave(self, terminal_ids: Sequence[str]) -> None:
        """Release these without waiting."""
        self._let_go([self.entries[terminal_id] for terminal_id in terminal_ids if terminal_id in self.entries])

    def close(self) -> None:
        """The session is over."""
        self._let_go(list(self.entries.values()))

    def saw(self, batch: Sequence[SessionEvent]) -> None:
        """Follow the turns: a cancelled one takes its commands with it, those the agent abandons too (facts on agents, 30)."""
        for event in batch:
            if isinstance(event, TurnStarted):
                self._cancelled_turn = None
            elif isinstance(event, CancelRequested):
                self._cancelled_turn = event.turn_id
                self.allowed.turn_over()
                for entry in self._of_turn(event.turn_id):
                    self._tasks.start_soon(entry.end)
            elif isinstance(event, TurnEnded):
                self.allowed.turn_over()
                if event.turn_id == self._cancelled_turn or event.outcome == "unknown":
                    self._let_go(self._of_turn(event.turn_id))

    def _of_turn(self, turn_id: str) -> list[TerminalEntry]:
        return [entry for entry in self.entries.values() if entry.turn_id == turn_id]


def _text(raw_input: Any) -> str | None:
    value = object_at(raw_input).get("command")
    return value if isinstance(value, str) else None
