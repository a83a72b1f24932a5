"""Records, turns, drafts, wishes and owners: what is saved comes back, within bounds, and belongs to one sidecar at a time."""

import os
import sqlite3
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.errors import SidecarBug
from sidecar.store.records import SessionRecord, Wishes
from sidecar.store.retention import MAX_TURN_BYTES, MAX_TURNS_PER_SESSION
from sidecar.store.sessions import MAX_DRAFT_CHARS, SessionStore

RECORD = SessionRecord(
    session_id="s-1",
    agent="kiro",
    cwd="/ws/a",
    generation="kiro-v3",
    account="acc",
    agent_session_id="agent-1",
    additional_directories=("/ws/b", "/ws/\udcff"),
    mcp_servers=("docs",),
    title="Fix \U0001f600 it",
    remote=True,
    mode="vibe",
    model="auto",
    effort="high",
    incomplete="a frame was dropped",
    unknown_outcome="t-9",
    created_at="2026-01-01T00:00:00.000Z",
    updated_at="2026-01-02T00:00:00.000Z",
    extra={"nested": {"a": [1, None, True]}},
)


class Ticks:
    """Times that never repeat."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        return f"2026-03-01T00:00:{self.count // 1000:02}.{self.count % 1000:03}Z"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    opened = SessionStore(tmp_path / "state", now=Ticks())
    yield opened
    opened.close()


def record(session_id: str, **changes: Any) -> SessionRecord:
    return attrs.evolve(RECORD, session_id=session_id, created_at="", updated_at="", **changes)


def turn(turn_id: str, text: str = "") -> dict[str, Any]:
    return {"turnId": turn_id, "parts": [{"kind": "text", "text": text}]}


def test_a_record_comes_back_from_a_new_process_as_it_was_saved(tmp_path: Path) -> None:
    first = SessionStore(tmp_path)
    first.save(RECORD)
    first.close()
    second = SessionStore(tmp_path)
    assert second.get("s-1") == RECORD
    assert second.find("kiro", "agent-1") == RECORD
    assert second.find("other", "agent-1") is None
    assert second.get("s-2") is None
    second.close()


@settings(deadline=None)
@given(st.text(), st.text(), st.lists(st.text(), max_size=3))
def test_any_text_an_agent_or_a_file_system_can_hold_is_kept(title: str, cwd: str, folders: list[str]) -> None:
    store = SessionStore(None)
    odd = attrs.evolve(RECORD, title=title + "\ud83d", cwd=cwd + "\udcff", additional_directories=tuple(folders))
    store.save(odd)
    assert store.get("s-1") == odd
    assert list(store.list(cwd=odd.cwd)) == [odd]
    store.save_draft("s-1", title + "\ud83d")
    assert store.draft("s-1") == title + "\ud83d"
    store.close()


def test_saving_again_keeps_the_creation_time_turns_and_draft(store: SessionStore) -> None:
    store.save(RECORD)
    store.save_turn("s-1", turn("t-1"))
    store.save_draft("s-1", "half a thought")
    store.save(record("s-1", title="new"))
    found = store.get("s-1")
    assert found is not None
    assert (found.title, found.created_at) == ("new", RECORD.created_at)
    assert found.updated_at > RECORD.updated_at
    assert store.turns("s-1").turns == [turn("t-1")]
    assert store.draft("s-1") == "half a thought"


def test_sessions_are_listed_last_used_first_and_by_agent_or_folder(store: SessionStore) -> None:
    for session_id, agent, cwd in (("a", "kiro", "/x"), ("b", "demo", "/x"), ("c", "kiro", "/y")):
        store.save(record(session_id, agent=agent, cwd=cwd))
    assert [found.session_id for found in store.list()] == ["c", "b", "a"]
    assert [found.session_id for found in store.list(agent="kiro")] == ["c", "a"]
    assert [found.session_id for found in store.list(cwd="/x", limit=1)] == ["b"]


def test_a_turn_is_replaced_in_its_place_and_new_ones_come_last(store: SessionStore) -> None:
    store.save(RECORD)
    for turn_id, text in (("t-1", "a"), ("t-2", "b"), ("t-1", "a again, " + "longer " * 500), ("t-3", "\ud83d c")):
        assert store.save_turn("s-1", turn(turn_id, text))
    assert store.turns("s-1").turns == [turn("t-1", "a again, " + "longer " * 500), turn("t-2", "b"), turn("t-3", "\ud83d c")]


def test_history_is_read_in_pages_from_the_end(store: SessionStore) -> None:
    store.save(RECORD)
    for number in range(7):
        store.save_turn("s-1", turn(f"t-{number}"))
    last = store.turns("s-1", limit=3)
    assert [found["turnId"] for found in last.turns] == ["t-4", "t-5", "t-6"]
    middle = store.turns("s-1", limit=3, before=last.before)
    assert [found["turnId"] for found in middle.turns] == ["t-1", "t-2", "t-3"]
    first = store.turns("s-1", limit=3, before=middle.before)
    assert [found["turnId"] for found in first.turns] == ["t-0"]
    assert first.before is None
    assert store.turns("s-1", before="no such turn").turns == []
    assert store.turns("no such session").turns == []


def test_a_replayed_history_takes_the_place_of_the_stored_one(store: SessionStore) -> None:
    store.save(RECORD)
    store.save_turn("s-1", turn("old"))
    assert store.replace_turns("s-1", [turn("new-1"), turn("new-2")])
    assert [found["turnId"] for found in store.turns("s-1").turns] == ["new-1", "new-2"]


def test_turns_may_come_before_their_record_and_go_when_it_never_came(store: SessionStore) -> None:
    assert store.save_turn("s-1", turn("t-1"))
    assert store.save_turn("never", turn("t-1"))
    store.save(RECORD)
    store.prune()
    assert store.turns("s-1").turns == [turn("t-1")]
    assert store.turns("never").turns == []


def test_a_turn_beyond_the_size_bound_is_refused_and_the_others_are_kept(store: SessionStore) -> None:
    huge = turn("t-1", os.urandom(MAX_TURN_BYTES).hex())
    assert not store.save_turn("s-1", huge)
    assert store.turns("s-1").turns == []
    assert not store.replace_turns("s-1", [huge, turn("t-2")])
    assert store.turns("s-1").turns == [turn("t-2")]


def test_a_damaged_turn_is_left_out_and_the_others_are_shown(store: SessionStore, tmp_path: Path) -> None:
    store.save(RECORD)
    for number in range(3):
        store.save_turn("s-1", turn(f"t-{number}", "x" * 2000))
    with sqlite3.connect(tmp_path / "state" / "state.db") as other:
        other.execute("UPDATE turns SET body = ? WHERE turn_id = 't-1'", (b"no json",))
    other.close()
    assert [found["turnId"] for found in store.turns("s-1").turns] == ["t-0", "t-2"]


def test_only_the_last_turns_of_a_very_long_session_are_kept(store: SessionStore) -> None:
    store.save(RECORD)
    store.replace_turns("s-1", [turn(f"t-{number}") for number in range(MAX_TURNS_PER_SESSION + 5)])
    store.save_turn("s-1", turn("last"))
    found = store.turns("s-1", limit=MAX_TURNS_PER_SESSION * 2).turns
    assert len(found) == MAX_TURNS_PER_SESSION
    assert (found[0]["turnId"], found[-1]["turnId"]) == ("t-6", "last")


def test_a_draft_is_kept_before_there_is_a_session_and_forgotten_when_empty(store: SessionStore) -> None:
    store.save_draft("s-9", "text")
    assert store.draft("s-9") == "text"
    store.save_draft("s-9", "x" * (MAX_DRAFT_CHARS + 1))
    assert len(store.draft("s-9")) == MAX_DRAFT_CHARS
    store.save_draft("s-9", "")
    assert store.draft("s-9") == ""


def test_wishes_are_remembered_for_exactly_one_agent_generation_and_account(store: SessionStore) -> None:
    store.remember_wish(RECORD, "model", "opus")
    store.remember_wish(RECORD, "mode", "plan")
    store.remember_wish(RECORD, "mode", "vibe")
    store.remember_wish(RECORD, "effort", "high")
    store.remember_wish(RECORD, "effort", None)
    assert store.wishes("kiro", "kiro-v3", "acc") == Wishes(mode="vibe", model="opus")
    for other in (("kiro", "kiro-v2", "acc"), ("kiro", "kiro-v3", "else"), ("kiro", "kiro-v3", None), ("mine", "kiro-v3", "acc")):
        assert store.wishes(*other) == Wishes()


def test_a_deleted_session_leaves_nothing(store: SessionStore) -> None:
    store.save(RECORD)
    store.save_turn("s-1", turn("t-1"))
    store.save_draft("s-1", "text")
    transcript = store.transcript_path("s-1")
    transcript.parent.mkdir()
    transcript.write_text("chat")
    store.delete("s-1")
    assert store.get("s-1") is None
    assert store.turns("s-1").turns == []
    assert store.draft("s-1") == ""
    assert not transcript.exists()


def test_a_transcript_is_named_by_our_own_id_only(store: SessionStore, tmp_path: Path) -> None:
    assert store.transcript_path("s-1") == tmp_path / "state" / "transcripts" / "s-1.md"
    for foreign in ("", "../x", "a/b", "a\\b", "a.b", "\u00e9", "a\0", "a" * 65, "a\n"):
        with pytest.raises(SidecarBug):
            store.transcript_path(foreign)


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
def test_the_state_is_private_even_with_an_open_umask_and_when_it_was_open_before(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    before = os.umask(0)
    try:
        for _ in range(2):
            store = SessionStore(folder)
            store.save(RECORD)
            for path in (folder, folder / "owners"):
                assert stat.S_IMODE(path.stat().st_mode) == 0o700
            files = [path for path in folder.rglob("*") if path.is_file()]
            assert {"state.db", "state.db-wal", "state.db-shm"} <= {path.name for path in files}
            assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
            store.close()
            folder.chmod(0o755)
            (folder / "state.db").chmod(0o644)
    finally:
        os.umask(before)


def test_pruning_removes_the_least_recently_used_but_not_what_runs_or_has_a_draft(store: SessionStore, tmp_path: Path) -> None:
    other = SessionStore(tmp_path / "state")
    for session_id in ("running", "drafted", "a", "b", "c"):
        store.save(record(session_id))
        store.save_turn(session_id, turn("t-1", os.urandom(5_000).hex()))
    assert other.claim("running")
    store.save_draft("drafted", "text")
    assert list(store.prune(max_sessions=2)) == ["a"]
    assert [found.session_id for found in store.list()] == ["c", "b", "drafted", "running"]
    store.prune(max_turns_bytes=12_000)
    assert {session_id: len(store.turns(session_id).turns) for session_id in ("running", "drafted", "b", "c")} == {
        "running": 1,
        "drafted": 0,
        "b": 0,
        "c": 1,
    }
    other.close()


def test_a_session_belongs_to_one_living_sidecar_at_a_time(store: SessionStore, tmp_path: Path) -> None:
    other = SessionStore(tmp_path / "state")
    store.save(RECORD)
    assert store.claim("s-1")
    assert store.claim("s-1")
    assert not other.claim("s-1")
    other.release("s-1")
    assert not other.claim("s-1")
    store.release("s-1")
    assert other.claim("s-1")
    assert not store.claim("s-1")
    other.close()
    assert store.claim("s-1")
    assert store.claim("a session not saved yet")


def test_saving_a_record_does_not_change_who_owns_it(store: SessionStore, tmp_path: Path) -> None:
    other = SessionStore(tmp_path / "state")
    store.save(RECORD)
    assert store.claim("s-1")
    other.save(record("s-1", title="seen elsewhere"))
    assert not other.claim("s-1")
    other.close()
