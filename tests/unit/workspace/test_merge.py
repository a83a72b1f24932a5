"""Three-way merge: what both sides did is kept, or nobody's work is touched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.workspace.merge import GIST_CHARS, gist, merge

BASE = "one\ntwo\nthree\nfour\nfive\n"

CLEAN = [
    (BASE, BASE, BASE),
    (BASE, BASE.replace("one", "ONE"), BASE.replace("one", "ONE")),
    (BASE.replace("one", "ONE"), BASE.replace("five", "FIVE"), BASE.replace("one", "ONE").replace("five", "FIVE")),
    (BASE.replace("two", "TWO"), BASE.replace("three", "THREE"), BASE.replace("two", "TWO").replace("three", "THREE")),
    (BASE.replace("two\n", "two\nmore\n"), BASE.replace("two", "TWO"), BASE.replace("two", "TWO\nmore")),
    (BASE.replace("\n", "\r\n"), BASE.replace("one", "ONE"), BASE.replace("one", "ONE")),
    (BASE + "six\n", BASE.replace("one\n", ""), "two\nthree\nfour\nfive\nsix\n"),
]
CONFLICTS = [
    (BASE.replace("two", "TWO"), BASE.replace("two", "Two")),
    (BASE + "mine\n", BASE + "yours\n"),
    (BASE.replace("two\nthree\n", ""), BASE.replace("three", "THREE")),
    ("", BASE.replace("one", "ONE")),
]


@pytest.mark.parametrize(("ours", "theirs", "merged"), CLEAN)
def test_changes_of_both_are_kept(ours: str, theirs: str, merged: str) -> None:
    assert merge(BASE, ours, theirs) == merged
    assert merge(BASE, theirs, ours) == merged


@pytest.mark.parametrize(("ours", "theirs"), CONFLICTS)
def test_changes_that_contradict_each_other_are_not_merged(ours: str, theirs: str) -> None:
    assert merge(BASE, ours, theirs) is None
    assert merge(BASE, theirs, ours) is None


def test_the_gist_shows_what_stands_there_now_with_its_line_numbers() -> None:
    told = gist(BASE, BASE.replace("two", "TWO").replace("four\n", ""))
    assert told == "2: TWO\n(what stood after line 3 is gone)"
    assert len(gist("", "x" * 100_000 + "\n" * 5000)) <= GIST_CHARS


@st.composite
def sides(draw: st.DrawFn) -> tuple[str, str, str, set[str], set[str]]:
    """Return a base and two edited versions, with the lines each side added and the lines each side removed."""
    base = [f"line {number}" for number in range(draw(st.integers(0, 10)))]
    added: set[str] = set()
    removed: set[str] = set()
    texts: list[str] = []
    for side in ("user", "agent"):
        lines: list[str] = []
        for number, line in enumerate([*base, None]):
            if draw(st.integers(0, 4)) == 0:
                lines.append(f"{side} {number}")
                added.add(f"{side} {number}")
            if line is None:
                continue
            if draw(st.integers(0, 4)) == 0:
                removed.add(line)
            else:
                lines.append(line)
        texts.append("\n".join(lines))
    return "\n".join(base), texts[0], texts[1], added, removed


@given(sides())
def test_a_merge_loses_nothing_anybody_typed_and_brings_back_nothing_anybody_removed(
    case: tuple[str, str, str, set[str], set[str]],
) -> None:
    base, ours, theirs, added, removed = case
    merged = merge(base, ours, theirs)
    if merged is None:
        return
    lines = merged.split("\n")
    assert added <= set(lines)
    assert not removed & set(lines)
    assert {line for line in base.split("\n") if line} - removed <= set(lines)
    assert len([line for line in lines if line]) == len(set(lines) - {""})
