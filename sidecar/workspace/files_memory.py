"""What each session last saw of each file: the common text that a write is merged from. Bounded; no I/O."""

from collections import OrderedDict
from typing import Final

import attrs

from sidecar.workspace.text_file import digest, plain

MAX_KEPT_CHARS: Final = 32 * 1024 * 1024
MAX_KEPT_FILES: Final = 4096


@attrs.frozen
class Seen:
    """``text`` is None when it was too much to keep; the hash still tells whether the file is as it was."""

    content_hash: str
    text: str | None = attrs.field(default=None, repr=False)

    def is_text(self, text: str) -> bool:
        """Return whether ``text`` is what was seen, line ends aside."""
        return self.content_hash == content_hash(text)


def content_hash(text: str) -> str:
    """Return the hash of a text without regard to its line ends."""
    return digest(plain(text).encode("utf-8", "surrogatepass"))


class ReadMemory:
    """The texts last read or written, by session and real path; the oldest go first."""

    def __init__(self, max_chars: int = MAX_KEPT_CHARS) -> None:
        self._max_chars = max_chars
        self._chars = 0
        self._texts: OrderedDict[tuple[str, str], str | Seen] = OrderedDict()

    def remember(self, session_id: str, path: str, text: str) -> None:
        """Note that the session knows ``text`` as the file's."""
        key = (session_id, path)
        self._drop(key)
        self._texts[key] = text
        self._chars += len(text)
        self._shrink()

    def recall(self, session_id: str, path: str) -> Seen | None:
        """Return what the session saw last, or None when it never saw the file."""
        found = self._texts.get((session_id, path))
        return Seen(content_hash(found), found) if isinstance(found, str) else found

    def _drop(self, key: tuple[str, str]) -> None:
        found = self._texts.pop(key, None)
        if isinstance(found, str):
            self._chars -= len(found)

    def _shrink(self) -> None:
        for key, found in list(self._texts.items()):
            if self._chars <= self._max_chars:
                break
            if isinstance(found, str):
                self._chars -= len(found)
                self._texts[key] = Seen(content_hash(found))
        while len(self._texts) > MAX_KEPT_FILES:
            self._drop(next(iter(self._texts)))
