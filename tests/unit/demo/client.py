"""A strict client of the demo agent over raw lines: it answers every request and checks every frame against the ACP v1 rules."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.conftest import REPOSITORY
from tests.peers.line_client import LineClient, Message

UPDATE_KINDS = {
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "session_info_update",
    "usage_update",
    "notice",
    "compaction_update",
}
PRIVATE_NOTIFICATIONS = {
    "_kiro/governance/state",
    "_kiro/mcp/status",
    "_kiro/tools/didChange",
    "_kiro/sessions/changed",
    "_kiro/system/notify",
}
FULL: Message = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "elicitation": {"form": {}, "url": {}},
    "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}},
    "_meta": {"kiro": {"openExternalUrl": True}},
}
OPENS_URLS: Message = {"_meta": {"kiro": {"openExternalUrl": True}}}

Answer = Callable[[Message], Message]


class DemoClient(LineClient):
    """One demo process with a folder of its own. ``answers`` gives the result for each method the agent may ask for."""

    def __init__(self, folder: Path, *, pace: float = 0, environment: Mapping[str, str] | None = None) -> None:
        self.workspace = folder / "ws"
        self.workspace.mkdir(exist_ok=True)
        self.answers: dict[str, Answer] = {"session/request_permission": choose("accept")}
        self.asked: list[Message] = []
        self.replied: dict[int, Message] = {}
        settings = {
            "SIDECAR_DEMO_PACE_MS": str(pace),
            "SIDECAR_DEMO_STATE": str(folder / "state"),
            "SIDECAR_DEMO_SIGN_IN_SECONDS": "0",
        }
        super().__init__(
            [sys.executable, "-m", "sidecar.demo"], cwd=REPOSITORY, env={**os.environ, **settings, **(environment or {})}
        )

    def initialize(self, capabilities: Message | None = None) -> Message:
        return self.ask("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities or {}})

    def new_session(self, **more: Any) -> str:
        """Open a session in the workspace and return its id."""
        return str(self.ask("session/new", {"cwd": str(self.workspace), "mcpServers": [], **more})["sessionId"])

    def ask(self, method: str, params: Message) -> Message:
        """Send a request, answer what the agent asks meanwhile, and return the result."""
        return self.finish(self.begin(method, params))

    def refusal(self, method: str, params: Message) -> Message:
        """Send a request that is to fail and return the error."""
        request_id = self.begin(method, params)
        return self.pump(lambda: request_id in self.replied, request_id)["error"]

    def finish(self, request_id: int) -> Message:
        """Answer what the agent asks until the reply to ``request_id`` is there."""
        message = self.pump(lambda: request_id in self.replied, request_id)
        assert "error" not in message, message
        return message["result"]

    def prompt(self, session_id: str, text: str) -> Message:
        """Play one turn to its end."""
        return self.ask("session/prompt", prompt_params(session_id, text))

    def pump(self, done: Callable[[], bool], request_id: int = -1) -> Message:
        """Read and answer until ``done``; return the reply to ``request_id``, if any."""
        while not done():
            message = self.next_message()
            if "method" not in message:
                self.replied[message["id"]] = message
            elif "id" in message:
                self._answer(message)
        return self.replied.get(request_id, {})

    def until(self, wanted: Callable[[Message], bool]) -> Message:
        """Read and answer until a message comes (or came, among those not seen before this call) that ``wanted`` takes."""
        start = len(self.seen)
        self.pump(lambda: any(wanted(message) for message in self.seen[start:]))
        return next(message for message in self.seen[start:] if wanted(message))

    def infos(self, kind: str) -> list[Message]:
        """Return Kiro's private events of one kind."""
        bodies = [update["_meta"]["kiro"] for update in self.updates("session_info_update") if "_meta" in update]
        return [body for body in bodies if body.get("kind") == kind]

    def servers(self) -> dict[str, Message]:
        """Return the last MCP snapshot by name."""
        snapshots = [message for message in self.seen if message.get("method") == "_kiro/mcp/status"]
        return {server["name"]: server for server in snapshots[-1]["params"]["servers"]}

    def notes(self) -> list[str]:
        """Return the notices that the user would see."""
        notes = [message["params"]["message"] for message in self.seen if message.get("method") == "_kiro/system/notify"]
        return notes + [update["title"] for update in self.updates("notice")]

    def tools(self) -> dict[str, Message]:
        """Return every tool call with its updates folded in, by id; an update must follow its call."""
        tools: dict[str, Message] = {}
        for message in self.seen:
            update: Message = message["params"]["update"] if message.get("method") == "session/update" else {}
            if update.get("sessionUpdate") == "tool_call":
                assert update["toolCallId"] not in tools
                tools[update["toolCallId"]] = dict(update)
            elif update.get("sessionUpdate") == "tool_call_update":
                tools[update["toolCallId"]].update(update)
        return tools

    def _answer(self, request: Message) -> None:
        self.asked.append(request)
        answer = self.answers.get(request["method"])
        assert answer is not None, f"the agent asked for {request['method']}, which this client did not declare"
        self.send({"id": request["id"], "result": answer(request)})

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        if exception and exception[0] is None:
            assert self.noise == []
            for message in self.seen:
                check_frame(message)


def prompt_params(session_id: str, text: str) -> Message:
    return {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]}


def choose(option: str, consent: Message | None = None) -> Answer:
    """Return an answer that picks ``option``, which must be offered, with consent metadata where given."""

    def answer(request: Message) -> Message:
        assert option in [item["optionId"] for item in request["params"]["options"]]
        result: Message = {"outcome": {"outcome": "selected", "optionId": option}}
        return {**result, "_meta": {"kiro": {"consent": consent}}} if consent is not None else result

    return answer


def check_frame(message: Message) -> None:
    """Assert the rules of ACP v1 that need no schema: known methods and kinds, ids, non-empty names."""
    assert message["jsonrpc"] == "2.0"
    method = message.get("method")
    if method is None:
        assert ("result" in message) != ("error" in message)
        return
    if "id" in message:
        assert type(message["id"]) is int
        assert isinstance(message["params"], dict)
    elif method == "session/update":
        update = message["params"]["update"]
        assert isinstance(message["params"]["sessionId"], str)
        assert update["sessionUpdate"] in UPDATE_KINDS
        if update["sessionUpdate"].endswith("_chunk"):
            assert update["content"]["type"] in {"text", "image"}
            assert update["content"].get("text") != ""
        if update["sessionUpdate"].startswith("tool_call"):
            assert update["toolCallId"]
            assert update.get("status", "pending") in {"pending", "in_progress", "completed", "failed"}
    else:
        assert method in PRIVATE_NOTIFICATIONS or method == "elicitation/complete", method


def parsed(path: Path) -> Any:
    return json.loads(path.read_bytes())
