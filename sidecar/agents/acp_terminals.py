"""The five ``terminal/*`` methods of an ACP agent, handed to the terminal service (ACP v1, terminals)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import anyio.abc

from sidecar.acp import build
from sidecar.agents.acp_requests import AcpRequests, Answering
from sidecar.agents.acp_service import AcpService, Params
from sidecar.agents.acp_sessions import Bound, SessionTable
from sidecar.errors import EditorFault
from sidecar.rpc.messages import IncomingRequest
from sidecar.session.lenient import objects_in
from sidecar.session.ports import SessionSink, TerminalExit, TerminalRequest, TerminalService

SHELL_TYPE: Final = "_kiro/terminal/shell_type"
MAX_LIMIT: Final = 2**63


class AcpTerminals(AcpService):
    """Answers each request once. What this agent made and did not release is released when it is gone (``close``)."""

    def __init__(self, service: TerminalService, table: SessionTable, tasks: anyio.abc.TaskGroup) -> None:
        super().__init__(table, tasks, "commands are not run on this one for it")
        self._service = service
        self._made: dict[str, SessionSink] = {}

    def serve(self, requests: AcpRequests, peer: Answering) -> None:
        """Take the methods from now on, and answer through ``peer``."""
        methods = {
            "terminal/create": self._create,
            "terminal/output": self._output,
            "terminal/wait_for_exit": self._wait,
            "terminal/kill": self._kill,
            "terminal/release": self._release,
        }
        self.attach(requests, peer, methods)
        requests.serve(SHELL_TYPE, lambda request, _: self._tell_shell(request, peer))

    def close(self) -> None:
        """The agent is gone."""
        self.end()
        sinks = {id(sink): sink for sink in self._made.values()}
        for sink in sinks.values():
            self._service.leave(sink, [made for made, owner in self._made.items() if owner is sink])
        self._made.clear()

    async def _create(self, bound: Bound, params: Params) -> Mapping[str, Any]:
        terminal_id = await self._service.create(bound.sink, read_create(params))
        self._made[terminal_id] = bound.sink
        return build.terminal_created(terminal_id)

    async def _output(self, bound: Bound, params: Params) -> Mapping[str, Any]:
        found = self._service.output(bound.sink, _terminal_id(params))
        status = None if found.exit is None else _exit(found.exit)
        return build.terminal_output(found.output, truncated=found.truncated, status=status)

    async def _wait(self, bound: Bound, params: Params) -> Mapping[str, Any]:
        return _exit(await self._service.wait(bound.sink, _terminal_id(params)))

    async def _kill(self, bound: Bound, params: Params) -> Mapping[str, Any]:
        await self._service.kill(bound.sink, _terminal_id(params))
        return build.empty()

    async def _release(self, bound: Bound, params: Params) -> Mapping[str, Any]:
        terminal_id = _terminal_id(params)
        self._made.pop(terminal_id, None)
        await self._service.release(bound.sink, terminal_id)
        return build.empty()

    def _tell_shell(self, request: IncomingRequest, peer: Answering) -> None:
        """Kiro V3 asks for it before it answers ``session/new`` (frame orders, 2), so for a session nobody knows yet."""
        peer.answer(request.id, {"shellType": self._service.shell()})


def _exit(ended: TerminalExit) -> dict[str, Any]:
    return build.exit_status(ended.code, ended.signal)


def _terminal_id(params: Params) -> str:
    terminal_id = params.get("terminalId")
    if not isinstance(terminal_id, str):
        raise EditorFault("terminalId must be a string: the one terminal/create answered")
    return terminal_id


def read_create(params: Params) -> TerminalRequest:
    """Return what ``terminal/create`` asks for; raises ``EditorFault`` naming what is wrong.

    ``cwd`` stays the agent's spelling (a path or file URI).
    """
    command, cwd = params.get("command"), params.get("cwd")
    if not isinstance(command, str) or not command.strip():
        raise EditorFault("command must be a string that is not empty")
    if cwd is not None and not isinstance(cwd, str):
        raise EditorFault("cwd must be a string: an absolute path")
    words: Any = params.get("args")
    if words is not None and not (isinstance(words, list) and all(isinstance(word, str) for word in cast("list[Any]", words))):
        raise EditorFault("args must be a list of strings")
    args = cast("Sequence[str] | None", words)
    env = _environment(params.get("env"))
    if any("\0" in text for text in (command, *(args or ()), *env, *env.values())):
        raise EditorFault("command, args and env must not hold NUL characters")
    return TerminalRequest(command, args, env, cwd or None, _limit(params.get("outputByteLimit")))


def _environment(given: Any) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, list):
        raise EditorFault('env must be a list of {"name", "value"} objects')
    env: dict[str, str] = {}
    for entry in objects_in(cast("object", given)):
        name, value = entry.get("name"), entry.get("value")
        if not isinstance(name, str) or not isinstance(value, str) or not name or "=" in name:
            raise EditorFault("each entry of env needs a name (without =) and a value, both strings")
        env[name] = value
    return env


def _limit(given: Any) -> int | None:
    if given is None:
        return None
    value = int(given) if isinstance(given, float) and given.is_integer() else given
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MAX_LIMIT:
        raise EditorFault("outputByteLimit must be a whole number of bytes from 0")
    return value
