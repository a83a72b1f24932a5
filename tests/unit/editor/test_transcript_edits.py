"""One edit at a time: when it goes, when it counts as done, and when it is made again."""

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from sidecar.editor.client import EditorClient
from sidecar.editor.transcript_edits import SEEN_SECONDS, TYPING_PAUSE_SECONDS, EditSlot, Outcome, Plan
from sidecar.rpc.connection import Connection
from sidecar.rpc.messages import Message
from sidecar.workspace.documents import DocumentEvent, Documents
from sidecar.workspace.positions import LineBuffer, insert_edit
from sidecar.workspace.sessions import SystemClock

URI = "file:///t.md"
WAIT_SECONDS = 5.0

pytestmark = pytest.mark.anyio


class Sent:
    """What goes to the editor; it always has room."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.changed = anyio.Event()

    def send(self, message: Message) -> None:
        self.messages.append(message)
        self.changed.set()
        self.changed = anyio.Event()

    async def room(self) -> None:
        return

    @property
    def queued_bytes(self) -> int:
        return 0

    async def edits(self, count: int) -> list[dict[str, Any]]:
        """Wait for so many edits and return them."""
        with anyio.fail_after(WAIT_SECONDS):
            while len(found := [m for m in self.messages if m.get("method") == "workspace/applyEdit"]) < count:
                await self.changed.wait()
        return [message["params"]["edit"]["documentChanges"][0] for message in found]


class Bench:
    def __init__(self, tasks: Any) -> None:
        self.sent = Sent()
        self.documents = Documents("utf-16")
        self.unsure: list[str] = []
        client = EditorClient(self.sent, Connection())
        self.slot = EditSlot(client, self.documents, tasks, SystemClock(), self.unsure.append)
        self.documents.listen(self._note)
        self.version = 1
        self.done = 0
        item = {"uri": URI, "languageId": "markdown", "version": 1, "text": "top\n"}
        self.documents.did_open({"textDocument": item})

    def _note(self, event: DocumentEvent) -> None:
        self.slot.note(event)

    def change(self, line: int, text: str) -> None:
        """Have the editor tell of an insertion."""
        self.version += 1
        at = {"line": line, "character": 0}
        change = {"range": {"start": at, "end": at}, "text": text}
        self.documents.did_change({"textDocument": {"uri": URI, "version": self.version}, "contentChanges": [change]})

    def plan(self, text: str) -> Callable[[LineBuffer], Plan]:
        def make(buffer: LineBuffer) -> Plan:
            return Plan([insert_edit((0, 0), text)], lambda now: text in now.lines, self._count, text)

        return make

    def _count(self) -> None:
        self.done += 1


@asynccontextmanager
async def bench() -> AsyncGenerator[Bench]:
    async with anyio.create_task_group() as tasks:
        yield Bench(tasks)
        tasks.cancel_scope.cancel()


async def outcome(made: Bench, text: str, results: list[Outcome], *, urgent: bool = False) -> None:
    results.append(await made.slot.apply(URI, made.plan(text), urgent=urgent))


async def test_an_edit_is_done_when_it_is_seen_and_not_when_the_editor_says_so() -> None:
    results: list[Outcome] = []
    async with bench() as made:
        with anyio.fail_after(WAIT_SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(outcome, made, "ours\n", results)
                edit = (await made.sent.edits(1))[0]
                assert edit["textDocument"] == {"uri": URI, "version": 1}
                assert results == []
                made.change(0, "ours\n")
        assert made.done == 1
    assert results == [Outcome.SEEN]


async def test_an_edit_that_is_never_seen_is_given_up_and_the_next_names_the_version_known_then() -> None:
    async with bench() as made:
        assert await made.slot.apply(URI, made.plan("one\n")) is Outcome.UNSEEN
        made.change(1, "typed\n")
        results: list[Outcome] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(outcome, made, "one\n", results)
            edits = await made.sent.edits(2)
            assert edits[1]["textDocument"]["version"] == 2
            made.change(0, "one\n")
        assert results == [Outcome.SEEN]
        assert made.done == 1


async def test_an_edit_seen_late_is_done_and_not_made_again() -> None:
    async with bench() as made:
        assert await made.slot.apply(URI, made.plan("late\n")) is Outcome.UNSEEN
        assert made.done == 0
        made.change(0, "late\n")
        assert made.done == 1


async def test_no_edit_goes_while_the_user_types_but_what_they_ask_for_does() -> None:
    async with bench() as made, anyio.create_task_group() as tasks:
        made.change(1, "typed\n")
        typed_at = time.monotonic()
        tasks.start_soon(outcome, made, "stream\n", list[Outcome]())
        await made.sent.edits(1)
        assert time.monotonic() - typed_at >= TYPING_PAUSE_SECONDS - 0.05
        made.change(0, "stream\n")
        made.change(2, "more\n")
        asked_at = time.monotonic()
        tasks.start_soon(lambda: outcome(made, "asked\n", list[Outcome](), urgent=True))
        await made.sent.edits(2)
        assert time.monotonic() - asked_at < TYPING_PAUSE_SECONDS
        made.change(0, "asked\n")


async def test_a_mirror_that_lost_track_stops_edits_until_a_save() -> None:
    results: list[Outcome] = []
    async with bench() as made:
        made.documents.did_change({"textDocument": {"uri": URI, "version": 2}, "contentChanges": None})
        with anyio.fail_after(WAIT_SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(outcome, made, "x\n", results)
                await anyio.sleep(SEEN_SECONDS / 4)
                assert made.sent.messages == []
                assert len(made.unsure) == 1
                made.documents.did_save({"textDocument": {"uri": URI}, "text": "saved\n"})
                await made.sent.edits(1)
                made.documents.did_close({"textDocument": {"uri": URI}})
    assert results == [Outcome.CLOSED]
