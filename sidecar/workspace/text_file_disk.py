"""Text files on the disk: read with their form and mode, replaced at once and with both kept. Blocks; for worker threads."""

import errno
import os
import secrets
import stat
from contextlib import suppress
from typing import Final, TypeAlias

import attrs

from sidecar.errors import Unavailable
from sidecar.workspace.containment import Place
from sidecar.workspace.containment_folder import Folder, opened_folder
from sidecar.workspace.text_file import PLAIN, MissingFile, TextForm, UnusableFile, decode, digest, encode, keep_line_ends

MAX_TEXT_BYTES: Final = 16 * 1024 * 1024
KEPT_MODE: Final = 0o1777
"""Permission bits that are kept; set-user-id and the like are not given to a text an agent wrote."""

_ANY_WRITE: Final = 0o222
_NO_REPLACE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EBUSY, errno.EXDEV, errno.EROFS})

FileState: TypeAlias = tuple[int, int, int, int]
"""Device, file number, size and time of change: the same numbers, the same content."""


class ChangedMeanwhile(Unavailable):
    """The file was changed by somebody else between reading and writing; nothing was written."""


@attrs.frozen
class Snapshot:
    """A file as it was read. ``text`` has its own line ends; ``content_hash`` is that of the bytes."""

    text: str = attrs.field(repr=False)
    form: TextForm
    mode: int
    state: FileState
    content_hash: str


def state_of(found: os.stat_result) -> FileState:
    """Return the numbers that change when the file's content does."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def disk_state(place: Place) -> FileState | None:
    """Return the state of a file without reading it, or None when it is not there."""
    try:
        with opened_folder(place) as (folder, name):
            return state_of(folder.stat(name))
    except OSError:
        return None


def read_file(place: Place) -> Snapshot | None:
    """Return the file, or None when it is not there; raises ``UnusableFile`` or ``Refused`` when it is not to be had."""
    try:
        with opened_folder(place) as (folder, name):
            return _read(folder, name, place.shown)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(error, place, "read") from None


def existing_file(place: Place) -> Snapshot:
    """Return the file as ``read_file`` does; raises ``MissingFile`` when it is not there."""
    found = read_file(place)
    if found is None:
        raise MissingFile(place.path)
    return found


def _read(folder: Folder, name: str, shown: str) -> Snapshot:
    fd = folder.open(name, os.O_RDONLY)
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(shown)
        if not stat.S_ISREG(found.st_mode):
            raise UnusableFile(f"{shown} is a device, pipe or socket; only plain files are read and written")
        if found.st_size > MAX_TEXT_BYTES:
            raise UnusableFile(
                f"{shown} has {found.st_size} bytes; files above {MAX_TEXT_BYTES} bytes are not handed over. "
                "Read the part that is needed with a command."
            )
        data = file.read(MAX_TEXT_BYTES + 1)
    text, form = decode(data, shown)
    return Snapshot(text, form, stat.S_IMODE(found.st_mode), state_of(found), digest(data))


def _unusable(error: OSError, place: Place, doing: str) -> UnusableFile:
    if isinstance(error, IsADirectoryError):
        return UnusableFile(f"{place.shown or place.path} is a folder, not a file")
    if isinstance(error, NotADirectoryError):
        return UnusableFile(f"{place.shown} cannot be {doing}: a part of its path is a file and not a folder")
    if error.errno == errno.ELOOP:
        return UnusableFile(f"{place.shown} became a link meanwhile; it was not {doing}")
    reason = error.strerror or type(error).__name__
    return UnusableFile(f"{place.shown} cannot be {doing}: {reason}")


def write_file(place: Place, text: str, before: Snapshot | None) -> Snapshot:
    """Put ``text`` in the file's place and return it as it is now.

    ``before`` is the file as it was read (None: it was not there): its encoding, mark, line ends of untouched lines, mode and
    owner are kept. Raises ``ChangedMeanwhile`` when it is not that file any more, ``UnusableFile`` when it cannot be written.
    """
    form = before.form if before is not None else PLAIN
    exact = keep_line_ends(before.text, text) if before is not None else text
    data = encode(exact, form, place.shown)
    if before is not None and not before.mode & _ANY_WRITE:
        raise UnusableFile(f"{place.shown} is read-only (mode {before.mode:o}); it was not written")
    try:
        with opened_folder(place, create=before is None) as (folder, name):
            _check_unchanged(folder, name, before, place.shown)
            try:
                found = _replace(folder, name, data, before)
            except OSError as error:
                if before is None or error.errno not in _NO_REPLACE:
                    raise
                found = _overwrite(folder, name, data)
    except OSError as error:
        raise _unusable(error, place, "written") from None
    return Snapshot(exact, form, stat.S_IMODE(found.st_mode), state_of(found), digest(data))


def _check_unchanged(folder: Folder, name: str, before: Snapshot | None, shown: str) -> None:
    try:
        found = folder.stat(name)
    except FileNotFoundError:
        found = None
    if found is not None and stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(shown)
    if (None if found is None else state_of(found)) != (None if before is None else before.state):
        raise ChangedMeanwhile(f"{shown} was changed by another program at this very moment; nothing was written")


def _replace(folder: Folder, name: str, data: bytes, before: Snapshot | None) -> os.stat_result:
    temporary = f".sidecar-{secrets.token_hex(8)}.tmp"
    fd = folder.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            if before is not None:
                _take_over(folder, name, fd, before)
            os.fsync(fd)
            found = os.fstat(fd)
        folder.rename(temporary, name)
    except BaseException:
        folder.unlink(temporary)
        raise
    return found


def _take_over(folder: Folder, name: str, fd: int, before: Snapshot) -> None:
    """Give the new file the owner (where allowed), extended attributes and mode of the old one."""
    if not hasattr(os, "fchown"):
        return
    old = folder.stat(name)
    with suppress(OSError):
        os.fchown(fd, old.st_uid, old.st_gid)
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            _copy_attributes(folder, name, fd)
    os.fchmod(fd, before.mode & KEPT_MODE)


def _copy_attributes(folder: Folder, name: str, fd: int) -> None:
    source = folder.open(name, os.O_RDONLY)
    try:
        for attribute in os.listxattr(source):
            with suppress(OSError):
                os.setxattr(fd, attribute, os.getxattr(source, attribute))
    finally:
        os.close(source)


def _overwrite(folder: Folder, name: str, data: bytes) -> os.stat_result:
    """Write in place where the folder does not allow a replacement (read-only folder, mounted file)."""
    fd = folder.open(name, os.O_WRONLY | os.O_TRUNC)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)
        return os.fstat(fd)
