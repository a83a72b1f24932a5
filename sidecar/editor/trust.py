"""Which settings of a workspace the user trusts: fingerprints, kept outside the workspace in the state folder.

Trust is given to exact settings in one folder: one changed byte, or another folder, asks again.
"""

import contextlib
import json
import logging
import os
import secrets
from pathlib import Path
from typing import Any, Final, cast

from sidecar.config import private_directory

FILE_NAME: Final = "trusted.json"
MAX_ENTRIES: Final = 500

_log = logging.getLogger(__name__)


class TrustStore:
    """The file of accepted fingerprints. A file that cannot be read counts as empty: nothing is trusted."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self._session: set[tuple[str, str]] = set()

    def accepted(self, folder: str) -> frozenset[str]:
        """Return the fingerprints the user accepted for ``folder``."""
        return frozenset(fingerprint for place, fingerprint in [*self._read(), *self._session] if place == folder)

    def accept(self, folder: str, fingerprints: list[str]) -> bool:
        """Remember what the user accepted; false when it could not be written and counts until the sidecar ends only."""
        added = [(folder, fingerprint) for fingerprint in fingerprints]
        self._session.update(added)
        entries = [*dict.fromkeys([*self._read(), *added])][-MAX_ENTRIES:]
        body = json.dumps({"accepted": [{"folder": place, "fingerprint": mark} for place, mark in entries]}, indent=1)
        new = self._path.with_name(f"{FILE_NAME}.{secrets.token_hex(4)}")
        try:
            private_directory(self._path.parent)
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(fd, "w", encoding="utf-8") as file:  # noqa: PTH123  an open descriptor
                file.write(body)
            new.replace(self._path)
        except OSError as error:
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)
            _log.warning("the trust you gave could not be saved (%s)", error.strerror)
            return False
        return True

    def _read(self) -> list[tuple[str, str]]:
        try:
            value: object = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return []
        entries: object = cast("dict[str, Any]", value).get("accepted") if isinstance(value, dict) else None
        found: list[tuple[str, str]] = []
        for entry in cast("list[Any]", entries) if isinstance(entries, list) else []:
            item = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
            folder, mark = item.get("folder"), item.get("fingerprint")
            if isinstance(folder, str) and isinstance(mark, str):
                found.append((folder, mark))
        return found
