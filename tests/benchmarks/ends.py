"""The processes that are measured, each with the benchmark as its editor: the sidecar, and the re-framers it is compared with."""

import contextlib
import itertools
import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import attrs

FOLDER = Path(__file__).resolve().parent
REPOSITORY = FOLDER.parent.parent
READ_BYTES = 1 << 18
END_SECONDS = 5.0
SILENCE_SECONDS = 30.0
QUIET_SECONDS = 0.3
PYTHON = sys.executable
_LENGTH = re.compile(rb"Content-Length: (\d+)")
EXPERIMENTAL = {"sidecar": {"protocol": 1, "client": "bench/1", "changes": True, "questions": True, "commands": True}}


def agent_argv(*prepared: str) -> list[str]:
    return [PYTHON, "-I", "-S", str(FOLDER / "agent.py"), *prepared]


def frame(message: Mapping[str, Any]) -> bytes:
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


@attrs.frozen
class Cost:
    """What a process has used so far: CPU in ns of all its threads, and how often they were switched."""

    cpu: int
    switches: int

    @classmethod
    def of(cls, pid: int) -> Self:
        cpu = switches = 0
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
                cpu += int((task / "schedstat").read_text().split()[0])
                fields = [line.split() for line in (task / "status").read_text().splitlines()]
                switches += sum(int(line[1]) for line in fields if line and line[0].endswith("_ctxt_switches:"))
        return cls(cpu, switches)


def memory(pid: int, field: str) -> float:
    """Return ``VmRSS`` (now) or ``VmHWM`` (the most so far) in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise ValueError(field)


class End:
    """A process that speaks frames, and its pipes."""

    def __init__(self, argv: Sequence[str], folder: Path, env: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            argv, cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in = self._process.stdin.fileno()
        self._out = self._process.stdout.fileno()
        self._held = bytearray()
        self._ids = itertools.count(1)

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its input and wait for its end."""
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._in, view) :]

    def read(self) -> bytes:
        """Return what comes next, as it comes."""
        if not select.select([self._out], [], [], SILENCE_SECONDS)[0]:
            raise AssertionError(f"the measured process said nothing for {SILENCE_SECONDS:g} s")
        if data := os.read(self._out, READ_BYTES):
            return data
        raise AssertionError("the measured process ended")

    def frames(self) -> Iterator[bytes]:
        """Yield bodies, for ever."""
        while True:
            while (body := self._whole_frame()) is None:
                self._held += self.read()
            yield body

    def _whole_frame(self) -> bytes | None:
        held = self._held
        end = held.find(b"\r\n\r\n")
        header = _LENGTH.search(held, 0, max(end, 0))
        if header is None or len(held) < end + 4 + int(header[1]):
            return None
        body = bytes(held[end + 4 : end + 4 + int(header[1])])
        del held[: end + 4 + int(header[1])]
        return body

    def cost(self) -> Cost:
        return Cost.of(self.pid)


class Reframer(End):
    """A re-framer with the agent behind it."""

    def __init__(self, argv: Sequence[str], folder: Path, *prepared: str) -> None:
        super().__init__([*argv, *agent_argv(*prepared)], folder)
        self.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        self.request("session/new", {"cwd": str(folder), "mcpServers": []})

    def send(self, method: str, params: Mapping[str, Any]) -> None:
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        self.write(json.dumps(message).encode() + b"\n")

    def request(self, method: str, params: Mapping[str, Any]) -> None:
        self.send(method, params)
        for body in self.frames():
            if b'"result":' in body:
                return

    def prompt(self, order: str) -> None:
        """Send the order; what comes of it is to be read."""
        self.send("session/prompt", {"sessionId": "bench-session", "prompt": [{"type": "text", "text": f"bench {order}"}]})

    def load(self, order: str) -> None:
        self.send("session/load", {"sessionId": order, "cwd": "/", "mcpServers": []})

    mark: ClassVar = b'"stopReason"'
    """Comes with the end of a turn."""

    def drain(self, mark: bytes = mark) -> None:
        """Read until ``mark`` came, which nothing but the reply to a load follows."""
        tail = bytes(self._held)
        self._held.clear()
        while mark not in tail:
            tail = tail[-len(mark) :] + self.read()

    def settle(self) -> None:
        """Read what still comes, until nothing came for a while."""
        while select.select([self._out], [], [], QUIET_SECONDS)[0]:
            self.read()


class Sidecar(End):
    """The sidecar with the agent behind it and one session, watched by this editor.

    ``wrapped`` goes between the interpreter and the arguments of the sidecar.
    """

    def __init__(self, folder: Path, *prepared: str, wrapped: Sequence[str] = ("-m", "sidecar")) -> None:
        super().__init__([PYTHON, *wrapped, "--config", config(folder, *prepared)], folder, environment(folder))
        workspace = folder / "workspace"
        workspace.mkdir(exist_ok=True)
        window = {"workDoneProgress": True, "showDocument": {"support": True}}
        edits = {"applyEdit": True, "workspaceEdit": {"documentChanges": True}}
        capabilities = {"window": window, "workspace": edits, "experimental": EXPERIMENTAL}
        self.folder_uri = workspace.as_uri()
        folders = [{"uri": self.folder_uri, "name": "w"}]
        self.call("initialize", {"processId": None, "rootUri": None, "capabilities": capabilities, "workspaceFolders": folders})
        self.write(frame({"jsonrpc": "2.0", "method": "initialized", "params": {}}))
        self.session_id = str(self.call("sidecar/session/new", {"agent": "bench"})["sessionId"])

    def send(self, method: str, params: Mapping[str, Any]) -> int:
        request_id = next(self._ids)
        self.write(frame({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}))
        return request_id

    def call(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return its result; requests of the server are answered with null meanwhile."""
        request_id = self.send(method, params)
        for body in self.frames():
            message: dict[str, Any] = json.loads(body)
            if "method" not in message and message.get("id") == request_id:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                return cast("dict[str, Any]", message["result"])
            self.attend(message)
        raise AssertionError("unreachable: frames never end")

    def attend(self, message: Mapping[str, Any]) -> None:
        """Answer what the server asks."""
        if "method" in message and "id" in message:
            self.write(frame({"jsonrpc": "2.0", "id": message["id"], "result": self.answer(message)}))

    def answer(self, request: Mapping[str, Any]) -> Any:
        return {"success": True} if request["method"] == "window/showDocument" else None

    def load(self, order: str) -> None:
        self.send("sidecar/session/load", {"agentSessionId": order, "agent": "bench"})

    def prompt(self, order: str) -> None:
        self.send("sidecar/prompt", {"sessionId": self.session_id, "text": f"bench {order}"})

    mark: ClassVar = b'"turn_ended"'
    """Comes with the end of a turn."""

    def drain(self, mark: bytes = mark) -> int:
        """Read until a frame holds ``mark``; return how many frames of the session it was."""
        count = 0
        for body in self.frames():
            count += b"sidecar/session/changed" in body[:200]
            if mark in body:
                return count
            if b'"id":' in body[:80]:
                self.attend(json.loads(body))
        raise AssertionError("unreachable: frames never end")

    def settle(self) -> None:
        """Read what still comes after a turn, until nothing came for a while."""
        while select.select([self._out], [], [], QUIET_SECONDS)[0]:
            self._held += self.read()
            while (body := self._whole_frame()) is not None:
                self.attend(json.loads(body))


def config(folder: Path, *prepared: str) -> str:
    """Write the settings that name the agent of the benchmark; return the path."""
    path = folder / "config.toml"
    argv = json.dumps(agent_argv(*prepared))
    path.write_text(f'agent = "bench"\n[agents.bench]\nprotocol = "acp"\ncommand = {argv}\n')
    return str(path)


def environment(folder: Path) -> dict[str, str]:
    """Return a clean environment in which everything the sidecar keeps lies in ``folder``."""
    names = {"HOME": "home", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "settings", "XDG_CACHE_HOME": "cache"}
    places = {name: str(folder / place) for name, place in names.items()}
    inherited = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return {**inherited, **places, "PYTHONPATH": str(REPOSITORY)}


def timed_start(argv: Sequence[str], folder: Path) -> float:
    """Return the seconds from starting a language server to its whole reply to ``initialize``."""
    params: dict[str, Any] = {"processId": None, "rootUri": None, "capabilities": {}}
    request = frame({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    began = time.perf_counter()
    with End(argv, folder, environment(folder)) as end:
        end.write(request)
        for body in end.frames():
            if b'"result"' in body:
                return time.perf_counter() - began
    raise AssertionError("unreachable: frames never end")


def timed_run(argv: Sequence[str], folder: Path, expected: bytes) -> float:
    """Return the seconds a program takes to its end; it must say ``expected``."""
    began = time.perf_counter()
    done = subprocess.run(argv, cwd=folder, env=environment(folder), stdin=subprocess.DEVNULL, capture_output=True, check=False)
    took = time.perf_counter() - began
    if done.returncode != 0 or expected not in done.stdout:
        raise AssertionError(f"{argv[0]} ended with {done.returncode}: {done.stderr[-500:]!r}")
    return took
