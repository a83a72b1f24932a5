"""The lifecycle of the conversation with an editor, as tables (LSP 3.17, Server lifecycle)."""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from sidecar.errors import INVALID_REQUEST

SERVER_NOT_INITIALIZED: Final = -32002


class Phase(Enum):
    """Where the conversation stands."""

    NEW = "new"
    READY = "ready"
    SHUT_DOWN = "shut down"
    ENDED = "ended"


REFUSALS: Final[Mapping[Phase, tuple[int, str]]] = {
    Phase.NEW: (SERVER_NOT_INITIALIZED, "send initialize first"),
    Phase.SHUT_DOWN: (INVALID_REQUEST, "the sidecar was told to shut down; only exit may follow"),
    Phase.ENDED: (INVALID_REQUEST, "the sidecar is ending"),
}
NOTIFICATIONS_TAKEN: Final[Mapping[Phase, frozenset[str] | None]] = {
    Phase.NEW: frozenset({"exit"}),
    Phase.READY: None,
    Phase.SHUT_DOWN: frozenset({"exit"}),
    Phase.ENDED: frozenset(),
}
"""Which notifications are taken in a phase; None = all."""


def is_taken(phase: Phase, notification: str) -> bool:
    """Return whether a notification is taken in this phase."""
    taken = NOTIFICATIONS_TAKEN[phase]
    return taken is None or notification in taken
