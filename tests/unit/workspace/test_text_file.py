"""Bytes in, bytes out: encodings, marks, line ends and final newlines survive what an agent makes of a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.workspace.text_file import PLAIN, MissingFile, TextForm, UnusableFile, decode, encode, keep_line_ends, plain

FORMS = [TextForm(), TextForm("utf-8", mark=True), TextForm("utf-16-le", mark=True), TextForm("utf-16-be", mark=True)]
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"), max_size=40)


@given(TEXTS, st.sampled_from(FORMS))
def test_a_text_comes_back_from_its_bytes_with_its_form(text: str, form: TextForm) -> None:
    assert decode(encode(text, form, "f"), "f") == (text, form)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x7fELF\0\1", "binary file"),
        (b"caf\xe9\n", "no UTF-8 text"),
        (b"\xff\xfe\0\0a\0\0\0", "UTF-32"),
        (b"\xff\xfea\0b", "no UTF-16-LE text"),
        (b"\xef\xbb\xbf\xff", "no UTF-8 text"),
    ],
)
def test_what_is_no_text_is_refused_with_its_name(data: bytes, said: str) -> None:
    with pytest.raises(UnusableFile, match=said) as caught:
        decode(data, "pic.bin")
    assert "pic.bin" in caught.value.message


def test_half_a_character_is_not_written() -> None:
    for form in FORMS:
        with pytest.raises(UnusableFile, match="offset 1"):
            encode("a\ud800", form, "f")


def test_a_missing_file_says_so_in_the_words_agents_look_for() -> None:
    error = MissingFile("/ws/x")
    assert error.code == -32002
    for phrase in ("Resource not found", "ENOENT", "does not exist", "no such file"):
        assert phrase in error.message


CASES = [
    # old, what the agent wrote, what is to be written
    ("a\r\nb\r\nc\r\n", "a\nB\nc\n", "a\r\nB\r\nc\r\n"),
    ("a\nb\n", "a\r\nb\r\nc\r\n", "a\nb\nc\n"),
    ("a\r\nb\nc\r\n", "a\nb\nX\nc\n", "a\r\nb\nX\nc\r\n"),
    ("a\r\nb\nc\r\nd\n", "a\nB\nC\nd\n", "a\r\nB\nC\r\nd\n"),
    ("a\rb\rc", "a\nB\nc", "a\rB\rc"),
    ("a\r\nb", "a\nb\nc", "a\r\nb\r\nc"),
    ("a\nb\n", "x\nb", "x\nb\n"),
    ("a\nb", "x\nb\n", "x\nb"),
    ("a\nb", "a\nb\n", "a\nb\n"),
    ("a\nb\n", "a\nb", "a\nb"),
    ("a\nb\n", "a\nc", "a\nc"),
    ("", "a\r\nb", "a\r\nb"),
    ("one", "one\r\ntwo\r\n", "one\r\ntwo\r\n"),
    ("a\r\n", "", ""),
    ("10%\r20%\rdone\nend\n", "10%\r20%\rdone\nEND\n", "10%\r20%\rdone\nEND\n"),
    ("a\r\r\nb\r\n", "a\r\r\nB\r\n", "a\r\r\nB\r\n"),
]


@pytest.mark.parametrize(("old", "written", "kept"), CASES)
def test_line_ends_are_kept(old: str, written: str, kept: str) -> None:
    assert keep_line_ends(old, written) == kept


ENDS = st.sampled_from(["\n", "\r\n"])


@st.composite
def edited(draw: st.DrawFn) -> tuple[str, str, str]:
    """Return a text, what an agent makes of it with line ends of its own choice, and what is to be written.

    The reference edits lines as objects, every second one at most, and all lines differ: so there is no doubt which one was
    touched and which is the neighbour of a new one.
    """
    lines = [(f"line {number}", draw(ENDS)) for number in range(draw(st.integers(1, 12)))]
    style = draw(st.sampled_from(["keep", "\n", "\r\n"]))
    final = draw(st.booleans())
    expected: list[tuple[str, str]] = []
    for number, (content, end) in enumerate(lines):
        action = draw(st.sampled_from(["keep", "change", "insert", "drop"])) if number % 2 else "keep"
        if action == "insert":
            expected.append((f"new before {number}", expected[-1][1]))
        if action != "drop":
            expected.append((f"changed {number}" if action == "change" else content, end))
    if not final:
        lines[-1], expected[-1] = (lines[-1][0], ""), (expected[-1][0], "")
    written = [(content, end and (end if style == "keep" else style)) for content, end in expected]
    old, made, wanted = ("".join(content + end for content, end in each) for each in (lines, written, expected))
    return old, made, wanted


@given(edited())
def test_edited_texts_have_the_bytes_of_a_reference_that_edits_lines(case: tuple[str, str, str]) -> None:
    old, written, expected = case
    assert keep_line_ends(old, written) == expected


@given(edited(), st.sampled_from(FORMS))
def test_whatever_the_encoding_an_edit_that_changes_nothing_changes_no_byte(case: tuple[str, str, str], form: TextForm) -> None:
    data = encode(case[0], form, "f")
    text, found = decode(data, "f")
    for written in (text, plain(text), plain(text).replace("\n", "\r\n")):
        assert encode(keep_line_ends(text, written), found, "f") == data


def test_the_plain_form_is_utf8_without_a_mark() -> None:
    assert TextForm("utf-8", mark=False) == PLAIN
