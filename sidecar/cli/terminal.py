"""The terminal device, for questions: never standard output, never standard input."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import anyio.to_thread

DEVICE: Final = "CONOUT$" if sys.platform == "win32" else "/dev/tty"
T = TypeVar("T")
SOURCE: Final = "CONIN$" if sys.platform == "win32" else "/dev/tty"


class Terminal:
    """Writes and reads lines on the controlling terminal. Made by ``open_terminal``."""

    def __init__(self, reader: int, writer: int) -> None:
        self._reader = reader
        self._writer = writer

    def write(self, line: str) -> None:
        """Write one line."""
        os.write(self._writer, (line + "\n").encode("utf-8", "backslashreplace"))

    def read(self, prompt: str) -> str | None:
        """Read one line; None at the end of input. Blocks: call it in a thread."""
        os.write(self._writer, prompt.encode("utf-8", "backslashreplace"))
        line = bytearray()
        while byte := os.read(self._reader, 1):
            if byte == b"\n":
                return line.decode("utf-8", "replace")
            line += byte
        return line.decode("utf-8", "replace") if line else None

    async def ask(self, question: Callable[["Terminal"], T]) -> T:
        """Run a blocking question in a thread; when cancelled the thread is left behind waiting for its line."""
        return await anyio.to_thread.run_sync(question, self, abandon_on_cancel=True)


def open_terminal() -> Terminal | None:
    """Return the controlling terminal when there is one and somebody sits at it (standard input is a terminal)."""
    if not sys.stdin or not sys.stdin.isatty() or not Path(DEVICE).exists():
        return None
    try:
        reader = os.open(SOURCE, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        writer = os.open(DEVICE, os.O_WRONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return None
    return Terminal(reader, writer)
