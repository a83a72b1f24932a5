"""One finding of ``sidecar doctor``."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import attrs

Level: TypeAlias = Literal["ok", "warn", "fail"]


@attrs.frozen
class Check:
    """What was looked at, what was found, and what to do about it (when there is something to do).

    ``details`` are further lines for the report and the JSON.
    """

    area: str
    level: Level
    told: str
    advice: str | None = None
    details: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"area": self.area, "level": self.level, "told": self.told}
        shown |= {"advice": self.advice} if self.advice else {}
        return shown | ({"details": list(self.details)} if self.details else {})


def worst(checks: Sequence[Check]) -> Level:
    """Return the worst level among ``checks``."""
    levels = {check.level for check in checks}
    return "fail" if "fail" in levels else "warn" if "warn" in levels else "ok"
