"""Folds session events into a ``Conversation``: turns, parts and tool calls. The lists beside them are in ``sections.py``. Pure.

Nothing an agent sends is refused, and live text is never compared with what is there, shortened or withdrawn. Two places look at
text at all: the agent's repetition of the prompt inside a live turn (marked, kept), and a message id that comes a second time
inside a load window.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sidecar.session.conversation import (
    ContentPart,
    Conversation,
    Part,
    TextPart,
    ToolPart,
    Turn,
    UnknownPart,
)
from sidecar.session.echo import echo_candidates, take_echo
from sidecar.session.events import (
    CancelRequested,
    ContentAdded,
    NoticeAdded,
    Role,
    SessionEvent,
    TerminalChanged,
    TextDelta,
    ToolCallChanged,
    TurnEnded,
    TurnStarted,
    UnknownUpdate,
)
from sidecar.session.load_window import LoadWindow
from sidecar.session.sections import SECTION_HANDLERS
from sidecar.session.terminals import change_terminal
from sidecar.session.text import pack
from sidecar.session.tool_fields import change_tool


class Reducer:
    """Applies events to one conversation.

    ``ids`` gives numbers never used before in the session; ``add_notice`` keeps a notice; ``load_window`` is there while this
    conversation is the build of a running load.
    """

    def __init__(
        self,
        conversation: Conversation,
        ids: Iterator[int],
        add_notice: Callable[[NoticeAdded], None],
        load_window: LoadWindow | None = None,
    ) -> None:
        self.conversation = conversation
        self.load_window = load_window
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
        if self.load_window is None and not event.replay:
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
        window = self.load_window
        if window is not None and window.is_repeated_text(event.role, event.message_id, event.text):
            return
        turn = self._turn_for(event)
        text = event.text
        if event.role == "user" and turn.running and turn.echoes is not None:
            echoed = take_echo(turn, text)
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
        if self.load_window is not None:
            self.load_window.remember(event.role, event.message_id, part)
        start = part.buffer.length
        part.buffer.append(text)
        if part.buffer.length > start:
            for watcher in watchers:
                watcher.text_grew(part, start)

    def content(self, event: ContentAdded) -> None:
        """Add a block; text after it is a part of its own."""
        block = pack(event.block)
        window = self.load_window
        if window is not None and window.is_repeated_block(event.role, event.message_id, block):
            return
        turn = self._turn_for(event)
        self._finish_text(turn)
        echo = event.role == "user" and turn.echoes is not None and block in turn.prompt
        part = ContentPart(self._next_part_id(), turn, event.meta, event.role, event.message_id, block, echo)
        self._add_part(part)
        if window is not None:
            window.remember(event.role, event.message_id, part)

    def unknown(self, event: UnknownUpdate) -> None:
        """Keep an update of a kind not known, where it came."""
        try:
            raw: Any = json.dumps(event.raw, separators=(",", ":"))
        except (RecursionError, TypeError, ValueError):
            raw = event.raw
        self._add_part(UnknownPart(self._next_part_id(), self._current_turn(), None, event.kind, raw))

    # --- tool calls -------------------------------------------------------------------------------------------------

    def tool(self, event: ToolCallChanged) -> None:
        """Create or change a tool call; an update for an id never announced creates it."""
        conversation = self.conversation
        turn = self._current_turn()
        part = conversation.tool_parts.get(event.tool_call_id)
        if part is not None and event.announced and turn.running and part.turn is not turn and self.load_window is None:
            part = None  # the agent numbers its calls per turn
        created = part is None
        if part is None:
            self._finish_text(turn)
            part = ToolPart(self._next_part_id(), turn, None, event.tool_call_id)
            conversation.tool_parts[event.tool_call_id] = part
            if self.load_window is not None:
                self.load_window.left_message()
            self._add_part(part)
        changed = change_tool(part, event)
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
        turn.echoes = echo_candidates(event)
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

    def terminal(self, event: TerminalChanged) -> None:
        """Show what a terminal prints and how it ends."""
        view = change_terminal(self.conversation.terminals, event)
        if view is not None:
            for watcher in self.conversation.watchers:
                watcher.terminal_changed(view)

    def notice(self, event: NoticeAdded) -> None:
        """Notices belong to the session, not to one build of it."""
        self._add_notice(event)


_HANDLERS: Mapping[type, Callable[[Reducer, Any], None]] = {
    TextDelta: Reducer.text,
    ContentAdded: Reducer.content,
    ToolCallChanged: Reducer.tool,
    TerminalChanged: Reducer.terminal,
    UnknownUpdate: Reducer.unknown,
    NoticeAdded: Reducer.notice,
    TurnStarted: Reducer.turn_started,
    TurnEnded: Reducer.turn_ended,
    CancelRequested: Reducer.cancel_requested,
}
