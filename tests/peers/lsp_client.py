"""A strict editor: speaks raw LSP to a server process and fails on everything a server must not do.

It fails (``ProtocolViolation``) on a header that is not exactly ``Content-Length: N``, on bytes between or after messages, bodies
that are no ASCII JSON object of version 2.0, a reply to an id that was never sent or is already answered, a reply with neither
or both of result and error, and, when closed, on requests and notifications of the server that no test looked at.
"""

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import IO, Any, Self, cast

WAIT_SECONDS = 10.0  # tests share the machine with each other; nothing of this is a measurement
START_SECONDS = 30.0
"""For the first message of a process: it imports, perhaps on a busy machine."""

ABSENT: Any = object()

_HEADER = re.compile(rb"Content-Length: (0|[1-9][0-9]*)\Z")


class ProtocolViolation(AssertionError):
    """The server broke the protocol."""


def frame(message: object) -> bytes:
    """Return the bytes of one message."""
    body = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class Inbox:
    """What the server wrote, checked as it is read on a thread of its own."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.open: set[tuple[type[Any], Any]] = set()
        self.replies: dict[tuple[type[Any], Any], dict[str, Any]] = {}
        self.told: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.errors_without_id: list[dict[str, Any]] = []
        self.violations: list[str] = []
        self.changed = threading.Condition()
        self.hearing = threading.Event()
        self.hearing.set()
        self.bytes_read = 0
        self._stream = stream
        self._ended = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def stop_checking(self) -> None:
        """Forget what was read and found: the test cut the stream itself."""
        for found in (self.violations, self.replies, self.told, self.asked, self.errors_without_id):
            found.clear()

    def close_stream(self) -> None:
        """Close the reading end of the pipe, as an editor that dies in part."""
        os.dup2(os.open(os.devnull, os.O_RDONLY), self._stream.fileno())

    def join(self, within: float) -> None:
        """Wait until the server's output ended and all of it was checked."""
        self._thread.join(within)

    def wait(self, ready: Callable[[], bool], within: float, otherwise: str) -> None:
        """Wait until ``ready``, looked at under the lock; fail with ``otherwise``, at once when nothing more can come."""
        deadline = time.monotonic() + (within if self.bytes_read else max(within, START_SECONDS))
        with self.changed:
            while not ready():
                if self.violations:
                    raise ProtocolViolation("; ".join(self.violations))
                left = deadline - time.monotonic()
                if left <= 0 or self._ended:
                    raise AssertionError(otherwise + (" (the server's output ended)" if self._ended else ""))
                self.changed.wait(left)

    def take(self, queue: list[dict[str, Any]], method: str, within: float, problem: str) -> dict[str, Any]:
        """Return and remove the first message of that method."""

        def position() -> int | None:
            return next((at for at, message in enumerate(queue) if message["method"] == method), None)

        self.wait(lambda: position() is not None, within, f"{method} {problem}")
        with self.changed:
            at = position()
            assert at is not None
            return queue.pop(at)

    def _read(self) -> None:
        buffer = bytearray()
        with contextlib.suppress(OSError, ValueError):
            try:
                while self._read_message(buffer):
                    self.hearing.wait()
            except ProtocolViolation as violation:
                self._note(str(violation))
        with self.changed:
            self._ended = True
            self.changed.notify_all()

    def _fill(self, buffer: bytearray) -> bool:
        data = self._stream.read(65536)
        self.bytes_read += len(data)
        buffer += data
        return bool(data)

    def _read_message(self, buffer: bytearray) -> bool:
        while (end := buffer.find(b"\r\n\r\n")) < 0:
            if not self._fill(buffer):
                if buffer:
                    raise ProtocolViolation(f"bytes after the last message: {bytes(buffer[:200])!r}")
                return False
        header = _HEADER.match(buffer[:end])
        if header is None:
            raise ProtocolViolation(f"a header that is not exactly Content-Length: {bytes(buffer[:end][:200])!r}")
        length = int(header[1])
        while len(buffer) < end + 4 + length:
            if not self._fill(buffer):
                raise ProtocolViolation(
                    f"the stream ended {end + 4 + length - len(buffer)} bytes before the length in the header"
                )
        body = bytes(buffer[end + 4 : end + 4 + length])
        del buffer[: end + 4 + length]
        self._receive(body)
        return True

    def _receive(self, body: bytes) -> None:
        try:
            value: object = json.loads(body.decode("ascii"), parse_constant=_no_constant)
        except ValueError as error:
            raise ProtocolViolation(f"a body that is no ASCII JSON ({error}): {body[:200]!r}") from error
        message = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        if message.get("jsonrpc") != "2.0":
            raise ProtocolViolation(f"no message of JSON-RPC 2.0: {body[:200]!r}")
        with self.changed:
            if "method" in message:
                (self.asked if "id" in message else self.told).append(message)
            else:
                self._receive_reply(message)
            self.changed.notify_all()

    def _receive_reply(self, message: dict[str, Any]) -> None:
        if ("result" in message) == ("error" in message):
            raise ProtocolViolation(f"a reply with both or neither of result and error: {message}")
        request_id: Any = message.get("id", ABSENT)
        if request_id is None and "error" in message:
            self.errors_without_id.append(message["error"])
            return
        key = _key(request_id)
        if key not in self.open:
            raise ProtocolViolation(f"a reply to an id that is not open: {message}")
        self.open.discard(key)
        self.replies[key] = message

    def _note(self, violation: str) -> None:
        with self.changed:
            self.violations.append(violation)
            self.changed.notify_all()


class LspClient:
    """One server process and what it said. Use it as a context manager: leaving it closes it and checks that all was read.

    ``ignore`` names notifications that need not be looked at.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        ignore: Sequence[str] = (),
        new_session: bool = False,
    ) -> None:
        self.process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            bufsize=0,
            start_new_session=new_session,
        )
        self.stderr = b""
        self.ignored = set(ignore)
        assert self.process.stdout is not None
        self.inbox = Inbox(self.process.stdout)
        self._ids = itertools.count(1)
        self._stderr_reader = threading.Thread(target=self._read_stderr, daemon=True)
        self._stderr_reader.start()

    # sending

    def send_bytes(self, data: bytes) -> None:
        """Write bytes as they are."""
        stdin = self.process.stdin
        assert stdin is not None
        view = memoryview(data)
        while view:
            view = view[stdin.write(view) :]

    def send(self, message: object) -> None:
        """Write one message as it is."""
        self.send_bytes(frame(message))

    def request(self, method: str, params: Any = ABSENT, *, request_id: int | str | None = None) -> int | str:
        """Send a request and return its id."""
        chosen = next(self._ids) if request_id is None else request_id
        message = {"jsonrpc": "2.0", "id": chosen, "method": method}
        self.expect_reply_to(chosen)
        self.send(message if params is ABSENT else {**message, "params": params})
        return chosen

    def expect_reply_to(self, request_id: int | str) -> None:
        """Await one reply to an id that the test sends itself."""
        with self.inbox.changed:
            self.inbox.open.add(_key(request_id))

    def notify(self, method: str, params: Any = ABSENT) -> None:
        """Send a notification."""
        message = {"jsonrpc": "2.0", "method": method}
        self.send(message if params is ABSENT else {**message, "params": params})

    def answer(self, asked: Mapping[str, Any], result: Any = None, *, error: Any = None) -> None:
        """Answer a request of the server."""
        self.send({"jsonrpc": "2.0", "id": asked["id"], **({"result": result} if error is None else {"error": error})})

    def cancel(self, request_id: int | str) -> None:
        """Withdraw a request."""
        self.notify("$/cancelRequest", {"id": request_id})

    # receiving

    def reply(self, request_id: int | str, *, within: float = WAIT_SECONDS) -> dict[str, Any]:
        """Return the whole reply to a request."""
        key = _key(request_id)
        self._wait(lambda: key in self.inbox.replies, within, f"no reply to request {request_id!r}")
        return self.inbox.replies.pop(key)

    def call(self, method: str, params: Any = ABSENT, *, within: float = WAIT_SECONDS) -> dict[str, Any]:
        """Send a request and return the whole reply."""
        return self.reply(self.request(method, params), within=within)

    def result(self, method: str, params: Any = ABSENT, *, within: float = WAIT_SECONDS) -> Any:
        """Send a request and return its result; an error fails."""
        reply = self.call(method, params, within=within)
        assert "error" not in reply, f"{method} was refused: {reply['error']}"
        return reply["result"]

    def error(self, method: str, params: Any = ABSENT, *, within: float = WAIT_SECONDS) -> dict[str, Any]:
        """Send a request and return its error; a result fails."""
        reply = self.call(method, params, within=within)
        assert "error" in reply, f"{method} was answered: {reply['result']}"
        return reply["error"]

    def error_without_id(self, *, within: float = WAIT_SECONDS) -> dict[str, Any]:
        """Return the next error the server sent without an id."""
        self._wait(lambda: bool(self.inbox.errors_without_id), within, "no error without an id")
        return self.inbox.errors_without_id.pop(0)

    def told(self, method: str, *, within: float = WAIT_SECONDS) -> dict[str, Any]:
        """Return the params of the next notification of that method."""
        return self._take(self.inbox.told, method, within, "was not told").get("params", {})

    def asked(self, method: str, *, within: float = WAIT_SECONDS) -> dict[str, Any]:
        """Return the next request of the server of that method, whole, to be given to ``answer``."""
        return self._take(self.inbox.asked, method, within, "was not asked")

    def unread(self) -> list[str]:
        """Return the methods of what the server sent and nobody looked at."""
        with self.inbox.changed:
            return [m["method"] for m in [*self.inbox.told, *self.inbox.asked] if m["method"] not in self.ignored]

    def go_deaf(self) -> None:
        """Stop reading after what is being read now; the pipe fills up."""
        self.inbox.hearing.clear()

    def hear(self) -> None:
        """Read again."""
        self.inbox.hearing.set()

    # beginning and end

    def initialize(self, capabilities: Mapping[str, Any] | None = None, **params: Any) -> dict[str, Any]:
        """Initialize and say so; return the result."""
        asked = {"processId": None, "rootUri": None, "capabilities": dict(capabilities or {}), **params}
        result = self.result("initialize", asked, within=START_SECONDS)
        self.notify("initialized", {})
        return result

    def shut_down(self) -> int:
        """End as the protocol says; return the exit code."""
        assert self.result("shutdown") is None
        self.notify("exit")
        return self.wait()

    def close_stdin(self) -> None:
        """Give the server the end of its input."""
        if self.process.stdin is not None:
            self.process.stdin.close()

    def wait(self, *, within: float = WAIT_SECONDS) -> int:
        """Wait for the end of the process and return its exit code."""
        self.hear()
        code = self.process.wait(within)
        self._join(within)
        return code

    def kill(self) -> None:
        """End the process and forget it; nothing is checked."""
        self.hear()
        self.process.kill()
        self.process.wait()
        self._close_streams()

    def signal(self, number: signal.Signals) -> None:
        """Signal the server."""
        self.process.send_signal(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.hear()
        if self.process.poll() is None and kind is None:
            with contextlib.suppress(OSError):
                self.close_stdin()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(WAIT_SECONDS)
        hung = self.process.poll() is None
        if hung:
            self.process.kill()
            self.process.wait()
        self._close_streams()
        if kind is None:
            assert not hung, "the server did not end when its input did"
            self.check()

    def check(self) -> None:
        """Fail on what the server did wrong so far, and on messages nobody looked at."""
        if self.inbox.violations:
            raise ProtocolViolation("; ".join(self.inbox.violations))
        assert not self.unread(), f"never looked at: {self.unread()}"
        assert not self.inbox.errors_without_id, f"errors without an id: {self.inbox.errors_without_id}"
        assert not self.inbox.replies, f"replies never looked at: {list(self.inbox.replies.values())}"

    def _wait(self, ready: Callable[[], bool], within: float, otherwise: str) -> None:
        try:
            self.inbox.wait(ready, within, otherwise)
        except AssertionError as error:
            error.add_note(f"stderr: {self.stderr[-3000:].decode(errors='replace')}")
            raise

    def _take(self, queue: list[dict[str, Any]], method: str, within: float, problem: str) -> dict[str, Any]:
        try:
            return self.inbox.take(queue, method, within, problem)
        except AssertionError as error:
            error.add_note(f"stderr: {self.stderr[-3000:].decode(errors='replace')}")
            raise

    def _close_streams(self) -> None:
        self._join(WAIT_SECONDS)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _join(self, within: float) -> None:
        self.inbox.join(within)
        self._stderr_reader.join(within)

    def _read_stderr(self) -> None:
        stream = self.process.stderr
        assert stream is not None
        with contextlib.suppress(OSError, ValueError):
            while data := stream.read(65536):
                self.stderr += data


def _key(request_id: Any) -> tuple[type[Any], Any]:
    """Ids match by type too: 1, "1" and true are three."""
    return cast("type[Any]", type(request_id)), request_id


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
