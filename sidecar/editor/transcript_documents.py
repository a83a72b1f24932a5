"""The transcripts of one editor: which document belongs to which session, how it is opened, and the user's unsent text.

While a transcript is open its buffer is the truth and its file is left alone; the file is written when it is opened next.
"""

import os
import re
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import anyio
import attrs

from sidecar.config.paths import private_directory
from sidecar.editor.parts import Front
from sidecar.editor.transcript_stream import TranscriptStream, plain_lines
from sidecar.errors import EditorFault, Unavailable
from sidecar.session.interaction import Answer, Withdrawal
from sidecar.store.sessions import SessionStore
from sidecar.workspace.actor import SessionActor
from sidecar.workspace.broker import Pending
from sidecar.workspace.documents import DocumentEvent
from sidecar.workspace.uris import normalise_uri, path_to_uri, uri_to_path

SETTLE_SECONDS: Final = 0.1
"""The composer is read this long after the last change, since editors send changes late."""

SETTLE_LIMIT_SECONDS: Final = 3.0
DRAFT_SECONDS: Final = 1.0
UNANNOUNCED_SHOW_SECONDS: Final = 2.0
SHOWS_UNANNOUNCED: Final = "helix"
_FILE: Final = re.compile(r"(s-[0-9a-f]+)\.md")


@attrs.define(eq=False)
class Transcript:
    """One session's document. ``stream`` is there while it is open, or about to be; ``composed`` is the composer's last text."""

    session_id: str
    uri: str
    path: str
    stream: TranscriptStream | None = None
    running: bool = False
    composed: str = ""
    draft: str = ""
    changed_at: float = float("-inf")
    draft_waits: bool = False
    sending: bool = False
    last_line: int = 0


class Transcripts:
    """All of them. ``last`` is the one the user was in most recently, ``inside`` whether that was their last document at all."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._token = secrets.token_hex(2)
        self._by_uri: dict[str, Transcript] = {}
        self.last: Transcript | None = None
        self.inside = False
        front.documents.listen(self._on_document)
        front.workspace.broker.subscribe(self._on_questions)
        front.workspace.broker.on_ended(self._on_question_ended)

    # --- finding ------------------------------------------------------------------------------------------------------------

    def at(self, uri: object) -> Transcript | None:
        """Return the open transcript of a URI as the editor writes it."""
        if not isinstance(uri, str):
            return None
        found = self._by_uri.get(normalise_uri(uri))
        return found if found is not None and found.running else None

    def open_ones(self) -> list[Transcript]:
        """Return those that stand in a buffer."""
        return [transcript for transcript in self._by_uri.values() if transcript.running]

    def of_session(self, session_id: str) -> Transcript | None:
        """Return the open transcript of a session."""
        return next((transcript for transcript in self.open_ones() if transcript.session_id == session_id), None)

    def meant(self, session_id: str | None) -> Transcript:
        """Return the open transcript of the session named, else the one the user was in last, else the only one."""
        found = self.of_session(session_id) if session_id is not None else None
        if session_id is None:
            opened = self.open_ones()
            found = self.last if self.last in opened else opened[0] if len(opened) == 1 else None
        if found is None:
            raise EditorFault("no transcript is open here; sidecar.transcript.open opens it")
        return found

    def live(self, transcript: Transcript) -> TranscriptStream:
        """Return the stream of an open transcript."""
        if transcript.stream is None:
            raise EditorFault("the session of this transcript is not known any more; sidecar.transcript.open opens another")
        return transcript.stream

    def section(self, transcript: Transcript, question_id: str) -> list[str] | None:
        """Return the lines of a question's section as they stand in the buffer; None when it does not stand whole."""
        buffer = self._front.documents.buffer(transcript.uri)
        place = transcript.stream.place(question_id) if transcript.stream is not None else None
        return plain_lines(buffer.lines[place[0] : place[1] + 1]) if buffer is not None and place is not None else None

    # --- opening ------------------------------------------------------------------------------------------------------------

    async def open(self, actor: SessionActor) -> dict[str, Any]:
        """Write the document anew unless it stands in a buffer, and have the editor show it: ``{"uri", "path"}``."""
        transcript = await self._transcript(actor.identity.session_id)
        if not transcript.running:
            await self._write(transcript, actor)
        buffer = self._front.documents.buffer(transcript.uri)
        if buffer is not None:
            transcript.last_line = len(buffer.lines) - (1 if buffer.lines[-1] else 2)
        self.last = transcript
        await self._show(transcript)
        return {"uri": transcript.uri, "path": transcript.path, "sessionId": transcript.session_id}

    async def _transcript(self, session_id: str) -> Transcript:
        path = await self._store(lambda store: os.path.realpath(store.transcript_path(session_id)))
        uri = path_to_uri(path)
        return self._by_uri.setdefault(uri, Transcript(session_id, uri, path))

    async def _write(self, transcript: Transcript, actor: SessionActor) -> None:
        session_id, path = transcript.session_id, Path(transcript.path)
        draft = await self._store(lambda store: store.draft(session_id))
        if transcript.running:
            return  # opened by hand meanwhile
        if transcript.stream is not None:
            transcript.stream.stop()
        stream = transcript.stream = TranscriptStream(self._front, actor, transcript.uri, self._token)
        stream.questions(_questions_of(self._front, actor))
        text = stream.whole(draft)
        transcript.last_line = text.count("\n") - 1
        transcript.draft = draft
        transcript.composed = draft or transcript.composed
        await self._store(lambda _: write_private(path, text))

    async def _show(self, transcript: Transcript) -> None:
        client = self._front.client
        announced = client.info.capability("window", "showDocument", "support") is True
        if announced or client.info.name == SHOWS_UNANNOUNCED:
            limit = {} if announced else {"timeout": UNANNOUNCED_SHOW_SECONDS}
            end = {"line": transcript.last_line, "character": 0}
            selection = {"start": end, "end": dict(end)}
            reply = await client.show_document(transcript.uri, takeFocus=True, selection=selection, **limit)
            answer: Any = reply.result
            if reply.outcome == "result" and not (isinstance(answer, dict) and answer.get("success") is False):  # pyright: ignore[reportUnknownMemberType]
                return
        client.show_message("info", f"The transcript is the file {transcript.path}; open it in the editor.")

    async def _store(self, operation: Callable[[SessionStore], Any]) -> Any:
        if self._front.store is None:
            raise Unavailable("there is no state folder, so there are no transcripts")
        return await self._front.store.call(operation)

    # --- what the editor does -----------------------------------------------------------------------------------------------

    def _on_document(self, event: DocumentEvent) -> None:
        transcript = self._by_uri.get(event.uri)
        if transcript is None:
            if event.kind in {"opened", "changed"}:
                self.inside = False
            session_id = _session_of(event.uri) if event.kind == "opened" else None
            if session_id is not None:
                self._front.workspace.spawn(self._adopting(session_id, event.uri))
            return
        if event.kind == "opened":
            self._opened(transcript)
        theirs = transcript.stream.note(event) if transcript.stream is not None else False
        if event.kind == "changed":
            transcript.changed_at = self._front.workspace.clock.monotonic()
        if theirs:
            self.touch(transcript)
            self._compose(transcript)
        elif event.kind == "closed":
            self._closed(transcript)

    def touch(self, transcript: Transcript) -> None:
        """The user works in this transcript."""
        self.last, self.inside = transcript, True

    def _opened(self, transcript: Transcript) -> None:
        self.touch(transcript)
        if transcript.running and transcript.stream is not None:
            transcript.stream.stop()
            transcript.stream = None
        transcript.running = True
        actor = next((a for a in self._front.workspace.actors() if a.identity.session_id == transcript.session_id), None)
        if transcript.stream is None and actor is not None:
            transcript.stream = TranscriptStream(self._front, actor, transcript.uri, self._token)
        self._begin(transcript)

    def _begin(self, transcript: Transcript) -> None:
        stream = transcript.stream
        if stream is None:
            return
        stream.questions(_questions_of(self._front, stream.actor))
        stream.mark()
        self._front.tasks.start_soon(stream.run)
        self._front.questions_moved()

    def _adopting(self, session_id: str, uri: str) -> Callable[[], Awaitable[None]]:
        async def adopt() -> None:
            """Take a transcript the user opened by hand, or that was open when an earlier sidecar ended."""
            path = await self._store(lambda store: os.path.realpath(store.transcript_path(session_id)))
            if path_to_uri(path) != uri:
                return  # a file elsewhere that is called like one of ours
            transcript = self._by_uri.setdefault(uri, Transcript(session_id, uri, path))
            await self._front.workspace.revive(session_id)
            if self._front.documents.version(uri) is not None and not transcript.running:
                self._opened(transcript)

        return adopt

    def _closed(self, transcript: Transcript) -> None:
        transcript.running = False
        if transcript.stream is not None:
            transcript.stream.stop()
            transcript.stream = None
        self._save_draft(transcript)
        if self.last is transcript:
            self.last, self.inside = None, False

    def session_added(self, actor: SessionActor) -> None:
        """A session is here now: a transcript that is open already belongs to it from now on."""
        transcript = self.of_session(actor.identity.session_id)
        if transcript is None or (transcript.stream is not None and transcript.stream.actor is actor):
            return
        if transcript.stream is not None:
            transcript.stream.stop()
        transcript.stream = TranscriptStream(self._front, actor, transcript.uri, self._token)
        self._begin(transcript)

    # --- the composer -------------------------------------------------------------------------------------------------------

    async def settled(self, transcript: Transcript) -> None:
        """Wait until what the user typed last is surely here; raises ``EditorFault`` when the buffer is not known."""
        documents, clock = self._front.documents, self._front.workspace.clock
        began = clock.monotonic()
        with anyio.move_on_after(SETTLE_LIMIT_SECONDS):
            while True:
                wait = max(transcript.changed_at, began) + SETTLE_SECONDS - clock.monotonic()
                if wait <= 0 and documents.certainty(transcript.uri) != "waiting":
                    break
                await anyio.sleep(max(wait, 0.01))
        if documents.certainty(transcript.uri) != "sure":
            reason = documents.why_unsure(transcript.uri) or "its last changes have not come"
            raise EditorFault(f"the transcript's text is not known for sure ({reason}); save it, then try again")

    def sent(self, transcript: Transcript, text: str) -> None:
        """What stood in the composer was sent: it is no draft any more, and can be restored. What was typed since stays one."""
        if transcript.draft == text:
            transcript.composed, transcript.draft = text, ""
            self._save_draft(transcript)

    def _compose(self, transcript: Transcript) -> None:
        lines = transcript.stream.composed() if transcript.stream is not None else None
        if lines is None:
            return
        text = "\n".join(lines).strip("\n \t")
        if text == transcript.draft:
            return
        transcript.draft = text
        if text:
            transcript.composed = text
        if not transcript.draft_waits:
            transcript.draft_waits = True
            self._front.tasks.start_soon(self._save_later, transcript)

    async def _save_later(self, transcript: Transcript) -> None:
        await anyio.sleep(DRAFT_SECONDS)
        transcript.draft_waits = False
        self._save_draft(transcript)

    def _save_draft(self, transcript: Transcript) -> None:
        session_id, text = transcript.session_id, transcript.draft
        if self._front.store is not None:
            self._front.store.post(lambda store: store.save_draft(session_id, text), key=("draft", session_id))

    def shutdown(self) -> None:
        """Keep what is unsent; nothing can be edited any more."""
        for transcript in self.open_ones():
            self._save_draft(transcript)
            if transcript.stream is not None:
                transcript.stream.stop()

    # --- questions ----------------------------------------------------------------------------------------------------------

    def _on_questions(self) -> None:
        for transcript in self._by_uri.values():
            if transcript.stream is not None:
                transcript.stream.questions(_questions_of(self._front, transcript.stream.actor))

    def _on_question_ended(self, pending: Pending, answer: Answer | Withdrawal) -> None:
        for transcript in self._by_uri.values():
            if transcript.stream is not None:
                transcript.stream.question_ended(pending, answer)


def _questions_of(front: Front, actor: SessionActor) -> list[Pending]:
    """Return what waits for the user of a session; what belongs to no session stands with each of its agent."""
    own, agent = actor.identity.session_id, actor.identity.agent
    return [
        pending
        for pending in front.workspace.broker.pending()
        if pending.asker.session_id == own or (pending.asker.session_id is None and pending.asker.agent == agent)
    ]


def _session_of(uri: str) -> str | None:
    """Return the session a file could be the transcript of, by its name."""
    path = Path(uri_to_path(uri) or "")
    found = _FILE.fullmatch(path.name)
    return found[1] if found is not None and path.parent.name == "transcripts" else None


def write_private(path: Path, text: str) -> None:
    """Replace a file of ours in one step, readable for its owner only. Raises ``Unavailable`` when the disk does not take it."""
    private_directory(path.parent)
    fresh = path.with_suffix(f".{secrets.token_hex(4)}.new")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise Unavailable(f"the transcript {path} cannot be written: {error.strerror or 'input/output error'}") from None
