"""Which lines differ between two lists of lines: trimmed, then anchored at lines that stand once in both. Pure.

The cost follows what differs and not the size: what both begin and end with is compared in C, and a small remainder only is
handed to difflib, whose cost is quadratic and worse.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeAlias

import attrs

from sidecar.workspace.positions import common_prefix

MATCHER_LIMIT: Final = 20_000
"""Old lines times new lines up to which difflib looks for what they share."""


@attrs.frozen
class Block:
    """Old lines ``old_start``..``old_end`` (end not included) become new lines ``new_start``..``new_end``."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


_Span: TypeAlias = tuple[int, int, int, int]


def changed_blocks(old: Sequence[str], new: Sequence[str]) -> list[Block]:
    """Return the blocks that differ, in order; between any two of them at least one line is the same."""
    found: list[Block] = []
    waiting: list[_Span] = [(0, len(old), 0, len(new))]
    while waiting:
        span = _trimmed(old, new, waiting.pop())
        if span is None:
            continue
        old_start, old_end, new_start, new_end = span
        if old_start == old_end or new_start == new_end:
            found.append(Block(*span))
        elif anchors := _anchors(old, new, span):
            waiting += reversed(_between(span, anchors))
        else:
            found += _matched(old, new, span)
    return _joined(found)


def _trimmed(old: Sequence[str], new: Sequence[str], span: _Span) -> _Span | None:
    old_start, old_end, new_start, new_end = span
    first, second = old[old_start:old_end], new[new_start:new_end]
    head = common_prefix(first, second)
    if head == len(first) == len(second):
        return None
    tail = common_prefix(first[head:][::-1], second[head:][::-1])
    return old_start + head, old_end - tail, new_start + head, new_end - tail


def _anchors(old: Sequence[str], new: Sequence[str], span: _Span) -> list[tuple[int, int]]:
    """Return the longest run of lines that stand once in both spans, in the same order (patience diff)."""
    old_start, old_end, new_start, new_end = span
    in_old, in_new = Counter(old[old_start:old_end]), Counter(new[new_start:new_end])
    place = {old[at]: at for at in range(old_start, old_end) if in_old[old[at]] == 1}
    pairs = [(place[new[at]], at) for at in range(new_start, new_end) if new[at] in place and in_new[new[at]] == 1]
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for index, (position, _) in enumerate(pairs):
        rank = bisect_left(ends, position)
        before.append(last[rank - 1] if rank else -1)
        if rank == len(ends):
            ends.append(position)
            last.append(index)
        else:
            ends[rank], last[rank] = position, index
    chain: list[tuple[int, int]] = []
    at = last[-1] if last else -1
    while at >= 0:
        chain.append(pairs[at])
        at = before[at]
    return chain[::-1]


def _between(span: _Span, anchors: Sequence[tuple[int, int]]) -> list[_Span]:
    spans: list[_Span] = []
    old_at, new_at = span[0], span[2]
    for old_anchor, new_anchor in (*anchors, (span[1], span[3])):
        if old_at < old_anchor or new_at < new_anchor:
            spans.append((old_at, old_anchor, new_at, new_anchor))
        old_at, new_at = old_anchor + 1, new_anchor + 1
    return spans


def _matched(old: Sequence[str], new: Sequence[str], span: _Span) -> list[Block]:
    old_start, old_end, new_start, new_end = span
    if (old_end - old_start) * (new_end - new_start) > MATCHER_LIMIT:
        return [Block(*span)]
    from difflib import SequenceMatcher  # most files are never compared

    matcher = SequenceMatcher(None, old[old_start:old_end], new[new_start:new_end], autojunk=False)
    return [
        Block(old_start + first, old_start + last, new_start + new_first, new_start + new_last)
        for kind, first, last, new_first, new_last in matcher.get_opcodes()
        if kind != "equal"
    ]


def _joined(blocks: Sequence[Block]) -> list[Block]:
    """Join blocks that touch on both sides."""
    joined: list[Block] = []
    for block in blocks:
        if joined and joined[-1].old_end == block.old_start and joined[-1].new_end == block.new_start:
            joined[-1] = Block(joined[-1].old_start, block.old_end, joined[-1].new_start, block.new_end)
        else:
            joined.append(block)
    return joined
