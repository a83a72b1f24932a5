"""Text that grows in small pieces and is read by offset, and large strings kept small. Pure.

Cost is linear in what is appended: pieces are collected in a list and joined late, never by ``text += piece`` on an attribute.
Offsets and lengths count Unicode code points.
"""

import re
from bisect import bisect_right
from typing import Any, Final, cast

TAIL_PIECES: Final = 1024
TAIL_CHARS: Final = 65536
"""With so many pieces or characters the tail is joined, so that no reader has to join much at once."""

BLOCK_CHARS: Final = 4096
PACK_CHARS: Final = 4096
PACK_DEPTH: Final = 32

_SPLIT_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def _is_high(char: str) -> bool:
    return "\ud800" <= char <= "\udbff"


def join_surrogates(text: str) -> str:
    """Return ``text`` with each high and low surrogate standing side by side made one character; lone ones stay."""
    if text.isascii() or not _SPLIT_PAIR.search(text):
        return text
    return _SPLIT_PAIR.sub(lambda pair: pair.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le"), text)


class TextBuffer:
    """A growing text. A high surrogate at the end waits for its other half, so that no reader sees half a character.

    ``length`` is what can be read; ``finish()`` lets a half character that will stay alone be read too.
    """

    __slots__ = ("_blocks", "_held", "_starts", "_tail", "_tail_start", "length")

    def __init__(self) -> None:
        self._blocks: list[str | bytes] = []
        self._starts: list[int] = []
        self._tail: list[str] = []
        self._tail_start = 0
        self._held: str = ""
        self.length = 0

    def append(self, text: str) -> None:
        """Add ``text`` at the end."""
        if not text:
            return
        if self._held:
            text = self._held + text
            self._held = ""
        if not text.isascii():
            text = join_surrogates(text)
            if _is_high(text[-1]):
                self._held = text[-1]
                text = text[:-1]
                if not text:
                    return
        self._tail.append(text)
        self.length += len(text)
        if len(self._tail) >= TAIL_PIECES or self.length - self._tail_start >= TAIL_CHARS:
            self._seal()

    def finish(self) -> bool:
        """Make a waiting half character readable; true when there was one."""
        if not self._held:
            return False
        self._tail.append(self._held)
        self.length += 1
        self._held = ""
        return True

    def read(self, start: int, limit: int | None = None) -> str:
        """Return at most ``limit`` code points from offset ``start``; cost follows what is read, not what is kept."""
        self._seal()
        end = self.length if limit is None else min(self.length, start + limit)
        if start >= end:
            return ""
        pieces: list[str] = []
        index = bisect_right(self._starts, start) - 1
        while index < len(self._blocks) and self._starts[index] < end:
            block = unpack_text(self._blocks[index])
            offset = self._starts[index]
            pieces.append(block[max(0, start - offset) : end - offset])
            index += 1
        return "".join(pieces)

    def text(self) -> str:
        """Return everything readable."""
        return self.read(0)

    def _seal(self) -> None:
        if not self._tail:
            return
        joined = "".join(self._tail)
        self._tail.clear()
        last = self._blocks[-1] if self._blocks else None
        if isinstance(last, str) and len(last) < BLOCK_CHARS:
            self._blocks[-1] = f"{last}{joined}"
        else:
            if isinstance(last, str):
                self._blocks[-1] = pack_text(last)
            self._blocks.append(joined)
            self._starts.append(self._tail_start)
        self._tail_start = self.length


def pack_text(text: str) -> str | bytes:
    """Return UTF-8 bytes for a long text that would take more than one byte a character in memory, else ``text``."""
    if len(text) <= PACK_CHARS or text.isascii():
        return text
    return text.encode("utf-8", "surrogatepass")


def unpack_text(packed: str | bytes) -> str:
    """Return the text ``pack_text`` was given."""
    return packed if isinstance(packed, str) else packed.decode("utf-8", "surrogatepass")


def pack(value: Any, depth: int = PACK_DEPTH) -> Any:
    """Return JSON ``value`` with long strings packed; parts deeper than ``depth`` levels are kept as they are."""
    if isinstance(value, str):
        return pack_text(value)
    if depth and isinstance(value, dict):
        return {key: pack(item, depth - 1) for key, item in cast("dict[str, Any]", value).items()}
    if depth and isinstance(value, (list, tuple)):
        return [pack(item, depth - 1) for item in cast("list[Any]", value)]
    return value


def unpack(value: Any, depth: int = PACK_DEPTH) -> Any:
    """Return a fresh JSON value equal to what ``pack`` was given."""
    if isinstance(value, bytes):
        return unpack_text(value)
    if depth and isinstance(value, dict):
        return {key: unpack(item, depth - 1) for key, item in cast("dict[str, Any]", value).items()}
    if depth and isinstance(value, list):
        return [unpack(item, depth - 1) for item in cast("list[Any]", value)]
    return value
