"""Where the configuration, the state and the runtime files lie, and that nobody else can read what is ours."""

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sidecar.errors import ConfigFault, Unavailable

PRIVATE_DIRECTORY_MODE: Final = 0o700
PRIVATE_FILE_MODE: Final = 0o600
_APPLICATION: Final = "sidecar"


def config_file(explicit: str | None = None, environ: Mapping[str, str] | None = None) -> tuple[Path, bool]:
    """Return the configuration file and whether it was named by the user (then it must exist).

    ``explicit`` (--config) is relative to the working directory; SIDECAR_CONFIG must be absolute.
    """
    env = os.environ if environ is None else environ
    if explicit:
        return Path(explicit).expanduser().absolute(), True
    named = _absolute_variable("SIDECAR_CONFIG", env)
    if named is not None:
        return named, True
    return _base("XDG_CONFIG_HOME", ".config", "user_config_path", env) / "config.toml", False


def state_directory(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder of the sidecar's state (SIDECAR_STATE, else $XDG_STATE_HOME/sidecar); it need not exist yet."""
    env = os.environ if environ is None else environ
    return _absolute_variable("SIDECAR_STATE", env) or _base("XDG_STATE_HOME", ".local/state", "user_state_path", env)


def runtime_directory(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder of short-lived files and sockets ($XDG_RUNTIME_DIR/sidecar, else ``run`` in the state folder)."""
    env = os.environ if environ is None else environ
    base = env.get("XDG_RUNTIME_DIR", "")
    usable = Path(base).is_absolute() and Path(base).is_dir()
    return Path(base) / _APPLICATION if usable else state_directory(env) / "run"


def private_directory(path: Path) -> Path:
    """Make ``path`` a folder only its owner can enter (0700) and return it.

    A folder of ours that is open to others is closed; one of somebody else's raises ``Unavailable``, as does a disk that is full
    or read-only.
    """
    try:
        path.mkdir(mode=PRIVATE_DIRECTORY_MODE, parents=True, exist_ok=True)
        found = path.stat()
        if not stat.S_ISDIR(found.st_mode):
            raise Unavailable(f"{path} is not a folder; move it away")
        if hasattr(os, "getuid") and found.st_uid != os.getuid():
            raise Unavailable(f"{path} belongs to another user; set SIDECAR_STATE to a folder of your own")
        if stat.S_IMODE(found.st_mode) & 0o077:
            path.chmod(PRIVATE_DIRECTORY_MODE)
    except FileExistsError:
        raise Unavailable(f"{path} is not a folder; move it away") from None
    except OSError as error:
        raise Unavailable(f"the folder {path} cannot be used: {error.strerror or 'input/output error'}") from None
    return path


def _absolute_variable(name: str, env: Mapping[str, str]) -> Path | None:
    value = env.get(name, "")
    if not value:
        return None
    if not Path(value).is_absolute():
        raise ConfigFault(f"the environment variable {name} must hold an absolute path")
    return Path(value)


def _base(variable: str, below_home: str, elsewhere: str, env: Mapping[str, str]) -> Path:
    """Return the application's folder by the XDG rules (a relative value is ignored), or platformdirs' on macOS and Windows."""
    value = env.get(variable, "")
    if Path(value).is_absolute():
        return Path(value) / _APPLICATION
    if sys.platform in {"darwin", "win32"}:
        import platformdirs  # needed on these platforms only

        return Path(getattr(platformdirs, elsewhere)(_APPLICATION, appauthor=False))
    home = env.get("HOME", "")
    if Path(home).is_absolute():
        return Path(home) / below_home / _APPLICATION
    try:
        return Path.home() / below_home / _APPLICATION
    except RuntimeError:
        raise ConfigFault("no home folder is known: set HOME, or SIDECAR_CONFIG and SIDECAR_STATE") from None
