"""Edits to one open document while its user types: never two at once, never on a text not known, never in the way of the typing.

Editor protocol, "The transcript is a document". Each edit names the version it was made for, so that an editor whose buffer is
newer refuses it. What editors say about an edit (``applied``) is not believed: it is done when it is seen in the mirror.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

import anyio
import attrs
from anyio.abc import TaskGroup

from sidecar.editor.client import APPLY_EDIT_SECONDS, EditorClient
from sidecar.workspace.broker import Clock
from sidecar.workspace.documents import DocumentEvent, Documents
from sidecar.workspace.ordered_text import GAP_PATIENCE_SECONDS
from sidecar.workspace.positions import LineBuffer, TextEdit

SEEN_SECONDS: Final = 1.0
"""How long an edit is waited for in the mirror."""

EDIT_INTERVAL_SECONDS: Final = 0.25
TYPING_PAUSE_SECONDS: Final = 1.0
TYPING_LIMIT_SECONDS: Final = 2.0
MAX_UNSEEN: Final = 3


class Outcome(Enum):
    """What became of an edit."""

    SEEN = "seen"
    UNSEEN = "unseen"
    NOTHING = "nothing to do"
    CLOSED = "the document is closed"


@attrs.frozen
class Plan:
    """One edit made for a buffer: its text edits (of that buffer, not overlapping), and how to see that it was applied.

    ``inserted`` is the text when the edit is one insertion, else "". ``seen`` is asked again after each change of the document,
    for when the user changed something at the same time. ``done`` is called once, when it was seen.
    """

    edits: Sequence[TextEdit]
    seen: Callable[[LineBuffer], bool]
    done: Callable[[], None]
    inserted: str = ""


@attrs.define(eq=False)
class _Flight:
    """An edit that was sent. ``over``: it, or an older one of which it is a repetition, was seen."""

    plan: Plan
    expected: list[str]
    seen: bool = False
    over: bool = False
    answered: bool = False


MakePlan = Callable[[LineBuffer], Plan | None]


class EditSlot:
    """The one edit at a time of a document. ``on_unsure(reason)`` is told once each time edits stop for a lost mirror."""

    def __init__(
        self, client: EditorClient, documents: Documents, tasks: TaskGroup, clock: Clock, on_unsure: Callable[[str], None]
    ) -> None:
        self._client = client
        self._documents = documents
        self._tasks = tasks
        self._clock = clock
        self._on_unsure = on_unsure
        self._lock = anyio.Lock()
        self._changed = anyio.Event()
        self._flights: list[_Flight] = []
        self._sent_at = float("-inf")
        self._typed_at = float("-inf")
        self._held_since: float | None = None
        self._told_unsure = False

    def note(self, event: DocumentEvent) -> bool:
        """Take an event of the document; returns whether it was a change made by the user."""
        theirs = event.kind == "changed" and not self._is_ours(event)
        if theirs:
            self._typed_at = self._clock.monotonic()
            if self._held_since is None:
                self._held_since = self._typed_at
        if event.kind in {"opened", "saved"}:
            self._told_unsure = False
        if event.kind in {"opened", "closed"}:
            self._flights = []
        self._wake()
        return theirs

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def _is_ours(self, event: DocumentEvent) -> bool:
        """Look which of the edits sent is there now: at most one of them, since all were made for versions before it.

        The newest holds what the others hold and more, so it is looked for first.
        """
        buffer = self._documents.buffer(event.uri)
        if buffer is None:
            return event.ours
        for flight in reversed(self._flights):
            alone = buffer.lines == flight.expected
            if alone or flight.plan.seen(buffer):
                flight.seen = True
                self._settle(flight)
                return alone or event.ours
        return event.ours

    def _settle(self, seen: _Flight) -> None:
        flights, self._flights = self._flights, []
        for flight in flights:
            flight.over = True
        seen.plan.done()

    async def change(self) -> None:
        """Wait for the next event of the document."""
        await self._changed.wait()

    async def apply(self, uri: str, make: MakePlan, *, urgent: bool = False) -> Outcome:
        """Make an edit when it is its turn and wait until it is seen, at most ``SEEN_SECONDS``.

        ``make`` gets the buffer as it is then, and may find that nothing is to be done (None). ``urgent`` does not wait for a
        pause in the user's typing: it carries out what the user asked for just now.
        """
        async with self._lock:
            if not await self._wait_for_turn(uri, urgent=urgent):
                return Outcome.CLOSED
            buffer, version = self._documents.buffer(uri), self._documents.version(uri)
            if buffer is None or version is None:
                return Outcome.CLOSED
            plan = make(buffer)
            if plan is None:
                return Outcome.NOTHING
            return await self._send(uri, version, plan, _expected(buffer, plan.edits))

    async def _send(self, uri: str, version: int, plan: Plan, expected: list[str]) -> Outcome:
        flight = _Flight(plan, expected)
        self._flights = [*self._flights[-MAX_UNSEEN:], flight]
        self._sent_at = self._clock.monotonic()
        self._held_since = None
        self._documents.expect_insert(uri, plan.inserted)
        identifier = {"uri": self._documents.client_uri(uri), "version": version}
        edit = {"documentChanges": [{"textDocument": identifier, "edits": list(plan.edits)}]}
        self._tasks.start_soon(self._ask, edit, flight, None if version <= 0 else APPLY_EDIT_SECONDS)
        if version <= 0:  # such a version is checked by no editor: a second edit could be made beside the first
            while not (flight.answered or flight.over or self._documents.version(uri) is None):
                await self._changed.wait()
        with anyio.move_on_after(SEEN_SECONDS):
            while not (flight.over or self._documents.version(uri) is None):
                await self._changed.wait()
        self._documents.forget_expected(uri)
        if flight.seen:
            return Outcome.SEEN
        return Outcome.UNSEEN if self._documents.version(uri) is not None else Outcome.CLOSED

    async def _ask(self, edit: Mapping[str, Any], flight: _Flight, limit: float | None) -> None:
        await self._client.request("workspace/applyEdit", {"edit": edit}, timeout=limit)  # a label is a message in some editors
        flight.answered = True
        self._wake()

    async def _wait_for_turn(self, uri: str, *, urgent: bool) -> bool:
        """Return true when an edit may go now, false when the document is closed."""
        while self._documents.version(uri) is not None:
            certainty = self._documents.certainty(uri)
            if certainty == "unsure":
                self._tell_unsure(uri)
                await self._changed.wait()
                continue
            wait = GAP_PATIENCE_SECONDS if certainty == "waiting" else self._wait(urgent=urgent)
            if wait <= 0:
                return True
            with anyio.move_on_after(wait):
                await self._changed.wait()
        return False

    def _wait(self, *, urgent: bool) -> float:
        now = self._clock.monotonic()
        pace = self._sent_at + EDIT_INTERVAL_SECONDS - now
        if urgent or self._held_since is None:
            return pace
        typing = min(self._typed_at + TYPING_PAUSE_SECONDS, self._held_since + TYPING_LIMIT_SECONDS) - now
        if typing <= 0 and self._typed_at + TYPING_PAUSE_SECONDS <= now:
            self._held_since = None
        return max(pace, typing)

    def _tell_unsure(self, uri: str) -> None:
        if not self._told_unsure:
            self._told_unsure = True
            self._on_unsure(self._documents.why_unsure(uri) or "its text is not known for sure")


def _expected(buffer: LineBuffer, edits: Sequence[TextEdit]) -> list[str]:
    """Return the lines as they are after the edits, if nobody else changes anything."""
    after = buffer.copy()
    for edit in sorted(
        edits, key=lambda edit: (edit["range"]["start"]["line"], edit["range"]["start"]["character"]), reverse=True
    ):
        start, end = edit["range"]["start"], edit["range"]["end"]
        after.replace((start["line"], start["character"]), (end["line"], end["character"]), edit["newText"])
    return after.lines
