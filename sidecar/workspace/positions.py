"""Lines, offsets and LSP positions in the encoding the editor chose.

An LSP line ends with LF, CRLF or CR and nothing else (LSP 3.17, text documents); ``str.splitlines`` breaks at more. A position's
``character`` counts code units of the negotiated encoding: bytes (utf-8), 16-bit units (utf-16) or code points (utf-32).
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, Literal, TypeAlias

PositionEncoding: TypeAlias = Literal["utf-8", "utf-16", "utf-32"]
Position: TypeAlias = tuple[int, int]
TextEdit: TypeAlias = dict[str, Any]

DEFAULT_ENCODING: Final[PositionEncoding] = "utf-16"

_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")
_OTHER_ENDS: Final = ("\r", "\v", "\f", "\x1c", "\x1d", "\x1e")
"""What ``str.splitlines`` takes for a line end in ASCII, beside LF."""

_LONE_CR: Final = re.compile(r"(?<=\r)(?!\n)")
_UTF8_CONTINUATION: Final = range(0x80, 0xC0)


def split_lines(text: str) -> list[str]:
    """Cut ``text`` into lines with their ends; the last has none (and may be empty), so there is always at least one."""
    if text.isascii() and not any(end in text for end in _OTHER_ENDS):
        lines = text.splitlines(keepends=True)
        return lines if lines and not text.endswith("\n") else [*lines, ""]
    lines = [part + "\n" for part in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    if "\r" not in text:
        return lines
    cut: list[str] = []
    for line in lines:
        cut.extend(_LONE_CR.split(line) if "\r" in line else (line,))
    return cut


def content_length(line: str) -> int:
    """Return the length of ``line`` in code points without its line end."""
    if line.endswith("\r\n"):
        return len(line) - 2
    return len(line) - 1 if line.endswith(("\n", "\r")) else len(line)


def units_in(text: str, encoding: PositionEncoding) -> int:
    """Return how many code units ``text`` takes."""
    if encoding == "utf-32" or text.isascii():
        return len(text)
    if encoding == "utf-8":
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text) + sum(1 for _ in _ASTRAL.finditer(text))


def index_in_line(line: str, character: int, encoding: PositionEncoding) -> int:
    """Return the code point index of ``character`` in ``line``: never past the line's content, never inside a character."""
    limit = content_length(line)
    if character >= limit and encoding == "utf-32":
        return limit
    if encoding == "utf-32" or line.isascii():
        return max(0, min(character, limit))
    if encoding == "utf-8":
        return min(_utf8_index(line, character), limit)
    return min(_utf16_index(line, character), limit)


def _utf8_index(line: str, character: int) -> int:
    encoded = line.encode("utf-8", "surrogatepass")
    cut = max(0, min(character, len(encoded)))
    while 0 < cut < len(encoded) and encoded[cut] in _UTF8_CONTINUATION:
        cut -= 1
    return len(encoded[:cut].decode("utf-8", "surrogatepass"))


def _utf16_index(line: str, character: int) -> int:
    astral_before = 0
    for match in _ASTRAL.finditer(line):
        at = match.start() + astral_before
        if at >= character:
            break
        if at + 1 == character:
            return match.start()
        astral_before += 1
    return max(0, character - astral_before)


class LineBuffer:
    """Text as lines, so that an edit costs what it touches and not the size of the text.

    ``lines`` keep their ends; joined they are the text. Positions are clamped: a line past the end means the end of the text, a
    character past a line's content means its end (LSP 3.17, Position).
    """

    __slots__ = ("_text", "encoding", "lines")

    def __init__(self, text: str, encoding: PositionEncoding = DEFAULT_ENCODING) -> None:
        self.lines = split_lines(text)
        self.encoding: PositionEncoding = encoding
        self._text: str | None = text

    def copy(self) -> "LineBuffer":
        """Return an independent buffer that shares the line strings."""
        twin = LineBuffer("", self.encoding)
        twin.lines = self.lines.copy()
        twin._text = self._text
        return twin

    @property
    def text(self) -> str:
        """The whole text."""
        if self._text is None:
            self._text = "".join(self.lines)
        return self._text

    def set_text(self, text: str) -> None:
        """Replace everything."""
        self.lines = split_lines(text)
        self._text = text

    def replace(self, start: Position, end: Position, text: str) -> bool:
        """Put ``text`` in place of what stands from ``start`` to ``end``; false when a line number was out of the text."""
        if end < start:
            start, end = end, start
        within = end[0] <= len(self.lines) and start[0] >= 0
        first, first_index = self._locate(start)
        last, last_index = self._locate(end)
        before = self.lines[first][:first_index]
        after = self.lines[last][last_index:]
        if not before and first and self.lines[first - 1].endswith("\r"):
            first -= 1
            before = self.lines[first]
        fresh = split_lines(before + text + after)
        if last + 1 < len(self.lines):
            fresh = self._join_with_next(fresh)
        self.lines[first : last + 1] = fresh
        self._text = None
        return within

    @staticmethod
    def _join_with_next(fresh: list[str]) -> list[str]:
        """The replaced lines end with a line end, so the empty piece after it is the next line's beginning."""
        return fresh[:-1] if not fresh[-1] else fresh

    def _locate(self, position: Position) -> tuple[int, int]:
        line, character = position
        if line < 0:
            return 0, 0
        if line >= len(self.lines):
            return len(self.lines) - 1, len(self.lines[-1])
        return line, index_in_line(self.lines[line], character, self.encoding)

    def offset(self, position: Position) -> int:
        """Return the code point offset of ``position`` in the text."""
        line, index = self._locate(position)
        return sum(map(len, self.lines[:line])) + index

    def position(self, offset: int) -> Position:
        """Return the position of the code point at ``offset``; offsets outside the text mean its ends."""
        starts = [0, *accumulate(map(len, self.lines))]
        clamped = max(0, min(offset, starts[-1]))
        line = min(bisect_right(starts, clamped) - 1, len(self.lines) - 1)
        before = self.lines[line][: clamped - starts[line]]
        return line, units_in(before, self.encoding)

    @property
    def end(self) -> Position:
        """The position after the last character."""
        return len(self.lines) - 1, units_in(self.lines[-1], self.encoding)


def insert_edit(position: Position, text: str) -> TextEdit:
    """Return the LSP TextEdit that inserts ``text`` at ``position`` and touches nothing else."""
    point = {"line": position[0], "character": position[1]}
    return {"range": {"start": point, "end": dict(point)}, "newText": text}


def replace_edit(start: Position, end: Position, text: str) -> TextEdit:
    """Return the LSP TextEdit that puts ``text`` in place of ``start``..``end``."""
    first, last = ({"line": line, "character": character} for line, character in (start, end))
    return {"range": {"start": first, "end": last}, "newText": text}


def minimal_edit(old: str, new: str, encoding: PositionEncoding) -> TextEdit | None:
    """Return one TextEdit that turns ``old`` into ``new``, without what both begin and end with; None when they are equal.

    A CRLF pair is never cut in two, since an editor that counts lines differently would then miss the place.
    """
    if old == new:
        return None
    head = common_prefix(old, new)
    tail = common_prefix(old[head:][::-1], new[head:][::-1])
    if head and old[head - 1] == "\r" and "\n" in {old[head : head + 1], new[head : head + 1]}:
        head -= 1
    if tail and old[len(old) - tail] == "\n" and "\r" in {_before(old, tail, head), _before(new, tail, head)}:
        tail -= 1
    buffer = LineBuffer(old, encoding)
    start, end = buffer.position(head), buffer.position(len(old) - tail)
    return replace_edit(start, end, new[head : len(new) - tail])


def _before(text: str, tail: int, head: int) -> str:
    at = len(text) - tail - 1
    return text[at] if at >= head else ""


def common_prefix(first: Sequence[Any], second: Sequence[Any]) -> int:
    """Return how many leading items two strings (or two lists) share, by halving, so that the comparing is done in C."""
    low, high = 0, min(len(first), len(second))
    if first[:high] == second[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle
    return low
