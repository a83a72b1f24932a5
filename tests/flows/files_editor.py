"""An editor of its own for tests of the user's files: buffers that check versions, a plugin or none, lies and late reports.

It keeps its texts by itself, in its own way (one string, code points), so that a wrong position in an edit shows.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from sidecar.workspace.documents import Documents
from sidecar.workspace.positions import PositionEncoding, TextEdit


@attrs.define
class Buffer:
    """A text as the user sees it; ``undo`` holds what stood there before each change."""

    text: str
    version: int = 1
    reported: int = 1
    undo: list[str] = attrs.Factory(list[str])


class FilesEditor:
    """Implements ``EditorDocuments``.

    ``plugin``: saves and reloads when asked to. ``lies``: says that it applied an edit it refused. ``before_edit`` is called once
    before the next edit is looked at (the user types at that very moment). ``late`` keeps reports until ``report`` is called.
    """

    def __init__(self, encoding: PositionEncoding = "utf-16", *, plugin: bool = False) -> None:
        self.documents = Documents(encoding)
        self.plugin = plugin
        self.lies = False
        self.deaf = False
        self.late = False
        self.before_edit: Callable[[], None] | None = None
        self.after_edit: Callable[[], None] | None = None
        self.buffers: dict[str, Buffer] = {}
        self.edits: list[Sequence[TextEdit]] = []
        self.saves: list[str] = []
        self.reloads: list[str] = []

    # --- what the user does -----------------------------------------------------------------------------------------------

    def open(self, path: Path, text: str | None = None) -> Buffer:
        """Open a file; ``text`` is what stands in the buffer when that is not what stands on the disk."""
        shown = path.read_bytes().decode("utf-8-sig") if text is None else text
        buffer = self.buffers[path.as_uri()] = Buffer(shown)
        item = {"uri": path.as_uri(), "languageId": "text", "version": 1, "text": shown}
        self.documents.did_open({"textDocument": item})
        return buffer

    def type(self, path: Path, text: str) -> None:
        """Make ``text`` the buffer's, as the user's work."""
        uri = path.as_uri()
        self._change(self.buffers[uri], text)
        if not self.late:
            self.report(uri)

    def undo(self, path: Path) -> None:
        """Take the last change back."""
        buffer = self.buffers[path.as_uri()]
        buffer.text, buffer.version = buffer.undo.pop(), buffer.version + 1
        self.report(path.as_uri())

    def close(self, path: Path) -> None:
        """Close the buffer."""
        del self.buffers[path.as_uri()]
        self.documents.did_close({"textDocument": {"uri": path.as_uri()}})

    def write(self, path: Path) -> None:
        """Save the buffer, with the form the file has."""
        data = path.read_bytes() if path.exists() else b""
        mark = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
        path.write_bytes(mark + self.buffers[path.as_uri()].text.encode())
        self.documents.did_save({"textDocument": {"uri": path.as_uri()}})

    @staticmethod
    def _change(buffer: Buffer, text: str) -> None:
        buffer.undo.append(buffer.text)
        buffer.text, buffer.version = text, buffer.version + 1

    def report(self, uri: str) -> None:
        """Tell what changed since the last report, as one change of the whole text."""
        buffer = self.buffers[uri]
        if buffer.reported != buffer.version:
            buffer.reported = buffer.version
            identifier = {"uri": uri, "version": buffer.version}
            self.documents.did_change({"textDocument": identifier, "contentChanges": [{"text": buffer.text}]})

    # --- what it is asked -------------------------------------------------------------------------------------------------

    async def apply(self, uri: str, version: int, edits: Sequence[TextEdit]) -> bool:
        if self.before_edit is not None:
            act, self.before_edit = self.before_edit, None
            act()
        buffer = self.buffers.get(uri)
        if self.deaf or buffer is None or version != buffer.version:
            if buffer is not None:
                self.report(uri)
            return self.lies
        self.edits.append(edits)
        self._change(buffer, self._edited(buffer.text, edits))
        self.report(uri)
        if self.after_edit is not None:
            act, self.after_edit = self.after_edit, None
            act()
        return True

    async def save(self, uri: str) -> bool:
        if self.plugin:
            self.saves.append(uri)
            self.write(Path(uri.removeprefix("file://")))
        return self.plugin

    async def reload(self, uri: str) -> bool:
        self.reloads.append(uri)
        if self.plugin:
            self._change(self.buffers[uri], Path(uri.removeprefix("file://")).read_bytes().decode("utf-8-sig"))
            self.report(uri)
        return self.plugin

    def _edited(self, text: str, edits: Sequence[TextEdit]) -> str:
        places = [(self._offset(text, edit["range"]["start"]), self._offset(text, edit["range"]["end"]), edit) for edit in edits]
        for start, end, edit in sorted(places, key=lambda place: place[:2], reverse=True):
            text = text[:start] + edit["newText"] + text[end:]
        return text

    def _offset(self, text: str, position: dict[str, int]) -> int:
        starts = [0]
        for at, character in enumerate(text):
            if character == "\n" or (character == "\r" and text[at + 1 : at + 2] != "\n"):
                starts.append(at + 1)
        start = starts[position["line"]]
        units = 0
        at = start
        while units < position["character"]:
            units += self._units(text[at])
            at += 1
        assert units == position["character"], "an edit points into the middle of a character"
        return at

    def _units(self, character: str) -> int:
        if self.documents.encoding == "utf-8":
            return len(character.encode())
        return len(character.encode("utf-16-le")) // 2 if self.documents.encoding == "utf-16" else 1
