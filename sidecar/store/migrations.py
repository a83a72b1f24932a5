"""The tables, as steps from one version of the file to the next. A step is never edited once released; new ones are appended."""

from typing import Final

MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        """CREATE TABLE sessions (
            session_id TEXT PRIMARY KEY,
            agent TEXT NOT NULL,
            generation TEXT,
            account TEXT,
            agent_session_id TEXT,
            cwd TEXT NOT NULL,
            additional_directories TEXT NOT NULL,
            mcp_servers TEXT NOT NULL,
            title TEXT,
            remote INTEGER NOT NULL,
            mode TEXT,
            model TEXT,
            effort TEXT,
            incomplete TEXT,
            unknown_outcome TEXT,
            created_at TEXT NOT NULL,
            updated_at TEXT NOT NULL,
            extra TEXT NOT NULL,
            owner TEXT
        )""",
        "CREATE INDEX sessions_by_agent ON sessions (agent, agent_session_id)",
        "CREATE INDEX sessions_by_time ON sessions (updated_at)",
        """CREATE TABLE turns (
            session_id TEXT NOT NULL,
            turn_id TEXT NOT NULL,
            ordinal INTEGER NOT NULL,
            size INTEGER NOT NULL,
            body BLOB NOT NULL,
            PRIMARY KEY (session_id, turn_id)
        )""",
        "CREATE UNIQUE INDEX turns_in_order ON turns (session_id, ordinal)",
        "CREATE TABLE drafts (session_id TEXT PRIMARY KEY, text TEXT NOT NULL, updated_at TEXT NOT NULL)",
        """CREATE TABLE wishes (
            agent TEXT NOT NULL,
            generation TEXT NOT NULL,
            account TEXT NOT NULL,
            kind TEXT NOT NULL,
            value TEXT NOT NULL,
            PRIMARY KEY (agent, generation, account, kind)
        )""",
    ),
)

SCHEMA_VERSION: Final = len(MIGRATIONS)
