"""Growing text: read from any offset, half characters joined, memory and time in proportion."""

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.session.cursor import Cursor
from sidecar.session.events import TextDelta, ToolCallChanged, TurnStarted
from sidecar.session.model import SessionState
from sidecar.session.text import TextBuffer, join_surrogates, pack, unpack

PIECES = st.lists(
    st.one_of(st.text(st.characters(), max_size=20), st.sampled_from(["\ud83d", "\ude00", "é" * 5000, "a" * 3000])), max_size=30
)


@given(PIECES, st.lists(st.integers(0, 12_000), max_size=5))
def test_reading_from_any_offset_gives_what_was_appended(pieces: list[str], offsets: list[int]) -> None:
    buffer = TextBuffer()
    for number, piece in enumerate(pieces):
        buffer.append(piece)
        if number % 3 == 0:
            buffer.read(0, 1)
    buffer.finish()
    whole = buffer.text()
    assert join_surrogates(whole) == join_surrogates("".join(pieces))
    assert buffer.length == len(whole)
    for offset in offsets:
        assert buffer.read(offset) == whole[offset:]
        assert buffer.read(offset, 7) == whole[offset : offset + 7]


def test_half_a_character_waits_for_its_other_half() -> None:
    buffer = TextBuffer()
    buffer.append("a\ud83d")
    assert (buffer.text(), buffer.length) == ("a", 1)
    buffer.append("")
    buffer.append("\ude00b")
    assert buffer.text() == "a\U0001f600b"
    assert not buffer.finish()
    buffer.append("\ud83d")
    assert buffer.finish()
    assert buffer.text() == "a\U0001f600b\ud83d"


@pytest.mark.parametrize(
    "value",
    [None, "short", "é" * 5000, "a" * 5000, "\ud83d" * 5000, [1, {"a": ["é\ud83d" * 3000, None]}], {"x": True, "y": 1.5}],
)
def test_packing_loses_nothing(value: Any) -> None:
    assert unpack(pack(value)) == value


def test_packing_goes_only_so_deep() -> None:
    deep: Any = "é" * 5000
    for _ in range(3000):
        deep = [deep]
    packed = unpack(pack(deep))
    for _ in range(3000):
        packed = packed[0]
    assert packed == "é" * 5000


def test_ten_thousand_small_updates_take_less_than_a_megabyte() -> None:
    updates = 10_000
    for reading in (False, True):
        state = SessionState()
        cursor = Cursor(state)
        state.apply([TurnStarted("t1", "go")])
        tracemalloc.start()
        for number in range(updates):
            state.apply([TextDelta("agent", f"The quick brown fox jumps over {number:05d}")])
            if reading:
                cursor.take(65_536)
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert size < 1_000_000


def test_a_kept_diff_takes_little_more_than_its_utf8() -> None:
    state = SessionState()
    state.apply([ToolCallChanged("warm", {"title": "up"})])
    tracemalloc.start()
    for number in range(5):
        state.apply([ToolCallChanged(str(number), {"content": [{"type": "diff", "newText": "é" * 200_000 + str(number)}]})])
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert size < 1.1 * 5 * 400_000
