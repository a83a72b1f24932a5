"""What the demo agent says about itself: capabilities, modes, options, commands and tools."""

from typing import Final

from sidecar import __version__
from sidecar.demo.wire import Json, kiro

MODES: Final = (
    ("vibe", "Vibe", "Acts on plain words"),
    ("plan", "Plan", "Begins each answer with a plan"),
    ("spec", "Spec", "Begins each answer with a thought"),
)
MODELS: Final = (
    ("demo-fast", "Demo Fast", "No model at all, and quick about it"),
    ("demo-deep", "Demo Deep", "No model at all, with effort levels"),
)
EFFORTS: Final = ("low", "medium", "high")
EFFORT_MODEL: Final = "demo-deep"

EXTENSION_METHODS: Final = (
    "_kiro/mcp/resetServer",
    "_session/steer",
    "_session/steer/clear",
    "_kiro/session/context",
    "_kiro/session/compact",
    "_kiro/session/export",
    "_kiro/session/history",
    "_kiro/session/rename",
    "_kiro/permissions/list",
    "_kiro/account/getUsage",
)

COMMANDS: Final = (
    ("help", "List the words that the demo understands", None),
    ("tour", "Plan, edit, run a line and try a server, one after the other", None),
    ("edit", "Edit sidecar-demo.txt", "text of the new line"),
    ("run", "Run a harmless shell line", "echo hello"),
    ("plan", "Show a plan and work it off", None),
)

TOOLS: Final = (
    ("builtin", "run_command", "Runs one of a few harmless commands"),
    ("builtin", "fs_write", "Edits sidecar-demo.txt"),
)


def initialize_result() -> Json:
    """Return the result of ``initialize`` (ACP v1; Kiro V3 client guide, capabilities)."""
    return {
        "protocolVersion": 1,
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": True},
            "sessionCapabilities": {
                "list": {},
                "close": {},
                "delete": {},
                "additionalDirectories": {},
                "fork": {"_meta": kiro(messageId=True)},
            },
            "_meta": kiro(
                sessionList=True,
                policyNotifications=True,
                extensionMethods=list(EXTENSION_METHODS),
                sessionSources=["local"],
                sessionListScopes=["workspace", "user"],
                executionTargets=["local"],
                sourceProviders=False,
                replayMarking=True,
            ),
        },
        "agentInfo": {"name": "sidecar-demo", "title": "Demo agent", "version": __version__},
        "authMethods": [],
    }


def modes(current: str) -> Json:
    """Return the ``modes`` of a session reply."""
    available = [{"id": mode, "name": name, "description": about} for mode, name, about in MODES]
    return {"currentModeId": current, "availableModes": available}


def available_commands() -> list[Json]:
    """Return the commands; each is invoked as prompt text (``/edit …``)."""
    return [
        {"name": name, "description": about, **({"input": {"hint": hint}} if hint else {}), "_meta": kiro(type="skill")}
        for name, about, hint in COMMANDS
    ]


def select(option_id: str, name: str, current: str, values: list[Json]) -> Json:
    return {"id": option_id, "name": name, "type": "select", "currentValue": current, "options": values}


def model_values() -> list[Json]:
    """Return the model values as the registry of Kiro V3 shows them."""
    values: list[Json] = []
    for value, name, about in MODELS:
        details: Json = {"rateMultiplier": 0, "rateUnit": "credit", "hasEffort": value == EFFORT_MODEL}
        if value == EFFORT_MODEL:
            details |= {"effortLevels": list(EFFORTS), "defaultEffortLevel": "medium"}
        values.append({"value": value, "name": name, "description": about, "_meta": {"kiro": details}})
    return values


def tool_tags(servers: list[Json]) -> list[Json]:
    """Return the ``tags`` of ``_kiro/tools/didChange``: own tools, and those of connected MCP servers."""
    tags = [{"source": source, "tag": name, "description": about} for source, name, about in TOOLS]
    for server in servers:
        tags += [
            {"source": "mcp", "tag": f"@{server['name']}/{tool['name']}", "description": tool["description"]}
            for tool in server.get("tools", [])
        ]
    return tags
