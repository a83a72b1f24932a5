"""The editor's workspace folders, and the one the user works in (LSP 3.17, Workspace folders)."""

import os
from collections.abc import Mapping
from typing import Any, Protocol, cast

from sidecar.workspace.uris import uri_to_path


class Place(Protocol):
    """Where the folders are kept (the workspace)."""

    folders: list[str]
    active_folder: str | None


class WorkspaceFolders:
    """Keeps ``folders`` and ``active_folder`` of the workspace in step with the editor. Unusable entries are skipped."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.active_uri: str | None = None

    def initialize(self, params: Mapping[str, Any]) -> None:
        """Take ``workspaceFolders``, else ``rootUri``, else ``rootPath``."""
        found = _paths(params.get("workspaceFolders"))
        if not found:
            root = _path(params.get("rootUri")) or _absolute(params.get("rootPath"))
            found = [root] if root is not None else []
        self._place.folders = found

    def changed(self, params: Mapping[str, Any]) -> None:
        """Take ``workspace/didChangeWorkspaceFolders``."""
        event = params.get("event")
        change = cast("dict[str, Any]", event) if isinstance(event, dict) else {}
        removed = _paths(change.get("removed"))
        kept = [folder for folder in self._place.folders if folder not in removed]
        self._place.folders = [*kept, *(folder for folder in _paths(change.get("added")) if folder not in kept)]
        if self._place.active_folder not in {None, *self._place.folders}:
            self._place.active_folder = None
            if self.active_uri is not None:
                self.touch(self.active_uri)

    def touch(self, uri: object) -> None:
        """The user works in this document: its folder is the innermost workspace folder; others change nothing."""
        path = uri_to_path(uri) if isinstance(uri, str) else None
        if path is None or not isinstance(uri, str):
            return
        inside = [folder for folder in self._place.folders if path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)]
        if inside:
            self.active_uri = uri
            self._place.active_folder = max(inside, key=len)


def _absolute(path: object) -> str | None:
    return os.path.normpath(path) if isinstance(path, str) and os.path.isabs(path) else None  # noqa: PTH117  a string


def _path(uri: object) -> str | None:
    path = uri_to_path(uri) if isinstance(uri, str) else None
    return os.path.normpath(path) if path is not None else None


def _paths(folders: object) -> list[str]:
    entries = cast("list[Any]", folders) if isinstance(folders, list) else []
    found = [_path(cast("dict[str, Any]", entry).get("uri")) for entry in entries if isinstance(entry, dict)]
    return list(dict.fromkeys(path for path in found if path is not None))
