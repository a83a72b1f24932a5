"""What of a prompt an agent can take (ACP v1, prompt capabilities). Pure.

An agent that gets a kind of content it did not announce may hang or fail the whole turn, so such a block becomes a link where it
has an address, and is left out and told where it has none.
"""

from collections.abc import Sequence
from typing import Any

from sidecar.session.events import JsonObject
from sidecar.session.lenient import object_at
from sidecar.session.ports import Capabilities

_NAMES = {"image": "images", "audio": "audio", "resource": "embedded files"}


def fit_prompt(blocks: Sequence[JsonObject], capabilities: Capabilities, agent: str) -> tuple[list[JsonObject], list[str]]:
    """Return the blocks to send, and a sentence for each kind that was changed or left out. Text and links always go."""
    taken = {"image": capabilities.image, "audio": capabilities.audio, "resource": capabilities.embedded_context}
    sent: list[JsonObject] = []
    changes: dict[str, None] = {}
    for block in blocks:
        kind = str(block.get("type"))
        if taken.get(kind, True):
            sent.append(block)
            continue
        link = _as_link(block)
        if link is not None:
            sent.append(link)
        changes[f"{agent} takes no {_NAMES[kind]}; " + ("a link was sent instead" if link is not None else "it was left out")] = (
            None
        )
    return sent, list(changes)


def _as_link(block: JsonObject) -> JsonObject | None:
    """Return the block as a ``resource_link``, or None when it has no address."""
    resource: JsonObject = object_at(block, "resource") or block
    uri = resource.get("uri")
    if not isinstance(uri, str) or not uri:
        return None
    link: dict[str, Any] = {"type": "resource_link", "uri": uri, "name": uri.rstrip("/").rpartition("/")[2] or uri}
    if isinstance(resource.get("mimeType"), str):
        link["mimeType"] = resource["mimeType"]
    return link
