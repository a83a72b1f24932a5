"""The statements that store turns within bounds, and remove what is beyond them."""

import sqlite3
from collections.abc import Sequence
from typing import Final

MAX_SESSIONS: Final = 1_000
MAX_TURNS_BYTES: Final = 256 * 1024 * 1024
MAX_TURN_BYTES: Final = 16 * 1024 * 1024
MAX_TURNS_PER_SESSION: Final = 2_000


def put_turn(db: sqlite3.Connection, session_id: str, turn_id: str, body: bytes) -> None:
    """Store a turn at the end, or in its place when it is there; drop the oldest beyond the bound."""
    db.execute(
        "INSERT INTO turns (session_id, turn_id, ordinal, size, body) "
        "VALUES (?1, ?2, (SELECT COALESCE(MAX(ordinal), 0) + 1 FROM turns WHERE session_id = ?1), ?3, ?4) "
        "ON CONFLICT (session_id, turn_id) DO UPDATE SET size = excluded.size, body = excluded.body",
        (session_id, turn_id, len(body), body),
    )
    db.execute(
        "DELETE FROM turns WHERE session_id = ?1 AND ordinal <= (SELECT MAX(ordinal) FROM turns WHERE session_id = ?1) - ?2",
        (session_id, MAX_TURNS_PER_SESSION),
    )


def delete_sessions(db: sqlite3.Connection, session_ids: Sequence[str]) -> None:
    """Remove sessions with their turns and drafts."""
    for session_id in session_ids:
        db.execute("DELETE FROM sessions WHERE session_id = ?", (session_id,))
        db.execute("DELETE FROM turns WHERE session_id = ?", (session_id,))
        db.execute("DELETE FROM drafts WHERE session_id = ?", (session_id,))


def sessions_beyond(db: sqlite3.Connection, max_sessions: int, running: Sequence[str]) -> Sequence[str]:
    """Return the least recently used sessions beyond the bound that nobody runs and that have no unsent draft."""
    rows = db.execute(
        "SELECT session_id, owner FROM sessions ORDER BY updated_at DESC, session_id LIMIT -1 OFFSET ?", (max_sessions,)
    ).fetchall()
    drafts = {row[0] for row in db.execute("SELECT session_id FROM drafts")}
    return [session_id for session_id, owner in rows if owner not in running and session_id not in drafts]


def delete_turns_beyond(db: sqlite3.Connection, max_bytes: int, running: Sequence[str]) -> None:
    """Remove all turns of the least recently used sessions until the rest is small enough; the last used one is kept.

    Turns whose session has no record (deleted by another sidecar meanwhile, or never saved) go first.
    """
    db.execute("DELETE FROM turns WHERE session_id NOT IN (SELECT session_id FROM sessions)")
    excess = int(db.execute("SELECT COALESCE(SUM(size), 0) FROM turns").fetchone()[0]) - max_bytes
    rows = db.execute(
        "SELECT s.session_id, s.owner, SUM(t.size) FROM sessions s JOIN turns t USING (session_id) "
        "GROUP BY s.session_id ORDER BY s.updated_at, s.session_id"
    ).fetchall()
    for session_id, owner, size in rows[:-1]:
        if excess <= 0:
            return
        if owner not in running:
            db.execute("DELETE FROM turns WHERE session_id = ?", (session_id,))
            excess -= size
