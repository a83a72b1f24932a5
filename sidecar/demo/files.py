"""Editing a file of the workspace: through the client where it declared that, else by the demo agent itself."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sidecar.demo.consent import Operation, allowed
from sidecar.demo.turn import Turn
from sidecar.demo.wire import Json, object_at
from sidecar.errors import AgentFault

FILE_NAME: Final = "sidecar-demo.txt"
BIG_FILE_NAME: Final = "sidecar-demo-big.txt"
MAX_BYTES: Final = 4 * 1024 * 1024


class EditFailed(Exception):
    """The file could not be read or written, or is none that the demo agent touches; the text says why."""


async def edit_file(turn: Turn, name: str, change: Callable[[str], str]) -> bool:
    """Ask for and make one edit of ``name`` in the session's folder; return whether it was made.

    ``change`` gets the old text (empty for a new file) and returns the new one. The frames are those of Kiro V3's write tool:
    in progress, pending, the diff with a file URI, the question, the end.
    """
    path = Path(turn.session.cwd) / name
    place = {"path": str(path)}
    tool = turn.open_tool(
        "fs_write", f"Edit {name}", kind="edit", status="in_progress", rawInput={"path": name}, locations=[place]
    )
    try:
        old = await _read(turn, path)
        new = change(old)
        diff: Json = {"type": "diff", "path": path.as_uri(), "oldText": old, "newText": new}
        tool.update(status="pending", content=[diff], rawInput={"path": name, "content": new})
        if not await allowed(turn, tool, Operation("fs_write", [name])):
            tool.fail("denied", f"You did not allow the edit; {name} is as it was.")
            return False
        tool.update(status="in_progress")
        await _write(turn, path, new)
    except EditFailed as error:
        tool.fail("error", str(error))
        return False
    line = max(1, old.count("\n") + 1)
    tool.complete(content=[diff], locations=[{**place, "line": line}], rawOutput={"written": len(new)})
    return True


async def _read(turn: Turn, path: Path) -> str:
    """Return the text of ``path``, empty when there is no such file."""
    if turn.link.features.read_files:
        try:
            reply = await turn.link.request("fs/read_text_file", sessionId=turn.session.session_id, path=str(path))
        except AgentFault:
            return ""  # Kiro V3 reads before it writes a new file too, so an error means: not there
        content = object_at(reply).get("content")
        return content if isinstance(content, str) else ""
    return _read_from_disk(path)


def _read_from_disk(path: Path) -> str:
    _check(path)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise EditFailed(f"{path.name} is larger than {MAX_BYTES} bytes.")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise EditFailed(f"{path.name} cannot be read: {error}") from error


async def _write(turn: Turn, path: Path, text: str) -> None:
    if turn.link.features.write_files:
        try:
            await turn.link.request("fs/write_text_file", sessionId=turn.session.session_id, path=str(path), content=text)
        except AgentFault as error:
            raise EditFailed(f"The editor did not write {path.name}: {error.message}") from error
        return
    _write_to_disk(path, text)


def _write_to_disk(path: Path, text: str) -> None:
    _check(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise EditFailed(f"{path.name} cannot be written: {error.strerror}") from error


def _check(path: Path) -> None:
    """Refuse what is no plain file of the folder: a link could lead anywhere."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise EditFailed(f"{path.name} is a link or no plain file; the demo agent leaves it alone.")
