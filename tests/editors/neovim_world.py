"""A real Neovim on a fresh machine, driven over its own RPC, with the installed sidecar in it as a language server."""

import json
import os
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import psutil
import pynvim  # pyright: ignore[reportMissingTypeStubs]  # it ships no types, and strict mode asks for them

from tests import installed
from tests.process.editor_world import World

WAIT_SECONDS = 5.0
START_SECONDS = 30.0
"""For what waits for the start of a third-party agent or of the sidecar, on a machine that is busy with other tests."""

CLIENT = Path(__file__).with_name("neovim_client.lua")
PLUGIN: dict[str, Any] = {"protocol": 1, "client": "neovim-test/1", "changes": True, "questions": True}


def sidecar_command() -> list[str]:
    """Return the installed console script, else the module."""
    script = Path(sysconfig.get_path("scripts")) / "sidecar"
    return [str(script)] if script.exists() else [sys.executable, "-m", "sidecar"]


def editor_environment(world: World) -> dict[str, str]:
    """Return everything that the editor gets from this machine: no settings, and a PATH on which ``sidecar`` is found."""
    scripts = sysconfig.get_path("scripts")
    path = os.pathsep.join([scripts, os.environ["PATH"]])
    return world.environment(PATH=path, LANG="C.UTF-8", TERM="xterm-256color", SHELL="/bin/sh")


def processes_of(world: World) -> list[psutil.Process]:
    """Return every process that runs with the HOME of ``world``."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("HOME") == str(world.home) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def assert_nothing_stays(world: World, within: float = WAIT_SECONDS) -> None:
    """Wait for the end of all processes of ``world``."""
    psutil.wait_procs(processes_of(world), timeout=within)
    assert [process.cmdline() for process in processes_of(world)] == []


class Neovim:
    """One embedded Neovim with the sidecar for a text file of the workspace.

    ``plugin`` is what the client says under ``experimental.sidecar``; None is plain LSP. ``agent`` is the configured default.
    """

    def __init__(self, world: World, agent: str, plugin: Mapping[str, Any] | None = None, folder: Path | None = None) -> None:
        self.world = world
        folder = folder or world.workspace
        file = folder / "notes.txt"
        file.write_text("alpha\n", encoding="utf-8")
        env = shutil.which("env") or installed.absent("env")
        variables = [f"{name}={value}" for name, value in editor_environment(world).items()]
        argv = [env, "-i", *variables, installed.nvim(), "--embed", "--headless", "--clean", "-n", "-i", "NONE"]
        self.nvim: Any = pynvim.attach("child", argv=argv)
        self._left = False
        self.pid: int = self.nvim.funcs.getpid()
        self.lua("_G.job = dofile(...)", str(CLIENT))
        options = {
            "cmd": sidecar_command(),
            "root": str(folder),
            "file": str(file),
            "init_options": {"agent": agent},
            "plugin": dict(plugin) if plugin is not None else None,
        }
        self.lua("job.start(vim.json.decode(..., { luanil = { object = true } }))", json.dumps(options))
        self.until("job.client() ~= nil", within=START_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.quit()

    def lua(self, code: str, *arguments: Any) -> Any:
        """Run Lua in the editor; ``job`` is the table of ``neovim_client.lua``."""
        return self.nvim.exec_lua(code, *arguments)

    def value(self, expression: str) -> Any:
        """Return a Lua value as JSON carries it."""
        return json.loads(self.lua(f"return vim.json.encode(({expression}))"))

    def until(self, condition: str, within: float = WAIT_SECONDS) -> None:
        """Let the editor run until a Lua condition holds."""
        held = self.lua(f"return (vim.wait(..., function() return ({condition}) and true or false end, 20))", int(within * 1000))
        if not held:
            seen = {name: self.value(f"job.{name}") for name in ("asked", "messages", "progress", "calls", "opened")}
            raise AssertionError(f"{condition} did not hold within {within} s; {json.dumps(seen, indent=1)[-1500:]}")

    def command(self, name: str, within: float = START_SECONDS, **params: Any) -> Any:
        """Run an operation by ``workspace/executeCommand`` and return its result, also one that is told later."""
        return self._outcome("command", name, params, within)

    def request(self, name: str, within: float = START_SECONDS, **params: Any) -> Any:
        """Run an operation by its custom request and return its result."""
        return self._outcome("request", name, params, within)

    def _outcome(self, door: str, name: str, params: dict[str, Any], within: float) -> Any:
        given = [json.dumps(params)] if params else []
        decoded = "vim.json.decode(params)" if params else "nil"
        number = self.lua(f"local name, params = ...; return job.{door}(name, {decoded})", name, *given)
        self.until(f"job.outcome({number}) ~= nil", within)
        outcome = self.value(f"job.outcome({number})")
        assert "error" not in outcome, outcome["error"]
        return outcome.get("result")

    def dialog(self, within: float = START_SECONDS) -> dict[str, Any]:
        """Return the dialog that is open now, once there is one, and see that it is the only one."""
        self.until("#job.open > 0", within)
        assert self.value("#job.open") == 1
        return cast("dict[str, Any]", self.value("job.asked[#job.asked]"))

    def choose(self, title: str | None) -> None:
        """Close the open dialog with one of its items; None dismisses it."""
        self.lua("job.answer(...)", *([title] if title is not None else []))

    def endings(self, count: int = 1, within: float = START_SECONDS) -> list[str]:
        """Wait until so many turns have ended as their progress tells, and return how, in words."""
        self.until(f"#job.endings() >= {count}", within)
        return cast("list[str]", self.value("job.endings()"))

    def turn(self, started: Mapping[str, Any]) -> dict[str, Any]:
        """Return the turn that ``prompt`` began, from ``session.state``."""
        turns = self.command("session.state", sessionId=started["sessionId"])["turns"]
        return next(turn for turn in turns if turn["turnId"] == started["turnId"])

    def until_result(self, name: str, condition: str, within: float = START_SECONDS) -> None:
        """Run an operation by its command until a Lua condition on its ``result`` holds."""
        ready = f"(function(result) return {condition} end)(job.poll('{name}') or vim.empty_dict())"
        self.until(ready, within)

    def quit(self) -> None:
        """Leave as the user does; a second time does nothing."""
        if self._left:
            return
        self._left = True
        with suppress(OSError, EOFError):  # it hangs up instead of answering
            self.nvim.command("qa!")
        self.nvim.close()


def texts_of(turn: Mapping[str, Any], role: str = "agent") -> str:
    """Return what was said in a turn."""
    return "".join(part["text"] for part in turn["parts"] if part.get("role") == role)
