"""The state of one session: what is shown, what a running load is building, and who watches. Pure; one thread.

ACP v1, session/load: history comes as updates before the reply. A load builds a second ``Conversation`` from empty, which takes
the place of the shown one at the reply as one reset, or is thrown away.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from sidecar.session.conversation import SECTIONS, Conversation, Notice, Section, Turn, Watcher
from sidecar.session.encode import notice_json, section_json, turn_json
from sidecar.session.events import (
    CancelRequested,
    JsonObject,
    LoadBegan,
    LoadEnded,
    McpServersReplaced,
    NoticeAdded,
    SessionEvent,
    TerminalChanged,
    TurnEnded,
    TurnStarted,
)
from sidecar.session.load_window import LoadWindow
from sidecar.session.reducer import Reducer

SNAPSHOT_TURNS: Final = 50
SNAPSHOT_NOTICES: Final = 100


class StateWatcher(Watcher, Protocol):
    """A watcher that is also told when everything shown was replaced."""

    def reset(self) -> None: ...


class SessionState:
    """One session as its fronts see it.

    ``apply`` takes the events of one read; ``to_json`` and ``history`` are CONTRACT's ``session.state`` and ``session.history``
    without what only the workspace knows (capabilities, numbering). Changes are followed with ``cursor.Cursor``.
    """

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._watchers: list[StateWatcher] = []
        self._listeners: list[Callable[[], None]] = []
        self._queue: list[JsonObject] = []
        self._status: dict[str, Any] = {}
        self._mcp_told: dict[str, tuple[Any, ...]] = {}
        self._building: Reducer | None = None
        self.notices: list[Notice] = []
        self._shown = Reducer(Conversation(self._listening()), self._ids, self._add_notice)

    def _listening(self) -> list[Watcher]:
        return self._watchers  # pyright: ignore[reportReturnType]  # the same list, seen with fewer methods

    @property
    def conversation(self) -> Conversation:
        """What is shown."""
        return self._shown.conversation

    @property
    def loading(self) -> bool:
        """Whether a load is building the next state."""
        return self._building is not None

    @property
    def running_turn(self) -> Turn | None:
        """The live turn, if any."""
        return self.conversation.running_turn

    def apply(self, batch: Sequence[SessionEvent]) -> None:
        """Fold the events of one read in, in order; listeners are called once."""
        for event in batch:
            self._apply_one(event)
        self._wake()

    def _apply_one(self, event: SessionEvent) -> None:
        if isinstance(event, LoadBegan):
            self._begin_load()
        elif isinstance(event, LoadEnded):
            self._end_load(event)
        else:
            if isinstance(event, McpServersReplaced):
                self._tell_mcp_failures(event)
            self._target(event).apply(event)

    def _target(self, event: SessionEvent) -> Reducer:
        building = self._building
        if building is None:
            return self._shown
        if isinstance(event, (TurnEnded, CancelRequested)) and event.turn_id not in building.conversation.turn_index:
            return self._shown
        if isinstance(event, TerminalChanged) and event.live:
            return self._shown
        if isinstance(event, TurnStarted) and event.turn_id in self.conversation.turn_index:
            return self._shown  # known already: nothing to begin
        return building

    # --- load -------------------------------------------------------------------------------------------------------

    def _begin_load(self) -> None:
        self._keep_live_turns()
        self._building = Reducer(Conversation([]), self._ids, self._add_notice, LoadWindow())
        self._section_changed("state")

    def _end_load(self, event: LoadEnded) -> None:
        building = self._building
        if building is None:
            return
        if not event.ok:
            self._keep_live_turns()
            self._section_changed("state")
            return
        self._building = None
        old, new = self.conversation, building.conversation
        building.load_window = None
        if not event.replayed:
            _put_before(new, old.turns, old)
        elif old.running_turn is not None and old.running_turn.turn_id not in new.turn_index:
            _put_before(new, [old.running_turn], old)
        if new.title is None:
            new.title, new.updated_at = old.title, new.updated_at or old.updated_at
        new.terminals = {**old.terminals, **new.terminals}
        new.watchers = self._listening()
        self._shown = building
        for watcher in self._watchers:
            watcher.reset()

    def _keep_live_turns(self) -> None:
        """Drop what a load built, but no turn the user began meanwhile."""
        building, self._building = self._building, None
        if building is None:
            return
        old, dropped = self.conversation, building.conversation
        live = [turn for turn in dropped.turns if turn.origin == "prompt"]
        if not live:
            return
        old.terminals |= dropped.terminals
        old.turns += live
        old.turn_index |= {turn.turn_id: turn for turn in live}
        old.tool_parts |= {key: part for key, part in dropped.tool_parts.items() if part.turn in live}
        old.current = live[-1]
        for watcher in self._watchers:
            watcher.reset()

    # --- what the workspace and the session itself add ----------------------------------------------------------------

    def set_queue(self, items: Sequence[JsonObject]) -> None:
        """Show the prompts that wait, as given: ``{"id", "text", ...}`` each."""
        self._queue = list(items)
        self._section_changed("queue")
        self._wake()

    def set_status(self, status: Mapping[str, Any]) -> None:
        """Show what the workspace knows of the session (running, waiting, ended, agent, ...)."""
        if status == self._status:
            return
        self._status = dict(status)
        self._section_changed("state")
        self._wake()

    def _add_notice(self, event: NoticeAdded) -> None:
        notice = Notice(f"n{next(self._ids)}", event.severity, event.title, event.description, event.source, event.meta)
        self.notices.append(notice)
        for watcher in self._watchers:
            watcher.notice_added(notice)

    def _tell_mcp_failures(self, event: McpServersReplaced) -> None:
        """Tell of a failed server once, not with every snapshot that repeats it (Kiro V3 client guide, MCP status)."""
        told: dict[str, tuple[Any, ...]] = {}
        for server in event.servers:
            name, status, error = str(server.get("name", "")), server.get("status"), server.get("errorMessage")
            sign_in = server.get("failedAuthorization") is True
            if not sign_in and status != "failed":
                continue
            told[name] = (status, sign_in, error)
            if self._mcp_told.get(name) == told[name]:
                continue
            title = f'MCP server "{name}" needs you to sign in' if sign_in else f'MCP server "{name}" failed'
            self._add_notice(NoticeAdded("warning", title, error if isinstance(error, str) else None, "mcp"))
        self._mcp_told = told

    # --- reading ----------------------------------------------------------------------------------------------------

    def section(self, section: Section) -> dict[str, Any]:
        """Return the snapshot keys of one section."""
        if section == "queue":
            return {"queue": list(self._queue)}
        if section == "state":
            return {"state": self._state_json()}
        return section_json(self.conversation, section)

    def _state_json(self) -> dict[str, Any]:
        conversation = self.conversation
        state = dict(self._status)
        turn = conversation.running_turn
        if turn is not None:
            state["turnId"] = turn.turn_id
            if turn.cancel_requested_at is not None:
                state["cancelRequestedAt"] = turn.cancel_requested_at
        if conversation.incomplete is not None:
            state["incomplete"] = conversation.incomplete
        if self.loading:
            state["loading"] = True
        return state

    def to_json(self, turns: int = SNAPSHOT_TURNS, before: str | None = None) -> dict[str, Any]:
        """Return the snapshot: every section, the last ``turns`` turns (before turn ``before``), the last notices.

        ``before`` in the result is the turn id to ask older turns with, absent when there are none. ``terminals`` are those tool
        calls show (``terminals.TerminalView``). ``metas`` holds the agent's ``_meta`` per section.
        """
        result: dict[str, Any] = self.history(before, turns)
        for section in SECTIONS:
            result |= self.section(section)
        result["metas"] = dict(self.conversation.metas)
        result["terminals"] = [terminal.to_json() for terminal in self.conversation.terminals.values()]
        result["notices"] = [notice_json(notice) for notice in self.notices[-SNAPSHOT_NOTICES:]]
        return result

    def history(self, before: str | None = None, limit: int = SNAPSHOT_TURNS) -> dict[str, Any]:
        """Return ``{"turns": [...], "before"?}``: at most ``limit`` turns before turn ``before`` (None or unknown: the last)."""
        shown, older = self.window(limit, before)
        result: dict[str, Any] = {"turns": [turn_json(turn) for turn in shown]}
        if older:
            result["before"] = shown[0].turn_id if shown else before
        return result

    def window(self, limit: int, before: str | None = None) -> tuple[list[Turn], bool]:
        """Return the last ``limit`` turns (before turn ``before``), and whether there are older ones."""
        turns = self.conversation.turns
        end = len(turns)
        if before is not None and before in self.conversation.turn_index:
            end = turns.index(self.conversation.turn_index[before])
        start = max(0, end - max(0, limit))
        return turns[start:end], start > 0

    # --- watching ---------------------------------------------------------------------------------------------------

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call ``listener()`` once after each batch or change."""
        self._listeners.append(listener)

    def unsubscribe(self, listener: Callable[[], None]) -> None:
        """Stop calling ``listener``; unknown ones are ignored."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def watch(self, watcher: StateWatcher) -> None:
        """Tell ``watcher`` of every change from now on."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: StateWatcher) -> None:
        """Stop telling ``watcher``; unknown ones are ignored."""
        if watcher in self._watchers:
            self._watchers.remove(watcher)

    def _section_changed(self, section: Section) -> None:
        for watcher in self._watchers:
            watcher.section_changed(section)

    def _wake(self) -> None:
        for listener in tuple(self._listeners):
            listener()


def _put_before(new: Conversation, turns: Sequence[Turn], old: Conversation) -> None:
    kept = set(turns)
    new.turns = [*turns, *new.turns]
    new.turn_index = {**{turn.turn_id: turn for turn in turns}, **new.turn_index}
    new.tool_parts = {**{key: part for key, part in old.tool_parts.items() if part.turn in kept}, **new.tool_parts}
    if new.current is None:
        new.current = turns[-1] if turns else None
