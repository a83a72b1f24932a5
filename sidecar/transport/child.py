"""A running agent: its pipes as a byte stream, its end, and the ordered end of everything it started."""

import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, cast

import anyio
import attrs

from sidecar.errors import Unavailable
from sidecar.log import redact
from sidecar.transport import guardian
from sidecar.transport.exits import ExitStatus, describe_exit, spawn_failure
from sidecar.transport.orphans import end_orphans
from sidecar.transport.pipes import ErrorTail, GuardianStatus, InputPipe, OutputPipe
from sidecar.transport.streams import WriteTicket

START_SECONDS = 10.0
EOF_GRACE_SECONDS = 1.5
TERM_GRACE_SECONDS = 1.0
END_MARGIN_SECONDS = 0.5
STDERR_DRAIN_SECONDS = 0.3
STDOUT_IDLE_SECONDS = 0.25
STDOUT_DRAIN_SECONDS = 2.0
DESCRIBE_END_SECONDS = 1.0


@attrs.frozen
class Launch:
    """What to start: ``argv`` with an absolute program first, the child's whole environment, and the name used in messages.

    ``redact`` is applied to error output before anybody sees it. With ``keep_descendants`` what the program leaves running after
    its own end goes on until the sidecar is gone.
    """

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str] = attrs.field(repr=False)
    name: str
    redact: Callable[[str], str] = attrs.field(default=redact, repr=False)
    keep_descendants: bool = False


@attrs.frozen
class Child:
    """The parts a start leaves behind: the process started (the guardian, or on Windows the agent) and the ends of its pipes."""

    popen: "subprocess.Popen[bytes]"
    marker: str
    stdin: InputPipe
    stdout: OutputPipe
    stderr: ErrorTail
    status: GuardianStatus


class Exit:
    """Awaited any number of times; gives the ``ExitStatus``. ``status`` is None until then."""

    def __init__(self) -> None:
        self._known = anyio.Event()
        self.status: ExitStatus | None = None

    def tell(self, status: ExitStatus) -> None:
        """Make the end known; the first one counts."""
        if self.status is None:
            self.status = status
            self._known.set()

    def __await__(self) -> Generator[Any, None, ExitStatus]:
        return self._wait().__await__()

    async def _wait(self) -> ExitStatus:
        await self._known.wait()
        return cast("ExitStatus", self.status)


class AgentProcess:
    """A running agent as a ``ByteStream``: its stdin and stdout, its error output, its end.

    ``await process.exit`` gives the ``ExitStatus``. After the agent's own end its remaining output is still received, for a
    bounded time, then the end of the stream, whoever holds the pipe.
    """

    def __init__(self, launch: Launch, child: Child) -> None:
        self.launch = launch
        self.exit = Exit()
        self._child = child
        self._gone = anyio.Event()
        self._began = time.monotonic()

    @property
    def pid(self) -> int | None:
        """The agent's own process id, which is also its session's on Linux and macOS."""
        return self._child.status.pid

    @property
    def guardian_pid(self) -> int:
        """The process that stands between sidecar and agent (the agent itself on Windows)."""
        return self._child.popen.pid

    async def receive(self) -> bytes:
        return await self._child.stdout.receive()

    def write(self, line: bytes, *, urgent: bool = False) -> WriteTicket:
        return self._child.stdin.write(line, urgent=urgent)

    def finish_input(self) -> None:
        """End the agent's stdin after everything queued."""
        self._child.stdin.finish()

    @property
    def queued_bytes(self) -> int:
        return self._child.stdin.queued_bytes

    def stderr_tail(self) -> str:
        """Return the last 64 KiB of the error output at most, redacted."""
        return self.launch.redact(self._child.stderr.text())

    def describe_exit(self) -> str:
        """Return one text about the agent's end, or that it is still running."""
        if self.exit.status is None:
            return f"{self.launch.name} is running."
        path = self.launch.env.get("PATH", "")
        return describe_exit(self.launch.name, self.launch.argv, self.exit.status, self.stderr_tail(), path)

    async def describe_end(self) -> str:
        """Wait a moment for the exit that follows the end of the output, and describe it."""
        with anyio.move_on_after(DESCRIBE_END_SECONDS):
            await self.exit
        if self.exit.status is None:
            return f"{self.launch.name} closed its output but goes on running."
        return self.describe_exit()

    async def aclose(self) -> None:
        await self.stop()

    async def stop(self, *, grace: float = EOF_GRACE_SECONDS) -> None:
        """End the agent and everything it started: end of file, ``grace`` seconds, TERM, wait, KILL.

        Takes 5 s at most and cannot be cancelled; may be called again.
        """
        with anyio.CancelScope(shield=True):
            self._child.stdin.close()
            with anyio.move_on_after(grace):
                await self._gone.wait()
            await self._end_now()
            with anyio.move_on_after(END_MARGIN_SECONDS):
                await self._gone.wait()

    async def started(self) -> None:
        """Return once the agent runs. Raises Unavailable when the system refused it."""
        child, launch = self._child, self.launch
        with anyio.move_on_after(START_SECONDS):
            await child.status.started.wait()
        if child.status.spawn_error is not None:
            raise spawn_failure(launch.name, launch.argv, child.status.spawn_error)
        if child.status.pid is None:
            told = self.stderr_tail().strip() or f"it said nothing within {START_SECONDS:g} s"
            raise Unavailable(f"{launch.name} could not be started: the process that guards it failed: {told}")

    async def supervise(self) -> None:
        """Watch the agent until it and its tree are gone. Cancelling ends them."""
        child = self._child
        try:
            await child.status.finished.wait()
            if child.status.status is not None:
                await self._settle(child.status.status)
            await child.status.closed.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await self._end_now()
                await self._clear_up()
                self._gone.set()

    async def _settle(self, status: ExitStatus) -> None:
        """Tell the end with the last of the error output; then end the output, whoever holds it open."""
        child = self._child
        if self.exit.status is None:
            lived = time.monotonic() - self._began
            child.stdin.abort()
            with anyio.move_on_after(STDERR_DRAIN_SECONDS):
                await child.stderr.ended.wait()
            self.exit.tell(attrs.evolve(status, lived=lived))
        with anyio.move_on_after(STDOUT_DRAIN_SECONDS):
            await self._drain()
        child.stdout.abort()

    async def _drain(self) -> None:
        """Return at the end of the output, or when nothing came for a while and nothing waits to be received."""
        stdout = self._child.stdout
        while not stdout.ended.is_set():
            before = stdout.received
            with anyio.move_on_after(STDOUT_IDLE_SECONDS):
                await stdout.ended.wait()
            if stdout.received == before and not stdout.waiting:
                return

    async def _end_now(self) -> None:
        status = self._child.status
        if status.closed.is_set():
            return
        status.end()
        with anyio.move_on_after(TERM_GRACE_SECONDS + guardian.KILL_GRACE_SECONDS + END_MARGIN_SECONDS):
            await status.closed.wait()
        if not status.closed.is_set():
            self._child.popen.kill()
            with anyio.move_on_after(END_MARGIN_SECONDS):
                await status.closed.wait()

    async def _clear_up(self) -> None:
        """Collect the guardian; end what a killed one left behind; close the pipes."""
        child = self._child
        child.status.abort()
        try:
            code = child.popen.wait(END_MARGIN_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        seen = child.status.status
        if code != 0 and child.status.pid is not None and sys.platform != "win32":
            seen = await end_orphans(child.status.pid, child.marker) or seen
        await self._settle(seen or ExitStatus(None))
        child.stderr.abort()
