"""Who the editor is and what it can do, read tolerantly from its ``initialize`` params (LSP 3.17, Initialize Request)."""

from collections.abc import Mapping
from typing import Any, Final, cast

import attrs

from sidecar.errors import EditorFault

PROTOCOLS: Final = (1,)
"""Numbers of the sidecar's own editor protocol that this server speaks (editor protocol, notifications)."""

UTF8: Final = "utf-8"
UTF16: Final = "utf-16"


@attrs.frozen
class ClientInfo:
    """The editor. ``protocol`` None = plain LSP; ``update`` is the sentence for the user when no number is common.

    ``changes``, ``questions`` and ``commands`` are what its plugin asked for (``capabilities.experimental.sidecar``): without a
    plugin there are no changes or questions, and commands are listed.
    """

    name: str = "unknown editor"
    version: str = ""
    capabilities: Mapping[str, Any] = attrs.field(factory=dict[str, Any], repr=False)
    position_encoding: str = UTF16
    protocol: int | None = None
    changes: bool = False
    questions: bool = False
    commands: bool = True
    update: str | None = None

    def capability(self, *path: str) -> Any:
        """Return the client capability at ``path`` (``"window", "showMessage"``), or None when any part is not there."""
        return _at(self.capabilities, *path)


def read_client(params: Mapping[str, Any]) -> ClientInfo:
    """Return what ``initialize`` tells of the editor; unknown members and wrong types count as not said.

    Raises EditorFault only when ``capabilities`` is there and no object.
    """
    capabilities = params.get("capabilities")
    if capabilities is not None and not isinstance(capabilities, dict):
        raise EditorFault("initialize: capabilities must be an object, as in the Language Server Protocol")
    known = cast("dict[str, Any]", capabilities or {})
    plugin = _at(known, "experimental", "sidecar")
    said = cast("dict[str, Any]", plugin) if isinstance(plugin, dict) else {}
    protocol = _common(said.get("protocol")) if said else None
    return ClientInfo(
        name=_text(_at(params, "clientInfo", "name")) or _text(said.get("client")) or "unknown editor",
        version=_text(_at(params, "clientInfo", "version")),
        capabilities=known,
        position_encoding=_encoding(_at(known, "general", "positionEncodings")),
        protocol=protocol,
        changes=protocol is not None and said.get("changes") is not False,
        questions=protocol is not None and said.get("questions") is not False,
        commands=said.get("commands") is not False,
        update=_update(said) if said and protocol is None else None,
    )


def reduced_params(info: ClientInfo) -> dict[str, Any]:
    """Return the ``initialize`` params handed to pygls: the encoding, nothing that a newer editor could have added.

    Its reader refuses whole messages over one unknown value in a closed enumeration, and takes its time over the rest.
    """
    return {
        "processId": None,
        "rootUri": None,
        "capabilities": {"general": {"positionEncodings": [info.position_encoding]}},
    }


def _at(value: object, *path: str) -> Any:
    for name in path:
        if not isinstance(value, dict):
            return None
        value = cast("dict[str, Any]", value).get(name)
    return value


def _text(value: object) -> str:
    return value[:200] if isinstance(value, str) else ""


def _encoding(offered: object) -> str:
    return UTF8 if isinstance(offered, list) and UTF8 in offered else UTF16


def _numbers(said: object) -> list[int]:
    given = cast("list[Any]", said) if isinstance(said, list) else [said]
    return [number for number in given if isinstance(number, int) and not isinstance(number, bool)]


def _common(said: object) -> int | None:
    return max((number for number in _numbers(said) if number in PROTOCOLS), default=None)


def _update(said: Mapping[str, Any]) -> str:
    numbers = _numbers(said.get("protocol"))
    older = "the sidecar" if numbers and min(numbers) > max(PROTOCOLS) else "the sidecar's editor plugin"
    theirs = ", ".join(map(str, numbers)) or "no number that can be read"
    ours = ", ".join(map(str, PROTOCOLS))
    return f"Update {older}: the plugin speaks protocol {theirs}, the sidecar {ours}. Until then only plain LSP features work."
