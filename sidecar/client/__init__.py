"""The public Python API: the same operations as an editor has, in one process, without LSP.

```python
async with open_client(load_configuration()) as client:
    session = await client.call("session.new", {"agent": "demo", "workspace": "/path"})
```
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

from sidecar.config import Configuration, state_directory
from sidecar.errors import EditorFault, SidecarError
from sidecar.store.sessions import SessionStore
from sidecar.store.worker import StoreWorker
from sidecar.workspace.operation import Operation
from sidecar.workspace.operations import operations
from sidecar.workspace.records import Records
from sidecar.workspace.sessions import FrontHooks, Workspace

__all__ = ["Client", "first_error", "open_client"]

CLOSE_SECONDS = 6.0


class Client:
    """One workspace with its operations. Made by ``open_client``."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.abandoned = False
        self._operations: Mapping[str, Operation] = operations(workspace)

    async def call(self, operation: str, params: Mapping[str, Any] | None = None) -> Any:
        """Run an operation of the contract's table by its name with dots; raises the errors of ``sidecar.errors``."""
        found = self._operations.get(operation)
        if found is None:
            raise EditorFault(f"there is no operation {operation!r}; known: {', '.join(sorted(self._operations))}")
        return await found(params or {})

    def abandon(self) -> None:
        """Give agents no time to end by themselves when the block is left: they and all they started are killed."""
        self.abandoned = True


@asynccontextmanager
async def open_client(
    configuration: Configuration,
    hooks: FrontHooks | None = None,
    *,
    store: bool = True,
    on_trouble: Callable[[str], None] = lambda _: None,
) -> AsyncGenerator[Client, None]:
    """Open a workspace for as long as the block runs; agents, tasks and the store end with it, in bounded time."""
    worker = StoreWorker(lambda: SessionStore(state_directory()), on_trouble) if store else None
    async with anyio.create_task_group() as outer:
        if worker is not None:
            outer.start_soon(worker.run)
        async with anyio.create_task_group() as tasks:
            workspace = Workspace(tasks, configuration, hooks, records=Records(worker) if worker is not None else None)
            client = Client(workspace)
            try:
                yield client
            finally:
                if not client.abandoned:
                    with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                        await workspace.aclose()
                tasks.cancel_scope.cancel()
        outer.cancel_scope.cancel()


def first_error(group: BaseExceptionGroup[SidecarError]) -> SidecarError:
    """Return the first error of a group, however deep: what a block of ``open_client`` raises comes in groups."""
    first = group.exceptions[0]
    return first_error(first) if isinstance(first, BaseExceptionGroup) else first
