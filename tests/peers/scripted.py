"""The engine under every scripted agent of the tests: no I/O of its own, so the same script runs in memory and as a process.

A script is a generator that yields what it waits for (``ReplyTo``, ``Call``), or a list of steps (``expect``, ``send``,
``send_raw``, ``reply``, ``wait_for_reply``, ``close``, ``leave``) played one after the other. Standing handlers answer a method
whenever it comes; several of them run side by side, so concurrent sessions work. Everything received is kept, and ``finish``
fails when something came that no script wanted, or when a script still waits.
"""

import json
import os
import select
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

WAIT_SECONDS = 10.0
STALLED_EXIT_CODE = 97
UNEXPECTED_EXIT_CODE = 98

Message: TypeAlias = dict[str, Any]


class ReplyTo:
    """Wait for the reply to one of our requests; the script is resumed with the whole reply message."""

    def __init__(self, request_id: Any) -> None:
        self.request_id = request_id

    def __repr__(self) -> str:
        return f"a reply to id {self.request_id!r}"


class Call:
    """Wait for a request or notification of this method (of one session, when given); resumed with the whole message."""

    def __init__(self, method: str, session_id: str | None = None) -> None:
        self.method = method
        self.session_id = session_id

    def fits(self, message: Message) -> bool:
        """Return whether ``message`` is what is waited for."""
        return message.get("method") == self.method and self.session_id in (None, member(message, "params", "sessionId"))

    def __repr__(self) -> str:
        return f"the method {self.method}"


class Signal:
    """Wait until the test calls ``ScriptedAgent.signal`` with this name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"the signal {self.name}"


Wait: TypeAlias = ReplyTo | Call | Signal
Script: TypeAlias = Generator[Wait, Message, None]
Handler: TypeAlias = Callable[[Message], "Script | None"]
Step: TypeAlias = Callable[["ScriptedAgent"], Script]
Check: TypeAlias = Callable[[Message], object] | Mapping[str, Any] | None


class ScriptedAgent:
    """Feed it bytes; what it sends goes to the sink it is attached to.

    ``exit_code`` is set when a script wants the process to end, ``closed`` when it closes stdout.
    """

    def __init__(
        self, handlers: Mapping[str, Handler] | None = None, steps: Sequence[Step] = (), fallback: Handler | None = None
    ) -> None:
        self.handlers: dict[str, Handler] = dict(handlers or {})
        self.fallback = fallback
        self.received: list[Message] = []
        self.noise: list[bytes] = []
        self.sent: list[Message] = []
        self.unexpected: list[Message] = []
        self.failures: list[str] = []
        self.exit_code: int | None = None
        self.closed = False
        self.on_change: Callable[[], None] = lambda: None
        self._output: list[bytes] = []
        self._sink: Callable[[bytes], object] = self._output.append
        self._rest = b""
        self._next_id = 0
        self._inbox: deque[Message] = deque()
        self._unanswered: list[Message] = []
        self._waiting: list[tuple[Script, Wait]] = []
        self._main: Script | None = None
        if steps:
            self._main = _play(self, steps)
            self._start(self._main)

    # What scripts use.

    def send(self, frame: Message) -> None:
        """Send one message as it is."""
        self.sent.append(frame)
        self._sink(json.dumps(frame, separators=(",", ":")).encode() + b"\n")

    def send_raw(self, data: bytes) -> None:
        """Send bytes that need be no message."""
        self._sink(data)

    def notify(self, method: str, params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def update(self, session_id: str, kind: str, /, **fields: Any) -> None:
        """Send a ``session/update``."""
        self.notify("session/update", {"sessionId": session_id, "update": {"sessionUpdate": kind, **fields}})

    def new_request_id(self) -> Any:
        """Return the id of the next request: they count from 0, as those of the real SDKs do."""
        self._next_id += 1
        return self._next_id - 1

    def ask(self, method: str, params: Any) -> ReplyTo:
        """Send a request and return what to yield for its reply."""
        request_id = self.new_request_id()
        self.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        return ReplyTo(request_id)

    def reply(self, request: Message, result: Any) -> None:
        """Answer a request with a result."""
        self._closing(request)
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def refuse(self, request: Message, code: int, message: str, data: Any = None) -> None:
        """Answer a request with an error."""
        self._closing(request)
        error = {"code": code, "message": message, **({"data": data} if data is not None else {})}
        self.send({"jsonrpc": "2.0", "id": request["id"], "error": error})

    def close(self) -> None:
        """Close stdout; the process lives on."""
        self.closed = True

    def leave(self, code: int = 0) -> None:
        """End the process."""
        self.exit_code = code

    def latest_request(self, method: str) -> Message:
        """Return the newest request of ``method`` that has no answer yet."""
        for message in reversed(self._unanswered):
            if message["method"] == method:
                return message
        raise AssertionError(f"no open request {method}; open are {[message['method'] for message in self._unanswered]}")

    def signal(self, name: str) -> None:
        """Let the scripts go on that wait for the signal ``name``."""
        waiting = [entry for entry in self._waiting if isinstance(entry[1], Signal) and entry[1].name == name]
        assert waiting, f"no script waits for the signal {name}; they wait for {self.waits}"
        for entry in waiting:
            self._waiting.remove(entry)
            self._advance(entry[0], {})

    # What drivers use.

    def feed(self, data: bytes) -> None:
        """Take bytes from the client."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                message = None
            if isinstance(message, dict):
                self._receive(message)  # pyright: ignore[reportUnknownArgumentType] - a message of any shape
            else:
                self.noise.append(line)
        self.on_change()

    def attach(self, sink: Callable[[bytes], object]) -> None:
        """Write to ``sink`` from now on, first what was sent before."""
        self._sink = sink
        for data in self._output:
            sink(data)
        self._output.clear()

    @property
    def done(self) -> bool:
        """Whether the list of steps has been played to its end (true without one)."""
        return self._main is None

    @property
    def waits(self) -> list[str]:
        """What the scripts wait for, in words."""
        return [repr(wait) for _, wait in self._waiting]

    def finish(self) -> None:
        """Raise AssertionError unless everything received was wanted and every script came to its end."""
        if self._rest:
            self.failures.append(f"the client ended inside a line: {self._rest[:200]!r}")
        problems = list(self.failures)
        problems += [f"unexpected: {json.dumps(message)[:500]}" for message in self.unexpected]
        problems += [f"never read: {json.dumps(message)[:500]}" for message in self._inbox]
        problems += [f"no message: {line[:200]!r}" for line in self.noise]
        problems += [f"still waiting for {wait}" for wait in self.waits]
        assert not problems, "\n".join(problems)

    def calls(self, method: str) -> list[Message]:
        """Return every message of ``method`` received so far."""
        return [message for message in self.received if message.get("method") == method]

    def replies(self) -> dict[Any, Message]:
        """Return the replies received so far by id."""
        return {message["id"]: message for message in self.received if "method" not in message and "id" in message}

    def report(self) -> Message:
        """Return what a process test wants to see afterwards."""
        return {
            "received": self.received,
            "unexpected": self.unexpected,
            "unread": list(self._inbox),
            "noise": [line.decode("utf-8", "backslashreplace") for line in self.noise],
            "failures": self.failures,
            "waits": self.waits,
        }

    def _receive(self, message: Message) -> None:
        self.received.append(message)
        method = message.get("method")
        if method is None:
            self._deliver(message, lambda wait: isinstance(wait, ReplyTo) and _same_id(wait.request_id, message.get("id")))
            return
        if "id" in message:
            self._unanswered.append(message)
        if self._resume(message, lambda wait: isinstance(wait, Call) and wait.fits(message)):
            return
        handler = self.handlers.get(method) or (None if self._main is not None else self.fallback)
        if handler is not None:
            script = handler(message)
            if script is not None:
                self._start(script)
        elif self._main is not None:
            self._inbox.append(message)
        else:
            self._reject(message)

    def _reject(self, message: Message) -> None:
        self.unexpected.append(message)
        if "id" in message:
            self.refuse(message, -32601, f"Method not found: {message['method']}", {"method": message["method"]})

    def _deliver(self, message: Message, fits: Callable[[Wait], bool]) -> None:
        if not self._resume(message, fits):
            self.unexpected.append(message)

    def _resume(self, message: Message, fits: Callable[[Wait], bool]) -> bool:
        for entry in self._waiting:
            if fits(entry[1]):
                self._waiting.remove(entry)
                self._advance(entry[0], message)
                return True
        return False

    def _start(self, script: Script) -> None:
        self._advance(script, None)

    def _advance(self, script: Script, message: Message | None) -> None:
        """Run ``script`` up to its next wait that is not satisfied by what already lies in the inbox."""
        while True:
            try:
                wait = next(script) if message is None else script.send(message)
            except StopIteration:
                self._end(script)
                return
            except AssertionError as error:
                self.failures.append(str(error))
                self._end(script)
                return
            message = self._from_inbox(wait)
            if message is None:
                self._waiting.append((script, wait))
                return

    def _end(self, script: Script) -> None:
        if script is self._main:
            self._main = None
            while self._inbox:
                self._reject(self._inbox.popleft())

    def _from_inbox(self, wait: Wait) -> Message | None:
        for message in self._inbox:
            if isinstance(wait, Call) and wait.fits(message):
                self._inbox.remove(message)
                return message
        return None

    def _closing(self, request: Message) -> None:
        self._unanswered = [message for message in self._unanswered if message is not request]


def member(value: Any, *path: str) -> Any:
    """Return what stands at ``path`` in nested objects, or None."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - any JSON
    return value  # pyright: ignore[reportUnknownVariableType] - as above


def _same_id(ours: Any, theirs: Any) -> bool:
    return type(ours) is type(theirs) and ours == theirs


def _play(agent: ScriptedAgent, steps: Sequence[Step]) -> Script:
    for step in steps:
        yield from step(agent)


def verify(message: Message, check: Check) -> None:
    """Apply ``check``: a function that asserts or returns False, or members that must stand in ``params`` (or the message)."""
    if check is None:
        return
    if callable(check):
        assert check(message) is not False, f"the check of {message.get('method', 'a reply')} failed: {json.dumps(message)[:500]}"
        return
    body = message.get("params", message)
    for key, value in check.items():
        assert isinstance(body, dict), f"{message.get('method')} has no object as params"
        assert body.get(key) == value, f"{message.get('method')}: {key} is {body.get(key)!r}, not {value!r}"  # pyright: ignore[reportUnknownMemberType]


def expect(method: str, check: Check = None) -> Step:
    """Wait for a message of ``method`` and check it."""

    def step(agent: ScriptedAgent) -> Script:
        verify((yield Call(method)), check)

    return step


def send(frame: Message | Callable[[ScriptedAgent], Message]) -> Step:
    """Send a message, or what a function of the agent makes."""

    def step(agent: ScriptedAgent) -> Script:
        agent.send(frame(agent) if callable(frame) else frame)
        yield from ()

    return step


def send_raw(data: bytes) -> Step:
    """Send bytes."""

    def step(agent: ScriptedAgent) -> Script:
        agent.send_raw(data)
        yield from ()

    return step


def reply(method: str, result: Any = None, error: Message | None = None) -> Step:
    """Answer the newest open request of ``method``, with ``error`` when given."""

    def step(agent: ScriptedAgent) -> Script:
        request = agent.latest_request(method)
        if error is None:
            agent.reply(request, result)
        else:
            agent.refuse(request, error["code"], error["message"], error.get("data"))
        yield from ()

    return step


def wait_for_reply(request_id: Any, check: Check = None) -> Step:
    """Wait for the reply to our request ``request_id`` and check it."""

    def step(agent: ScriptedAgent) -> Script:
        verify((yield ReplyTo(request_id)), check)

    return step


def close() -> Step:
    """Close stdout."""

    def step(agent: ScriptedAgent) -> Script:
        agent.close()
        yield from ()

    return step


def leave(code: int = 0) -> Step:
    """End the process with ``code``."""

    def step(agent: ScriptedAgent) -> Script:
        agent.leave(code)
        yield from ()

    return step


class Stream(Protocol):
    """The part of a byte stream that the engine needs."""

    async def receive(self) -> bytes: ...
    def write(self, line: bytes, *, urgent: bool = False) -> object: ...
    async def aclose(self) -> None: ...


async def play_on(agent: ScriptedAgent, stream: Stream) -> None:
    """Play ``agent`` on one end of a stream until the script closes it or the client does."""
    agent.attach(stream.write)
    while not agent.closed and agent.exit_code is None:
        received = await stream.receive()
        if not received:
            return
        agent.feed(received)
    await stream.aclose()


def serve_process(agent: ScriptedAgent, *, wait_seconds: float | None = None) -> int:
    """Play ``agent`` on this process's stdin and stdout; return the exit code.

    ``wait_seconds`` bounds how long a list of steps may wait for the client (``SIDECAR_PEER_WAIT``, else 5 s). With
    ``SIDECAR_PEER_REPORT`` a JSON report of everything received is written to that file at the end.
    """
    limit = wait_seconds if wait_seconds is not None else float(os.environ.get("SIDECAR_PEER_WAIT", WAIT_SECONDS))
    open_output = True
    agent.attach(_write_all)
    try:
        while True:
            if agent.exit_code is not None:
                return agent.exit_code
            if agent.closed and open_output:
                os.close(1)
                open_output = False
            if not agent.done and not _readable(limit):
                sys.stderr.write(f"scripted agent: nothing came within {limit} s; waiting for {agent.waits}\n")
                return STALLED_EXIT_CODE
            data = os.read(0, 65536)
            if not data:
                return _end_of_input(agent)
            agent.feed(data)
    finally:
        _write_report(agent)


def _readable(seconds: float) -> bool:
    return bool(select.select([0], [], [], seconds)[0])


def _write_all(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


def _end_of_input(agent: ScriptedAgent) -> int:
    if agent.unexpected or agent.failures or agent.noise:
        sys.stderr.write(f"scripted agent: {json.dumps(agent.report())[:2000]}\n")
        return UNEXPECTED_EXIT_CODE
    return 0


def _write_report(agent: ScriptedAgent) -> None:
    path = os.environ.get("SIDECAR_PEER_REPORT")
    if not path:
        return
    process = {"pid": os.getpid(), "argv": sys.argv, "cwd": os.getcwd(), "environment": dict(os.environ)}  # noqa: PTH109 - start time
    temporary = f"{path}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs start time
        json.dump({**process, "ended": time.time(), **agent.report()}, file)
    os.replace(temporary, path)  # noqa: PTH105 - as above
