"""Operations on sessions: new, list, load, state, history, close, delete, fork, and the agent's typed extensions."""

import secrets
from typing import Any

from sidecar.errors import AgentFault, EditorFault, Unavailable
from sidecar.session.export import to_export_json, to_markdown
from sidecar.session.model import SNAPSHOT_TURNS
from sidecar.session.ports import SessionQuery
from sidecar.workspace.actor import SessionActor, SessionIdentity
from sidecar.workspace.operation import Operation, Param, Params
from sidecar.workspace.operations_agents import capabilities_json
from sidecar.workspace.records import listed
from sidecar.workspace.selection import SESSION, WHICH, WORKSPACE, folder_of, the_session
from sidecar.workspace.sessions import Workspace

DIRECTORIES = Param("additionalDirectories", "array", doc="Further folders (absolute paths).")
AGENT = Param("agent", doc="Name of a configured agent; default: the configured one.")


def session_operations(workspace: Workspace) -> list[Operation]:
    """Return the rows of this family."""
    sessions = _Sessions(workspace)
    wishes = (Param("mode"), Param("model"), Param("effort"))
    page = "{sessions: [{sessionId?, agentSessionId, title?, cwd, updatedAt?, agent}], nextCursor?}"
    loaded = '{sessionId, history: "replayed" | "stored" | "none"}'
    return [
        Operation(
            "session.new",
            "Create a session.",
            sessions.new,
            (WORKSPACE, AGENT, *wishes, DIRECTORIES, Param("executionTarget")),
            "{sessionId}",
        ),
        Operation(
            "session.list",
            "Sessions of running agents and stored ones; starts an agent only when it is named.",
            sessions.list,
            (WORKSPACE, AGENT, Param("cursor"), Param("scope"), Param("source")),
            page,
        ),
        Operation(
            "session.load",
            "Load a session by our id, or by the agent's id and the agent's name.",
            sessions.load,
            (SESSION, Param("agentSessionId"), AGENT, WORKSPACE, DIRECTORIES, Param("replay", "boolean")),
            loaded,
        ),
        Operation(
            "session.state",
            "A snapshot.",
            sessions.state,
            (*WHICH, Param("turns", "integer"), Param("before")),
            "{turns, plan, modes, configOptions, commands, tools, usage, mcp, capabilities, ...}",
        ),
        Operation(
            "session.history",
            "Older turns.",
            sessions.history,
            (*WHICH, Param("before"), Param("limit", "integer")),
            "{turns, before?}",
        ),
        *_optional_operations(sessions),
    ]


def _optional_operations(sessions: "_Sessions") -> list[Operation]:
    """Rows that depend on what the agent offers."""
    return [
        Operation("session.close", "End a session here and free it at the agent.", sessions.close, WHICH, "{closed}"),
        Operation("session.delete", "Delete a session at the agent and here.", sessions.delete, WHICH, "{deleted}"),
        Operation("session.fork", "Branch a session.", sessions.fork, (*WHICH, Param("messageId")), "{sessionId}"),
        Operation("session.rename", "Rename a session.", sessions.rename, (Param("title", required=True), *WHICH)),
        Operation("session.compact", "Have the agent compact its context.", sessions.compact, WHICH),
        Operation(
            "session.context",
            "Show or change the files the agent keeps in context.",
            sessions.context,
            (Param("subcommand", choices=("show", "add", "remove", "clear")), Param("path"), Param("force", "boolean"), *WHICH),
        ),
        Operation(
            "session.export",
            "The session as Markdown or JSON, or the agent's own archive.",
            sessions.export,
            (Param("format", choices=("markdown", "json", "agent")), *WHICH),
            "{format, text} | {format, filePath}",
        ),
    ]


class _Sessions:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def new(self, params: Params) -> Any:
        workspace = self._workspace
        actor = await workspace.create(
            params.get("agent"),
            folder_of(workspace, params.get("workspace")),
            mode=params.get("mode"),
            model=params.get("model"),
            effort=params.get("effort"),
            additional_directories=_directories(params),
            execution_target=params.get("executionTarget"),
        )
        try:
            await actor.ensure_open()
        except BaseException:
            workspace.drop(actor)
            raise
        return {"sessionId": actor.identity.session_id}

    async def list(self, params: Params) -> Any:
        workspace = self._workspace
        folder = folder_of(workspace, params["workspace"]) if params.get("workspace") is not None else None
        name = params.get("agent")
        query = SessionQuery(folder, params.get("cursor"), params.get("scope"), params.get("source"))
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for record in await workspace.records.list(name, folder) if workspace.records is not None else ():
            found[record.agent, record.agent_session_id or record.session_id] = listed(record)
        for actor in workspace.actors():
            entry = actor.mapping()
            if name in {None, actor.identity.agent} and folder in {None, entry["cwd"]}:
                key = (actor.identity.agent, actor.identity.agent_session_id or actor.identity.session_id)
                found[key] = {**found.get(key, {}), **{k: v for k, v in entry.items() if v is not None}}
        cursor: str | None = None
        if name is not None:
            await self._start_for_list(name, folder)
        for agent, _, connection in workspace.supervisor.running():
            if (name is not None and agent != name) or not connection.info.capabilities.list:
                continue
            page = await connection.list_sessions(query)
            cursor = page.next_cursor or cursor
            for session in page.sessions:
                key = (agent, session["agentSessionId"])
                found[key] = {**found.get(key, {}), **session, "agent": agent}
        sessions = [*found.values()]
        return {"sessions": sessions, **({"nextCursor": cursor} if cursor is not None else {})}

    async def _start_for_list(self, name: str, folder: str | None) -> None:
        """Start a named agent, unless one that can answer runs already."""
        workspace = self._workspace
        settings = workspace.configuration.settings.agent_named(name)
        running = workspace.supervisor.running()
        if not any(agent == name and folder in {None, where} for agent, where, _ in running):
            await workspace.supervisor.connect(settings, folder or folder_of(workspace, None))

    async def load(self, params: Params) -> Any:
        workspace = self._workspace
        actor = await self._actor_to_load(params)
        before = actor.connection
        replay = params.get("replay") is not False
        if before is not None:
            await self._reload(actor, replay=replay)
        else:
            actor.replay = replay
            try:
                await actor.ensure_open()
            except (AgentFault, Unavailable) as error:
                advice = "Try again, start a new session, or pick another one."
                raise type(error)(f"{error.message} {advice}", data=error.data) from error
        turns = actor.state.conversation.turns
        history = "replayed" if actor.replayed else "stored" if turns else "none"
        if workspace.records is not None:
            workspace.records.save(actor)
        return {"sessionId": actor.identity.session_id, "history": history}

    async def _actor_to_load(self, params: Params) -> SessionActor:
        workspace = self._workspace
        if (session_id := params.get("sessionId")) is not None:
            return await workspace.revive(session_id)
        agent_session_id, agent = params.get("agentSessionId"), params.get("agent")
        if agent_session_id is None or agent is None:
            raise EditorFault("session.load: give sessionId, or agentSessionId together with agent")
        known = await workspace.known_session(agent, agent_session_id)
        if known is not None:
            return known
        settings = workspace.configuration.settings.agent_named(agent)
        folder = folder_of(workspace, params.get("workspace"))
        spec, _ = await workspace.resources.specification(settings, folder, additional_directories=_directories(params))
        if (found := workspace.open_session(settings.name, agent_session_id)) is not None:
            return found  # another load was faster
        identity = SessionIdentity(f"s-{secrets.token_hex(4)}", settings.name, spec, agent_session_id)
        return workspace.adopt(identity)

    async def _reload(self, actor: SessionActor, *, replay: bool) -> None:
        if actor.running_turn_id is not None:
            raise EditorFault("session.load: a turn is running; cancel it or wait for its end")
        await actor.reload(replay=replay)

    async def state(self, params: Params) -> Any:
        actor = the_session(self._workspace, params)
        turns = params.get("turns")
        snapshot = actor.state.to_json(SNAPSHOT_TURNS if turns is None else max(0, turns), params.get("before"))
        return {**snapshot, "sessionId": actor.identity.session_id, **session_extras(actor)}

    async def history(self, params: Params) -> Any:
        actor = the_session(self._workspace, params)
        limit = params.get("limit")
        return actor.state.history(params.get("before"), SNAPSHOT_TURNS if limit is None else max(0, limit))

    async def close(self, params: Params) -> Any:
        await self._workspace.close(the_session(self._workspace, params))
        return {"closed": True}

    async def delete(self, params: Params) -> Any:
        actor = the_session(self._workspace, params)
        connection = await actor.ensure_open()
        if actor.identity.agent_session_id is not None:
            await connection.delete_session(actor.identity.agent_session_id)
        self._workspace.drop(actor, forget=True)
        return {"deleted": True}

    async def fork(self, params: Params) -> Any:
        actor = the_session(self._workspace, params)
        connection = await actor.ensure_open()
        if not connection.info.capabilities.fork:
            raise Unavailable(f"{actor.identity.agent} does not offer session/fork")
        identity = SessionIdentity(f"s-{secrets.token_hex(4)}", actor.identity.agent, actor.identity.spec)
        branch = self._workspace.adopt(identity)
        try:
            opened = await connection.fork_session(
                actor.identity.agent_session_id or "", identity.spec, branch, message_id=params.get("messageId")
            )
        except BaseException:
            self._workspace.drop(branch)
            raise
        branch.opened(connection, opened)
        return {"sessionId": identity.session_id}

    async def _extension(self, params: Params, operation: str, more: dict[str, Any]) -> Any:
        actor = the_session(self._workspace, params)
        connection = await actor.ensure_open()
        return dict(await connection.extension(actor.identity.agent_session_id, operation, more))

    async def rename(self, params: Params) -> Any:
        return await self._extension(params, "rename", {"title": params["title"]})

    async def compact(self, params: Params) -> Any:
        return await self._extension(params, "compact", {})

    async def context(self, params: Params) -> Any:
        more = {key: params[key] for key in ("subcommand", "path", "force") if params.get(key) is not None}
        return await self._extension(params, "context", more)

    async def export(self, params: Params) -> Any:
        wanted = params.get("format") or "markdown"
        actor = the_session(self._workspace, params)
        if wanted == "agent":
            result = await self._extension(params, "export", {})
            return {"format": "agent", **result}
        if wanted == "json":
            return {"format": "json", "value": to_export_json(actor.state)}
        return {"format": "markdown", "text": to_markdown(actor.state)}


def session_extras(actor: SessionActor) -> dict[str, Any]:
    """Return what the snapshot says beside the conversation: who the agent is and what it can do."""
    extras: dict[str, Any] = {"agent": actor.identity.agent, "cwd": actor.identity.spec.cwd, "lastFrameAt": actor.last_frame_at}
    connection = actor.connection
    extras["capabilities"] = capabilities_json(connection.info) if connection is not None else {}
    if actor.identity.agent_session_id is not None:
        extras["agentSessionId"] = actor.identity.agent_session_id
    return extras


def _directories(params: Params) -> tuple[str, ...]:
    given = params.get("additionalDirectories") or ()
    for item in given:
        if not isinstance(item, str):
            raise EditorFault("additionalDirectories must be a list of absolute paths")
    return tuple(given)
