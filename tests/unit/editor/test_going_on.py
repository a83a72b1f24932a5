"""A cancelled wait undoes nothing, and an error nobody waits for ends nothing."""

import anyio
import anyio.lowlevel
import pytest

from sidecar.editor.going_on import going_on
from sidecar.errors import EditorFault

pytestmark = pytest.mark.anyio


async def test_the_work_goes_on_when_its_waiter_is_cancelled() -> None:
    gate, finished = anyio.Event(), anyio.Event()

    async def work() -> str:
        await gate.wait()
        finished.set()
        return "done"

    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await going_on(tasks, work)
        assert scope.cancelled_caught
        assert not finished.is_set()
        gate.set()
        with anyio.fail_after(5):
            await finished.wait()


async def test_result_and_error_reach_the_waiter() -> None:
    async def good() -> int:
        return 7

    async def bad() -> int:
        raise EditorFault("say what to send")

    async with anyio.create_task_group() as tasks:
        assert await going_on(tasks, good) == 7
        with pytest.raises(EditorFault, match="say what"):
            await going_on(tasks, bad)


async def test_an_error_after_the_waiter_left_ends_nothing_else() -> None:
    gate = anyio.Event()

    async def work() -> None:
        await gate.wait()
        raise ZeroDivisionError

    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await going_on(tasks, work)
        gate.set()
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        assert not tasks.cancel_scope.cancel_called
