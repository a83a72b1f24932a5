"""The fewest text edits that turn one text into another, in the editor's positions. Pure.

Whole lines are compared first, then each changed block is trimmed to the characters that differ, so that undo, cursor and folds
of the rest stay, and a one-line edit of a large file is small on the wire.
"""

from collections.abc import Sequence

from sidecar.workspace.edits_blocks import Block, changed_blocks
from sidecar.workspace.positions import (
    Position,
    PositionEncoding,
    TextEdit,
    common_prefix,
    content_length,
    replace_edit,
    split_lines,
    units_in,
)


def text_edits(lines: Sequence[str], new: str, encoding: PositionEncoding) -> list[TextEdit]:
    """Return LSP TextEdits, in order and without overlap, that turn the document of ``lines`` (with their ends) into ``new``."""
    fresh = split_lines(new)
    return [_edit(lines, fresh, block, encoding) for block in changed_blocks(lines, fresh)]


def _edit(lines: Sequence[str], fresh: Sequence[str], block: Block, encoding: PositionEncoding) -> TextEdit:
    old = "".join(lines[block.old_start : block.old_end])
    new = "".join(fresh[block.new_start : block.new_end])
    head = common_prefix(old, new)
    tail = common_prefix(old[head:][::-1], new[head:][::-1])
    if head and old[head - 1] == "\r" and "\n" in {old[head : head + 1], new[head : head + 1]}:
        head -= 1
    if tail and old[len(old) - tail] == "\n" and "\r" in {_before(old, tail, head), _before(new, tail, head)}:
        tail -= 1
    if head == len(old) - tail and _at_end(lines, block, head):
        return _appended(lines, new[head : len(new) - tail], encoding)
    start = _position(lines, block.old_start, head, encoding)
    end = _position(lines, block.old_start, len(old) - tail, encoding)
    return replace_edit(start, end, new[head : len(new) - tail])


def _at_end(lines: Sequence[str], block: Block, offset: int) -> bool:
    """Whether the place ``offset`` code points into the block is the empty line after the last line end."""
    if lines[-1] or len(lines) == 1 or block.old_end < len(lines) - 1:
        return False
    return sum(map(len, lines[block.old_start :])) == offset


def _appended(lines: Sequence[str], text: str, encoding: PositionEncoding) -> TextEdit:
    """Return the insertion of ``text`` after everything.

    It hangs on the end of the last line that is there, where that makes the same text: editors to which a final line end begins
    no line (Neovim) would add an empty one.
    """
    last = lines[-2]
    end = last[content_length(last) :]
    place = len(lines) - 1, 0
    if text.endswith(end):
        place, text = (len(lines) - 2, units_in(last[: content_length(last)], encoding)), end + text.removesuffix(end)
    return replace_edit(place, place, text)


def _before(text: str, tail: int, head: int) -> str:
    at = len(text) - tail - 1
    return text[at] if at >= head else ""


def _position(lines: Sequence[str], line: int, offset: int, encoding: PositionEncoding) -> Position:
    """Return the position ``offset`` code points after the beginning of ``line``."""
    while line < len(lines) - 1 and offset >= len(lines[line]):
        offset -= len(lines[line])
        line += 1
    return line, units_in(lines[line][:offset], encoding)
