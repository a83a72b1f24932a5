"""Which sidecars are alive: each holds a lock on a file of its own, which the system lets go when the process ends.

A session belongs to one sidecar at a time. Process ids are reused and clocks jump, a lock does neither.
"""

import os
import secrets
import sys
from pathlib import Path

from sidecar.config.paths import private_directory
from sidecar.errors import Unavailable

OWNER_ID_BYTES = 8


class Owner:
    """One running sidecar as an owner of sessions. Without a writable folder it holds no lock and counts as gone for others."""

    def __init__(self, folder: Path | None) -> None:
        self.id = secrets.token_hex(OWNER_ID_BYTES)
        self._folder = folder
        self._fd: int | None = None
        if folder is None:
            return
        try:
            private_directory(folder)
            self._fd = os.open(folder / f"{self.id}.lock", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except (OSError, Unavailable):
            return
        _is_held(self._fd)

    def is_alive(self, owner: str) -> bool:
        """Say whether the sidecar with id ``owner`` still runs; the file of one that does not is removed."""
        if owner == self.id:
            return True
        if self._folder is None or not owner.isalnum():
            return False
        path = self._folder / f"{owner}.lock"
        try:
            fd = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
        except OSError:
            return False
        try:
            if _is_held(fd):
                return True
            path.unlink(missing_ok=True)
        except OSError:
            return False
        finally:
            os.close(fd)
        return False

    def close(self) -> None:
        """Let go; sessions still marked as ours are free from now on."""
        if self._fd is None or self._folder is None:
            return
        os.close(self._fd)
        self._fd = None
        try:
            (self._folder / f"{self.id}.lock").unlink(missing_ok=True)
        except OSError:
            return


def _is_held(fd: int) -> bool:
    """Try to take the lock without waiting; true when another has it. Where there are no locks nobody can be told apart."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return True
    except OSError:
        return False
    return False
