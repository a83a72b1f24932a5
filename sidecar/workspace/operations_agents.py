"""Operations on agents: status, list, restart, account usage, consents, and MCP servers."""

from typing import Any

import attrs

import sidecar
from sidecar.errors import ConfigFault, EditorFault
from sidecar.session.ports import AgentInfo
from sidecar.workspace.operation import Operation, Param, Params
from sidecar.workspace.selection import WHICH, the_session
from sidecar.workspace.sessions import Workspace

CAMEL = {
    "embedded_context": "embeddedContext",
    "additional_directories": "additionalDirectories",
    "mcp_http": "mcpHttp",
    "mcp_sse": "mcpSse",
    "mcp_authenticate": "mcpAuthenticate",
}


def capabilities_json(info: AgentInfo) -> dict[str, Any]:
    """Return an agent's capabilities as the contract names them; announced values stand beside the booleans."""
    flat = attrs.asdict(info.capabilities, recurse=False)
    values = flat.pop("values")
    announced = flat.pop("announced")
    shown: dict[str, Any] = {CAMEL.get(name, name): value for name, value in flat.items()}
    return {**shown, **dict(values), "extensionMethods": list(announced)}


def agent_json(info: AgentInfo, state: str) -> dict[str, Any]:
    """Return one agent of ``status``."""
    shown: dict[str, Any] = {"name": info.name, "state": state, "capabilities": capabilities_json(info)}
    for key in ("title", "version", "generation", "pid"):
        if getattr(info, key) is not None:
            shown[key] = getattr(info, key)
    return shown


def agent_operations(workspace: Workspace) -> list[Operation]:
    """Return the rows of this family."""
    agents = _Agents(workspace)
    server = Param("server", required=True, doc="Name of an MCP server.")
    return [
        Operation("status", "Everything at a glance.", agents.status, (), "{version, agents[], sessions[], pending, trust}"),
        Operation("agent.list", "Configured agents and whether they run.", agents.list, (), "{agents[]}"),
        Operation(
            "agent.restart",
            "End an agent's process; the next need starts it anew and loads its sessions. No prompt is sent again.",
            agents.restart,
            (Param("agent"), *WHICH),
            "{restarted}",
        ),
        Operation(
            "account.usage", "What the account used, where the agent tells.", agents.usage, WHICH, "the agent's own object"
        ),
        Operation("consent.list", "Stored permission rules, where the agent tells.", agents.consents, WHICH, "{rules}"),
        Operation("mcp.status", "MCP servers of a session, as last reported.", agents.mcp_status, WHICH, "{servers: [...]}"),
        Operation(
            "mcp.authenticate", "Start the sign-in of an MCP server.", agents.mcp_authenticate, (server, *WHICH), "{state}"
        ),
    ]


class _Agents:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def status(self, _: Params) -> Any:
        workspace = self._workspace
        return {
            "version": sidecar.__version__,
            "agents": [agent_json(connection.info, "running") for _, _, connection in workspace.supervisor.running()],
            "sessions": [actor.mapping() for actor in workspace.actors()],
            "pending": len(workspace.broker.pending()),
            "trust": {"waiting": [dict(question.item) for question in workspace.configuration.untrusted]},
        }

    async def list(self, _: Params) -> Any:
        settings = self._workspace.configuration.settings
        running = {name: connection.info for name, _, connection in self._workspace.supervisor.running()}
        listed: list[dict[str, Any]] = []
        for name, agent in settings.agents.items():
            entry: dict[str, Any] = {
                "name": name,
                "protocol": agent.protocol,
                "default": name == settings.agent,
                "state": "stopped",
            }
            if name in running:
                entry |= agent_json(running[name], "running")
            if name in settings.refused:
                entry |= {"state": "refused", "message": settings.refused[name]}
            listed.append(entry)
        return {"agents": listed}

    async def restart(self, params: Params) -> Any:
        workspace = self._workspace
        if (name := params.get("agent")) is not None:
            try:
                workspace.configuration.settings.agent_named(name)
            except ConfigFault as fault:
                raise EditorFault(f"agent.restart: {fault.message}") from fault
            return {"restarted": await workspace.restart(name)}
        actor = the_session(workspace, params)
        return {"restarted": await workspace.restart(actor.identity.agent, actor.identity.spec.cwd)}

    async def _extension(self, params: Params, operation: str) -> Any:
        actor = the_session(self._workspace, params)
        connection = await actor.ensure_open()
        return dict(await connection.extension(actor.identity.agent_session_id, operation, {}))

    async def usage(self, params: Params) -> Any:
        return await self._extension(params, "usage")

    async def consents(self, params: Params) -> Any:
        return await self._extension(params, "consents")

    async def mcp_status(self, params: Params) -> Any:
        return {"servers": the_session(self._workspace, params).state.section("mcp")["mcp"]}

    async def mcp_authenticate(self, params: Params) -> Any:
        actor = the_session(self._workspace, params)
        connection = await actor.ensure_open()
        known = actor.state.conversation.mcp
        server = params["server"]
        if known and server not in known:
            raise EditorFault(f"mcp.authenticate: there is no MCP server {server!r} (known: {', '.join(known)})")
        await connection.mcp_authenticate(actor.identity.agent_session_id or "", server)
        return {"state": "started", "note": "the next status snapshot tells whether it is connected; cancelling revokes nothing"}
