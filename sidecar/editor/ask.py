"""Shows questions to the user by the best means the editor has, and takes the answers (editor protocol, editors with plain LSP).

Three rungs: a plugin gets notifications; an editor with dialogs is asked by ``window/showMessageRequest``, one question at a
time; any other gets a message that names the question, and a mark. Only what the user chose is an answer: null, errors, unknown
titles and silence leave the question waiting.
"""

import logging
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, cast

import anyio
import attrs

from sidecar.editor.ask_marks import QuestionMarks
from sidecar.editor.ask_text import Choice, choices, one_line, only_allow, plain_refusal, question_text
from sidecar.editor.client import ClientReply, EditorClient
from sidecar.editor.pump import Pump
from sidecar.errors import METHOD_NOT_FOUND, EditorFault
from sidecar.session.interaction import PermissionRequest
from sidecar.workspace.broker import Broker, Clock, Pending

PENDING_CHANGED: Final = "sidecar/pending/changed"
SHOW_MESSAGE_REQUEST: Final = "window/showMessageRequest"
WARNING: Final = 2
ARMED_AFTER_SECONDS: Final = 1.0
"""A question can be answered by an argument-free command only this long after it was announced: no key typed for something else
may hit it."""

BY_HAND_SECONDS: Final = 600.0
ASK_EACH: Final = "Ask me about each"
YOUR_ANSWER: Final = "Your answer"
"""The last line of every dialog: Neovim puts a colon behind the last line, which must not look like a part of the command."""

_log = logging.getLogger(__name__)


class Rung(Enum):
    """The means in use."""

    NOTIFICATIONS = "notifications"
    DIALOGS = "dialogs"
    MESSAGES = "messages"


def rung_of(client: EditorClient) -> Rung:
    """Return the best means the editor said it has."""
    if client.info.questions:
        return Rung.NOTIFICATIONS
    return Rung.DIALOGS if isinstance(client.info.capability("window", "showMessage"), dict) else Rung.MESSAGES


@attrs.frozen
class QuestionWords:
    """What is shown beside a question: its mark, a sentence that belongs to its text, half a sentence on how to answer it."""

    marks: QuestionMarks
    notice_for: Callable[[Pending], str | None]
    hint: Callable[[Pending], str | None]


@attrs.frozen
class _Dialog:
    """The dialog on the screen. ``carried_out``: it is about a question whose answer is being carried out."""

    question_id: str
    carried_out: bool
    scope: anyio.CancelScope = attrs.field(factory=anyio.CancelScope)


class QuestionLadder:
    """The questions of one editor. ``run`` asks; ``ask_again`` and ``decide`` are operations of the user."""

    def __init__(self, client: EditorClient, broker: Broker, clock: Clock, words: QuestionWords) -> None:
        self.rung = rung_of(client)
        self._client = client
        self._broker = broker
        self._clock = clock
        self._marks, self._notice_for, self._hint = words.marks, words.notice_for, words.hint
        self._changed = anyio.Event()
        self._later: set[str] = set()
        self._announced: dict[str, float] = {}
        self._last_announced: str | None = None
        self._shown: _Dialog | None = None
        self._one_dialog = anyio.Lock()
        self._by_hand: Callable[[bool], None] | None = None
        self._pump = Pump(client.room, self._send_pending)
        broker.subscribe(self._on_change)

    # --- what the broker tells ----------------------------------------------------------------------------------------------

    def _on_change(self) -> None:
        waiting = {pending.id for pending in self._waiting()}
        self._later &= waiting
        self._announced = {name: at for name, at in self._announced.items() if name in waiting}
        if self._shown is not None and not self._still(self._shown.question_id, carried_out=self._shown.carried_out):
            self._shown.scope.cancel()
        self._changed.set()
        if self.rung is Rung.NOTIFICATIONS:
            self._pump.mark()

    def _waiting(self) -> list[Pending]:
        return [pending for pending in self._broker.pending() if pending.phase is None]

    def _note_announced(self, question_id: str, *, anew: bool = True) -> None:
        if anew or question_id not in self._announced:
            self._announced[question_id] = self._clock.monotonic()
        self._last_announced = question_id

    async def run(self) -> None:
        """Ask until cancelled."""
        if self.rung is Rung.NOTIFICATIONS:
            await self._pump.run()
        if self.rung is Rung.DIALOGS:
            await self._ask_by_dialogs()
        await self._announce_all()

    # --- notifications -----------------------------------------------------------------------------------------------------

    def _send_pending(self) -> bool:
        waiting = self._broker.pending()
        self._client.notify(PENDING_CHANGED, {"pending": [pending.to_json() for pending in waiting]})
        for pending in self._waiting():
            if pending.id not in self._announced:
                self._note_announced(pending.id)
        return False

    # --- dialogs -----------------------------------------------------------------------------------------------------------

    async def _ask_by_dialogs(self) -> None:
        while self.rung is Rung.DIALOGS:
            self._changed = anyio.Event()
            pending = next((found for found in self._waiting() if found.id not in self._later), None)
            if pending is None:
                await self._changed.wait()
            else:
                await self._ask(pending)

    async def _ask(self, pending: Pending) -> None:
        question_id, offered = pending.id, choices(pending)
        text = question_text(pending, self._notice_for(pending))
        reply = await self._dialog(question_id, text, [choice.title for choice in offered])
        if reply is None or self.rung is not Rung.DIALOGS:
            return
        choice = _chosen(reply, offered)
        if choice is None or choice.answer is None:
            self._leave(question_id, pending)
            return
        try:
            outcome = self._broker.answer(question_id, choice.answer)
        except EditorFault as fault:
            self._client.show_message("warning", fault.message)
            self._leave(question_id, pending)
            return
        await self._offer_related(choice, outcome.get("related", ()))

    async def _dialog(
        self, question_id: str, text: str, titles: Sequence[str], *, carried_out: bool = False
    ) -> ClientReply | None:
        """Show one dialog; None when the question went away or changed meanwhile. A missing method ends this rung for good."""
        async with self._one_dialog:
            if not self._still(question_id, carried_out=carried_out):
                return None
            self._note_announced(question_id)
            params = {"type": WARNING, "message": f"{text}\n{YOUR_ANSWER}", "actions": [{"title": title} for title in titles]}
            dialog = self._shown = _Dialog(question_id, carried_out)
            with dialog.scope:
                try:
                    reply = await self._client.request(SHOW_MESSAGE_REQUEST, params)
                finally:
                    self._shown = None
                if reply.error is not None and reply.error.code == METHOD_NOT_FOUND:
                    self.rung = Rung.MESSAGES
                    self._announced.clear()
                return reply
        return None

    def _still(self, question_id: str, *, carried_out: bool) -> bool:
        return any(found.id == question_id and (found.phase is not None) == carried_out for found in self._broker.pending())

    def _leave(self, question_id: str, pending: Pending) -> None:
        """Leave a question undecided; the user can have it asked again."""
        if self._still(question_id, carried_out=False):
            self._later.add(question_id)
            self._client.show_message(
                "info", f"Undecided, and still waiting: {one_line(pending)}. sidecar.pending.ask asks again."
            )

    async def _offer_related(self, choice: Choice, related: Sequence[str]) -> None:
        """After an answer that is remembered, offer to give the same answer to questions about the same; the user decides."""
        same = [pending for pending in self._waiting() if pending.id in related and _offers(pending, choice)]
        if not same or choice.answer is None:
            return
        take_over = f"“{choice.title}” for these too"
        lines = [f"The same was asked {len(same)} more times:", *(one_line(pending) for pending in same)]
        ids = [pending.id for pending in same]
        reply = await self._dialog(ids[0], "\n".join(lines), [ASK_EACH, take_over])
        if reply is not None and _title(reply) == take_over:
            for question_id in ids:
                self._broker.answer(question_id, choice.answer)

    # --- messages ----------------------------------------------------------------------------------------------------------

    async def _announce_all(self) -> None:
        while True:
            self._changed = anyio.Event()
            waiting = self._waiting()
            self._marks.show(waiting)
            fresh = [pending for pending in waiting if pending.id not in self._announced]
            if fresh:
                for pending in fresh:
                    self._note_announced(pending.id)
                self._announce(fresh[-1])
            elif len(waiting) == 1 and waiting[0].id != self._last_announced:
                self._announce(waiting[0])
            await self._changed.wait()

    def _announce(self, pending: Pending, why: str | None = None) -> None:
        """Name a question in a message."""
        self._note_announced(pending.id)
        count = len(self._waiting())
        ways = [hint] if (hint := self._hint(pending)) else []
        if count == 1:
            ways.append("sidecar.pending.reject refuses")
            ways += ["sidecar.pending.allow allows"] if only_allow(pending) is not None else []
        parts = [why, one_line(pending), self._notice_for(pending)]
        parts += [f"{count} questions wait; they are answered one by one"] if count > 1 else []
        parts += [", ".join(ways)] if ways else []
        self._client.show_message("warning", ". ".join(part.rstrip(".") for part in parts if part))

    def questions_moved(self) -> None:
        """The places of questions changed: mark them anew."""
        if self.rung is Rung.MESSAGES:
            self._marks.show(self._waiting())

    # --- what the user can run ---------------------------------------------------------------------------------------------

    def ask_again(self, question_id: str | None = None) -> list[Pending]:
        """Ask about one question, or all, again; returns what waits."""
        if question_id is not None:
            self._broker.get(question_id)
        self._later -= {question_id} if question_id is not None else set(self._later)
        waiting = self._waiting()
        if self.rung is Rung.NOTIFICATIONS:
            self._pump.mark()
        elif self.rung is Rung.DIALOGS:
            self._changed.set()
        else:
            again = [pending for pending in waiting if question_id in {None, pending.id}]
            if again:
                self._announce(again[-1])
        return waiting

    def decide(self, *, allow: bool) -> dict[str, Any]:
        """Answer the only question that waits, announced a while ago and unchanged since; else nothing, and announce again."""
        if self._by_hand is not None:
            self._by_hand(allow)
            return {"accepted": True}
        waiting = self._broker.pending()
        choice, reason = self._decision(waiting, allow=allow)
        if choice is not None and choice.answer is not None:
            return self._broker.answer(waiting[0].id, choice.answer)
        self._say_again(waiting, reason)
        return {"accepted": False, "reason": reason}

    def _decision(self, waiting: Sequence[Pending], *, allow: bool) -> tuple[Choice | None, str]:
        if not waiting:
            return None, "no question is waiting"
        if len(waiting) > 1:
            return None, f"{len(waiting)} questions wait, so it is not clear which one is meant; answer them one by one"
        pending = waiting[0]
        announced = self._announced.get(pending.id)
        if announced is None or pending.id != self._last_announced:
            return None, "the question changed or was not announced yet; look at it, then decide"
        if self._clock.monotonic() - announced < ARMED_AFTER_SECONDS:
            return None, "the question was announced less than a second ago; look at it, then decide"
        choice = only_allow(pending) if allow else plain_refusal(pending)
        if choice is None and allow:
            return None, "there is not exactly one way to allow this; choose one of the question's own options"
        return choice, "the agent offered no single way to refuse; leave it undecided, or cancel the turn, and nothing is allowed"

    def _say_again(self, waiting: Sequence[Pending], reason: str) -> None:
        if self.rung is Rung.NOTIFICATIONS:
            self._announced.clear()
            self._pump.mark()
        elif self.rung is Rung.DIALOGS:
            self._client.show_message("warning", f"Nothing was answered: {reason}.")
            if len(waiting) == 1:
                self._note_announced(waiting[0].id)
            self.ask_again()
        elif waiting:
            self._announce(waiting[-1], f"Nothing was answered: {reason}")
        else:
            self._client.show_message("warning", f"Nothing was answered: {reason}.")

    async def done_by_hand(self, question_id: str, text: str, yes: str, no: str) -> bool:
        """Ask whether the user did something the editor could not; bounded, and false unless they say so."""
        with anyio.move_on_after(BY_HAND_SECONDS):
            if self.rung is Rung.DIALOGS:
                reply = await self._dialog(question_id, text, [no, yes], carried_out=True)
                if self.rung is Rung.DIALOGS:
                    return reply is not None and _title(reply) == yes
            return await self._answered_by_command(f"{text} Then: sidecar.pending.allow = {yes}, sidecar.pending.reject = {no}.")
        return False

    async def _answered_by_command(self, text: str) -> bool:
        decided, outcome = anyio.Event(), False

        def decide(done: bool) -> None:
            nonlocal outcome
            outcome = done
            decided.set()

        self._by_hand = decide
        try:
            self._client.show_message("warning", text)
            await decided.wait()
        finally:
            self._by_hand = None
        return outcome


def _title(reply: ClientReply) -> str | None:
    """Return the title the user picked, if the reply is one: exactly a string, nothing converted."""
    answer: object = reply.result
    title = cast("dict[str, Any]", answer).get("title") if isinstance(answer, dict) else None
    return title if isinstance(title, str) else None


def _chosen(reply: ClientReply, offered: Sequence[Choice]) -> Choice | None:
    title = _title(reply)
    if reply.error is not None:
        _log.warning("the editor answered a question with an error", extra={"code": reply.error.code})
    return next((choice for choice in offered if choice.title == title), None)


def _offers(pending: Pending, choice: Choice) -> bool:
    """Return whether a question has the same option, of the same kind and title."""
    return isinstance(pending.body, PermissionRequest) and any(
        (found.title, found.answer, found.allows) == (choice.title, choice.answer, choice.allows) for found in choices(pending)
    )
