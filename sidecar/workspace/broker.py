"""The one place where questions wait for the user.

Every question has one id and ends in exactly one answer on the wire: what the user chose, or a withdrawal. Dismissals, errors,
timeouts and disconnects answer nothing here; they leave the question waiting.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import attrs

from sidecar.errors import EditorFault, Refused
from sidecar.session.interaction import (
    Answer,
    Answered,
    OpenUrl,
    PermissionAnswer,
    PermissionRequest,
    QuestionBody,
    UrlAnswer,
    Withdrawal,
)
from sidecar.session.neutral import neutralise
from sidecar.session.question_json import question_to_json
from sidecar.session.questions import check_answer, is_persistent, same_grant

MAX_WAITING_URLS_PER_SESSION = 3
MAX_WAITING_PER_SESSION = 64
REMEMBERED_ENDED_IDS = 256


@attrs.frozen
class Asker:
    """Whose question it is: the sidecar's session id (None for a connection-wide one), the agent's name, and a marked origin."""

    session_id: str | None
    agent: str
    origin: str = "agent"


class Clock(Protocol):
    """Wall time as an ISO string, and monotonic seconds."""

    def iso(self) -> str: ...

    def monotonic(self) -> float: ...


class Pending:
    """One waiting question.

    When the asker changes what it asks, the question gets a new id (``replaces`` names the old one): a choice made on the old
    text can then no longer be delivered.
    """

    __slots__ = ("answered", "asked_at", "asker", "body", "changed_at", "id", "phase", "replaces")

    def __init__(self, number: str, asker: Asker, body: QuestionBody, answered: Answered, clock: Clock) -> None:
        self.id = number
        self.asker = asker
        self.body = body
        self.answered = answered
        self.asked_at = clock.iso()
        self.changed_at = clock.monotonic()
        self.replaces: str | None = None
        self.phase: str | None = None

    def to_json(self, *, full: bool = False) -> dict[str, Any]:
        """Return the question as CONTRACT 3.3 shapes it; ``full`` includes an openUrl question's exact ``url``."""
        shown = question_to_json(self.body, full=full)
        shown |= {"id": self.id, "agent": self.asker.agent, "origin": neutralise(self.asker.origin), "askedAt": self.asked_at}
        if self.asker.session_id is not None:
            shown["sessionId"] = self.asker.session_id
        if self.replaces is not None:
            shown["replaces"] = self.replaces
        if self.phase is not None:
            shown["phase"] = self.phase
        return shown


class Hooks(Protocol):
    """What the broker needs done before an answer goes out."""

    async def open_url(self, body: OpenUrl) -> bool:
        """Hand the URL to a browser; True only when it really was."""
        ...

    async def guide(self, session_id: str, text: str) -> None:
        """Send text as steering, or queue it as the next prompt."""
        ...


class Broker:
    """Keeps questions in the order asked, checks answers, delivers each exactly once."""

    def __init__(self, clock: Clock, spawn: Callable[[Callable[[], Awaitable[None]]], None], hooks: Hooks) -> None:
        self._clock = clock
        self._spawn = spawn
        self._hooks = hooks
        self._pending: dict[str, Pending] = {}
        self._ended: deque[str] = deque(maxlen=REMEMBERED_ENDED_IDS)
        self._next = 1
        self._listeners: list[Callable[[], None]] = []
        self._history: list[Callable[[Pending, Answer | Withdrawal], None]] = []

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` after every change of the list; returns the way to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def on_ended(self, listener: Callable[[Pending, Answer | Withdrawal], None]) -> None:
        """Call ``listener(pending, answer)`` whenever a question ends."""
        self._history.append(listener)

    def ask(self, asker: Asker, body: QuestionBody, answered: Answered) -> "Handle":
        """Queue a question. Over the limits it is withdrawn at once, so that a flood cannot bury the user."""
        pending = Pending(self._new_id(), asker, body, answered, self._clock)
        handle = Handle(self, pending)
        if self._over_limit(pending):
            self._deliver(pending, Withdrawal.LIMIT)
            return handle
        self._pending[pending.id] = pending
        self._changed()
        return handle

    def _new_id(self) -> str:
        self._next += 1
        return f"q{self._next - 1}"

    def _over_limit(self, new: Pending) -> bool:
        same = [p for p in self._pending.values() if p.asker.session_id == new.asker.session_id]
        if isinstance(new.body, OpenUrl):
            return sum(isinstance(p.body, OpenUrl) for p in same) >= MAX_WAITING_URLS_PER_SESSION
        return len(same) >= MAX_WAITING_PER_SESSION

    def pending(self) -> list[Pending]:
        """Every waiting question, oldest first."""
        return list(self._pending.values())

    def get(self, question_id: str) -> Pending:
        """Return one waiting question; raises ``EditorFault`` when it waits no more."""
        if (found := self._pending.get(question_id)) is not None:
            return found
        gone = "was already answered or withdrawn" if question_id in self._ended else "does not exist"
        raise EditorFault(f"the question {question_id} {gone}; see pending.list for those that wait")

    def answer(self, question_id: str, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Take the user's answer: ``{"accepted": bool, "reason"?, "related"?: [ids]}``.

        A wrong answer raises ``EditorFault`` and leaves the question waiting. ``related`` names waiting questions of the same
        capability and resource after a persistent answer; they are offered together, never answered by us.
        """
        try:
            pending = self.get(question_id)
        except EditorFault as fault:
            return {"accepted": False, "reason": fault.message}
        if pending.phase is not None:
            return {"accepted": False, "reason": f"the question {question_id} is being carried out ({pending.phase})"}
        answer = check_answer(pending.body, raw)
        related = self._related(pending, answer)
        if isinstance(answer, UrlAnswer) and answer.action == "open":
            self._open(pending)
        elif isinstance(answer, PermissionAnswer) and answer.guidance and pending.asker.session_id is not None:
            self._guide(pending, answer, pending.asker.session_id, answer.guidance)
        else:
            self._end(pending, answer)
        return {"accepted": True, **({"related": related} if related else {})}

    def _related(self, pending: Pending, answer: Answer) -> list[str]:
        body = pending.body
        if not (isinstance(answer, PermissionAnswer) and isinstance(body, PermissionRequest) and is_persistent(body, answer)):
            return []
        others = (p for p in self._pending.values() if p is not pending and isinstance(p.body, PermissionRequest))
        return [p.id for p in others if isinstance(p.body, PermissionRequest) and same_grant(body, p.body)]

    def _open(self, pending: Pending) -> None:
        body = pending.body
        if not isinstance(body, OpenUrl):
            raise Refused(f"the question {pending.id} is not about a URL")
        pending.phase = "opening"
        self._changed()

        async def run() -> None:
            opened = False
            try:
                opened = await self._hooks.open_url(body)
            finally:
                self._end(pending, UrlAnswer("open", opened=opened))

        self._spawn(run)

    def _guide(self, pending: Pending, answer: PermissionAnswer, session_id: str, text: str) -> None:
        pending.phase = "sending guidance"
        self._changed()

        async def run() -> None:
            try:
                await self._hooks.guide(session_id, text)
            finally:
                self._end(pending, answer)

        self._spawn(run)

    def withdraw(self, pending: Pending, why: Withdrawal) -> None:
        """Take a question back; nothing happens when it ended already."""
        self._end(pending, why)

    def withdraw_session(self, session_id: str, why: Withdrawal) -> None:
        """Take back every question of a session."""
        for pending in [p for p in self._pending.values() if p.asker.session_id == session_id]:
            self._end(pending, why)

    def withdraw_all(self, why: Withdrawal) -> None:
        """Take back everything, at the end of the process."""
        for pending in list(self._pending.values()):
            self._end(pending, why)

    def replace(self, pending: Pending, body: QuestionBody) -> None:
        """Ask something else instead, under a new id: what was seen before can no longer be agreed to."""
        if self._pending.get(pending.id) is not pending or pending.body == body or pending.phase is not None:
            return
        del self._pending[pending.id]
        self._ended.append(pending.id)
        pending.replaces, pending.id = pending.id, self._new_id()
        pending.body = body
        pending.changed_at = self._clock.monotonic()
        self._pending[pending.id] = pending
        self._changed()

    def _end(self, pending: Pending, answer: Answer | Withdrawal) -> None:
        if self._pending.get(pending.id) is not pending:
            return
        del self._pending[pending.id]
        self._deliver(pending, answer)
        self._changed()

    def _deliver(self, pending: Pending, answer: Answer | Withdrawal) -> None:
        self._ended.append(pending.id)
        pending.answered(answer)
        for listener in self._history:
            listener(pending, answer)

    def _changed(self) -> None:
        for listener in list(self._listeners):
            listener()


class Handle:
    """The asker's end of a question (``sidecar.session.interaction.QuestionHandle``)."""

    __slots__ = ("_broker", "_pending")

    def __init__(self, broker: Broker, pending: Pending) -> None:
        self._broker = broker
        self._pending = pending

    def withdraw(self, why: Withdrawal) -> None:
        self._broker.withdraw(self._pending, why)

    def replace(self, body: QuestionBody) -> None:
        self._broker.replace(self._pending, body)
