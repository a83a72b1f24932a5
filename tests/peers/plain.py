"""A plain ACP agent without anything of Kiro's, in the variations that real ones show.

In memory: ``PlainAgent(PlainOptions(modes=True))``. As a process: ``python -m tests.peers.plain [login]`` with the options
as JSON in ``SIDECAR_PEER_OPTIONS``. The first word of a prompt chooses what happens (``PlainAgent.turns``).
"""

import json
import os
import sys
from typing import Any, NamedTuple

from tests.peers.scripted import Call, Handler, Message, Script, ScriptedAgent, Signal, member, serve_process

MODES: Message = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}
OPTIONS = (
    ("proceed_once", "Allow once", "allow_once"),
    ("proceed_always_server", "Always allow this server", "allow_always"),
    ("proceed_always_tool", "Always allow this tool", "allow_always"),
    ("cancel", "Deny", "reject_once"),
)
FORM: Message = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "minLength": 1},
        "level": {"type": "string", "enum": ["low", "high"]},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "sure": {"type": "boolean", "default": False},
    },
    "required": ["name"],
}
LOGIN_ARGUMENT = "login"


class PlainOptions(NamedTuple):
    """How this agent differs from the simplest one."""

    modes: bool = False
    config_options: bool = False
    grouped_options: bool = False
    string_ids: bool = False
    """Ids of the agent's requests are strings."""
    load: bool = True
    lists: bool = True
    protocol_version: int = 1
    auth: str = "none"
    """``none``; ``agent`` (-32000 until ``authenticate``); ``terminal`` (-32000 until a login run wrote ``login_file``)."""
    login_file: str = ""
    embedded_context: bool = True
    update_before_reply: bool = False
    """Send an update for the new session before the reply that names it."""
    permission_without_call: bool = True
    """The permission request comes before any ``tool_call`` of its id."""
    error_at_initialize: bool = False
    echo_prompt: bool = False
    """Echo the user's prompt as ``user_message_chunk`` in the live turn."""


class PlainAgent(ScriptedAgent):
    """The scripted agent; ``cancelled`` holds the sessions in which a cancellation came while no script waited for it."""

    def __init__(self, options: PlainOptions | None = None) -> None:
        super().__init__(fallback=self._refuse)
        self.options = options or PlainOptions()
        self.client: Message = {}
        self.refused: list[Message] = []
        self.cancelled: list[str] = []
        self.values = {"mode": "ask", "model": "small"}
        self._signed_in = self.options.auth == "none"
        self._sessions = 0
        self._asked = 0
        self.handlers = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/prompt": self._prompt,
            "session/cancel": lambda message: self.cancelled.append(str(member(message, "params", "sessionId"))),
            "$/cancel_request": lambda _: None,
        }
        optional: dict[str, tuple[bool, Handler]] = {
            "session/load": (self.options.load, self._load),
            "session/list": (self.options.lists, self._list),
            "session/set_mode": (self.options.modes, self._set_mode),
            "session/set_config_option": (self.options.config_options, self._set_option),
        }
        self.handlers |= {method: handler for method, (offered, handler) in optional.items() if offered}
        self.turns = {
            "permission": self._ask_permission,
            "form": self._ask_form,
            "url": self._ask_url,
            "wait": self._wait,
            "open": self._leave_open,
            "fail": self._fail,
            "hold": self._hold,
        }

    def new_request_id(self) -> Any:
        """Return the id of the next request, as a string where the options say so."""
        number = super().new_request_id()
        return f"srv_{number:04x}" if self.options.string_ids else number

    def say(self, session_id: str, text: str) -> None:
        """Send a piece of an answer."""
        self.update(session_id, "agent_message_chunk", content={"type": "text", "text": text})

    def _initialize(self, request: Message) -> None:
        self.client = request["params"]
        if self.options.error_at_initialize:
            self.refuse(request, 1001, "cannot start:\nthe configuration file is broken", {"file": "config.toml"})
            return
        capabilities: Message = {
            "loadSession": self.options.load,
            "promptCapabilities": {"embeddedContext": self.options.embedded_context},
            "sessionCapabilities": {"list": {}} if self.options.lists else {},
            "_meta": {"vendor": {"kept": True}},
        }
        info = {"name": "plain-agent", "title": "Plain Agent", "version": "1.2.3"}
        result = {"protocolVersion": self.options.protocol_version, "agentCapabilities": capabilities, "agentInfo": info}
        self.reply(request, {**result, "authMethods": self._auth_methods()})

    def _auth_methods(self) -> list[Message]:
        """Return the methods; a terminal one only for clients that declared it."""
        agent = {"id": "key", "name": "API key", "description": "Signs in by itself"}
        terminal = {"id": "tty", "name": "Log in", "type": "terminal", "args": [LOGIN_ARGUMENT], "env": {"LOGIN_HINT": "demo"}}
        if self.options.auth == "terminal":
            return [terminal] if member(self.client, "clientCapabilities", "auth", "terminal") is True else []
        return [agent] if self.options.auth == "agent" else []

    def _authenticate(self, request: Message) -> None:
        if member(request, "params", "methodId") != "key":
            self.refuse(request, -32602, "this method is not for authenticate")
            return
        self._signed_in = True
        self.reply(request, {})

    def _new(self, request: Message) -> None:
        if not self._signed_in and not (self.options.login_file and os.path.exists(self.options.login_file)):  # noqa: PTH110
            self.refuse(request, -32000, "Authentication required")
            return
        self._sessions += 1
        session_id = str(self._sessions - 1)
        if self.options.update_before_reply:
            self.update(session_id, "usage_update", used=0, size=1000)
        self.reply(request, {"sessionId": session_id, **self._state()})

    def _load(self, request: Message) -> None:
        session_id = request["params"]["sessionId"]
        if session_id == "unknown":
            self.refuse(request, -32002, "Resource not found: session", {"uri": session_id})
            return
        self.update(session_id, "user_message_chunk", content={"type": "text", "text": "an older question"})
        self.say(session_id, "an older answer")
        self.reply(request, self._state())

    def _list(self, request: Message) -> None:
        rows = [{"sessionId": str(number), "cwd": "/"} for number in range(self._sessions)]
        self.reply(request, {"sessions": rows})

    def _state(self) -> Message:
        state: Message = {}
        if self.options.modes:
            state["modes"] = {**MODES, "currentModeId": self.values["mode"]}
        if self.options.config_options:
            state["configOptions"] = self._config_options()
        return state

    def _config_options(self) -> list[Message]:
        mode = _select("mode", self.values["mode"], _values("ask", "code"))
        model = _select("model", self.values["model"], _values("small", "large"))
        if self.options.grouped_options:
            model["options"] = [{"group": "all", "name": "All models", "options": _values("small", "large")}]
        future = {"id": "future", "name": "Future", "type": "slider", "currentValue": 3, "min": 0, "max": 9}
        return [mode, model, future]

    def _set_mode(self, request: Message) -> None:
        mode = request["params"]["modeId"]
        if mode not in {item["id"] for item in MODES["availableModes"]}:
            self.refuse(request, -32602, f"Unknown mode {mode}")
            return
        self.values["mode"] = mode
        self.reply(request, {})
        self.update(request["params"]["sessionId"], "current_mode_update", currentModeId=mode)

    def _set_option(self, request: Message) -> None:
        params = request["params"]
        self.values[params["configId"]] = params["value"]
        self.reply(request, {"configOptions": self._config_options()})

    def _prompt(self, request: Message) -> Script:
        session_id = request["params"]["sessionId"]
        text = "".join(str(member(block, "text") or "") for block in request["params"]["prompt"])
        if self.options.echo_prompt:
            self.update(session_id, "user_message_chunk", content={"type": "text", "text": text})
        turn = self.turns.get(text.split(" ", 1)[0])
        if turn is not None:
            yield from turn(request)
            return
        self.say(session_id, "You said: ")
        self.say(session_id, text)
        self.reply(request, {"stopReason": "end_turn", "usage": {"totalTokens": 3}, "_meta": {"quota": 1}})
        self.update(session_id, "session_info_update", title="A late title")

    def _ask_permission(self, request: Message) -> Script:
        """Two options share a kind, ids differ from kinds, and the tool call comes only with the request."""
        session_id = request["params"]["sessionId"]
        self._asked += 1
        call: Message = {"toolCallId": f"call-{self._asked}", "title": "ls", "kind": "execute", "status": "pending"}
        if not self.options.permission_without_call:
            self.update(session_id, "tool_call", **call)
        options = [{"optionId": option, "name": name, "kind": kind} for option, name, kind in OPTIONS]
        reply = yield self.ask("session/request_permission", {"sessionId": session_id, "toolCall": call, "options": options})
        if member(reply, "result", "outcome", "outcome") == "cancelled" and session_id in self.cancelled:
            self.reply(request, {"stopReason": "cancelled"})
            return
        option = member(reply, "result", "outcome", "optionId")
        self.update(
            session_id, "tool_call_update", toolCallId=call["toolCallId"], status="failed" if option == "cancel" else "completed"
        )
        self.say(session_id, f"Got {option}.")
        self.reply(request, {"stopReason": "end_turn"})

    def _ask_form(self, request: Message) -> Script:
        session_id = request["params"]["sessionId"]
        body: Message = {"sessionId": session_id, "mode": "form", "message": "Who are you?", "requestedSchema": FORM}
        reply = yield self.ask("elicitation/create", body)
        self.say(session_id, f"Got {json.dumps(reply.get('result', reply.get('error')), sort_keys=True)}.")
        self.reply(request, {"stopReason": "end_turn"})

    def _ask_url(self, request: Message) -> Script:
        session_id = request["params"]["sessionId"]
        body = {"sessionId": session_id, "mode": "url", "message": "Please sign in", "elicitationId": "e-1"}
        reply = yield self.ask("elicitation/create", {**body, "url": "https://as.example/start?state=secret"})
        if member(reply, "result", "action") == "accept":
            self.notify("elicitation/complete", {"elicitationId": "e-1"})
        self.notify("elicitation/complete", {"elicitationId": "never-asked"})
        self.say(session_id, f"Got {member(reply, 'result', 'action')}.")
        self.reply(request, {"stopReason": "end_turn"})

    def _wait(self, request: Message) -> Script:
        """Nothing more until the cancellation."""
        session_id = request["params"]["sessionId"]
        self.say(session_id, "waiting")
        yield Call("session/cancel", session_id)
        self.reply(request, {"stopReason": "cancelled"})
        self.update(session_id, "usage_update", used=1, size=1000)

    def _leave_open(self, request: Message) -> Script:
        """End the turn with a tool call that never got a final status."""
        self.update(request["params"]["sessionId"], "tool_call", toolCallId="open-1", title="Left open", status="in_progress")
        self.reply(request, {"stopReason": "end_turn"})
        yield from ()

    def _fail(self, request: Message) -> Script:
        self.refuse(request, -32603, "Internal error", {"details": "429 Too Many Requests"})
        yield from ()

    def _hold(self, request: Message) -> Script:
        """End the turn at the signal "reply"."""
        yield Signal("reply")
        self.reply(request, {"stopReason": "end_turn"})

    def _refuse(self, request: Message) -> None:
        self.refused.append(request)
        if "id" in request:
            self.refuse(request, -32601, "Method not found", {"method": request["method"]})


def _values(*names: str) -> list[Message]:
    return [{"value": name, "name": name.title()} for name in names]


def _select(option_id: str, current: str, values: list[Message]) -> Message:
    return {
        "id": option_id,
        "name": option_id.title(),
        "category": option_id,
        "type": "select",
        "currentValue": current,
        "options": values,
    }


def main(arguments: list[str]) -> int:
    """Play the agent on stdin and stdout, or, with ``login``, the interactive sign-in of terminal authentication."""
    options = PlainOptions(**json.loads(os.environ.get("SIDECAR_PEER_OPTIONS", "{}")))
    if LOGIN_ARGUMENT in arguments:
        with open(options.login_file, "w", encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs start time
            file.write("signed in\n")
        return 0
    return serve_process(PlainAgent(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
