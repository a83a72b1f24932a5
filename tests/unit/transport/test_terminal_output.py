"""What is kept of a command's output: the end, within the limit, whole characters only."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.transport.terminal_output import OutputTail


def kept(blocks: list[bytes], limit: int) -> OutputTail:
    tail = OutputTail(limit)
    for block in blocks:
        tail.feed(block)
    tail.finish()
    return tail


def expected(text: str, limit: int) -> str:
    """Return the longest end of ``text`` that takes at most ``limit`` bytes."""
    while len(text.encode()) > limit:
        text = text[1:]
    return text


@given(st.lists(st.binary(max_size=12), max_size=12), st.integers(0, 24), st.integers(0, 30))
def test_the_end_of_any_bytes_is_kept_within_the_limit_from_a_whole_character_on(
    blocks: list[bytes], limit: int, shown: int
) -> None:
    whole = b"".join(blocks).decode("utf-8", "replace")
    tail = kept(blocks, limit)
    assert tail.text() == expected(whole, limit)
    assert tail.truncated is (len(whole.encode()) > limit)
    assert tail.text(shown) == expected(whole, min(limit, shown))


@given(st.text(max_size=40), st.integers(1, 5), st.integers(0, 50))
def test_characters_split_over_reads_come_whole(text: str, size: int, limit: int) -> None:
    data = text.encode("utf-8", "replace")
    blocks = [data[start : start + size] for start in range(0, len(data), size)]
    assert kept(blocks, limit).text() == expected(data.decode(), limit)


@pytest.mark.parametrize(
    ("limit", "text"), [(0, ""), (1, ""), (3, ""), (4, "\N{ROCKET}"), (5, "b\N{ROCKET}"), (6, "b\N{ROCKET}"), (7, "éb\N{ROCKET}")]
)
def test_a_limit_inside_a_character_leaves_the_character_out(limit: int, text: str) -> None:
    tail = kept(["aéb\N{ROCKET}".encode()], limit)
    assert (tail.text(), tail.truncated) == (text, True)


def test_nothing_is_cut_at_exactly_the_limit() -> None:
    tail = kept([b"12345", b"67890"], 10)
    assert (tail.text(), tail.truncated) == ("1234567890", False)


def test_half_a_character_at_the_end_is_shown_as_a_mark_only_once_the_output_ended() -> None:
    tail = OutputTail(10)
    tail.feed(b"a\xf0\x9f")
    assert tail.text() == "a"
    tail.finish()
    assert tail.text() == "a\N{REPLACEMENT CHARACTER}"
