"""Real editors in a private tmux server: what is on their screen, keys to them, and the sidecar processes they started."""

import os
import shlex
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from tests.installed import hx, hx_new, nvim, tmux

REPOSITORY = Path(__file__).resolve().parents[2]
WAIT_SECONDS = 20.0
POLL_SECONDS = 0.05
LOOK_SECONDS = 0.5
ESCAPE_SECONDS = 0.2
"""After Escape an editor waits whether a key follows that belongs to it."""

COLUMNS, ROWS = 110, 40
HELIX_NAMES = ("helix", "helix-new")


class TerminalEditor:
    """One editor on ``file`` in a fresh home; ``name``: nvim, helix (25.01.1) or helix-new."""

    def __init__(self, name: str, root: Path, *, pace_ms: int = 20) -> None:
        self.name = name
        self.root = root
        self.state = root / "state"
        self.workspace = root / "ws"
        self.workspace.mkdir()
        self.file = self.workspace / "start.md"
        self.file.write_text("# start\n", encoding="utf-8")
        self._socket = f"sidecar-{uuid.uuid4().hex[:8]}"
        self._tmux = tmux()
        self.mark = uuid.uuid4().hex
        self.environment = self._environment(pace_ms)
        argv = self._helix() if name in HELIX_NAMES else self._neovim()
        size = ["-x", str(COLUMNS), "-y", str(ROWS)]
        self.tmux("-f", "/dev/null", "new-session", "-d", "-s", "m", *size, "-c", str(self.workspace), shlex.join(argv))
        self.until(self.sidecars, "the editor started no sidecar")

    # --- configuration ----------------------------------------------------------------------------------------------------

    def _environment(self, pace_ms: int) -> dict[str, str]:
        home = self.root / "home"
        home.mkdir()
        folders = {f"XDG_{kind}_HOME": str(self.root / kind.lower()) for kind in ("CONFIG", "CACHE", "DATA", "STATE")}
        kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "LC_ALL"}}
        return {
            **kept,
            **folders,
            "LANG": "C.UTF-8",
            "HOME": str(home),
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "PYTHONPATH": str(REPOSITORY),
            "SIDECAR_STATE": str(self.state),
            "SIDECAR_DEMO_STATE": str(self.root / "demo"),
            "SIDECAR_DEMO_PACE_MS": str(pace_ms),
            "SIDECAR_TEST_MARK": self.mark,
        }

    def _helix(self) -> list[str]:
        program = hx() if self.name == "helix" else hx_new()
        folder = self.root / "config" / "helix"
        folder.mkdir(parents=True)
        (folder / "languages.toml").write_text(
            f'[language-server.sidecar]\ncommand = "{sys.executable}"\nargs = ["-m", "sidecar"]\nconfig = {{ agent = "demo" }}\n'
            '[[language]]\nname = "markdown"\nlanguage-servers = ["sidecar"]\n',
            encoding="utf-8",
        )
        (folder / "config.toml").write_text("[editor.lsp]\ndisplay-messages = true\n", encoding="utf-8")
        return [program, "-vv", "--log", str(self.root / "helix.log"), str(self.file)]

    def _neovim(self) -> list[str]:
        script = self.root / "init.lua"
        script.write_text(
            f"""
vim.lsp.config('sidecar', {{
  cmd = {{ '{sys.executable}', '-m', 'sidecar' }},
  filetypes = {{ 'markdown' }},
  root_dir = '{self.workspace}',
  init_options = {{ agent = 'demo' }},
}})
vim.lsp.enable('sidecar')
vim.api.nvim_create_user_command('Sidecar', function(o)
  local client = vim.lsp.get_clients({{ name = 'sidecar' }})[1]
  client:exec_cmd({{ title = o.args, command = 'sidecar.' .. o.args }})
end, {{ nargs = 1 }})
""",
            encoding="utf-8",
        )
        return [nvim(), "-i", "NONE", "-n", "-u", str(script), str(self.file)]

    # --- keys and screen ----------------------------------------------------------------------------------------------------

    def tmux(self, *arguments: str) -> str:
        argv = [self._tmux, "-L", self._socket, *arguments]
        return subprocess.run(argv, env=self.environment, capture_output=True, text=True, check=False).stdout

    def screen(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", "m")

    def keys(self, *keys: str) -> None:
        """Press named keys."""
        self.tmux("send-keys", "-t", "m", *keys)

    def type(self, text: str) -> None:
        """Type text as it is."""
        self.tmux("send-keys", "-t", "m", "-l", text)

    def normal(self) -> None:
        """Leave whatever mode the editor is in."""
        self.keys("Escape")
        time.sleep(ESCAPE_SECONDS)

    def ex(self, command: str) -> None:
        """Run a command of the editor."""
        self.normal()
        self.type(":" + command)
        self.keys("Enter")

    def run(self, operation: str) -> None:
        """Run an operation of the sidecar without arguments, as a user of this editor does."""
        self.ex(f"lsp-workspace-command sidecar.{operation}" if self.name in HELIX_NAMES else f"Sidecar {operation}")

    def end_of_buffer(self) -> None:
        """Begin to type at the end of the buffer."""
        self.normal()
        self.keys(*(("g", "e") if self.name in HELIX_NAMES else ("G",)))
        self.keys("A")

    def code_actions(self) -> None:
        """Open the menu of code actions at the cursor."""
        self.normal()
        if self.name in HELIX_NAMES:
            self.keys("Space")
            self.keys("a")
        else:
            self.type("gra")

    def search(self, text: str) -> None:
        """Go to the last line that holds ``text``."""
        self.normal()
        self.keys(*(("g", "e") if self.name in HELIX_NAMES else ("G",)))
        self.type("?" + text)
        self.keys("Enter")

    def until(self, ready: Callable[[], object], otherwise: str, within: float = WAIT_SECONDS) -> None:
        deadline = time.monotonic() + within
        while not ready():
            assert time.monotonic() < deadline, f"{otherwise}; the screen:\n{self.screen()}"
            time.sleep(POLL_SECONDS)

    def sees(self, text: str, within: float = WAIT_SECONDS) -> None:
        self.until(lambda: text in self.screen(), f"{text!r} is not on the screen", within)

    # --- the file -------------------------------------------------------------------------------------------------------------

    def written(self) -> str:
        """Have the editor save the transcript; return its file."""
        file = next(iter((self.state / "transcripts").glob("*.md")))
        file.unlink(missing_ok=True)
        self.ex("w!")
        self.until(lambda: file.exists() and file.read_text(encoding="utf-8").endswith("\n"), "the editor wrote no file")
        return file.read_text(encoding="utf-8")

    def holds(self, text: str, within: float = WAIT_SECONDS) -> str:
        """Wait until the buffer holds ``text``; return it."""
        deadline = time.monotonic() + within
        while text not in (found := self.written()):
            assert time.monotonic() < deadline, f"{text!r} never came; the buffer:\n{found}\nthe screen:\n{self.screen()}"
            time.sleep(LOOK_SECONDS)
        return found

    # --- processes --------------------------------------------------------------------------------------------------------------

    def processes(self) -> list[psutil.Process]:
        """Return everything that runs in this editor's environment, whoever started it."""
        found: list[psutil.Process] = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("SIDECAR_TEST_MARK") == self.mark:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def sidecars(self) -> list[psutil.Process]:
        """Return the language servers."""
        return [process for process in self.processes() if _argv(process)[1:3] == ["-m", "sidecar"]]

    def kill(self) -> None:
        """Kill the editor and nothing else."""
        for process in self.processes():
            if any(part in _argv(process)[0] for part in ("nvim", "hx", "ld-linux")):
                process.kill()

    def close(self) -> None:
        self.tmux("kill-server")


def _argv(process: psutil.Process) -> Sequence[str]:
    try:
        return process.cmdline() or [""]
    except psutil.Error:
        return [""]


def variables(process: psutil.Process) -> Mapping[str, str]:
    """Return a process's environment."""
    return process.environ()
