"""A machine with a different secret in every slot, and a search for any eight characters of any of them, however encoded."""

import base64
import json
import secrets
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.process.editor_world import REPOSITORY, World

WINDOW = 8
SLOTS = (
    "token", "kept_header", "env_header", "command_header", "literal_header", "mcp_env", "agent_env", "agent_literal",
    "open", "elicitation", "stale", "option_key", "option_env", "option_header",
)  # fmt: skip


def sentinel() -> str:
    """Return a value nobody else has, with characters that encodings change."""
    return f"{secrets.token_hex(12)}/{secrets.token_hex(4)}+{secrets.token_hex(8)}=="


def windows(value: str) -> set[bytes]:
    """Return every eight-character piece of ``value``, of its base64 at each alignment, and of its URL encoding."""
    forms = [value, quote(value, safe="")]
    for shift in range(3):
        encoded = base64.b64encode(b"x" * shift + value.encode()).decode().rstrip("=")
        forms.append(encoded[4 if shift else 0 : -4])
        forms.append(forms[-1].replace("+", "-").replace("/", "_"))
    return {form[at : at + WINDOW].encode() for form in forms for at in range(len(form) - WINDOW + 1)}


class Planted:
    """The secrets by slot, and the world that holds them."""

    def __init__(self, root: Path) -> None:
        self.values = {slot: sentinel() for slot in SLOTS}
        self._windows = {slot: windows(value) for slot, value in self.values.items()}
        leaks = root / "leaks.json"
        self.urls = self._addresses()
        leaks.write_text(json.dumps(self.urls), encoding="utf-8")
        token = {"accessToken": self.values["token"], "expiresAt": "2099-01-01T00:00:00Z"}
        self._file(root / "token.json", json.dumps(token))
        self._file(root / "header.txt", self.values["command_header"])
        self.report = root / "other.json"
        common = {"PYTHONPATH": str(REPOSITORY)}
        options = {"url": self.urls["open"], "token_before_initialize": True}
        kiro = {
            "protocol": "kiro-v3",
            "command": [sys.executable, "-m", "tests.process.leaky_agent"],
            "auth": "client",
            "token_command": ["/bin/cat", str(root / "token.json")],
            "env": {**common, "LEAKS": str(leaks), "SIDECAR_PEER_OPTIONS": json.dumps(options)},
        }
        other = {
            "protocol": "acp",
            "command": [sys.executable, "-m", "tests.peers.plain"],
            "env": {**common, "SIDECAR_PEER_REPORT": str(self.report)},
        }
        self.world = World(root, {"kiro": kiro, "other": other})
        config = self.world.config.read_text(encoding="utf-8")
        held = f'"SERVICE_TOKEN" = {{ env = "OUR_AGENT_SECRET" }}, "API_KEY" = "{self.values["agent_literal"]}"'
        config = config.replace('"LEAKS" = ', f'{held}, "LEAKS" = ')
        config += f"""
[secrets]
store = "file"
[mcp_servers.docs]
url = "https://docs.example/mcp"
headers = {{ Authorization = {{ secret = "docs" }}, X-Env = {{ env = "OUR_HEADER_SECRET" }}, X-Command = {{ command = ["/bin/cat",
 "{root / "header.txt"}"] }}, X-Api-Key = "{self.values["literal_header"]}" }}
[mcp_servers.local]
command = ["/bin/cat"]
env = {{ LOCAL_TOKEN = {{ env = "OUR_MCP_SECRET" }} }}
""".replace(",\n ", ", ")
        self.world.config.write_text(config, encoding="utf-8")
        self.world.config.chmod(0o600)
        self.environment = {
            "OUR_AGENT_SECRET": self.values["agent_env"],
            "OUR_HEADER_SECRET": self.values["env_header"],
            "OUR_MCP_SECRET": self.values["mcp_env"],
        }
        self._holders = {self.world.config, leaks, root / "token.json", root / "header.txt"}

    def _addresses(self) -> dict[str, str]:
        quoted = {slot: quote(self.values[slot], safe="") for slot in SLOTS}
        return {
            "open": f"https://as.example/authorize?state={quoted['open']}&code_challenge={quoted['open']}",
            "elicitation": f"https://as.example/start?state={quoted['elicitation']}",
            "stale": f"https://as.example/old?state={quoted['stale']}",
        }

    @staticmethod
    def _file(path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)

    def options(self) -> dict[str, Any]:
        """Return the ``initializationOptions`` of an editor that has secrets in its settings."""
        return {
            "agent": "kiro",
            "apiKey": self.values["option_key"],
            "agents": {"third": {"protocol": "acp", "command": ["/bin/cat"], "env": {"TOKEN": self.values["option_env"]}}},
            "mcp_servers": {"more": {"url": "https://m.example", "headers": {"Authorization": self.values["option_header"]}}},
        }

    def found_in(self, channel: str, data: bytes, *, but: Iterable[str] = ()) -> list[str]:
        """Return where which secret stands in ``data``, in words; ``but`` names slots that may."""
        spared = set(but)
        hits: list[str] = []
        for slot, pieces in self._windows.items():
            if slot not in spared:
                found = next((at for piece in pieces if (at := data.find(piece)) >= 0), None)
                if found is not None:
                    hits.append(f"{slot} in {channel}: ...{data[max(0, found - 80) : found + 40]!r}")
        return hits

    def found_on_disk(self) -> list[str]:
        """Search every file below the root but those that hold the secrets for the user."""
        hits: list[str] = []
        for path in sorted(self.world.root.rglob("*")):
            kept = path in self._holders or path.is_relative_to(self.world.state / "secrets") or path == self.report
            if path.is_file() and not kept:
                hits += self.found_in(str(path.relative_to(self.world.root)), path.read_bytes())
        return hits

    def found_in_children(self) -> list[str]:
        """Search what the other agent was started with.

        Variables of the user's own environment reach every agent by design, under the names the user gave them.
        """
        told: Mapping[str, Any] = json.loads(self.report.read_text(encoding="utf-8"))
        environment = {name: value for name, value in told["environment"].items() if name not in self.environment}
        return self.found_in("the other agent's process", json.dumps([told["argv"], environment]).encode())
