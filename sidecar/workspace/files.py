"""The user's files as agents read and write them: unsaved buffers first, the disk else (ACP v1, file system).

Every path is resolved and must lie in the session's folders. Reading is here; writing is in ``files_write``.
"""

from collections.abc import Callable
from typing import Final

import anyio.to_thread
import attrs

from sidecar.errors import SidecarBug
from sidecar.session.ports import SessionSink
from sidecar.workspace.actor_core import SessionCore
from sidecar.workspace.containment import Place, resolve
from sidecar.workspace.files_memory import ReadMemory
from sidecar.workspace.files_open import EditorDocuments, OpenFiles, Saved, Spawn
from sidecar.workspace.files_rules import FileRules
from sidecar.workspace.files_write import FileWriter, FileWritten
from sidecar.workspace.positions import split_lines
from sidecar.workspace.text_file import MissingFile, UnusableFile, same_lines
from sidecar.workspace.text_file_disk import Snapshot, disk_state, existing_file, read_file

FIRST_LINE: Final = 1


@attrs.frozen
class _Found:
    """A file that was looked up: where it is, and the document it stands in, if any."""

    place: Place
    uri: str | None


class FileService:
    """Implements ``session.ports.FilesService``. ``editor`` is None where there is none: then the disk is all there is."""

    def __init__(self, spawn: Spawn, editor: EditorDocuments | None = None, rules: FileRules | None = None) -> None:
        self._rules = rules or FileRules()
        self._open = OpenFiles(editor, spawn) if editor is not None else None
        self._spawn = spawn
        self._memory = ReadMemory()
        self._writer = FileWriter(self._open, self._memory, self._rules)

    def observe(self, listener: Callable[[FileWritten], None]) -> Callable[[], None]:
        """Call ``listener`` after each write that changed a file; returns the way to stop."""
        return self._writer.observe(listener)

    async def read_text(self, sink: SessionSink, path: str, line: int | None = None, limit: int | None = None) -> str:
        session = _session_of(sink)
        found = await anyio.to_thread.run_sync(self._look_up, path, folders_of(session))
        text = await self._text(session, found)
        self._memory.remember(session.identity.session_id, found.place.path, text)
        return part_of(text, line, limit)

    async def write_text(self, sink: SessionSink, path: str, content: str) -> None:
        session = _session_of(sink)
        await self._writer.write(session, path, folders_of(session), content)

    def _look_up(self, path: str, folders: tuple[str, ...]) -> _Found:
        place = resolve(path, folders)
        self._rules.check(place)
        return _Found(place, self._open.find(place) if self._open is not None else None)

    async def _text(self, session: SessionCore, found: _Found) -> str:
        if found.uri is not None and self._open is not None:
            text = await self._buffer_text(session, found.place, found.uri, self._open)
            if text is not None:
                return text
        return (await anyio.to_thread.run_sync(existing_file, found.place)).text

    async def _buffer_text(self, session: SessionCore, place: Place, uri: str, opened: OpenFiles) -> str | None:
        """Return what the buffer holds, or None when the disk is to be read: closed, not known for sure, older and clean."""
        await opened.quiet(uri)
        documents = opened.editor.documents
        text = documents.text(uri)
        if text is None:
            return None
        if documents.is_unsure(uri):
            why = documents.why_unsure(uri)
            session.notice(
                "warning", f"The agent read {place.shown} from the disk, not from the editor", f"{why}; save it to be sure"
            )
            return None
        saved = opened.saved(uri)
        if saved is not None and saved.text == text and await _is_older(opened, place, uri, saved):
            self._spawn(lambda: _reload(opened.editor, uri))
            return None
        return text


async def _is_older(opened: OpenFiles, place: Place, uri: str, saved: Saved) -> bool:
    """Whether the file holds another text than its unchanged buffer."""
    if await anyio.to_thread.run_sync(disk_state, place) == saved.state:
        return False
    newer = await anyio.to_thread.run_sync(_readable, place)
    if newer is None:
        return False
    if same_lines(newer.text, saved.text):
        opened.settle(uri, newer)
        return False
    return True


async def _reload(editor: EditorDocuments, uri: str) -> None:
    await editor.reload(uri)


def _readable(place: Place) -> Snapshot | None:
    """Return the file on the disk, or None when it is gone or no text any more: the buffer is all there is then."""
    try:
        return read_file(place)
    except (MissingFile, UnusableFile):
        return None


def _session_of(sink: SessionSink) -> SessionCore:
    if not isinstance(sink, SessionCore):
        raise SidecarBug("files were asked for by something that is no session")
    return sink


def folders_of(session: SessionCore) -> tuple[str, ...]:
    """Return the folders a session may work in, its own first."""
    spec = session.identity.spec
    return (spec.cwd, *spec.additional_directories)


def part_of(text: str, line: int | None, limit: int | None) -> str:
    """Return ``limit`` lines of ``text`` from ``line`` on (counted from 1; 0 means the first), with their ends."""
    if line in {None, 0, FIRST_LINE} and limit is None:
        return text
    lines = split_lines(text)
    start = max((line or FIRST_LINE) - FIRST_LINE, 0)
    return "".join(lines[start:] if limit is None else lines[start : start + limit])
