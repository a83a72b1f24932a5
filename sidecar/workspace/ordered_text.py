"""The text of one document, kept in order of versions although changes arrive out of order or with numbers left out.

Editors do not agree on versions. Some (Neovim) send in order and skip numbers; some (Helix 25.01) use every number and send out
of order, up to 15 late. Both look the same at first: a number is missing. The rule:

1. A change is put in its place by version, whenever it arrives. What comes with a gap before it is applied provisionally on the
   newest state, which is right for an editor that skips.
2. The last ``KEPT_CHANGES`` changes (or more) are kept on top of an older base text. A late one is put among them, and all are
   replayed from the base.
3. A missing version is waited for while it is younger than ``GAP_PATIENCE_SECONDS``. After that an editor that was never late has
   skipped it; for an editor that was late before it is lost until it comes, and the mirror is unsure.
4. A gap that falls out of the kept changes is decided for good the same way. A change older than everything kept, a line number
   outside a text without gaps, and a saved text that differs make the mirror unsure too.
5. A full text makes it sure again: an open, a full change, a save with the text we have, or a second save with another.
"""

from bisect import insort
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import attrs

from sidecar.workspace.positions import LineBuffer, Position, PositionEncoding

KEPT_CHANGES: Final = 32
FOLD_AT: Final = 2 * KEPT_CHANGES
GAP_PATIENCE_SECONDS: Final = 1.0

Certainty: TypeAlias = Literal["sure", "waiting", "unsure"]
Taken: TypeAlias = Literal["applied", "superseded", "too late"]


@attrs.define
class EditorHabits:
    """What one editor was seen doing with versions, over all its documents."""

    was_late: bool = False
    skips: bool = False


@attrs.frozen
class ContentEdit:
    """One content change in the editor's positions; with ``start`` and ``end`` None it is the whole text."""

    text: str
    start: Position | None = None
    end: Position | None = None


@attrs.frozen
class Change:
    """The content changes of one ``textDocument/didChange``, applied one after the other."""

    version: int
    edits: tuple[ContentEdit, ...]

    @property
    def is_full(self) -> bool:
        """Whether the result does not depend on the text before."""
        return any(edit.start is None for edit in self.edits)


def _by_version(change: Change) -> int:
    return change.version


class OrderedText:
    """Base text, the changes on top of it in order of versions, and the newest text they make."""

    def __init__(
        self, text: str, version: int, encoding: PositionEncoding, *, habits: EditorHabits, clock: Callable[[], float]
    ) -> None:
        self._encoding: PositionEncoding = encoding
        self._habits = habits
        self._clock = clock
        self.unsure: str | None = None
        self._saved: str | None = None
        self._reset(LineBuffer(text, encoding), version)

    @property
    def text(self) -> str:
        """The newest text as far as known."""
        return self.current.text

    @property
    def certainty(self) -> Certainty:
        """How far the text can be relied on; see the module."""
        if self.unsure:
            return "unsure"
        if self._missing_since is None or (self._habits.skips and not self._habits.was_late):
            return "sure"
        if self._clock() - self._missing_since < GAP_PATIENCE_SECONDS:
            return "waiting"
        return "unsure" if self._habits.was_late else "sure"

    def take(self, change: Change) -> Taken:
        """Put ``change`` in its place. ``superseded``: a full text came after it. ``too late``: the mirror is now unsure."""
        if change.version < self.version:
            if change.version <= self._full_version:
                return "superseded"
            self._habits.was_late = True
            if change.version <= self._base_version:
                self.unsure = "the editor sent a change too late to be put in its place"
                return "too late"
            self._replay_with(change)
        else:
            self._append(change)
        self._note_gaps()
        if len(self._changes) > FOLD_AT:
            self._fold()
        if self._saved is not None and self.text == self._saved:
            self._reset(self.current, self.version)
        return "applied"

    def take_saved(self, text: str) -> None:
        """Compare with what the editor saved.

        A save names no version, and changes made before it may still be under way. So a text that differs from a sure mirror
        makes it unsure until the changes that come lead to that very text, or another save gives the text again.
        """
        if text == self.text or self.certainty == "unsure":
            self._reset(LineBuffer(text, self._encoding), self.version)
            return
        self._saved = text
        self.unsure = "the text saved differs from the changes the editor sent"

    def _reset(self, buffer: LineBuffer, version: int) -> None:
        self.current = buffer
        self.version = version
        self._base = buffer.copy()
        self._base_version = version
        self._full_version = version
        self._changes: list[Change] = []
        self._missing_since: float | None = None
        self.unsure = None
        self._saved = None

    def _append(self, change: Change) -> None:
        if change.is_full:
            buffer = LineBuffer("", self._encoding)
            _apply(buffer, change)
            self._reset(buffer, change.version)
            return
        gap = change.version > self.version + 1 or self._missing_since is not None
        self._changes.append(change)
        self.version = change.version
        if not _apply(self.current, change) and not gap:
            self.unsure = "the editor changed a line that the text known here does not have"

    def _replay_with(self, change: Change) -> None:
        insort(self._changes, change, key=_by_version)
        if change.is_full:
            buffer = LineBuffer("", self._encoding)
            _apply(buffer, change)
            later, newest = [kept for kept in self._changes if kept.version > change.version], self.version
            self._reset(buffer, change.version)
            self._changes, self.version = later, newest
        self.current = self._base.copy()
        within = [_apply(self.current, kept) for kept in self._changes]
        if not all(within) and not self._missing():
            self.unsure = "the editor changed a line that the text known here does not have"

    def _missing(self) -> int:
        """How many versions between the base and the newest change have not come."""
        return self.version - self._base_version - len({kept.version for kept in self._changes} - {self._base_version})

    def _note_gaps(self) -> None:
        if self._missing() <= 0:
            self._missing_since = None
        elif self._missing_since is None:
            self._missing_since = self._clock()

    def _fold(self) -> None:
        """Make the oldest changes part of the base; what is missing among them is decided for good."""
        folded, self._changes = self._changes[:-KEPT_CHANGES], self._changes[-KEPT_CHANGES:]
        expected = folded[-1].version - self._base_version
        if len({change.version for change in folded} - {self._base_version}) < expected:
            self._decide_gap()
        for change in folded:
            _apply(self._base, change)
        self._base_version = folded[-1].version
        self._note_gaps()

    def _decide_gap(self) -> None:
        if self._habits.was_late:
            self.unsure = "a change of the editor never came"
        else:
            self._habits.skips = True


def _apply(buffer: LineBuffer, change: Change) -> bool:
    """Apply all edits of ``change``; false when a line was outside the text."""
    within = True
    for edit in change.edits:
        if edit.start is None or edit.end is None:
            buffer.set_text(edit.text)
        else:
            within = buffer.replace(edit.start, edit.end, edit.text) and within
    return within
