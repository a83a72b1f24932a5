"""The command ``sidecar`` in a home of its own: what it prints, how it ends, and who is left afterwards."""

import json
import os
import re
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from tests.conftest import REPOSITORY
from tests.process.trees import TAG, left_after

WAIT_SECONDS = 30.0
PEERS = """
[agents.kiro3]
protocol = "kiro-v3"
command = [{python}, "-m", "tests.peers.kiro_v3"]
[agents.plain]
protocol = "acp"
command = [{python}, "-m", "tests.peers.plain"]
[agents.absent]
protocol = "acp"
command = ["no-such-agent-anywhere"]
"""


@attrs.frozen
class Done:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def events(self) -> list[dict[str, Any]]:
        """Every line of standard output as the object it must be."""
        return [json.loads(line) for line in self.stdout.splitlines()]

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def data(self, kind: str) -> list[dict[str, Any]]:
        return [event["data"] for event in self.events if event["type"] == kind]


class CliHome:
    """A HOME, a workspace and a configuration; every process started from here carries a tag to be found by."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.workspace = folder / "ws"
        self.config = folder / "config.toml"
        self.tag = secrets.token_hex(8)
        self.home.mkdir()
        self.workspace.mkdir()
        self.configure("")
        self.env = {
            "HOME": str(self.home),
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), *sys.path]),
            "SIDECAR_CONFIG": str(self.config),
            "SIDECAR_DEMO_PACE_MS": "0",
            "SIDECAR_DEMO_STATE": str(folder / "demo"),
            TAG: self.tag,
        }

    @property
    def state(self) -> Path:
        return self.home / ".local" / "state" / "sidecar"

    def configure(self, more: str) -> None:
        """Write the configuration: the scripted agents and ``more``."""
        self.config.write_text(PEERS.replace("{python}", json.dumps(sys.executable)) + more)
        self.config.chmod(0o600)

    def fault(self, name: str, *amount: str) -> None:
        """Configure the agent ``fault`` to have this one."""
        command = [sys.executable, "-m", "tests.peers.faults", name, *amount]
        self.configure(f'[agents.fault]\nprotocol = "acp"\ncommand = {json.dumps(command)}\n')

    def options(self, **options: Any) -> None:
        """Set the options of a scripted agent."""
        self.env["SIDECAR_PEER_OPTIONS"] = json.dumps(options)

    def begin(self, *words: str, **more: Any) -> subprocess.Popen[str]:
        """Start a command in a process group of its own."""
        given: Mapping[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        return subprocess.Popen(
            [sys.executable, "-m", "sidecar", *words],
            cwd=self.workspace,
            env=self.env,
            text=True,
            encoding="utf-8",
            start_new_session=True,
            **given,
        )

    def run(self, *words: str, stdin: str | None = None) -> Done:
        """Run a command to its end, and see that nobody is left."""
        process = self.begin(*words, **({"stdin": subprocess.PIPE} if stdin is not None else {}))
        return self.finish(process, stdin)

    def prompt(self, agent: str, *words: str) -> Done:
        return self.run("run", "--agent", agent, *words)

    def finish(self, process: subprocess.Popen[str], stdin: str | None = None) -> Done:
        try:
            stdout, stderr = process.communicate(stdin, timeout=WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
            raise AssertionError(f"no end within {WAIT_SECONDS} s\n{stdout[-2000:]}\n{stderr[-2000:]}") from None
        assert left_after(self.tag) == []
        return Done(process.returncode, stdout, stderr)


class Screen:
    """A command at a terminal of its own: what it shows, and keys for it."""

    def __init__(self, home: CliHome, *words: str) -> None:
        self._ours, theirs = os.openpty()
        self._home = home
        self.shown = ""
        self._seen = 0
        code = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, sys.executable, "-m", "sidecar", *words],
            cwd=home.workspace,
            env=home.env,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def until(self, pattern: str) -> str:
        """Read until ``pattern`` stands in what came since the last call; return that."""
        deadline = time.monotonic() + WAIT_SECONDS
        while (found := re.search(pattern, self.shown[self._seen :])) is None:
            ready, _, _ = select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))
            data = self._read() if ready else b""
            if not data:
                raise AssertionError(f"{pattern!r} was not shown: {self.shown[-3000:]}")
            self.shown += data.decode("utf-8", "replace").replace("\r\n", "\n")
        begin, self._seen = self._seen, self._seen + found.end()
        return self.shown[begin : self._seen]

    def _read(self) -> bytes:
        try:
            return os.read(self._ours, 65536)
        except OSError:  # the other end has gone
            return b""

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def end(self) -> int:
        """Read the rest and return the exit code; nobody may be left."""
        while select.select([self._ours], [], [], WAIT_SECONDS)[0] and (data := self._read()):
            self.shown += data.decode("utf-8", "replace").replace("\r\n", "\n")
        code = self.process.wait(WAIT_SECONDS)
        os.close(self._ours)
        assert left_after(self._home.tag) == []
        return code
