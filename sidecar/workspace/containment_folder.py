"""Opening the folder of a resolved place so that nothing can be put in its way between the check and the use.

Where the platform has it, each part is opened relative to the one before without following links: a folder that was swapped for
a link meanwhile is an error and not a way out.
"""

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import attrs

from sidecar.errors import Refused
from sidecar.workspace.containment import Place

RELATIVE: Final = {os.open, os.stat, os.mkdir, os.unlink, os.rename} <= os.supports_dir_fd
_NOFOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY: Final[int] = getattr(os, "O_DIRECTORY", 0)
_CLOEXEC: Final[int] = getattr(os, "O_CLOEXEC", 0)
_NONBLOCK: Final[int] = getattr(os, "O_NONBLOCK", 0)
_BINARY: Final[int] = getattr(os, "O_BINARY", 0)
_LINK_ERRORS: Final = frozenset({errno.ELOOP, getattr(errno, "EMLINK", errno.ELOOP)})
FOLDER_MODE: Final = 0o777
FILE_MODE: Final = 0o666


@attrs.frozen
class Folder:
    """An open folder. Names are single components; no call follows a link."""

    path: str
    fd: int | None

    def open(self, name: str, flags: int, mode: int = FILE_MODE) -> int:
        """Open a file and return its descriptor; never waits for the other end of a pipe."""
        return os.open(self._at(name), flags | _NOFOLLOW | _CLOEXEC | _NONBLOCK | _BINARY, mode, dir_fd=self.fd)

    def stat(self, name: str) -> os.stat_result:
        """Return what is known of a file, or of a link itself."""
        return os.stat(self._at(name), dir_fd=self.fd, follow_symlinks=False)

    def rename(self, source: str, target: str) -> None:
        """Put ``source`` in the place of ``target``, at once."""
        if self.fd is None:
            Path(self._at(source)).replace(self._at(target))
        else:
            os.rename(source, target, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def unlink(self, name: str) -> None:
        """Remove a file; nothing happens when it is not there."""
        with suppress(FileNotFoundError):
            os.unlink(self._at(name), dir_fd=self.fd)

    def _at(self, name: str) -> str:
        return str(Path(self.path) / name) if self.fd is None else name


@contextmanager
def opened_folder(place: Place, *, create: bool = False) -> Generator[tuple[Folder, str], None, None]:
    """Yield the folder of ``place`` and the file's name in it. Missing folders are made with ``create``.

    Raises ``Refused`` when the way there changed since it was resolved, ``OSError`` (``FileNotFoundError``) otherwise.
    """
    if not place.parts:
        raise IsADirectoryError(place.path)
    path = str(Path(place.path).parent)
    if not RELATIVE:
        if create:
            Path(path).mkdir(parents=True, exist_ok=True)
        if os.path.realpath(path) != path:
            raise _changed(place)
        yield Folder(path, None), place.parts[-1]
        return
    fd = _walk(place, create=create)
    try:
        yield Folder(path, fd), place.parts[-1]
    finally:
        os.close(fd)


def _walk(place: Place, *, create: bool) -> int:
    fd = os.open(place.root, os.O_RDONLY | _DIRECTORY | _CLOEXEC)
    try:
        _check_root(fd, place)
        for part in place.parts[:-1]:
            inner = _step(fd, part, place, create=create)
            os.close(fd)
            fd = inner
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check_root(fd: int, place: Place) -> None:
    found = os.fstat(fd)
    if (found.st_dev, found.st_ino) != place.root_id:
        raise _changed(place)


def _step(fd: int, part: str, place: Place, *, create: bool) -> int:
    flags = os.O_RDONLY | _DIRECTORY | _NOFOLLOW | _CLOEXEC
    try:
        return os.open(part, flags, dir_fd=fd)
    except FileNotFoundError:
        if not create:
            raise
        with suppress(FileExistsError):
            os.mkdir(part, FOLDER_MODE, dir_fd=fd)
    except OSError as error:  # with O_DIRECTORY a link is reported as no folder on some systems
        if error.errno in _LINK_ERRORS or stat.S_ISLNK(os.stat(part, dir_fd=fd, follow_symlinks=False).st_mode):
            raise _changed(place) from None
        raise
    return os.open(part, flags, dir_fd=fd)


def _changed(place: Place) -> Refused:
    return Refused(f"the folders leading to {place.shown} were changed meanwhile; nothing was read or written. Try again.")
