"""The store off the loop: order, merging, durability on flush, a locked file, and the one message of reduced mode."""

import sqlite3
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from sidecar.errors import Unavailable
from sidecar.store import worker as worker_module
from sidecar.store.database import Database, StoreBusy
from sidecar.store.records import SessionRecord
from sidecar.store.sessions import SessionStore
from sidecar.store.worker import StoreWorker

pytestmark = pytest.mark.anyio

PATIENCE = 5.0


def record(session_id: str, title: str = "") -> SessionRecord:
    return SessionRecord(session_id=session_id, agent="demo", cwd="/work", title=title)


@asynccontextmanager
async def running(open_store: Callable[[], SessionStore], troubles: list[str] | None = None) -> AsyncGenerator[StoreWorker, None]:
    worker = StoreWorker(open_store, (troubles if troubles is not None else []).append)
    async with anyio.create_task_group() as group:
        group.start_soon(worker.run)
        with anyio.fail_after(4 * PATIENCE):
            yield worker
        group.cancel_scope.cancel()


async def test_what_is_posted_runs_in_order_and_a_call_sees_all_of_it(tmp_path: Path) -> None:
    async with running(lambda: SessionStore(tmp_path)) as worker:
        worker.post(lambda store: store.save(record("a")))
        worker.post(lambda store: store.save_turn("a", {"turnId": "t-1"}))
        worker.post(lambda store: store.save_turn("a", {"turnId": "t-2"}))
        history = await worker.call(lambda store: store.turns("a"))
    assert [turn["turnId"] for turn in history.turns] == ["t-1", "t-2"]


async def test_what_was_flushed_is_durable_for_others(tmp_path: Path) -> None:
    async with running(lambda: SessionStore(tmp_path)) as worker:
        worker.post(lambda store: store.save(record("a")))
        await worker.flush()
        other = SessionStore(tmp_path)
        assert other.get("a") is not None
        other.close()


async def test_what_is_posted_last_before_the_end_is_still_written(tmp_path: Path) -> None:
    async with running(lambda: SessionStore(tmp_path)) as worker:
        await worker.flush()
        worker.post(lambda store: store.save(record("a")))
    other = SessionStore(tmp_path)
    assert other.get("a") is not None
    other.close()
    worker.post(lambda store: store.save(record("b")))
    with pytest.raises(Unavailable):
        await worker.call(lambda store: store.get("a"))


async def test_posts_with_one_key_become_one_write_but_never_across_one_without() -> None:
    seen = list[str]()
    async with running(lambda: SessionStore(None)) as worker:
        for text in ("a1", "a2"):
            worker.post(lambda _, text=text: seen.append(text), key="a")
        worker.post(lambda _: seen.append("b1"), key="b")
        worker.post(lambda _: seen.append("a3"), key="a")
        worker.post(lambda _: seen.append("barrier"))
        worker.post(lambda _: seen.append("a4"), key="a")
        await worker.flush()
    assert seen == ["a3", "b1", "barrier", "a4"]


async def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    opened = list[int]()

    def open_store() -> SessionStore:
        opened.append(threading.get_ident())
        return SessionStore(tmp_path)

    async with running(open_store) as worker:
        await anyio.wait_all_tasks_blocked()
        assert opened == []
        await worker.flush()
        assert opened != [threading.get_ident()]
        assert len(opened) == 1


async def test_the_loop_is_never_held_up_by_a_slow_store() -> None:
    release = threading.Event()
    async with running(lambda: SessionStore(None)) as worker:
        worker.post(lambda _: release.wait(PATIENCE))
        await anyio.wait_all_tasks_blocked()
        began = time.perf_counter()
        for _ in range(100):
            worker.post(lambda store: store.save(record("a")), key="a")
        assert time.perf_counter() - began < 0.5
        release.set()
        assert await worker.call(lambda store: store.get("a")) is not None


async def test_an_error_of_a_call_is_raised_where_it_was_called_and_one_of_a_post_is_told_without_its_text() -> None:
    troubles = list[str]()

    def fail(_: SessionStore) -> None:
        raise ValueError("S3NT1NEL")

    async with running(lambda: SessionStore(None), troubles) as worker:
        with pytest.raises(ValueError, match="S3NT1NEL"):
            await worker.call(fail)
        worker.post(fail)
        worker.post(fail)
        await worker.flush()
    assert troubles == ["Something of a session could not be saved (ValueError)."]


async def test_reduced_mode_is_told_exactly_once(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"damaged")
    troubles = list[str]()
    async with running(lambda: SessionStore(tmp_path), troubles) as worker:
        for _ in range(3):
            worker.post(lambda store: store.save(record("a")))
            await worker.flush()
        assert await worker.call(lambda store: store.get("a")) is not None
    assert len(troubles) == 1
    assert "in memory only" in troubles[0]


def impatient(folder: Path) -> SessionStore:
    store = SessionStore(folder)
    path = store.database.path
    store.database.close()
    store.database = Database(path, busy_wait=0.1)
    return store


async def test_while_the_file_is_locked_posts_wait_in_order_and_calls_fail_until_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "BUSY_RETRY_SECONDS", 0.1)
    troubles = list[str]()
    async with running(lambda: impatient(tmp_path), troubles) as worker:
        worker.post(lambda store: store.save(record("a", "first")))
        await worker.flush()
        other = sqlite3.connect(tmp_path / "state.db", isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        worker.post(lambda store: store.save(record("a", "second")))
        worker.post(lambda store: store.save(record("a", "third")))
        with pytest.raises(StoreBusy):
            await worker.flush()
        other.execute("ROLLBACK")
        other.close()
        while (found := await worker.call(lambda store: store.get("a"))) is None or found.title != "third":
            await anyio.lowlevel.checkpoint()
    assert len(troubles) == 1
    assert "tried again" in troubles[0]


async def test_a_flood_of_posts_is_bounded_and_told() -> None:
    release = threading.Event()
    troubles = list[str]()
    async with running(lambda: SessionStore(None), troubles) as worker:
        worker.post(lambda _: release.wait(PATIENCE))
        await anyio.wait_all_tasks_blocked()
        for _ in range(worker_module.MAX_POSTED + 10):
            worker.post(lambda _: None)
        assert troubles == ["Sessions are not saved for now: the state folder does not answer."]
        release.set()
        await worker.flush()


async def test_a_store_locked_at_the_end_ends_in_bounded_time_and_says_what_was_lost(tmp_path: Path) -> None:
    troubles = list[str]()
    began = time.monotonic()
    async with running(lambda: impatient(tmp_path), troubles) as worker:
        await worker.flush()
        other = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        for _ in range(50):
            worker.post(lambda store: store.save(record("a")))
    other.close()
    assert time.monotonic() - began < PATIENCE
    assert any("could not be saved" in trouble for trouble in troubles)
