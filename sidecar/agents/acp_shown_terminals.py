"""Terminals an agent runs itself and only shows: their output in ``_meta`` of tool calls (facts on agents, note 7). Pure.

``terminal_info {terminal_id, cwd?}``, ``terminal_output {terminal_id, data}`` (more output), ``terminal_exit {terminal_id,
exit_code?, signal?}``, beside content ``{"type": "terminal", "terminalId"}``.
"""

from collections.abc import Sequence
from typing import Any

from sidecar.session.events import JsonObject, SessionEvent, TerminalChanged, ToolCallChanged
from sidecar.session.lenient import object_at, object_or_none, objects_in, text_or_none


def with_terminals(events: Sequence[SessionEvent]) -> Sequence[SessionEvent]:
    """Return ``events`` with what their tool calls say of terminals put behind each."""
    if not any(type(event) is ToolCallChanged and event.meta for event in events):
        return events
    shown: list[SessionEvent] = []
    for event in events:
        shown.append(event)
        if isinstance(event, ToolCallChanged) and event.meta is not None:
            shown += _terminals(event, event.meta)
    return shown


def _terminals(event: ToolCallChanged, meta: JsonObject) -> list[TerminalChanged]:
    only = [item.get("terminalId") for item in objects_in(event.fields.get("content")) if item.get("type") == "terminal"]
    default = text_or_none(only[0]) if len(only) == 1 else None
    changes = [
        TerminalChanged(terminal_id, _info(event, body))
        for body, terminal_id in _named(meta, "terminal_info", default or event.tool_call_id)
    ]
    for key in ("terminal_output", "terminal_output_delta"):
        for body, terminal_id in _named(meta, key, default or event.tool_call_id):
            data = body.get("data")
            if isinstance(data, str) and data:
                changes.append(TerminalChanged(terminal_id, appended=data))
    for body, terminal_id in _named(meta, "terminal_exit", default or event.tool_call_id):
        changes.append(TerminalChanged(terminal_id, {"exitStatus": _exit(body)}))
    return changes


def _named(meta: JsonObject, key: str, default: str) -> list[tuple[JsonObject, str]]:
    """Return the object of ``meta`` with the terminal it is about (that of the tool call when it does not say), if any."""
    body = object_or_none(meta.get(key))
    return [] if body is None else [(body, text_or_none(body.get("terminal_id")) or default)]


def _info(event: ToolCallChanged, body: JsonObject) -> dict[str, Any]:
    fields = {"command": object_at(event.fields.get("raw_input")).get("command"), "cwd": body.get("cwd")}
    return {name: value for name, value in fields.items() if isinstance(value, str)}


def _exit(body: JsonObject) -> dict[str, Any]:
    code, signal = body.get("exit_code"), body.get("signal")
    return {
        "exitCode": code if isinstance(code, int) and not isinstance(code, bool) else None,
        "signal": signal if isinstance(signal, str) else None,
    }
