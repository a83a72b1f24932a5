"""Agents that are known without any configuration. A user's ``[agents.NAME]`` goes on top, key by key."""

import sys
from typing import Any

# Programs as they are installed by their own packages; all but Kiro were seen speaking ACP protocol 1 with exactly these words
# (facts on agents, capability table). Kiro's engine and sign-in flags belong to its profile, not to the command.
_COMMANDS: dict[str, list[str]] = {
    "codex": ["codex-acp"],
    "claude": ["claude-agent-acp"],
    "gemini": ["gemini", "--acp"],
    "qwen": ["qwen", "--acp"],
    "opencode": ["opencode", "acp"],
    "fast-agent": ["fast-agent-acp"],
    "vibe": ["vibe-acp"],
    "pi": ["pi-acp"],
    "agentao": ["agentao", "--acp", "--stdio"],
}

DEMO_AGENT = "demo"


def built_in_agents() -> dict[str, dict[str, Any]]:
    """Return the built-in agents as the tables a user could have written."""
    agents: dict[str, dict[str, Any]] = {
        "kiro": {"protocol": "kiro-v3", "command": ["kiro-cli"]},
        "kiro-v2": {"protocol": "kiro-v2", "command": ["kiro-cli"]},
        DEMO_AGENT: {"protocol": "kiro-v3", "command": [sys.executable, "-P", "-m", "sidecar.demo"]},
    }
    agents.update({name: {"protocol": "acp", "command": list(command)} for name, command in _COMMANDS.items()})
    return agents
