"""Where a path of an agent really leads, and that this lies in the session's folders (security cases O24-O26).

The existing part of a path is resolved by the file system itself, and folders are compared by identity, so that links, ``..``,
other spellings on case-insensitive or Unicode-normalising file systems, and siblings with the same beginning are all told apart.
"""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Final, TypeAlias

import attrs

from sidecar.errors import Refused
from sidecar.workspace.uris import uri_to_path

FileId: TypeAlias = tuple[int, int]

_FILE_URI: Final = re.compile(r"file:", re.IGNORECASE)
_OTHER_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:(?://|[^\\/])")
_DEVICES: Final = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)


@attrs.frozen
class Place:
    """Where a path leads. ``path`` is real: no part of it is a link. ``parts`` lead from ``root`` (real, too) to it.

    ``shown`` is the path as it is told to people: relative to the session's folder where it lies below it.
    """

    path: str
    root: str
    root_id: FileId
    parts: tuple[str, ...]
    shown: str


def resolve(raw: str, folders: Sequence[str]) -> Place:
    """Return where ``raw`` (a path or file URI, relative to the first folder if not absolute) leads.

    Raises ``Refused`` when that is not inside one of ``folders``, is not a path of this machine, or is a link to nothing.
    Touches the disk.
    """
    path = _absolute(raw, folders[0])
    try:
        real = os.path.realpath(path)
        if Path(path).is_symlink() and not os.path.lexists(real):
            raise Refused(
                f"{_shown(path, folders[0])} is a link to something that is not there; nothing is read or written there"
            )
        for folder in folders:
            found = _inside(real, os.path.realpath(folder))
            if found is not None:
                root, root_id = found
                parts = PurePath(real).parts[len(PurePath(root).parts) :]
                return Place(real, root, root_id, parts, _shown(real, os.path.realpath(folders[0])))
    except (OSError, ValueError) as error:
        raise Refused(f"{raw!r} cannot be used as a path ({type(error).__name__})") from None
    where = "" if real == path else f" (it leads to {real})"
    raise Refused(
        f"{raw}{where} lies outside of this session's folders ({', '.join(folders)}). "
        "Files elsewhere are not read or written for an agent; the user can add a folder to the session."
    )


def _absolute(raw: str, base: str) -> str:
    path = raw
    if _FILE_URI.match(raw):
        found = uri_to_path(raw)
        if found is None:
            raise Refused(f"{raw!r} names no file of this machine")
        path = found
    elif _OTHER_URI.match(raw) and not (sys.platform == "win32" and PurePath(raw).drive):
        raise Refused(f"{raw!r} is no path and no file URI; only files can be read and written")
    if "\0" in path or not path:
        raise Refused("a path must not be empty or hold a NUL byte")
    if sys.platform == "win32":
        _check_windows(path)
    return str(Path(base) / path)


def _check_windows(path: str) -> None:
    """Refuse device names, alternate streams and paths relative to a drive's own folder."""
    pure = PurePath(path)
    if pure.drive and not pure.root:
        raise Refused(f"{path!r} depends on the drive's current folder; use a full path")
    inner = pure.parts[1:] if pure.anchor else pure.parts
    if any(":" in part or _DEVICES.fullmatch(part.rstrip(" .")) for part in inner) or path.startswith(("\\\\.\\", "\\\\?\\")):
        raise Refused(f"{path!r} names a device or a stream, not a file")


def identity(path: str) -> FileId | None:
    """Return what names the file or folder whatever it is called, or None when it is not there."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _inside(real: str, root: str) -> tuple[str, FileId] | None:
    """Return ``root`` as it is spelled in ``real``, and its identity, when ``real`` is it or lies below it."""
    root_id = identity(root)
    if root_id is None:
        return None
    if PurePath(real).is_relative_to(PurePath(root)):
        return root, root_id
    for above in (PurePath(real), *PurePath(real).parents):
        if identity(str(above)) == root_id:
            return str(above), root_id
    return None


def _shown(path: str, base: str) -> str:
    pure = PurePath(path)
    return str(pure.relative_to(base)) if pure.is_relative_to(base) else path
