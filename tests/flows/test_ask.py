"""The ladder of questions over a real broker, with an editor in memory and a clock that stands still."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import attrs
import pytest
from anyio.lowlevel import checkpoint

from sidecar.editor.ask import QuestionLadder, QuestionWords, Rung
from sidecar.editor.ask_marks import QuestionMarks
from sidecar.editor.client import EditorClient
from sidecar.editor.identity import read_client
from sidecar.editor.parts import Place
from sidecar.rpc.connection import LSP_CANCELLATION, Connection
from sidecar.rpc.messages import IncomingReply, Message
from sidecar.session.interaction import (
    Answer,
    OpenUrl,
    PermissionAnswer,
    PermissionOption,
    PermissionRequest,
    Withdrawal,
)
from sidecar.workspace.broker import Asker, Broker

pytestmark = pytest.mark.anyio

PLUGIN: dict[str, Any] = {"experimental": {"sidecar": {"protocol": 1}}}
DIALOGS: dict[str, Any] = {"window": {"showMessage": {}}}
OPTIONS = [PermissionOption("yes", "Allow", "allow_once"), PermissionOption("no", "Deny", "reject_once")]
TICKS = 50


@attrs.define
class Clock:
    now: float = 100.0

    def iso(self) -> str:
        return "2026-01-01T00:00:00.000Z"

    def monotonic(self) -> float:
        return self.now


class Editor:
    """Keeps what it is sent; its pipe takes everything."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.queued_bytes = 0
        self.told_twice = anyio.Event()
        self.connection = Connection(LSP_CANCELLATION)
        self.client = EditorClient(self, self.connection)

    def send(self, message: Message) -> None:
        self.sent.append(message)
        if len(self.named("sidecar/pending/changed")) == 2:
            self.told_twice.set()

    async def room(self) -> None:
        await checkpoint()

    def named(self, method: str) -> list[Message]:
        return [message for message in self.sent if message.get("method") == method]

    def reply(self, request: Message, result: Any) -> None:
        incoming = self.connection.receive({"jsonrpc": "2.0", "id": request["id"], "result": result})
        if isinstance(incoming, IncomingReply):
            self.client.resolve(incoming)


class Hooks:
    async def open_url(self, body: OpenUrl) -> bool:
        return False

    async def guide(self, session_id: str, text: str) -> None: ...


@attrs.define
class Stage:
    editor: Editor
    broker: Broker
    ladder: QuestionLadder
    clock: Clock
    answers: list[Answer | Withdrawal] = attrs.field(factory=list[Answer | Withdrawal])

    def ask(self, command: str = "ls", session: str = "s-1") -> Any:
        body = PermissionRequest("c", command, OPTIONS, command=command)
        return self.broker.ask(Asker(session, "agent"), body, self.answers.append)

    async def settle(self) -> None:
        for _ in range(TICKS):
            await checkpoint()


@asynccontextmanager
async def stage(capabilities: Mapping[str, Any]) -> AsyncGenerator[Stage, None]:
    editor, clock = Editor(), Clock()
    editor.client.info = read_client({"capabilities": dict(capabilities)})
    async with anyio.create_task_group() as tasks:

        def spawn(job: Callable[[], Awaitable[None]]) -> None:
            async def run() -> None:
                await job()

            tasks.start_soon(run)

        broker = Broker(clock, spawn, Hooks())
        marks = QuestionMarks(editor.client, lambda _: Place("file:///a", 3, 5), lambda _: [{"message": "another"}])
        words = QuestionWords(marks, notice_for=lambda _: None, hint=lambda _: "see the transcript")
        ladder = QuestionLadder(editor.client, broker, clock, words)
        tasks.start_soon(ladder.run)
        yield Stage(editor, broker, ladder, clock)
        tasks.cancel_scope.cancel()


def test_the_rung_follows_what_the_editor_said() -> None:
    expected = {
        Rung.NOTIFICATIONS: [PLUGIN, {**PLUGIN, **DIALOGS}],
        Rung.DIALOGS: [DIALOGS, {**DIALOGS, "experimental": {"sidecar": {"protocol": 1, "questions": False}}}],
        Rung.MESSAGES: [{}, {"window": {"showMessage": None}}, {"experimental": {"sidecar": {"protocol": 99}}}],
    }

    async def rung(capabilities: Mapping[str, Any]) -> Rung:
        async with stage(capabilities) as found:
            return found.ladder.rung
        raise AssertionError("unreachable")

    for wanted, all_capabilities in expected.items():
        for capabilities in all_capabilities:
            assert anyio.run(rung, capabilities) is wanted, capabilities


async def test_a_plugin_gets_the_full_list_whenever_it_changes() -> None:
    async with stage(PLUGIN) as found:
        handle = found.ask()
        await found.settle()
        handle.withdraw(Withdrawal.AGENT_WITHDREW)
        with anyio.fail_after(5):
            await found.editor.told_twice.wait()
        told = [message["params"]["pending"] for message in found.editor.named("sidecar/pending/changed")]
        assert [len(questions) for questions in told] == [1, 0]


async def test_a_question_announced_a_second_ago_can_be_answered_and_not_a_moment_earlier() -> None:
    async with stage({}) as found:
        found.ask()
        await found.settle()
        found.clock.now += 0.99
        assert found.ladder.decide(allow=True)["accepted"] is False
        found.clock.now += 0.99
        assert found.ladder.decide(allow=True)["accepted"] is False, "announced again, so the time begins again"
        assert len(found.editor.named("window/showMessage")) == 3
        found.clock.now += 1.0
        assert found.ladder.decide(allow=True) == {"accepted": True}
        assert found.answers == [PermissionAnswer("yes")]
        assert found.ladder.decide(allow=True)["reason"] == "no question is waiting"


async def test_a_question_that_changed_must_be_announced_anew_before_it_can_be_answered() -> None:
    async with stage({}) as found:
        handle = found.ask()
        await found.settle()
        found.clock.now += 2
        handle.replace(PermissionRequest("c", "rm", OPTIONS, command="rm -rf ~"))
        refused = found.ladder.decide(allow=True)
        assert "changed" in refused["reason"]
        assert "rm -rf ~" in found.editor.named("window/showMessage")[-1]["params"]["message"]
        assert found.answers == []
        found.clock.now += 2
        assert found.ladder.decide(allow=False)["accepted"]
        assert found.answers == [PermissionAnswer("no")]


async def test_with_several_questions_nothing_is_answered_until_one_is_left_and_was_announced() -> None:
    async with stage({}) as found:
        found.ask("first", "s-1")
        second = found.ask("second", "s-2")
        await found.settle()
        found.clock.now += 5
        assert "2 questions wait" in found.ladder.decide(allow=True)["reason"]
        second.withdraw(Withdrawal.TURN_CANCELLED)
        await found.settle()
        assert "first" in found.editor.named("window/showMessage")[-1]["params"]["message"]
        assert "less than a second" in found.ladder.decide(allow=True)["reason"]
        found.clock.now += 1
        assert found.ladder.decide(allow=True)["accepted"]
        assert found.answers == [Withdrawal.TURN_CANCELLED, PermissionAnswer("yes")]


async def test_a_dialog_is_withdrawn_with_its_question_and_the_next_one_follows() -> None:
    async with stage(DIALOGS) as found:
        first = found.ask("first", "s-1")
        found.ask("second", "s-2")
        await found.settle()
        (shown,) = found.editor.named("window/showMessageRequest")
        first.withdraw(Withdrawal.TURN_CANCELLED)
        await found.settle()
        assert found.editor.named("$/cancelRequest")[0]["params"] == {"id": shown["id"]}
        found.editor.reply(shown, {"title": "Allow"})
        later = found.editor.named("window/showMessageRequest")[1]
        assert "second" in later["params"]["message"]
        found.editor.reply(later, {"title": "Deny"})
        await found.settle()
        assert found.answers == [Withdrawal.TURN_CANCELLED, PermissionAnswer("no")]


async def test_marks_stand_where_the_question_stands_and_keep_what_else_is_there() -> None:
    async with stage({}) as found:
        handle = found.ask()
        await found.settle()
        handle.withdraw(Withdrawal.TURN_CANCELLED)
        await found.settle()
        first, last = (message["params"] for message in found.editor.named("textDocument/publishDiagnostics"))
        assert first["uri"] == "file:///a"
        assert first["diagnostics"][0]["range"] == {"start": {"line": 3, "character": 0}, "end": {"line": 5, "character": 0}}
        assert first["diagnostics"][1:] == last["diagnostics"] == [{"message": "another"}]


async def test_the_command_of_a_plugin_answers_only_what_it_was_told_of() -> None:
    async with stage(PLUGIN) as found:
        found.ask()
        assert "not announced" in found.ladder.decide(allow=True)["reason"]
        await found.settle()
        found.clock.now += 1
        assert found.ladder.decide(allow=True)["accepted"]
        assert found.answers == [PermissionAnswer("yes")]
