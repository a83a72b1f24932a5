"""Creating, loading, listing and closing sessions of one ACP agent (ACP v1, session setup; Kiro V3 client guide, sessions)."""

from collections.abc import Sequence
from typing import Any, Final

from sidecar.acp import build
from sidecar.acp.kiro_v3 import SessionInputs
from sidecar.agents.acp_announced import KIRO_V3
from sidecar.agents.acp_frames import read_page
from sidecar.agents.acp_link import AcpLink
from sidecar.agents.acp_sessions import Bound
from sidecar.agents.acp_translate import translate_session_reply
from sidecar.errors import AgentFault, Unavailable
from sidecar.rpc.messages import IncomingReply
from sidecar.session.events import JsonObject
from sidecar.session.lenient import object_at, object_or_none
from sidecar.session.ports import SessionOpened, SessionPage, SessionQuery, SessionSink, SessionSpec

NEW_SESSION_TIMEOUT_SECONDS: Final = 120.0
CALL_TIMEOUT_SECONDS: Final = 30.0
CLOSE_TIMEOUT_SECONDS: Final = 5.0


class AcpSessionCalls(AcpLink):
    """The session half of ``AgentConnection``."""

    async def new_session(self, spec: SessionSpec, sink: SessionSink) -> SessionOpened:
        skipped: list[str] = []
        params = build.new_session(**self._session_inputs(spec, skipped), **self._kiro_inputs(spec))
        return await self._open("session/new", params, spec, sink, skipped)

    async def fork_session(
        self, agent_session_id: str, spec: SessionSpec, sink: SessionSink, *, message_id: str | None = None
    ) -> SessionOpened:
        self._need(self.info.capabilities.fork, "session/fork")
        skipped: list[str] = []
        params = build.fork_session(agent_session_id, message_id=message_id, **self._session_inputs(spec, skipped))
        return await self._open("session/fork", params, spec, sink, skipped)

    async def _open(
        self, method: str, params: JsonObject, spec: SessionSpec, sink: SessionSink, skipped: list[str]
    ) -> SessionOpened:
        bound: Bound | None = None

        def on_reply(reply: IncomingReply) -> None:
            nonlocal bound
            self._inbound.flush()
            session_id = object_at(reply.result).get("sessionId")
            if reply.error is None and isinstance(session_id, str):
                bound = self._table.bind(session_id, sink, spec.cwd, load=method == "session/fork")
                bound.take(translate_session_reply(reply.result))
                bound.end_load(ok=True)

        result = await self._peer.request(method, params, timeout=NEW_SESSION_TIMEOUT_SECONDS, on_reply=on_reply)
        if bound is None:
            raise AgentFault(f"{self._profile.name} answered {method} without a session id; start the agent again")
        return self._opened(result["sessionId"], bound, result, spec, skipped)

    def _opened(self, session_id: str, bound: Bound, result: Any, spec: SessionSpec, skipped: Sequence[str]) -> SessionOpened:
        bound.remote = self._announced.is_remote(result, spec)
        meta = object_or_none(object_at(result).get("_meta"))
        return SessionOpened(session_id, bound.remote, tuple(skipped), meta)

    async def load_session(
        self, agent_session_id: str, spec: SessionSpec, sink: SessionSink, *, replay: bool = True
    ) -> SessionOpened:
        caps = self.info.capabilities
        if not caps.load and not caps.resume:
            raise Unavailable(f"{self._profile.name} cannot load sessions (it does not announce loadSession)")
        quiet = not replay and self._announced.info.generation == KIRO_V3 and spec.source != "remote"
        method = "session/load" if caps.load else "session/resume"
        skipped: list[str] = []
        inputs = self._session_inputs(spec, skipped)
        sources = caps.values.get("sessionSources") or ()
        source = spec.source if spec.source in sources else None
        params = build.load_session(agent_session_id, no_replay=quiet, session_source=source, **inputs)
        bound = self._table.bind(agent_session_id, sink, spec.cwd, load=not quiet)

        def on_reply(reply: IncomingReply) -> None:
            self._inbound.flush()
            if reply.error is None:
                bound.take(translate_session_reply(reply.result))
            bound.end_load(ok=reply.error is None)

        try:
            result = await self._peer.request(method, params, timeout=self._options.load_timeout_seconds, on_reply=on_reply)
        except BaseException:
            bound.end_load(ok=False)
            self._table.forget(agent_session_id)
            raise
        return self._opened(agent_session_id, bound, result, spec, skipped)

    async def list_sessions(self, query: SessionQuery) -> SessionPage:
        self._need(self.info.capabilities.list, "session/list")
        values = self._announced.info.capabilities.values
        scope = query.scope if query.scope in (values.get("sessionListScopes") or ()) else None
        source = query.source if query.source in (values.get("sessionSources") or ()) else None
        paths = self._profile.paths
        cwd = None if query.cwd is None else paths.to_agent(query.cwd)
        params = build.list_sessions(cwd, query.cursor, scope=scope, source=source)
        result = await self._peer.request("session/list", params, timeout=CALL_TIMEOUT_SECONDS)
        return read_page(result, paths.to_ours)

    async def close_session(self, agent_session_id: str) -> None:
        if self.info.capabilities.close and self._peer.closed is None:
            params = build.close_session(agent_session_id)
            try:
                await self._peer.request("session/close", params, timeout=CLOSE_TIMEOUT_SECONDS)
            finally:
                self._table.forget(agent_session_id)
        self._table.forget(agent_session_id)

    async def delete_session(self, agent_session_id: str) -> None:
        self._need(self.info.capabilities.delete, "session/delete")
        await self._peer.request("session/delete", build.delete_session(agent_session_id), timeout=CALL_TIMEOUT_SECONDS)
        self._table.forget(agent_session_id)

    def forget_session(self, agent_session_id: str) -> None:
        self._table.forget(agent_session_id)

    def _session_inputs(self, spec: SessionSpec, skipped: list[str]) -> dict[str, Any]:
        caps = self.info.capabilities
        directories: Sequence[str] | None = tuple(spec.additional_directories)
        if not self._profile.always_additional_directories and not caps.additional_directories:
            if directories:
                skipped.append(
                    f"{self._profile.name} takes no additional directories; these were left out: {', '.join(directories)}"
                )
            directories = None
        servers: list[JsonObject] = []
        for server in spec.mcp_servers:
            kind = server.get("type")
            if (kind == "http" and not caps.mcp_http) or (kind == "sse" and not caps.mcp_sse):
                skipped.append(f"{self._profile.name} takes no MCP servers over {kind}; {server.get('name')} was left out")
            else:
                servers.append(server)
        to_agent = self._profile.paths.to_agent
        if directories is not None:
            directories = [to_agent(directory) for directory in directories]
        return {"cwd": to_agent(spec.cwd), "mcp_servers": servers, "additional_directories": directories}

    def _kiro_inputs(self, spec: SessionSpec) -> SessionInputs:
        if self._announced.info.generation != KIRO_V3:
            return {}
        values = self._announced.info.capabilities.values
        target, source = spec.execution_target, spec.source
        if target is not None and target not in (values.get("executionTargets") or ()):
            raise Unavailable(f"{self._profile.name} does not announce the execution target {target!r}")
        if source is not None and source not in (values.get("sessionSources") or ()):
            raise Unavailable(f"{self._profile.name} does not announce the session source {source!r}")
        return {
            "mode_id": spec.mode,
            "model_id": spec.model,
            "effort_level": spec.effort,
            "execution_target": target,
            "session_source": source,
        }
