"""What happens when something of ours breaks: one log record, one private report, one line on stderr."""

import contextlib
import logging
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from sidecar import __version__
from sidecar.log.frames import exception_lines

KEPT_REPORTS: Final = 10
_LOGGER: Final = logging.getLogger("sidecar.crash")


def write_crash_report(error: BaseException, directory: Path) -> Path | None:
    """Write versions, class names and frames (base names; no messages, values or source lines) and return the file.

    ``directory`` is the folder of reports inside the state folder. Returns None when it cannot be written.
    """
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    path = directory / f"crash-{stamp}-{os.getpid()}-{time.monotonic_ns() % 1_000_000:06d}.txt"
    head = [f"sidecar {__version__}", f"python {platform.python_version()}", f"platform {sys.platform} {platform.machine()}"]
    try:
        frames = exception_lines(error, with_text=False)
    except (AttributeError, TypeError, ValueError, RecursionError):
        frames = ["the trace is left out: it could not be cleaned"]
    text = "\n".join([*head, "", *frames, ""])
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        _forget_old(directory)
    except OSError:
        return None
    return path


def _forget_old(directory: Path) -> None:
    for old in sorted(directory.glob("crash-*.txt"))[:-KEPT_REPORTS]:
        with contextlib.suppress(OSError):
            old.unlink()


class CrashReporter:
    """Hooks for exceptions nobody caught. ``directory`` is where reports go, None writes none."""

    def __init__(self, directory: Path | None, say: Callable[[str], None]) -> None:
        """``say`` gets one line for a person (stderr)."""
        self._directory = directory
        self._say = say

    def report(self, error: BaseException, where: str) -> None:
        """Log, write the report and say one line; never raises."""
        _LOGGER.error("unexpected error in %s", where, exc_info=error)
        path = write_crash_report(error, self._directory) if self._directory is not None else None
        told = f"sidecar: internal error ({type(error).__name__}) in {where}"
        with contextlib.suppress(OSError, ValueError):
            self._say(f"{told}; report: {path}" if path is not None else told)

    def install(self) -> None:
        """Take over the hooks of the interpreter for the main thread, other threads, and finalisers."""
        sys.excepthook = self._on_exception
        threading.excepthook = self._on_thread_exception
        sys.unraisablehook = self._on_unraisable

    def _on_exception(self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            self.report(error.with_traceback(traceback), "the main thread")

    def _on_thread_exception(self, arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None and not issubclass(arguments.exc_type, SystemExit):
            self.report(arguments.exc_value, "a thread")

    def _on_unraisable(self, unraisable: Any) -> None:
        error = unraisable.exc_value
        if isinstance(error, BaseException):
            _LOGGER.error("an error was raised where none can be (a finaliser)", exc_info=error)

    def on_loop_exception(self, _loop: object, context: Mapping[str, Any]) -> None:
        """Take an asyncio loop's ``set_exception_handler`` calls; only the exception is used, never the context's reprs."""
        error = context.get("exception")
        if isinstance(error, BaseException):
            self.report(error, "the event loop")
        else:
            _LOGGER.error("the event loop reported a fault without an exception")
