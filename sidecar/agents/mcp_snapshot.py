"""A snapshot of MCP servers made safe to keep and show: no address of a sign-in survives in it. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from sidecar.acp.kiro_v3 import without_sign_in_urls
from sidecar.session.events import JsonObject

_QUERY: Final = re.compile(r"(https?://[^\s?#\"'<>]*)[?#][^\s\"'<>]*", re.IGNORECASE)


def mcp_servers(servers: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the servers that have a name, each without anything of a sign-in."""
    cleaned = [cast("JsonObject", without_sign_in(server)) for server in servers]
    return [server for server in cleaned if isinstance(server.get("name"), str)]


def without_sign_in(value: Any) -> Any:
    """Return a copy without sign-in addresses, and without the query of any address that stands in a text.

    An authorization address can hide in an error message; what makes it secret (``state``, challenges, codes) is in its query.
    """
    return _without_queries(without_sign_in_urls(value))


def _without_queries(value: Any) -> Any:
    if isinstance(value, str):
        return _QUERY.sub(r"\1", value)
    if isinstance(value, Mapping):
        return {key: item if key == "name" else _without_queries(item) for key, item in cast("JsonObject", value).items()}
    if isinstance(value, list):
        return [_without_queries(item) for item in cast("list[Any]", value)]
    return value
