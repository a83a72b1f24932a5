"""The decoder of one read: plain text is merged, everything else comes as it was, and order never changes."""

import json
from itertools import groupby
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.agents.acp_hot import TextRun, batch_decoder, decode_batch
from sidecar.agents.acp_translate import translate_update
from sidecar.session.events import TextDelta
from sidecar.transport.handler import Noise, decode_line

KINDS = {"agent_message_chunk": "agent", "agent_thought_chunk": "thought", "user_message_chunk": "user"}


def line(message: object) -> bytes:
    return json.dumps(message).encode()


def chunk(text: object, *, session: str = "s", kind: str = "agent_message_chunk", **update: object) -> dict[str, Any]:
    body = {"sessionUpdate": kind, "content": {"type": "text", "text": text}, **update}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": body}}


def test_neighbouring_chunks_of_one_message_become_one_run() -> None:
    lines = [line(chunk(text)) for text in ("Hel", "lo", "", " world")]
    assert decode_batch(lines) == [TextRun("s", "agent", "Hello world", None, 4)]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_role_follows_from_the_kind(kind: str) -> None:
    [run] = decode_batch([line(chunk("x", kind=kind))])
    assert isinstance(run, TextRun)
    assert run.role == KINDS[kind]


def test_another_session_role_or_message_begins_another_run() -> None:
    lines = [
        line(chunk("a")),
        line(chunk("b", session="t")),
        line(chunk("c", session="t", kind="agent_thought_chunk")),
        line(chunk("d", session="t", kind="agent_thought_chunk", messageId="m")),
        line(chunk("e", session="t", kind="agent_thought_chunk", messageId="m")),
        line(chunk("f", session="t", kind="agent_thought_chunk", messageId="")),
        line(chunk("g")),
    ]
    assert decode_batch(lines) == [
        TextRun("s", "agent", "a"),
        TextRun("t", "agent", "b"),
        TextRun("t", "thought", "c"),
        TextRun("t", "thought", "de", "m", 2),
        TextRun("t", "thought", "f", ""),
        TextRun("s", "agent", "g"),
    ]


def test_a_message_id_of_null_is_none() -> None:
    assert decode_batch([line(chunk("a", messageId=None)), line(chunk("b"))]) == [TextRun("s", "agent", "ab", None, 2)]


def test_keys_may_come_in_any_order() -> None:
    late = b'{"params":{"update":{"content":{"text":"a","type":"text"},"sessionUpdate":"agent_message_chunk"},"sessionId":"s"},'
    late += b'"method":"session/update","jsonrpc":"2.0"}'
    assert decode_batch([late]) == [TextRun("s", "agent", "a")]


def _changed(**changes: Any) -> dict[str, Any]:
    message = chunk("x")
    for path, value in changes.items():
        *parents, last = path.split("__")
        target: Any = message
        for parent in parents:
            target = target[parent]
        target[last] = value
    return message


NOT_PLAIN = [
    _changed(id=1),
    _changed(method="session/updates"),
    _changed(jsonrpc="1.0"),
    _changed(params___meta={"a": 1}),
    _changed(params__sessionId=7),
    _changed(params__update___meta={"kiro": {"replay": True}}),
    _changed(params__update__messageId=3),
    _changed(params__update__content__type="markdown"),
    _changed(params__update__content__annotations={"audience": ["user"]}),
    _changed(params__update__content__text=None),
    _changed(params__update__content=None),
    _changed(params__update__sessionUpdate="agent_message_chunk2"),
    _changed(stranger="_chunk"),
]


@pytest.mark.parametrize("message", NOT_PLAIN, ids=range(len(NOT_PLAIN)))
def test_a_chunk_with_anything_more_to_it_comes_whole_and_in_its_place(message: dict[str, Any]) -> None:
    lines = [line(chunk("a")), line(message), line(chunk("b"))]
    assert decode_batch(lines) == [TextRun("s", "agent", "a"), message, TextRun("s", "agent", "b")]


def test_requests_and_replies_end_the_run_before_them() -> None:
    reply = {"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "end_turn"}}
    lines = [line(chunk("a")), line(chunk("b")), line(reply), line(chunk("c"))]
    assert decode_batch(lines) == [TextRun("s", "agent", "ab", None, 2), reply, TextRun("s", "agent", "c")]


def test_an_emoji_cut_over_two_chunks_is_read() -> None:
    lines = [line(chunk("\ud83d")), line(chunk("\ude00")), line(chunk("x"))]
    joined = "".join(_text_of(item) for item in decode_batch(lines))
    assert json.loads(json.dumps(joined)) == "\N{GRINNING FACE}x"


def _session_of(item: Any) -> str:
    return item.session_id if isinstance(item, TextRun) else str(item["params"]["sessionId"])


def _text_of(item: Any) -> str:
    return item.text if isinstance(item, TextRun) else str(item["params"]["update"]["content"]["text"])


def test_lines_that_are_no_messages_are_noise_in_their_place() -> None:
    lines = [b"starting _chunk server", line(chunk("a")), b"", b'{"a_chunk"', line(chunk("b"))]
    items = decode_batch(lines)
    assert [type(item) for item in items] == [Noise, TextRun, Noise, Noise, TextRun]


def test_two_objects_on_one_line_are_not_one_message() -> None:
    both = line(chunk("a")) + b" " + line(chunk("b"))
    assert [type(item) for item in decode_batch([both])] == [Noise]
    assert [type(item) for item in decode_batch([line(chunk("c")), both])] == [TextRun, Noise]


def test_deep_nesting_in_a_chunk_is_noise_and_not_a_crash() -> None:
    deep = b'{"jsonrpc":"2.0","method":"session/update","params":{"agent_message_chunk":' + b"[" * 100_000
    assert [type(item) for item in decode_batch([line(chunk("a")), deep])] == [TextRun, Noise]


def test_without_merging_each_chunk_comes_as_received() -> None:
    messages = [chunk("a"), chunk("b")]
    assert batch_decoder(merge=False)([line(message) for message in messages]) == messages
    assert batch_decoder()([line(message) for message in messages]) == [TextRun("s", "agent", "ab", None, 2)]


def test_an_empty_read_gives_nothing() -> None:
    assert decode_batch([]) == []


STEP = st.one_of(
    st.builds(
        chunk,
        st.text(max_size=4),
        session=st.sampled_from(["s", "t"]),
        kind=st.sampled_from(sorted(KINDS)),
    ),
    st.builds(chunk, st.text(max_size=4), messageId=st.sampled_from(["m", "n"])),
    st.builds(chunk, st.text(max_size=4), _meta=st.just({"k": 1})),
    st.sampled_from(NOT_PLAIN),
)


@settings(max_examples=200)
@given(st.lists(STEP, max_size=12))
def test_a_merged_read_means_the_same_as_the_same_lines_one_by_one(messages: list[dict[str, Any]]) -> None:
    def flat(items: list[object]) -> list[object]:
        out: list[object] = []
        for item in items:
            if isinstance(item, TextRun):
                delta = TextDelta(item.role, item.text, item.message_id)
                out.extend((item.session_id, delta.role, delta.message_id, letter) for letter in delta.text)
            else:
                out.append(item)
        return out

    def expected() -> list[object]:
        out: list[object] = []
        for message in messages:
            if message in NOT_PLAIN or "_meta" in message["params"]["update"]:
                out.append(message)
                continue
            [event] = translate_update(message["params"]["update"])
            assert isinstance(event, TextDelta)
            out.extend((message["params"]["sessionId"], event.role, event.message_id, letter) for letter in event.text)
        return out

    assert flat(decode_batch([line(message) for message in messages])) == expected()


@given(st.lists(st.binary(max_size=30), max_size=4))
def test_any_lines_give_one_item_each_unless_merged(lines: list[bytes]) -> None:
    assert repr(decode_batch(lines)) == repr([decode_line(each) for each in lines])


INSIDE = st.one_of(
    st.text(alphabet='ab\\"', max_size=3).map(str.encode),
    st.sampled_from([b"\\\\", b"\\", b'\\"', b"\\n", b"\\ud83d", b"\\ude00", b"\xff", b"\x01", b"\xc3\xa9", b'"},"x":{"a":"']),
)
SHAPES = [
    (b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":', b"}}"),
    (b'{"params": {"update": ', b', "sessionId": "t"}, "method": "session/update", "jsonrpc": "2.0"}'),
]


def _raw(shape: tuple[bytes, bytes], inside: bytes) -> bytes:
    return b'%b{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%b"}}%b' % (shape[0], inside, shape[1])


@settings(max_examples=300)
@given(st.lists(st.builds(_raw, st.sampled_from(SHAPES), INSIDE), max_size=40))
def test_whatever_stands_between_the_same_bytes_is_read_as_it_would_be_alone(lines: list[bytes]) -> None:
    def meaning(items: list[object]) -> list[tuple[str, str]]:
        """Noise by its excerpt; text by session, with halves of characters that meet made whole."""
        parts = [("noise", repr(item)) if isinstance(item, Noise) else (_session_of(item), _text_of(item)) for item in items]
        groups = groupby(parts, key=itemgetter(0))
        return [(key, json.loads(json.dumps("".join(text for _, text in group)))) for key, group in groups]

    alone = [item for each in lines for item in decode_batch([each])]
    assert meaning(decode_batch(lines)) == meaning(alone)


def test_a_run_longer_than_every_look_ahead_is_one_run() -> None:
    lines = [line(chunk(f"{number} ")) for number in range(100)]
    assert decode_batch([*lines, b"{}", *lines]) == [
        run := TextRun("s", "agent", "".join(f"{n} " for n in range(100)), None, 100),
        {},
        run,
    ]
