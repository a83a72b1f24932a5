"""A language model on the loopback interface, for third-party agents: ``ModelServer`` speaks the streaming Responses API.

It understands plain words in the newest user message, so that a test can say in its prompt what the model shall do:

- ``say: WORDS``      streams the words as the answer
- ``slowly: WORDS``   the same, one word every 50 ms, until the agent hangs up
- ``run: COMMAND``    calls the agent's shell tool with the command, and after its result says "The command ended."
- ``think: WORDS``    streams the words as a reasoning summary, then says "I thought about it."
- ``fail: STATUS``    answers with that HTTP status

Anything else is answered with "Hello from the model.". As a program (``python -m tests.peers.model_server``) it prints its base
URL on the first line and serves until its standard input ends.
"""

import contextlib
import json
import re
import sys
import threading
import uuid
from collections.abc import Generator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, cast

import attrs

MODEL = "model-of-the-tests"
WORD_INTERVAL_SECONDS = 0.05
SHELL_TOOLS = ("shell", "shell_command", "exec_command", "local_shell", "bash", "terminal", "execute")
ORDER = re.compile(r"\b(say|slowly|run|think|fail):\s*(.+)", re.DOTALL)

Json = dict[str, Any]

EMPTY_ITEMS: dict[str, Json] = {"message": {"content": []}, "reasoning": {"summary": []}, "function_call": {"arguments": ""}}


def members(value: Any) -> Json:
    """Return ``value`` when it is a JSON object, else an empty one."""
    return cast("Json", value) if isinstance(value, dict) else {}


def elements(value: Any) -> list[Json]:
    """Return the JSON objects in ``value`` when it is an array, else none."""
    return [members(each) for each in cast("list[Any]", value)] if isinstance(value, list) else []


@attrs.frozen
class Order:
    """What the newest user message asks the model to do; ``done`` says that its tool call already has a result."""

    verb: str
    words: str
    done: bool


def message_text(item: Json) -> str:
    content = item.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in elements(content))


def order_of(body: Json) -> Order:
    """Find the newest user message with an order in a Responses API request, and whether a tool result follows it."""
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else elements(given)
    found, done = Order("say", "Hello from the model.", done=False), False
    for item in items:
        if str(item.get("type", "")).endswith("_output"):
            done = True
        elif item.get("role") == "user":
            match = ORDER.search(message_text(item))
            if match:
                found, done = Order(match[1], match[2].strip(), done=False), False
    return attrs.evolve(found, done=done)


def shell_call(body: Json, command: str) -> Json | None:
    """Return a function call item for the offered shell tool, fitted to its parameters; None when no such tool is offered."""
    offered = {str(tool.get("name")): tool for tool in elements(body.get("tools"))}
    name = next((name for name in SHELL_TOOLS if name in offered), None)
    if name is None:
        return None
    properties = members(members(offered[name].get("parameters")).get("properties"))
    key = next((key for key in ("command", "cmd", "script") if key in properties), "command")
    takes_list = members(properties.get(key)).get("type") == "array"
    arguments = json.dumps({key: ["bash", "-c", command] if takes_list else command})
    call_id = f"call_{uuid.uuid4().hex[:12]}"
    return {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name, "arguments": arguments}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"  # pyright: ignore[reportIncompatibleVariableOverride] -- narrowed: only ModelServer makes handlers

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name of the base class
        """Keep quiet: the requests are kept in ``ModelServer.requests``."""

    def do_GET(self) -> None:
        self._answer(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}], "models": []})

    def do_POST(self) -> None:
        body: Json = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        if not self.path.split("?")[0].endswith("/responses"):
            self._answer(404, {"error": {"message": f"{self.path} is not served here"}})
            return
        self.server.requests.append(body)
        order = order_of(body)
        if order.verb == "fail":
            self._answer(int(order.words.split()[0]), {"error": {"type": "test", "message": "the test asked for this failure"}})
            return
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._stream(body, order)

    def _answer(self, status: int, value: Json) -> None:
        payload = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def _stream(self, body: Json, order: Order) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for number, event in enumerate(self._events(body, order)):
            line = json.dumps({**event, "sequence_number": number})
            self.wfile.write(f"event: {event['type']}\ndata: {line}\n\n".encode())
            self.wfile.flush()

    def _events(self, body: Json, order: Order) -> Iterator[Json]:
        response: Json = {"id": f"resp_{uuid.uuid4().hex}", "object": "response", "model": body.get("model"), "output": []}
        yield {"type": "response.created", "response": {**response, "status": "in_progress"}}
        output: list[Json] = []
        for index, item in enumerate(self._items(body, order)):
            finished = yield from self._item_events(index, item, slowly=order.verb == "slowly")
            output.append(finished)
        usage = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
        usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        yield {"type": "response.completed", "response": {**response, "status": "completed", "output": output, "usage": usage}}

    def _items(self, body: Json, order: Order) -> list[Json]:
        if order.verb == "run" and not order.done:
            call = shell_call(body, order.words)
            return [call] if call else [_message("No shell tool is offered.")]
        if order.verb == "run":
            return [_message("The command ended.")]
        if order.verb == "think":
            summary = [{"type": "summary_text", "text": order.words}]
            return [{"type": "reasoning", "id": "rs_1", "summary": summary}, _message("I thought about it.")]
        return [_message(order.words)]

    def _item_events(self, index: int, item: Json, *, slowly: bool) -> Generator[Json, None, Json]:
        place: Json = {"output_index": index, "item_id": item["id"]}
        empty = EMPTY_ITEMS[item["type"]]
        yield {"type": "response.output_item.added", "output_index": index, "item": {**item, **empty, "status": "in_progress"}}
        if item["type"] == "message":
            yield {
                "type": "response.content_part.added",
                **place,
                "content_index": 0,
                "part": {"type": "output_text", "text": ""},
            }
            for word in re.findall(r"\s*\S+\s*$|\s*\S+", item["content"][0]["text"]):
                if slowly and self.server.closing.wait(WORD_INTERVAL_SECONDS):
                    break
                yield {"type": "response.output_text.delta", **place, "content_index": 0, "delta": word}
        elif item["type"] == "reasoning":
            text = item["summary"][0]["text"]
            yield {"type": "response.reasoning_summary_part.added", **place, "summary_index": 0, "part": item["summary"][0]}
            yield {"type": "response.reasoning_summary_text.delta", **place, "summary_index": 0, "delta": text}
        finished = {**item, "status": "completed"}
        yield {"type": "response.output_item.done", "output_index": index, "item": finished}
        return finished


def _message(text: str) -> Json:
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 32

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[Json] = []
        self.closing = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing when an agent hangs up in the middle of a request: that is what cancelling looks like from here."""


class ModelServer:
    """The model in a thread of this process, from ``with`` to its end; ``requests`` are the bodies it was sent, in order."""

    def __init__(self) -> None:
        self._server = _Server()
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def requests(self) -> list[Json]:
        return self._server.requests

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def main() -> None:
    with ModelServer() as server:
        print(server.base_url, flush=True)
        sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
