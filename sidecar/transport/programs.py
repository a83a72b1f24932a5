"""Which file a configured command is: looked up on PATH only, never in a workspace or the current folder; npm shims unwrapped.

The rules are pure in the sense that the platform, PATH and PATHEXT are arguments, so those of Windows are tested anywhere.
"""

import ntpath
import os
import posixpath
import re
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

from sidecar.errors import Unavailable

DEFAULT_PATHEXT = ".COM;.EXE;.BAT;.CMD"
SHIM_SUFFIXES = (".cmd", ".bat", ".ps1")
SHOWN_FOLDERS = 60
SHIM_LIMIT_BYTES = 64 * 1024

IsProgram = Callable[[str], bool]


def resolve_program(
    program: str, *, path: str, forbidden: Sequence[str] = (), platform: str = sys.platform, pathext: str = DEFAULT_PATHEXT
) -> str:
    """Return the absolute path of ``program``.

    A bare name is looked up in the absolute folders of ``path`` that are not in or below a ``forbidden`` folder (workspaces, the
    current folder). An absolute path, or one starting with ``~/``, is taken as it is when it is a program. Anything else with a
    separator is refused, since it would depend on the current folder. Raises Unavailable naming command and PATH searched.
    """
    windows = platform == "win32"
    paths: ModuleType = ntpath if windows else posixpath
    given = os.path.expanduser(program) if program.startswith("~") else program  # noqa: PTH111 - text in, text out
    if not given or "\0" in given:
        raise Unavailable("no command is configured for this agent; set its command to a program's name or absolute path")
    names = _candidates(given, paths, pathext) if windows else [given]
    if _is_absolute(given, windows):
        for name in names:
            if _is_program(name, windows):
                return name
        raise Unavailable(f"{given} {_why_not(given)}. Correct the agent's command in the configuration.")
    if paths.basename(given) != given or given in {".", ".."} or (windows and ":" in given):
        raise Unavailable(
            f"the command {given!r} is a relative path, which would depend on the current folder; "
            "use the program's name or its absolute path"
        )
    return _search(given, names, _Folders(path, forbidden, windows))


class _Folders:
    """PATH split into what is searched and what is not, for the lookup and for its error message."""

    def __init__(self, path: str, forbidden: Sequence[str], windows: bool) -> None:
        self.windows = windows
        self.paths: ModuleType = ntpath if windows else posixpath
        closed = [self._identity(folder) for folder in forbidden if folder]
        self.searched: list[str] = []
        self.skipped: list[str] = []
        for raw in path.split(";" if windows else ":"):
            folder = raw.strip('"') if windows else raw
            if not _is_absolute(folder, windows):
                self.skipped.append(f"{folder!r} (not absolute)")
            elif any(_inside(self._identity(folder), known, self.paths.sep) for known in closed):
                self.skipped.append(f"{folder} (inside the workspace)")
            elif folder not in self.searched:
                self.searched.append(folder)

    def _identity(self, folder: str) -> str:
        real = os.path.realpath(folder) if self.windows == (sys.platform == "win32") else self.paths.normpath(folder)
        return str(self.paths.normcase(real))

    def describe(self) -> str:
        shown = ", ".join(self.searched[:SHOWN_FOLDERS]) or "(no usable folder)"
        more = f" and {len(self.searched) - SHOWN_FOLDERS} more" if len(self.searched) > SHOWN_FOLDERS else ""
        skipped = f"; not searched: {', '.join(self.skipped[:SHOWN_FOLDERS])}" if self.skipped else ""
        return f"PATH searched: {shown}{more}{skipped}"


def _search(program: str, names: Sequence[str], folders: _Folders) -> str:
    unusable: list[str] = []
    for folder in folders.searched:
        for name in names:
            candidate = str(folders.paths.join(folder, name))
            if _is_program(candidate, folders.windows):
                return candidate
            if os.path.isfile(candidate):  # noqa: PTH113 - PATH entries are text
                unusable.append(candidate)
    hint = f" {unusable[0]} exists but is not executable." if unusable else ""
    raise Unavailable(
        f"the command {program!r} was not found.{hint} {folders.describe()}. "
        "Install it, or set the agent's command to an absolute path.",
        data={"command": program},
    )


def _candidates(program: str, paths: ModuleType, pathext: str) -> list[str]:
    suffixes = [suffix for suffix in pathext.lower().split(";") if suffix.startswith(".")]
    if paths.splitext(program)[1].lower() in {*suffixes, *SHIM_SUFFIXES}:
        return [program]
    return [program + suffix for suffix in [*suffixes, ".ps1"]]


def _is_absolute(path: str, windows: bool) -> bool:
    if not windows:
        return path.startswith("/")
    drive, rest = ntpath.splitdrive(path)
    return bool(drive) and rest[:1] in {"\\", "/"}


def _inside(folder: str, parent: str, separator: str) -> bool:
    return folder == parent or folder.startswith(parent.rstrip(separator) + separator)


def _is_program(path: str, windows: bool) -> bool:
    return os.path.isfile(path) and (windows or os.access(path, os.X_OK))  # noqa: PTH113 - PATH entries are text


def _why_not(path: str) -> str:
    if os.path.isdir(path):  # noqa: PTH112 - as above
        return "is a folder, not a program"
    return "is not executable" if os.path.exists(path) else "does not exist"  # noqa: PTH110 - as above


_CMD_LINE = re.compile(r"^(?P<line>.*?)\s%\*\s*$", re.MULTILINE)
_PS1_LINE = re.compile(r"^[^\n#]*&\s*(?P<line>[^\n]*?)\s\$args\s*$", re.MULTILINE)
_WORD = re.compile(r'"([^"]*)"|([^\s"]+)')
_FOLDER = re.compile(r"%~dp0\\?|%dp0%\\?|\$basedir[\\/]?", re.IGNORECASE)


def unwrap_shim(shim: str, text: str, *, find: Callable[[str], str]) -> list[str]:
    """Return interpreter and arguments that the npm, pnpm or yarn shim at path ``shim`` with content ``text`` would run.

    ``find`` resolves an interpreter's bare name. Batch files and scripts of any other form raise Unavailable, since only a
    shell could run them.
    """
    folder = ntpath.dirname(shim)
    powershell = shim.lower().endswith(".ps1")
    for match in (_PS1_LINE if powershell else _CMD_LINE).finditer(text[:SHIM_LIMIT_BYTES]):
        words = [quoted or bare for quoted, bare in _WORD.findall(_last_command(match["line"]))]
        plain = [_expand(word.replace("$exe", ".exe"), folder) for word in words]
        if len(plain) < 2 or any("%" in word or "$" in word for word in plain[1:]):
            continue
        interpreter = plain[0]
        if "%" in interpreter or not _is_absolute(interpreter, windows=True):
            interpreter = find(_bare_interpreter(interpreter, text))
        elif not os.path.isfile(interpreter):  # noqa: PTH113 - text of a shim
            interpreter = find(ntpath.basename(interpreter))
        return [interpreter, *plain[1:]]
    raise Unavailable(
        f"{shim} is a script only a shell could run, and the sidecar starts no shell. "
        "Set the agent's command to the program it calls, with its arguments."
    )


def _last_command(line: str) -> str:
    return line.rsplit("&", 1)[-1].strip().lstrip("@")


def _expand(word: str, folder: str) -> str:
    expanded, count = _FOLDER.subn(lambda _: folder + "\\", word)
    return ntpath.normpath(expanded) if count else word


def _bare_interpreter(word: str, text: str) -> str:
    if "%" not in word:
        return word
    assigned = re.search(r'SET\s+"?_prog=(?P<name>[\w.-]+)"?\s*$', text, re.IGNORECASE | re.MULTILINE)
    return assigned["name"] if assigned else "node"
