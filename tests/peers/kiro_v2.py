"""Kiro CLI V2 as a scripted agent: protocol 1 as well, but no ``_meta.kiro``; its private methods begin with ``_kiro.dev/``.

In memory: ``KiroV2()``. As a process: ``python -m tests.peers.kiro_v2 acp``. The words ``shell``, ``retry``, ``oauth``,
``wait`` in a prompt choose what happens; any other text is answered.
"""

import sys
from collections.abc import Generator

from tests.peers.scripted import Call, Message, Script, ScriptedAgent, Wait, member, serve_process

MODELS = {"currentModelId": "auto", "availableModels": [{"modelId": "auto", "name": "Auto"}, {"modelId": "opus", "name": "Opus"}]}
MODES = {
    "currentModeId": "default",
    "availableModes": [{"id": "default", "name": "Default"}, {"id": "planner", "name": "Planner"}],
}
OPTIONS = (
    ("allow_once", "Yes", "allow_once"),
    ("allow_always", "Always", "allow_always"),
    ("reject_once", "No", "reject_once"),
)


class KiroV2(ScriptedAgent):
    """The scripted agent; ``refused`` holds the requests it does not have, such as ``session/list``."""

    def __init__(self) -> None:
        super().__init__(fallback=self._refuse)
        self.refused: list[Message] = []
        self.handlers = {
            "initialize": self._initialize,
            "session/new": self._open,
            "session/load": self._open,
            "session/set_mode": lambda request: self.reply(request, {}),
            "session/set_model": lambda request: self.reply(request, {}),
            "session/prompt": self._prompt,
            "session/cancel": self._cancel,
            "_session/steer": lambda request: self.reply(request, {"queued": True, "messageId": "s-1"}),
            "_kiro.dev/commands/execute": lambda request: self.reply(request, {"success": True, "message": "done"}),
            "_kiro.dev/commands/options": lambda request: self.reply(request, {"options": [], "hasMore": False}),
        }
        self.idle_cancels = 0
        self._running: set[str] = set()

    def _initialize(self, request: Message) -> None:
        capabilities = {"loadSession": True, "promptCapabilities": {"image": True}, "mcpCapabilities": {"http": True}}
        info = {"name": "Kiro CLI Agent", "version": "2.0.0"}
        self.reply(request, {"protocolVersion": 1, "agentCapabilities": capabilities, "agentInfo": info, "authMethods": []})

    def _open(self, request: Message) -> None:
        loaded = request["method"] == "session/load"
        session_id = request["params"]["sessionId"] if loaded else "f0000000-0000-0000-0000-000000000002"
        commands: Message = {"commands": [{"name": "/usage", "description": "Shows usage"}], "prompts": [], "tools": []}
        if loaded:
            self.update(session_id, "agent_message_chunk", content={"type": "text", "text": "an older answer"})
        self.notify("_kiro.dev/commands/available", {"sessionId": session_id, **commands})
        self.reply(request, {**({} if loaded else {"sessionId": session_id}), "modes": MODES, "models": MODELS})
        self.notify("_kiro.dev/mcp/server_initialized", {"sessionId": session_id, "serverName": "docs"})

    def _prompt(self, request: Message) -> Script:
        session_id = request["params"]["sessionId"]
        text = "".join(str(member(block, "text") or "") for block in request["params"]["prompt"])
        self._running.add(session_id)
        stop = "end_turn"
        if "shell" in text:
            stop = yield from self._shell(session_id)
        elif "retry" in text:
            update = {"sessionUpdate": "retry_warning", "attempt": 1, "maxAttempts": 3, "delaySecs": 1, "message": "throttled"}
            self.notify("_kiro.dev/session/update", {"sessionId": session_id, "update": update})
        elif "oauth" in text:
            body = {"sessionId": session_id, "serverName": "docs", "oauthUrl": "https://as.example/v2?state=secret"}
            self.notify("_kiro.dev/mcp/oauth_request", body)
        elif "wait" in text:
            yield Call("session/cancel", session_id)
            stop = "cancelled"
        self.update(session_id, "agent_message_chunk", content={"type": "text", "text": f"You said: {text}"})
        self.notify("_kiro.dev/metadata", {"sessionId": session_id, "contextUsagePercentage": 1.5})
        self._running.discard(session_id)
        self.reply(request, {"stopReason": stop})

    def _shell(self, session_id: str) -> Generator[Wait, Message, str]:
        """Ask once with V2's own trust options, and return the stop reason."""
        call = {"toolCallId": "tooluse_1", "title": "Running: ls", "kind": "execute", "rawInput": {"command": "ls"}}
        self.update(session_id, "tool_call", **call)
        options = [{"optionId": option, "name": name, "kind": kind} for option, name, kind in OPTIONS]
        trust = {"trustOptions": [{"label": "ls *", "display": "ls *", "setting_key": "allowedCommands", "patterns": ["ls *"]}]}
        params = {"sessionId": session_id, "toolCall": call, "options": options, "_meta": trust}
        reply = yield self.ask("session/request_permission", params)
        if member(reply, "result", "outcome", "outcome") != "selected":
            return "cancelled"
        allowed = str(member(reply, "result", "outcome", "optionId")).startswith("allow")
        self.update(session_id, "tool_call_update", toolCallId="tooluse_1", status="completed" if allowed else "failed")
        return "end_turn"

    def _cancel(self, message: Message) -> None:
        if member(message, "params", "sessionId") not in self._running:
            self.idle_cancels += 1

    def _refuse(self, request: Message) -> None:
        self.refused.append(request)
        if "id" in request:
            self.refuse(request, -32601, f"Method not found: {request['method']}")


def main() -> int:
    """Play the agent on stdin and stdout."""
    return serve_process(KiroV2())


if __name__ == "__main__":
    sys.exit(main())
