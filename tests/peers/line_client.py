"""A raw JSON-RPC client over one line a message, for driving an agent with nothing of ours in between."""

import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, cast

Message = dict[str, Any]
REPLY_SECONDS = 30.0
EXIT_SECONDS = 2.0


class LineClient:
    """Starts ``argv`` in its own process group and speaks with it, from ``with`` to its end; then the whole group is killed.

    ``seen`` holds every message the agent sent, in order; ``noise`` the lines on its stdout that were no JSON object.
    """

    def __init__(self, argv: list[str], *, cwd: Path, env: Mapping[str, str]) -> None:
        self.seen: list[Message] = []
        self.noise: list[bytes] = []
        self.process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._arrived: queue.Queue[Message | None] = queue.Queue()
        self._last_id = 0
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, *exception: object) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._reader.join(EXIT_SECONDS)
        self.process.stdout.close()

    def send(self, message: Message) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def notify(self, method: str, params: Message) -> None:
        self.send({"method": method, "params": params})

    def begin(self, method: str, params: Message) -> int:
        """Send a request and return its id without waiting."""
        self._last_id += 1
        self.send({"id": self._last_id, "method": method, "params": params})
        return self._last_id

    def call(self, method: str, params: Message) -> Message:
        """Send a request and return its result; an error reply fails the test."""
        return self.result(self.begin(method, params))

    def result(self, request_id: int, *, on_message: Callable[[Message], None] | None = None) -> Message:
        """Wait for the reply to ``request_id``, giving every other message that comes before it to ``on_message``."""
        while True:
            message = self.next_message()
            if message.get("id") == request_id and "method" not in message:
                assert "error" not in message, message
                return message["result"]
            if on_message is not None:
                on_message(message)

    def wait_for(self, wanted: Callable[[Message], bool]) -> Message:
        """Wait for the next message that ``wanted`` takes."""
        while True:
            message = self.next_message()
            if wanted(message):
                return message

    def next_message(self) -> Message:
        try:
            message = self._arrived.get(timeout=REPLY_SECONDS)
        except queue.Empty:
            raise AssertionError(f"the agent said nothing for {REPLY_SECONDS} s; before that: {self.seen[-3:]}") from None
        assert message is not None, f"the agent closed its output; before that: {self.seen[-3:]}"
        self.seen.append(message)
        return message

    def updates(self, kind: str) -> list[Message]:
        """Return all ``session/update`` bodies of one kind seen so far."""
        bodies = [message["params"]["update"] for message in self.seen if message.get("method") == "session/update"]
        return [body for body in bodies if body.get("sessionUpdate") == kind]

    def text(self) -> str:
        """Return the agent's answer so far, all its text chunks joined."""
        return "".join(chunk["content"].get("text", "") for chunk in self.updates("agent_message_chunk"))

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                message = None
            if isinstance(message, dict):
                self._arrived.put(cast("Message", message))
            else:
                self.noise.append(line)
        self._arrived.put(None)
