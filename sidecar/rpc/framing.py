"""Bytes in, messages' bytes out: newline framing (ACP, stdio transport) and Content-Length framing (LSP, base protocol).

Both framers are linear in the bytes fed, however these are cut, hold at most one message, and give what cannot be a message as a
value, so that one bad line costs one line.
"""

import re
from typing import TypeAlias

import attrs

EXCERPT_BYTES = 4096
HEADER_LIMIT_BYTES = 16384
HEADER_KEEP_BYTES = 64
BOM = b"\xef\xbb\xbf"

_HEADER_END = re.compile(rb"\r?\n\r?\n")
_CONTENT_LENGTH = re.compile(rb"content-length[ \t]*:[ \t]*([0-9]{1,12})[ \t]*\Z", re.IGNORECASE)
_OTHER_HEADER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+[ \t]*:")


@attrs.frozen
class Oversize:
    """A message above the limit was skipped. ``size`` in bytes; ``head`` and ``tail`` are its ends, enough to find its id."""

    size: int
    head: bytes = attrs.field(default=b"", repr=False)
    tail: bytes = attrs.field(default=b"", repr=False)


@attrs.frozen
class Partial:
    """The stream ended inside a message; ``data`` is what came of it."""

    data: bytes = attrs.field(repr=False)


@attrs.frozen
class BadHeader:
    """Bytes between two messages that are no usable header. The framer found, or seeks, the next one."""

    reason: str
    size: int


LineItem: TypeAlias = bytes | Oversize
FrameItem: TypeAlias = bytes | Oversize | BadHeader


class _Skipped:
    """Counts the bytes of a message that is too large, and keeps its two ends."""

    __slots__ = ("head", "size", "tail")

    def __init__(self, data: bytes | bytearray) -> None:
        self.size = 0
        self.head = bytearray()
        self.tail = bytearray()
        self.add(data)

    def add(self, data: bytes | bytearray | memoryview) -> None:
        self.size += len(data)
        if len(self.head) < EXCERPT_BYTES:
            self.head += data[: EXCERPT_BYTES - len(self.head)]
        self.tail += data[-EXCERPT_BYTES:]
        del self.tail[:-EXCERPT_BYTES]

    def finish(self) -> Oversize:
        return Oversize(self.size, bytes(self.head), bytes(self.tail))


class LineFramer:
    """Cuts a stream at 0x0A, and only there: U+2028, NUL and a lone CR stay inside their line.

    A CR before the LF and a byte order mark on the first line are taken off; empty lines are no messages and are left out. A line
    of more than ``max_bytes`` (its CR counted) becomes ``Oversize`` once its LF is there.
    """

    __slots__ = ("_first", "_held", "_max_bytes", "_skipped")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held = bytearray()
        self._skipped: _Skipped | None = None
        self._first = True

    def feed(self, data: bytes) -> list[LineItem]:
        """Take the bytes of one read; return the lines it completed, in order, without their line ends."""
        lines = data.split(b"\n")
        rest = lines.pop()
        items: list[LineItem] = []
        if lines:
            if self._held or self._skipped is not None or self._first:
                items = self._complete(lines.pop(0))
            items += self._plain(lines) if b"\r" in data or len(data) > self._max_bytes else filter(None, lines)
        self._hold(rest)
        return items

    def end(self) -> list[LineItem | Partial]:
        """Return what is left at the end of the stream: nothing, an ``Oversize``, or a ``Partial``."""
        skipped, held = self._skipped, bytes(self._held)
        self._skipped = None
        self._held.clear()
        if skipped is not None:
            return [skipped.finish()]
        return [Partial(held)] if held else []

    def _plain(self, lines: list[bytes]) -> list[LineItem]:
        limit = self._max_bytes
        return [
            Oversize(len(line), line[:EXCERPT_BYTES], line[-EXCERPT_BYTES:]) if len(line) > limit else line.removesuffix(b"\r")
            for line in lines
            if line and line != b"\r"
        ]

    def _complete(self, piece: bytes) -> list[LineItem]:
        self._hold(piece)
        skipped, line = self._skipped, bytes(self._held)
        self._skipped = None
        self._held = bytearray()
        first, self._first = self._first, False
        if skipped is not None:
            return [skipped.finish()]
        return self._plain([line.removeprefix(BOM) if first else line])

    def _hold(self, piece: bytes) -> None:
        if self._skipped is not None:
            self._skipped.add(piece)
        elif len(self._held) + len(piece) <= self._max_bytes:
            self._held += piece
        else:
            self._skipped = _Skipped(self._held)
            self._skipped.add(piece)
            self._held = bytearray()


class HeaderFramer:
    """Cuts a stream into bodies by their ``Content-Length`` header (LSP base protocol).

    Names match in any case, other headers are ignored, bare LF line ends are taken. Junk before a header, and a block without a
    usable length, become ``BadHeader``; the next ``Content-Length: N`` at a line's end starts anew, also behind junk.
    """

    __slots__ = ("_body", "_header", "_max_bytes", "_missing", "_skipped")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._header = bytearray()
        self._body = bytearray()
        self._skipped: _Skipped | None = None
        self._missing = 0

    def feed(self, data: bytes) -> list[FrameItem]:
        """Take the bytes of one read; return the bodies it completed, in order."""
        items: list[FrameItem] = []
        at = 0
        while at < len(data):
            if self._missing:
                at = self._take_body(data, at, items)
            elif self._header:
                at = self._continue_header(data, at, items)
            else:
                at = self._take_header(data, at, items)
        return items

    def end(self) -> list[Oversize | Partial]:
        """Return what is left at the end of the stream: nothing, an ``Oversize``, or a ``Partial`` header or body."""
        skipped, rest = self._skipped, bytes(self._body or self._header)
        cut = self._missing > 0 or bool(rest.strip())
        self._skipped, self._missing = None, 0
        self._body, self._header = bytearray(), bytearray()
        if skipped is not None:
            return [skipped.finish()]
        return [Partial(rest)] if cut else []

    def _take_header(self, data: bytes, at: int, items: list[FrameItem]) -> int:
        found = _HEADER_END.search(data, at, at + HEADER_LIMIT_BYTES)
        if found is not None:
            self._begin(data[at : found.start()], items)
            return found.end()
        if len(data) - at >= HEADER_LIMIT_BYTES:
            return at + self._give_up(items)
        self._header += data[at:]
        return len(data)

    def _continue_header(self, data: bytes, at: int, items: list[FrameItem]) -> int:
        known = len(self._header)
        taken = data[at : at + HEADER_LIMIT_BYTES - known]
        self._header += taken
        found = _HEADER_END.search(self._header, max(0, known - 3))
        if found is not None:
            block = bytes(self._header[: found.start()])
            self._header = bytearray()
            self._begin(block, items)
            return at + found.end() - known
        if len(self._header) >= HEADER_LIMIT_BYTES:
            del self._header[: self._give_up(items)]
        return at + len(taken)

    def _give_up(self, items: list[FrameItem]) -> int:
        dropped = HEADER_LIMIT_BYTES - HEADER_KEEP_BYTES
        items.append(BadHeader(f"no header ends within {HEADER_LIMIT_BYTES} bytes", dropped))
        return dropped

    def _begin(self, block: bytes, items: list[FrameItem]) -> None:
        length, junk = _read_header(block)
        if length is None:
            if block.strip():
                items.append(BadHeader("no usable Content-Length", len(block)))
            return
        if junk:
            items.append(BadHeader("bytes that are no header stand before Content-Length", junk))
        if length > self._max_bytes:
            self._skipped = _Skipped(b"")
        elif length == 0:
            items.append(b"")
        self._missing = length

    def _take_body(self, data: bytes, at: int, items: list[FrameItem]) -> int:
        end = min(len(data), at + self._missing)
        self._missing -= end - at
        if self._skipped is not None:
            self._skipped.add(memoryview(data)[at:end])
            if not self._missing:
                items.append(self._skipped.finish())
                self._skipped = None
        elif self._missing:
            self._body += memoryview(data)[at:end]
        elif self._body:
            self._body += memoryview(data)[at:end]
            items.append(bytes(self._body))
            self._body = bytearray()
        else:
            items.append(data[at:end])
        return end


def _read_header(block: bytes) -> tuple[int | None, int]:
    """Return the length a header block names (the last one counts) and how many bytes of it are no header."""
    length: int | None = None
    junk = 0
    for line in block.split(b"\n"):
        text = line.removesuffix(b"\r")
        found = _CONTENT_LENGTH.search(text)
        if found is not None:
            length = int(found[1])
            junk += found.start()
        elif text.strip() and _OTHER_HEADER.match(text) is None:
            junk += len(text)
    return length, junk
