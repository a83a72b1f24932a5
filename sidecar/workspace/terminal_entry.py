"""One command an agent has us run: what is shown of it while it runs, and its end."""

from collections.abc import Callable
from typing import Any, Final

import anyio
import attrs

from sidecar.session.events import TerminalChanged
from sidecar.session.ports import TerminalExit, TerminalText
from sidecar.session.terminals import SHOWN_CHARACTERS
from sidecar.transport.terminal import Terminal, signal_name

SHOW_INTERVAL_SECONDS: Final = 0.1
END_SECONDS: Final = 3.0
SHOWN_BYTES: Final = SHOWN_CHARACTERS


@attrs.define(eq=False)
class TerminalEntry:
    """``show`` takes what changed; at most one change each ``SHOW_INTERVAL_SECONDS``, and the end at once."""

    terminal_id: str
    terminal: Terminal
    turn_id: str | None
    show: Callable[[TerminalChanged], None]
    _dirty: anyio.Event = attrs.field(factory=anyio.Event)

    @property
    def running(self) -> bool:
        """Whether the command has not ended."""
        return not self.terminal.ended.is_set()

    @property
    def exit(self) -> TerminalExit | None:
        """How it ended, None while it runs."""
        status = self.terminal.status
        if status is None:
            return None if self.running else TerminalExit()
        return TerminalExit(status.code, None if status.signal is None else signal_name(status.signal))

    def exit_json(self) -> dict[str, Any] | None:
        """Return ``{"exitCode", "signal"}``, None while it runs."""
        ended = self.exit
        return None if ended is None else {"exitCode": ended.code, "signal": ended.signal}

    def text(self) -> TerminalText:
        """Return what is kept of its output."""
        return TerminalText(self.terminal.output.text(), self.terminal.output.truncated, self.exit)

    async def run(self) -> None:
        """Read and show until the end; cancelling ends the command."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._show_live)
            await self.terminal.read(self._mark)
            tasks.cancel_scope.cancel()
        self._show_output()

    async def wait(self) -> TerminalExit:
        """Wait for the end, however long."""
        await self.terminal.ended.wait()
        return self.exit or TerminalExit()

    async def end(self) -> None:
        """End the command and everything it started, in bounded time."""
        if self.running:
            await self.terminal.end()
            with anyio.move_on_after(END_SECONDS):
                await self.terminal.ended.wait()

    def _mark(self) -> None:
        self._dirty.set()

    async def _show_live(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty = anyio.Event()
            self._show_output()
            await anyio.sleep(SHOW_INTERVAL_SECONDS)

    def _show_output(self) -> None:
        shown = self.terminal.output.text(SHOWN_BYTES)
        fields: dict[str, Any] = {"truncated": self.terminal.output.cut(SHOWN_BYTES)}
        if (status := self.exit_json()) is not None:
            fields["exitStatus"] = status
        self.show(TerminalChanged(self.terminal_id, fields, output=shown, live=True))
