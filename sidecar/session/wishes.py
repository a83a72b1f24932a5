"""The user's wishes for mode, model and effort against the options a session really reports. Pure.

A wish counts only when the reported options contain it; values are never reused across agents, generations or accounts.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from sidecar.session.events import JsonObject
from sidecar.session.lenient import objects_in

CATEGORY_OF_WISH: Mapping[str, str] = {"mode": "mode", "model": "model", "effort": "thought_level"}


@attrs.frozen
class SetOption:
    """Send ``session/set_config_option`` with this id and value."""

    option_id: str
    value: str | bool


@attrs.frozen
class SetMode:
    """Send ``session/set_mode``."""

    mode_id: str


@attrs.frozen
class Already:
    """The session has it already."""


@attrs.frozen
class NotOffered:
    """The session reports the option, but not this value. ``current`` is the agent's own, ``offered`` what could be named."""

    current: str | None
    offered: Sequence[str]


@attrs.frozen
class NotReported:
    """The session reports no such option (yet: Kiro's model option can come late)."""


Decision = SetOption | SetMode | Already | NotOffered | NotReported


def option_values(option: JsonObject) -> Iterator[str]:
    """Yield the values of a select option, whether its list is flat or grouped; nothing for other types."""
    for entry in objects_in(option.get("options")):
        if isinstance(entry.get("options"), list):
            yield from (str(nested["value"]) for nested in objects_in(entry["options"]) if "value" in nested)
        elif "value" in entry:
            yield str(entry["value"])


def find_option(options: Sequence[JsonObject], name: str) -> JsonObject | None:
    """Return the option ``name`` stands for: the one of that id, else the first of the wish's category."""
    for option in options:
        if option.get("id") == name:
            return option
    category = CATEGORY_OF_WISH.get(name)
    if category is None:
        return None
    return next((o for o in options if o.get("category") == category), None)


def decide(options: Sequence[JsonObject], modes: JsonObject | None, name: str, value: str | bool) -> Decision:
    """Say what setting ``name`` to ``value`` takes in a session with these options and modes (``{"available", "current"}``)."""
    option = find_option(options, name)
    if option is not None:
        return _decide_option(option, value)
    if name == "mode" and modes is not None and isinstance(value, str):
        offered = [str(mode.get("id")) for mode in modes.get("available", ())]
        if value not in offered:
            return NotOffered(modes.get("current"), offered)
        return Already() if modes.get("current") == value else SetMode(value)
    return NotReported()


def _decide_option(option: JsonObject, value: str | bool) -> Decision:
    current: Any = option.get("currentValue")
    option_id = str(option.get("id"))
    if option.get("type") == "boolean":
        wanted = value if isinstance(value, bool) else {"true": True, "on": True, "false": False, "off": False}.get(value.lower())
        if wanted is None:
            return NotOffered(str(current).lower(), ["true", "false"])
        return Already() if current is wanted else SetOption(option_id, wanted)
    offered = list(option_values(option))
    text = value if isinstance(value, str) else ("on" if value else "off")
    if text not in offered:
        return NotOffered(current if isinstance(current, str) else None, offered)
    return Already() if current == text else SetOption(option_id, text)
