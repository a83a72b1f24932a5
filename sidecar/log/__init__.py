"""Logging that cannot leak: set up once, then ``logging.getLogger("sidecar.…")`` anywhere.

Log what happened, to which of our things, and how much: fields go into ``extra`` by the names in ``ALLOWED_FIELDS``; bodies,
prompt text, file contents, header and environment values never go into a log call at all. Redaction is the second net.
"""

import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from sidecar.errors import ConfigFault
from sidecar.log.crash import CrashReporter, write_crash_report
from sidecar.log.handlers import ALLOWED_FIELDS, EditorSink, FileHandler, RedactingFormatter, SinkHandler
from sidecar.log.redaction import redact, register_environment, register_secret

__all__ = [
    "ALLOWED_FIELDS",
    "LEVELS",
    "CrashReporter",
    "EditorSink",
    "FileHandler",
    "RedactingFormatter",
    "SinkHandler",
    "add_editor_sink",
    "loop_exception_handler",
    "redact",
    "register_environment",
    "register_secret",
    "set_up",
    "write_crash_report",
]

LEVELS: Final = ("debug", "info", "warning", "error")
# Libraries that were seen to log whole bodies, parameters or tokens; nothing of them is kept.
_SILENCED: Final = ("pygls", "lsprotocol", "mcp", "httpx", "httpcore", "websockets", "keyring", "watchfiles", "cattrs")
_SAID_LINE_CHARACTERS: Final = 500
_current: list[CrashReporter] = []


def set_up(
    *,
    level: str | None = None,
    file: Path | None = None,
    fallback_file: Path | None = None,
    crash_directory: Path | None = None,
    say: Callable[[str], None] | None = None,
) -> CrashReporter:
    """Install handlers and crash hooks; call once, first thing. Returns the reporter.

    ``level`` is one of ``LEVELS``. ``file`` gets the log from info up (private, rotated). Without it ``fallback_file`` gets what
    is at least a warning (or ``level``); it is made when there is something to write, and need not be writable. ``say`` writes
    one line for a person, stderr by default. Raises ``ConfigFault`` when ``file`` cannot be opened.
    """
    register_environment(os.environ)
    logging.raiseExceptions = False
    logging.lastResort = None
    logging.captureWarnings(True)
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(logging.WARNING)
    logging.getLogger("sidecar").setLevel((level or ("info" if file else "warning")).upper())
    for name in _SILENCED:
        silence(name)
    root.addHandler(_file_handler(file, fallback_file))
    reporter = CrashReporter(crash_directory, say or say_on_stderr)
    reporter.install()
    _current.append(reporter)
    del _current[:-1]
    return reporter


def loop_exception_handler(loop: object, context: Mapping[str, Any]) -> None:
    """For ``loop.set_exception_handler``: report through what ``set_up`` installed; asyncio would print the context."""
    for reporter in _current:
        reporter.on_loop_exception(loop, context)


def _file_handler(file: Path | None, fallback: Path | None) -> logging.Handler:
    if file is None:
        return FileHandler(fallback, lazily=True) if fallback is not None else logging.NullHandler()
    try:
        return FileHandler(file)
    except OSError as error:
        raise ConfigFault(f"the log file {file} cannot be opened: {error.strerror or 'input/output error'}") from None


def silence(name: str) -> None:
    """Let nothing of the library ``name`` and its children reach any handler."""
    library = logging.getLogger(name)
    library.propagate = False
    library.setLevel(logging.CRITICAL + 1)
    for handler in list(library.handlers):
        library.removeHandler(handler)
    library.addHandler(logging.NullHandler())


def add_editor_sink(sink: EditorSink) -> Callable[[], None]:
    """Send warnings and errors of ours to ``sink(message_type, text)`` (LSP ``window/logMessage``); returns what ends that."""
    handler = SinkHandler(sink)
    root = logging.getLogger()
    root.addHandler(handler)
    return lambda: root.removeHandler(handler)


def say_on_stderr(line: str) -> None:
    """Write one redacted line to stderr; a closed or full stderr is ignored."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(redact(line)[:_SAID_LINE_CHARACTERS].replace("\n", " ") + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return
