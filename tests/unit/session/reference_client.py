"""The smallest correct client of ``sidecar/session/changed``: start from a snapshot, apply each change. Plugins may copy it."""

import copy
from collections.abc import Sequence
from typing import Any

SNAPSHOT_NOTICES = 100
SECTION_KEYS = {
    "plan": ("plan",),
    "commands": ("commands",),
    "config": ("modes", "configOptions"),
    "tools": ("tools",),
    "usage": ("usage",),
    "title": ("title", "updatedAt"),
    "mcp": ("mcp",),
    "compaction": ("compactions",),
    "steering": ("steering",),
    "queue": ("queue",),
    "state": ("state",),
}


class ReferenceClient:
    """``view`` has the shape of ``session.state``."""

    def __init__(self, snapshot: dict[str, Any]) -> None:
        self.view = copy.deepcopy(snapshot)

    def apply(self, changes: Sequence[dict[str, Any]]) -> None:
        for change in changes:
            self._apply_one(copy.deepcopy(change))

    def _apply_one(self, change: dict[str, Any]) -> None:
        kind = change["kind"]
        if kind in SECTION_KEYS:
            for key in SECTION_KEYS[kind]:
                self.view[key] = change[key]
            self.view["metas"].pop(kind, None)
            if "meta" in change:
                self.view["metas"][kind] = change["meta"]
        elif kind == "reset":
            self.view["turns"] = []
            self.view.pop("before", None)
            if "before" in change:
                self.view["before"] = change["before"]
        elif kind in {"notice", "terminal"}:
            self._apply_beside(kind, change[kind])
        elif kind == "turn_started":
            self.view["turns"].append({**change["turn"], "parts": []})
        elif kind == "turn_ended":
            turn = self._turn(change["turn"]["turnId"])
            if turn is not None:
                turn.update(change["turn"])
        else:
            self._apply_to_part(change)

    def _apply_beside(self, kind: str, entry: dict[str, Any]) -> None:
        if kind == "notice":
            self.view["notices"] = [*self.view["notices"], entry][-SNAPSHOT_NOTICES:]
            return
        others = [known for known in self.view.get("terminals", ()) if known["terminalId"] != entry["terminalId"]]
        self.view["terminals"] = [*others, entry]

    def _apply_to_part(self, change: dict[str, Any]) -> None:
        turn = self._turn(change["turnId"])
        if turn is None:
            return  # older than the snapshot
        if change["kind"] in {"part_added", "unknown"}:
            turn["parts"].append(change["part"])
            return
        part = next(part for part in turn["parts"] if part["partId"] == change["partId"])
        if change["kind"] == "part_text":
            part["text"] += change["text"]
            if "meta" in change:
                part["meta"] = change["meta"]
        elif change["kind"] == "tool_call":
            part["toolCall"].update(change["fields"])

    def _turn(self, turn_id: str) -> dict[str, Any] | None:
        return next((turn for turn in self.view["turns"] if turn["turnId"] == turn_id), None)
