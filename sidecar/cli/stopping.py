"""What ends a run before its turn does: an interrupt, a time limit, or nobody reading the output."""

import signal
import sys
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self

import anyio
import anyio.abc

from sidecar.cli.render import Tell
from sidecar.client import Client
from sidecar.workspace.actor import SessionActor

CANCEL_GRACE_SECONDS: Final = 10.0
"""How long an agent may take to end its turn after the cancel of a time limit."""

SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if sys.platform != "win32" and hasattr(signal, name)
)


class Stopper:
    """Watches for the end of a run while its block runs.

    The first signal asks the agent to cancel its turn; the second kills it. Without a running turn the first ends the run.
    """

    def __init__(self, tell: Tell, timeout: float | None) -> None:
        """``timeout`` is in seconds."""
        self.stopped: str | None = None
        self.killed = False
        self.actor: SessionActor | None = None
        self._tell = tell
        self._timeout = timeout
        self._scope: anyio.CancelScope | None = None
        self._client: Client | None = None
        self._tasks = anyio.create_task_group()

    def watch(self, scope: anyio.CancelScope, client: Client) -> None:
        """Say what is to be ended: ``scope`` holds all of the run, ``client`` its agents."""
        self._scope, self._client = scope, client
        if self.stopped is not None:
            scope.cancel()

    async def last_wait(self, job: Callable[[], Awaitable[None]]) -> None:
        """Wait for ``job``, the last of the run, until a signal says not to."""
        with anyio.CancelScope() as self._scope:
            self.actor = None
            if not self.killed:
                await job()

    def output_broken(self, reason: str) -> None:
        """Nobody reads the output any more: there is no use in going on."""
        self._stop(f"the output cannot be written ({reason})", quiet=True)

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        if SIGNALS:
            await self._tasks.start(self._watch_signals)
        if self._timeout is not None:
            self._tasks.start_soon(self._watch_time, self._timeout)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        self._tasks.cancel_scope.cancel()
        return await self._tasks.__aexit__(kind, error, traceback)

    async def _watch_signals(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(*SIGNALS) as signals:
            task_status.started()
            async for _ in signals:
                if self.stopped is None:
                    self._stop("cancelled")
                else:
                    self._kill("the agent is ended now")

    async def _watch_time(self, seconds: float) -> None:
        await anyio.sleep(seconds)
        if self.stopped is None:
            self._stop(f"no end within {seconds:g} s")
        await anyio.sleep(CANCEL_GRACE_SECONDS)
        self._kill("the agent did not answer the cancel and is ended now")

    def _stop(self, why: str, *, quiet: bool = False) -> None:
        if self.stopped is not None:
            return
        self.stopped = why
        if self.actor is not None and self._client is not None and self.actor.running_turn_id is not None:
            if not quiet:
                self._tell("info", f"{why}; the agent is asked to stop (again to end it at once)")
            self.actor.cancel(self._client.workspace.spawn)
            return
        if not quiet:
            self._tell("info", why)
        if self._scope is not None:
            self._scope.cancel()

    def _kill(self, told: str) -> None:
        if self.killed:
            return
        self.killed = True
        self._tell("info", told)
        if self._client is not None:
            self._client.abandon()
        if self._scope is not None:
            self._scope.cancel()
