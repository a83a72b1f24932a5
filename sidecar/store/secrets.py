"""Where secrets given to the sidecar are kept: the system's keyring, a private file, or memory, as the user chose.

A keyring that is missing, locked or hanging is told within ``KEYRING_SECONDS`` with the choices there are; plain text on disk
only after ``[secrets] store = "file"``. What could not be kept stays usable until the process ends.
"""

import hashlib
import json
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, cast

import anyio
import anyio.to_thread

from sidecar.errors import Unavailable
from sidecar.log import register_secret
from sidecar.secret import SecretText

KEYRING_SECONDS: Final = 3.0
SERVICE: Final = "sidecar"
MAX_SECRET_FILE_BYTES: Final = 1024 * 1024
# Back ends that keep plain text, or nothing at all, while looking like a keyring.
_UNSAFE_BACKENDS: Final = ("keyrings.alt", "keyring.backends.null", "keyring.backends.fail")
_CHOICES: Final = (
    'set [secrets] store = "file" (a private file, not encrypted) or "memory" in the configuration, or use { env = "NAME" }'
)

T = TypeVar("T")


class SecretStore(Protocol):
    """Secrets by name. All methods raise ``Unavailable`` with a sentence that says the fix."""

    @property
    def kind(self) -> str:
        """``keyring``, ``file`` or ``memory``."""
        ...

    async def get(self, name: str) -> SecretText | None:
        """Return the secret, or None when there is none of that name."""
        ...

    async def put(self, name: str, secret: SecretText) -> None:
        """Keep the secret, replacing an older one."""
        ...

    async def delete(self, name: str) -> bool:
        """Forget the secret; False when there was none."""
        ...


def open_secret_store(kind: str, state: Path) -> SecretStore:
    """Return the store the user chose (``Settings.secrets.store``); ``state`` is the state folder. Touches nothing yet."""
    if kind == "memory":
        return MemorySecrets()
    return FileSecrets(state / "secrets") if kind == "file" else KeyringSecrets()


class MemorySecrets:
    """Secrets until the process ends."""

    kind = "memory"

    def __init__(self) -> None:
        self._held: dict[str, SecretText] = {}

    async def get(self, name: str) -> SecretText | None:
        return self._held.get(name)

    async def put(self, name: str, secret: SecretText) -> None:
        register_secret(secret)
        self._held[name] = secret

    async def delete(self, name: str) -> bool:
        return self._held.pop(name, None) is not None


class KeyringSecrets:
    """The system's keyring, through the optional package ``keyring``; every call in a thread with a limit.

    ``load`` returns the back end (tests give their own); the default imports the package on first use.
    """

    kind = "keyring"

    def __init__(self, load: Callable[[], Any] | None = None, *, seconds: float = KEYRING_SECONDS) -> None:
        self._load = load or _load_backend
        self._seconds = seconds
        self._held: dict[str, SecretText] = {}

    async def get(self, name: str) -> SecretText | None:
        held = self._held.get(name)
        if held is not None:
            return held
        value = await self._call("read", lambda backend: backend.get_password(SERVICE, name))
        if not isinstance(value, str):
            return None
        register_secret(value)
        return SecretText(value)

    async def put(self, name: str, secret: SecretText) -> None:
        register_secret(secret)
        # Held first: a sign-in must not be lost because the keyring would not take it.
        self._held[name] = secret
        await self._call("write", lambda backend: backend.set_password(SERVICE, name, secret.reveal()))

    async def delete(self, name: str) -> bool:
        held = self._held.pop(name, None) is not None

        def forget(backend: Any) -> bool:
            if backend.get_password(SERVICE, name) is None:
                return False
            backend.delete_password(SERVICE, name)
            return True

        return await self._call("change", forget) or held

    async def _call(self, act: str, use: Callable[[Any], T]) -> T:
        outcome: list[T] = []
        with anyio.move_on_after(self._seconds):
            outcome.append(await anyio.to_thread.run_sync(self._guarded, act, use, abandon_on_cancel=True))
        if not outcome:
            raise Unavailable(
                f"the system keyring did not answer within {self._seconds:g} s (is it locked?); unlock it, or {_CHOICES}"
            )
        return outcome[0]

    def _guarded(self, act: str, use: Callable[[Any], T]) -> T:
        try:
            return use(self._load())
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001  # back ends raise whatever their platform's library raises
            raise Unavailable(
                f"the system keyring could not be used to {act} a secret ({type(error).__name__}); {_CHOICES}"
            ) from None


def _load_backend() -> Any:
    try:
        import keyring  # slow to import and optional
    except ImportError:
        raise Unavailable(f"the package keyring is missing; install acp-sidecar[keyring], or {_CHOICES}") from None
    backend = cast("Any", keyring.get_keyring())
    module = type(backend).__module__
    if module.startswith(_UNSAFE_BACKENDS):
        raise Unavailable(f"there is no safe system keyring here ({module}); {_CHOICES}")
    return backend


class FileSecrets:
    """One private file (0600) for each secret in a private folder (0700); not encrypted.

    Files that others could have read or planted are refused: wrong owner or mode, links, a folder others can enter.
    Writing goes through a new file and a rename, so that an old secret is whole until the new one is.
    """

    kind = "file"

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def get(self, name: str) -> SecretText | None:
        value = await anyio.to_thread.run_sync(self._read, name)
        if value is None:
            return None
        register_secret(value)
        return SecretText(value)

    async def put(self, name: str, secret: SecretText) -> None:
        register_secret(secret)
        await anyio.to_thread.run_sync(self._write, name, secret)

    async def delete(self, name: str) -> bool:
        return await anyio.to_thread.run_sync(self._remove, name)

    def _path(self, name: str) -> Path:
        return self._directory / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.json"

    def _read(self, name: str) -> str | None:
        path = self._path(name)
        try:
            self._check_directory()
            # NONBLOCK: a planted named pipe must not hang the start.
            flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
            descriptor = os.open(path, flags)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _file_fault(path, error) from None
        with os.fdopen(descriptor, "rb") as file:
            check_private_file(path, os.fstat(descriptor))
            data = file.read(MAX_SECRET_FILE_BYTES)
        return _secret_in(data, name, path)

    def _check_directory(self) -> None:
        found = self._directory.lstat()
        if stat.S_ISLNK(found.st_mode) or not stat.S_ISDIR(found.st_mode):
            raise Unavailable(f"{self._directory} is not a folder of its own; remove it, the sidecar makes a new one")
        if hasattr(os, "getuid") and found.st_uid != os.getuid():
            raise Unavailable(f"{self._directory} belongs to another user; secrets in it are not used")
        if os.name == "posix" and stat.S_IMODE(found.st_mode) & 0o077:
            raise Unavailable(f"others can enter {self._directory}, so it is not used. Fix: chmod 700 {self._directory}")

    def _write(self, name: str, secret: SecretText) -> None:
        path = self._path(name)
        fresh = path.with_suffix(f".{os.urandom(8).hex()}.new")
        data = json.dumps({"version": 1, "name": name, "secret": secret.reveal()}).encode()
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_directory()
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                fresh.replace(path)
            except OSError:
                fresh.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise _file_fault(path, error) from None

    def _remove(self, name: str) -> bool:
        path = self._path(name)
        try:
            self._check_directory()
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _file_fault(path, error) from None
        return True


def check_private_file(path: Path, found: os.stat_result) -> None:
    """Raise ``Unavailable`` with the fix unless the opened file ``found`` is regular, ours alone, and has one name."""
    if not stat.S_ISREG(found.st_mode):
        raise Unavailable(f"{path} is not a regular file; remove it and give the secret again")
    if hasattr(os, "getuid") and found.st_uid != os.getuid():
        raise Unavailable(f"{path} belongs to another user and is not used; remove it and give the secret again")
    if os.name == "posix" and stat.S_IMODE(found.st_mode) & 0o077:
        raise Unavailable(
            f"{path} can be read by others and is not used. Fix: chmod 600 {path}, and give the secret anew if others had access"
        )
    if found.st_nlink != 1:
        raise Unavailable(f"{path} has a second name (hard link) and is not used; remove it and give the secret again")


def _file_fault(path: Path, error: OSError) -> Unavailable:
    if path.is_symlink():
        return Unavailable(f"{path} is a symbolic link and is not used; remove it and give the secret again")
    return Unavailable(f"the secret file {path} cannot be used: {error.strerror or 'input/output error'}")


def _secret_in(data: bytes, name: str, path: Path) -> str:
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, Mapping):
        table = cast("Mapping[str, Any]", value)
        if table.get("version") == 1 and table.get("name") == name and isinstance(table.get("secret"), str):
            return table["secret"]
    raise Unavailable(
        f"{path} does not hold a secret this version can read; give it again with: sidecar config set-secret {name}"
    )
