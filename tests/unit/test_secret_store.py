"""Where secrets are kept: files nobody else could read, keyrings that fail, and never plain text by surprise."""

import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from sidecar.errors import Unavailable
from sidecar.secret import SecretText
from sidecar.store.secrets import FileSecrets, KeyringSecrets, MemorySecrets, check_private_file, open_secret_store

pytestmark = pytest.mark.anyio
POSIX = pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
VALUE = SecretText("planted-secret-0099")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "secrets"


async def kept(folder: Path) -> Path:
    """Keep one secret and return its file."""
    await FileSecrets(folder).put("docs", VALUE)
    (file,) = folder.iterdir()
    return file


async def test_a_secret_is_kept_replaced_read_and_forgotten(folder: Path) -> None:
    store = FileSecrets(folder)
    assert await store.get("docs") is None
    await store.put("docs", SecretText("one-of-them"))
    await store.put("docs", VALUE)
    await store.put("other", SecretText("other-value"))
    assert await FileSecrets(folder).get("docs") == VALUE
    assert await store.delete("docs")
    assert not await store.delete("docs")
    assert await store.get("docs") is None
    assert await store.get("other") == SecretText("other-value")


@POSIX
async def test_files_are_0600_in_0700_whatever_the_umask(folder: Path) -> None:
    before = os.umask(0)
    try:
        file = await kept(folder)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@POSIX
async def test_the_name_of_a_secret_never_becomes_a_file_name(folder: Path) -> None:
    await FileSecrets(folder).put("../../docs", VALUE)
    (file,) = folder.iterdir()
    assert "docs" not in file.name
    assert await FileSecrets(folder).get("../../docs") == VALUE


def open_to_others(file: Path) -> None:
    file.chmod(0o644)


def symlinked(file: Path) -> None:
    target = file.parent.parent / "target.json"
    file.rename(target)
    file.symlink_to(target)


def hard_linked(file: Path) -> None:
    os.link(file, file.parent.parent / "second")


def a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


def folder_open_to_all(file: Path) -> None:
    file.parent.chmod(0o777)


def folder_is_a_link(file: Path) -> None:
    moved = file.parent.with_name("moved")
    file.parent.rename(moved)
    file.parent.symlink_to(moved)


def corrupt(file: Path) -> None:
    file.write_text('{"version": 1, "name": "docs", "sec')


def of_a_newer_version(file: Path) -> None:
    file.write_text('{"version": 2, "name": "docs", "secret": "x"}')


def of_another_secret(file: Path) -> None:
    file.write_text('{"version": 1, "name": "other", "secret": "x"}')


@POSIX
@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (open_to_others, "Fix: chmod 600"),
        (symlinked, "is a symbolic link"),
        (hard_linked, "hard link"),
        (a_pipe, "is not a regular file"),
        (folder_open_to_all, "Fix: chmod 700"),
        (folder_is_a_link, "is not a folder of its own"),
        (corrupt, "does not hold a secret this version can read"),
        (of_a_newer_version, "does not hold a secret this version can read"),
        (of_another_secret, "does not hold a secret this version can read"),
    ],
)
async def test_a_file_others_could_have_read_or_planted_is_refused_with_the_fix(
    folder: Path, spoil: Callable[[Path], None], told: str
) -> None:
    spoil(await kept(folder))
    with anyio.fail_after(5), pytest.raises(Unavailable, match=told) as caught:
        await FileSecrets(folder).get("docs")
    assert "planted" not in caught.value.message


@POSIX
def test_a_file_of_another_owner_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("")
    file.chmod(0o600)
    found = list(file.stat())
    found[stat.ST_UID] = os.getuid() + 1
    with pytest.raises(Unavailable, match="belongs to another user"):
        check_private_file(file, os.stat_result(found))


@POSIX
async def test_writing_replaces_a_planted_link_and_leaves_its_target_alone(folder: Path, tmp_path: Path) -> None:
    file = await kept(folder)
    target = tmp_path / "target"
    target.write_text("untouched")
    file.unlink()
    file.symlink_to(target)
    await FileSecrets(folder).put("docs", VALUE)
    assert target.read_text() == "untouched"
    assert not file.is_symlink()
    assert await FileSecrets(folder).get("docs") == VALUE


async def test_a_write_that_fails_keeps_the_old_secret_and_leaves_nothing_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = await kept(folder)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("sidecar.store.secrets.os.fsync", full)
        with pytest.raises(Unavailable, match="No space left"):
            await FileSecrets(folder).put("docs", SecretText("new-one"))
    assert list(folder.iterdir()) == [file]
    assert await FileSecrets(folder).get("docs") == VALUE


class Backend:
    """A keyring in memory."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, name: str) -> str | None:
        return self.held.get((service, name))

    def set_password(self, service: str, name: str, value: str) -> None:
        self.held[service, name] = value

    def delete_password(self, service: str, name: str) -> None:
        del self.held[service, name]


class Failing(Backend):
    """A keyring whose library raises an error of its own on every call."""

    def get_password(self, service: str, name: str) -> str | None:
        raise LookupError(f"bus {VALUE.reveal()}")

    def set_password(self, service: str, name: str, value: str) -> None:
        raise LookupError(f"bus {value}")


async def test_a_keyring_keeps_secrets_under_our_service() -> None:
    backend = Backend()
    store = KeyringSecrets(lambda: backend)
    await store.put("docs", VALUE)
    assert backend.held == {("sidecar", "docs"): VALUE.reveal()}
    assert await KeyringSecrets(lambda: backend).get("docs") == VALUE
    assert await store.delete("docs")
    assert not await store.delete("docs")
    assert await store.get("docs") is None


async def test_a_keyring_that_fails_is_told_with_the_choices_and_the_secret_is_not_lost() -> None:
    store = KeyringSecrets(Failing)
    with pytest.raises(Unavailable) as caught:
        await store.get("docs")
    assert 'store = "file"' in caught.value.message
    assert "planted" not in caught.value.message
    with pytest.raises(Unavailable, match="write a secret \\(LookupError\\)"):
        await store.put("docs", VALUE)
    assert await store.get("docs") == VALUE


@pytest.fixture
def stuck() -> Iterator[Callable[[], Any]]:
    """A keyring that blocks until the test is over."""
    release = threading.Event()

    class Stuck(Backend):
        def get_password(self, service: str, name: str) -> str | None:
            release.wait(30)
            return None

        def set_password(self, service: str, name: str, value: str) -> None:
            release.wait(30)

    yield Stuck
    release.set()


async def test_a_keyring_that_hangs_is_given_up_in_time_and_the_secret_is_not_lost(stuck: Callable[[], Any]) -> None:
    store = KeyringSecrets(stuck, seconds=0.05)
    with anyio.fail_after(5):
        with pytest.raises(Unavailable, match="did not answer within"):
            await store.get("docs")
        with pytest.raises(Unavailable, match="did not answer within"):
            await store.put("docs", VALUE)
    assert await store.get("docs") == VALUE


async def test_without_a_keyring_here_the_real_package_is_told_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring = pytest.importorskip("keyring")
    fail = pytest.importorskip("keyring.backends.fail")
    null = pytest.importorskip("keyring.backends.null")
    before = keyring.get_keyring()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    try:
        for backend in (fail.Keyring(), null.Keyring()):
            keyring.set_keyring(backend)
            store = open_secret_store("keyring", tmp_path)
            with pytest.raises(Unavailable, match="no safe system keyring"):
                await store.put("docs", VALUE)
    finally:
        keyring.set_keyring(before)
    assert list(tmp_path.iterdir()) == []


async def test_the_store_is_the_one_the_user_chose(tmp_path: Path) -> None:
    assert [open_secret_store(kind, tmp_path).kind for kind in ("keyring", "file", "memory")] == ["keyring", "file", "memory"]
    assert list(tmp_path.iterdir()) == []


async def test_memory_keeps_a_secret_until_it_is_forgotten() -> None:
    store = MemorySecrets()
    await store.put("docs", VALUE)
    assert await store.get("docs") == VALUE
    assert await store.delete("docs")
    assert await store.get("docs") is None
