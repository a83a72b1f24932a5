"""The sidecar's own slash commands, typed as the whole prompt of a transcript. They have a route without any agent."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from sidecar.editor.parts import Front
from sidecar.errors import EditorFault
from sidecar.session.export import code_span
from sidecar.session.lenient import objects_in
from sidecar.session.neutral import neutralise
from sidecar.session.wishes import find_option
from sidecar.workspace.actor import SessionActor
from sidecar.workspace.uris import path_to_uri

OWN: Final[Mapping[str, str]] = {
    "new": "Begin a new session with its own transcript",
    "model": "Show the models, or use another one",
    "mode": "Show the modes, or use another one",
    "effort": "Show the efforts, or use another one",
    "mcp": "Show the MCP servers, or sign in to one",
}
_COMMAND: Final = re.compile(r"/([a-z]+)(?:[ \t]+(.*))?", re.ASCII)


@attrs.frozen
class SlashCommand:
    """``name`` without the slash, ``argument`` possibly empty."""

    name: str
    argument: str


@attrs.frozen
class SlashOutcome:
    """``lines`` for the transcript; ``opens`` is the session whose transcript is to be opened."""

    lines: Sequence[str] = ()
    opens: str | None = None


def read_command(text: str) -> SlashCommand | None:
    """Return the command when ``text`` is nothing but one of ours."""
    found = _COMMAND.fullmatch(text.strip())
    if found is None or found[1] not in OWN:
        return None
    return SlashCommand(found[1], (found[2] or "").strip())


async def run_command(front: Front, actor: SessionActor, command: SlashCommand) -> SlashOutcome:
    """Run one; raises the errors of the operation behind it."""
    if command.name == "new":
        return await _new(front, actor, command.argument)
    if command.name == "mcp":
        return await _mcp(front, actor, command.argument)
    return await _option(front, actor, command)


async def _new(front: Front, actor: SessionActor, argument: str) -> SlashOutcome:
    if argument:
        raise EditorFault("/new takes nothing behind it; it begins a session of the same agent in the same folder")
    identity = actor.identity
    result = await front.run("session.new", {"workspace": path_to_uri(identity.spec.cwd), "agent": identity.agent})
    return SlashOutcome(["*A new session was begun; its transcript is another document.*"], result["sessionId"])


async def _mcp(front: Front, actor: SessionActor, argument: str) -> SlashOutcome:
    session_id = actor.identity.session_id
    if argument:
        await front.run("mcp.authenticate", {"server": argument, "sessionId": session_id})
        note = "the page is opened after you agree; only a later report of the agent says that it worked"
        return SlashOutcome([f"*Sign-in of {code_span(neutralise(argument))} was started: {note}.*"])
    servers = objects_in((await front.run("mcp.status", {"sessionId": session_id}))["servers"])
    if not servers:
        return SlashOutcome(["*The agent reported no MCP servers.*"])
    return SlashOutcome(["**MCP servers**", "", *(_server_line(server) for server in servers)])


def _server_line(server: Mapping[str, Any]) -> str:
    name, status = neutralise(str(server.get("name", "?"))), neutralise(str(server.get("status", "unknown")))
    sign_in = "; /mcp with its name signs in" if server.get("failedAuthorization") is True else ""
    error = server.get("errorMessage")
    return f"- {code_span(name)}: {status}{': ' + neutralise(error) if isinstance(error, str) and error else ''}{sign_in}"


async def _option(front: Front, actor: SessionActor, command: SlashCommand) -> SlashOutcome:
    name, value = command.name, command.argument
    if value:
        await front.run("config.set", {"id": name, "value": value, "sessionId": actor.identity.session_id})
        return SlashOutcome([f"*The {name} is {code_span(neutralise(value))} now.*"])
    await actor.ensure_open()
    offered = offered_values(actor, name)
    if not offered:
        return SlashOutcome([f"*This session offers no choice of {name}.*"])
    current = current_value(actor, name)
    lines = [
        f"- {code_span(value)}{' (in use)' if value == current else ''}{': ' + label if label else ''}"
        for value, label in offered
    ]
    return SlashOutcome([f"**{name.capitalize()}s**; /{name} with one of these uses it", "", *lines])


def offered_values(actor: SessionActor, name: str) -> list[tuple[str, str]]:
    """Return the values of an option with what they are called, as the session last reported them."""
    option = find_option(actor.state.conversation.config_options or (), name)
    if option is not None:
        choices = [inner for item in objects_in(option.get("options")) for inner in objects_in(item.get("options")) or [item]]
        return [(item["value"], _label(item)) for item in choices if isinstance(item.get("value"), str)]
    modes = objects_in(actor.state.conversation.modes) if name == "mode" else []
    return [(mode["id"], _label(mode)) for mode in modes if isinstance(mode.get("id"), str)]


def current_value(actor: SessionActor, name: str) -> Any:
    """Return the value in use, or None when it is not known."""
    option = find_option(actor.state.conversation.config_options or (), name)
    return option.get("currentValue") if option is not None else actor.state.conversation.mode if name == "mode" else None


def _label(item: Mapping[str, Any]) -> str:
    name = item.get("name")
    return neutralise(name) if isinstance(name, str) else ""
