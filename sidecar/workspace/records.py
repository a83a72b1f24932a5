"""Which sessions are remembered: written behind as they change, read when they are listed or loaded again."""

from collections.abc import Sequence
from typing import Any, Final

from sidecar.session.conversation import TextPart, Turn
from sidecar.session.encode import turn_json
from sidecar.session.events import InfoChanged, LoadEnded, MarkedIncomplete, SessionEvent, TurnEnded
from sidecar.store.sessions import History, SessionRecord, SessionStore
from sidecar.store.worker import StoreWorker
from sidecar.workspace.actor import SessionActor

TURN_CHARS: Final = 16 * 1024 * 1024
"""Turns with more text than this live in memory only."""


class Records:
    """Keeps the store in step with the sessions. Nothing here waits but ``find`` and its like."""

    def __init__(self, worker: StoreWorker) -> None:
        self._worker = worker

    def follow(self, actor: SessionActor) -> None:
        """Save the session whenever something of it that outlives a process changed."""
        actor.observe(lambda batch: self._changed(actor, batch))

    def _changed(self, actor: SessionActor, batch: Sequence[SessionEvent]) -> None:
        if actor.forgotten:
            return  # what still comes of it does not bring it back
        save = False
        for event in batch:
            if isinstance(event, TurnEnded):
                self._save_turn(actor, event.turn_id)
                save = True
            elif isinstance(event, LoadEnded) and event.ok:
                self._replace_turns(actor)
                save = True
            elif isinstance(event, InfoChanged | MarkedIncomplete):
                save = True
        if save:
            self.save(actor)

    def _replace_turns(self, actor: SessionActor) -> None:
        turns = [turn_json(turn) for turn in actor.state.conversation.turns if not _is_huge(turn)]
        session_id = actor.identity.session_id
        if turns:
            self._worker.post(lambda store: store.replace_turns(session_id, turns))

    def _save_turn(self, actor: SessionActor, turn_id: str) -> None:
        turn = actor.state.conversation.turn_index.get(turn_id)
        if turn is not None and not _is_huge(turn):
            session_id, body = actor.identity.session_id, turn_json(turn)
            self._worker.post(lambda store: store.save_turn(session_id, body))

    def save(self, actor: SessionActor) -> None:
        """Save the session's record; repeated saves that wait are merged."""
        if actor.identity.agent_session_id is None:
            return
        record = record_of(actor)
        self._worker.post(lambda store: store.save(record), key=("record", record.session_id))

    def delete(self, session_id: str) -> None:
        """Forget a session and its turns."""
        self._worker.post(lambda store: store.delete(session_id))

    async def get(self, session_id: str) -> SessionRecord | None:
        """Return the record of our id."""
        return await self._worker.call(lambda store: store.get(session_id))

    async def find(self, agent: str, agent_session_id: str) -> SessionRecord | None:
        """Return the record of an agent's id."""
        return await self._worker.call(lambda store: store.find(agent, agent_session_id))

    async def list(self, agent: str | None, cwd: str | None) -> Sequence[SessionRecord]:
        """Return the newest records."""

        def read(store: SessionStore) -> Sequence[SessionRecord]:
            return store.list(agent=agent, cwd=cwd)

        return await self._worker.call(read)

    async def turns(self, session_id: str) -> History:
        """Return the stored turns of a session."""
        return await self._worker.call(lambda store: store.turns(session_id))


def _is_huge(turn: Turn) -> bool:
    """Whether writing the turn down would hold everybody up; the store would not take it either."""
    return sum(part.buffer.length for part in turn.parts if isinstance(part, TextPart)) > TURN_CHARS


def record_of(actor: SessionActor) -> SessionRecord:
    """Return what is remembered of a session: no secret, of MCP servers only the names."""
    identity, spec, conversation = actor.identity, actor.identity.spec, actor.state.conversation
    last = conversation.turns[-1] if conversation.turns else None
    return SessionRecord(
        session_id=identity.session_id,
        agent=identity.agent,
        cwd=spec.cwd,
        generation=identity.generation,
        agent_session_id=identity.agent_session_id,
        additional_directories=tuple(spec.additional_directories),
        mcp_servers=tuple(str(server.get("name")) for server in spec.mcp_servers),
        title=conversation.title,
        remote=identity.remote,
        mode=actor.chosen.get("mode"),
        model=actor.chosen.get("model"),
        effort=actor.chosen.get("effort"),
        incomplete=conversation.incomplete,
        unknown_outcome=last.turn_id if last is not None and last.outcome == "unknown" else None,
    )


def listed(record: SessionRecord) -> dict[str, Any]:
    """Return a record as an entry of ``session.list``."""
    entry: dict[str, Any] = {"sessionId": record.session_id, "agent": record.agent, "cwd": record.cwd, "stored": True}
    entry |= {"agentSessionId": record.agent_session_id} if record.agent_session_id else {}
    entry |= {"title": record.title} if record.title else {}
    entry |= {"updatedAt": record.updated_at} if record.updated_at else {}
    return entry
