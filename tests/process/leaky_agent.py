"""Kiro V3 as scripted, with addresses of its own from the file ``LEAKS`` and everything it knows on its error output.

More turns: ``elicit`` asks to open an address by the standard method, ``spill`` writes every secret it was given to stderr and
ends with an error, ``form`` asks for a form by the standard method.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.peers import kiro_turns, kiro_v3
from tests.peers.kiro_v3 import KiroV3
from tests.peers.scripted import Message, Script

LEAKS: dict[str, str] = json.loads(Path(os.environ["LEAKS"]).read_text(encoding="utf-8"))


def elicit(agent: KiroV3, request: Message) -> Script:
    session_id = request["params"]["sessionId"]
    body = {"sessionId": session_id, "mode": "url", "message": "Please sign in", "elicitationId": "e-1"}
    yield agent.ask("elicitation/create", {**body, "url": LEAKS["elicitation"]})
    agent.end_turn(request, "end_turn")


def form(agent: KiroV3, request: Message) -> Script:
    session_id = request["params"]["sessionId"]
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    yield agent.ask("elicitation/create", {"sessionId": session_id, "mode": "form", "message": "Who?", "requestedSchema": schema})
    agent.end_turn(request, "end_turn")


def spill(agent: KiroV3, request: Message) -> Script:
    """Real agents print what they were given when they fail."""
    given: list[Any] = [message["params"] for message in agent.calls("session/new")]
    token = (agent.token_reply or {}).get("result")
    os.write(2, (json.dumps([given, token, dict(os.environ), LEAKS]) + "\n").encode())
    agent.leave(9)
    yield from ()


def main(arguments: list[str]) -> int:
    """Play the agent."""
    kiro_v3.STALE_URL = LEAKS["stale"]
    kiro_turns.TURNS.update({"elicit": elicit, "spill": spill, "form": form})  # pyright: ignore[reportCallIssue, reportArgumentType]
    return kiro_v3.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
