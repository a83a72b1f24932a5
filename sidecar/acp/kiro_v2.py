"""The dialect of Kiro CLI V2: ``_kiro.dev/*`` and the flat keys V3 replaced (Kiro facts, V2 private surface; migration table)."""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias, cast

import attrs

from sidecar.acp.kiro_v3 import ToolIdentity, inner_object
from sidecar.codec import ABSENT, Absent, BadShape, Wire, converter

JsonObject: TypeAlias = Mapping[str, Any]

PREFIX: Final = "_kiro.dev/"


@attrs.frozen
class Metadata(Wire):
    """The params of ``_kiro.dev/metadata``; ``metering_usage`` is ``[{"value", "unit", "unitPlural"}]``."""

    context_usage_percentage: float | Absent | None = ABSENT
    metering_usage: tuple[JsonObject, ...] | Absent | None = ABSENT
    turn_duration_ms: float | Absent | None = ABSENT
    session_id: str | Absent = ABSENT


@attrs.frozen
class CompactionState(Wire):
    """``status`` of ``_kiro.dev/compaction/status``."""

    type: str
    error: str | Absent | None = ABSENT


@attrs.frozen
class CompactionStatus(Wire):
    """The params of ``_kiro.dev/compaction/status``."""

    status: CompactionState
    summary: str | Absent | None = ABSENT
    session_id: str | Absent = ABSENT


@attrs.frozen
class CommandsAvailable(Wire):
    """The params of ``_kiro.dev/commands/available``: commands with no route from here, native tools, MCP servers."""

    commands: tuple[JsonObject, ...] | Absent = ABSENT
    prompts: tuple[JsonObject, ...] | Absent = ABSENT
    tools: tuple[JsonObject, ...] | Absent = ABSENT
    mcp_servers: tuple[JsonObject, ...] | Absent = ABSENT
    session_id: str | Absent = ABSENT


@attrs.frozen
class McpServerEvent(Wire):
    """The params of ``_kiro.dev/mcp/server_init_failure`` and ``oauth_request`` (its ``oauthUrl`` is dropped before reading)."""

    server_name: str
    error: str | Absent | None = ABSENT
    session_id: str | Absent = ABSENT


@attrs.frozen
class AgentSwitched(Wire):
    """The params of ``_kiro.dev/agent/switched``."""

    agent_name: str
    previous_agent_name: str | Absent | None = ABSENT
    session_id: str | Absent = ABSENT


def read_mcp_identity(meta: JsonObject) -> ToolIdentity | None:
    """Return the flat ``mcpToolIdentity`` of ``_meta`` (or of its ``kiro``), or None."""
    for carrier in (meta, inner_object(meta, "kiro")):
        try:
            return converter().structure(carrier.get("mcpToolIdentity"), ToolIdentity)
        except BadShape:
            continue
    return None


def read_mcp_annotations(meta: JsonObject) -> Any:
    """Return the flat ``mcpAnnotations`` of ``_meta`` (or of its ``kiro``) as received, None when there are none."""
    for carrier in (meta, inner_object(meta, "kiro")):
        if (found := carrier.get("mcpAnnotations")) is not None:
            return found
    return None


def trust_options(meta: JsonObject) -> tuple[JsonObject, ...]:
    """Return the offered ``_meta.trustOptions`` of a permission request as received; an answer names one in ``trustOption``."""
    found = meta.get("trustOptions")
    options = cast("list[Any]", found) if isinstance(found, list) else []
    return tuple(cast("JsonObject", option) for option in options if isinstance(option, Mapping))
