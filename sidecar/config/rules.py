"""What must go together once all layers are merged: flags a generation of Kiro does not take, servers without an address."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from sidecar.config.layers import Layer
from sidecar.config.shapes import JsonObject, suggest
from sidecar.secret import SecretText, looks_secret

# Flags `kiro-cli acp` lists in its help but refuses with --agent-engine=v3 (Kiro V3 client guide, launching), and what to use.
V2_ONLY_FLAGS: Final[Mapping[str, str]] = {
    "--agent": 'set mode = "{value}" for this agent instead',
    "--model": 'set model = "{value}" for this agent instead',
    "--effort": 'set effort = "{value}" for this agent instead',
    "--trust-all-tools": "remove it; what the agent may do is asked from you, with an answer that can be kept",
    "--trust-tools": "remove it; what the agent may do is asked from you, with an answer that can be kept",
}


class Rules:
    """Looks at merged settings; drops what cannot be used and tells why in ``problems``, ``warnings`` and ``refused``."""

    def __init__(self, layers: Sequence[Layer], waiting: Sequence[str] = ()) -> None:
        """Take the layers, lowest first (to name the source of a fault), and the keys that wait for trust."""
        self._layers = layers
        self._waiting = frozenset(waiting)
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self.refused: dict[str, str] = {}

    def apply(self, merged: JsonObject) -> JsonObject:
        """Return ``merged`` without the entries that cannot be used."""
        kept = dict(merged)
        kept["agents"] = self._agents(merged.get("agents", {}))
        kept["mcp_servers"] = self._entries(merged, "mcp_servers", _mcp_server_fault)
        for section in ("connections", "forwarders"):
            kept[section] = self._entries(merged, section, _address_fault)
        kept["prompts"] = self._entries(merged, "prompts", _prompt_fault)
        for section in ("mcp_servers", "forwarders"):
            self._warn_of_plain_headers(section, kept[section])
        self._default_agent(kept)
        return kept

    def _agents(self, agents: JsonObject) -> JsonObject:
        kept: JsonObject = {}
        for name, agent in agents.items():
            fault = self._agent_fault(name, agent)
            if fault is None:
                kept[name] = agent
                continue
            key, sentence = fault
            told = f"{self._source(('agents', name, key))}: agents.{name}.{key} {sentence}"
            self.refused[name] = self._told_already(("agents", name)) or told
            if self._told_already(("agents", name)):
                continue
            if f"agents.{name}.{key}" in self._waiting:
                self.refused[name] = f"{told} (the one given by a workspace waits for your trust)"
            else:
                self.problems.append(told)
        return kept

    def _agent_fault(self, name: str, agent: JsonObject) -> tuple[str, str] | None:
        protocol = agent.get("protocol", "acp")
        command = agent.get("command", [])
        if protocol == "ahp":
            return None if agent.get("connection") else ("connection", 'is missing: an agent with protocol = "ahp" needs one')
        if not command:
            return "command", f'is missing: write the program and its arguments, like command = ["{name}", "--acp"]'
        if agent.get("auth") == "client" and not agent.get("token_command"):
            return "token_command", 'is missing: auth = "client" needs a program that prints the token'
        if protocol == "kiro-v3":
            flag = _v2_flag(command)
            if flag is not None:
                return "command", flag
        return None

    def _entries(self, merged: JsonObject, section: str, fault_of: Any) -> JsonObject:
        kept: JsonObject = {}
        for name, entry in merged.get(section, {}).items():
            fault = fault_of(entry)
            if fault is None:
                kept[name] = entry
            elif not self._told_already((section, name)):
                self.problems.append(f"{self._source((section, name))}: {section}.{name} {fault}")
        return kept

    def _warn_of_plain_headers(self, section: str, entries: JsonObject) -> None:
        for name, entry in entries.items():
            for header, value in entry.get("headers", {}).items():
                if isinstance(value, SecretText) and looks_secret(header):
                    self.warnings.append(
                        f"{self._source((section, name, 'headers'))}: {section}.{name}.headers.{header} stands in plain text; "
                        'keep it elsewhere and write { secret = "name" }, { env = "NAME" } or { command = [...] }'
                    )

    def _default_agent(self, kept: JsonObject) -> None:
        wanted = kept.get("agent")
        if wanted is not None and wanted not in kept["agents"] and wanted not in self.refused:
            known = ", ".join(sorted(kept["agents"]))
            self.problems.append(f"{self._source(('agent',))}: agent must be one of {known}.{suggest(wanted, kept['agents'])}")

    def _told_already(self, path: tuple[str, ...]) -> str | None:
        """Return the problem already told of a value in ``path``, whose absence is all that is wrong now."""
        prefix = ".".join(path)
        for layer in self._layers:
            for key, problem in zip(layer.faulty, layer.problems, strict=False):
                if key == prefix or key.startswith(f"{prefix}."):
                    return problem
        return None

    def _source(self, path: tuple[str, ...]) -> str:
        """Return the topmost layer that has the longest known part of ``path``."""
        for length in range(len(path), 0, -1):
            for layer in reversed(self._layers):
                if _has(layer.raw, path[:length]):
                    return layer.source
        return "settings"


def _has(table: Any, path: Sequence[str]) -> bool:
    here: Any = table
    for key in path:
        if not isinstance(here, dict) or key not in here:
            return False
        here = cast("JsonObject", here)[key]
    return True


def _mcp_server_fault(entry: JsonObject) -> str | None:
    if ("url" in entry) == ("command" in entry):
        return "must have exactly one of url (a server over HTTP) and command (a server on stdio)"
    if "command" in entry and "headers" in entry:
        return "has headers, which only a server with a url takes; use env for one with a command"
    if "url" in entry and "env" in entry:
        return "has env, which only a server with a command takes; use headers for one with a url"
    return None


def _address_fault(entry: JsonObject) -> str | None:
    return None if entry.get("url") else "has no url"


def _prompt_fault(entry: JsonObject) -> str | None:
    return None if entry.get("text") else "has no text"


def _v2_flag(command: Sequence[str]) -> str | None:
    """Return the sentence that refuses the first V2-only flag after the Kiro program; a wrapper may take what it likes."""
    programs = [index for index, word in enumerate(command) if re.split(r"[/\\]", word)[-1].startswith("kiro-cli")]
    words = list(command)[(programs[-1] if programs else 0) + 1 :]
    for index, word in enumerate(words):
        flag, has_value, value = word.partition("=")
        instead = V2_ONLY_FLAGS.get(flag)
        if instead is None:
            continue
        following = words[index + 1] if index + 1 < len(words) and not words[index + 1].startswith("-") else "…"
        shown = (value if has_value else following).replace('"', "'")
        return f"holds {flag}, which Kiro CLI V3 does not take in ACP mode: {instead.format(value=shown)}"
    return None
