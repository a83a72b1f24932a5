"""One session's transcript while it stands in a buffer: what happens in the session goes in above the composer, line by line.

Editor protocol, "The transcript is a document". The session is followed by a cursor, so a slow editor costs nothing; what was
rendered and is not seen in the buffer yet goes with the next edit. What the user deletes is not put back.
"""

from collections.abc import Sequence
from typing import Any, Final

import anyio
import attrs

from sidecar.editor.ask_text import one_line
from sidecar.editor.parts import Front
from sidecar.editor.transcript_answers import ended_line, find_section, section_lines
from sidecar.editor.transcript_edits import EditSlot, Outcome, Plan
from sidecar.editor.transcript_text import (
    COMPOSER_HEADING,
    OLDER_LINE,
    TurnRenderer,
    composer_lines,
    header_lines,
    heading_line,
    insertion_line,
    whole_text,
)
from sidecar.session.cursor import Cursor
from sidecar.session.encode import turn_json
from sidecar.session.interaction import Answer, Withdrawal
from sidecar.workspace.actor import SessionActor
from sidecar.workspace.broker import Pending
from sidecar.workspace.documents import DocumentEvent
from sidecar.workspace.positions import LineBuffer, TextEdit, insert_edit, replace_edit, units_in

SHOWN_TURNS: Final = 20
TAKE_BYTES: Final = 64 * 1024
MAX_WAITING_LINES: Final = 4_000
SEND_TRIES: Final = 4
UNSEEN_IN_A_ROW: Final = 5
LOOK_AGAIN_SECONDS: Final = 0.1
CLEAR_SECONDS: Final = 5.0


@attrs.define
class _Asked:
    """A question of this document: its section goes in once, and one line when it has ended."""

    pending: Pending
    question_id: str
    shown: bool = False


class TranscriptStream:
    """The live part of one transcript. ``uri`` is the normalised URI of its document, ``token`` marks this process' questions.

    ``before`` is the turn that older turns are asked with, None when there are none (or none are known of).
    """

    def __init__(self, front: Front, actor: SessionActor, uri: str, token: str) -> None:
        self.actor = actor
        self.uri = uri
        self._front = front
        self._token = token
        self.slot = EditSlot(front.client, front.documents, front.tasks, front.workspace.clock, self._on_unsure)
        self._dirty = anyio.Event()
        self._lines: list[str] = []
        self._clear: list[str] | None = None
        self._asked: dict[str, _Asked] = {}
        self._endings: list[str] = []
        self._passed: list[str] = []
        self._heading_gone = False
        self._stopped = False
        self._cursor = Cursor(actor.state, SHOWN_TURNS)
        self._renderer = TurnRenderer(actor.identity.agent)
        self.before: str | None = None
        running = actor.state.running_turn
        if running is not None:
            self._renderer.take_up(turn_json(running))
        actor.state.subscribe(self.mark)

    # --- the whole document -------------------------------------------------------------------------------------------------

    def whole(self, draft: str) -> str:
        """Return the document as it is written anew; from now on only what comes after it is streamed."""
        return whole_text(self.above(), draft)

    def above(self) -> list[str]:
        """Render all that stands above the composer anew; what was waiting to be streamed is in it."""
        identity, state = self.actor.identity, self.actor.state
        self._cursor.close()
        self._cursor = Cursor(state, SHOWN_TURNS)
        self._renderer = TurnRenderer(identity.agent)
        self._lines, self._endings, self._passed = [], [], []
        self._cursor.reset()
        turns: list[str] = []
        while self._cursor.pending:
            turns += self._renderer.render(self._cursor.take(TAKE_BYTES), sections=False)
        shown, older = state.window(SHOWN_TURNS)
        self.before = shown[0].turn_id if older and shown else None
        for asked in self._asked.values():
            turns += self._renderer.note(*self._section(asked))
        older_lines = ["", OLDER_LINE] if self.before is not None else []
        return [*header_lines(state.conversation.title, identity.agent, identity.spec.cwd), *older_lines, *turns]

    # --- what is to be told -------------------------------------------------------------------------------------------------

    def mark(self) -> None:
        """Something may be new."""
        self._dirty.set()

    def say(self, *lines: str) -> None:
        """Put lines of the sidecar's own into the document."""
        self._lines += self._renderer.note(*lines)
        self.mark()

    def questions(self, waiting: Sequence[Pending]) -> None:
        """Take the questions that wait for this session's user."""
        for pending in waiting:
            if pending.id not in self._asked:
                self._asked[pending.id] = _Asked(pending, pending.id)
                if pending.replaces is not None:
                    self._end_question(
                        pending.replaces, f"*Question {pending.replaces} was changed by the agent, see {pending.id}.*"
                    )
                self.mark()

    def question_ended(self, pending: Pending, answer: Answer | Withdrawal) -> None:
        """Tell how a question ended."""
        self._end_question(pending.id, ended_line(pending.id, pending.body, answer))

    def _end_question(self, question_id: str, line: str) -> None:
        """Tell the end; of a question whose section is not there yet also what it was."""
        asked = self._asked.pop(question_id, None)
        if asked is not None:
            if asked.shown:
                self._endings.append(line)
            else:
                self._passed += [f"*{one_line(asked.pending)}*", line]
            self.mark()

    def place(self, question_id: str) -> tuple[int, int] | None:
        """Return the lines in which a question stands in the buffer."""
        buffer = self._front.documents.buffer(self.uri)
        return find_section(buffer.lines, question_id, self._token) if buffer is not None else None

    def waiting(self) -> list[Pending]:
        """Return the questions shown or to be shown here, oldest first."""
        return [asked.pending for asked in self._asked.values()]

    def _section(self, asked: _Asked) -> list[str]:
        asked.shown = True
        return section_lines(asked.pending, self._token)

    # --- the pump -----------------------------------------------------------------------------------------------------------

    def note(self, event: DocumentEvent) -> bool:
        """Take an event of the document; returns whether the user changed it."""
        return self.slot.note(event)

    async def run(self) -> None:
        """Stream until the document is closed or the stream stopped."""
        unseen = 0
        while not self._stopped:
            await self._dirty.wait()
            self._dirty = anyio.Event()
            await self._front.client.room()
            outcome = await self.slot.apply(self.uri, self._plan)
            unseen = unseen + 1 if outcome is Outcome.UNSEEN else 0
            if outcome is Outcome.CLOSED:
                return
            if outcome is Outcome.NOTHING:
                await anyio.sleep(LOOK_AGAIN_SECONDS)  # most often a line that is not whole yet
            if self._heading_gone or unseen >= UNSEEN_IN_A_ROW:
                unseen = 0
                await self.slot.change()
            if self._lines or self._endings or self._passed or self._clear is not None or self._cursor.pending:
                self.mark()

    def stop(self) -> None:
        """End; nothing is kept."""
        self._stopped = True
        self.actor.state.unsubscribe(self.mark)
        self._cursor.close()
        self._dirty.set()

    def _collect(self) -> None:
        """Render what is new: ends of questions shown, then the session, then questions that came and went, or came."""
        for line in self._endings:
            self._lines += self._renderer.note(line)
        self._endings.clear()
        while self._cursor.pending and len(self._lines) < MAX_WAITING_LINES:
            changes = self._cursor.take(TAKE_BYTES)
            reset = next((number for number, change in enumerate(changes) if change["kind"] == "reset"), None)
            if reset is None:
                self._lines += self._renderer.render(changes)
            else:
                self._loaded_again(changes[:reset], changes[reset:])
        for line in self._passed if not self._cursor.pending else ():
            self._lines += self._renderer.note(line, at_once=False)
        if not self._cursor.pending:
            self._passed.clear()
        fresh = [asked for asked in self._asked.values() if not asked.shown] if not self._cursor.pending else []
        for asked in fresh:
            self._lines += self._renderer.note(*self._section(asked))

    def _loaded_again(self, before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> None:
        """The session's history was replaced. What stands in the buffer stays; it is shown anew only where nothing stood."""
        self._lines += self._renderer.render(before)
        if not self._renderer.shown:
            self.before = after[0].get("before")
            self._lines += self._renderer.render(after, sections=False)
            while self._cursor.pending:
                self._lines += self._renderer.render(self._cursor.take(TAKE_BYTES), sections=False)
            return
        self._cursor.close()
        self._cursor = Cursor(self.actor.state, SHOWN_TURNS)
        self._lines += self._renderer.note("*The session was loaded again; “Redraw” shows the history the agent has.*")

    def _plan(self, buffer: LineBuffer) -> Plan | None:
        heading = heading_line(buffer.lines)
        self._tell_heading(gone=heading is None)
        if heading is None:
            return None
        self._collect()
        clear = self._clearing(buffer, heading)
        count = len(self._lines)
        if not count and clear is None:
            return None
        lines = self._lines[:count]
        at = insertion_line(buffer.lines, heading)
        text = "\n".join([*lines, ""])
        edits = ([insert_edit((at, 0), text)] if text else []) + ([clear] if clear is not None else [])
        sent = self._clear

        def seen(now: LineBuffer) -> bool:
            return _stands_above(now, lines, heading) and (clear is None or not _begins(now, sent))

        def done() -> None:
            del self._lines[:count]
            if clear is not None:
                self._clear = None
            if any(asked.shown for asked in self._asked.values()):
                self._front.questions_moved()

        return Plan(edits, seen, done, text if clear is None else "")

    def _tell_heading(self, *, gone: bool) -> None:
        if gone and not self._heading_gone:
            self._front.client.show_message(
                "warning",
                f'The transcript\'s last heading, "{COMPOSER_HEADING}", is gone; undo, or use sidecar.transcript.redraw.',
            )
        self._heading_gone = gone

    def _on_unsure(self, reason: str) -> None:
        self._front.client.show_message("warning", f"The transcript waits until you save it: {reason}.")

    # --- the composer -------------------------------------------------------------------------------------------------------

    def composed(self) -> list[str] | None:
        """Return the lines below the heading; None when the document or the heading is not there."""
        buffer = self._front.documents.buffer(self.uri)
        heading = heading_line(buffer.lines) if buffer is not None else None
        return composer_lines(buffer.lines, heading) if buffer is not None and heading is not None else None

    async def clear(self, sent: Sequence[str]) -> None:
        """Take what is sent out of the composer, unless the user changed it meanwhile; what was typed behind it stays."""
        self._clear = list(sent)
        with anyio.move_on_after(CLEAR_SECONDS):
            for _ in range(SEND_TRIES):
                outcome = await self.slot.apply(self.uri, self._plan, urgent=True)
                if outcome is not Outcome.UNSEEN:
                    break
        self._clear = None

    def _clearing(self, buffer: LineBuffer, heading: int) -> TextEdit | None:
        if self._clear is None:
            return None
        if not _begins(buffer, self._clear):
            self._clear = None
            return None
        last = heading + len(self._clear)
        line, sent = buffer.lines[last], self._clear[-1]
        if line[len(sent) :].strip():
            return replace_edit((heading + 1, 0), (last, units_in(sent, buffer.encoding)), "\n")
        return replace_edit((heading + 1, 0), (last + 1, 0) if last + 1 < len(buffer.lines) else buffer.end, "\n")


def plain_lines(lines: Sequence[str]) -> list[str]:
    """Return lines without their ends."""
    return [line.rstrip("\r\n") for line in lines]


def _begins(buffer: LineBuffer, sent: Sequence[str] | None) -> bool:
    """Return whether the composer still begins with what was sent."""
    heading = heading_line(buffer.lines)
    if heading is None or not sent:
        return False
    composed = composer_lines(buffer.lines, heading)[: len(sent)]
    return len(composed) == len(sent) and composed[:-1] == list(sent[:-1]) and composed[-1].startswith(sent[-1])


def _stands_above(buffer: LineBuffer, lines: Sequence[str], before: int) -> bool:
    """Return whether ``lines`` were put above the composer, whose heading stood on line ``before``.

    Lines the user put in between do not matter; what stood there already does not count.
    """
    heading = heading_line(buffer.lines)
    if heading is None or heading - before < len(lines):
        return False
    end = insertion_line(buffer.lines, heading)
    added = iter(plain_lines(buffer.lines[max(0, end - (heading - before)) : end]))
    return all(line in added for line in lines)
