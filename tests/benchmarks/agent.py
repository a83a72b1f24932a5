"""The agent of the benchmarks, standard library only (run with ``python -I -S``): it floods prepared bytes on a prompt.

What it does stands in the prompt's text, or in the id of a session to load: ``bench say``, ``bench flood COUNT LENGTH`` (0: 5 to
200 characters), ``bench pace HZ COUNT`` (each chunk holds the time it was sent), ``bench mixed COUNT`` (text, in each hundred one
diff of 20 KB, once in all one of 1 MB).
"""

import json
import os
import random
import sys
import time
from collections.abc import Iterator
from typing import Any

CYCLE = 1000
"""A flood repeats this many prepared updates."""

BLOCK_BYTES = 1 << 18
DIFF_BYTES = 20_000
LARGE_DIFF_BYTES = 1_000_000
MESSAGE_ID = "6f1c2b5e-1d3a-4a0e-9f43-0d9b3a3c"
LETTERS = "abcdefghij klmnop" * 2 + "\n"
END_MARK = "(the end of it all)"


def text_of(number: int, length: int) -> str:
    """Return the text of update ``number``; the same in every process."""
    chosen = random.Random(number % CYCLE)
    size = length or chosen.randint(5, 200)
    return "".join(chosen.choices(LETTERS, k=size))


def update_line(session_id: str, update: dict[str, Any]) -> bytes:
    params = {"sessionId": session_id, "update": update}
    return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}, separators=(",", ":")).encode() + b"\n"


def chunk_line(session_id: str, text: str, message: int = 0) -> bytes:
    content = {"type": "text", "text": text}
    update = {"sessionUpdate": "agent_message_chunk", "messageId": f"{MESSAGE_ID}{message:04x}", "content": content}
    return update_line(session_id, update)


def diff_line(session_id: str, number: int, size: int) -> bytes:
    half = "".join(random.Random(number).choices(LETTERS, k=size // 2))
    content = [{"type": "diff", "path": f"/src/file{number}.py", "oldText": half, "newText": half[::-1]}]
    update = {"sessionUpdate": "tool_call_update", "toolCallId": f"call-{number}", "status": "completed", "content": content}
    return update_line(session_id, {**update, "title": f"Edit file {number}", "kind": "edit"})


def flood(session_id: str, count: int, length: int) -> Iterator[bytes]:
    lines = [chunk_line(session_id, text_of(number, length)) for number in range(min(count, CYCLE))]
    whole = b"".join(lines)
    for _ in range(count // CYCLE):
        yield whole
    yield b"".join(lines[: count % CYCLE])


def mixed(session_id: str, count: int) -> Iterator[bytes]:
    lines: list[bytes] = []
    for number in range(count - 1):
        if number == count // 2 + 1:
            lines.append(diff_line(session_id, number, LARGE_DIFF_BYTES))
        elif number % 100 == 50:
            lines.append(diff_line(session_id, number, DIFF_BYTES))
        else:
            lines.append(chunk_line(session_id, text_of(number, 0), (number + 50) // 100))
    yield b"".join([*lines, chunk_line(session_id, END_MARK, count)])


def write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view[:BLOCK_BYTES]) :]


def pace(session_id: str, rate: int, count: int) -> None:
    due = time.monotonic()
    for _ in range(count):
        due += 1 / rate
        time.sleep(max(0.0, due - time.monotonic()))
        write(chunk_line(session_id, f"@{time.monotonic_ns()};"))


def act(session_id: str, order: str) -> None:
    word, *numbers = order.partition("bench ")[2].split()
    amounts = [int(number) for number in numbers]
    if word == "pace":
        pace(session_id, *amounts)
    elif word == "mixed":
        write(PREPARED.get(order) or b"".join(mixed(session_id, *amounts)))
    elif word == "flood":
        for block in flood(session_id, *amounts):
            write(block)
    else:
        write(chunk_line(session_id, "Hello."))


PREPARED: dict[str, bytes] = {}
"""Histories made ahead, so that a load costs the agent nothing: all those named as arguments of the process."""


def answer(request: dict[str, Any]) -> dict[str, Any]:
    method, params = request["method"], request.get("params", {})
    if method == "initialize":
        capabilities = {"loadSession": True, "promptCapabilities": {"embeddedContext": True}}
        return {"protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": []}
    if method == "session/new":
        return {"sessionId": "bench-session"}
    if method == "session/load":
        act(params["sessionId"], params["sessionId"])
        return {}
    if method == "session/prompt":
        act(params["sessionId"], " ".join(block.get("text", "") for block in params["prompt"]))
        return {"stopReason": "end_turn"}
    return {}


def main() -> None:
    for order in sys.argv[1:]:
        PREPARED[order] = b"".join(mixed(order, int(order.split()[-1])))
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "id" in request and "method" in request:
            reply = {"jsonrpc": "2.0", "id": request["id"], "result": answer(request)}
            write(json.dumps(reply, separators=(",", ":")).encode() + b"\n")


if __name__ == "__main__":
    main()
