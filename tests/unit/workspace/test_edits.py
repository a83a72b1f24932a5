"""Edits between two texts: right in every position encoding, small, and cheap on large files."""

import json
import time
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.workspace.edits import text_edits
from sidecar.workspace.edits_blocks import changed_blocks
from sidecar.workspace.positions import LineBuffer, PositionEncoding, TextEdit, split_lines

PIECES = st.lists(st.sampled_from(["a", "b", "\n", "\r\n", "\r", "é", "\U0001f600", "\ufeff", "xyz", "\u2028"]), max_size=30).map(
    "".join
)
ENCODINGS: list[PositionEncoding] = ["utf-8", "utf-16", "utf-32"]


def applied(old: str, edits: Sequence[TextEdit], encoding: PositionEncoding) -> str:
    """Apply the edits the way an editor does: all ranges are those of the old text."""
    buffer = LineBuffer(old, encoding)
    for edit in reversed(edits):
        start, end = edit["range"]["start"], edit["range"]["end"]
        assert buffer.replace((start["line"], start["character"]), (end["line"], end["character"]), edit["newText"])
    return buffer.text


@given(PIECES, PIECES, st.sampled_from(ENCODINGS))
def test_the_edits_make_the_new_text(old: str, new: str, encoding: PositionEncoding) -> None:
    edits = text_edits(split_lines(old), new, encoding)
    assert applied(old, edits, encoding) == new
    assert bool(edits) == (old != new)


@given(PIECES, PIECES, st.sampled_from(ENCODINGS))
def test_the_edits_are_in_order_and_do_not_overlap(old: str, new: str, encoding: PositionEncoding) -> None:
    at = (0, 0)
    for edit in text_edits(split_lines(old), new, encoding):
        start, end = edit["range"]["start"], edit["range"]["end"]
        assert at <= (start["line"], start["character"]) <= (end["line"], end["character"])
        at = (end["line"], end["character"])


@given(st.lists(st.sampled_from("abc"), max_size=25), st.lists(st.sampled_from("abcd"), max_size=25))
def test_blocks_lead_from_the_old_lines_to_the_new_ones(old: list[str], new: list[str]) -> None:
    made: list[str] = []
    at = 0
    for block in changed_blocks(old, new):
        assert block.old_start >= at
        made += old[at : block.old_start]
        assert len(made) == block.new_start
        made += new[block.new_start : block.new_end]
        at = block.old_end
    assert made + old[at:] == new


def test_an_emoji_before_and_on_the_edited_line_moves_nothing() -> None:
    old, new = "\U0001f600\U0001f600\n\U0001f600 x = 1\n", "\U0001f600\U0001f600\n\U0001f600 x = 2\n"
    columns: dict[PositionEncoding, int] = {"utf-8": 9, "utf-16": 7, "utf-32": 6}
    for encoding, column in columns.items():
        (edit,) = text_edits(split_lines(old), new, encoding)
        assert edit["range"]["start"] == {"line": 1, "character": column}
        assert edit["newText"] == "2"


def test_lines_added_at_the_end_hang_on_the_last_line_that_every_editor_has() -> None:
    for end in ("\n", "\r\n", "\r"):
        (edit,) = text_edits(split_lines(f"one{end}two{end}"), f"one{end}two{end}three{end}", "utf-16")
        assert edit["range"]["start"] == edit["range"]["end"] == {"line": 1, "character": 3}
        assert edit["newText"] == f"{end}three"
    (edit,) = text_edits(split_lines("one\n"), "one\ntwo", "utf-16")
    assert (edit["range"]["start"], edit["newText"]) == ({"line": 1, "character": 0}, "two")
    (edit,) = text_edits([""], "one\n", "utf-16")
    assert (edit["range"]["start"], edit["newText"]) == ({"line": 0, "character": 0}, "one\n")


def test_two_changes_far_apart_leave_what_is_between_alone() -> None:
    lines = [f"line {number}\n" for number in range(1000)]
    changed = [*lines]
    changed[10], changed[900] = "first\n", "second\n"
    edits = text_edits([*lines, ""], "".join(changed), "utf-16")
    assert [edit["range"]["start"]["line"] for edit in edits] == [10, 900]


def big(lines: int = 20_000) -> list[str]:
    return [f"    value_{number} = compute(something, {number})  # text\n" for number in range(lines)]


def test_a_one_line_edit_of_a_large_file_is_small_on_the_wire() -> None:
    old = big()
    new = [*old]
    new[12_345] = new[12_345].replace("something", "another thing")
    assert len("".join(old)) > 1_000_000
    assert len(json.dumps(text_edits([*old, ""], "".join(new), "utf-16"))) < 2048


def _fastest(run: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(7):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)


@pytest.mark.parametrize("at", [3, 10_000, 19_990])
def test_a_one_line_edit_of_a_large_file_costs_little_more_than_comparing_its_lines(at: int) -> None:
    old = [*big(), ""]
    changed = [*old]
    changed[at] = "changed\n"
    new, text = "".join(changed), "".join(old)

    def compare() -> object:
        return [index for index, (one, other) in enumerate(zip(text.splitlines(), new.splitlines(), strict=True)) if one != other]

    assert _fastest(lambda: text_edits(old, new, "utf-16")) <= 3 * _fastest(compare)


def test_files_that_share_little_are_compared_in_bounded_time() -> None:
    old = ["}\n", "\n", "x\n"] * 5000
    new = ["}\n", "y\n", "\n"] * 5000
    began = time.perf_counter()
    changed_blocks(old, new)
    assert time.perf_counter() - began < 2
