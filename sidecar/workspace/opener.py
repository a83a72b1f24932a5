"""Handing one address, which the user chose to open, to the system's opener; and telling where the browser must run.

Never Python's ``webbrowser`` (CVE-2026-4519, CVE-2026-4786), never a shell: the address is one item of the argv of a program
found outside every workspace. ``xdg-open`` obeys ``$BROWSER``, which comes from the user's own environment only. The result is
the truth as far as an opener tells it; the address itself stands in no message.
"""

import ntpath
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from sidecar.errors import Unavailable
from sidecar.secret import SecretText
from sidecar.session.urls import judge_url
from sidecar.transport.process import resolve_program, run_opener

OPENER_TIMEOUT_SECONDS: Final = 10.0
COPY_HINT: Final = "copy the address instead"

_SSH_MARKS: Final = ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")
_REMOTE_EDITOR_MARKS: Final = (
    "REMOTE_CONTAINERS",
    "CODESPACES",
    "VSCODE_IPC_HOOK_CLI",
    "VSCODE_AGENT_FOLDER",
    "GITPOD_WORKSPACE_ID",
)
_DISPLAY_MARKS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")


@attrs.frozen
class Opening:
    """Whether the address was handed to a browser; ``message`` is a sentence for the user, without the address."""

    opened: bool
    message: str


def remote_notice(env: Mapping[str, str]) -> str | None:
    """Say where the browser must run when the sidecar is on another machine than the user, or return None.

    ``env`` is the sidecar's own environment: SSH and the remote hosts of VS Code and its relatives leave marks there.
    """
    if any(env.get(mark) for mark in _SSH_MARKS):
        where = "The sidecar runs on another machine, over SSH"
    elif any(env.get(mark) for mark in _REMOTE_EDITOR_MARKS):
        where = "The sidecar runs on the remote side of the editor"
    else:
        return None
    return (
        f"{where}: the address must be opened in a browser on the machine you sit at. If its sign-in returns to localhost or "
        "127.0.0.1, that port must be forwarded to the remote side."
    )


async def open_url(
    url: SecretText,
    *,
    env: Mapping[str, str],
    workspaces: Sequence[str],
    platform: str = sys.platform,
    timeout: float = OPENER_TIMEOUT_SECONDS,  # noqa: ASYNC109 - reaching it is a result here, not a cancellation
) -> Opening:
    """Open ``url`` with the system's opener; call only after the user chose to open this very address.

    ``env`` is the user's own environment. Programs in or below ``workspaces`` are never used. Returns within ``timeout`` seconds;
    an opener that is still running then is left alone, since it may have become the browser, and is not reported as success.
    """
    verdict = judge_url(url.reveal())
    if verdict.url is None:
        return Opening(opened=False, message=f"The address was not opened: {verdict.reason}.")
    if platform not in {"darwin", "win32"} and not any(env.get(mark) for mark in _DISPLAY_MARKS):
        return Opening(opened=False, message=f"There is no graphical display here to open a browser on; {COPY_HINT}.")
    try:
        command = _opener_command(env, workspaces, platform)
        completed = await run_opener(
            [*command, verdict.url.reveal()],
            timeout=timeout,
            cwd=_neutral_folder(),
            env=_with_safe_path(env, workspaces),
        )
    except Unavailable as error:
        return Opening(opened=False, message=f"No browser could be started: {error.message.rstrip('.')}; {COPY_HINT}.")
    name = os.path.basename(command[0])  # noqa: PTH119 - a label
    if completed.timed_out:
        return Opening(
            opened=False, message=f"{name} has not reported success within {timeout:g} s; if no page appears, {COPY_HINT}."
        )
    if completed.status.code != 0:
        return Opening(opened=False, message=f"{name} could not open the address ({completed.status}); {COPY_HINT}.")
    return Opening(opened=True, message=f"The address was handed to the browser by {name}.")


def _opener_command(env: Mapping[str, str], workspaces: Sequence[str], platform: str) -> list[str]:
    if platform == "darwin":
        return [resolve_program("/usr/bin/open", path="", forbidden=workspaces)]
    if platform == "win32":
        root = env.get("SystemRoot") or env.get("SYSTEMROOT") or "C:\\Windows"
        return [ntpath.join(root, "System32", "rundll32.exe"), "url.dll,FileProtocolHandler"]
    path = env.get("PATH", "")
    if env.get("WSL_DISTRO_NAME"):
        try:
            return [resolve_program("wslview", path=path, forbidden=workspaces)]
        except Unavailable:
            pass
    try:
        return [resolve_program("xdg-open", path=path, forbidden=workspaces)]
    except Unavailable:
        raise Unavailable("xdg-open is not installed outside the workspace (package xdg-utils)") from None


def _neutral_folder() -> str:
    """A folder that is no workspace: the opener must not find relative programs or files in the user's project."""
    return Path.cwd().anchor or "/"


def _with_safe_path(env: Mapping[str, str], workspaces: Sequence[str]) -> dict[str, str]:
    """Return ``env`` with only absolute PATH folders outside ``workspaces``, since openers are scripts that search it again."""
    closed = [Path(workspace).resolve() for workspace in workspaces]
    folders = [
        folder
        for folder in env.get("PATH", "").split(os.pathsep)
        if Path(folder).is_absolute() and not any(Path(folder).resolve().is_relative_to(root) for root in closed)
    ]
    return {**env, "PATH": os.pathsep.join(folders)}
