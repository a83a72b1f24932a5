"""Requests of an agent that a service of the workspace carries out: each runs as a task and is answered exactly once."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import anyio
import anyio.abc

from sidecar.agents.acp_requests import AcpRequests, Answering
from sidecar.agents.acp_sessions import Bound, SessionTable
from sidecar.errors import INVALID_PARAMS, REQUEST_CANCELLED, SidecarError, to_rpc_error
from sidecar.rpc.messages import IncomingRequest, RequestId

_log = logging.getLogger(__name__)

Params: TypeAlias = Mapping[str, Any]
Carry: TypeAlias = Callable[[Bound, Params], Awaitable[Mapping[str, Any]]]


class AcpService:
    """Runs the requests of some methods. ``what`` names what a session on another machine is not given."""

    def __init__(self, table: SessionTable, tasks: anyio.abc.TaskGroup, what: str) -> None:
        self._table = table
        self._tasks = tasks
        self._what = what
        self._peer: Answering | None = None
        self._running: dict[RequestId, anyio.CancelScope] = {}

    def attach(self, requests: AcpRequests, peer: Answering, methods: Mapping[str, Carry]) -> None:
        """Take the methods from now on, and answer through ``peer``. A request the agent withdraws is ended (-32800)."""
        self._peer = peer
        for method, carry in methods.items():
            requests.serve(method, self._starter(carry))
        requests.tell_withdrawn(self._withdrawn)

    def end(self) -> None:
        """End what runs: nobody is there to be answered."""
        for scope in list(self._running.values()):
            scope.cancel()

    def _withdrawn(self, request_id: RequestId) -> None:
        if (scope := self._running.get(request_id)) is not None:
            scope.cancel()

    def _starter(self, carry: Carry) -> Callable[[IncomingRequest, Params], None]:
        def start(request: IncomingRequest, params: Params) -> None:
            bound = self._table.get(params.get("sessionId"))
            if bound is None:
                self._refuse(request, INVALID_PARAMS, f"there is no session {params.get('sessionId')!r} here")
            elif bound.remote:
                self._refuse(request, INVALID_PARAMS, f"this session runs on another machine; {self._what}")
            else:
                self._running[request.id] = anyio.CancelScope()
                self._tasks.start_soon(self._answer, request, carry, bound, params)

        return start

    async def _answer(self, request: IncomingRequest, carry: Carry, bound: Bound, params: Params) -> None:
        with self._running[request.id] as scope:
            try:
                result = await carry(bound, params)
            except SidecarError as error:
                told = to_rpc_error(error)
                self._refuse(request, told["code"], told["message"], told.get("data"))
            except Exception as error:  # noqa: BLE001  the top of a request: it is answered, and costs nobody else anything
                _log.exception("%s could not be carried out", request.method)
                told = to_rpc_error(error)
                self._refuse(request, told["code"], told["message"])
            else:
                if self._peer is not None:
                    self._peer.answer(request.id, result)
            finally:
                self._running.pop(request.id, None)
        if scope.cancelled_caught:
            self._refuse(request, REQUEST_CANCELLED, "the request was withdrawn")

    def _refuse(self, request: IncomingRequest, code: int, message: str, data: Any = None) -> None:
        if self._peer is not None:
            self._peer.refuse(request.id, code, f"{request.method}: {message}", data)
