"""How the fields of a tool call change: only what an update names, lists replaced (ACP v1, tool_call_update). Pure."""

from typing import Any, Final

from sidecar.session.conversation import FINAL_STATUSES, ToolPart
from sidecar.session.events import Meta, ToolCallChanged
from sidecar.session.text import pack

SCALAR_FIELDS: Final = frozenset({"title", "name", "kind", "status", "failure_reason"})


def merge_meta(old: Meta, new: Meta) -> Meta:
    """Return ``new`` over ``old``, one level deep in each namespace, as an update changes only what it names."""
    if old is None or new is None:
        return old if new is None else new
    merged: dict[str, Any] = dict(old)
    for key, value in new.items():
        before = merged.get(key)
        merged[key] = {**before, **value} if isinstance(before, dict) and isinstance(value, dict) else value
    return merged


def change_tool(part: ToolPart, event: ToolCallChanged) -> list[str]:
    """Put the fields in place; return the names of those that changed."""
    changed: list[str] = []
    for name, value in event.fields.items():
        if name in SCALAR_FIELDS and name in part.fields and part.fields[name] == value:
            continue
        late = name == "status" and event.announced and not part.announced and part.finished and value not in FINAL_STATUSES
        if late:
            continue  # the announcement came after the end
        part.fields[name] = pack(value)
        changed.append(name)
    part.announced = part.announced or event.announced
    if event.meta is not None and event.meta != part.meta:
        part.meta = merge_meta(part.meta, event.meta)
        changed.append("meta")
    return changed
