"""Paths here and where the agent runs, when those differ (containers, remote mounts): explicit pairs of folders. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, unquote

import attrs

from sidecar.session.events import JsonObject, SessionEvent, ToolCallChanged
from sidecar.session.lenient import objects_in

FILE_SCHEME: Final = "file://"


@attrs.frozen
class PathMap:
    """Pairs of (folder here, folder at the agent); the longest folder that fits decides. Without pairs nothing changes."""

    pairs: Sequence[tuple[str, str]] = ()

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def to_agent(self, path: str) -> str:
        """Return a path of ours as the agent knows it."""
        return _mapped(path, self.pairs)

    def to_ours(self, path: str) -> str:
        """Return a path (or file URI) of the agent's as it is here."""
        back = [(theirs, ours) for ours, theirs in self.pairs]
        if path.startswith(FILE_SCHEME):
            return FILE_SCHEME + quote(_mapped(unquote(path.removeprefix(FILE_SCHEME)), back))
        return _mapped(path, back)

    def event(self, event: SessionEvent) -> SessionEvent:
        """Return a tool event with the paths of its locations and diffs as they are here."""
        if not isinstance(event, ToolCallChanged):
            return event
        fields: dict[str, Any] = dict(event.fields)
        for key in ("locations", "content"):
            if key in fields:
                fields[key] = [self.carrier(item) for item in objects_in(fields[key])]
        return attrs.evolve(event, fields=fields)

    def carrier(self, item: JsonObject) -> JsonObject:
        """Return an object with its ``path`` as it is here."""
        path: object = item.get("path")
        return {**item, "path": self.to_ours(path)} if isinstance(path, str) else item

    def tool_call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """Return a permission's tool call with its paths as they are here."""
        mapped = dict(call)
        for key in ("locations", "content"):
            if key in mapped:
                mapped[key] = [self.carrier(item) for item in objects_in(mapped[key])]
        return mapped


def _mapped(path: str, pairs: Sequence[tuple[str, str]]) -> str:
    best: tuple[str, str] | None = None
    for source, target in pairs:
        folder = source.rstrip("/\\")
        inside = path == folder or path.startswith((folder + "/", folder + "\\"))
        if inside and (best is None or len(folder) > len(best[0])):
            best = (folder, target.rstrip("/\\"))
    if best is None:
        return path
    rest = path[len(best[0]) :]
    return best[1] + (rest.replace("\\", "/") if "/" in best[1] else rest)
