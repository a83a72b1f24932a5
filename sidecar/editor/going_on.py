"""Operations go on when the editor stops waiting for them (CONTRACT 3.1: a cancelled request undoes nothing)."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from sidecar.log.frames import describe_exception

_log = logging.getLogger(__name__)


async def going_on(tasks: TaskGroup, work: Callable[[], Awaitable[Any]]) -> Any:
    """Run ``work`` as a task of ``tasks`` and return its result, or raise what it raised.

    When the waiter is cancelled the work goes on; an error that then reaches nobody is logged by its kind.
    """
    done = anyio.Event()
    waiting = True
    result: Any = None
    failure: Exception | None = None

    async def run() -> None:
        nonlocal result, failure
        try:
            result = await work()
        except Exception as error:  # noqa: BLE001  it belongs to the waiter, and must not end the server when there is none
            failure = error
            if not waiting:
                _log.warning("an operation nobody waits for any more failed: %s", describe_exception(error))
        finally:
            done.set()

    tasks.start_soon(run)
    try:
        await done.wait()
    finally:
        waiting = False
    if failure is not None:
        raise failure
    return result
