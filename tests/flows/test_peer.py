"""A peer over a stream in memory: what it does with everything the other end may send, and what it leaves behind."""

import json
import tracemalloc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import anyio
import attrs
import pytest

from sidecar.errors import AgentFault, EditorFault, SidecarBug, Unavailable
from sidecar.rpc.messages import IncomingReply, IncomingRequest, RequestId
from sidecar.transport.handler import Noise, decode_lines
from sidecar.transport.peer import COURTESY_LIMIT_BYTES, Peer
from sidecar.transport.streams import MemoryStream, memory_pair

pytestmark = pytest.mark.anyio

WAIT_SECONDS = 5.0
SMALL_LIMIT = 4096
ROOMY = 1 << 30


@attrs.define
class Recorder:
    """Keeps what the peer reports; requests are answered by the table of ``answers``, or stay open."""

    peer: Peer | None = None
    answers: dict[str, Any] = attrs.field(factory=dict[str, Any])
    seen: list[Any] = attrs.field(factory=list[Any])
    noise: list[Noise] = attrs.field(factory=list[Noise])
    closed: list[str] = attrs.field(factory=list[str])
    batches: int = 0

    def on_request(self, request: IncomingRequest) -> None:
        self.seen.append((request.method, request.id, request.params))
        answer = self.answers.get(request.method)
        if isinstance(answer, Exception):
            raise answer
        if request.method in self.answers and self.peer is not None:
            assert self.peer.answer(request.id, answer)

    def on_notification(self, method: str, params: Any) -> None:
        answer = self.answers.get(method)
        if isinstance(answer, Exception):
            raise answer
        self.seen.append((method, params))

    def on_item(self, item: object) -> None:
        self.seen.append(item)

    def on_batch_end(self) -> None:
        self.batches += 1

    def on_noise(self, noise: Noise) -> None:
        self.noise.append(noise)

    def on_cancelled(self, request_id: RequestId) -> None:
        self.seen.append(("cancelled", request_id))

    def on_closed(self, reason: str) -> None:
        self.closed.append(reason)

    def kinds(self) -> list[str]:
        return [noise.kind for noise in self.noise]


@attrs.frozen
class Merged:
    """Stands for several lines."""

    count: int


@attrs.define
class Other:
    """The other end, on the level of bytes."""

    stream: MemoryStream
    held: list[Any] = attrs.field(factory=list[Any])

    def send(self, *messages: Any) -> None:
        self.stream.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    async def message(self) -> Any:
        with anyio.fail_after(WAIT_SECONDS):
            while not self.held:
                data = await self.stream.receive()
                assert data, "the stream ended"
                self.held += [json.loads(line) for line in data.splitlines()]
        return self.held.pop(0)


@attrs.frozen
class Setting:
    peer: Peer
    recorder: Recorder
    other: Other
    tasks: anyio.abc.TaskGroup

    async def seen(self, count: int) -> list[Any]:
        """Return what was seen once there is that much; a notification sent last would be seen last."""
        with anyio.fail_after(WAIT_SECONDS):
            while len(self.recorder.seen) < count:
                await anyio.lowlevel.checkpoint()
        return self.recorder.seen


@asynccontextmanager
async def connected(
    recorder: Recorder | None = None, *, capacity: int = 1 << 30, **options: Any
) -> AsyncGenerator[Setting, None]:
    handler = recorder or Recorder()
    ours, theirs = memory_pair(capacity)
    handler.peer = peer = Peer(ours, handler, **options)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(peer.run)
        yield Setting(peer, handler, Other(theirs), tasks)
        await theirs.aclose()


def reply(request: Any, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


async def test_replies_out_of_order_reach_who_asked() -> None:
    results: dict[str, Any] = {}

    async def ask(peer: Peer, method: str) -> None:
        results[method] = await peer.request(method, timeout=WAIT_SECONDS)

    async with connected() as setting, anyio.create_task_group() as askers:
        for method in ("a", "b", "c"):
            askers.start_soon(ask, setting.peer, method)
        requests = [await setting.other.message() for _ in range(3)]
        setting.other.send(*(reply(request, request["method"].upper()) for request in reversed(requests)))
    assert results == {"a": "A", "b": "B", "c": "C"}
    assert setting.recorder.noise == []


async def test_a_reply_whose_id_came_back_as_a_string_counts_and_is_noted() -> None:
    async with connected() as setting, anyio.create_task_group() as tasks:

        async def serve() -> None:
            request = await setting.other.message()
            setting.other.send({"id": str(request["id"]), "result": 1})

        tasks.start_soon(serve)
        assert await setting.peer.request("x", timeout=WAIT_SECONDS) == 1
    assert setting.recorder.kinds() == ["tolerated"]


async def test_unknown_repeated_and_boolean_ids_answer_nothing_and_the_request_still_times_out() -> None:
    async with connected() as setting:
        setting.other.send(
            {"id": True, "result": 1}, {"id": 99, "result": 1}, {"id": None, "result": 1}, {"id": 0.0, "result": 2}
        )
        with pytest.raises(AgentFault, match=r"the agent did not answer slow within 0\.05 s"):
            await setting.peer.request("slow", timeout=0.05)
        assert set(setting.recorder.kinds()) == {"unusable"}
        assert len(setting.recorder.noise) == 4


async def test_a_reply_after_the_timeout_is_noise_and_the_next_request_is_answered() -> None:
    async with connected() as setting, anyio.create_task_group() as tasks:

        async def serve() -> None:
            late = await setting.other.message()
            prompt = await setting.other.message()
            setting.other.send(reply(late, "late"), reply(prompt, "in time"))

        with pytest.raises(AgentFault):
            await setting.peer.request("late", timeout=0.02)
        tasks.start_soon(serve)
        assert await setting.peer.request("next", timeout=WAIT_SECONDS) == "in time"
    assert setting.recorder.kinds() == ["unusable"]
    assert "late reply" in setting.recorder.noise[0].detail


async def test_an_error_reply_keeps_code_message_and_data() -> None:
    told: tuple[str, int | None, Any] | None = None
    async with connected() as setting, anyio.create_task_group() as tasks:

        async def serve() -> None:
            request = await setting.other.message()
            error = {"code": -32000, "message": "Authentication required", "data": {"methods": ["a"]}}
            setting.other.send({"jsonrpc": "2.0", "id": request["id"], "error": error})

        tasks.start_soon(serve)
        try:
            await setting.peer.request("session/new", timeout=WAIT_SECONDS)
        except AgentFault as fault:
            told = (fault.message, fault.agent_code, fault.data)
    assert told == (
        "the agent answered session/new with an error: Authentication required (-32000)",
        -32000,
        {"methods": ["a"]},
    )


async def test_on_reply_sees_the_reply_before_the_notification_behind_it() -> None:
    order: list[Any] = []

    def note(answered: IncomingReply) -> None:
        order.append((answered.result, list(setting.recorder.seen)))

    async with connected() as setting, anyio.create_task_group() as tasks:

        async def serve() -> None:
            request = await setting.other.message()
            setting.other.send({"method": "before"}, reply(request, "loaded"), {"method": "after"})

        tasks.start_soon(serve)
        await setting.peer.request("session/load", timeout=WAIT_SECONDS, on_reply=note)
    assert order == [("loaded", [("before", None)])]
    assert setting.recorder.seen == [("before", None), ("after", None)]


async def test_a_fault_of_on_reply_is_raised_where_the_request_was_made() -> None:
    def fails(_: IncomingReply) -> None:
        raise EditorFault("not usable")

    async with connected() as setting, anyio.create_task_group() as tasks:

        async def serve() -> None:
            setting.other.send(reply(await setting.other.message(), None))

        tasks.start_soon(serve)
        with pytest.raises(EditorFault, match="not usable"):
            await setting.peer.request("x", timeout=WAIT_SECONDS, on_reply=fails)


async def test_the_end_of_the_stream_fails_what_is_pending_and_everything_later_and_is_told_once() -> None:
    failures: list[str] = []

    async def ask(peer: Peer, method: str) -> None:
        try:
            await peer.request(method)
        except Unavailable as error:
            failures.append(error.message)

    async with connected() as setting:
        for method in ("session/prompt", "session/list"):
            setting.tasks.start_soon(ask, setting.peer, method)
            await setting.other.message()
        setting.other.send({"id": 5, "method": "asks"})
        await setting.seen(1)
        await setting.other.stream.aclose()
        with anyio.fail_after(WAIT_SECONDS):
            while len(failures) < 2:
                await anyio.lowlevel.checkpoint()
        assert failures == [
            "session/prompt was not answered: the agent closed its output",
            "session/list was not answered: the agent closed its output",
        ]
        with pytest.raises(Unavailable, match=r"x was not sent: the agent closed its output"):
            await setting.peer.request("x")
        assert not setting.peer.answer(5, {})
        assert not setting.peer.refuse(5, -1, "late")
        assert setting.peer.notify("y").lost
    assert setting.recorder.closed == ["the agent closed its output"]


async def test_cancelling_the_reading_fails_what_is_pending() -> None:
    async with connected(name="kiro") as setting:
        call = setting.peer.begin("x")
        setting.tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            setting.peer.close("the sidecar is shutting down")
            with pytest.raises(Unavailable, match="shutting down"):
                await call.result()
    assert setting.recorder.closed == ["the sidecar is shutting down"]


async def test_a_cancelled_waiter_takes_back_what_was_not_sent_and_forgets_the_rest() -> None:
    async with connected(capacity=1) as setting:
        setting.peer.notify("fills the pipe")
        sent = setting.peer.begin("later")
        with anyio.move_on_after(0.02):
            await setting.peer.request("never sent")
        assert not sent.begun
        assert (await setting.other.message())["method"] == "fills the pipe"
        request = await setting.other.message()
        assert request["method"] == "later"
        assert sent.begun
        setting.peer.notify("end")
        assert (await setting.other.message())["method"] == "end"
        setting.other.send(reply(request, 1))
        assert await sent.result(WAIT_SECONDS) == 1


async def test_a_request_taken_back_before_it_was_sent_is_unavailable_to_its_waiter() -> None:
    async with connected(capacity=1) as setting:
        setting.peer.notify("fills the pipe")
        call = setting.peer.begin("session/prompt")
        assert call.withdraw()
        assert not call.withdraw()
        with pytest.raises(Unavailable, match="taken back"):
            await call.result(WAIT_SECONDS)


async def test_an_urgent_cancel_overtakes_a_prompt_that_was_not_begun() -> None:
    async with connected(capacity=1) as setting:
        setting.peer.notify("first")
        setting.peer.notify("second")
        setting.peer.notify("session/cancel", urgent=True)
        methods = [(await setting.other.message())["method"] for _ in range(3)]
    assert methods == ["first", "session/cancel", "second"]


async def test_requests_waiting_to_be_sent_fail_at_once_when_the_peer_stops_reading_for_good() -> None:
    async with connected(capacity=1) as setting:
        setting.peer.notify("first")
        call = setting.peer.begin("x")
        await setting.other.stream.aclose()
        with pytest.raises(Unavailable, match="x was not"):
            await call.result(WAIT_SECONDS)


async def test_every_request_of_the_peer_gets_exactly_one_answer() -> None:
    recorder = Recorder(
        answers={"ok": {"a": 1}, "none": None, "refused": EditorFault("no such thing", data=[1]), "bug": KeyError("k")}
    )
    async with connected(recorder) as setting:
        setting.other.send(
            *({"id": method, "method": method} for method in ("ok", "none", "refused", "bug")), {"id": 0, "method": "x"}
        )
        answers = {message["id"]: message for message in [await setting.other.message() for _ in range(4)]}
        assert answers["ok"]["result"] == {"a": 1}
        assert answers["none"] == {"jsonrpc": "2.0", "id": "none", "result": None}
        assert answers["refused"]["error"] == {"code": -32602, "message": "no such thing", "data": [1]}
        assert answers["bug"]["error"]["code"] == -32603
        assert "'k'" not in answers["bug"]["error"]["message"]
        assert not setting.peer.answer("ok", 2)
        assert setting.peer.refuse(0, -32601, "unknown method")
        assert not setting.peer.answer(0, {})
        assert (await setting.other.message())["error"] == {"code": -32601, "message": "unknown method"}
    assert recorder.kinds() == ["bug"]
    assert isinstance(recorder.noise[0].error, KeyError)


async def test_an_answer_that_cannot_be_written_becomes_an_error_answer() -> None:
    async with connected(Recorder(answers={"x": object()})) as setting:
        setting.other.send({"id": 1, "method": "x"})
        assert (await setting.other.message())["error"]["code"] == -32603
    assert setting.recorder.kinds() == ["bug"]


async def test_a_fault_while_handling_a_notification_is_reported_and_the_next_one_is_handled() -> None:
    recorder = Recorder(answers={"bug": ValueError("x"), "refused": SidecarBug("an invariant")})
    async with connected(recorder) as setting:
        setting.other.send({"method": "bug"}, {"method": "refused"}, {"method": "fine", "params": [1]})
        assert await setting.seen(1) == [("fine", [1])]
    assert [(noise.kind, noise.detail) for noise in recorder.noise] == [
        ("bug", "bug could not be handled (ValueError)"),
        ("refused", "refused: an invariant"),
    ]


async def test_a_withdrawn_request_is_told_and_still_answered_once() -> None:
    async with connected() as setting:
        setting.other.send({"id": 7, "method": "ask"}, {"method": "$/cancel_request", "params": {"requestId": 7}})
        await setting.seen(2)
        assert setting.recorder.seen[1] == ("cancelled", 7)
        assert setting.peer.refuse(7, -32800, "cancelled")
        assert not setting.peer.answer(7, {})
        assert (await setting.other.message())["error"]["code"] == -32800


NOISE_LINES: list[tuple[bytes, Literal["not-json", "unusable"]]] = [
    (b"npm WARN deprecated something", "not-json"),
    (b"\xff\xfe\xfa", "not-json"),
    (b'{"method":"half', "not-json"),
    (b"[" * 100000, "not-json"),
    (b'{"method":"x","params":' + b"[" * 100000 + b"]" * 100000 + b"}", "not-json"),
    (b'[{"method":"x"}]', "unusable"),
    (b"17", "unusable"),
    (b"null", "unusable"),
    (b'"text"', "unusable"),
    (b"{}", "unusable"),
    (b'{"method":5,"id":1}', "unusable"),
    (b'{"id":[1],"method":"x"}', "unusable"),
    (b'{"error":{"code":1,"message":"no id"}}', "unusable"),
]


@pytest.mark.parametrize(("line", "kind"), NOISE_LINES)
async def test_a_line_that_is_no_message_is_noise_and_the_message_behind_it_arrives(line: bytes, kind: str) -> None:
    async with connected() as setting:
        setting.other.stream.write(line + b'\n{"method":"after"}\n')
        assert await setting.seen(1) == [("after", None)]
        assert setting.recorder.kinds() == [kind]
        assert setting.recorder.noise[0].excerpt == (line[:200] if kind == "not-json" else b"")


TOLERATED_LINES = [
    b'\xef\xbb\xbf{"method":"m","params":{}}',
    b'\x1b[2J\x1b]0;agent\x07 {"method":"m","params":{}}',
    b'{"params":{},"method":"m","jsonrpc":"1.0","extra":1}\r',
]


@pytest.mark.parametrize("line", TOLERATED_LINES)
async def test_marks_and_terminal_sequences_before_a_message_do_not_lose_it(line: bytes) -> None:
    async with connected() as setting:
        setting.other.stream.write(line + b"\n")
        assert await setting.seen(1) == [("m", {})]
        assert setting.recorder.noise == []


async def test_text_that_only_json_of_others_allows_is_read() -> None:
    async with connected() as setting:
        setting.other.stream.write(
            b'{"method":"m","params":["\\ud83d",NaN,' + b"9" * 5000 + b"]}\n" + b'{"method":"n","params":["\\ud83d"]}\n'
        )
        with anyio.fail_after(WAIT_SECONDS):
            while ("n", ["\ud83d"]) not in setting.recorder.seen:
                await anyio.lowlevel.checkpoint()


async def test_bad_messages_of_a_peer_that_does_not_read_are_answered_only_up_to_a_limit() -> None:
    async with connected(capacity=1) as setting:
        setting.other.stream.write(b"[]\n" * 10000 + b'{"method":"after"}\n')
        assert await setting.seen(1) == [("after", None)]
        assert len(setting.recorder.noise) == 10000
        assert setting.peer.queued_bytes < COURTESY_LIMIT_BYTES + 1024


async def test_a_hundred_thousand_notifications_in_one_read_arrive_in_order_as_one_batch() -> None:
    count = 100_000
    async with connected() as setting:
        setting.other.stream.write(b"".join(b'{"method":"n","params":%d}\n' % number for number in range(count)))
        await setting.seen(count)
        assert setting.recorder.seen == [("n", number) for number in range(count)]
        assert setting.recorder.batches == 1


async def test_a_message_cut_anywhere_arrives_whole() -> None:
    line = json.dumps({"method": "m", "params": ["é", "😀", "\u2028"]}, ensure_ascii=False).encode() + b"\n"
    async with connected() as setting:
        for number, cut in enumerate(range(len(line)), start=1):
            setting.other.stream.write(line[:cut])
            await anyio.lowlevel.checkpoint()
            setting.other.stream.write(line[cut:])
            await setting.seen(number)
        assert setting.recorder.seen == [("m", ["é", "😀", "\u2028"])] * len(line)
        assert setting.recorder.noise == []


async def test_half_a_line_at_the_end_is_told() -> None:
    async with connected() as setting:
        setting.other.stream.write(b'{"method":"m"}\n{"method":"ha')
        await setting.seen(1)
    assert setting.recorder.kinds() == ["partial"]
    assert setting.recorder.noise[0].excerpt == b'{"method":"ha'
    assert len(setting.recorder.closed) == 1


async def test_an_oversize_line_is_skipped_and_the_next_message_arrives() -> None:
    async with connected(max_message_bytes=SMALL_LIMIT) as setting:
        setting.other.send({"method": "big", "params": "x" * SMALL_LIMIT}, {"method": "after"})
        assert await setting.seen(1) == [("after", None)]
        assert setting.recorder.kinds() == ["oversize"]
        assert f"more than {SMALL_LIMIT} are not read" in setting.recorder.noise[0].detail


async def test_an_oversize_reply_fails_the_one_request_it_answered() -> None:
    async with connected(max_message_bytes=SMALL_LIMIT) as setting, anyio.create_task_group() as tasks:
        other = setting.peer.begin("other")

        async def serve() -> None:
            first, second = await setting.other.message(), await setting.other.message()
            setting.other.send(reply(second, "x" * SMALL_LIMIT), reply(first, 1))

        tasks.start_soon(serve)
        with pytest.raises(AgentFault, match="answered big with an error: the agent sent a line of"):
            await setting.peer.request("big", timeout=WAIT_SECONDS)
        assert await other.result(WAIT_SECONDS) == 1


async def test_an_oversize_request_is_refused_by_its_id() -> None:
    async with connected(max_message_bytes=SMALL_LIMIT) as setting:
        setting.other.send({"id": "w1", "method": "fs/write_text_file", "params": {"content": "x" * SMALL_LIMIT}})
        message = await setting.other.message()
        assert (message["id"], message["error"]["code"]) == ("w1", -32600)
        assert setting.recorder.seen == []


async def test_a_line_of_sixty_megabytes_above_the_limit_costs_no_memory() -> None:
    block = b"x" * (1 << 20)
    async with connected(max_message_bytes=SMALL_LIMIT) as setting:
        tracemalloc.start()
        for _ in range(60):
            setting.other.stream.write(block)
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        setting.other.stream.write(b'\n{"method":"after"}\n')
        assert await setting.seen(1) == [("after", None)]
        assert setting.recorder.noise[0].size == 60 << 20
    assert peak < 16 << 20


async def test_a_line_of_sixty_megabytes_within_the_limit_is_read() -> None:
    async with connected() as setting:
        setting.other.stream.write(b'{"method":"m","params":"' + b"x" * (60 << 20) + b'"}\n')
        (name, text), *_ = await setting.seen(1)
        assert (name, len(text)) == ("m", 60 << 20)


async def test_what_a_decoder_makes_beside_messages_keeps_its_place() -> None:
    def merge(lines: list[bytes]) -> list[object]:
        decoded = decode_lines(lines)
        return [decoded[0], Merged(len(lines) - 2), decoded[-1]]

    async with connected(decode=merge) as setting:
        setting.other.send(*({"method": name} for name in "abcd"))
        assert await setting.seen(3) == [("a", None), Merged(2), ("d", None)]


async def test_a_faulty_decoder_costs_no_message_and_is_reported() -> None:
    def fails(_: list[bytes]) -> list[object]:
        raise KeyError("sessionUpdate")

    async with connected(decode=fails) as setting:
        setting.other.send({"method": "a"}, {"method": "b"})
        assert await setting.seen(2) == [("a", None), ("b", None)]
        assert setting.recorder.kinds() == ["bug"]


async def test_the_tap_sees_every_line_of_both_directions() -> None:
    taped: list[tuple[str, bytes]] = []

    def tap(direction: Literal["in", "out"], line: bytes) -> None:
        taped.append((direction, line))

    async with connected(tap=tap) as setting:
        setting.peer.notify("out", {"é": 1})
        setting.other.stream.write(b"noise\n")
        setting.other.send({"method": "in"})
        await setting.seen(1)
    assert taped == [
        ("out", b'{"jsonrpc":"2.0","method":"out","params":{"\\u00e9":1}}\n'),
        ("in", b"noise"),
        ("in", b'{"method": "in"}'),
    ]


async def test_what_is_sent_is_one_line_of_ascii() -> None:
    async with connected() as setting:
        setting.peer.notify("m", {"text": "line\nsecond\u2028 😀 \ud83d"})
        data = await setting.other.stream.receive()
    assert data.isascii()
    assert data.count(b"\n") == 1
    assert data.endswith(b"\n")
    assert json.loads(data)["params"] == {"text": "line\nsecond\u2028 😀 \ud83d"}


async def test_two_peers_answer_each_other_at_once() -> None:
    left, right = Recorder(answers={"ping": "left"}), Recorder(answers={"ping": "right"})
    a, b = memory_pair()
    left.peer, right.peer = Peer(a, left), Peer(b, right, name="the client")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(left.peer.run)
        tasks.start_soon(right.peer.run)
        first, second = left.peer.begin("ping"), right.peer.begin("ping")
        assert (await first.result(WAIT_SECONDS), await second.result(WAIT_SECONDS)) == ("right", "left")
        await a.aclose()
    assert right.closed == ["the client closed its output"]
