"""One fault per run, as a real process: ``python -m tests.peers.faults FAULT [AMOUNT]``.

Until its moment the agent is a plain one that answers ``initialize``, ``session/new``, ``session/load`` and every prompt. The
moment is the start of the process, or, for the faults of ``AT_PROMPT``, the first prompt. What is alive afterwards answers on.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

CHUNK = 65536
HOLD_SECONDS = 120
"""How long a process stays that is to be ended by its parent: far above every bound of the tests, and still finite."""

_prompt_id: Any = None


def write(data: bytes) -> None:
    """Write all of ``data`` to stdout."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


def send(message: Any) -> None:
    """Write one message as a line."""
    write(json.dumps(message).encode() + b"\n")


def reply(request_id: Any, result: Any) -> None:
    send({"jsonrpc": "2.0", "id": request_id, "result": result})


def update(text: str) -> None:
    """Send a piece of an answer."""
    body = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    send({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s-1", "update": body}})


def hold() -> None:
    """Stay alive and do nothing."""
    time.sleep(HOLD_SECONDS)


# At the start of the process.


def exit_at_once(amount: int) -> None:
    """Say why on stderr and end with a code."""
    os.write(2, b"fatal: the configuration is broken\n")
    os._exit(amount or 7)


def half_then_exit(_: int) -> None:
    write(b'{"jsonrpc":"2.0","id":0,"resu')
    os._exit(0)


def noise_first(_: int) -> None:
    """Package manager noise and a banner before anything else."""
    write(b"npm WARN deprecated something@1.0.0: no longer supported\n\n> agent@1.0.0 start\n{not json\n")


def bom_first(_: int) -> None:
    write(b"\xef\xbb\xbf")


def never_replies(_: int) -> None:
    """Read everything, answer nothing."""
    while os.read(0, CHUNK):
        pass
    os._exit(0)


def never_reads(_: int) -> None:
    hold()


def closes_stdout(_: int) -> None:
    """Close stdout at once and live on; the end of stdin ends it."""
    os.close(1)
    while os.read(0, CHUNK):
        pass
    os._exit(0)


def stderr_flood_first(amount: int) -> None:
    _flood_stderr(amount)


def ignores_term(_: int) -> None:
    """Ignore SIGTERM and the end of stdin."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _serve()
    hold()


def ignores_end(_: int) -> None:
    """Ignore the end of stdin only."""
    _serve()
    hold()


def grandchildren(_: int) -> None:
    """Start a child, a child in its own session, and a double-forked one in its own session; their ids go to stderr."""
    ids = [_sleeper(), _sleeper(own_session=True), _daemon()]
    os.write(2, f"grandchildren {' '.join(map(str, ids))}\n".encode())


def dead_launcher(_: int) -> None:
    """Hand the pipes to a child and die, so that no end of file follows."""
    _sleeper()
    os._exit(3)


# At the first prompt.


def invalid_utf8(_: int) -> None:
    write(b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","x":"\xff\xfe\x80"}}\n')


def bom_line(_: int) -> None:
    write(b'\xef\xbb\xbf{"jsonrpc":"2.0","method":"_x/bom","params":{}}\n')


def long_line(amount: int) -> None:
    """One line of ``amount`` MiB, 60 unless said otherwise."""
    write(
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"agent_message_chunk",'
    )
    write(b'"content":{"type":"text","text":"')
    _fill(b"x", amount or 60)
    write(b'"}}}}\n')


def endless_line(amount: int) -> None:
    """A line of ``amount`` MiB that never ends."""
    _fill(b"x", amount or 200)
    hold()


def nested_arrays(amount: int) -> None:
    depth = amount or 100_000
    write(b'{"jsonrpc":"2.0","method":"_x/deep","params":' + b"[" * depth + b"]" * depth + b"}\n")


def nested_objects(amount: int) -> None:
    depth = amount or 100_000
    write(b'{"jsonrpc":"2.0","method":"_x/deep","params":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}\n")


def long_number(amount: int) -> None:
    write(b'{"jsonrpc":"2.0","method":"_x/number","params":{"n":' + b"9" * (amount or 5000) + b"}}\n")


def long_id(amount: int) -> None:
    write(b'{"jsonrpc":"2.0","id":' + b"9" * (amount or 5000) + b',"method":"session/request_permission","params":{}}\n')


def nan(_: int) -> None:
    write(b'{"jsonrpc":"2.0","method":"_x/nan","params":{"n":NaN,"i":Infinity}}\n')
    body = b'{"sessionUpdate":"usage_update","used":NaN,"size":Infinity}'
    write(b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":' + body + b"}}\n")


def top_array(_: int) -> None:
    write(b'[{"jsonrpc":"2.0","method":"_x/a"},{"jsonrpc":"2.0","id":5,"method":"_x/b"}]\n')


def top_scalar(_: int) -> None:
    write(b'null\n42\n"text"\ntrue\n')


def lone_surrogate(_: int) -> None:
    write(
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"agent_message_chunk",'
    )
    write(b'"content":{"type":"text","text":"half \\ud83d"}}}}\n')


def odd_text(_: int) -> None:
    """Characters that break line splitters and terminals."""
    update("a\u2028b\u2029c\x85d\x00e\x1b[2Jf\u202eg\r\nh")


def noise(_: int) -> None:
    write(b"npm WARN something\n\x1b[31mred\x1b[0m\n\n   \n")


def unknown_reply_id(_: int) -> None:
    reply(987654, {"stopReason": "end_turn"})


def repeated_id(_: int) -> None:
    """Answer the prompt twice, with two different results."""
    reply(_prompt_id, {"stopReason": "end_turn"})
    reply(_prompt_id, {"stopReason": "refusal"})


def id_as_string(_: int) -> None:
    reply(str(_prompt_id), {"stopReason": "end_turn"})


def id_true(_: int) -> None:
    """Answer with ``true``, which Python takes for 1."""
    reply(True, {"stopReason": "refusal"})


def id_float(_: int) -> None:
    reply(float(_prompt_id), {"stopReason": "refusal"})


def no_id_error(_: int) -> None:
    send({"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}})
    send({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}})


def result_and_error(_: int) -> None:
    send({"jsonrpc": "2.0", "id": _prompt_id, "result": None, "error": {"code": "x", "message": 7}})


def reused_request_id(_: int) -> None:
    """Two open requests of ours with one id."""
    for tool in ("t-1", "t-2"):
        call = {"toolCallId": tool, "title": f"call {tool}", "status": "pending"}
        options = [
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]
        params = {"sessionId": "s-1", "toolCall": call, "options": options}
        send({"jsonrpc": "2.0", "id": 0, "method": "session/request_permission", "params": params})


def wrong_shapes(_: int) -> None:
    """Messages whose members have the wrong types."""
    send({"jsonrpc": "2.0", "method": "session/update", "params": [1, 2]})
    send({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": 7, "update": "text"}})
    send({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s-1", "update": {"sessionUpdate": None}}})
    send({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s-1", "update": {"sessionUpdate": "tool_call"}}})
    send({"jsonrpc": "2.0", "method": 5, "id": 3})
    send({"jsonrpc": "1.0"})
    send({})


def prompt_unanswered(_: int) -> None:
    hold()


def stops_reading(_: int) -> None:
    """From the first prompt on nothing is read any more."""
    hold()


def closes_stdout_in_turn(_: int) -> None:
    update("last words")
    os.close(1)
    while os.read(0, CHUNK):
        pass
    os._exit(0)


def stderr_flood(amount: int) -> None:
    _flood_stderr(amount)


def exit_in_turn(amount: int) -> None:
    update("last words")
    os.write(2, b"panic: out of words\n")
    os._exit(amount or 9)


def kill_in_turn(_: int) -> None:
    update("last words")
    os.kill(os.getpid(), signal.SIGKILL)


def half_in_turn(_: int) -> None:
    update("last words")
    write(b'{"jsonrpc":"2.0","method":"session/upd')
    os._exit(0)


def flood(amount: int) -> None:
    """``amount`` MB of updates as fast as they can be written, 200 unless said otherwise."""
    body = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "flood " * 20}}
    line = (
        json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s-1", "update": body}}).encode()
        + b"\n"
    )
    block = line * (CHUNK * 16 // len(line))
    for _ in range(max(1, (amount or 200) * 1_000_000 // len(block))):
        write(block)


def _fill(byte: bytes, mebibytes: int) -> None:
    block = byte * (1024 * 1024)
    for _ in range(mebibytes):
        write(block)


def _flood_stderr(amount: int) -> None:
    """Write ``amount`` MiB to stderr, 20 unless said otherwise."""
    line = b"[INFO] something that nobody reads, again and again\n"
    block = line * (1024 * 1024 // len(line))
    for _ in range(amount or 20):
        rest = memoryview(block)
        while rest:
            rest = rest[os.write(2, rest) :]


def _sleeper(*, own_session: bool = False) -> int:
    code = f"import time; time.sleep({HOLD_SECONDS})"
    return subprocess.Popen([sys.executable, "-I", "-S", "-c", code], start_new_session=own_session).pid


def _daemon() -> int:
    """Fork twice with a session of its own in between, and return the id of the one that is left."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        os.write(sink, str(os.getpid()).encode())
        with contextlib.suppress(OSError):
            hold()
        os._exit(0)
    os.waitpid(child, 0)
    return int(os.read(source, 32))


AT_START: dict[str, Callable[[int], None]] = {
    function.__name__: function
    for function in (
        exit_at_once,
        half_then_exit,
        noise_first,
        bom_first,
        never_replies,
        never_reads,
        closes_stdout,
        stderr_flood_first,
        ignores_term,
        ignores_end,
        grandchildren,
        dead_launcher,
    )
}
AT_PROMPT: dict[str, Callable[[int], None]] = {
    function.__name__: function
    for function in (
        invalid_utf8,
        bom_line,
        long_line,
        endless_line,
        nested_arrays,
        nested_objects,
        long_number,
        long_id,
        nan,
        top_array,
        top_scalar,
        lone_surrogate,
        odd_text,
        noise,
        unknown_reply_id,
        repeated_id,
        id_as_string,
        id_true,
        id_float,
        no_id_error,
        result_and_error,
        reused_request_id,
        wrong_shapes,
        prompt_unanswered,
        stops_reading,
        closes_stdout_in_turn,
        stderr_flood,
        exit_in_turn,
        kill_in_turn,
        half_in_turn,
        flood,
    )
}
ANSWERS_THE_PROMPT = (repeated_id, id_as_string, result_and_error)
"""These faults are the answer; all others are followed by a good one."""


def _serve(fault: Callable[[int], None] | None = None, amount: int = 0) -> None:
    """Answer as a plain agent until the end of stdin; ``fault`` happens once, in the first prompt."""
    rest = b""
    while data := os.read(0, CHUNK):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            fault = _answer(json.loads(line), fault, amount)


def _answer(message: Any, fault: Callable[[int], None] | None, amount: int) -> Callable[[int], None] | None:
    """Answer one message and return the fault that is still to come."""
    global _prompt_id  # noqa: PLW0603 - one prompt at a time in one small process
    method = message.get("method")
    if "id" not in message or method is None:
        return fault
    request_id = message["id"]
    if method == "initialize":
        reply(request_id, {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}, "authMethods": []})
    elif method == "session/new":
        reply(request_id, {"sessionId": "s-1"})
    elif method == "session/load":
        reply(request_id, {})
    elif method == "session/prompt":
        _prompt_id = request_id
        if fault is not None:
            fault(amount)
        if fault not in ANSWERS_THE_PROMPT:
            update("alive")
            reply(request_id, {"stopReason": "end_turn"})
        return None
    else:
        send({"jsonrpc": "2.0", "id": request_id, "error": {"code": -32601, "message": f"Method not found: {method}"}})
    return fault


def main(arguments: list[str]) -> int:
    """Play one fault; without a name, or with a wrong one, say which there are."""
    name = arguments[0] if arguments else ""
    amount = int(arguments[1]) if len(arguments) > 1 else 0
    if name in AT_START:
        AT_START[name](amount)
        _serve()
    elif name in AT_PROMPT:
        _serve(AT_PROMPT[name], amount)
    else:
        sys.stderr.write(f"faults: {' '.join([*AT_START, *AT_PROMPT])}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
