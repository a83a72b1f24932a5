"""Terminals as a session shows them: the command, the end of its output, how it ended. Pure.

Those the sidecar runs and those an agent runs itself and only shows (facts on agents, note 7) look the same.
"""

from typing import Any, Final

import attrs

from sidecar.session.events import TerminalChanged

SHOWN_CHARACTERS: Final = 8 * 1024
MAX_TERMINALS: Final = 256
FIELDS: Final = frozenset({"command", "cwd", "truncated", "released", "exitStatus"})


@attrs.define(eq=False)
class TerminalView:
    """One terminal. ``output`` is the end of what it printed, at most ``SHOWN_CHARACTERS``; it stays after the release."""

    terminal_id: str
    output: str = ""
    fields: dict[str, Any] = attrs.field(factory=dict[str, Any])

    def change(self, event: TerminalChanged) -> bool:
        """Put the change in place; return whether anything differs."""
        before = (self.output, dict(self.fields))
        whole = (self.output if event.output is None else event.output) + event.appended
        self.fields |= {name: value for name, value in event.fields.items() if name in FIELDS}
        if len(whole) > SHOWN_CHARACTERS:
            self.fields["truncated"] = True
        self.output = whole[-SHOWN_CHARACTERS:]
        return (self.output, self.fields) != before

    def to_json(self) -> dict[str, Any]:
        """Return ``{"terminalId", "output", "truncated", "command"?, "cwd"?, "exitStatus"?, "released"?}``."""
        return {"terminalId": self.terminal_id, "output": self.output, "truncated": False, **self.fields}


def change_terminal(views: dict[str, TerminalView], event: TerminalChanged) -> TerminalView | None:
    """Fold the event into ``views`` (the oldest goes when there are too many); return the view when it changed."""
    view = views.get(event.terminal_id)
    if view is None:
        if len(views) >= MAX_TERMINALS:
            del views[next(iter(views))]
        view = views[event.terminal_id] = TerminalView(event.terminal_id)
        view.change(event)
        return view
    return view if view.change(event) else None
