"""Session state as JSON: the shapes of CONTRACT 3.1 and 3.2, the same in a snapshot and in changes. Pure.

Keys are camelCase. What came from the agent is as received, but the ``_meta`` of turns, parts, tool calls, options and list
entries is called ``meta``. Values that are absent at the agent are absent here.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from sidecar.session.conversation import (
    Compaction,
    ContentPart,
    Conversation,
    Notice,
    Part,
    Section,
    Steering,
    TextPart,
    ToolPart,
    Turn,
    UnknownPart,
)
from sidecar.session.events import JsonObject
from sidecar.session.text import unpack

WIRE_NAMES: Final[Mapping[str, str]] = {
    "raw_input": "rawInput",
    "raw_output": "rawOutput",
    "failure_reason": "failureReason",
    "shown_status": "shownStatus",
}


def _present(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None and value != ""}


def with_meta(value: JsonObject) -> dict[str, Any]:
    """Return a copy with the key ``_meta`` called ``meta``."""
    if "_meta" not in value:
        return dict(value)
    return {("meta" if key == "_meta" else key): item for key, item in value.items()}


def _option_json(option: JsonObject) -> dict[str, Any]:
    result = with_meta(option)
    choices = result.get("options")
    if isinstance(choices, list):
        result["options"] = [_choice_json(choice) for choice in cast("list[Any]", choices)]
    return result


def _choice_json(choice: Any) -> Any:
    return _option_json(cast("JsonObject", choice)) if isinstance(choice, Mapping) else choice


def turn_start_json(turn: Turn) -> dict[str, Any]:
    """``{"turnId", "origin", "state", "text"?, "prompt"?, "startedAt"?}`` as it was when the turn began."""
    return {
        "turnId": turn.turn_id,
        "origin": turn.origin,
        "state": "running" if turn.origin == "prompt" else "ended",
        **_present(text=turn.text, startedAt=turn.started_at, prompt=unpack(turn.prompt) or None),
    }


def turn_end_json(turn: Turn) -> dict[str, Any]:
    """What the end adds: ``state outcome endedAs stopReason? error? endedAt? cancelRequested? meta?``."""
    return {
        "turnId": turn.turn_id,
        "state": "ended",
        **_present(
            outcome=turn.outcome,
            endedAs=turn.ended_as,
            stopReason=turn.stop_reason,
            error=turn.error,
            endedAt=turn.ended_at,
            cancelRequested=True if turn.cancel_requested_at is not None else None,
            meta=turn.meta,
        ),
    }


def turn_json(turn: Turn) -> dict[str, Any]:
    """The whole turn with its ``parts``."""
    result = turn_start_json(turn)
    if turn.outcome is not None:
        result.update(turn_end_json(turn))
    result["parts"] = [part_json(part) for part in turn.parts]
    return result


def part_head_json(part: Part) -> dict[str, Any]:
    """A part without its growing contents: ``{"partId", "kind": "text" | "content" | "tool" | "unknown", "meta"?, ...}``."""
    head: dict[str, Any] = {"partId": part.part_id}
    if isinstance(part, TextPart):
        head |= {"kind": "text", "role": part.role, **_present(messageId=part.message_id, echo=part.echo or None), "text": ""}
    elif isinstance(part, ContentPart):
        head |= {"kind": "content", "role": part.role, **_present(messageId=part.message_id, echo=part.echo or None)}
        head["block"] = unpack(part.block)
    elif isinstance(part, ToolPart):
        return head | {"kind": "tool", "toolCall": {"toolCallId": part.tool_call_id}}
    elif isinstance(part, UnknownPart):
        head |= {"kind": "unknown", "updateKind": part.update_kind}
        head["raw"] = json.loads(part.raw) if isinstance(part.raw, str) else part.raw
    return head | _present(meta=part.meta)


def part_json(part: Part) -> dict[str, Any]:
    """A part with all it holds."""
    result = part_head_json(part)
    if isinstance(part, TextPart):
        result["text"] = part.buffer.text()
    elif isinstance(part, ToolPart):
        result["toolCall"] |= tool_fields_json(part, (*part.fields, "meta", "closed", "shown_status"))
    return result


def tool_fields_json(part: ToolPart, names: Iterable[str]) -> dict[str, Any]:
    """The named fields of a tool call; ``closed`` and ``shownStatus`` are ours, ``status`` is the agent's."""
    result: dict[str, Any] = {}
    for name in names:
        if name == "meta":
            result |= _present(meta=part.meta)
        elif name == "closed":
            result["closed"] = part.closed
        elif name == "shown_status":
            result["shownStatus"] = part.shown_status
        elif name in part.fields:
            result[WIRE_NAMES.get(name, name)] = unpack(part.fields[name])
    return result


def notice_json(notice: Notice) -> dict[str, Any]:
    """``{"noticeId", "severity", "title", "description"?, "source", "meta"?}``."""
    return {
        "noticeId": notice.notice_id,
        "severity": notice.severity,
        "title": notice.title,
        "source": notice.source,
        **_present(description=notice.description, meta=notice.meta),
    }


def _compaction_json(compaction: Compaction) -> dict[str, Any]:
    return {
        "compactionId": compaction.compaction_id,
        **_present(
            status=compaction.status,
            summary=list(compaction.summary) or None,
            summaryText=compaction.summary_text.text(),
            error=compaction.error,
            meta=compaction.meta,
        ),
    }


def _steering_json(item: Steering) -> dict[str, Any]:
    return {"state": item.state, **_present(messageId=item.message_id, text=item.text)}


def _listed(values: Sequence[JsonObject]) -> list[dict[str, Any]]:
    return [with_meta(value) for value in values]


def _config_json(conversation: Conversation) -> dict[str, Any]:
    modes, options = conversation.modes, conversation.config_options
    known = modes is not None or conversation.mode is not None
    return {
        "modes": {"available": _listed(modes or ()), "current": conversation.mode} if known else None,
        "configOptions": None if options is None else [_option_json(option) for option in options],
    }


_SECTIONS: Final[Mapping[str, Callable[[Conversation], dict[str, Any]]]] = {
    "plan": lambda conversation: {"plan": _listed(conversation.plan)},
    "commands": lambda conversation: {"commands": _listed(conversation.commands)},
    "config": _config_json,
    "tools": lambda conversation: {"tools": _listed(conversation.tools)},
    "usage": lambda conversation: {"usage": conversation.usage},
    "title": lambda conversation: {"title": conversation.title, "updatedAt": conversation.updated_at},
    "mcp": lambda conversation: {"mcp": _listed(list(conversation.mcp.values()))},
    "compaction": lambda conversation: {"compactions": [_compaction_json(item) for item in conversation.compactions.values()]},
    "steering": lambda conversation: {"steering": [_steering_json(item) for item in conversation.steering]},
}


def section_json(conversation: Conversation, section: Section) -> dict[str, Any]:
    """The snapshot keys a section fills; ``queue`` and ``state`` belong to the session (``model.py``).

    Keys: ``plan commands modes configOptions tools usage title updatedAt mcp compactions steering``. ``modes`` and
    ``configOptions`` are null while the agent has told none.
    """
    encode = _SECTIONS.get(section)
    return {} if encode is None else encode(conversation)
