"""A command in a terminal: its output kept within a byte limit, its end known once all of it was read."""

import signal
from collections.abc import Callable

import anyio
from anyio.abc import TaskGroup

from sidecar.transport.exits import ExitStatus
from sidecar.transport.process import AgentProcess, Launch, start_terminal
from sidecar.transport.terminal_output import OutputTail

__all__ = ["ExitStatus", "Terminal", "open_terminal", "signal_name"]


class Terminal:
    """A running or ended command. ``ended`` is set when the command is gone and everything it wrote is in ``output``."""

    def __init__(self, process: AgentProcess, output_limit: int) -> None:
        self.output = OutputTail(output_limit)
        self.ended = anyio.Event()
        self._process = process

    @property
    def status(self) -> ExitStatus | None:
        """How it ended; None while ``ended`` is not set."""
        return self._process.exit.status if self.ended.is_set() else None

    async def read(self, on_output: Callable[[], None]) -> None:
        """Read until the end, calling ``on_output()`` after each block; cancelling ends the command with its whole tree."""
        try:
            while block := await self._process.receive():
                self.output.feed(block)
                on_output()
            self.output.finish()
            await self._process.exit
        except BaseException:
            await self._process.stop(grace=0)
            raise
        finally:
            self.ended.set()

    async def end(self) -> None:
        """End the command and everything it started: TERM, then KILL; bounded, cannot be cancelled, may be called again."""
        await self._process.stop(grace=0)


async def open_terminal(launch: Launch, task_group: TaskGroup, output_limit: int) -> Terminal:
    """Start a command; ``output_limit`` is in bytes. Raises Unavailable, in words for the user, when it cannot be started."""
    return Terminal(await start_terminal(launch, task_group), output_limit)


def signal_name(number: int) -> str:
    """Return the name of a signal, such as ``SIGTERM``."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
