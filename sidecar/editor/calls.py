"""Requests of the editor that run as tasks of ours: each with its own cancel scope, each answered exactly once.

An operation has two doors (editor protocol, "One table of operations"): as a request it is answered with its result; as a command
it is answered within ``COMMAND_ANSWER_SECONDS``, and a result that comes later follows as ``sidecar/operation/finished``.
"""

import asyncio
import logging
import math
from typing import Any, Final, Protocol, cast

import anyio
import attrs
from anyio.abc import TaskGroup

from sidecar.editor.client import EditorClient, Progress
from sidecar.editor.ports import RequestHook
from sidecar.errors import REQUEST_CANCELLED, SidecarError, to_rpc_error
from sidecar.rpc.messages import RequestId

COMMAND_ANSWER_SECONDS: Final = 0.9
"""Helix gives a command up after 20 s without a word, other editors freeze a key; the contract promises one second."""

FINISHED: Final = "sidecar/operation/finished"
_CANCELLED: Final[dict[str, Any]] = {"code": REQUEST_CANCELLED, "message": "the editor stopped waiting; what was begun goes on"}
_ENDING: Final[dict[str, Any]] = {"code": REQUEST_CANCELLED, "message": "the sidecar is shutting down"}

_log = logging.getLogger(__name__)


class Replies(Protocol):
    """Sends the one reply of a request; a second one is dropped."""

    def answer(self, request_id: RequestId, result: Any) -> None: ...

    def refuse(self, request_id: RequestId, code: int, message: str, data: Any = None) -> None: ...


@attrs.define(eq=False)
class _Call:
    id: RequestId
    name: str
    hook: RequestHook
    params: dict[str, Any] = attrs.field(repr=False)
    scope: anyio.CancelScope = attrs.field(factory=anyio.CancelScope)
    timer: asyncio.TimerHandle | None = None
    started: bool = False
    over: bool = False
    progress: Progress | None = None


class Calls:
    """The running calls by request id."""

    def __init__(self, replies: Replies, client: EditorClient, tasks: TaskGroup) -> None:
        self._replies = replies
        self._client = client
        self._tasks = tasks
        self._running: dict[RequestId, _Call] = {}
        self._started: set[_Call] = set()

    def begin(self, request_id: RequestId, name: str, hook: RequestHook, params: dict[str, Any]) -> None:
        """Run ``hook``; its result is the reply."""
        self._begin(_Call(request_id, name, hook, params))

    def begin_command(self, request_id: RequestId, name: str, hook: RequestHook, params: dict[str, Any]) -> None:
        """Run ``hook``; the reply is its result when that is there in time, else ``{"state": "started", "operation": name}``."""
        call = _Call(request_id, name, hook, params)
        call.timer = asyncio.get_running_loop().call_later(COMMAND_ANSWER_SECONDS, self._say_started, call)
        self._begin(call)

    def cancel(self, request_id: RequestId) -> None:
        """The editor withdrew a request."""
        call = self._running.get(request_id)
        if call is not None:
            call.scope.cancel()

    def settle(self) -> None:
        """Answer every open call now, as cancelled by the end of the sidecar, and end its task."""
        for call in [*self._running.values(), *self._started]:
            self._replies.refuse(call.id, **_ENDING)
            if call.timer is not None:
                call.timer.cancel()
            call.scope.cancel()

    def _begin(self, call: _Call) -> None:
        self._running[call.id] = call
        self._tasks.start_soon(self._run, call, name=call.name)

    async def _run(self, call: _Call) -> None:
        result: Any = None
        error: dict[str, Any] | None = None
        try:
            with call.scope:
                result = await call.hook(call.params)
            if call.scope.cancelled_caught:
                error = _CANCELLED
        except asyncio.CancelledError:
            if anyio.current_effective_deadline() == -math.inf:
                self._replies.refuse(call.id, **_ENDING)
                raise
            error = _CANCELLED  # of something the hook awaited; let go, it would end the whole group
        except Exception as raised:  # noqa: BLE001  the top of every call: whatever goes wrong is answered
            error = _error_of(call.name, raised)
        finally:
            self._end(call)
        if call.started:
            self._tell_finished(call, result, error)
        elif error is None:
            self._replies.answer(call.id, result)
        else:
            self._replies.refuse(call.id, **error)

    def _end(self, call: _Call) -> None:
        call.over = True
        if call.timer is not None:
            call.timer.cancel()
        self._started.discard(call)
        if self._running.get(call.id) is call:
            del self._running[call.id]

    def _say_started(self, call: _Call) -> None:
        call.started = True
        self._started.add(call)
        del self._running[call.id]  # the id is answered: the editor may use it anew, and can withdraw it no more
        self._replies.answer(call.id, {"state": "started", "operation": call.name})
        if self._client.info.protocol is None:
            self._tasks.start_soon(self._show_progress, call)

    async def _show_progress(self, call: _Call) -> None:
        progress = await self._client.begin_progress(f"sidecar: {call.name}", on_cancel=call.scope.cancel)
        call.progress = progress
        if call.over:
            progress.end()

    def _tell_finished(self, call: _Call, result: Any, error: dict[str, Any] | None) -> None:
        outcome = {"result": result} if error is None else {"error": error}
        self._client.notify(FINISHED, {"operation": call.name, **outcome})
        if call.progress is not None:
            call.progress.end()
        if error is not None and error is not _CANCELLED and self._client.info.protocol is None:
            self._client.show_message("error", f"{call.name}: {error['message']}")


def _error_of(name: str, raised: Exception) -> dict[str, Any]:
    cause = _cause(raised)
    if not isinstance(cause, SidecarError):
        _log.error("%s failed with %s", name, type(cause).__name__, exc_info=cause)
    return to_rpc_error(cause)


def _cause(raised: BaseException) -> BaseException:
    """Return what one task of a group raised, or ``raised`` itself."""
    if not isinstance(raised, BaseExceptionGroup):
        return raised
    group = cast("BaseExceptionGroup[BaseException]", raised)
    return _cause(group.exceptions[0]) if len(group.exceptions) == 1 else group
