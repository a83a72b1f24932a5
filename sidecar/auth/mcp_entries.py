"""MCP servers of the configuration as the entries a session is given (ACP v1, session/new, mcpServers), secrets in place."""

from collections.abc import Iterable, Mapping
from typing import Any

from sidecar.auth.secret_values import SecretResolver
from sidecar.config import McpServerSettings
from sidecar.errors import SidecarError


async def mcp_server_entries(
    servers: Iterable[McpServerSettings], resolver: SecretResolver
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the entries, and a sentence for each server left out because a secret of it cannot be had.

    Entries hold secrets in plain text: for the wire only. ``headers`` and ``env`` are always there, since agents insist on them.
    """
    entries: list[dict[str, Any]] = []
    left_out: list[str] = []
    for server in servers:
        try:
            entries.append(await _entry(server, resolver))
        except SidecarError as error:
            left_out.append(f"the MCP server {server.name} is left out: {error.message}")
    return entries, left_out


async def _entry(server: McpServerSettings, resolver: SecretResolver) -> dict[str, Any]:
    if server.url is not None:
        headers = _pairs(await resolver.resolve_table(server.headers))
        return {"type": server.transport, "name": server.name, "url": server.url, "headers": headers}
    env = _pairs(await resolver.resolve_table(server.env))
    return {"name": server.name, "command": server.command[0], "args": list(server.command[1:]), "env": env}


def _pairs(table: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in table.items()]
