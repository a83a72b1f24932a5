"""The store off the loop: one worker thread at a time, writes behind in order, reads when asked.

``post`` never waits, so the sinks that are called from an agent's reader may use it; ``flush`` makes durable what others are
about to be told. While the file is locked, what was posted is kept and tried again; nothing is ever written out of order. A
thread is never abandoned: SQLite's own busy wait bounds each batch, so ending takes a few seconds at most.
"""

from collections.abc import Callable, Hashable
from typing import Any, Final, TypeAlias, TypeVar

import anyio
import anyio.to_thread
import attrs

from sidecar.errors import SidecarError, Unavailable
from sidecar.store.database import StoreBusy
from sidecar.store.sessions import SessionStore

T = TypeVar("T")
StoreOperation: TypeAlias = Callable[[SessionStore], Any]

MAX_POSTED: Final = 1_024
BUSY_RETRY_SECONDS: Final = 5.0
WRITE_BEHIND_SECONDS: Final = 0.05
"""What was posted waits so long, unless somebody waits for the store: what the user sees comes first."""


@attrs.define(eq=False)
class _Posted:
    operation: StoreOperation


@attrs.define(eq=False)
class _Called:
    operation: StoreOperation
    done: anyio.Event = attrs.Factory(anyio.Event)
    result: Any = None
    error: BaseException | None = None


class StoreWorker:
    """The async face of a ``SessionStore``.

    ``open_store`` runs in the worker thread, so that a slow disk does not hold up the start. ``on_trouble`` is called on the loop
    with one sentence for the user, once per kind of trouble. ``run`` must be running for anything to be stored.
    """

    def __init__(self, open_store: Callable[[], SessionStore], on_trouble: Callable[[str], None]) -> None:
        self._open_store = open_store
        self._on_trouble = on_trouble
        self._told: set[str] = set()
        self._queue: list[_Posted | _Called] = []
        self._merged: dict[Hashable, _Posted] = {}
        self._wake = anyio.Event()
        self._called = anyio.Event()
        self._limiter = anyio.CapacityLimiter(1)
        self._store: SessionStore | None = None
        self._closed = False

    def post(self, operation: StoreOperation, *, key: Hashable = None) -> None:
        """Have ``operation`` run soon, after everything posted before.

        With a ``key``, it takes the place of one with the same key that has not run yet. One without a key is a barrier: nothing
        posted later is merged with what was posted before it.
        """
        if self._closed:
            return
        waiting = self._merged.get(key) if key is not None else None
        if waiting is not None:
            waiting.operation = operation
            return
        if len(self._queue) >= MAX_POSTED:
            self._tell("Sessions are not saved for now: the state folder does not answer.")
            return
        entry = _Posted(operation)
        if key is None:
            self._merged.clear()
        else:
            self._merged[key] = entry
        self._put(entry)

    async def call(self, operation: Callable[[SessionStore], T]) -> T:
        """Run ``operation`` after everything posted before and return its result. Raises what it raises, and ``StoreBusy``."""
        if self._closed:
            raise Unavailable("the sidecar is ending; its state is not read any more")
        entry = _Called(operation)
        self._merged.clear()
        self._put(entry)
        await entry.done.wait()
        if entry.error is not None:
            raise entry.error
        return entry.result

    async def flush(self) -> None:
        """Wait until everything posted is durable (or the store is in reduced mode). Raises ``StoreBusy`` when it is locked."""
        await self.call(lambda _: None)

    async def run(self) -> None:
        """Open the store and serve it until cancelled; what is posted by then is still written, in bounded time."""
        try:
            while True:
                await self._wait_for_work()
                with anyio.CancelScope(shield=True):
                    await self._perform_all()
        finally:
            self._closed = True
            with anyio.CancelScope(shield=True):
                if self._queue:
                    await self._perform_all()
                await self._in_thread(self._close_store)
            if self._queue:
                self._tell("The last changes of the sessions could not be saved: the state file is locked.")

    def _put(self, entry: _Posted | _Called) -> None:
        self._queue.append(entry)
        self._wake.set()
        if isinstance(entry, _Called):
            self._called.set()

    async def _wait_for_work(self) -> None:
        """Wait for something new, or, with something left over from a locked file, for the next try."""
        if self._queue:
            with anyio.move_on_after(BUSY_RETRY_SECONDS):
                await self._wake.wait()
        else:
            await self._wake.wait()
        with anyio.move_on_after(WRITE_BEHIND_SECONDS):
            await self._called.wait()
        self._wake, self._called = anyio.Event(), anyio.Event()

    async def _perform_all(self) -> None:
        batch, self._queue = self._queue, []
        self._merged.clear()
        left, troubles = await self._in_thread(lambda: self._perform(batch))
        self._queue[:0] = left
        for entry in batch:
            if isinstance(entry, _Called):
                entry.done.set()
        for trouble in troubles:
            self._tell(trouble)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work, limiter=self._limiter)

    def _perform(self, batch: list[_Posted | _Called]) -> tuple[list[_Posted | _Called], list[str]]:
        """Run a batch in the worker thread; returns what a locked file left over (calls are not left over: they fail)."""
        if self._store is None:
            self._store = self._open_store()
            batch = [*batch, _Posted(SessionStore.prune)]
        store, busy = self._store, None
        left: list[_Posted | _Called] = []
        troubles: list[str] = []
        for entry in batch:
            error = StoreBusy(busy.message) if busy else _run(entry, store)
            busy = busy or (error if isinstance(error, StoreBusy) else None)
            if isinstance(entry, _Called):
                entry.error = error
            elif isinstance(error, StoreBusy):
                left.append(entry)
            elif error is not None:
                troubles.append(f"Something of a session could not be saved ({type(error).__name__}).")
        if busy is not None:
            troubles.append(f"{busy.message}. What is to be saved is kept and tried again.")
        if store.reduced:
            troubles.append(store.reduced)
        return left, troubles

    def _close_store(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _tell(self, trouble: str) -> None:
        if trouble not in self._told:
            self._told.add(trouble)
            self._on_trouble(trouble)


def _run(entry: _Posted | _Called, store: SessionStore) -> Exception | None:
    try:
        result = entry.operation(store)
    except SidecarError as error:
        return error
    except Exception as error:  # noqa: BLE001 - the top of this thread: a call gets it raised, a post reports its kind
        return error
    if isinstance(entry, _Called):
        entry.result = result
    return None
