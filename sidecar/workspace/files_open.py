"""The files that stand in the editor's buffers: which buffer is a file's, whether it is saved, and when it is quiet."""

import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import anyio
import anyio.to_thread
import attrs

from sidecar.errors import SidecarError
from sidecar.workspace.containment import Place, identity, resolve
from sidecar.workspace.documents import DocumentEvent, Documents
from sidecar.workspace.ordered_text import GAP_PATIENCE_SECONDS
from sidecar.workspace.positions import TextEdit
from sidecar.workspace.text_file import same_lines
from sidecar.workspace.text_file_disk import FileState, Snapshot, read_file
from sidecar.workspace.uris import uri_to_path

QUIET_SECONDS: Final = 0.2
QUIET_LIMIT_SECONDS: Final = 0.3
"""Editors tell of typing late (Neovim 150 ms): what changed just now is read after a pause, but not much later."""

Spawn: TypeAlias = Callable[[Callable[[], Awaitable[None]]], None]


class EditorDocuments(Protocol):
    """The editor's documents. What it says it did is a claim; the mirror shows what was done."""

    @property
    def documents(self) -> Documents:
        """The mirror of the open documents."""
        ...

    async def apply(self, uri: str, version: int, edits: Sequence[TextEdit]) -> bool:
        """Have the edits made to the document as it was at ``version``; False when the editor says that it did not.

        Raises ``Unavailable`` when it cannot be told what the editor did, or it never will: to ask again would do harm.
        """
        ...

    async def save(self, uri: str) -> bool:
        """Have the document saved by the editor itself; False when it cannot be asked to or did not."""
        ...

    async def reload(self, uri: str) -> bool:
        """Have an unchanged document read from the disk again; False when the editor cannot be asked to (the user is told)."""
        ...


@attrs.frozen
class Saved:
    """A text that stood in the buffer and in the file at the same time."""

    text: str = attrs.field(repr=False)
    state: FileState


class OpenFiles:
    """Follows the mirror. ``spawn`` runs a job beside."""

    def __init__(self, editor: EditorDocuments, spawn: Spawn, clock: Callable[[], float] = time.monotonic) -> None:
        self.editor = editor
        self._documents = editor.documents
        self._spawn = spawn
        self._clock = clock
        self._changed_at: dict[str, float] = {}
        self._saved: dict[str, Saved] = {}
        self._event = anyio.Event()
        for uri in self._documents.open_uris():
            self._compare(uri)
        self._stop = self._documents.listen(self._on_document)

    def close(self) -> None:
        """Stop following."""
        self._stop()

    def find(self, place: Place) -> str | None:
        """Return the URI of the document whose file this is, by identity where the file is there. Touches the disk."""
        wanted = identity(place.path)
        for uri in self._documents.open_uris():
            path = uri_to_path(uri)
            if path is None:
                continue
            if path == place.path or (wanted is not None and identity(path) == wanted):
                return uri
            if wanted is None and Path(path).name == Path(place.path).name and _real(path) == place.path:
                return uri
        return None

    def text(self, uri: str) -> str | None:
        """Return the buffer's text, or None when it was closed meanwhile."""
        return self._documents.text(uri)

    def saved(self, uri: str) -> Saved | None:
        """Return the text that buffer and file had in common last, or None when that is not known."""
        return self._saved.get(uri)

    def settle(self, uri: str, snapshot: Snapshot) -> None:
        """Note that buffer and file hold the same text now; what led there is no typing to wait for."""
        text = self._documents.text(uri)
        if text is not None and same_lines(text, snapshot.text):
            self._saved[uri] = Saved(text, snapshot.state)
            self._changed_at.pop(uri, None)

    async def quiet(self, uri: str) -> None:
        """Wait until the user pauses, and until versions that are missing have come; both bounded."""
        with anyio.move_on_after(QUIET_LIMIT_SECONDS):
            while (wait := self._changed_at.get(uri, float("-inf")) + QUIET_SECONDS - self._clock()) > 0:
                with anyio.move_on_after(wait):
                    await self._event.wait()
        with anyio.move_on_after(GAP_PATIENCE_SECONDS):
            while self._documents.certainty(uri) == "waiting":
                await self._event.wait()

    async def until(self, uri: str, condition: Callable[[str], bool], seconds: float) -> bool:
        """Wait until the buffer's text meets ``condition``; False when it does not in time, or the document is closed."""
        with anyio.move_on_after(seconds):
            while (text := self._documents.text(uri)) is not None and not condition(text):
                await self._event.wait()
        text = self._documents.text(uri)
        return text is not None and condition(text)

    def _on_document(self, event: DocumentEvent) -> None:
        if event.kind == "changed":
            self._changed_at[event.uri] = self._clock()
        elif event.kind in {"opened", "saved"}:
            self._saved.pop(event.uri, None)
            self._compare(event.uri)
        elif event.kind == "closed":
            self._saved.pop(event.uri, None)
            self._changed_at.pop(event.uri, None)
        before, self._event = self._event, anyio.Event()
        before.set()

    def _compare(self, uri: str) -> None:
        """Look, beside, whether a buffer just opened or saved holds what its file holds: then its text is saved."""
        path, text = uri_to_path(uri), self._documents.text(uri)
        if path is None or text is None:
            return

        async def look() -> None:
            snapshot = await anyio.to_thread.run_sync(_file_of_buffer, path)
            if snapshot is not None and same_lines(text, snapshot.text) and uri not in self._saved:
                self._saved[uri] = Saved(text, snapshot.state)

        self._spawn(look)


def _real(path: str) -> str:
    return str(Path(path).resolve())


def _file_of_buffer(path: str) -> Snapshot | None:
    """Read the file of a buffer, wherever it lies: the user opened it."""
    try:
        return read_file(resolve(path, [str(Path(path).parent)]))
    except (SidecarError, OSError):
        return None
