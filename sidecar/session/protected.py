"""Paths that are run, or decide what is run, by just being there: writing them always takes the user's own word. Pure.

Security cases, O26: editor and agent settings, version control hooks, and the sidecar's own files.
"""

from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

_FOLDERS: Final = frozenset(
    {
        ".claude",
        ".codex",
        ".cursor",
        ".devcontainer",
        ".gemini",
        ".git",
        ".helix",
        ".hg",
        ".husky",
        ".idea",
        ".kiro",
        ".nvim",
        ".ssh",
        ".svn",
        ".vscode",
        ".zed",
    }
)
_FILES: Final = frozenset(
    {
        ".nvim.lua",
        ".nvimrc",
        ".exrc",
        ".envrc",
        ".sidecar.toml",
        ".mcp.json",
        ".bashrc",
        ".bash_profile",
        ".profile",
        ".zshrc",
        ".zshenv",
        ".netrc",
        ".npmrc",
        ".vimrc",
        ".gitconfig",
        ".gitmodules",
        ".pre-commit-config.yaml",
        "lefthook.yml",
        "mise.toml",
        ".mise.toml",
        "authorized_keys",
    }
)
_SUFFIXES: Final = (".code-workspace",)


def why_protected(path: str, extra: Sequence[str] = ()) -> str | None:
    """Return why ``path`` (or file URI) is protected, as a clause, or None. ``extra`` are folders that are protected too."""
    plain = unquote(path.removeprefix("file://")) if path.startswith("file://") else path
    parts = [part.casefold() for part in plain.replace("\\", "/").split("/") if part not in {"", "."}]
    for part in parts[:-1]:
        if part in _FOLDERS:
            return f"it lies in {part}, which decides what is run"
    name = parts[-1] if parts else ""
    if name in _FILES or name in _FOLDERS or name.endswith(_SUFFIXES):
        return f"{name} decides what is run"
    if any(plain == folder or plain.startswith(folder.rstrip("/") + "/") for folder in extra):
        return "it belongs to the sidecar itself"
    return None
