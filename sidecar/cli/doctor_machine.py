"""What ``sidecar doctor`` looks at of this machine: configuration, state, secrets, browsers, editors, other sidecars."""

import os
import stat
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from sidecar.cli.checks import Check
from sidecar.config import Configuration, Layer, combine, config_file, load_user_layer, runtime_directory, state_directory
from sidecar.errors import ConfigFault, Unavailable
from sidecar.secret import SecretText
from sidecar.store.owners import Owner
from sidecar.transport.process import resolve_program, run_once
from sidecar.workspace.opener import remote_notice

EDITORS: Final = (("Neovim", "nvim"), ("Helix", "hx"), ("Helix", "helix"), ("VS Code", "code"))
EDITOR_SECONDS: Final = 5.0
PROBE: Final = "sidecar-doctor"
DISPLAYS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")


def read_configuration(path: str | None) -> tuple[Configuration, list[Check]]:
    """Return the settings as far as they can be used, and what is wrong with them."""
    area = "configuration"
    try:
        file, _ = config_file(path)
        configuration = combine(load_user_layer(path))
    except ConfigFault as fault:
        return combine(Layer("built-in settings", {})), [
            Check(area, "fail", fault.message, "Correct it; see sidecar config check.")
        ]
    told = f"{file}" if file.exists() else f"there is no {file}; the built-in settings are in force"
    checks = [Check(area, "ok", told)]
    checks += [
        Check(area, "fail", problem, "See sidecar config schema for what is allowed.") for problem in configuration.problems
    ]
    checks += [Check(area, "warn", warning) for warning in configuration.warnings]
    if sys.platform != "win32" and file.exists() and _open_to_others(file) and _holds_secret(configuration.raw):
        checks.append(
            Check(area, "warn", f"{file} holds a secret and others may read it", f"chmod 600 {file}; better: a reference")
        )
    return configuration, checks


def _open_to_others(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def _holds_secret(value: Any) -> bool:
    if isinstance(value, SecretText):
        return True
    if isinstance(value, Mapping):
        return any(_holds_secret(item) for item in cast("Mapping[str, Any]", value).values())
    return isinstance(value, list | tuple) and any(_holds_secret(item) for item in cast("Sequence[Any]", value))


async def check_machine(configuration: Configuration) -> AsyncIterator[Check]:
    """Yield the findings on everything but agents."""
    for check in _check_folders():
        yield check
    yield await _check_secrets(configuration)
    for check in _check_browser():
        yield check
    async for check in _check_editors():
        yield check
    yield _check_others(state_directory())


def _check_folders() -> Iterator[Check]:
    for name, folder in (("state", state_directory()), ("runtime files", runtime_directory())):
        yield _check_folder(name, folder)


def _check_folder(name: str, folder: Path) -> Check:
    area = "folders"
    try:
        found = folder.stat()
    except FileNotFoundError:
        return Check(area, "ok", f"{name}: {folder} (made when it is needed)")
    except OSError as error:
        return Check(
            area, "fail", f"{name}: {folder} cannot be used ({error.strerror})", "Set SIDECAR_STATE to a folder of yours."
        )
    if not stat.S_ISDIR(found.st_mode) or not os.access(folder, os.W_OK | os.X_OK):
        return Check(area, "fail", f"{name}: {folder} is no folder that can be written to", "Move it away or correct its owner.")
    return Check(area, "ok", f"{name}: {folder}") if sys.platform == "win32" else _check_privacy(name, folder, found)


def _check_privacy(name: str, folder: Path, found: os.stat_result) -> Check:
    area = "folders"
    if found.st_uid != os.getuid():
        return Check(area, "fail", f"{name}: {folder} belongs to another user", "Set SIDECAR_STATE to a folder of your own.")
    open_ones = [path for path in (folder, *folder.glob("*")) if _open_to_others(path) and not path.is_symlink()]
    if open_ones:
        shown = ", ".join(str(path) for path in open_ones[:5])
        return Check(
            area, "warn", f"{name}: open to others: {shown}", "chmod go-rwx them; the sidecar does so when it next starts."
        )
    return Check(area, "ok", f"{name}: {folder} (mode {stat.S_IMODE(found.st_mode):o})")


async def _check_secrets(configuration: Configuration) -> Check:
    from sidecar.store.secrets import open_secret_store

    kind = configuration.settings.secrets.store
    try:
        await open_secret_store(kind, state_directory()).get(PROBE)
    except Unavailable as error:
        advice = 'Secrets cannot be kept. Install acp-sidecar[keyring] and a keyring, or choose "file" or "memory" as the store.'
        return Check("secrets", "warn", error.message, advice)
    return Check("secrets", "ok", f"the secret store ({kind}) answers")


def _check_browser() -> Iterator[Check]:
    area = "browser"
    if (notice := remote_notice(os.environ)) is not None:
        yield Check(area, "warn", notice)
    if sys.platform in {"darwin", "win32"}:
        yield Check(area, "ok", "addresses are opened by the system")
    elif not any(os.environ.get(name) for name in DISPLAYS):
        yield Check(area, "warn", "there is no graphical display here", "Addresses are shown for you to copy.")
    else:
        try:
            found = resolve_program("xdg-open", path=os.environ.get("PATH", ""))
            yield Check(area, "ok", f"addresses are opened by {found}")
        except Unavailable:
            yield Check(area, "warn", "xdg-open was not found", "Install xdg-utils, or copy addresses when they are shown.")


async def _check_editors() -> AsyncIterator[Check]:
    area = "editors"
    path = os.environ.get("PATH", "")
    found = 0
    for title, program in EDITORS:
        try:
            editor = resolve_program(program, path=path)
        except Unavailable:
            continue
        found += 1
        try:
            done = await run_once([editor, "--version"], timeout=EDITOR_SECONDS, cwd=os.path.sep, env=dict(os.environ))
        except Unavailable as error:
            yield Check(area, "warn", f"{title}: {error.message}")
            continue
        said = done.stdout.decode("utf-8", "replace").strip().split("\n")[0][:100]
        yield Check(area, "ok", f"{title}: {said or 'no version told'} ({editor})")
    if not found:
        yield Check(area, "ok", "neither nvim, hx nor code is on PATH here (an editor elsewhere works as well)")


def _check_others(state: Path) -> Check:
    """Count the sidecars that run on the same state; locks of those that are gone are cleared away by the asking."""
    folder = state / "owners"
    if not folder.is_dir():
        return Check("other sidecars", "ok", "none has run on this state folder yet")
    asker = Owner(folder)
    try:
        alive = [path.stem for path in folder.glob("*.lock") if path.stem != asker.id and asker.is_alive(path.stem)]
    finally:
        asker.close()
    return Check("other sidecars", "ok", f"{len(alive)} running on the same state folder")
