"""A fresh machine for one test: folders of its own, agents in a configuration file, and editors that start the real sidecar."""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sidecar.editor.ask import ARMED_AFTER_SECONDS
from tests.peers.lsp_client import LspClient
from tests.unit.session.reference_client import ReferenceClient

REPOSITORY = Path(__file__).resolve().parents[2]
START_SECONDS = 20.0
"""For what starts processes, on a machine that is busy with other tests."""

PLUGIN: dict[str, Any] = {"experimental": {"sidecar": {"protocol": 1, "client": "test/1", "changes": True, "questions": True}}}
DIALOGS: dict[str, Any] = {"window": {"showMessage": {"messageActionItem": {"additionalPropertiesSupport": False}}}}
BARE: dict[str, Any] = {}
SHOW_DOCUMENT: dict[str, Any] = {"window": {"showDocument": {"support": True}}}
PERMISSION: dict[str, Any] = {
    "toolCall": {"toolCallId": "c-1", "title": "ls", "kind": "execute", "rawInput": {"command": "ls"}},
    "options": [
        {"optionId": "yes", "name": "Allow once", "kind": "allow_once"},
        {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
        {"optionId": "no", "name": "Reject", "kind": "reject_once"},
    ],
}
NOISE = (
    "sidecar/agent/changed",
    "sidecar/mcp/changed",
    "sidecar/session/changed",
    "sidecar/pending/changed",
    "window/logMessage",
    "$/progress",
)
"""What tests of something else need not look at."""


class Editor(LspClient):
    """An editor that waits after ``initialize`` until the sidecar has loaded what it put off, however busy the machine is."""

    def initialize(self, capabilities: Mapping[str, Any] | None = None, **params: Any) -> dict[str, Any]:
        result = super().initialize(capabilities, **params)
        self.result("sidecar/status", within=2 * START_SECONDS)
        return result


class World:
    """Folders below ``root``; ``agents`` are TOML tables added to the configuration."""

    def __init__(self, root: Path, agents: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self.root = root
        self.workspace = root / "ws"
        self.workspace.mkdir()
        self.state = root / "state"
        self.runtime = root / "run"
        self.runtime.mkdir(mode=0o700)
        self.home = root / "home"
        self.home.mkdir()
        self.report = root / "report.json"
        self.config = root / "config.toml"
        tables = {"commanded": peer("tests.process.commanded_agent", report=self.report), **(agents or {})}
        self.config.write_text("".join(_toml(name, table) for name, table in tables.items()), encoding="utf-8")

    @property
    def uri(self) -> str:
        return self.workspace.as_uri()

    def environment(self, **more: str) -> dict[str, str]:
        """Nothing of the machine's own settings; ``more`` overrides."""
        return {
            "HOME": str(self.home),
            "SIDECAR_CONFIG": str(self.config),
            "SIDECAR_STATE": str(self.state),
            "XDG_RUNTIME_DIR": str(self.runtime),
            "PYTHONPATH": str(REPOSITORY),
            "DISPLAY": "",
            "WAYLAND_DISPLAY": "",
            "BROWSER": "",
            "SSH_CONNECTION": "",
            "SSH_CLIENT": "",
            "SSH_TTY": "",
            **more,
        }

    def start(
        self, *, ignore: Sequence[str] = NOISE, arguments: Sequence[str] = (), env: Mapping[str, str] | None = None
    ) -> LspClient:
        """Start the sidecar; it is not initialized."""
        return Editor(
            [sys.executable, "-m", "sidecar", *arguments],
            env=self.environment(**(env or {})),
            cwd=str(self.root),
            ignore=ignore,
        )

    def options(self, agent: str = "commanded", **more: Any) -> dict[str, Any]:
        """Params of ``initialize`` beside the capabilities."""
        folders = [{"uri": self.uri, "name": "ws"}]
        return {"workspaceFolders": folders, "initializationOptions": {"agent": agent, **more}}

    def reported(self) -> dict[str, Any]:
        """Return what the commanded agent received, once it has ended."""
        deadline = time.monotonic() + START_SECONDS
        while not self.report.exists():
            assert time.monotonic() < deadline, "the agent wrote no report"
            time.sleep(0.01)
        found: dict[str, Any] = json.loads(self.report.read_text(encoding="utf-8"))
        return found


def peer(module: str, *, protocol: str = "acp", report: Path | None = None, **options: Any) -> dict[str, Any]:
    """Return the configuration table of a scripted agent."""
    env = {"PYTHONPATH": str(REPOSITORY), "SIDECAR_PEER_OPTIONS": json.dumps(options)}
    if report is not None:
        env["SIDECAR_PEER_REPORT"] = str(report)
    return {"protocol": protocol, "command": [sys.executable, "-m", module], "env": env}


def _toml(name: str, table: Mapping[str, Any]) -> str:
    lines = [f"[agents.{name}]"]
    for key, value in table.items():
        if isinstance(value, Mapping):
            inner = ", ".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in value.items())  # pyright: ignore[reportUnknownVariableType]
            lines.append(f"{key} = {{ {inner} }}")
        else:
            lines.append(f"{key} = {json.dumps(value)}")
    return "\n".join(lines) + "\n"


class Follower:
    """Applies the frames of one session as a plugin does, and fails on a gap."""

    def __init__(self, client: LspClient, session_id: str) -> None:
        self.client = client
        self.session_id = session_id
        self.frames: list[dict[str, Any]] = []
        self.turn_id = ""
        empty: dict[str, Any] = {"turns": [], "metas": {}, "notices": []}
        self._copy = ReferenceClient(empty)
        self.seq: int | None = None
        self.epoch: str | None = None

    @property
    def view(self) -> dict[str, Any]:
        return self._copy.view

    def take(self, snapshot: Mapping[str, Any]) -> None:
        """Start from the reply of ``session.watch``."""
        self._copy = ReferenceClient(snapshot["snapshot"])
        self.seq, self.epoch = snapshot["seq"], snapshot["epoch"]

    def step(self, within: float = START_SECONDS) -> dict[str, Any]:
        """Apply the next frame of this session."""
        while True:
            frame = self.client.told("sidecar/session/changed", within=within)
            if frame["sessionId"] == self.session_id:
                break
        assert self.seq is None or frame["seq"] == self.seq + 1, f"frame {frame['seq']} follows {self.seq}"
        self.seq, self.epoch = frame["seq"], frame["epoch"]
        self.frames.append(frame)
        self._copy.apply(frame["changes"])
        return frame

    def until(self, ready: Callable[[dict[str, Any]], object], within: float = START_SECONDS) -> dict[str, Any]:
        """Apply frames until ``ready(view)``; return the view."""
        deadline = time.monotonic() + within
        while not ready(self.view):
            self.step(max(0.01, deadline - time.monotonic()))
        return self.view

    def ended(self, turn_id: str = "", within: float = START_SECONDS) -> dict[str, Any]:
        """Wait for the end of a turn, that of ``prompt`` unless another is named, and return it."""
        wanted = turn_id or self.turn_id

        def turn(view: dict[str, Any]) -> dict[str, Any] | None:
            return next((t for t in view["turns"] if t["turnId"] == wanted and t["state"] != "running"), None)

        self.until(turn, within)
        found = turn(self.view)
        assert found is not None
        return found


def text_of(turn: Mapping[str, Any], kind: str = "agent") -> str:
    """Return what the agent said in a turn."""
    return "".join(part["text"] for part in turn["parts"] if part.get("role") == kind or part["kind"] == kind)


def prompt(client: LspClient, text: str, **params: Any) -> Follower:
    """Send a prompt and return who follows its session; ``turn_id`` is remembered there."""
    result = client.result("sidecar/prompt", {"text": text, **params}, within=START_SECONDS)
    follower = Follower(client, result["sessionId"])
    follower.turn_id = result["turnId"]
    return follower


def ask(client: LspClient, params: Mapping[str, Any] = PERMISSION, **more: Any) -> dict[str, Any]:
    """Have the commanded agent ask for permission; return the reply to the prompt."""
    text = f"ask {json.dumps(params)}"
    result: dict[str, Any] = client.result("sidecar/prompt", {"text": text, **more}, within=START_SECONDS)
    return result


def waiting(client: LspClient, count: int = 1) -> list[dict[str, Any]]:
    """Return the questions once there are so many, by ``pending.list``."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        found: list[dict[str, Any]] = client.result("sidecar/pending/list")["pending"]
        if len(found) == count:
            return found
        assert time.monotonic() < deadline, f"{len(found)} questions wait, not {count}"


def until_armed(client: LspClient) -> None:
    """Let the time pass after which an announced question can be answered by a command without an argument."""
    armed_at = time.monotonic() + ARMED_AFTER_SECONDS
    while time.monotonic() < armed_at:
        client.result("sidecar/status")


def turn_of(client: LspClient, turn_id: str, **which: Any) -> dict[str, Any]:
    """Return a turn once it has ended, by ``session.state``."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        turns = client.result("sidecar/session/state", which)["turns"]
        found = next((turn for turn in turns if turn["turnId"] == turn_id), None)
        if found is not None and found["state"] != "running":
            return found
        assert time.monotonic() < deadline, f"the turn did not end: {found}"


def outcome_of(turn: Mapping[str, Any]) -> Any:
    """Return what the commanded agent got as the answer to its request."""
    return json.loads(text_of(turn))
