"""A session as a document: Markdown to read, JSON to keep (CONTRACT 3.1, session.export). Pure."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from sidecar.session.conversation import ContentPart, Part, TextPart, ToolPart, Turn
from sidecar.session.encode import notice_json
from sidecar.session.model import SessionState
from sidecar.session.neutral import escape_controls, neutralise
from sidecar.session.text import join_surrogates, unpack

EXPORT_FORMAT: Final = "sidecar-session"
EXPORT_VERSION: Final = 1
WHOLE: Final = 2**31

_BACKTICKS: Final = re.compile("`+")
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def to_export_json(state: SessionState) -> dict[str, Any]:
    """Return ``{"format", "version", "session": <every turn and section as in session.state>}``."""
    session = state.to_json(turns=WHOLE)
    session["notices"] = [notice_json(notice) for notice in state.notices]
    return {"format": EXPORT_FORMAT, "version": EXPORT_VERSION, "session": session}


def to_markdown(state: SessionState) -> str:
    """Return the whole conversation as Markdown that can be written as UTF-8; half characters become U+FFFD."""
    title = state.conversation.title
    pieces = [f"# {neutralise(title) if title else 'Session'}"]
    for turn in state.conversation.turns:
        pieces += turn_to_markdown(turn)
    return _LONE_SURROGATE.sub("\ufffd", join_surrogates("\n\n".join(piece for piece in pieces if piece))) + "\n"


def turn_to_markdown(turn: Turn) -> list[str]:
    """Return the blocks of one turn, without empty lines between them."""
    pieces: list[str] = []
    if turn.text:
        pieces += ["## You", escape_controls(turn.text.rstrip())]
    speaker = "user" if turn.text else ""
    for part in turn.parts:
        if isinstance(part, (TextPart, ContentPart)) and part.echo:
            continue
        role = part.role if isinstance(part, (TextPart, ContentPart)) else "agent"
        heading = "user" if role == "user" else "agent"
        if heading != speaker:
            pieces.append("## You" if heading == "user" else "## Agent")
            speaker = heading
        pieces += part_to_markdown(part)
    ending = _ending(turn)
    return [*pieces, ending] if ending else pieces


def _ending(turn: Turn) -> str:
    word = turn.ended_as
    if word in {None, "end_turn", "ended"}:
        return ""
    if word == "unknown":
        return "*The agent was lost; what became of this turn is not known.*"
    return f"*Turn {neutralise(str(word))}{': ' + neutralise(turn.error) if turn.error else ''}.*"


def part_to_markdown(part: Part) -> list[str]:
    """Return the blocks of one part; an update of an unknown kind has none."""
    if isinstance(part, TextPart):
        text = escape_controls(part.buffer.text().strip("\n"))
        return [_quoted(text)] if part.role == "thought" else [text]
    if isinstance(part, ContentPart):
        return [content_block_to_markdown(unpack(part.block))]
    if isinstance(part, ToolPart):
        return tool_to_markdown(part)
    return []


def tool_label(part: ToolPart) -> str:
    """Return how a tool call is called: its title, else its stable name, else its kind; never guessed from text."""
    for name in ("title", "name", "kind"):
        value = part.fields.get(name)
        if isinstance(value, str) and value.strip():
            return neutralise(value)
    return "tool call"


def tool_to_markdown(part: ToolPart) -> list[str]:
    """Return a line with label and status, then content: text, diffs, terminals."""
    pieces = [f"**Tool** {code_span(tool_label(part))} ({neutralise(part.shown_status)})"]
    reason = part.fields.get("failure_reason")
    if isinstance(reason, str) and reason:
        pieces.append(f"Reason: {neutralise(reason)}")
    content = unpack(part.fields.get("content"))
    if isinstance(content, list):
        for item in cast("list[Any]", content):
            if isinstance(item, Mapping):
                pieces += _tool_content(cast("Mapping[str, Any]", item))
    return pieces


def _tool_content(item: Mapping[str, Any]) -> Iterator[str]:
    kind = item.get("type")
    block = item.get("content")
    if kind == "content" and isinstance(block, Mapping):
        inner = cast("Mapping[str, Any]", block)
        text = inner.get("text")
        yield fenced(text) if inner.get("type") == "text" and isinstance(text, str) else content_block_to_markdown(inner)
    elif kind == "diff":
        yield f"Change of {code_span(neutralise(str(item.get('path', ''))))}:"
        yield fenced(_diff_lines(item.get("oldText"), item.get("newText")), "diff")
    elif kind == "terminal":
        yield f"Terminal {code_span(neutralise(str(item.get('terminalId', ''))))}"


def _diff_lines(old: Any, new: Any) -> str:
    removed = [f"-{line}" for line in old.split("\n")] if isinstance(old, str) and old else []
    added = [f"+{line}" for line in new.split("\n")] if isinstance(new, str) and new else []
    return "\n".join([*removed, *added])


def content_block_to_markdown(block: Mapping[str, Any]) -> str:
    """Return one line for a content block: a link for what has an address, else its kind; text blocks as text."""
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str):
        return escape_controls(str(block["text"]))
    resource = block.get("resource")
    inner = cast("Mapping[str, Any]", resource if isinstance(resource, Mapping) else {})
    uri = block.get("uri") or inner.get("uri")
    name = neutralise(str(block.get("name") or block.get("title") or kind or "content"))
    text = inner.get("text")
    line = f"[{name}] {code_span(neutralise(uri))}" if isinstance(uri, str) else f"[{name}]"
    return f"{line}\n\n{fenced(text)}" if isinstance(text, str) else line


def code_span(text: str) -> str:
    """Return ``text`` as inline code whatever backticks it holds."""
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"{fence}{text}{fence}"


def fenced(text: str, language: str = "") -> str:
    """Return ``text`` as a code block whose fence the text cannot close; control characters stay visible."""
    shown = neutralise(text, keep_newlines=True).rstrip("\n")
    longest = max((len(run) for run in _BACKTICKS.findall(shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def export_text(state: SessionState, form: str) -> str:
    """Return the export as text; ``form`` is ``markdown`` or ``json`` (indented, ASCII)."""
    if form == "json":
        return json.dumps(to_export_json(state), indent=2) + "\n"
    return to_markdown(state)


def texts_of_role(parts: Sequence[Part], role: str) -> str:
    """Return all text of one role among ``parts``, in order (for a plain final answer)."""
    return "".join(part.buffer.text() for part in parts if isinstance(part, TextPart) and part.role == role and not part.echo)
