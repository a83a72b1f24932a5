"""The mirror of open documents: order of versions, skipped versions, full texts, saves, and whose change it was."""

import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.workspace.documents import DocumentEvent, Documents
from sidecar.workspace.ordered_text import FOLD_AT, GAP_PATIENCE_SECONDS
from sidecar.workspace.positions import PositionEncoding
from tests.unit.test_documents_positions import ENCODINGS, inside_crlf, naive_position

URI = "file:///work/a.md"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def opened(
    text: str = "",
    *,
    version: int = 0,
    encoding: PositionEncoding = "utf-16",
    clock: Callable[[], float] | None = None,
    read_text: Callable[[str], str | None] | None = None,
) -> Documents:
    documents = Documents(encoding, clock=clock or Clock(), read_text=read_text)
    assert documents.did_open({"textDocument": {"uri": URI, "languageId": "markdown", "version": version, "text": text}}) is None
    return documents


def change(version: int | None, *edits: dict[str, Any], uri: str = URI) -> dict[str, Any]:
    return {"textDocument": {"uri": uri, "version": version}, "contentChanges": list(edits)}


def at(line: int, character: int, text: str, *, to: tuple[int, int] | None = None) -> dict[str, Any]:
    end = to or (line, character)
    span = {"start": {"line": line, "character": character}, "end": {"line": end[0], "character": end[1]}}
    return {"range": span, "text": text}


class ReferenceEditor:
    """An editor's buffer as one string: makes edits and the notifications of them."""

    def __init__(self, text: str, seed: int, encoding: PositionEncoding) -> None:
        self.text = text
        self.random = random.Random(seed)
        self.encoding: PositionEncoding = encoding

    def edit(self) -> dict[str, Any]:
        start = self._place()
        end = max(start, self._place()) if self.random.random() < 0.3 else start
        new = "".join(
            self.random.choice(["a", "\n", "\r\n", "\r", "\U0001f600", "\u00e9", ""]) for _ in range(self.random.randint(0, 4))
        )
        first, last = naive_position(self.text, start, self.encoding), naive_position(self.text, end, self.encoding)
        self.text = self.text[:start] + new + self.text[end:]
        return at(*first, new, to=last)

    def full(self) -> dict[str, Any]:
        self.text = "whole\n" * self.random.randint(0, 3)
        return {"text": self.text}

    def _place(self) -> int:
        return self.random.choice([i for i in range(len(self.text) + 1) if not inside_crlf(self.text, i)])


def shuffled(items: list[dict[str, Any]], rng: random.Random, window: int) -> list[dict[str, Any]]:
    """Every item at most ``window`` places later than those behind it."""
    keys = [index + rng.randint(0, window) for index in range(len(items))]
    return [items[index] for index in sorted(range(len(items)), key=lambda index: (keys[index], rng.random()))]


START = "one\n\U0001f600two\r\nthree\rfour"


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 90), st.sampled_from(ENCODINGS), st.sampled_from([0.0, 0.05]))
def test_changes_delivered_up_to_fifteen_late_give_the_text_of_the_editor(
    seed: int, count: int, encoding: PositionEncoding, full_share: float
) -> None:
    editor, rng = ReferenceEditor(START, seed, encoding), random.Random(seed + 1)
    sent = [
        change(
            version, *([editor.full()] if rng.random() < full_share else []), *(editor.edit() for _ in range(rng.randint(1, 3)))
        )
        for version in range(1, count + 1)
    ]
    documents = opened(START, encoding=encoding)
    for message in shuffled(sent, rng, 15):
        documents.did_change(message)
    assert documents.text(URI) == editor.text
    assert documents.version(URI) == count
    assert documents.certainty(URI) == "sure"


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 200), st.sampled_from(ENCODINGS))
def test_an_editor_that_skips_versions_is_followed_exactly_and_believed(
    seed: int, count: int, encoding: PositionEncoding
) -> None:
    editor, rng, clock = ReferenceEditor(START, seed, encoding), random.Random(seed + 1), Clock()
    documents = opened(START, version=3, encoding=encoding, clock=clock)
    version = 3
    for _ in range(count):
        version += rng.randint(1, 9)
        assert documents.did_change(change(version, editor.edit())) is None
        assert documents.text(URI) == editor.text
        assert not documents.is_unsure(URI)
    clock.now += GAP_PATIENCE_SECONDS
    assert documents.certainty(URI) == "sure"


@settings(deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(ENCODINGS))
def test_an_editor_that_skips_versions_and_is_late_still_gives_its_text(seed: int, encoding: PositionEncoding) -> None:
    editor, rng = ReferenceEditor(START, seed, encoding), random.Random(seed + 1)
    version, sent = 0, list[dict[str, Any]]()
    for _ in range(60):
        version += rng.randint(1, 4)
        sent.append(change(version, editor.edit()))
    documents = opened(START, encoding=encoding)
    for message in shuffled(sent, rng, 15):
        documents.did_change(message)
    assert documents.text(URI) == editor.text


def test_the_order_seen_in_helix_is_put_right_with_each_step_in_place() -> None:
    documents = opened("", version=17)
    texts: list[str | None] = []
    for version, column, letter in ((18, 0, "a"), (20, 2, "c"), (19, 1, "b"), (21, 3, "d")):
        documents.did_change(change(version, at(0, column, letter)))
        texts.append(documents.text(URI))
    assert texts == ["a", "ac", "abc", "abcd"]
    assert documents.certainty(URI) == "sure"


def test_a_gap_is_waited_for_and_then_believed_of_an_editor_that_was_never_late() -> None:
    clock = Clock()
    documents = opened("", clock=clock)
    documents.did_change(change(5, at(0, 0, "a")))
    assert documents.certainty(URI) == "waiting"
    clock.now += GAP_PATIENCE_SECONDS
    assert documents.certainty(URI) == "sure"
    assert documents.why_unsure(URI) is None


def test_a_gap_that_stays_makes_the_mirror_unsure_when_the_editor_is_known_to_be_late() -> None:
    clock = Clock()
    documents = opened("", clock=clock)
    for version, letter in ((2, "b"), (1, "a"), (4, "d")):
        documents.did_change(change(version, at(0, 0, letter)))
    assert documents.certainty(URI) == "waiting"
    clock.now += GAP_PATIENCE_SECONDS
    assert documents.is_unsure(URI)
    assert documents.why_unsure(URI) == "a change of the editor has not come"
    documents.did_change(change(3, at(0, 0, "c")))
    assert documents.certainty(URI) == "sure"
    assert documents.text(URI) == "dcba"


def test_a_lost_change_of_a_late_editor_is_found_out_when_it_leaves_the_window() -> None:
    clock = Clock()
    documents = opened("", clock=clock)
    for version in (2, 1, *range(4, FOLD_AT + 10)):
        documents.did_change(change(version, at(0, 0, "x")))
    clock.now += 60
    assert documents.is_unsure(URI)
    assert documents.why_unsure(URI) == "a change of the editor never came"
    assert documents.did_change(change(3, at(0, 0, "y"))) is not None
    documents.did_change(change(FOLD_AT + 10, {"text": "whole"}))
    assert documents.certainty(URI) == "sure"
    assert documents.text(URI) == "whole"


def test_a_change_older_than_everything_kept_makes_the_mirror_unsure_and_says_so_once() -> None:
    documents = opened("")
    events = list[DocumentEvent]()
    documents.listen(events.append)
    for version in range(2, FOLD_AT + 10):
        documents.did_change(change(version, at(0, 0, "x")))
    reason = documents.did_change(change(1, at(0, 0, "y")))
    assert reason is not None
    assert "too late" in reason
    documents.did_change(change(1, at(0, 0, "y")))
    assert documents.is_unsure(URI)
    assert [event.kind for event in events].count("unsure") == 1


def test_a_change_from_before_a_full_text_is_dropped_without_doubt() -> None:
    documents = opened("a")
    documents.did_change(change(5, {"text": "whole"}, at(0, 5, "!")))
    assert documents.did_change(change(4, at(0, 0, "old"))) is not None
    assert documents.text(URI) == "whole!"
    assert documents.certainty(URI) == "sure"


def test_a_full_text_that_comes_late_is_put_before_the_changes_made_on_it() -> None:
    documents = opened("a")
    documents.did_change(change(3, at(0, 3, "!")))
    documents.did_change(change(2, {"text": "new"}))
    assert documents.text(URI) == "new!"
    assert documents.certainty(URI) == "sure"
    documents.did_change(change(4, at(0, 4, "?")))
    assert documents.text(URI) == "new!?"


def test_a_change_without_a_version_or_with_the_same_one_is_applied_in_order_of_arrival() -> None:
    documents = opened("", version=3)
    documents.did_change(change(None, at(0, 0, "a")))
    documents.did_change(change(3, at(0, 1, "b")))
    documents.did_change(change(4, at(0, 2, "c")))
    assert documents.text(URI) == "abc"
    assert documents.certainty(URI) == "sure"


def test_a_line_that_cannot_be_there_makes_the_mirror_unsure_until_the_next_full_text() -> None:
    documents = opened("a\n")
    documents.did_change(change(1, at(7, 0, "x")))
    assert documents.is_unsure(URI)
    documents.did_change(change(2, at(0, 0, "y")))
    assert documents.is_unsure(URI)
    documents.did_open({"textDocument": {"uri": URI, "version": 1, "text": "again"}})
    assert documents.certainty(URI) == "sure"
    assert documents.text(URI) == "again"


def test_a_save_with_the_same_text_settles_what_was_waited_for() -> None:
    documents = opened("")
    documents.did_change(change(2, at(0, 0, "a")))
    assert documents.certainty(URI) == "waiting"
    documents.did_save({"textDocument": {"uri": URI}, "text": "a"})
    assert documents.certainty(URI) == "sure"


def test_a_save_that_overtook_its_changes_is_believed_once_they_lead_to_it() -> None:
    documents = opened("")
    documents.did_change(change(1, at(0, 0, "a")))
    documents.did_save({"textDocument": {"uri": URI}, "text": "abc"})
    assert documents.is_unsure(URI)
    documents.did_change(change(2, at(0, 1, "b")))
    assert documents.is_unsure(URI)
    documents.did_change(change(3, at(0, 2, "c")))
    assert documents.certainty(URI) == "sure"
    assert documents.text(URI) == "abc"


def test_a_wrong_mirror_is_healed_by_the_second_save() -> None:
    documents = opened("a\u2028b")
    for text in ("a\u2028X", "a\u2028X"):
        documents.did_save({"textDocument": {"uri": URI}, "text": text})
    assert documents.certainty(URI) == "sure"
    assert documents.text(URI) == "a\u2028X"


def test_a_save_without_text_heals_an_unsure_mirror_from_the_disk_and_only_then() -> None:
    reads = list[str]()

    def read_text(uri: str) -> str | None:
        reads.append(uri)
        return "from disk" if len(reads) > 1 else None

    documents = opened("a", read_text=read_text)
    documents.did_save({"textDocument": {"uri": URI}})
    assert reads == []
    documents.did_change(change(1, at(7, 0, "x")))
    documents.did_save({"textDocument": {"uri": URI}})
    assert documents.is_unsure(URI)
    documents.did_save({"textDocument": {"uri": URI}})
    assert documents.text(URI) == "from disk"
    assert documents.certainty(URI) == "sure"


def test_a_closed_document_is_not_known_and_nothing_about_it_is_sure() -> None:
    documents = opened("a")
    documents.did_close({"textDocument": {"uri": URI}})
    assert documents.text(URI) is None
    assert documents.version(URI) is None
    assert documents.buffer(URI) is None
    assert documents.language(URI) is None
    assert documents.open_uris() == []
    assert documents.is_unsure(URI)
    assert documents.did_change(change(1, at(0, 0, "x"))) is not None
    assert documents.did_close({"textDocument": {"uri": URI}}) is not None
    assert documents.did_save({"textDocument": {"uri": URI}}) is not None


BAD: list[Any] = [
    None,
    7,
    "x",
    [],
    {},
    {"textDocument": 1},
    {"textDocument": {"uri": 7}},
    {"textDocument": {"uri": URI, "text": 1}},
    {"textDocument": []},
]


@pytest.mark.parametrize("params", BAD)
def test_a_notification_that_cannot_be_used_is_ignored_with_a_reason(params: object) -> None:
    documents = opened("a")
    assert documents.did_open(params) is not None
    if params != BAD[7]:
        assert documents.did_change(params) is not None
        assert documents.did_close(params) is not None
        assert documents.did_save(params) is not None
    assert documents.text(URI) == "a"


BAD_CHANGES: list[Any] = [
    None,
    "text",
    [7],
    [{"text": 1}],
    [{}],
    [{"range": {}, "text": "x"}],
    [{"range": {"start": {"line": 0, "character": 0}, "end": {"line": "0", "character": 0}}, "text": "x"}],
    [{"range": {"start": {"line": -1, "character": 0}, "end": {"line": 0, "character": 0}}, "text": "x"}],
    [{"range": {"start": {"line": True, "character": 0}, "end": {"line": 0, "character": 0}}, "text": "x"}],
    [{"text": "fine"}, None],
]


@pytest.mark.parametrize("changes", BAD_CHANGES)
def test_a_change_that_cannot_be_read_leaves_the_text_and_makes_the_mirror_unsure(changes: Any) -> None:
    documents = opened("a")
    assert documents.did_change({"textDocument": {"uri": URI, "version": 1}, "contentChanges": changes}) is not None
    assert documents.text(URI) == "a"
    assert documents.is_unsure(URI)
    documents.did_change(change(2, {"text": "b"}))
    assert documents.text(URI) == "b"
    assert documents.certainty(URI) == "sure"


def test_several_spellings_of_a_uri_are_one_document_and_the_editors_own_is_kept() -> None:
    documents = Documents()
    documents.did_open({"textDocument": {"uri": "file:///C%3A/My%20x.md", "version": 1, "text": "a"}})
    documents.did_change(change(2, at(0, 1, "b"), uri="FILE:///c:/My x.md"))
    assert documents.text("file:///c:/My%20x.md") == "ab"
    assert documents.client_uri("file:///c:/My%20x.md") == "file:///C%3A/My%20x.md"


def test_listeners_hear_each_event_in_order_until_they_stop() -> None:
    documents = Documents()
    events = list[DocumentEvent]()
    stop = documents.listen(events.append)
    documents.did_open({"textDocument": {"uri": URI, "version": 1, "text": ""}})
    documents.did_change(change(2, at(0, 0, "a")))
    documents.did_save({"textDocument": {"uri": URI}})
    documents.did_close({"textDocument": {"uri": URI}})
    stop()
    stop()
    documents.did_open({"textDocument": {"uri": URI, "version": 1, "text": ""}})
    assert [(event.kind, event.version) for event in events] == [("opened", 1), ("changed", 2), ("saved", 2), ("closed", 2)]


def ours(documents: Documents, *messages: dict[str, Any]) -> list[bool]:
    seen = list[bool]()
    documents.listen(lambda event: seen.append(event.ours))
    for message in messages:
        assert documents.did_change(message) is None
    return seen


def test_the_change_our_own_edit_causes_is_told_as_ours_once() -> None:
    documents = opened("# A\n\n## You\n")
    documents.expect_insert(URI, "chunk\n")
    assert ours(documents, change(1, at(1, 0, "chunk\n")), change(2, at(1, 0, "chunk\n"))) == [True, False]


def test_what_the_user_types_is_not_ours_nor_a_change_that_mixes_both() -> None:
    documents = opened("x\n## You\n")
    documents.expect_insert(URI, "chunk\n")
    assert ours(documents, change(1, at(1, 0, "c")), change(2, at(1, 0, "chunk\nuser")), change(3, at(1, 0, "chunk\n"))) == [
        False,
        False,
        True,
    ]


def test_our_edit_reported_shifted_by_the_editors_own_diff_is_still_ours() -> None:
    documents = opened("chapter\n")
    documents.expect_insert(URI, "chunk\n")
    assert ours(documents, change(1, at(0, 2, "unk\nch"))) == [True]
    assert documents.text(URI) == "chunk\nchapter\n"


def test_our_edit_with_line_ends_changed_by_the_editor_or_inside_a_line_is_still_ours() -> None:
    documents = opened("a\r\nb\r\n")
    documents.expect_insert(URI, "one\ntwo\n")
    documents.expect_insert(URI, "-")
    assert ours(documents, change(1, at(1, 0, "one\r\ntwo\r\n")), change(2, at(0, 1, "-"))) == [True, True]


def test_a_deletion_or_a_replacement_is_never_ours_and_forgotten_edits_are_not_either() -> None:
    documents = opened("abc")
    documents.expect_insert(URI, "x")
    assert ours(documents, change(1, at(0, 0, "x", to=(0, 1)))) == [False]
    documents.forget_expected(URI)
    assert ours(documents, change(2, at(0, 0, "x"))) == [False]


def test_a_late_change_of_the_user_is_not_taken_for_ours() -> None:
    documents = opened("## You\n")
    documents.expect_insert(URI, "chunk\n")
    assert ours(documents, change(2, at(0, 0, "chunk\n")), change(1, at(1, 0, "u"))) == [True, False]
    assert documents.text(URI) == "chunk\n## You\nu"


def test_a_megabyte_is_edited_key_by_key_in_little_time() -> None:
    text = "".join(f"line {number} with some text in it\n" for number in range(32_000))
    documents = opened(text)
    began = time.perf_counter()
    for version in range(1, 401):
        documents.did_change(change(version, at(16_000, version - 1, "\U0001f600"[:1] if version % 50 == 0 else "k")))
    took = time.perf_counter() - began
    assert documents.text(URI) is not None
    assert took < 2.0, f"400 keys in a text of 1 MB took {took:.2f} s"
