"""Three-way merge by lines: what two sides changed since a common text, both kept, or a conflict. Pure.

Line ends play no part (``text_file.plain``); ``text_file.keep_line_ends`` gives them back.
"""

from collections.abc import Sequence
from typing import Final

import attrs

from sidecar.workspace.edits_blocks import Block, changed_blocks
from sidecar.workspace.text_file import plain

GIST_LINES: Final = 12
GIST_CHARS: Final = 2000
GIST_LINE_CHARS: Final = 200


@attrs.frozen
class _Change:
    start: int
    end: int
    lines: tuple[str, ...]


def merge(base: str, ours: str, theirs: str) -> str | None:
    """Return ``base`` with the changes of both sides, with LF line ends, or None when they contradict each other.

    Changes contradict when they touch the same lines differently, or insert different lines at the same place. Changes of
    neighbouring lines do not.
    """
    base, ours, theirs = plain(base), plain(ours), plain(theirs)
    if ours in {base, theirs}:
        return theirs
    if theirs == base:
        return ours
    lines = base.split("\n")
    merged = _merged(_changes(lines, ours.split("\n")), _changes(lines, theirs.split("\n")))
    if merged is None:
        return None
    result: list[str] = []
    at = 0
    for change in merged:
        result += lines[at : change.start]
        result += change.lines
        at = change.end
    return "\n".join(result + lines[at:])


def _changes(base: Sequence[str], side: Sequence[str]) -> list[_Change]:
    return [_Change(b.old_start, b.old_end, tuple(side[b.new_start : b.new_end])) for b in changed_blocks(base, side)]


def _merged(ours: Sequence[_Change], theirs: Sequence[_Change]) -> list[_Change] | None:
    """Return the changes of both in order, those that are the same once; None when two contradict each other."""
    merged: list[_Change] = []
    left, right = list(reversed(ours)), list(reversed(theirs))
    while left and right:
        mine, other = left[-1], right[-1]
        if mine == other:
            merged.append(left.pop())
            right.pop()
        elif _first(mine, other):
            merged.append(left.pop())
        elif _first(other, mine):
            merged.append(right.pop())
        else:
            return None
    return [*merged, *reversed(left), *reversed(right)]


def _first(one: _Change, other: _Change) -> bool:
    """Whether ``one`` lies before ``other`` without doubt: two insertions at one place have no order."""
    return one.end <= other.start and not (one.start == one.end == other.start == other.end)


def gist(base: str, current: str) -> str:
    """Return what ``current`` has in place of ``base``, in a few numbered lines for an agent to redo its change by."""
    old, new = plain(base).split("\n"), plain(current).split("\n")
    told: list[str] = []
    for block in changed_blocks(old, new):
        told += _told(block, new)
        if len(told) >= GIST_LINES:
            told[GIST_LINES:] = ["(more differs)"]
            break
    return "\n".join(told)[:GIST_CHARS]


def _told(block: Block, new: Sequence[str]) -> list[str]:
    if block.new_start == block.new_end:
        return [f"(what stood after line {block.new_start} is gone)"]
    return [f"{number + 1}: {new[number][:GIST_LINE_CHARS]}" for number in range(block.new_start, block.new_end)]
