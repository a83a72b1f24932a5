"""Answers to an agent's questions during one run: by the user at the terminal, by refusal, or as typed for that one run."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import anyio.abc
import attrs

from sidecar.cli.answers import Answer, allow_once, refuse
from sidecar.cli.dialogue import put
from sidecar.cli.render import Renderer
from sidecar.cli.terminal import Terminal
from sidecar.client import Client
from sidecar.errors import EditorFault
from sidecar.session.interaction import FormAnswer, OpenUrl, Withdrawal
from sidecar.workspace.broker import Pending
from sidecar.workspace.opener import remote_notice


@attrs.frozen
class Policy:
    """Who answers. With a ``terminal`` the user does; else ``allow_once`` as typed; else everything is refused.

    ``protected`` are paths that ``allow_once`` never lets an agent touch.
    """

    terminal: Terminal | None = None
    allow_once: bool = False
    protected: Sequence[str] = ()


class Questioner:
    """Follows the waiting questions of a client. Each has a task of its own; the terminal takes one at a time."""

    def __init__(self, client: Client, renderer: Renderer, policy: Policy, tasks: anyio.abc.TaskGroup) -> None:
        self._broker = client.workspace.broker
        self._workspace = client.workspace
        self._renderer = renderer
        self._policy = policy
        self._tasks = tasks
        self._turn = anyio.Lock()
        self._shown: dict[str, Mapping[str, Any]] = {}
        self._scopes: dict[str, anyio.CancelScope] = {}

    def start(self) -> Callable[[], None]:
        """Begin; returns the way to stop."""
        self._broker.on_ended(self._ended)
        stop = self._broker.subscribe(self._changed)
        self._changed()
        return stop

    def _changed(self) -> None:
        waiting = {pending.id: pending for pending in self._broker.pending()}
        for question_id, scope in list(self._scopes.items()):
            if question_id not in waiting:
                scope.cancel()
        for question_id, pending in waiting.items():
            if question_id not in self._shown:
                if isinstance(pending.body, OpenUrl):
                    self._renderer.hide(pending.body.url.reveal())
                self._shown[question_id] = pending.to_json()
                self._renderer.question(pending.asker.session_id, self._shown[question_id])
                self._tasks.start_soon(self._answer, question_id, pending)

    def _ended(self, pending: Pending, answer: object) -> None:
        shown = self._shown.get(pending.id)
        if shown is None:
            return
        if isinstance(answer, Withdrawal):
            self._renderer.answered(pending.asker.session_id, shown, None, answer.value)
        else:
            self._renderer.answered(pending.asker.session_id, shown, _answer_json(answer), "")

    async def _answer(self, question_id: str, pending: Pending) -> None:
        with anyio.CancelScope() as scope:
            self._scopes[question_id] = scope
            try:
                await self._decide(question_id, pending)
            finally:
                del self._scopes[question_id]

    async def _decide(self, question_id: str, pending: Pending) -> None:
        full = pending.to_json(full=True)
        if self._policy.terminal is not None:
            if full["kind"] == "openUrl" and (notice := remote_notice(os.environ)) is not None:
                full["warnings"] = [*full["warnings"], notice]
            await self._ask_user(self._policy.terminal, question_id, full, pending)
            return
        if self._policy.allow_once and full["kind"] == "permission":
            answer, told = allow_once(full, self._folder(pending), self._policy.protected)
            if answer is not None:
                self._renderer.note("info", told)
                self._broker.answer(question_id, answer)
                return
            self._renderer.note("info", f"not allowed: {full['title']}: {told}")
        self._refuse(question_id, full, pending)

    def _folder(self, pending: Pending) -> str:
        for actor in self._workspace.actors():
            if actor.identity.session_id == pending.asker.session_id:
                return actor.identity.spec.cwd
        return os.getcwd()  # noqa: PTH109 - text for text

    def _refuse(self, question_id: str, full: Mapping[str, Any], pending: Pending) -> None:
        answer = refuse(full)
        if answer is None:
            self._broker.withdraw(pending, Withdrawal.TURN_CANCELLED)
            return
        word = "rejected" if full["kind"] == "permission" else "declined"
        self._renderer.note("info", f"{word}: {full['title']}{self._where(full)}")
        self._broker.answer(question_id, answer)

    @staticmethod
    def _where(full: Mapping[str, Any]) -> str:
        return f" ({full['display']})" if full["kind"] == "openUrl" else ""

    async def _ask_user(self, terminal: Terminal, question_id: str, full: Mapping[str, Any], pending: Pending) -> None:
        async with self._turn:
            await self._renderer.settled()
            problem = ""
            while True:
                answer: Answer | None = await terminal.ask(lambda at, told=problem: _put(full, told, at))
                if answer is None:
                    self._refuse(question_id, full, pending)
                    return
                try:
                    taken = self._broker.answer(question_id, answer)
                except EditorFault as fault:
                    problem = fault.message
                    continue
                if not taken["accepted"]:
                    self._renderer.note("warning", str(taken.get("reason")))
                return


def _put(question: Mapping[str, Any], problem: str, at: Any) -> Answer | None:
    if problem:
        at.write(f"  {problem}")
    return put(question, at)


def _answer_json(answer: object) -> dict[str, Any]:
    """Return an answer for the record of this run: what a form was filled in with stays out."""
    fields = attrs.asdict(answer)  # pyright: ignore[reportArgumentType] - every answer is an attrs class
    if isinstance(answer, FormAnswer):
        fields.pop("content")
    names = {"option_id": "optionId"}
    return {names.get(name, name): value for name, value in fields.items() if value is not None}
