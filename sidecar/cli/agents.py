"""``sidecar agents``: the configured agents, and which program each is. Starts none."""

import os
from typing import Any

from sidecar.cli.arguments import AgentsOptions
from sidecar.cli.printing import print_json, print_table
from sidecar.config import AgentSettings, load_configuration
from sidecar.errors import Unavailable


def main(options: AgentsOptions) -> int:
    """Print the agents and return the exit code."""
    settings = load_configuration(options.common.config).settings
    agents: list[dict[str, Any]] = []
    for name, agent in sorted(settings.agents.items()):
        entry: dict[str, Any] = {"name": name, "protocol": agent.protocol, "default": name == settings.agent}
        entry |= {"refused": settings.refused[name]} if name in settings.refused else found_program(agent)
        agents.append(entry)
    if options.output == "json":
        print_json({"agents": agents})
        return 0
    rows = [
        ("*" if entry["default"] else "", entry["name"], entry["protocol"], _where(entry))
        for entry in sorted(agents, key=lambda entry: ("program" not in entry, entry["name"]))
    ]
    print_table(("", "agent", "protocol", "program"), rows)
    return 0


def found_program(agent: AgentSettings) -> dict[str, Any]:
    """Return ``{"program"}``, the absolute path that would be started, or ``{"missing"}``, why there is none."""
    from sidecar.transport.process import resolve_program

    if agent.protocol == "ahp":
        return {"connection": agent.connection}
    if not agent.command:
        return {"missing": "no command is configured"}
    try:
        here = os.getcwd()  # noqa: PTH109 - text for text
        return {"program": resolve_program(agent.command[0], path=os.environ.get("PATH", ""), forbidden=[here])}
    except Unavailable as error:
        return {"missing": error.message}


def _where(entry: dict[str, Any]) -> str:
    if "program" in entry:
        return str(entry["program"])
    return f"refused: {entry['refused']}" if "refused" in entry else "not found" if "missing" in entry else "behind a connection"
