"""Kiro CLI V3 as a scripted agent: the frames of real traces in their order (Kiro V3 client guide and captures, frame orders).

In memory: ``kiro_v3(load="never", …)``. As a process: ``python -m tests.peers.kiro_v3 acp --agent-engine=v3 --auth-method=cli``
with the options as JSON in ``SIDECAR_PEER_OPTIONS``; it refuses the arguments the real one refuses. The first word of a prompt
chooses the turn (``TURNS``).
"""

import json
import os
import sys
from collections.abc import Generator
from functools import partial
from typing import Any, NamedTuple

from tests.peers.kiro_private import USAGE, clear_steers, history, reset_server, steer
from tests.peers.kiro_turns import play_turn
from tests.peers.scripted import Handler, Message, Script, ScriptedAgent, Signal, Wait, member, serve_process

CAPTURED_METHODS = (
    "_kiro/knowledge",
    "_kiro/codeIntelligence",
    "_kiro/session/context",
    "_kiro/session/compact",
    "_kiro/session/export",
    "_kiro/session/history",
    "_kiro/config/template",
    "_kiro/workflow/new",
)
"""What the captured versions announced: neither ``_kiro/mcp/resetServer`` nor ``_session/steer``, although both work."""

KNOWN_METHODS = ("_kiro/mcp/resetServer", "_session/steer", "_session/steer/clear", "_kiro/account/getUsage")
V2_FLAGS = ("--agent", "--model", "--effort", "--trust-all-tools", "--trust-tools")
STALE_URL = "https://stale.example/authorize?state=old"


class KiroOptions(NamedTuple):
    """How this Kiro behaves. The defaults are a local V3 as captured, signed in, with everything working."""

    announced: tuple[str, ...] = CAPTURED_METHODS
    works: tuple[str, ...] = (*CAPTURED_METHODS, *KNOWN_METHODS)
    """Methods that are answered, announced or not."""
    unknown_is_persistence_error: bool = True
    """Unknown private methods: the agent's own assertion (-32603) as in the field, else -32601."""
    token_before_initialize: bool = False
    """Ask ``_kiro/auth/getAccessToken`` before the reply to ``initialize``."""
    model: str = "after"
    """When the ``model`` option appears: in the ``reply`` of session/new, ``after`` it, at the ``signal`` "model", ``never``."""
    frames_before_reply: bool = True
    replay: str = "marked"
    """``marked``, ``unmarked`` or ``none``."""
    remote: bool = False
    """Sessions are remote: another source, no marks on the replay."""
    load: str = "ok"
    """``ok``, ``never`` (no reply), ``error`` (not found), ``creates`` (unknown ids too), ``held`` (until the signal "load").

    With ``ok`` an id that contains "unknown" is not found, any other is taken as stored.
    """
    steer: str = "queued"
    """``queued`` or ``dropped``."""
    sign_in: str = "failed"
    """The MCP server ``docs``: ``failed`` (wants a sign-in) or ``connected``."""
    rounds: int = 3
    """Questions of the turn ``rounds``."""
    turn: str = "answer"
    """The turn of prompts whose first word names none."""
    workspace_root: str = ""
    """``workspaceRoot`` of consent objects; empty: the session's own folder."""
    url: str = "https://as.example/authorize?state=fresh"
    """The URL of the sign-in."""


class KiroV3(ScriptedAgent):
    """The scripted agent with the state of its connection; ``refused`` holds the requests it did not know."""

    def __init__(self, options: KiroOptions | None = None) -> None:
        super().__init__(fallback=self._refuse)
        self.options = options or KiroOptions()
        self.refused: list[Message] = []
        self.client: Message = {}
        self.folders: dict[str, str] = {}
        self.running: dict[str, Message] = {}
        self.cancelled: set[str] = set()
        self.steers: dict[str, list[tuple[str, str]]] = {}
        self.values: dict[str, dict[str, str]] = {}
        self.models_known = self.options.model == "reply"
        self.signed_in = self.options.sign_in == "connected"
        self.token_reply: Message | None = None
        self._count = 0
        self.handlers = {
            "initialize": self._initialize,
            "authenticate": lambda request: self.reply(request, {}),
            "session/new": self._open,
            "session/load": self._open,
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._close,
            "session/fork": self._fork,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
            "session/prompt": self._prompt,
            "session/cancel": self._cancel,
            "$/cancel_request": lambda _: None,
        }
        private: dict[str, Handler] = {
            "_session/steer": partial(steer, self),
            "_session/steer/clear": partial(clear_steers, self),
            "_kiro/mcp/resetServer": partial(reset_server, self),
            "_kiro/account/getUsage": lambda request: self.reply(request, USAGE),
            "_kiro/session/compact": lambda request: self.reply(request, {"success": True}),
            "_kiro/session/export": lambda request: self.reply(request, {"success": True, "filePath": "/tmp/export.zip"}),
            "_kiro/session/history": partial(history, self),
            "_kiro/session/context": lambda request: self.reply(request, {"success": True, "files": []}),
        }
        self.handlers |= {method: handler for method, handler in private.items() if method in self.options.works}

    def new_id(self, prefix: str) -> str:
        """Return an id that is new on this connection."""
        self._count += 1
        return f"{prefix}_{self._count:08d}"

    def info(self, session_id: str, kind: str, /, **fields: Any) -> None:
        """Send a private event; they travel in ``session_info_update``."""
        self.update(session_id, "session_info_update", _meta={"kiro": {"kind": kind, **fields}})

    def declared(self, *path: str) -> bool:
        """Return whether the client declared the capability at ``path`` of ``clientCapabilities``."""
        return member(self.client, "clientCapabilities", *path) is True

    def config_options(self, session_id: str) -> list[Message]:
        """Return the complete list of options; ``model`` only once it is known."""
        values = self.values.get(session_id, {})
        options = [_option("mode", values.get("mode", "vibe"), ("vibe", "spec", "plan"), category="mode")]
        options.append(_option("autopilot", values.get("autopilot", "on"), ("on", "off")))
        if self.models_known:
            options.append(_option("model", values.get("model", "auto"), ("auto", "claude-sonnet"), category="model"))
            if values.get("model") == "claude-sonnet":
                effort = values.get("effortLevel", "medium")
                options.append(_option("effortLevel", effort, ("low", "medium", "high"), category="thought_level"))
        return options

    def send_servers(self, session_id: str) -> None:
        """Send the full snapshot of MCP servers."""
        docs: Message = {"name": "docs", "status": "connected" if self.signed_in else "failed", "authType": "oauth"}
        if not self.signed_in:
            docs |= {"failedAuthorization": True, "authorizationUrl": STALE_URL, "errorMessage": "401 Unauthorized"}
        servers = [docs, {"name": "off", "status": "disabled"}]
        self.notify("_kiro/mcp/status", {"sessionId": session_id, "servers": servers})

    def end_turn(self, request: Message, stop: str) -> None:
        """End a prompt in the order of the traces: its reply is not the last frame."""
        session_id = request["params"]["sessionId"]
        summary = {"promptTurnSummaries": [], "elapsedTime": 1200, "status": "success", "requestIds": ["r-1"]}
        self.info(session_id, "turn_completion", **summary)
        self.notify("_kiro/sessions/changed", {"upserted": [{"sessionId": session_id, "status": "idle"}], "deleted": []})
        self.info(session_id, "turn_end", stopReason=stop)
        self.running.pop(session_id, None)
        self.cancelled.discard(session_id)
        self.reply(request, {"stopReason": stop})
        self.info(session_id, "context_usage", usagePercentage=1.5, breakdown={})

    def _initialize(self, request: Message) -> Script:
        self.client = request["params"]
        if self.options.token_before_initialize:
            self.token_reply = yield self.ask("_kiro/auth/getAccessToken", {})
        own: Message = {
            "checkpoints": True,
            "sessionList": True,
            "policyNotifications": True,
            "extensionMethods": list(self.options.announced),
            "sessionSources": ["local", "remote"] if self.options.remote else ["local"],
            "sessionListScopes": ["workspace"],
            "executionTargets": ["local", "cloud-sandbox"] if self.options.remote else ["local"],
            "sourceProviders": False,
            "replayMarking": True,
            "logging": {"logDir": "/logs", "channels": [{"name": "kiro", "filePath": "/logs/kiro.log"}]},
            "somethingNewer": {"kept": True},
        }
        capabilities: Message = {
            "loadSession": True,
            "promptCapabilities": {"image": True, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": True},
            "sessionCapabilities": {"list": {}, "close": {}, "delete": {}, "fork": {"_meta": {"kiro": {"messageId": True}}}},
            "_meta": {"kiro": own},
        }
        methods = [{"id": "aws-builder-id", "name": "AWS Builder ID"}]
        self.reply(request, {"protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": methods})

    def _open(self, request: Message) -> Script:
        """Answer ``session/new`` and ``session/load``: state goes out for an id the client of a new session does not know yet."""
        loaded = request["method"] == "session/load"
        session_id = request["params"]["sessionId"] if loaded else f"sess_{self.new_id('00000000-0000-0000-0000')}"
        if loaded and not (yield from self._load_gate(request, session_id)):
            return
        own: Message = member(request, "params", "_meta", "kiro") or {}
        self.folders[session_id] = request["params"]["cwd"]
        self.values.setdefault(session_id, {}).update({"mode": own["modeId"]} if "modeId" in own else {})
        if self.declared("terminal") and "shellType" not in own:
            yield self.ask("_kiro/terminal/shell_type", {"sessionId": session_id})
        if self.options.frames_before_reply:
            self._send_state(session_id)
        if loaded and not own.get("noReplay"):
            self._replay(session_id)
        modes = {"currentModeId": "vibe", "availableModes": [{"id": "vibe", "name": "Vibe"}, {"id": "spec", "name": "Spec"}]}
        meta = {"schemaVersion": 1, "id": session_id, "source": "remote" if self.options.remote else "local"}
        result: Message = {"modes": modes, "configOptions": self.config_options(session_id), "_meta": meta}
        self.reply(request, result if loaded else {"sessionId": session_id, **result})
        commands = [{"name": "review", "description": "Reviews", "_meta": {"kiro": {"type": "skill"}}}]
        self.update(session_id, "available_commands_update", availableCommands=commands)
        self.info(session_id, "context_usage", usagePercentage=0.5, breakdown={})
        if self.options.model in {"after", "signal"} and not self.models_known:
            if self.options.model == "signal":
                yield Signal("model")
            self.models_known = True
            self.update(session_id, "config_option_update", configOptions=self.config_options(session_id))

    def _load_gate(self, request: Message, session_id: str) -> Generator[Wait, Message, bool]:
        """Return whether the load goes on."""
        load = self.options.load
        if load == "error" or (load == "ok" and "unknown" in session_id):
            self.refuse(request, -32000, f"Session '{session_id}' not found")
            return False
        if load in {"never", "held"}:
            yield Signal("load")
        return load != "never"

    def _send_state(self, session_id: str) -> None:
        features = {"mcpEnabled": True, "webToolsEnabled": True}
        self.notify("_kiro/governance/state", {"sessionId": session_id, "isEnterprise": False, "features": features})
        self.send_servers(session_id)
        self.notify("_kiro/powers/items_changed", {"sessionId": session_id, "items": []})
        self.notify("_kiro/steering/documents_changed", {"sessionId": session_id, "documents": [{"content": "x" * 2000}]})
        self.notify("_kiro/progressive_context/items_changed", {"sessionId": session_id, "items": []})
        tags = [{"source": "builtin", "tag": "run_command", "description": "Runs a command"}]
        self.notify("_kiro/tools/didChange", {"sessionId": session_id, "tags": tags})
        self.notify("_kiro/sessions/changed", {"upserted": [{"sessionId": session_id}], "deleted": []})
        self.update(session_id, "config_option_update", configOptions=self.config_options(session_id))

    def _replay(self, session_id: str) -> None:
        """Send a user message, a tool call with its end, and an answer."""
        if self.options.replay == "none":
            return
        marked = self.options.replay == "marked" and not self.options.remote
        meta: Message = {"_meta": {"kiro": {"replay": True, "replayId": "r-1"}}} if marked else {}
        call = {"toolCallId": "run_command_old", "title": "ls", "kind": "execute", "status": "pending"}
        self.update(session_id, "user_message_chunk", content=_text("an older question"), messageId="u-old", **meta)
        self.update(session_id, "tool_call", **call, **meta)
        self.update(session_id, "tool_call_update", toolCallId="run_command_old", status="completed", **meta)
        self.update(session_id, "agent_message_chunk", content=_text("an older answer"), messageId="a-old", **meta)

    def _list(self, request: Message) -> None:
        rows = [{"sessionId": session, "cwd": cwd, "title": "A title"} for session, cwd in self.folders.items()]
        if member(request, "params", "cursor") is None and len(rows) > 1:
            self.reply(request, {"sessions": rows[:1], "nextCursor": "opaque-1"})
        else:
            self.reply(request, {"sessions": rows[1:] or rows})

    def _close(self, request: Message) -> None:
        self.folders.pop(request["params"]["sessionId"], None)
        self.reply(request, {})

    def _fork(self, request: Message) -> None:
        session_id = f"sess_{self.new_id('00000000-0000-0000-0001')}"
        self.folders[session_id] = request["params"]["cwd"]
        self._replay(session_id)
        self.reply(request, {"sessionId": session_id, "configOptions": self.config_options(session_id)})

    def _set_mode(self, request: Message) -> None:
        params = request["params"]
        self.values.setdefault(params["sessionId"], {})["mode"] = params["modeId"]
        self.update(params["sessionId"], "current_mode_update", currentModeId=params["modeId"])
        self.reply(request, {})

    def _set_option(self, request: Message) -> None:
        """The value of ``model`` is not checked, as in the field; a broadcast precedes the authoritative reply."""
        params = request["params"]
        session_id = params["sessionId"]
        self.values.setdefault(session_id, {})[params["configId"]] = params["value"]
        self.update(session_id, "available_commands_update", availableCommands=[])
        self.update(session_id, "config_option_update", configOptions=self.config_options(session_id))
        self.reply(request, {"configOptions": self.config_options(session_id)})

    def _prompt(self, request: Message) -> Script | None:
        """Start the turn that the first word of the prompt names; a second prompt aborts the running one."""
        session_id = request["params"]["sessionId"]
        if session_id not in self.folders:
            self.refuse(request, -32000, f"Session '{session_id}' not found")
            return None
        if session_id in self.running:
            self.failures.append(f"a second prompt came while one was running in {session_id}")
        self.running[session_id] = request
        return play_turn(self, request)

    def _cancel(self, message: Message) -> None:
        """A turn that waits takes the cancellation itself; here come the others."""
        session_id = member(message, "params", "sessionId")
        if session_id not in self.running:
            self.failures.append(f"session/cancel came for {session_id}, which is idle")
        elif session_id in self.cancelled:
            self.failures.append(f"session/cancel came twice for one turn of {session_id}")
        self.cancelled.add(str(session_id))

    def _refuse(self, request: Message) -> None:
        """Refuse what is not known as the real agent does."""
        self.refused.append(request)
        method = request["method"]
        if "id" not in request:
            return
        if method.startswith("_") and self.options.unknown_is_persistence_error:
            details = f'[PersistenceClassification] Ext method "{method}" has no persistence classification'
            self.refuse(request, -32603, "Internal error", {"details": details})
        else:
            self.refuse(request, -32601, f"Method not found: {method}", {"method": method})


def _text(text: str) -> Message:
    return {"type": "text", "text": text}


def _option(option_id: str, current: str, values: tuple[str, ...], category: str | None = None) -> Message:
    options = [{"value": value, "name": value.title()} for value in values]
    shown: Message = {"id": option_id, "name": option_id, "type": "select", "currentValue": current, "options": options}
    return {**shown, "category": category} if category else shown


def kiro_v3(**options: Any) -> KiroV3:
    """Return a scripted Kiro with these members of ``KiroOptions``."""
    return KiroV3(KiroOptions(**options))


def refuse_arguments(arguments: list[str]) -> str | None:
    """Return what the real CLI prints on stderr for arguments that V3 does not take, or None."""
    wrong = [flag for flag in V2_FLAGS if any(argument.split("=")[0] == flag for argument in arguments)]
    if not wrong:
        return None
    listed = ", ".join(wrong)
    return f"error: the following arguments are not supported with --agent-engine=v3: {listed}\nUsage: kiro-cli acp [OPTIONS]\n"


def main(arguments: list[str]) -> int:
    """Play Kiro on stdin and stdout, with its noise on stderr."""
    problem = refuse_arguments(arguments)
    if problem is not None:
        sys.stderr.write(problem)
        return 2
    given = json.loads(os.environ.get("SIDECAR_PEER_OPTIONS", "{}"))
    if "--auth-method=cli" not in arguments:
        sys.stderr.write("Auth: --auth=acp-callback (host-mediated refresh via _kiro/auth/getAccessToken)\n")
        given.setdefault("token_before_initialize", True)
    sys.stderr.write("[INFO] agent server starting\n")
    return serve_process(kiro_v3(**given))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
