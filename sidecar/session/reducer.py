"""Folds session events into a ``Conversation``: turns, parts and tool calls. The lists beside them are in ``sections.py``. Pure.

Nothing an agent sends is refused, and live text is never compared with what is there, shortened or withdrawn. Two places look at
text at all: the agent's repetition of the prompt inside a live turn (marked, kept), and a message id that comes a second time
inside a load window.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sidecar.session.conversation import (
    FINAL_STATUSES,
    ContentPart,
    Conversation,
    Message,
    Part,
    TextPart,
    ToolPart,
    Turn,
    UnknownPart,
)
from sidecar.session.events import (
    CancelRequested,
    ContentAdded,
    Meta,
    NoticeAdded,
    Role,
    SessionEvent,
    TextDelta,
    ToolCallChanged,
    TurnEnded,
    TurnStarted,
    UnknownUpdate,
)
from sidecar.session.sections import SECTION_HANDLERS
from sidecar.session.text import pack

SCALAR_FIELDS = frozenset({"title", "name", "kind", "status", "failure_reason"})


class Reducer:
    """Applies events to one conversation.

    ``ids`` gives numbers never used before in the session; ``add_notice`` keeps a notice.
    """

    def __init__(self, conversation: Conversation, ids: Iterator[int], add_notice: Callable[[NoticeAdded], None]) -> None:
        self.conversation = conversation
        self._ids = ids
        self._add_notice = add_notice

    def apply(self, event: SessionEvent) -> None:
        """Fold one event in. ``LoadBegan`` and ``LoadEnded`` belong to the session and change nothing here."""
        kind = type(event)
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, event)
            return
        section_handler = SECTION_HANDLERS.get(kind)
        if section_handler is None:
            return
        for section in section_handler(self.conversation, event):
            for watcher in self.conversation.watchers:
                watcher.section_changed(section)

    def _next_part_id(self) -> str:
        return f"p{next(self._ids)}"

    def _new_turn(self, turn: Turn) -> Turn:
        conversation = self.conversation
        if conversation.current is not None:
            self._finish_text(conversation.current)
        conversation.turns.append(turn)
        conversation.turn_index[turn.turn_id] = turn
        conversation.current = turn
        for watcher in conversation.watchers:
            watcher.turn_started(turn)
        return turn

    def _current_turn(self) -> Turn:
        turn = self.conversation.current
        return turn or self._new_turn(Turn(turn_id=f"before-{next(self._ids)}", origin="preamble", running=False))

    def _turn_for(self, event: TextDelta | ContentAdded) -> Turn:
        if event.role == "user" and self._begins_replayed_turn(event):
            return self._new_turn(Turn(turn_id=f"replay-{next(self._ids)}", origin="replay", running=False))
        return self._current_turn()

    def _begins_replayed_turn(self, event: TextDelta | ContentAdded) -> bool:
        turn = self.conversation.current
        if not (self.conversation.loading or event.replay):
            return False
        if turn is None or turn.origin == "preamble":
            return True
        if turn.running:
            return False
        last = turn.last
        if not isinstance(last, (TextPart, ContentPart)) or last.role != "user":
            return True
        return event.message_id is not None and last.message_id is not None and event.message_id != last.message_id

    def _add_part(self, part: Part) -> None:
        turn = part.turn
        turn.parts.append(part)
        if not isinstance(part, UnknownPart):
            turn.last = part
        if not (isinstance(part, (TextPart, ContentPart)) and part.role == "user"):
            turn.echoes = None
        for watcher in self.conversation.watchers:
            watcher.part_added(part)

    def _finish_text(self, turn: Turn) -> None:
        """No running message goes on after this; a half character at its end stays as it came."""
        open_parts = list(turn.open_messages.values())
        if isinstance(turn.last, TextPart):
            open_parts.append(turn.last)
        turn.open_messages.clear()
        for part in open_parts:
            start = part.buffer.length
            if part.buffer.finish():
                for watcher in self.conversation.watchers:
                    watcher.text_grew(part, start)

    # --- text and content -----------------------------------------------------------------------------------------

    def text(self, event: TextDelta) -> None:
        """Append to the running message, or begin one."""
        if self._is_repetition(event.role, event.message_id, event.text):
            return
        turn = self._turn_for(event)
        text = event.text
        if event.role == "user" and turn.running and turn.echoes is not None:
            echoed = _take_echo(turn, text)
            if echoed:
                last = turn.last
                part = last if isinstance(last, TextPart) and last.echo else None
                self._append(part, turn, event, echoed, echo=True)
                text = text[len(echoed) :]
                if not text:
                    return
        part = self._open_part(turn, event.role, event.message_id)
        if part is None and not text and event.meta is None:
            return
        self._append(part, turn, event, text)

    def _open_part(self, turn: Turn, role: Role, message_id: str | None) -> TextPart | None:
        if message_id is not None:
            return turn.open_messages.get((role, message_id))
        last = turn.last
        return last if isinstance(last, TextPart) and last.role == role and not last.echo else None

    def _append(self, part: TextPart | None, turn: Turn, event: TextDelta, text: str, *, echo: bool = False) -> None:
        watchers = self.conversation.watchers
        if part is None:
            if event.message_id is None:
                self._finish_text(turn)
            part = TextPart(self._next_part_id(), turn, event.meta, event.role, event.message_id, echo)
            if event.message_id is not None and not echo:
                turn.open_messages[(event.role, event.message_id)] = part
            self._add_part(part)
        elif event.meta is not None and event.meta != part.meta:
            part.meta = event.meta
            for watcher in watchers:
                watcher.part_meta_changed(part)
        self._remember(event.role, event.message_id, part)
        start = part.buffer.length
        part.buffer.append(text)
        if part.buffer.length > start:
            for watcher in watchers:
                watcher.text_grew(part, start)

    def content(self, event: ContentAdded) -> None:
        """Add a block; text after it is a part of its own."""
        block = pack(event.block)
        if self._is_repeated_block(event, block):
            return
        turn = self._turn_for(event)
        self._finish_text(turn)
        echo = event.role == "user" and turn.echoes is not None and block in turn.prompt
        part = ContentPart(self._next_part_id(), turn, event.meta, event.role, event.message_id, block, echo)
        self._add_part(part)
        self._remember(event.role, event.message_id, part)

    def unknown(self, event: UnknownUpdate) -> None:
        """Keep an update of a kind not known, where it came."""
        try:
            raw: Any = json.dumps(event.raw, separators=(",", ":"))
        except (RecursionError, TypeError, ValueError):
            raw = event.raw
        self._add_part(UnknownPart(self._next_part_id(), self._current_turn(), None, event.kind, raw))

    # --- inside a load window ---------------------------------------------------------------------------------------

    def _remember(self, role: Role, message_id: str | None, part: Part) -> None:
        conversation = self.conversation
        if conversation.messages is None:
            return
        conversation.last_message = None if message_id is None else (role, message_id)
        if message_id is not None:
            message = conversation.messages.setdefault((role, message_id), Message())
            if not message.parts or message.parts[-1] is not part:
                message.parts.append(part)

    def _is_repetition(self, role: Role, message_id: str | None, text: str) -> bool:
        """Whether a message id that was already left comes again with what it already said."""
        conversation = self.conversation
        if conversation.messages is None or message_id is None:
            return False
        key = (role, message_id)
        message = conversation.messages.get(key)
        if message is None or (conversation.last_message == key and message.repeated is None):
            return False
        if message.repeated is None:
            message.repeated = "".join(part.buffer.text() for part in message.parts if isinstance(part, TextPart))
            message.matched = 0
        elif conversation.last_message != key and message.matched == len(message.repeated):
            message.matched = 0
        if message.repeated.startswith(text, message.matched):
            message.matched += len(text)
            conversation.last_message = key
            return True
        message.repeated = None
        return False

    def _is_repeated_block(self, event: ContentAdded, block: Any) -> bool:
        conversation = self.conversation
        if conversation.messages is None or event.message_id is None:
            return False
        key = (event.role, event.message_id)
        message = conversation.messages.get(key)
        if message is None or (conversation.last_message == key and message.repeated is None):
            return False
        return any(isinstance(part, ContentPart) and part.block == block for part in message.parts)

    # --- tool calls -------------------------------------------------------------------------------------------------

    def tool(self, event: ToolCallChanged) -> None:
        """Create or change a tool call; an update for an id never announced creates it."""
        conversation = self.conversation
        turn = self._current_turn()
        part = conversation.tool_parts.get(event.tool_call_id)
        if part is not None and event.announced and turn.running and part.turn is not turn and not conversation.loading:
            part = None  # the agent numbers its calls per turn
        created = part is None
        if part is None:
            self._finish_text(turn)
            part = ToolPart(self._next_part_id(), turn, None, event.tool_call_id)
            conversation.tool_parts[event.tool_call_id] = part
            conversation.last_message = None
            self._add_part(part)
        changed = _change_tool(part, event)
        if created or "status" in changed:
            changed += ["closed", "shown_status"]
        if changed:
            for watcher in conversation.watchers:
                watcher.tool_changed(part, changed)

    def _tools_shown_anew(self, turn: Turn) -> None:
        for part in turn.parts:
            if isinstance(part, ToolPart) and not part.finished:
                for watcher in self.conversation.watchers:
                    watcher.tool_changed(part, ("closed", "shown_status"))

    # --- turns ------------------------------------------------------------------------------------------------------

    def turn_started(self, event: TurnStarted) -> None:
        """Begin a live turn."""
        if event.turn_id in self.conversation.turn_index:
            return
        turn = Turn(event.turn_id, "prompt", event.text, pack(list(event.prompt)), event.started_at)
        turn.echoes = _echo_candidates(event)
        self._new_turn(turn)
        self.conversation.steering = [item for item in self.conversation.steering if item.state == "queued"]
        for watcher in self.conversation.watchers:
            watcher.section_changed("steering")
            watcher.section_changed("state")

    def turn_ended(self, event: TurnEnded) -> None:
        """End a turn and close the tool calls the agent left open."""
        turn = self.conversation.turn_index.get(event.turn_id)
        if turn is None or not turn.running:
            return
        self._finish_text(turn)
        turn.running = False
        turn.echoes = None
        turn.outcome = event.outcome
        turn.stop_reason = event.stop_reason
        turn.error = event.error
        turn.ended_at = event.ended_at
        turn.meta = event.meta
        self._tools_shown_anew(turn)
        for watcher in self.conversation.watchers:
            watcher.turn_ended(turn)
            watcher.section_changed("state")

    def cancel_requested(self, event: CancelRequested) -> None:
        """Remember that the user asked to stop."""
        turn = self.conversation.turn_index.get(event.turn_id)
        if turn is None or not turn.running or turn.cancel_requested_at is not None:
            return
        turn.cancel_requested_at = event.at
        self._tools_shown_anew(turn)
        for watcher in self.conversation.watchers:
            watcher.section_changed("state")

    def notice(self, event: NoticeAdded) -> None:
        """Notices belong to the session, not to one build of it."""
        self._add_notice(event)


def _echo_candidates(event: TurnStarted) -> list[str] | None:
    blocks = "".join(
        block["text"] for block in event.prompt if block.get("type") == "text" and isinstance(block.get("text"), str)
    )
    return list(dict.fromkeys(text for text in (event.text, blocks) if text)) or ([""] if event.prompt else None)


def _take_echo(turn: Turn, text: str) -> str:
    """Return how much of ``text`` repeats the prompt, and move the expectation on."""
    expected = turn.echoes or []
    going_on = [rest[len(text) :] for rest in expected if rest and rest.startswith(text)]
    if going_on:
        turn.echoes = going_on
        return text
    whole = max((rest for rest in expected if rest and text.startswith(rest)), key=len, default="")
    turn.echoes = [""] if whole else None
    return whole


def merge_meta(old: Meta, new: Meta) -> Meta:
    """Return ``new`` over ``old``, one level deep in each namespace, as an update changes only what it names."""
    if old is None or new is None:
        return old if new is None else new
    merged: dict[str, Any] = dict(old)
    for key, value in new.items():
        before = merged.get(key)
        merged[key] = {**before, **value} if isinstance(before, dict) and isinstance(value, dict) else value
    return merged


def _change_tool(part: ToolPart, event: ToolCallChanged) -> list[str]:
    """Put the fields in place; return the names of those that changed."""
    changed: list[str] = []
    for name, value in event.fields.items():
        if name in SCALAR_FIELDS and name in part.fields and part.fields[name] == value:
            continue
        late = name == "status" and event.announced and not part.announced and part.finished and value not in FINAL_STATUSES
        if late:
            continue  # the announcement came after the end
        part.fields[name] = pack(value)
        changed.append(name)
    part.announced = part.announced or event.announced
    if event.meta is not None and event.meta != part.meta:
        part.meta = merge_meta(part.meta, event.meta)
        changed.append("meta")
    return changed


_HANDLERS: Mapping[type, Callable[[Reducer, Any], None]] = {
    TextDelta: Reducer.text,
    ContentAdded: Reducer.content,
    ToolCallChanged: Reducer.tool,
    UnknownUpdate: Reducer.unknown,
    NoticeAdded: Reducer.notice,
    TurnStarted: Reducer.turn_started,
    TurnEnded: Reducer.turn_ended,
    CancelRequested: Reducer.cancel_requested,
}
