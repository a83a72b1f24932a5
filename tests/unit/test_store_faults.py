"""A state file that cannot be used: the store starts in reduced mode with one message and destroys nothing (O42)."""

import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sidecar.store import database as database_module
from sidecar.store.database import Database, StoreBusy
from sidecar.store.migrations import SCHEMA_VERSION
from sidecar.store.records import SessionRecord
from sidecar.store.sessions import SessionStore

RECORD = SessionRecord(session_id="s-1", agent="demo", cwd="/work", created_at="2026", updated_at="2026")
LATER = SessionRecord(session_id="s-2", agent="demo", cwd="/work", created_at="2027", updated_at="2027")


def filled(folder: Path) -> Path:
    store = SessionStore(folder)
    assert store.reduced is None
    store.save(RECORD)
    store.save_turn("s-1", {"turnId": "t-1", "text": "kept"})
    store.close()
    return folder / "state.db"


def assert_works_in_memory(store: SessionStore, why: str) -> None:
    assert store.reduced is not None
    assert why in store.reduced
    assert "in memory only" in store.reduced
    store.save(LATER)
    assert store.save_turn("s-2", {"turnId": "t-1"})
    assert store.get("s-2") == LATER
    assert store.claim("s-2")


@pytest.mark.parametrize(
    "content", [b"not a database at all", b"\0" * 4096, b"SQLite format 3\0", b"x" * 200, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_a_damaged_file_is_left_byte_for_byte_and_the_store_works_in_memory(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(content)
    store = SessionStore(tmp_path)
    assert_works_in_memory(store, "damaged")
    store.close()
    assert path.read_bytes() == content


def test_damage_inside_the_file_is_noticed_and_the_file_is_kept(tmp_path: Path) -> None:
    path = filled(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))
    damaged = path.read_bytes()
    store = SessionStore(tmp_path)
    assert_works_in_memory(store, "damaged")
    store.close()
    assert path.read_bytes() == damaged


def test_damage_that_shows_only_later_turns_to_memory_in_the_middle_of_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = filled(tmp_path)

    def see_nothing(connection: sqlite3.Connection) -> None:
        del connection

    monkeypatch.setattr(database_module, "_check_tables", see_nothing)
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))
    store = SessionStore(tmp_path)
    assert store.reduced is None
    assert store.get("s-1") is None
    assert_works_in_memory(store, "damaged")
    store.close()


def test_a_file_of_a_newer_version_is_not_even_opened(tmp_path: Path) -> None:
    path = filled(tmp_path)
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        connection.execute("ALTER TABLE sessions ADD COLUMN surprise TEXT")
    connection.close()
    before, names = path.read_bytes(), sorted(tmp_path.iterdir())
    store = SessionStore(tmp_path)
    assert_works_in_memory(store, "newer version")
    assert store.get("s-1") is None
    store.close()
    assert path.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == names


def test_a_newer_version_that_stands_in_the_log_beside_the_file_is_noticed_too(tmp_path: Path) -> None:
    path = filled(tmp_path)
    other = sqlite3.connect(path)
    other.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    store = SessionStore(tmp_path)
    assert_works_in_memory(store, "newer version")
    store.close()
    assert other.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION + 1
    assert other.execute("SELECT COUNT(*) FROM sessions").fetchone()[0] == 1
    other.close()


def test_an_empty_file_is_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "state.db").touch()
    store = SessionStore(tmp_path)
    assert store.reduced is None
    store.close()


@pytest.mark.parametrize("kind", ["folder", "link", "state folder is a file"])
def test_what_is_no_regular_file_is_not_used(tmp_path: Path, kind: str) -> None:
    folder, target = tmp_path / "state", tmp_path / "target"
    if kind == "state folder is a file":
        folder.write_text("mine")
    else:
        folder.mkdir()
        if kind == "link":
            (folder / "state.db").symlink_to(target)
        else:
            (folder / "state.db").mkdir()
    store = SessionStore(folder)
    assert_works_in_memory(store, str(folder))
    store.close()
    assert not target.exists()


def test_two_sidecars_start_at_once_on_a_new_folder_and_share_it(tmp_path: Path) -> None:
    stores = list[SessionStore]()
    threads = [threading.Thread(target=lambda: stores.append(SessionStore(tmp_path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert [store.reduced for store in stores] == [None] * 8
    for number, store in enumerate(stores):
        store.save(SessionRecord(session_id=f"s-{number}", agent="demo", cwd="/"))
    assert {len(store.list()) for store in stores} == {8}
    assert len([store for store in stores if store.claim("s-0")]) == 1
    for store in stores:
        store.close()


def test_a_locked_file_at_the_start_gives_reduced_mode_within_the_busy_wait(tmp_path: Path) -> None:
    path = filled(tmp_path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    began = time.monotonic()
    database = Database(path, busy_wait=0.2)
    assert time.monotonic() - began < 3
    assert database.reduced is not None
    assert "locked" in database.reduced
    database.close()
    other.execute("ROLLBACK")
    other.close()
    store = SessionStore(tmp_path)
    assert store.get("s-1") == RECORD
    store.close()


def test_a_file_somebody_writes_to_can_be_read_and_a_write_fails_in_bounded_time_until_it_is_free(
    tmp_path: Path,
) -> None:
    path = filled(tmp_path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    database = Database(path, busy_wait=0.2)
    assert database.reduced is None
    assert database.read(lambda db: db.execute("SELECT COUNT(*) FROM turns").fetchone()[0]) == 1
    began = time.monotonic()
    with pytest.raises(StoreBusy, match="locked by another program"):
        database.write(lambda db: db.execute("DELETE FROM turns"))
    assert time.monotonic() - began < 2
    other.execute("ROLLBACK")
    other.close()
    database.write(lambda db: db.execute("DELETE FROM turns"))
    assert database.reduced is None
    database.close()


def test_a_write_that_fails_halfway_leaves_nothing(tmp_path: Path) -> None:
    database = Database(tmp_path / "state.db")

    def halfway(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO drafts VALUES ('a', 'b', 'c')")
        raise KeyError("stop")

    with pytest.raises(KeyError):
        database.write(halfway)
    assert database.read(lambda db: db.execute("SELECT COUNT(*) FROM drafts").fetchone()[0]) == 0
    database.close()


SCRIPT = """
import sys
from pathlib import Path
from sidecar.store.records import SessionRecord
from sidecar.store.sessions import SessionStore
{before}
store = SessionStore(Path(sys.argv[1]))
{between}
first = store.get("s-1")
assert first is not None and first.title == "old", first
assert store.turns("s-1").turns == [{{"turnId": "t-1", "text": "kept"}}]
saved = 0
for number in range(40):
    store.save(SessionRecord(session_id=f"n-{{number}}", agent="demo", cwd="/"))
    saved += store.save_turn(f"n-{{number}}", {{"turnId": "t", "text": __import__("os").urandom(50000).hex()}})
assert saved == 40
assert len(store.list(limit=100)) == 41
print(store.reduced)
store.close()
"""


def run_script(folder: Path, *, before: str = "", between: str = "", prefix: list[str] | None = None) -> str:
    script = SCRIPT.format(before=before, between=between)
    command = [*(prefix or []), sys.executable, "-c", script, str(folder)]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def prepared(folder: Path) -> None:
    store = SessionStore(folder)
    store.save(SessionRecord(session_id="s-1", agent="demo", cwd="/work", title="old"))
    store.save_turn("s-1", {"turnId": "t-1", "text": "kept"})
    store.close()


def assert_good_state_is_left(folder: Path) -> None:
    store = SessionStore(folder)
    assert store.reduced is None
    assert store.get("s-1") is not None
    assert store.turns("s-1").turns == [{"turnId": "t-1", "text": "kept"}]
    store.close()


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="the limit is POSIX")
def test_a_file_that_may_not_grow_turns_the_store_to_memory_with_everything_read_so_far(tmp_path: Path) -> None:
    prepared(tmp_path)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))"
    message = run_script(tmp_path, before=limit)
    assert "in memory only" in message
    assert_good_state_is_left(tmp_path)


def in_namespace(steps: str) -> list[str]:
    """Run the rest of the argv where ``steps`` may mount, or skip."""
    unshare = shutil.which("unshare")
    probe = [unshare or "", "-rm", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    if unshare is None or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("mount namespaces are not available here")
    return [unshare, "-rm", "sh", "-c", f'{steps} && exec "$@"', "sh"]


@pytest.mark.process
def test_a_full_disk_turns_the_store_to_memory_with_everything_read_so_far(tmp_path: Path) -> None:
    prepared(tmp_path / "good")
    disk = tmp_path / "disk"
    disk.mkdir()
    steps = f"mount -t tmpfs -o size=400k,mode=700 tmpfs {disk} && cp {tmp_path}/good/state.db {disk}"
    check = f"\nassert_left = open('{disk}/state.db', 'rb').read(16)\nassert assert_left == b'SQLite format 3\\0'"
    message = run_script(disk, prefix=in_namespace(steps), between=check)
    assert "the disk is full" in message


@pytest.mark.process
def test_a_read_only_home_is_read_and_the_rest_stays_in_memory(tmp_path: Path) -> None:
    prepared(tmp_path)
    before = (tmp_path / "state.db").read_bytes()
    steps = f"mount --bind {tmp_path} {tmp_path} && mount -o remount,bind,ro {tmp_path}"
    message = run_script(tmp_path, prefix=in_namespace(steps))
    assert "cannot be written" in message
    assert (tmp_path / "state.db").read_bytes() == before


@pytest.mark.process
def test_a_home_that_cannot_even_be_made_gives_reduced_mode(tmp_path: Path) -> None:
    steps = f"mount --bind {tmp_path} {tmp_path} && mount -o remount,bind,ro {tmp_path}"
    script = "import sys; from pathlib import Path; from sidecar.store.sessions import SessionStore\n"
    script += "store = SessionStore(Path(sys.argv[1])); print(store.reduced); assert store.claim('x'); store.close()"
    command = [*in_namespace(steps), sys.executable, "-c", script, str(tmp_path / "a" / "b")]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert "cannot be used" in done.stdout


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="the signal is POSIX")
def test_a_killed_sidecar_loses_nothing_saved_and_frees_its_sessions(tmp_path: Path) -> None:
    prepared(tmp_path)
    script = (
        "import os, sys; from pathlib import Path; from sidecar.store.sessions import SessionStore\n"
        "store = SessionStore(Path(sys.argv[1])); assert store.claim('s-1'); store.save_draft('s-1', 'typed')\n"
        "print('ready', flush=True); sys.stdin.read(); os.kill(os.getpid(), 9)"
    )
    root = Path(__file__).resolve().parents[2]
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    store = SessionStore(tmp_path)
    assert not store.claim("s-1")
    child.communicate(timeout=10)
    assert store.claim("s-1")
    assert store.draft("s-1") == "typed"
    assert len(list((tmp_path / "owners").iterdir())) == 1
    store.close()
