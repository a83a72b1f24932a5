"""The terminal device, for questions: never standard output, never standard input's pipe."""

import os
import select
import sys
from collections.abc import Callable
from typing import Final, TypeVar

import anyio.to_thread

from sidecar.session.neutral import escape_controls

T = TypeVar("T")
SOURCE: Final = "CONIN$" if sys.platform == "win32" else "/dev/tty"
DEVICE: Final = "CONOUT$" if sys.platform == "win32" else "/dev/tty"
MAX_LINE_BYTES: Final = 64 * 1024


class Dialogue:
    """One question at the terminal: lines out, lines in, until it is given up."""

    def __init__(self, reader: int, writer: int, given_up: int) -> None:
        """``given_up`` becomes readable when nobody waits for the answer any more."""
        self._reader = reader
        self._writer = writer
        self._given_up = given_up

    def write(self, line: str) -> None:
        """Write one line; control characters that are still in it become escapes."""
        self._put(escape_controls(line) + "\n")

    def read(self, prompt: str) -> str | None:
        """Read one line without its end; None at the end of input or when the question was given up. Blocks."""
        self._put(escape_controls(prompt))
        line = bytearray()
        while self._wait():
            byte = os.read(self._reader, 1)
            if byte == b"\n":
                return line.rstrip(b"\r").decode("utf-8", "replace")
            if not byte or len(line) >= MAX_LINE_BYTES:
                return None
            line += byte
        return None

    def forget_typed(self) -> None:
        """Throw away what was typed before the question could be seen: it was not meant as an answer."""
        if sys.platform != "win32":
            import termios

            termios.tcflush(self._reader, termios.TCIFLUSH)

    def _put(self, text: str) -> None:
        rest = text.encode("utf-8", "backslashreplace")
        while rest:
            rest = rest[os.write(self._writer, rest) :]

    def _wait(self) -> bool:
        """Wait for input; false when the question was given up."""
        if sys.platform == "win32":  # consoles cannot be waited for together with a pipe
            return True
        ready, _, _ = select.select([self._reader, self._given_up], [], [])
        return self._given_up not in ready


class Terminal:
    """The controlling terminal. Made by ``open_terminal``."""

    def __init__(self, reader: int, writer: int) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, question: Callable[[Dialogue], T]) -> T | None:
        """Run a blocking question in a thread; None when the terminal is gone. When cancelled its reading ends at once."""
        waiting, hold = os.pipe()
        try:
            return await anyio.to_thread.run_sync(self._run, question, waiting, abandon_on_cancel=True)
        finally:
            os.close(hold)  # which the other end sees

    def _run(self, question: Callable[[Dialogue], T], waiting: int) -> T | None:
        dialogue = Dialogue(self._reader, self._writer, waiting)
        try:
            dialogue.forget_typed()
            return question(dialogue)
        except (OSError, termios_error()):
            return None
        finally:
            os.close(waiting)


def termios_error() -> type[Exception]:
    """Return what the terminal functions raise on Unix; elsewhere there is nothing more than OSError."""
    if sys.platform == "win32":
        return OSError
    import termios

    return termios.error


def open_terminal(*, prompt_is_piped: bool = False) -> Terminal | None:
    """Return the controlling terminal when somebody sits at it, else None.

    Somebody does when standard input is a terminal, or, with the prompt coming from a pipe, standard error is one; and when this
    process is in the foreground, since reading would stop it otherwise.
    """
    if not (_is_terminal(0) or (prompt_is_piped and _is_terminal(2))):
        return None
    closing = getattr(os, "O_CLOEXEC", 0)
    try:
        reader = os.open(SOURCE, os.O_RDONLY | closing)
        writer = os.open(DEVICE, os.O_WRONLY | closing)
        if sys.platform != "win32" and os.tcgetpgrp(reader) != os.getpgrp():
            return None
    except OSError:
        return None
    return Terminal(reader, writer)


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False
