"""A real Neovim on a terminal of its own (tmux): what the user sees, and keys. Each look follows new output."""

import os
import select
import shlex
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tests import installed
from tests.editors.neovim_world import WAIT_SECONDS, editor_environment
from tests.process.editor_world import World

COLUMNS, ROWS = 120, 30
TARGET = "main"


class Terminal:
    """One program on a screen of 120 by 30."""

    def __init__(self, world: World, argv: Sequence[str], folder: Path) -> None:
        self._tmux = [installed.tmux(), "-L", f"sidecar-{uuid.uuid4().hex}", "-f", "/dev/null"]
        self._environment = editor_environment(world)
        output = world.root / "output"
        os.mkfifo(output, 0o600)
        self._output = os.open(output, os.O_RDWR | os.O_NONBLOCK)  # also for writing, so that it never ends
        size = ["-x", str(COLUMNS), "-y", str(ROWS)]
        self._run("new-session", "-d", "-s", TARGET, *size, "-c", str(folder), shlex.join(argv))
        self._run("pipe-pane", "-t", TARGET, f"exec cat >> {shlex.quote(str(output))}")
        self.pid = int(self._run("display-message", "-p", "-t", TARGET, "#{pane_pid}"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        subprocess.run([*self._tmux, "kill-server"], env=self._environment, check=False, capture_output=True)
        os.close(self._output)

    def _run(self, *arguments: str) -> str:
        done = subprocess.run([*self._tmux, *arguments], env=self._environment, check=True, capture_output=True, text=True)
        return done.stdout

    def screen(self) -> str:
        """Return the lines on the screen, without those below the end of the buffer."""
        lines = [line.rstrip() for line in self._run("capture-pane", "-p", "-t", TARGET).splitlines()]
        return "\n".join(line for line in lines if line not in {"", "~"})

    def press(self, *keys: str) -> None:
        """Press keys by their names in tmux (``Enter``, ``Escape``), or single characters."""
        self._run("send-keys", "-t", TARGET, *keys)

    def type(self, text: str) -> None:
        """Type text as it stands."""
        self._run("send-keys", "-t", TARGET, "-l", text)

    def ex(self, command: str) -> None:
        """Run a command of the editor from normal mode."""
        self.type(f":{command}")
        self.press("Enter")

    def until(self, ready: Callable[[str], bool], within: float = WAIT_SECONDS) -> str:
        """Return the screen once ``ready`` says so; it is looked at again whenever the program wrote something."""
        deadline = time.monotonic() + within
        while not ready(screen := self.screen()):
            rest = deadline - time.monotonic()
            assert rest > 0, f"it did not come within {within} s; the screen:\n{screen}"
            if select.select([self._output], [], [], rest)[0]:
                os.read(self._output, 1 << 16)
        return screen

    def see(self, text: str, within: float = WAIT_SECONDS) -> str:
        """Return the screen once ``text`` stands on it."""
        return self.until(lambda screen: text in screen, within)

    def until_gone(self, text: str, within: float = WAIT_SECONDS) -> str:
        """Return the screen once ``text`` stands on it no more."""
        return self.until(lambda screen: text not in screen, within)

    def until_left(self, within: float = WAIT_SECONDS) -> None:
        """Wait for the end of the program."""
        if psutil.pid_exists(self.pid):
            psutil.Process(self.pid).wait(within)
