"""Sessions on disk: one file each in the state folder, so that they survive a restart and two demo agents never collide."""

import contextlib
import os
import re
from pathlib import Path
from typing import Final

from sidecar.codec import decode, encode
from sidecar.demo.session import DemoSession
from sidecar.demo.wire import Json, list_at, object_at

SESSION_ID: Final = re.compile(r"sess_[0-9a-f-]{36}")
"""Ids of ours; anything else never becomes a file name."""

USER_RULES_FILE: Final = "user-rules.json"


class SessionFiles:
    """The state folder. A folder that cannot be written leaves the demo with sessions in memory only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._unwritten_rules: list[Json] = []

    def read(self, session_id: str) -> DemoSession | None:
        """Return the stored session, or None when there is none that can be read."""
        if SESSION_ID.fullmatch(session_id) is None:
            return None
        return DemoSession.from_json(self._read_json(f"{session_id}.json"))

    def read_all(self) -> list[DemoSession]:
        """Return every stored session that can be read."""
        names = sorted(path.stem for path in self._folder.glob("sess_*.json"))
        found = [self.read(name) for name in names]
        return [session for session in found if session is not None]

    def write(self, session: DemoSession) -> None:
        """Store ``session``; without a folder to write to it lives on in memory only."""
        with contextlib.suppress(OSError):
            self._replace(self._folder / f"{session.session_id}.json", session.to_json())

    def remove(self, session_id: str) -> None:
        if SESSION_ID.fullmatch(session_id):
            (self._folder / f"{session_id}.json").unlink(missing_ok=True)

    def read_user_rules(self) -> list[Json]:
        """Return the consent rules the user stored for all workspaces."""
        stored = list_at({"rules": self._read_json(USER_RULES_FILE)}, "rules")
        return [object_at(rule) for rule in stored] + self._unwritten_rules

    def add_user_rule(self, rule: Json) -> None:
        """Store one more rule; a rule that cannot be written holds until the process ends."""
        try:
            self._replace(self._folder / USER_RULES_FILE, [*self.read_user_rules(), rule])
        except OSError:
            self._unwritten_rules.append(rule)

    def write_export(self, session: DemoSession) -> Path:
        """Write ``session`` to an export file and return the path; raises OSError when the folder cannot be written."""
        path = self._folder / f"export-{session.session_id}.json"
        self._replace(path, session.to_json())
        return path

    def _read_json(self, name: str) -> object:
        try:
            return decode((self._folder / name).read_bytes()) if self._is_ours() else None
        except (OSError, ValueError):
            return None

    def _replace(self, path: Path, value: object) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._is_ours():
            raise PermissionError(f"{self._folder} belongs to another user; set SIDECAR_DEMO_STATE to a folder of yours")
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.touch(mode=0o600)
        temporary.write_bytes(encode(value))
        temporary.replace(path)

    def _is_ours(self) -> bool:
        """Tell whether no other user made the folder: its default place is the temporary folder, which everybody can write."""
        return not hasattr(os, "getuid") or self._folder.lstat().st_uid == os.getuid()
