"""Readers and builders for the JSON the demo agent takes and gives."""

from pathlib import Path
from typing import Any, TypeAlias, cast

import attrs

from sidecar.errors import EditorFault

Json: TypeAlias = dict[str, Any]

MAX_TEXT_CHARACTERS = 200_000
"""Longest text of a prompt that the demo looks at."""


def object_at(value: Any, *path: str) -> Json:
    """Return the object found by following ``path`` through nested objects, or an empty one when something else stands there."""
    found = value
    for key in path:
        found = cast("Json", found).get(key) if isinstance(found, dict) else None
    return cast("Json", found) if isinstance(found, dict) else {}


def list_at(value: Any, *path: str) -> list[Any]:
    """Return the array at ``path``, or an empty one."""
    found = object_at(value, *path[:-1]).get(path[-1])
    return cast("list[Any]", found) if isinstance(found, list) else []


def text_of(params: Any, name: str) -> str:
    """Return the string ``name`` of ``params``; raise -32602 naming the field when it is missing or no string."""
    value = object_at(params).get(name)
    if not isinstance(value, str):
        raise EditorFault(f"the params need a string field '{name}'")
    return value


def folder_of(params: Any) -> str:
    """Return ``cwd`` of ``params``, which ACP wants as an absolute path."""
    cwd = text_of(params, "cwd")
    if not Path(cwd).is_absolute():
        raise EditorFault("'cwd' must be an absolute path")
    return cwd


def prompt_text(params: Any) -> str:
    """Return the text blocks of a prompt, joined by line feeds."""
    texts = [object_at(block).get("text") for block in list_at(params, "prompt")]
    return "\n".join(text for text in texts if isinstance(text, str))[:MAX_TEXT_CHARACTERS]


def prompt_attachments(params: Any) -> list[str]:
    """Return one line for each block of a prompt that is no text: its kind, and its address or size."""
    lines: list[str] = []
    for block in list_at(params, "prompt"):
        item = object_at(block)
        kind = item.get("type")
        if kind == "text":
            continue
        resource = object_at(item, "resource") or item
        detail = resource.get("uri") or f"{len(str(item.get('data', '')))} characters of data"
        lines.append(f"{kind}: {detail}")
    return lines


def text_block(text: str) -> Json:
    return {"type": "text", "text": text}


def tool_text(text: str) -> Json:
    """Return tool-call content that holds ``text``."""
    return {"type": "content", "content": text_block(text)}


def kiro(**fields: Any) -> Json:
    """Return the ``_meta`` object that carries ``fields`` where Kiro V3 keeps its own."""
    return {"kiro": fields}


@attrs.frozen
class ClientFeatures:
    """What the client declared in ``initialize``; everything absent counts as not there."""

    read_files: bool = False
    write_files: bool = False
    terminal: bool = False
    open_url: bool = False
    user_input: bool = False
    forms: bool = False
    urls: bool = False
    notices: bool = False
    compaction: bool = False
    boolean_options: bool = False

    @classmethod
    def declared_in(cls, params: Any) -> "ClientFeatures":
        """Read ``clientCapabilities`` of the params of ``initialize`` (ACP v1; Kiro V3 client guide for ``_meta.kiro``)."""
        caps = object_at(params, "clientCapabilities")
        own = object_at(caps, "_meta", "kiro")
        files = object_at(caps, "fs")
        elicitation = object_at(caps, "elicitation")
        session = object_at(caps, "session")
        return cls(
            read_files=files.get("readTextFile") is True,
            write_files=files.get("writeTextFile") is True,
            terminal=caps.get("terminal") is True,
            open_url=own.get("openExternalUrl") is True,
            user_input=own.get("userInput") is True,
            forms=isinstance(elicitation.get("form"), dict),
            urls=isinstance(elicitation.get("url"), dict),
            notices=isinstance(session.get("notices"), dict),
            compaction=isinstance(session.get("compaction"), dict),
            boolean_options=isinstance(object_at(session, "configOptions").get("boolean"), dict),
        )
