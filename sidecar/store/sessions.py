"""What is kept of sessions: records, their turns, composer drafts, and the last wishes for mode, model and effort.

All calls are synchronous and short; ``worker.py`` beside this file runs them off the loop. Nothing secret belongs in here: of MCP
servers only the names are kept, and turns hold no sign-in addresses (the session model never has them).
"""

import re
import sqlite3
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import attrs

from sidecar.errors import SidecarBug
from sidecar.store.database import Database
from sidecar.store.owners import Owner
from sidecar.store.records import (
    COLUMNS,
    History,
    SessionRecord,
    Turn,
    Wishes,
    from_db,
    from_row,
    pack_turn,
    to_db,
    to_row,
    unpack_turn,
)
from sidecar.store.retention import (
    MAX_SESSIONS,
    MAX_TURN_BYTES,
    MAX_TURNS_BYTES,
    MAX_TURNS_PER_SESSION,
    delete_sessions,
    delete_turns_beyond,
    put_turn,
    sessions_beyond,
)

MAX_DRAFT_CHARS: Final = 1_000_000
FREED_PAGES_AT_ONCE: Final = 4_096

_OWN_ID: Final = re.compile(r"[A-Za-z0-9_\-]{1,64}")
_UPDATED: Final = ", ".join(f"{name} = excluded.{name}" for name in COLUMNS if name not in {"session_id", "created_at"})
_UPSERT: Final = (
    f"INSERT INTO sessions ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))}) "  # noqa: S608 - names of a class
    f"ON CONFLICT (session_id) DO UPDATE SET {_UPDATED}"
)
_SELECT: Final = f"SELECT {', '.join(COLUMNS)} FROM sessions "  # noqa: S608 - as above
_PAGE: Final = (
    "SELECT turn_id, body FROM turns WHERE session_id = ?1 AND (?2 IS NULL OR ordinal < ?2) ORDER BY ordinal DESC LIMIT ?3"
)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class SessionStore:
    """Everything about sessions in one state folder (None: in memory only)."""

    def __init__(self, folder: Path | None, *, now: Callable[[], str] = _now) -> None:
        self.folder = folder
        self._now = now
        self.database = Database(folder / "state.db" if folder else None)
        self.owner = Owner(folder / "owners" if folder else None)

    @property
    def reduced(self) -> str | None:
        """None, or the one message on why nothing is saved."""
        return self.database.reduced

    def close(self) -> None:
        """Give up all sessions and close the file."""
        self.owner.close()
        self.database.close()

    def transcript_path(self, session_id: str) -> Path:
        """Return where the transcript of a session lies: named by our own id, never by anything an agent sent."""
        if not _OWN_ID.fullmatch(session_id):
            raise SidecarBug("a session id that is not ours was used for a file name")
        return (self.folder or Path()) / "transcripts" / f"{session_id}.md"

    # --- records ----------------------------------------------------------------------------------------------------

    def save(self, record: SessionRecord) -> None:
        """Create or replace a record (its turns and draft stay); ``created_at`` is kept, an empty time is now."""
        row = to_row(
            attrs.evolve(record, created_at=record.created_at or self._now(), updated_at=record.updated_at or self._now())
        )
        self.database.write(lambda db: db.execute(_UPSERT, row))

    def get(self, session_id: str) -> SessionRecord | None:
        """Return the record of a session, or None."""
        return self._one("WHERE session_id = ?", session_id)

    def find(self, agent: str, agent_session_id: str) -> SessionRecord | None:
        """Return the newest record of an agent's own session id, or None."""
        return self._one("WHERE agent = ? AND agent_session_id = ? ORDER BY updated_at DESC LIMIT 1", agent, agent_session_id)

    def list(self, *, agent: str | None = None, cwd: str | None = None, limit: int = 100) -> Sequence[SessionRecord]:
        """Return records, the last used first."""
        where = "WHERE (?1 IS NULL OR agent = ?1) AND (?2 IS NULL OR cwd = ?2) ORDER BY updated_at DESC, session_id LIMIT ?3"
        rows = self.database.read(lambda db: db.execute(_SELECT + where, (agent, to_db(cwd), limit)).fetchall())
        return [from_row(row) for row in rows]

    def delete(self, session_id: str) -> None:
        """Remove a session with its turns, draft and transcript."""
        self.database.write(lambda db: delete_sessions(db, [session_id]))
        self._remove_transcripts([session_id])

    def _one(self, where: str, *values: str) -> SessionRecord | None:
        row = self.database.read(lambda db: db.execute(_SELECT + where, [to_db(value) for value in values]).fetchone())
        return None if row is None else from_row(row)

    # --- ownership --------------------------------------------------------------------------------------------------

    def claim(self, session_id: str) -> bool:
        """Make this sidecar the one that runs the session; false when another one that is alive does."""

        def operation(db: sqlite3.Connection) -> bool:
            row = db.execute("SELECT owner FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
            if row is None:
                return True
            if row[0] is not None and row[0] != self.owner.id and self.owner.is_alive(row[0]):
                return False
            db.execute("UPDATE sessions SET owner = ? WHERE session_id = ?", (self.owner.id, session_id))
            return True

        return self.database.write(operation)

    def release(self, session_id: str) -> None:
        """Give the session up, if it is ours."""
        sql = "UPDATE sessions SET owner = NULL WHERE session_id = ? AND owner = ?"
        self.database.write(lambda db: db.execute(sql, (session_id, self.owner.id)))

    # --- turns ------------------------------------------------------------------------------------------------------

    def save_turn(self, session_id: str, turn: Turn) -> bool:
        """Store one turn (``{"turnId", ...}``), or replace it in its place; its record may follow. False: too large."""
        turn_id, body = str(turn.get("turnId", "")), pack_turn(turn)
        if len(body) > MAX_TURN_BYTES:
            return False
        self.database.write(lambda db: put_turn(db, session_id, turn_id, body))
        return True

    def replace_turns(self, session_id: str, turns: Sequence[Turn]) -> bool:
        """Store ``turns`` in place of all that is stored: the agent replayed the session. False: some are too large, left out."""
        bodies = [(str(turn.get("turnId", "")), pack_turn(turn)) for turn in turns[-MAX_TURNS_PER_SESSION:]]
        kept = [(turn_id, body) for turn_id, body in bodies if len(body) <= MAX_TURN_BYTES]

        def operation(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM turns WHERE session_id = ?", (session_id,))
            for turn_id, body in kept:
                put_turn(db, session_id, turn_id, body)

        self.database.write(operation)
        return len(kept) == len(bodies)

    def turns(self, session_id: str, *, limit: int = 50, before: str | None = None) -> History:
        """Return the last ``limit`` turns, or those before the turn ``before``. A turn that cannot be read is left out."""

        def operation(db: sqlite3.Connection) -> Sequence[tuple[str, bytes]]:
            sql = "SELECT ordinal FROM turns WHERE session_id = ? AND turn_id = ?"
            bound = db.execute(sql, (session_id, before)).fetchone() if before is not None else None
            if before is not None and bound is None:
                return []
            return db.execute(_PAGE, (session_id, bound and bound[0], limit + 1)).fetchall()

        rows = self.database.read(operation)
        shown = rows[:limit]
        unpacked = [unpack_turn(body) for _, body in reversed(shown)]
        return History([turn for turn in unpacked if turn is not None], shown[-1][0] if len(rows) > limit and shown else None)

    # --- drafts and wishes ------------------------------------------------------------------------------------------

    def save_draft(self, session_id: str, text: str) -> None:
        """Keep the unsent text of a composer; an empty one is forgotten. At most ``MAX_DRAFT_CHARS`` are kept."""

        def operation(db: sqlite3.Connection) -> None:
            if text:
                row = (session_id, to_db(text[:MAX_DRAFT_CHARS]), self._now())
                db.execute("INSERT OR REPLACE INTO drafts VALUES (?, ?, ?)", row)
            else:
                db.execute("DELETE FROM drafts WHERE session_id = ?", (session_id,))

        self.database.write(operation)

    def draft(self, session_id: str) -> str:
        """Return the unsent text of a composer, or ""."""
        row = self.database.read(lambda db: db.execute("SELECT text FROM drafts WHERE session_id = ?", (session_id,)).fetchone())
        return "" if row is None else str(from_db(row[0]))

    def remember_wish(self, record: SessionRecord, kind: str, value: str | None) -> None:
        """Keep the user's last choice of ``kind`` (mode, model, effort) for the record's agent, generation and account only."""
        key = (*_wish_key(record.agent, record.generation, record.account), kind)

        def operation(db: sqlite3.Connection) -> None:
            if value is None:
                db.execute("DELETE FROM wishes WHERE agent = ? AND generation = ? AND account = ? AND kind = ?", key)
            else:
                db.execute("INSERT OR REPLACE INTO wishes VALUES (?, ?, ?, ?, ?)", (*key, value))

        self.database.write(operation)

    def wishes(self, agent: str, generation: str | None, account: str | None) -> Wishes:
        """Return the last choices made with exactly this agent, generation and account."""
        sql = "SELECT kind, value FROM wishes WHERE agent = ? AND generation = ? AND account = ?"
        rows = self.database.read(lambda db: db.execute(sql, _wish_key(agent, generation, account)).fetchall())
        return Wishes(**{kind: value for kind, value in rows if kind in {"mode", "model", "effort"}})

    # --- retention --------------------------------------------------------------------------------------------------

    def prune(self, *, max_sessions: int = MAX_SESSIONS, max_turns_bytes: int = MAX_TURNS_BYTES) -> Sequence[str]:
        """Remove what is beyond the bounds, the least recently used first; returns the ids of the sessions removed.

        A session somebody runs, or with an unsent draft, keeps its record; the most recent one keeps its turns too.
        """

        def operation(db: sqlite3.Connection) -> Sequence[str]:
            owners = {row[0] for row in db.execute("SELECT DISTINCT owner FROM sessions WHERE owner IS NOT NULL")}
            running = [owner for owner in owners if self.owner.is_alive(owner)]
            removed = sessions_beyond(db, max_sessions, running)
            delete_sessions(db, removed)
            delete_turns_beyond(db, max_turns_bytes, running)
            return removed

        removed = self.database.write(operation)
        self.database.read(lambda db: db.execute(f"PRAGMA incremental_vacuum({FREED_PAGES_AT_ONCE})").fetchall())
        self._remove_transcripts(removed)
        return removed

    def _remove_transcripts(self, session_ids: Sequence[str]) -> None:
        for session_id in session_ids:
            if self.folder is not None and _OWN_ID.fullmatch(session_id):
                try:
                    self.transcript_path(session_id).unlink(missing_ok=True)
                except OSError:
                    continue


def _wish_key(agent: str, generation: str | None, account: str | None) -> tuple[str, str, str]:
    return agent, generation or "", account or ""
