"""The stream of changes to an editor with a plugin (editor protocol, notifications to the editor).

One reader's place (``Cursor``) per watched session; a frame is built only when the writer has room, so an editor that does not
read costs nothing. Sessions that are not watched send changes of their state only.
"""

import secrets
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from anyio.abc import TaskGroup

from sidecar.editor.client import EditorClient
from sidecar.editor.pump import Pump
from sidecar.session.cursor import Cursor
from sidecar.session.events import LoadEnded, McpServersReplaced, SessionEvent
from sidecar.session.model import SNAPSHOT_TURNS
from sidecar.workspace.actor import SessionActor
from sidecar.workspace.broker import Broker
from sidecar.workspace.operations_sessions import session_extras

FRAME_BYTES: Final = 1 << 20
"""About the largest frame: what a flood leaves over stays in the session's state until the next one."""

SESSION_CHANGED: Final = "sidecar/session/changed"
MCP_CHANGED: Final = "sidecar/mcp/changed"
_WATCH_NEW: ContextVar[bool] = ContextVar("watch_new", default=False)


class SessionStream:
    """One session's frames: numbered without gaps, in one epoch until its history is replaced.

    ``first_seq`` is the number sent last in an earlier life of the session; ``states`` false: nothing is sent while not watched.
    """

    def __init__(
        self, actor: SessionActor, client: EditorClient, waiting: Callable[[str], int], *, first_seq: int, states: bool
    ) -> None:
        self.actor = actor
        self.seq = first_seq
        self._states = states
        self.epoch = secrets.token_hex(4)
        self.pump = Pump(client.room, self._send)
        self._client = client
        self._waiting = waiting
        self._cursor: Cursor | None = None
        self._taken_up = False
        self._told: dict[str, Any] | None = None
        self._mcp_dirty = False
        actor.state.subscribe(self._on_change)
        self._stop_observing = actor.observe(self._on_batch)

    @property
    def session_id(self) -> str:
        return self.actor.identity.session_id

    @property
    def watched(self) -> bool:
        """Whether every change is sent."""
        return self._cursor is not None

    def watch(self, since: Mapping[str, Any] | None, turns: int) -> dict[str, Any]:
        """Start the stream, or go on with it where ``since`` is what was sent last: ``{"epoch", "seq", "snapshot"?}``."""
        going_on = self.watched and since is not None and (since.get("epoch"), since.get("seq")) == (self.epoch, self.seq)
        place = {"epoch": self.epoch, "seq": self.seq}
        if going_on:
            return place
        self._follow(turns)
        return {**place, "snapshot": {**self.snapshot(turns), **place}}

    def watch_from_reset(self) -> None:
        """Start the stream for an editor that has no snapshot: the first frame is a reset with everything."""
        if not self.watched:
            self._follow(SNAPSHOT_TURNS).reset()
            self._taken_up = True
            self.pump.mark()

    def unwatch(self) -> None:
        """Send changes of the state only."""
        if self._cursor is not None:
            self._cursor.close()
            self._cursor = None
            self._told = self._summary()

    def close(self) -> None:
        """The session is over: what is left is sent, then ``run`` ends."""
        self.actor.state.unsubscribe(self._on_change)
        self.pump.stop()

    async def run(self) -> None:
        """Send what changes until the session is closed."""
        try:
            await self.pump.run()
        finally:
            self._stop_observing()
            if self._cursor is not None:
                self._cursor.close()

    def snapshot(self, turns: int, before: str | None = None) -> dict[str, Any]:
        """Return ``session.state`` of this session, its place in the stream included."""
        snapshot = self.actor.state.to_json(turns, before)
        state = {**snapshot["state"], **self._waits()}
        place = {"sessionId": self.session_id, "epoch": self.epoch, "seq": self.seq}
        return {**snapshot, "state": state, **place, **session_extras(self.actor)}

    def questions_changed(self) -> None:
        """The number of questions of this session changed."""
        if self._cursor is not None:
            self._cursor.section_changed("state")
        self.pump.mark()

    def _follow(self, turns: int) -> Cursor:
        if self._cursor is not None:
            self._cursor.close()
        self._taken_up = False
        self._cursor = Cursor(self.actor.state, turns)
        return self._cursor

    def _on_change(self) -> None:
        self.pump.mark()
        if self.actor.closed:
            self.close()

    def _on_batch(self, batch: Sequence[SessionEvent]) -> None:
        for event in batch:
            if type(event) is McpServersReplaced:
                self._mcp_dirty = True
            elif type(event) is LoadEnded:
                self._mcp_dirty = True
                if event.ok and event.replayed:
                    self.epoch = secrets.token_hex(4)

    def _waits(self) -> dict[str, Any]:
        return {"waiting": self._waiting(self.session_id)}

    def _summary(self) -> dict[str, Any]:
        state = {**self.actor.state.section("state")["state"], **self._waits()}
        title = self.actor.state.conversation.title
        return {**state, "title": title} if title is not None else state

    def _send(self) -> bool:
        """Send one frame when anything changed; return whether more is waiting."""
        cursor = self._cursor
        if cursor is None and not self._states:
            return False
        if self._mcp_dirty:
            self._mcp_dirty = False
            servers = self.actor.state.section("mcp")["mcp"]
            self._client.notify(MCP_CHANGED, {"sessionId": self.session_id, "servers": servers})
        changes = self._state_change() if cursor is None else [self._finished(change) for change in cursor.take(FRAME_BYTES)]
        if changes:
            self.seq += 1
            place = {"sessionId": self.session_id, "epoch": self.epoch, "seq": self.seq}
            self._client.notify(SESSION_CHANGED, {**place, "changes": changes})
        return cursor is not None and cursor.pending

    def _state_change(self) -> list[dict[str, Any]]:
        summary = self._summary()
        if summary == self._told:
            return []
        self._told = summary
        return [{"kind": "state", "state": summary}]

    def _finished(self, change: dict[str, Any]) -> dict[str, Any]:
        """Add to a change what only the stream knows."""
        if change["kind"] == "state":
            return {**change, "state": {**change["state"], **self._waits()}}
        if change["kind"] == "reset" and self._taken_up:
            self._taken_up = False
            return {**change, "reason": "watch"}
        return change


class Publisher:
    """The streams of all sessions of one editor.

    ``automatic`` false (no plugin, or one that wants no changes): only what is watched by name is streamed.
    """

    def __init__(self, client: EditorClient, tasks: TaskGroup, broker: Broker, *, automatic: bool) -> None:
        self._client = client
        self._tasks = tasks
        self._broker = broker
        self._automatic = automatic
        self._streams: dict[str, SessionStream] = {}
        self._waiting: dict[str, int] = {}
        self._last_seq: dict[str, int] = {}
        broker.subscribe(self._count_questions)

    def stream(self, actor: SessionActor) -> SessionStream:
        """Return the stream of a session; it is made on first use."""
        session_id = actor.identity.session_id
        found = self._streams.get(session_id)
        if found is not None and found.actor is actor:
            return found
        if found is not None:
            found.close()
            self._last_seq[session_id] = found.seq
        stream = SessionStream(
            actor, self._client, self.waiting, first_seq=self._last_seq.get(session_id, 0), states=self._automatic
        )
        self._streams[session_id] = stream
        self._tasks.start_soon(self._run, stream)
        return stream

    def session_added(self, actor: SessionActor) -> None:
        """A session was made or loaded here."""
        if self._automatic:
            stream = self.stream(actor)
            if _WATCH_NEW.get():
                stream.watch_from_reset()
            else:
                stream.pump.mark()

    def watch_quietly(self, actor: SessionActor) -> None:
        """Watch a session that the user works with now, unless the editor wants no changes."""
        if self._automatic:
            self.stream(actor).watch_from_reset()

    def waiting(self, session_id: str) -> int:
        """Return how many questions of a session wait for the user."""
        return self._waiting.get(session_id, 0)

    async def _run(self, stream: SessionStream) -> None:
        await stream.run()
        if self._streams.get(stream.session_id) is stream:
            self._last_seq[stream.session_id] = stream.seq
            del self._streams[stream.session_id]

    def _count_questions(self) -> None:
        counts: dict[str, int] = {}
        for pending in self._broker.pending():
            if (session_id := pending.asker.session_id) is not None:
                counts[session_id] = counts.get(session_id, 0) + 1
        changed = [name for name in {**counts, **self._waiting} if counts.get(name, 0) != self._waiting.get(name, 0)]
        self._waiting = counts
        for session_id in changed:
            if (stream := self._streams.get(session_id)) is not None:
                stream.questions_changed()


@contextmanager
def watching_new() -> Generator[None]:
    """Within it, sessions that are added are watched from their beginning."""
    token = _WATCH_NEW.set(True)
    try:
        yield
    finally:
        _WATCH_NEW.reset(token)
