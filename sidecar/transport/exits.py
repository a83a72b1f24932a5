"""How a process ended, or why it never began, as one sentence for the user."""

import os
import signal
from collections.abc import Sequence

import attrs

from sidecar.errors import Unavailable

COMMAND_NOT_FOUND = 127
COMMAND_NOT_EXECUTABLE = 126
SHEBANG_BYTES = 512
TAIL_SHOWN_CHARACTERS = 2000


@attrs.frozen
class ExitStatus:
    """``code`` is the exit code, or None when ``signal`` (its number) ended the process or the end was not seen.

    ``lived`` is how long the process ran, in seconds, when that is known.
    """

    code: int | None
    signal: int | None = None
    lived: float | None = attrs.field(default=None, eq=False)

    def __str__(self) -> str:
        if self.signal is not None:
            return f"was ended by {_signal_name(self.signal)}"
        return "ended in a way that was not seen" if self.code is None else f"exited with code {self.code}"


def describe_exit(name: str, argv: Sequence[str], status: ExitStatus, stderr: str, path: str = "") -> str:
    """Return what happened to ``name``, where, and what to do next.

    ``stderr`` is the redacted tail; ``path`` is the PATH the process was given.
    """
    after = f" after {status.lived:.1f} s" if status.lived is not None else ""
    parts = [f"{name} {status}{after} ({argv[0]})."]
    if status.code in {COMMAND_NOT_FOUND, COMMAND_NOT_EXECUTABLE}:
        parts.append(_missing_command(argv[0], path))
    text = stderr.strip()
    if text:
        shown = text if len(text) <= TAIL_SHOWN_CHARACTERS else "…" + text[-TAIL_SHOWN_CHARACTERS:]
        parts.append(f"Its error output ends with:\n{shown}")
    else:
        parts.append("It wrote nothing to its error output.")
    return " ".join(part for part in parts if part)


def spawn_failure(name: str, argv: Sequence[str], reason: str) -> Unavailable:
    """Return the error for a program the system refused to start; ``reason`` is an errno name such as ``ENOENT``."""
    program = argv[0]
    explain = _SPAWN_REASONS.get(reason)
    text = explain(program) if explain is not None else f"the system refused with {reason}."
    return Unavailable(f"{name} could not be started ({program}): {text}", data={"reason": reason, "program": program})


def interpreter_of(program: str) -> list[str]:
    """Return the words of the script's ``#!`` line, or an empty list when ``program`` has none or cannot be read."""
    try:
        with open(program, "rb") as file:  # noqa: PTH123 - bytes of one line, no path arithmetic
            first = file.read(SHEBANG_BYTES)
    except OSError:
        return []
    if not first.startswith(b"#!"):
        return []
    return first[2:].split(b"\n", 1)[0].decode("utf-8", "replace").split()


def _missing_command(program: str, path: str) -> str:
    words = interpreter_of(program)
    if not words:
        return "A command it needs was not found or cannot be run."
    wanted = _env_target(words)
    if wanted is None:
        return f"It is a script run by {words[0]}."
    if any(os.access(os.path.join(folder, wanted), os.X_OK) for folder in path.split(os.pathsep) if folder):  # noqa: PTH118
        return f"It is a script run by {wanted}."
    searched = path.replace(os.pathsep, ", ") or "(PATH is empty)"
    return (
        f"It is a script that needs {wanted}, which was not found. PATH searched: {searched}. "
        f"Install {wanted}, or add its folder to PATH in the agent's env."
    )


def _env_target(words: Sequence[str]) -> str | None:
    """Return which program ``#!/usr/bin/env [-S] NAME=… program`` looks for on PATH."""
    if os.path.basename(words[0]) != "env":  # noqa: PTH119 - text of a script, not a path of ours
        return None
    return next((word for word in words[1:] if not word.startswith("-") and "=" not in word), None)


def _explain_missing(program: str) -> str:
    if not os.path.exists(program):  # noqa: PTH110 - a plain question about one name
        return "there is no such file. Check the agent's command in the configuration."
    words = interpreter_of(program)
    if words:
        return f"it is a script for {words[0]}, which does not exist. Install it, or name another program as the agent's command."
    return "the file exists but its loader does not; it was probably built for another system."


def _explain_access(program: str) -> str:
    if os.path.isdir(program):  # noqa: PTH112 - as above
        return "it is a folder. Name the program itself as the agent's command."
    if not os.access(program, os.X_OK):
        return "the file is not executable. Run chmod +x on it if you trust it."
    return "the system denies access to it or to the interpreter it names."


def _explain_format(_program: str) -> str:
    return "it is neither a program of this system nor a script with a #! line."


def _explain_size(_program: str) -> str:
    return "its arguments and environment are larger than the system allows. Shorten the agent's args or env."


_SPAWN_REASONS = {
    "ENOENT": _explain_missing,
    "ENOTDIR": _explain_missing,
    "EACCES": _explain_access,
    "EPERM": _explain_access,
    "ENOEXEC": _explain_format,
    "E2BIG": _explain_size,
}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
