"""A plain agent that does what the prompt says, word for word, so that a test can put any frame on the wire at any time.

The prompt is one word and, behind it, JSON: ``ask`` sends a permission request with these params (``sessionId`` is added) and
ends the turn with the outcome as text; ``request`` ``[method, params]`` the same for any request; ``frames`` sends messages as
they are (the text ``$S`` in them is the first session); ``withdraw`` cancels the request that waits; ``wait`` lasts until the
cancellation; ``say`` says the text; ``exit`` ends the process.
"""

import json
import sys
from typing import Any

from tests.peers.scripted import Call, Message, Script, ScriptedAgent, member, serve_process


class CommandedAgent(ScriptedAgent):
    """One connection; sessions are named s-0, s-1, ..."""

    def __init__(self) -> None:
        super().__init__(fallback=self._refuse)
        self._sessions = 0
        self._asked: list[Any] = []
        self.handlers = {
            "initialize": self._initialize,
            "session/new": self._new,
            "session/load": self._load,
            "session/prompt": self._prompt,
            "session/cancel": lambda _: None,
            "$/cancel_request": lambda _: None,
        }

    def _initialize(self, request: Message) -> None:
        capabilities = {"loadSession": True, "promptCapabilities": {"image": True}}
        self.reply(request, {"protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": []})

    def _new(self, request: Message) -> None:
        self.reply(request, {"sessionId": f"s-{self._sessions}"})
        self._sessions += 1

    def _load(self, request: Message) -> None:
        session_id = request["params"]["sessionId"]
        self._sessions = max(self._sessions, 1)
        self.update(session_id, "user_message_chunk", content={"type": "text", "text": "an older question"})
        self.update(session_id, "agent_message_chunk", content={"type": "text", "text": "an older answer"})
        self.reply(request, {})

    def _prompt(self, request: Message) -> Script:
        text = "".join(str(member(block, "text") or "") for block in request["params"]["prompt"])
        word, _, rest = text.partition(" ")
        session_id = request["params"]["sessionId"]
        if word == "ask":
            yield from self._put("session/request_permission", {"sessionId": session_id, **json.loads(rest)}, request)
        elif word == "request":
            method, params = json.loads(rest)
            yield from self._put(method, params, request)
        elif word == "wait":
            yield Call("session/cancel", session_id)
            self.reply(request, {"stopReason": "cancelled"})
        elif word == "exit":
            self.leave(int(rest))
        else:
            self._act(word, rest, session_id)
            self.reply(request, {"stopReason": "end_turn"})

    def _act(self, word: str, rest: str, session_id: str) -> None:
        if word == "frames":
            for frame in json.loads(rest.replace("$S", "s-0")):
                self.send(frame)
        elif word == "withdraw":
            self.notify("$/cancel_request", {"requestId": self._asked[-1]})
        else:
            self._say(session_id, rest)

    def _put(self, method: str, params: Any, request: Message) -> "Script":
        wait = self.ask(method, params)
        self._asked.append(wait.request_id)
        reply: Message = yield wait
        self._say(request["params"]["sessionId"], json.dumps(reply.get("result", reply.get("error")), sort_keys=True))
        cancelled = member(reply, "result", "outcome", "outcome") == "cancelled"
        self.reply(request, {"stopReason": "cancelled" if cancelled else "end_turn"})

    def _say(self, session_id: str, text: str) -> None:
        self.update(session_id, "agent_message_chunk", content={"type": "text", "text": text})

    def _refuse(self, request: Message) -> None:
        if "id" in request:
            self.refuse(request, -32601, "Method not found", {"method": request["method"]})


if __name__ == "__main__":
    sys.exit(serve_process(CommandedAgent()))
