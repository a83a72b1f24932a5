"""JSON in and out: what is taken, what is refused, and that whatever was read can be written again."""

import json
import math
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.codec import MAX_DEPTH, NotJson, decode, encode, encode_line, encode_plain

TEXT = st.text(st.characters(codec=None, exclude_categories=()))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_what_is_encoded_is_one_ascii_line_and_decodes_to_the_same_value(value: object) -> None:
    line = encode_line(value)
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode(line[:-1]) == value


@given(JSON)
def test_the_quick_way_to_encode_writes_ascii_that_decodes_to_the_same_value(value: object) -> None:
    line = encode_plain(value)
    assert line.isascii()
    assert b"\n" not in line
    assert decode(line) == value


def test_the_quick_way_to_encode_takes_what_only_the_standard_library_writes() -> None:
    assert encode_plain(["\ud83d", 1 << 90, math.nan, "\N{GRINNING FACE}"]) == encode(
        ["\ud83d", 1 << 90, math.nan, "\N{GRINNING FACE}"]
    )


@given(st.binary(max_size=40))
def test_any_bytes_are_either_read_or_refused_as_not_json(data: bytes) -> None:
    try:
        value = decode(data)
    except NotJson:
        return
    assert encode(decode(encode(value))) == encode(value)


def test_a_lone_surrogate_is_read_and_written_back_unchanged() -> None:
    line = b'{"text":"\\ud83d"}'
    value = decode(line)
    assert value == {"text": "\ud83d"}
    assert encode(value) == line


def test_an_emoji_cut_over_two_messages_is_whole_when_joined_and_written() -> None:
    high, low = decode(b'"\\ud83d"'), decode(b'"\\ude00"')
    assert decode(encode(high + low)) == "\N{GRINNING FACE}"


def test_surrogates_written_as_raw_bytes_are_read() -> None:
    assert decode(b'"\xed\xa0\xbd"') == "\ud83d"


def test_nan_and_infinity_are_read_and_written_as_null() -> None:
    value = decode(b'{"a":NaN,"b":[-Infinity,1e999,1.5]}')
    assert math.isnan(value["a"])
    assert encode(value) == b'{"a":null,"b":[null,null,1.5]}'


def test_of_a_repeated_key_the_last_one_wins() -> None:
    assert decode(b'{"a":1,"a":2}') == {"a": 2}
    assert decode(b'{"a":NaN,"a":"\\ud83d"}') == {"a": "\ud83d"}


def test_a_byte_order_mark_is_skipped() -> None:
    assert decode(b'\xef\xbb\xbf{"a":1}') == {"a": 1}


def test_separators_and_null_bytes_inside_text_pass() -> None:
    text = "a\u2028b\u0000c\u0085"
    assert decode(json.dumps({"t": text}, ensure_ascii=False).encode().replace(b"\x00", b"\\u0000")) == {"t": text}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not JSON"),
        (b"hello", "not JSON"),
        (b"{} {}", "not JSON"),
        (b'{"a":1', "not JSON"),
        (b'"a\nb"', "not JSON"),
        (b"{}\x00", "not JSON"),
        (b"nul", "not JSON"),
        (b'"\xff"', "not UTF-8"),
        (b'"\xc3', "not UTF-8"),
        ('{"a":1}'.encode("utf-16"), "not UTF-8"),
        (b"9" * 5000, "too many digits"),
        (b"[-" + b"9" * 5000 + b"]", "too many digits"),
        (b"[" * 100_000, "nested deeper"),
        (b"[" * 100_000 + b"]" * 100_000, "nested deeper"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested deeper"),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "nested deeper"),
    ],
)
def test_bytes_that_cannot_be_kept_are_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(NotJson, match=reason):
        decode(data)


def test_the_deepest_nesting_allowed_is_read_and_written() -> None:
    data = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert encode(decode(data)) == data


def test_wide_messages_are_not_taken_for_deep_ones() -> None:
    data = b"[" + b",".join([b"[{}]"] * 2000) + b"]"
    assert len(decode(data)) == 2000


def test_a_refusal_quotes_nothing_of_the_bytes_not_even_in_its_traceback() -> None:
    for data in (b'{"token":"sentinel-7f3a', b'"sentinel-7f3a\xff"'):
        with pytest.raises(NotJson) as caught:
            decode(data)
        assert caught.value.__context__ is None
        assert "sentinel" not in "".join(traceback.format_exception(caught.value))


def test_what_is_no_json_value_is_a_type_error_of_ours() -> None:
    with pytest.raises(TypeError):
        encode({"a": object()})
