"""De-duplication while a load replays history. Pure.

Agents were seen to replay a history twice (pains F, session/load). Inside the load window, and only there, a message id that was
already left and comes again with what it already said is dropped; anything it says beyond that is kept. Tool calls need nothing:
they are keyed by their id. Messages without an id are never compared.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from sidecar.session.conversation import ContentPart, MessageKey, Part, TextPart
from sidecar.session.events import Role


@attrs.define(eq=False)
class ReplayedMessage:
    """One message of the replay: its parts, and how far a repetition of it was recognised."""

    parts: list[Part] = attrs.field(factory=list[Part])
    repeated: str | None = None
    matched: int = 0


class LoadWindow:
    """Remembers which messages a load brought, from ``LoadBegan`` to ``LoadEnded``."""

    def __init__(self) -> None:
        self._messages: dict[MessageKey, ReplayedMessage] = {}
        self._last: MessageKey | None = None

    def left_message(self) -> None:
        """Something else came: the same id from now on is a repetition or a continuation."""
        self._last = None

    def remember(self, role: Role, message_id: str | None, part: Part) -> None:
        """``part`` belongs to that message, which is now the running one."""
        self._last = None if message_id is None else (role, message_id)
        if message_id is not None:
            message = self._messages.setdefault((role, message_id), ReplayedMessage())
            if not message.parts or message.parts[-1] is not part:
                message.parts.append(part)

    def is_repeated_text(self, role: Role, message_id: str | None, text: str) -> bool:
        """Whether ``text`` repeats what a message that was left already said."""
        message = self._left(role, message_id)
        if message is None or message_id is None:
            return False
        key = (role, message_id)
        if message.repeated is None:
            message.repeated = "".join(part.buffer.text() for part in message.parts if isinstance(part, TextPart))
            message.matched = 0
        elif self._last != key and message.matched == len(message.repeated):
            message.matched = 0
        if message.repeated.startswith(text, message.matched):
            message.matched += len(text)
            self._last = key
            return True
        message.repeated = None
        return False

    def is_repeated_block(self, role: Role, message_id: str | None, block: Mapping[str, Any]) -> bool:
        """Whether a message that was left already had this (packed) block."""
        message = self._left(role, message_id)
        return message is not None and any(isinstance(part, ContentPart) and part.block == block for part in message.parts)

    def _left(self, role: Role, message_id: str | None) -> ReplayedMessage | None:
        if message_id is None:
            return None
        message = self._messages.get((role, message_id))
        if message is None or (self._last == (role, message_id) and message.repeated is None):
            return None
        return message
