"""The end of a command's output within a byte limit: UTF-8 text, cut from the start at a character boundary. No I/O.

ACP v1, terminal/output: what exceeds ``outputByteLimit`` goes from the beginning.
"""

import codecs
from typing import Final

CONTINUATION: Final = bytes(range(0x80, 0xC0))


class OutputTail:
    """Takes bytes as a program wrote them; keeps valid UTF-8 of at most ``limit`` bytes, in a ring once they are reached.

    What is no UTF-8 becomes U+FFFD; a character split over two reads is put together. Work is linear in what is fed.
    """

    def __init__(self, limit: int) -> None:
        self._limit = max(0, limit)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._ring = bytearray()
        self._oldest = 0
        self._total = 0

    @property
    def truncated(self) -> bool:
        """Whether something was cut."""
        return self.cut(self._limit)

    def cut(self, limit: int) -> bool:
        """Whether the last ``limit`` bytes are not all there was."""
        return self._total > limit

    def feed(self, data: bytes) -> None:
        """Append what was read."""
        if data.isascii() and not self._decoder.getstate()[0]:
            self._append(data)
        else:
            self._append(self._decoder.decode(data).encode())

    def finish(self) -> None:
        """The output ended: half a character at its end is shown as U+FFFD."""
        self._append(self._decoder.decode(b"", final=True).encode())

    def _append(self, data: bytes) -> None:
        self._total += len(data)
        room = self._limit - len(self._ring)
        if room:
            self._ring += data[:room]
            data = data[room:]
        data = data[-self._limit :] if self._limit else b""
        first = data[: self._limit - self._oldest]
        rest = data[len(first) :]
        self._ring[self._oldest : self._oldest + len(first)] = first
        self._ring[: len(rest)] = rest
        if data:
            self._oldest = (self._oldest + len(data)) % self._limit

    def text(self, limit: int | None = None) -> str:
        """Return the last ``limit`` bytes (no more than are kept) as text that begins with a whole character."""
        wanted = min(len(self._ring), len(self._ring) if limit is None else limit)
        newer = self._ring[max(0, self._oldest - wanted) : self._oldest]
        older = wanted - len(newer)
        whole = self._ring[len(self._ring) - older :] + newer
        return whole.lstrip(CONTINUATION).decode()
