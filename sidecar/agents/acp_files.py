"""``fs/read_text_file`` and ``fs/write_text_file`` of an ACP agent, handed to the files service (ACP v1, file system)."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio
import anyio.abc

from sidecar.agents.acp_requests import AcpRequests, Answering
from sidecar.agents.acp_sessions import Bound, SessionTable
from sidecar.agents.path_map import PathMap
from sidecar.errors import INVALID_PARAMS, REQUEST_CANCELLED, RESOURCE_NOT_FOUND, EditorFault, SidecarError, to_rpc_error
from sidecar.rpc.messages import IncomingRequest, RequestId
from sidecar.session.ports import AgentInfo, FilesService

READ: Final = "fs/read_text_file"
WRITE: Final = "fs/write_text_file"
MISSING_READS_EMPTY: Final = ("gemini",)
"""Agents that look before they write a new file and give up on any error, since their library turns it into text that says
nothing; for them a file that is not there is empty (facts on agents, note 5)."""

_log = logging.getLogger(__name__)


class AcpFiles:
    """Answers each request once. ``tasks`` owns what runs; ``agent`` tells who asks, once that is known."""

    def __init__(
        self,
        service: FilesService,
        table: SessionTable,
        tasks: anyio.abc.TaskGroup,
        paths: PathMap,
        agent: Callable[[], AgentInfo],
    ) -> None:
        self._service = service
        self._table = table
        self._tasks = tasks
        self._paths = paths
        self._agent = agent
        self._peer: Answering | None = None
        self._running: dict[RequestId, anyio.CancelScope] = {}

    def attach(self, requests: AcpRequests, peer: Answering) -> None:
        """Take both methods from now on, and answer through ``peer``."""
        self._peer = peer
        requests.serve(READ, self._read)
        requests.serve(WRITE, self._write)
        requests.tell_withdrawn(self._withdrawn)

    def _withdrawn(self, request_id: RequestId) -> None:
        scope = self._running.get(request_id)
        if scope is not None:
            scope.cancel()

    def _read(self, request: IncomingRequest, params: Mapping[str, Any]) -> None:
        async def run(bound: Bound) -> Mapping[str, Any]:
            line, limit = _count(params, "line"), _count(params, "limit")
            try:
                return {"content": await self._service.read_text(bound.sink, self._path(params), line, limit)}
            except SidecarError as error:
                if error.code == RESOURCE_NOT_FOUND and self._needs_empty():
                    return {"content": ""}
                raise

        self._start(request, params, run)

    def _write(self, request: IncomingRequest, params: Mapping[str, Any]) -> None:
        async def run(bound: Bound) -> Mapping[str, Any]:
            content = params.get("content")
            if not isinstance(content, str):
                raise EditorFault(f"{WRITE}: content must be a string")
            await self._service.write_text(bound.sink, self._path(params), content)
            return {}

        self._start(request, params, run)

    def _path(self, params: Mapping[str, Any]) -> str:
        path = params.get("path")
        if not isinstance(path, str):
            raise EditorFault("path must be a string: an absolute path")
        return self._paths.to_ours(path) if self._paths else path

    def _needs_empty(self) -> bool:
        title = (self._agent().title or "").casefold()
        return title.startswith(MISSING_READS_EMPTY)

    def _start(
        self, request: IncomingRequest, params: Mapping[str, Any], run: Callable[[Bound], Awaitable[Mapping[str, Any]]]
    ) -> None:
        """Run in the order of the requests: a later task begins after an earlier one."""
        bound = self._table.get(params.get("sessionId"))
        if bound is None:
            self._refuse(request.id, INVALID_PARAMS, f"{request.method}: there is no session {params.get('sessionId')!r} here")
        elif bound.remote:
            reason = "this session runs on another machine; the files of this one are not handed to it"
            self._refuse(request.id, INVALID_PARAMS, f"{request.method}: {reason}")
        else:
            self._tasks.start_soon(self._answer, request, bound, run)

    async def _answer(self, request: IncomingRequest, bound: Bound, run: Callable[[Bound], Awaitable[Mapping[str, Any]]]) -> None:
        with anyio.CancelScope() as scope:
            self._running[request.id] = scope
            try:
                result = await run(bound)
            except (SidecarError, OSError) as error:
                refusal = to_rpc_error(error)
                self._refuse(request.id, refusal["code"], refusal["message"], refusal.get("data"))
            except Exception as error:  # noqa: BLE001  the top of a request: it is answered, and costs nobody else anything
                _log.exception("%s could not be carried out", request.method)
                refusal = to_rpc_error(error)
                self._refuse(request.id, refusal["code"], refusal["message"])
            else:
                if self._peer is not None:
                    self._peer.answer(request.id, result)
            finally:
                self._running.pop(request.id, None)
        if scope.cancelled_caught:
            self._refuse(request.id, REQUEST_CANCELLED, f"{request.method} was withdrawn")

    def _refuse(self, request_id: RequestId, code: int, message: str, data: Any = None) -> None:
        if self._peer is not None:
            self._peer.refuse(request_id, code, message, data)


def _count(params: Mapping[str, Any], name: str) -> int | None:
    """Return a whole number from 0, or None when it is absent or null."""
    value = params.get(name)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise EditorFault(f"{READ}: {name} must be a whole number from 0")
    return value
