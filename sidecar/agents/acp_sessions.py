"""Which sink belongs to which session id of one agent, and what came for ids nobody knows yet. No I/O.

Agents report about a session before the reply that names it (Kiro V3, frame orders 2; facts on agents, order 8), so updates for
an unknown id are kept until a reply claims it.
"""

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from sidecar.session.events import (
    ContentAdded,
    LoadBegan,
    LoadEnded,
    MarkedIncomplete,
    SessionEvent,
    TextDelta,
    ToolCallChanged,
    TurnEnded,
)
from sidecar.session.interaction import QuestionHandle, Withdrawal
from sidecar.session.ports import SessionSink

MAX_UNCLAIMED_SESSIONS = 64
MAX_UNCLAIMED_EVENTS = 20_000


class Bound:
    """One session with a sink: its open questions by request id, its running turn, whether its cancel was sent."""

    __slots__ = ("cancel_sent", "cwd", "loading", "questions", "remote", "replayed", "sink", "turn_id")

    def __init__(self, sink: SessionSink, cwd: str) -> None:
        self.sink = sink
        self.cwd = cwd
        self.turn_id: str | None = None
        self.cancel_sent = False
        self.loading = False
        self.replayed = False
        self.remote = False
        self.questions: dict[object, QuestionHandle] = {}

    def withdraw_questions(self, why: Withdrawal) -> None:
        """Withdraw every open question of the session (each is answered to the agent by its asker)."""
        for handle in list(self.questions.values()):
            handle.withdraw(why)

    def begin_load(self) -> None:
        """What follows builds the session from empty."""
        self.loading, self.replayed = True, False
        self.sink.apply([LoadBegan()])

    def take(self, events: Sequence[SessionEvent]) -> None:
        """Hand events to the sink, noting whether a load brings any history."""
        if self.loading and not self.replayed:
            self.replayed = any(isinstance(event, TextDelta | ContentAdded | ToolCallChanged) for event in events)
        self.sink.apply(events)

    def end_load(self, *, ok: bool) -> None:
        """The reply is there. History that did not come again is kept as it was shown; nothing happens when none was loading."""
        if self.loading:
            self.loading = False
            self.sink.apply([LoadEnded(ok=ok, replayed=self.replayed)])

    def end_turn(self, event: TurnEnded) -> None:
        """Tell the sink that the running turn is over."""
        self.turn_id = None
        self.cancel_sent = False
        self.sink.apply([event])


class SessionTable:
    """Routes events by session id."""

    def __init__(self) -> None:
        self._bound: dict[str, Bound] = {}
        self._unclaimed: OrderedDict[str, deque[SessionEvent]] = OrderedDict()
        self._overflowed: set[str] = set()

    def get(self, session_id: object) -> Bound | None:
        """Return the session of that id, or None."""
        return self._bound.get(session_id) if isinstance(session_id, str) else None

    def all(self) -> list[Bound]:
        """Every session with a sink."""
        return list(self._bound.values())

    def bind(self, session_id: str, sink: SessionSink, cwd: str, *, load: bool = False) -> Bound:
        """Give the id a sink and hand it what came before, with ``load`` as the beginning of a load.

        A sink bound earlier is replaced, its questions withdrawn.
        """
        bound = self._bound.get(session_id)
        if bound is None or bound.sink is not sink:
            if bound is not None:
                bound.withdraw_questions(Withdrawal.SESSION_CLOSED)
            bound = self._bound[session_id] = Bound(sink, cwd)
        if load:
            bound.begin_load()
        if kept := self._unclaimed.pop(session_id, None):
            bound.take(list(kept))
        if session_id in self._overflowed:
            self._overflowed.discard(session_id)
            sink.apply([MarkedIncomplete("more updates came before the session was known than are kept")])
        return bound

    def forget(self, session_id: str, why: Withdrawal = Withdrawal.SESSION_CLOSED) -> None:
        """Drop the sink; its open questions are withdrawn."""
        if (bound := self._bound.pop(session_id, None)) is not None:
            bound.withdraw_questions(why)

    def apply(self, session_id: str, events: Sequence[SessionEvent]) -> None:
        """Hand events to the session's sink, or keep them (bounded) until the id is claimed."""
        if (bound := self._bound.get(session_id)) is not None:
            bound.take(events)
            return
        kept = self._unclaimed.get(session_id)
        if kept is None:
            if len(self._unclaimed) >= MAX_UNCLAIMED_SESSIONS:
                dropped, _ = self._unclaimed.popitem(last=False)
                self._overflowed.discard(dropped)
            kept = self._unclaimed[session_id] = deque(maxlen=MAX_UNCLAIMED_EVENTS)
        if len(kept) + len(events) > MAX_UNCLAIMED_EVENTS:
            self._overflowed.add(session_id)
        kept.extend(events)

    def tool_call(self, session_id: str, tool_call_id: str) -> Mapping[str, Any] | None:
        """Return what is known of a tool call (keys of ``ToolCallChanged.fields``), also of a session nobody claimed, or None."""
        if (bound := self._bound.get(session_id)) is not None:
            return bound.sink.tool_call(tool_call_id)
        fields: dict[str, Any] = {}
        for event in self._unclaimed.get(session_id, ()):
            if type(event) is ToolCallChanged and event.tool_call_id == tool_call_id:
                fields.update(event.fields)
        return fields or None

    def mark_incomplete(self, reason: str) -> None:
        """Mark whoever may have lost something by a frame nobody could read: the sessions at work, or all when none is."""
        busy = [b for b in self._bound.values() if b.turn_id is not None or b.loading]
        for bound in busy or self._bound.values():
            bound.sink.apply([MarkedIncomplete(reason)])
