"""What a peer's handler receives: decoded lines, and as ``Noise`` those that could not be used."""

import re
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias

import attrs

from sidecar.codec import NotJson, decode
from sidecar.rpc.messages import IncomingRequest, RequestId

NOISE_EXCERPT_BYTES = 200

NoiseKind: TypeAlias = Literal["not-json", "oversize", "partial", "unusable", "tolerated", "refused", "bug"]

_TERMINAL_PREFIX = re.compile(rb"\A(?:\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x20])+(?=\{)")


@attrs.frozen
class Noise:
    """Something that could not be used as it came, or an error while using it; reading goes on.

    ``detail`` is a sentence without the body. ``excerpt`` is the first bytes of a line that was no JSON, unredacted: it may go to
    the user's eyes or a redacting log only. ``error`` is the exception of a handler (``refused``: ours on purpose; ``bug``: not).
    """

    kind: NoiseKind
    detail: str
    size: int = 0
    excerpt: bytes = attrs.field(default=b"", repr=False)
    error: Exception | None = attrs.field(default=None, repr=False, eq=False)


Decode: TypeAlias = Callable[[list[bytes]], list[object]]


def decode_line(line: bytes) -> object:
    """Return the JSON value of one line, or the ``Noise`` it is. Terminal sequences before the object are skipped."""
    try:
        return decode(line)
    except NotJson as error:
        reason = str(error)
    bare = _TERMINAL_PREFIX.sub(b"", line, count=1)
    if len(bare) < len(line):
        return decode_line(bare)
    return Noise("not-json", reason, len(line), line[:NOISE_EXCERPT_BYTES])


def decode_lines(lines: list[bytes]) -> list[object]:
    """Decode the lines of one read, one value or ``Noise`` each."""
    return [decode_line(line) for line in lines]


class PeerHandler(Protocol):
    """Receives what the peer sends, synchronously, in the order of the wire. An error raised in ``on_request`` answers it."""

    def on_request(self, request: IncomingRequest) -> None:
        """Take a request; it is answered once, now or later, through ``Peer.answer`` or ``Peer.refuse``."""
        ...

    def on_notification(self, method: str, params: Any) -> None: ...

    def on_item(self, item: object) -> None:
        """Take what the decoder produced beside messages."""
        ...

    def on_batch_end(self) -> None:
        """Everything of one read was dispatched."""
        ...

    def on_noise(self, noise: Noise) -> None: ...

    def on_cancelled(self, request_id: RequestId) -> None:
        """The peer withdrew its request; it still gets its one answer."""
        ...

    def on_closed(self, reason: str) -> None:
        """Nothing more comes or goes; called once."""
        ...
