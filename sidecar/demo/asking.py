"""Questions that are no consent: a form, a page, or a choice, in the first way that the client declared."""

import uuid
from typing import Any, Final

from sidecar.demo.turn import Turn, TurnCancelled
from sidecar.demo.wire import Json, kiro, object_at
from sidecar.errors import AgentFault

QUESTION: Final = "Which colour should the demo use?"
COLOURS: Final = ("red", "green", "blue")
FORM: Final[Json] = {
    "type": "object",
    "title": "A colour",
    "properties": {
        "colour": {
            "type": "string",
            "title": "Colour",
            "oneOf": [{"const": colour, "title": colour.title()} for colour in COLOURS],
        },
        "times": {"type": "integer", "title": "How often", "minimum": 1, "maximum": 9, "default": 1},
        "sure": {"type": "boolean", "title": "Really", "default": False},
        "name": {"type": "string", "title": "Your name", "maxLength": 40},
    },
    "required": ["colour"],
}


async def ask_form(turn: Turn) -> None:
    """Ask for a colour and say what came back."""
    if turn.link.features.forms:
        action, content = await _elicit(turn, mode="form", requestedSchema=FORM)
        await turn.say(f"You answered `{action}`{f' with {content}' if content else ''}.\n")
    elif turn.link.features.user_input:
        await _ask_by_user_input(turn)
    else:
        await _ask_by_options(turn)


async def ask_url(turn: Turn) -> None:
    """Ask the user to look at a page."""
    if not turn.link.features.urls:
        await turn.say("Your editor did not declare that it can open a page for me.\n")
        return
    elicitation_id = f"elicit_{uuid.uuid4()}"
    action, _ = await _elicit(turn, mode="url", elicitationId=elicitation_id, url="https://agentclientprotocol.com/")
    await turn.say(f"You answered `{action}`.\n")
    if action == "accept":
        turn.link.notify("elicitation/complete", elicitationId=elicitation_id)


async def _elicit(turn: Turn, **body: Any) -> tuple[str, Json]:
    """Ask by ``elicitation/create`` (ACP v1) and return the action and the content."""
    try:
        reply = await turn.link.request("elicitation/create", sessionId=turn.session.session_id, message=QUESTION, **body)
    except AgentFault as error:
        return f"an error: {error.message}", {}
    return str(object_at(reply).get("action")), object_at(reply, "content")


async def _ask_by_user_input(turn: Turn) -> None:
    """Ask by Kiro V3's ``_kiro/userInput``."""
    tool = turn.open_tool("user_input", QUESTION, kind="other")
    options = [{"title": colour, "description": f"Use {colour}", "recommended": colour == "green"} for colour in COLOURS]
    try:
        reply = await turn.link.request(
            "_kiro/userInput", sessionId=turn.session.session_id, toolCallId=tool.tool_id, question=QUESTION, options=options
        )
    except AgentFault as error:
        tool.fail("error", error.message)
        return
    tool.complete()
    await turn.say(f"You answered `{object_at(reply).get('answer', 'nothing')}`.\n")


async def _ask_by_options(turn: Turn) -> None:
    """Ask as Kiro V3 does without ``userInput``: a permission request whose options are all of the kind ``allow_once``."""
    tool = turn.open_tool("user_input", QUESTION, kind="other")
    options = [{"optionId": colour, "name": colour.title(), "kind": "allow_once"} for colour in COLOURS]
    call: Json = {"toolCallId": tool.tool_id, "status": "pending", "title": QUESTION}
    try:
        reply = await turn.link.request(
            "session/request_permission",
            sessionId=turn.session.session_id,
            toolCall=call,
            options=options,
            _meta=kiro(toolId="user_input"),
        )
    except AgentFault as error:
        tool.fail("error", error.message)
        return
    outcome = object_at(reply, "outcome")
    if outcome.get("outcome") == "cancelled":
        raise TurnCancelled
    tool.complete()
    await turn.say(f"You answered `{outcome.get('optionId')}`.\n")
