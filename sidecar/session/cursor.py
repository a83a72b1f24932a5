"""Follows a session for one reader: what changed since the last look, and no more. Pure.

Nothing is copied when something changes: the cursor only marks which part, section or turn did. A reader that does not read costs
one mark per entity, never one per update. The order is kept where it matters: parts come in their order, text is given from where
the reader stands, and a change of a tool call, section or turn stands behind all text that came before it.

Changes (CONTRACT 3.2, ``sidecar/session/changed``); ``tests/unit/session/reference_client.py`` is the applier plugins can copy:

- ``reset {reason, before?}``: forget turns and sections; everything follows anew.
- ``turn_started {turn}``, ``turn_ended {turn}``: append the turn; merge the fields into it.
- ``part_added {turnId, part}``: append. ``unknown {turnId, part}``: the same for an update of a kind not known (``part.raw``).
- ``part_text {turnId, partId, text, meta?}``: append ``text``; replace ``meta`` when given.
- ``tool_call {turnId, partId, toolCallId, fields}``: merge ``fields`` into the part's ``toolCall``.
- ``plan commands config tools usage title mcp compaction steering queue state``: replace the snapshot keys named beside ``kind``;
  ``meta`` belongs to ``metas[kind]`` and is removed when absent.
- ``terminal {terminal}``: replace the terminal of that ``terminalId`` among the snapshot's ``terminals``, or append it.
- ``notice {notice}``: append.

A change of a turn or part the reader does not know (older than its snapshot) is to be skipped.
"""

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, cast

from sidecar.session.conversation import SECTIONS, Notice, Part, Section, TextPart, ToolPart, Turn, UnknownPart
from sidecar.session.encode import notice_json, part_head_json, tool_fields_json, turn_end_json, turn_start_json
from sidecar.session.model import SNAPSHOT_TURNS, SessionState
from sidecar.session.terminals import TerminalView

CHANGE_BYTES: Final = 64
ESCAPED_CHAR_BYTES: Final = 6
TEXT_ROOM_BYTES: Final = 64
MEASURE_DEPTH: Final = 32
DEEP_BYTES: Final = 1024
SCALAR_BYTES: Final = 8

_TEXT_KEYS: Final = frozenset({"kind", "turnId", "partId", "text"})

Key: TypeAlias = tuple[str, Any]


def escaped_length(text: str) -> int:
    """Return about how many bytes ``text`` takes as ASCII JSON."""
    if text.isascii():
        return len(text)
    plain = len(text.encode("ascii", "ignore"))
    return plain + ESCAPED_CHAR_BYTES * (len(text) - plain)


def measure(value: Any, depth: int = MEASURE_DEPTH) -> int:
    """Return about how many bytes ``value`` takes as ASCII JSON."""
    if isinstance(value, str):
        return 2 + escaped_length(value)
    if isinstance(value, (dict, list, tuple)):
        if not depth:
            return DEEP_BYTES
        items = cast("Iterable[Any]", value)
        if isinstance(value, dict):
            items = itertools.chain.from_iterable(cast("dict[str, Any]", value).items())
        return 2 + sum(2 + measure(item, depth - 1) for item in items)
    return SCALAR_BYTES


class Cursor:
    """A reader's place in a session. A snapshot taken in the same breath (no ``await`` between) fits exactly.

    ``turns`` is how many turns a reset gives again. Call ``close()`` when the reader is gone.
    """

    def __init__(self, state: SessionState, turns: int = SNAPSHOT_TURNS) -> None:
        self._state = state
        self._turns = turns
        self._marks: OrderedDict[Key, Any] = OrderedDict()
        state.watch(self)

    @property
    def pending(self) -> bool:
        """Whether ``take`` has something."""
        return bool(self._marks)

    def close(self) -> None:
        """Stop following; what is pending is dropped."""
        self._state.unwatch(self)
        self._marks.clear()

    def take(self, max_bytes: int) -> list[dict[str, Any]]:
        """Return the next changes, about ``max_bytes`` of ASCII JSON and at least one change when any is pending.

        Text is cut to fit and goes on in the next take; a change that cannot be cut is given whole.
        """
        changes: list[dict[str, Any]] = []
        room = max_bytes
        while self._marks and (room > 0 or not changes):
            what, entity = next(iter(self._marks))
            if what != "text":
                change = self._change(what, entity, self._marks.pop((what, entity)))
            elif changes and room < TEXT_ROOM_BYTES:
                break
            else:
                change = self._text_change(entity, max(room - CHANGE_BYTES, TEXT_ROOM_BYTES))
            room -= CHANGE_BYTES + escaped_length(change["text"]) if change.keys() == _TEXT_KEYS else measure(change)
            changes.append(change)
        return changes

    # --- marks: called by the reducer -----------------------------------------------------------------------------

    def turn_started(self, turn: Turn) -> None:
        """Mark a new turn."""
        self._marks["start", turn] = None

    def turn_ended(self, turn: Turn) -> None:
        """Mark the end, behind everything."""
        self._mark_last(("end", turn), None)

    def part_added(self, part: Part) -> None:
        """Mark a new part; its text and tool fields have marks of their own."""
        self._marks["part", part] = None

    def text_grew(self, part: TextPart, start: int) -> None:
        """Mark text from ``start``; a text already marked is read from its old place."""
        key = ("text", part)
        if key not in self._marks:
            self._marks[key] = [start, False]
        elif self._marks[key][0] is None:
            self._marks[key][0] = start

    def part_meta_changed(self, part: TextPart) -> None:
        """Mark a new ``meta`` of a text part."""
        self._marks.setdefault(("text", part), [None, False])[1] = True

    def tool_changed(self, part: ToolPart, fields: Iterable[str]) -> None:
        """Mark changed fields, behind the text that came before."""
        key = ("tool", part)
        marked = self._marks.pop(key, None)
        self._marks[key] = dict.fromkeys(fields) if marked is None else {**marked, **dict.fromkeys(fields)}

    def terminal_changed(self, terminal: TerminalView) -> None:
        """Mark a terminal; only its newest state is given."""
        self._mark_last(("terminal", terminal), None)

    def section_changed(self, section: Section) -> None:
        """Mark a section, behind everything."""
        self._mark_last(("section", section), None)

    def notice_added(self, notice: Notice) -> None:
        """Mark a notice."""
        self._marks["notice", notice.notice_id] = notice

    def reset(self) -> None:
        """Everything shown was replaced: mark all of it, in order; notices stay."""
        notices = {key: value for key, value in self._marks.items() if key[0] == "notice"}
        self._marks.clear()
        shown, older = self._state.window(self._turns)
        self._marks["reset", None] = shown[0].turn_id if older and shown else None
        for section in SECTIONS:
            self.section_changed(section)
        for turn in shown:
            self._mark_turn(turn)
        for terminal in self._state.conversation.terminals.values():
            self.terminal_changed(terminal)
        self._marks.update(notices)

    def _mark_turn(self, turn: Turn) -> None:
        self.turn_started(turn)
        for part in turn.parts:
            self.part_added(part)
            if isinstance(part, TextPart) and part.buffer.length:
                self.text_grew(part, 0)
            elif isinstance(part, ToolPart):
                self.tool_changed(part, (*part.fields, "meta", "closed", "shown_status"))
        if turn.outcome is not None:
            self.turn_ended(turn)

    def _mark_last(self, key: Key, value: Any) -> None:
        self._marks[key] = value
        self._marks.move_to_end(key)

    # --- changes ----------------------------------------------------------------------------------------------------

    def _text_change(self, part: TextPart, room: int) -> dict[str, Any]:
        mark = self._marks["text", part]
        start, new_meta = mark
        change: dict[str, Any] = {"kind": "part_text", "turnId": part.turn.turn_id, "partId": part.part_id, "text": ""}
        if new_meta:
            change["meta"] = part.meta
            mark[1] = False
        if start is not None:
            change["text"] = _fitting(part, start, room)
            mark[0] = start + len(change["text"])
        if start is None or mark[0] >= part.buffer.length:
            del self._marks["text", part]
        return change

    def _change(self, what: str, entity: Any, value: Any) -> dict[str, Any]:
        if what == "part":
            return self._part_change(entity)
        if what == "section":
            return self._section_change(entity)
        return _CHANGES[what](entity, value)

    def _part_change(self, part: Part) -> dict[str, Any]:
        head = part_head_json(part)
        if isinstance(part, ToolPart) and next(iter(self._marks), None) == ("tool", part):
            head["toolCall"] |= tool_fields_json(part, self._marks.pop(("tool", part)))
        kind = "unknown" if isinstance(part, UnknownPart) else "part_added"
        return {"kind": kind, "turnId": part.turn.turn_id, "part": head}

    def _section_change(self, section: Section) -> dict[str, Any]:
        meta = self._state.conversation.metas.get(section)
        return {"kind": section, **self._state.section(section), **({} if meta is None else {"meta": meta})}


def _tool_change(part: ToolPart, fields: Iterable[str]) -> dict[str, Any]:
    place = {"turnId": part.turn.turn_id, "partId": part.part_id, "toolCallId": part.tool_call_id}
    return {"kind": "tool_call", **place, "fields": tool_fields_json(part, fields)}


def _start_change(turn: Turn, _: None) -> dict[str, Any]:
    return {"kind": "turn_started", "turn": turn_start_json(turn)}


def _end_change(turn: Turn, _: None) -> dict[str, Any]:
    return {"kind": "turn_ended", "turn": turn_end_json(turn)}


def _terminal_change(terminal: TerminalView, _: None) -> dict[str, Any]:
    return {"kind": "terminal", "terminal": terminal.to_json()}


def _notice_change(_: str, notice: Notice) -> dict[str, Any]:
    return {"kind": "notice", "notice": notice_json(notice)}


def _reset_change(_: None, before: str | None) -> dict[str, Any]:
    return {"kind": "reset", "reason": "load", **({} if before is None else {"before": before})}


_CHANGES: Final[Mapping[str, Callable[[Any, Any], dict[str, Any]]]] = {
    "tool": _tool_change,
    "start": _start_change,
    "end": _end_change,
    "terminal": _terminal_change,
    "notice": _notice_change,
    "reset": _reset_change,
}


def _fitting(part: TextPart, start: int, room: int) -> str:
    """Return text from ``start`` that takes about ``room`` bytes escaped, at least one character."""
    text = part.buffer.read(start, room)
    size = escaped_length(text)
    return text if size <= room else text[: max(1, room * len(text) // size)]
