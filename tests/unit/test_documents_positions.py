"""Offsets and positions in the three encodings, line ends of LSP, and edits that touch no more than they must."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.workspace.positions import (
    LineBuffer,
    PositionEncoding,
    common_prefix,
    content_length,
    index_in_line,
    insert_edit,
    minimal_edit,
    split_lines,
    units_in,
)

PIECES = ["a", "b", "\n", "\r", "\r\n", "\u00e9", "\u20ac", "\U0001f600", "\u2028", "\x0b", "\x85", "\ud83d"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
ENCODINGS: list[PositionEncoding] = ["utf-8", "utf-16", "utf-32"]
CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


def naive_units(text: str, encoding: str) -> int:
    codec, width = CODECS[encoding]
    return sum(len(character.encode(codec, "surrogatepass")) // width for character in text)


def naive_position(text: str, offset: int, encoding: str) -> tuple[int, int]:
    ends = [match.end() for match in re.finditer(r"\r\n|\r|\n", text) if match.end() <= offset]
    return len(ends), naive_units(text[ends[-1] if ends else 0 : offset], encoding)


def inside_crlf(text: str, offset: int) -> bool:
    return text[offset - 1 : offset + 1] == "\r\n" if offset else False


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("a", ["a"]),
        ("a\n", ["a\n", ""]),
        ("a\r\nb\rc\nd", ["a\r\n", "b\r", "c\n", "d"]),
        ("\r\r\n\n\r", ["\r", "\r\n", "\n", "\r", ""]),
        ("a\u2028b\x0bc\x85d\x1ce", ["a\u2028b\x0bc\x85d\x1ce"]),
    ],
)
def test_a_line_ends_with_lf_crlf_or_cr_and_with_nothing_else(text: str, lines: list[str]) -> None:
    assert split_lines(text) == lines


@settings(deadline=None)
@given(TEXTS)
def test_the_lines_joined_are_the_text_and_agree_with_the_line_ends(text: str) -> None:
    lines = split_lines(text)
    assert "".join(lines) == text
    assert len(lines) == len(re.findall(r"\r\n|\r|\n", text)) + 1
    assert all(not re.search(r"[\r\n]", line[: content_length(line)]) for line in lines)


@pytest.mark.parametrize(
    ("line", "character", "encoding", "index"),
    [
        ("a\U0001f600b\n", 0, "utf-16", 0),
        ("a\U0001f600b\n", 1, "utf-16", 1),
        ("a\U0001f600b\n", 2, "utf-16", 1),
        ("a\U0001f600b\n", 3, "utf-16", 2),
        ("a\U0001f600b\n", 4, "utf-16", 3),
        ("a\U0001f600b\n", 99, "utf-16", 3),
        ("a\U0001f600b\r\n", 5, "utf-8", 2),
        ("a\U0001f600b\r\n", 4, "utf-8", 1),
        ("a\U0001f600b\r\n", 7, "utf-8", 3),
        ("a\U0001f600b\r", 2, "utf-32", 2),
        ("a\U0001f600b\r", 9, "utf-32", 3),
        ("\u00e9\u00e9", 1, "utf-8", 0),
        ("\ud83d\ude00x", 1, "utf-16", 1),
        ("abc", 2_147_483_647, "utf-16", 3),
        ("abc", -1, "utf-16", 0),
    ],
)
def test_a_character_is_found_in_each_encoding_and_never_inside_another(
    line: str, character: int, encoding: PositionEncoding, index: int
) -> None:
    assert index_in_line(line, character, encoding) == index


@settings(deadline=None)
@given(TEXTS, st.sampled_from(ENCODINGS), st.data())
def test_offsets_and_positions_are_each_others_inverse(text: str, encoding: PositionEncoding, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, len(text)).filter(lambda at: not inside_crlf(text, at)))
    buffer = LineBuffer(text, encoding)
    position = buffer.position(offset)
    assert position == naive_position(text, offset, encoding)
    assert buffer.offset(position) == offset
    assert buffer.end == buffer.position(len(text))
    assert units_in(text, encoding) == naive_units(text, encoding)


def test_positions_outside_the_text_mean_its_ends() -> None:
    buffer = LineBuffer("ab\ncd", "utf-16")
    assert buffer.offset((9, 9)) == 5
    assert buffer.offset((-1, 0)) == 0
    assert buffer.position(99) == (1, 2)
    assert buffer.position(-5) == (0, 0)


def apply_text_edit(text: str, edit: dict[str, Any], encoding: PositionEncoding) -> str:
    buffer = LineBuffer(text, encoding)
    start, end = ((edit["range"][key]["line"], edit["range"][key]["character"]) for key in ("start", "end"))
    assert buffer.replace(start, end, edit["newText"])
    return buffer.text


@settings(deadline=None)
@given(TEXTS, st.sampled_from(ENCODINGS), TEXTS, st.data())
def test_replacing_lines_gives_the_same_as_cutting_the_string(
    text: str, encoding: PositionEncoding, new: str, data: st.DataObject
) -> None:
    places = st.integers(0, len(text)).filter(lambda at: not inside_crlf(text, at))
    start, end = sorted((data.draw(places), data.draw(places)))
    buffer = LineBuffer(text, encoding)
    untouched = buffer.copy()
    assert buffer.replace(naive_position(text, start, encoding), naive_position(text, end, encoding), new)
    assert buffer.text == text[:start] + new + text[end:]
    assert buffer.lines == split_lines(buffer.text)
    assert untouched.text == text


def test_a_range_given_backwards_is_read_forwards() -> None:
    buffer = LineBuffer("abc", "utf-16")
    buffer.replace((0, 2), (0, 1), "X")
    assert buffer.text == "aXc"


def test_a_line_past_the_end_is_told() -> None:
    buffer = LineBuffer("a\nb", "utf-16")
    assert buffer.replace((2, 0), (2, 0), "\nc")
    assert buffer.text == "a\nb\nc"
    assert not buffer.replace((5, 0), (5, 0), "d")
    assert buffer.text == "a\nb\ncd"


@settings(deadline=None)
@given(TEXTS, TEXTS, st.sampled_from(ENCODINGS))
def test_the_minimal_edit_turns_one_text_into_the_other(old: str, new: str, encoding: PositionEncoding) -> None:
    edit = minimal_edit(old, new, encoding)
    assert (edit is None) == (old == new)
    if edit is not None:
        assert apply_text_edit(old, edit, encoding) == new


def test_the_minimal_edit_of_an_insertion_inserts_only() -> None:
    edit = minimal_edit("one\r\nthree\r\n", "one\r\ntwo\r\nthree\r\n", "utf-16")
    assert edit is not None
    assert edit["range"]["start"] == edit["range"]["end"]
    assert edit["newText"] in {"two\r\n", "wo\r\nt"}


def test_the_minimal_edit_leaves_a_line_end_whole() -> None:
    edit = minimal_edit("a\r\nb", "a\rX\nb", "utf-16")
    assert edit == {"range": {"start": {"line": 0, "character": 1}, "end": {"line": 1, "character": 0}}, "newText": "\rX\n"}


def test_an_insertion_is_an_empty_range() -> None:
    assert insert_edit((3, 1), "x") == {
        "range": {"start": {"line": 3, "character": 1}, "end": {"line": 3, "character": 1}},
        "newText": "x",
    }


@settings(deadline=None)
@given(st.text("ab", max_size=30), st.text("ab", max_size=30))
def test_the_common_prefix_is_the_longest_one(first: str, second: str) -> None:
    length = common_prefix(first, second)
    assert first[:length] == second[:length]
    assert first[: length + 1] != second[: length + 1] or length == min(len(first), len(second))
