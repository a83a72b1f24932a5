"""The prompts of one session that wait for their turn, as the user sees and edits them. No I/O."""

from collections.abc import Sequence
from typing import Any

import attrs

from sidecar.errors import EditorFault
from sidecar.session.events import JsonObject


@attrs.frozen
class QueuedPrompt:
    """A prompt not yet sent: content blocks, and what the user typed. ``origin``: user, guidance or steer."""

    turn_id: str
    text: str
    blocks: Sequence[JsonObject]
    queued_at: str
    origin: str = "user"

    def to_json(self) -> dict[str, Any]:
        return {"turnId": self.turn_id, "text": self.text, "queuedAt": self.queued_at, "origin": self.origin}


class PromptQueue:
    """Prompts in order. ``held`` keeps them waiting after a cancel until the user sends or resumes."""

    def __init__(self) -> None:
        self._items: list[QueuedPrompt] = []
        self.held = False

    def __len__(self) -> int:
        return len(self._items)

    def to_json(self) -> list[dict[str, Any]]:
        return [item.to_json() for item in self._items]

    def add(self, item: QueuedPrompt, *, first: bool = False) -> None:
        """Queue at the end, or before all others."""
        self._items.insert(0 if first else len(self._items), item)

    def next(self) -> QueuedPrompt | None:
        """Take the next prompt to send; None while held or empty."""
        return None if self.held or not self._items else self._items.pop(0)

    def _index(self, turn_id: str) -> int:
        for index, item in enumerate(self._items):
            if item.turn_id == turn_id:
                return index
        raise EditorFault(f"no queued prompt {turn_id}; queue.list shows those that wait")

    def edit(self, turn_id: str, text: str, blocks: Sequence[JsonObject]) -> None:
        """Replace the text of a waiting prompt."""
        index = self._index(turn_id)
        self._items[index] = attrs.evolve(self._items[index], text=text, blocks=blocks)

    def move(self, turn_id: str, position: int) -> None:
        """Move a waiting prompt to ``position`` (0 = next); positions past the end mean last."""
        item = self._items.pop(self._index(turn_id))
        self._items.insert(max(0, min(position, len(self._items))), item)

    def remove(self, turn_id: str) -> QueuedPrompt:
        """Take a waiting prompt out and return it."""
        return self._items.pop(self._index(turn_id))
