"""Framing: what is one message, however the bytes are cut, and that nothing costs more than its bytes."""

import json
import time
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.rpc.framing import EXCERPT_BYTES, HEADER_LIMIT_BYTES, BadHeader, HeaderFramer, LineFramer, Oversize, Partial

LIMIT = 64
LINEAR_FACTOR = 12


def lines_of(pieces: Sequence[bytes], limit: int = 1 << 20) -> list[object]:
    framer = LineFramer(limit)
    items: list[object] = []
    for piece in pieces:
        items += framer.feed(piece)
    return [*items, *framer.end()]


def frames_of(pieces: Sequence[bytes], limit: int = 1 << 20) -> list[object]:
    framer = HeaderFramer(limit)
    items: list[object] = []
    for piece in pieces:
        items += framer.feed(piece)
    return [*items, *framer.end()]


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def frame(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"a\rb\n", [b"a\rb"]),
        (b"a\r\r\n", [b"a\r"]),
        (b"\xef\xbb\xbf{}\n\xef\xbb\xbf{}\n", [b"{}", b"\xef\xbb\xbf{}"]),
        ("x\u2028y\u2029z\u0085w\n".encode(), ["x\u2028y\u2029z\u0085w".encode()]),
        (b"a\x00b\x0bc\x0cd\x1ee\n", [b"a\x00b\x0bc\x0cd\x1ee"]),
        (b"\n\r\n\na\n", [b"a"]),
        (b"rest", [Partial(b"rest")]),
        (b"a\nrest\r", [b"a", Partial(b"rest\r")]),
        (b"\xff\xfe\n", [b"\xff\xfe"]),
        (b"", []),
    ],
)
def test_lines_end_at_line_feeds_only(data: bytes, expected: list[object]) -> None:
    assert lines_of([data]) == expected
    assert lines_of([data[at : at + 1] for at in range(len(data))]) == expected


def test_an_oversize_line_is_a_value_and_the_next_line_is_read() -> None:
    big = b"x" * 100
    assert lines_of([b"a\n" + big + b"\nb\n"], LIMIT) == [b"a", Oversize(100, big, big), b"b"]


def test_a_line_of_exactly_the_limit_is_read_and_one_byte_more_is_not() -> None:
    assert lines_of([b"x" * LIMIT + b"\n"], LIMIT) == [b"x" * LIMIT]
    assert lines_of([b"x" * LIMIT, b"x\n"], LIMIT) == [Oversize(LIMIT + 1, b"x" * (LIMIT + 1), b"x" * (LIMIT + 1))]


def test_an_oversize_line_without_an_end_is_told_at_the_end_of_the_stream() -> None:
    assert lines_of([b"y" * 60, b"y" * 60], LIMIT) == [Oversize(120, b"y" * 120, b"y" * 120)]


def test_an_oversize_line_holds_both_its_ends_and_no_more() -> None:
    line = b"h" * EXCERPT_BYTES + b"m" * 100_000 + b"t" * EXCERPT_BYTES
    whole = lines_of([line + b"\n"], LIMIT)
    pieces = lines_of([*cut(line + b"\n", range(0, len(line), 777))], LIMIT)
    assert whole == pieces == [Oversize(len(line), b"h" * EXCERPT_BYTES, b"t" * EXCERPT_BYTES)]


line_bytes = st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"."))


@given(
    st.lists(
        st.one_of(line_bytes, st.binary(min_size=60, max_size=90).map(lambda data: data.replace(b"\n", b"\r"))), max_size=12
    ),
    st.binary(max_size=8).map(lambda data: data.replace(b"\n", b"")),
    st.lists(st.integers(min_value=0), max_size=30),
    st.booleans(),
)
def test_any_cut_of_the_stream_gives_the_same_lines(lines: list[bytes], rest: bytes, places: list[int], mark: bool) -> None:
    data = (b"\xef\xbb\xbf" if mark else b"") + b"".join(line + b"\n" for line in lines) + rest
    assert lines_of(cut(data, places), LIMIT) == lines_of([data], LIMIT)


@given(
    st.lists(st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=20), max_size=10),
    st.lists(st.integers(min_value=0), max_size=20),
)
def test_json_lines_arrive_as_they_were_written(texts: list[str], places: list[int]) -> None:
    written = [json.dumps({"text": text}, ensure_ascii=False).encode() for text in texts]
    assert lines_of(cut(b"".join(line + b"\n" for line in written), places)) == written


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (frame(b"{}") + frame(b"[1]"), [b"{}", b"[1]"]),
        (b"content-LENGTH:2\r\n\r\n{}", [b"{}"]),
        (b"Content-Length: 2\n\n{}", [b"{}"]),
        (b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 2\r\n\r\n{}", [b"{}"]),
        (b"Content-Length: 2\r\nX-Other: 1\r\n\r\n{}", [b"{}"]),
        (b"\r\n" + frame(b"{}"), [b"{}"]),
        (b"\r\n\r\n" + frame(b"{}"), [b"{}"]),
        (b"Content-Length: 0\r\n\r\n" + frame(b"{}"), [b"", b"{}"]),
        (b"Content-Length: 9\r\nContent-Length: 2\r\n\r\n{}", [b"{}"]),
        (b"junk\n" + frame(b"{}"), [BadHeader("bytes that are no header stand before Content-Length", 4), b"{}"]),
        (b"\xef\xbb\xbf" + frame(b"{}"), [BadHeader("bytes that are no header stand before Content-Length", 3), b"{}"]),
        (b"X: 1\r\n\r\n" + frame(b"{}"), [BadHeader("no usable Content-Length", 4), b"{}"]),
        (b"Content-Length: -3\r\n\r\n" + frame(b"{}"), [BadHeader("no usable Content-Length", 18), b"{}"]),
        (b"Content-Length: 3x\r\n\r\n" + frame(b"{}"), [BadHeader("no usable Content-Length", 18), b"{}"]),
        (b"Content-Length: 9999999999999\r\n\r\n" + frame(b"{}"), [BadHeader("no usable Content-Length", 29), b"{}"]),
        (b"Content-Length: 2\r\n\r\n{", [Partial(b"{")]),
        (b"Content-Len", [Partial(b"Content-Len")]),
        (b"Content-Length: 4\r\n\r\n", [Partial(b"")]),
        (frame(b"\xf0\x9f\x98\x80\r\n\r\nContent-Length: 3\r\n\r\n"), [b"\xf0\x9f\x98\x80\r\n\r\nContent-Length: 3\r\n\r\n"]),
        (b"", []),
    ],
)
def test_bodies_are_cut_by_their_content_length(data: bytes, expected: list[object]) -> None:
    assert frames_of([data]) == expected
    assert frames_of([data[at : at + 1] for at in range(len(data))]) == expected


def test_a_length_too_short_costs_only_that_message() -> None:
    lying = b'Content-Length: 4\r\n\r\n{"a": 1}'
    items = frames_of([lying + frame(b"{}")])
    assert items == [b'{"a"', BadHeader("bytes that are no header stand before Content-Length", 4), b"{}"]


def test_a_body_above_the_limit_is_skipped_and_the_next_is_read() -> None:
    big = b"h" * EXCERPT_BYTES + b"m" * 50_000 + b"t" * EXCERPT_BYTES
    data = frame(b"1") + frame(big) + frame(b"2")
    expected = [b"1", Oversize(len(big), b"h" * EXCERPT_BYTES, b"t" * EXCERPT_BYTES), b"2"]
    assert frames_of([data], LIMIT) == expected
    assert frames_of(cut(data, range(0, len(data), 501)), LIMIT) == expected


def test_junk_without_end_is_dropped_in_bounded_memory_and_the_next_header_is_found() -> None:
    junk = b"z" * (5 * HEADER_LIMIT_BYTES + 321)
    whole = frames_of([junk + frame(b"{}")])
    pieces = frames_of(cut(junk + frame(b"{}"), range(0, len(junk), 1000)))
    assert whole == pieces
    assert whole[-1] == b"{}"
    assert all(isinstance(item, BadHeader) for item in whole[:-1])


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=50).map(frame),
            st.binary(min_size=65, max_size=100).map(frame),
            st.sampled_from([b"junk\n", b"X: y\r\n", b"\r\n", b"Content-Length: no\r\n\r\n", b"\n\n", b"\x00\xff"]),
        ),
        max_size=12,
    ),
    st.lists(st.integers(min_value=0), max_size=40),
)
def test_any_cut_of_the_stream_gives_the_same_bodies(parts: list[bytes], places: list[int]) -> None:
    data = b"".join(parts)
    assert frames_of(cut(data, places), LIMIT) == frames_of([data], LIMIT)


@settings(max_examples=30)
@given(st.binary(max_size=3 * HEADER_LIMIT_BYTES), st.lists(st.integers(min_value=0), max_size=10))
def test_any_bytes_at_all_are_survived(data: bytes, places: list[int]) -> None:
    assert frames_of(cut(data, places), LIMIT) == frames_of([data], LIMIT)
    assert lines_of(cut(data, places), LIMIT) == lines_of([data], LIMIT)


def seconds(framer: LineFramer | HeaderFramer, pieces: Sequence[bytes]) -> float:
    started = time.process_time()
    for piece in pieces:
        framer.feed(piece)
    return time.process_time() - started


@pytest.mark.parametrize("kind", ["line", "frame"])
def test_a_large_message_in_small_reads_costs_no_more_than_its_bytes(kind: str) -> None:
    def cost(size: int) -> float:
        body = b"x" * size
        data = body + b"\n" if kind == "line" else frame(body)
        pieces = [data[at : at + 65536] for at in range(0, len(data), 65536)]
        return min(seconds(LineFramer(1 << 27) if kind == "line" else HeaderFramer(1 << 27), pieces) for _ in range(3))

    assert cost(60_000_000) <= max(0.02, cost(10_000_000)) * 6 * LINEAR_FACTOR


@pytest.mark.parametrize("kind", ["line", "frame"])
def test_many_tiny_messages_in_one_read_cost_no_more_than_their_bytes(kind: str) -> None:
    def cost(count: int) -> float:
        data = (b"{}\n" if kind == "line" else frame(b"{}")) * count
        return min(seconds(LineFramer(1 << 20) if kind == "line" else HeaderFramer(1 << 20), [data]) for _ in range(3))

    assert cost(100_000) <= max(0.002, cost(10_000)) * 10 * LINEAR_FACTOR


def test_a_quadratic_scan_would_be_noticed_when_a_line_comes_byte_by_byte() -> None:
    data = b"x" * 400_000 + b"\n"
    assert seconds(LineFramer(1 << 20), [data[at : at + 1] for at in range(len(data))]) < 5
