"""Writing a file for an agent without losing what its user typed since the agent read it.

The agent's text is merged with what stands there now; where both changed the same lines the write is refused and the agent told
what stands there. An open file is changed in its buffer by small edits, seen in the mirror, and then written to the disk too.
"""

import secrets
from collections.abc import Callable, Sequence
from typing import Final

import anyio
import anyio.to_thread
import attrs

from sidecar.errors import Refused, SidecarError, Unavailable
from sidecar.session.interaction import Answer, PermissionAnswer, PermissionOption, PermissionRequest, Withdrawal
from sidecar.workspace.actor_core import SessionCore
from sidecar.workspace.containment import Place, resolve
from sidecar.workspace.edits import text_edits
from sidecar.workspace.files_memory import ReadMemory
from sidecar.workspace.files_open import OpenFiles
from sidecar.workspace.files_rules import FileRules
from sidecar.workspace.merge import gist, merge
from sidecar.workspace.text_file import encode, keep_line_ends, plain, same_lines
from sidecar.workspace.text_file_disk import ChangedMeanwhile, Snapshot, read_file, write_file

ATTEMPTS: Final = 4
SEEN_SECONDS: Final = 2.0
"""How long an edit is waited for in the mirror (Neovim tells of changes 150 ms late)."""

REPORT_SECONDS: Final = 0.5
"""How long the change is waited for that made the editor refuse an edit."""

ALLOW: Final = PermissionOption("allow-once", "Allow this write", "allow_once")
REJECT: Final = PermissionOption("reject", "Reject", "reject_once")


@attrs.frozen
class FileWritten:
    """A write that changed a file on the disk. ``before`` is None for a new file; ``buffer`` is the text of its open buffer."""

    session_id: str
    path: str
    before: Snapshot | None
    after: Snapshot
    buffer: str | None = attrs.field(default=None, repr=False)


@attrs.frozen
class _Job:
    """One write: who, where, and the text wanted. ``document`` is the URI of the open buffer, if any."""

    session: SessionCore
    place: Place
    content: str = attrs.field(repr=False)
    document: str | None


class _Locks:
    """One write at a time for each name, in the order they came; a name nobody waits for is forgotten."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[anyio.Lock, int]] = {}

    def take(self, name: str) -> anyio.Lock:
        lock, users = self._locks.get(name, (anyio.Lock(), 0))
        self._locks[name] = (lock, users + 1)
        return lock

    def leave(self, name: str) -> None:
        lock, users = self._locks.pop(name)
        if users > 1:
            self._locks[name] = (lock, users - 1)


class FileWriter:
    """Writes for all sessions. ``opened`` is None without an editor."""

    def __init__(self, opened: OpenFiles | None, memory: ReadMemory, rules: FileRules) -> None:
        self._open = opened
        self._memory = memory
        self._rules = rules
        self._asked = _Locks()
        self._real = _Locks()
        self._listeners: list[Callable[[FileWritten], None]] = []

    def observe(self, listener: Callable[[FileWritten], None]) -> Callable[[], None]:
        """Call ``listener`` after each change; returns the way to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def write(self, session: SessionCore, path: str, folders: Sequence[str], content: str) -> None:
        """Make ``content`` the file's text, as far as what stands there allows; raises ``SidecarError`` with the reason."""
        asked = self._asked.take(path)
        try:
            async with asked:
                place = await anyio.to_thread.run_sync(self._checked_place, path, folders)
                if (why := self._rules.why_ask(path, place)) is not None:
                    await self._ask(session, place, why, content)
                await self._write_at(session, path, folders, place, content)
        finally:
            self._asked.leave(path)

    async def _write_at(self, session: SessionCore, path: str, folders: Sequence[str], place: Place, content: str) -> None:
        real = self._real.take(place.path)
        try:
            async with real:
                for _ in range(ATTEMPTS):
                    again = await anyio.to_thread.run_sync(self._checked_place, path, folders)
                    if again != place:
                        raise Refused(f"{place.shown} leads somewhere else than a moment ago; nothing was written. Try again.")
                    uri = self._open.find(place) if self._open is not None else None
                    try:
                        await self._write_once(_Job(session, place, content, uri))
                    except ChangedMeanwhile:
                        continue
                    return
                raise Unavailable(f"{place.shown} keeps changing while it is written; nothing of it was taken. Try again later.")
        finally:
            self._real.leave(place.path)

    def _checked_place(self, path: str, folders: Sequence[str]) -> Place:
        place = resolve(path, folders)
        self._rules.check(place)
        return place

    # --- what is written ------------------------------------------------------------------------------------------------------

    async def _write_once(self, job: _Job) -> None:
        disk = await anyio.to_thread.run_sync(read_file, job.place)
        if job.document is not None and self._open is not None:
            after = await self._write_open(job, job.document, self._open, disk)
        else:
            current = disk.text if disk is not None else ""
            after = await self._to_disk(job.place, self._wanted(job, current, disk), disk)
        self._memory.remember(job.session.identity.session_id, job.place.path, job.content)
        if disk is None or disk.content_hash != after.content_hash:
            buffer = self._open.text(job.document) if self._open is not None and job.document is not None else None
            written = FileWritten(job.session.identity.session_id, job.place.path, disk, after, buffer)
            for listener in tuple(self._listeners):
                listener(written)

    @staticmethod
    async def _to_disk(place: Place, text: str, disk: Snapshot | None) -> Snapshot:
        if disk is not None and keep_line_ends(disk.text, text) == disk.text:
            return disk
        return await anyio.to_thread.run_sync(write_file, place, text, disk)

    def _wanted(self, job: _Job, current: str, disk: Snapshot | None) -> str:
        """Return the agent's text with what changed since it read the file, in the line ends of ``current``."""
        seen = self._memory.recall(job.session.identity.session_id, job.place.path)
        if seen is None:
            base = disk.text if disk is not None else ""  # it can only know what its own eyes saw on the disk
        elif seen.is_text(current):
            base = current
        elif seen.text is not None:
            base = seen.text
        else:
            raise self._conflict(job, "", current)
        merged = merge(base, current, job.content)
        if merged is None:
            raise self._conflict(job, base, current)
        if not current:
            return job.content
        return keep_line_ends(current, merged)

    @staticmethod
    def _conflict(job: _Job, base: str, current: str) -> Refused:
        where = "in the editor" if job.document is not None else "on the disk"
        return Refused(
            f"{job.place.shown} was not written: it changed {where} since you read it, in the lines you change too. "
            f"It holds now:\n{gist(base, current)}\nRead it again and redo your change on top of that."
        )

    # --- open files -----------------------------------------------------------------------------------------------------------

    async def _write_open(self, job: _Job, uri: str, opened: OpenFiles, disk: Snapshot | None) -> Snapshot:
        place = job.place
        await opened.quiet(uri)
        buffer = opened.text(uri)
        if buffer is None:
            raise ChangedMeanwhile(f"{place.shown} was closed in the editor at this very moment")
        if opened.editor.documents.is_unsure(uri):
            why = opened.editor.documents.why_unsure(uri)
            raise Unavailable(f"{place.shown} is open in the editor and its text is not known for sure ({why}); save it first")
        target = self._wanted(job, self._current(job, uri, buffer, disk), disk)
        target = keep_line_ends(buffer, plain(target)) if buffer else target
        if disk is not None:
            encode(target, disk.form, place.shown)
        await self._edit(opened, uri, buffer, target, place)
        return await self._save(opened, uri, place, disk)

    def _current(self, job: _Job, uri: str, buffer: str, disk: Snapshot | None) -> str:
        """Return what counts as the file's text now: the buffer, with what others wrote to the disk since it was saved."""
        saved = self._open.saved(uri) if self._open is not None else None
        if disk is None or saved is None or saved.state == disk.state or same_lines(saved.text, disk.text):
            return buffer
        merged = merge(saved.text, buffer, disk.text)
        if merged is None:
            raise Refused(
                f"{job.place.shown} was not written: it has unsaved changes in the editor and was changed on the disk too, in "
                "the same lines. The user has to decide which of them stays; ask them to."
            )
        return keep_line_ends(buffer, merged)

    @staticmethod
    async def _edit(opened: OpenFiles, uri: str, buffer: str, target: str, place: Place) -> None:
        """Have the buffer changed, and see that it was: what the user typed meanwhile may stand there too."""
        documents = opened.editor.documents
        mirror, version = documents.buffer(uri), documents.version(uri)
        if mirror is None or version is None or mirror.text != buffer:
            raise ChangedMeanwhile(f"{place.shown} was changed in the editor at this very moment")
        edits = text_edits(mirror.lines, target, documents.encoding)
        if not edits:
            return

        def is_there(text: str) -> bool:
            return _holds(text, buffer, target)

        applied = await opened.editor.apply(uri, version, edits)
        if not applied:
            await opened.until(uri, lambda text: text != buffer, REPORT_SECONDS)
        if not await opened.until(uri, is_there, SEEN_SECONDS if applied else 0):
            raise ChangedMeanwhile(f"the editor did not make the change to {place.shown}")

    @staticmethod
    async def _save(opened: OpenFiles, uri: str, place: Place, disk: Snapshot | None) -> Snapshot:
        """Put the buffer's text on the disk: by the editor, where its plugin can, else by ourselves."""
        text = opened.text(uri)
        if text is None:
            raise ChangedMeanwhile(f"{place.shown} was closed in the editor at this very moment")
        if disk is not None and same_lines(disk.text, text):
            opened.settle(uri, disk)
            return disk
        if await opened.editor.save(uri):
            found = await anyio.to_thread.run_sync(read_file, place)
            text = opened.text(uri) or text
            if found is not None and same_lines(found.text, text):
                opened.settle(uri, found)
                return found
            if found is not None and (disk is None or found.state != disk.state):
                disk = found
        after = await anyio.to_thread.run_sync(write_file, place, text, disk)
        opened.settle(uri, after)
        return after

    # --- protected files ------------------------------------------------------------------------------------------------------

    async def _ask(self, session: SessionCore, place: Place, why: str, content: str) -> None:
        """Ask the user for this one write; raises ``Refused`` unless it is allowed."""
        diff = {"path": place.path, "oldText": await anyio.to_thread.run_sync(_old_text, place), "newText": content}
        body = PermissionRequest(
            tool_call_id=f"sidecar-write-{secrets.token_hex(4)}",
            title=f"Write {place.shown}: {why}",
            options=(REJECT, ALLOW),
            tool_kind="edit",
            path=place.path,
            diff=diff,
            origin="sidecar",
        )
        decided = anyio.Event()
        given: list[Answer | Withdrawal] = []

        def answered(answer: Answer | Withdrawal) -> None:
            given.append(answer)
            decided.set()

        handle = session.ask(body, answered)
        try:
            await decided.wait()
        finally:
            handle.withdraw(Withdrawal.AGENT_WITHDREW)
        answer = given[0]
        if isinstance(answer, Withdrawal):
            raise Refused(f"{place.shown} was not written: {why}, and the user was not able to decide ({answer.value})")
        if not isinstance(answer, PermissionAnswer) or answer.option_id != ALLOW.option_id:
            raise Refused(f"{place.shown} was not written: {why}, and the user rejected it")


def _old_text(place: Place) -> str | None:
    try:
        found = read_file(place)
    except SidecarError:
        return None
    return found.text if found is not None else None


def _holds(text: str, before: str, target: str) -> bool:
    """Whether ``text`` has every change that leads from ``before`` to ``target``; a final newline an editor insists on aside."""
    merged = merge(before, text, target)
    return merged is not None and merged.removesuffix("\n") == plain(text).removesuffix("\n")
