"""Reading JSON of unknown shape without surprises: the value of the wanted type, or nothing. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from sidecar.session.events import JsonObject


def object_at(value: object, *path: str) -> JsonObject:
    """Return the object at ``path`` inside ``value``, or an empty one when anything on the way is no object."""
    for key in path:
        value = cast("Mapping[str, Any]", value).get(key) if isinstance(value, Mapping) else None
    return cast("JsonObject", value) if isinstance(value, Mapping) else {}


def object_or_none(value: object) -> JsonObject | None:
    """Return ``value`` when it is an object."""
    return cast("JsonObject", value) if isinstance(value, Mapping) else None


def objects_in(value: object) -> list[JsonObject]:
    """Return the objects of a list; anything else in it, and anything that is no list, counts as nothing."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return []
    return [cast("JsonObject", item) for item in cast("Sequence[object]", value) if isinstance(item, Mapping)]


def texts_in(value: object) -> list[str]:
    """Return the strings of a list."""
    return [item for item in cast("list[object]", value) if isinstance(item, str)] if isinstance(value, list) else []


def text_or_none(value: object) -> str | None:
    """Return ``value`` when it is a string that is not empty."""
    return value if isinstance(value, str) and value else None
