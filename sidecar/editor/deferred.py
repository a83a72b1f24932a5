"""The editor front behind a curtain: it is loaded after the reply to ``initialize``, so that editors start without waiting."""

import gc
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

import sidecar
from sidecar.editor.announced import FEATURES, NOTIFICATIONS, OPERATIONS
from sidecar.editor.ports import Feature, NotificationHook, RequestHook

if TYPE_CHECKING:
    from sidecar.editor.client import EditorClient
    from sidecar.editor.front import EditorFront


class DeferredFront:
    """The application as the front door knows it (``sidecar.editor.ports.EditorApp``).

    ``make`` builds the real front; it is called once, right after ``initialize`` was answered, or with the first message that
    needs it.
    """

    version = sidecar.__version__

    def __init__(self, tasks: TaskGroup, max_message_bytes: int, make: "Callable[[], EditorFront]") -> None:
        self.max_message_bytes = max_message_bytes
        self.operations: Mapping[str, RequestHook] = {name: self._operation(name) for name in OPERATIONS}
        self.features: Sequence[Feature] = [Feature(name, self._feature(name), options) for name, options in FEATURES.items()]
        self.notifications: Mapping[str, NotificationHook] = {name: self._notification(name) for name in NOTIFICATIONS}
        self._tasks = tasks
        self._make = make
        self._front: EditorFront | None = None
        self._initialize: tuple[EditorClient, dict[str, Any]] | None = None

    def initialize(self, editor: "EditorClient", params: dict[str, Any]) -> Mapping[str, Any]:
        """Keep what the editor said; the rest follows the reply."""
        self._initialize = (editor, params)
        self._tasks.start_soon(self._load)
        return {}

    def skipped(self, method: str) -> None:
        """Pass on that a notification was too large."""
        self.front().skipped(method)

    def shutdown(self) -> None:
        """Settle what waits; a front that was never needed has nothing."""
        if self._front is not None:
            self._front.shutdown()
        self._initialize = None

    async def aclose(self) -> None:
        """End in bounded time."""
        if self._front is not None:
            await self._front.aclose()

    def front(self) -> "EditorFront":
        """Return the front, building it when it is needed first."""
        if self._front is None:
            gc.disable()  # nothing made while importing is garbage
            front = self._front = self._make()
            gc.freeze()
            gc.enable()
            if self._initialize is not None:
                front.initialize(*self._initialize)
        return self._front

    async def _load(self) -> None:
        await checkpoint()
        if self._initialize is not None:
            self.front()

    def _operation(self, name: str) -> RequestHook:
        async def run(params: dict[str, Any]) -> Any:
            return await self.front().operations[name](params)

        return run

    def _feature(self, method: str) -> RequestHook:
        async def run(params: dict[str, Any]) -> Any:
            found = next(feature for feature in self.front().features if feature.method == method)
            return await found.hook(params)

        return run

    def _notification(self, method: str) -> NotificationHook:
        def tell(params: dict[str, Any]) -> None:
            self.front().notifications[method](params)

        return tell
