"""Log handlers that redact: whatever a record holds, only what is known to be safe is written.

Fields given with ``extra`` are printed when they are on the allow-list; messages are rendered first and then scrubbed; libraries'
messages are withheld (they log whole bodies), only where and how bad is kept. A handler never raises and never prints.
"""

import contextlib
import errno
import logging
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sidecar.log.frames import exception_lines
from sidecar.log.redaction import redact

OWN_LOGGER: Final = "sidecar"
MAX_MESSAGE_CHARACTERS: Final = 4000
MAX_FIELD_CHARACTERS: Final = 200
MAX_FILE_BYTES: Final = 5 * 1024 * 1024
KEPT_FILES: Final = 3

# The only fields of ``extra`` that are printed: names, numbers and words of ours, never bodies of peers.
ALLOWED_FIELDS: Final = (
    "agent",
    "attempt",
    "bytes",
    "change",
    "code",
    "connection",
    "count",
    "direction",
    "duration_ms",
    "editor",
    "exit_code",
    "generation",
    "id",
    "kind",
    "method",
    "operation",
    "pid",
    "protocol",
    "question",
    "reason",
    "server",
    "session",
    "signal",
    "size",
    "state",
    "turn",
    "version",
)
_SINK_SEVERITY: Final = ((logging.ERROR, 1), (logging.WARNING, 2), (logging.INFO, 3), (logging.DEBUG, 4))

EditorSink = Callable[[int, str], None]


class RedactingFormatter(logging.Formatter):
    """Renders a record as text without secrets; ``exceptions`` adds the frames of an exception on lines of their own."""

    def __init__(self, *, exceptions: bool = True, stamped: bool = True) -> None:
        super().__init__()
        self._exceptions = exceptions
        self._stamped = stamped

    def format(self, record: logging.LogRecord) -> str:
        """Return the line (and, with exceptions, indented lines below it)."""
        head = _one_line(self._message(record) + _fields(record))
        if self._stamped:
            moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            head = f"{moment}.{int(record.msecs):03d}Z {record.levelname} {redact(record.name)}: {head}"
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return head
        lines = exception_lines(error)
        if not self._exceptions:
            return f"{head} ({_one_line(lines[0])})"
        return "\n".join([head, *(f"    {_one_line(line)}" for line in lines)])

    def _message(self, record: logging.LogRecord) -> str:
        if record.name != OWN_LOGGER and not record.name.startswith(f"{OWN_LOGGER}."):
            return f"message of a library withheld ({os.path.basename(record.pathname)}:{record.lineno})"  # noqa: PTH119  # no Path per record
        try:
            text = record.getMessage()
        except (TypeError, ValueError, KeyError, IndexError, AttributeError):
            text = f"{record.msg} (its arguments do not fit)"
        return redact(text[:MAX_MESSAGE_CHARACTERS]) + (" (cut)" if len(text) > MAX_MESSAGE_CHARACTERS else "")


def _fields(record: logging.LogRecord) -> str:
    shown: list[str] = []
    for name in ALLOWED_FIELDS:
        value = record.__dict__.get(name)
        if isinstance(value, str):
            shown.append(f" {name}={redact(value[:MAX_FIELD_CHARACTERS])}")
        elif isinstance(value, bool | int | float):
            shown.append(f" {name}={value}")
    return "".join(shown)


def _one_line(text: str) -> str:
    """Return ``text`` with control characters as escapes, so that no message can forge a second log line."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escape(character) for character in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


class QuietHandler(logging.Handler):
    """Base of our handlers: what goes wrong while logging is dropped, never printed (the library would print the arguments)."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # the name the library calls
        """Do nothing."""


class FileHandler(QuietHandler):
    """Appends to a private file (0600, never through a symlink) and keeps a few older ones.

    A full disk or a lost file system loses lines, nothing else. Several processes may share the file.
    """

    def __init__(self, path: Path, *, lazily: bool = False, max_bytes: int = MAX_FILE_BYTES, kept: int = KEPT_FILES) -> None:
        """Open the file; raises ``OSError`` when it cannot be opened now. ``lazily``: at first use, with its folder."""
        super().__init__()
        self.setFormatter(RedactingFormatter())
        self._path = path
        self._max_bytes = max_bytes
        self._kept = kept
        self._makes_folder = lazily
        self._descriptor: int | None = None if lazily else self._open()

    def _open(self) -> int:
        if self._makes_folder:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        descriptor = os.open(self._path, flags, 0o600)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "it is not a regular file")
        if hasattr(os, "fchmod"):
            with contextlib.suppress(OSError):
                os.fchmod(descriptor, 0o600)
        return descriptor

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        data = (self.format(record) + "\n").encode("utf-8", "backslashreplace")
        with contextlib.suppress(OSError):
            if self._descriptor is None:
                self._descriptor = self._open()
            self._rotate(len(data))
            os.write(self._descriptor, data)

    def _rotate(self, coming: int) -> None:
        """Move the file aside when it is full; follow another process that did so."""
        if self._descriptor is None:
            return
        ours = os.fstat(self._descriptor)
        if ours.st_size + coming <= self._max_bytes:
            return
        with contextlib.suppress(FileNotFoundError):
            found = self._path.lstat()
            if (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino):
                for number in range(self._kept - 1, 0, -1):
                    with contextlib.suppress(FileNotFoundError):
                        self._older(number).replace(self._older(number + 1))
                self._path.replace(self._older(1))
        os.close(self._descriptor)
        self._descriptor = None
        self._descriptor = self._open()

    def _older(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def close(self) -> None:
        """Close the file."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        super().close()


class SinkHandler(QuietHandler):
    """Hands warnings and errors of ours to the editor: ``sink(type, text)`` with LSP's MessageType, 1 error … 4 log.

    The sink must not block and may be called from any thread. What it logs itself is not handed to it again.
    """

    def __init__(self, sink: EditorSink, level: int = logging.WARNING) -> None:
        super().__init__(level)
        self.setFormatter(RedactingFormatter(exceptions=False, stamped=False))
        self._sink = sink
        self._busy = False

    def emit(self, record: logging.LogRecord) -> None:
        """Hand one record on."""
        if self._busy or not record.name.startswith(OWN_LOGGER):
            return
        self._busy = True
        try:
            severity = next((kind for level, kind in _SINK_SEVERITY if record.levelno >= level), 4)
            with contextlib.suppress(OSError, RuntimeError, ValueError):
                self._sink(severity, self.format(record))
        finally:
            self._busy = False
