"""Recorded traffic of real agents, folded in: no text is lost, and a slow reader ends with what a snapshot shows."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from sidecar.agents.acp_translate import translate_update
from sidecar.session.cursor import Cursor
from sidecar.session.events import LoadBegan, LoadEnded, SessionEvent, TextDelta, TurnEnded, TurnStarted
from sidecar.session.model import SessionState
from tests.conftest import shared_path
from tests.unit.session.reference_client import ReferenceClient

ALL = 10**6


class Reader:
    """One session with a client that reads little and seldom."""

    def __init__(self) -> None:
        self.state = SessionState()
        self.client = ReferenceClient(self.state.to_json(ALL))
        self.cursor = Cursor(self.state, ALL)
        self.updates = 0

    def apply(self, events: list[SessionEvent]) -> None:
        self.state.apply(events)
        self.updates += 1
        if self.updates % 3 == 0:
            self.client.apply(self.cursor.take(700))

    def finish(self) -> dict[str, Any]:
        while self.cursor.pending:
            self.client.apply(self.cursor.take(500))
        return self.client.view


def events_of(recording: Path) -> Iterator[tuple[str, list[SessionEvent]]]:
    """Yield (session id, events) as the driver of the recording would have seen them."""
    waiting: dict[Any, tuple[str, str]] = {}
    for line in recording.read_text(encoding="utf-8").split("\n"):
        entry: dict[str, Any] = json.loads(line) if line else {}
        found = entry.get("msg")
        if not isinstance(found, Mapping):
            continue
        message = cast("Mapping[str, Any]", found)
        method = message.get("method")
        params: dict[str, Any] = message.get("params") or {}
        if entry["dir"] == "c2a" and method == "session/prompt":
            waiting[message["id"]] = (params["sessionId"], f"t{len(waiting)}")
            yield params["sessionId"], [TurnStarted(f"t{len(waiting) - 1}", "", params.get("prompt", []))]
        elif entry["dir"] == "c2a" and method == "session/load":
            waiting[message["id"]] = (params["sessionId"], "")
            yield params["sessionId"], [LoadBegan()]
        elif entry["dir"] == "a2c" and method == "session/update":
            yield params["sessionId"], translate_update(params["update"])
        elif entry["dir"] == "a2c" and method is None and message.get("id") in waiting:
            session_id, turn_id = waiting[message["id"]]
            ok = "result" in message
            stop = message["result"].get("stopReason") if ok else None
            yield session_id, [TurnEnded(turn_id, "ended" if ok else "failed", stop) if turn_id else LoadEnded(ok)]


def test_recorded_sessions_lose_no_text_and_leave_no_tool_call_open() -> None:
    for recording in sorted(shared_path("facts", "agents-traffic").glob("*.jsonl")):
        readers: dict[str, Reader] = defaultdict(Reader)
        said: dict[str, str] = defaultdict(str)
        for session_id, events in events_of(recording):
            if isinstance(events[0] if events else None, LoadBegan):
                said[session_id] = ""
            said[session_id] += "".join(event.text for event in events if isinstance(event, TextDelta))
            readers[session_id].apply(events)
        for session_id, reader in readers.items():
            view = reader.finish()
            assert view == reader.state.to_json(ALL), recording.name
            parts = [part for turn in view["turns"] for part in turn["parts"]]
            shown = "".join(part["text"] for part in parts if part["kind"] == "text")
            assert sorted(shown) == sorted(said[session_id]), recording.name
            if reader.state.running_turn is None:
                statuses = {part["toolCall"]["shownStatus"] for part in parts if part["kind"] == "tool"}
                assert statuses <= {"completed", "failed", "cancelled", "unfinished"}, recording.name
