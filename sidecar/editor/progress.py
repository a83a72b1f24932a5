"""One work-done progress per running turn, cancellable, and the way out of a cancel that is not answered."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio

from sidecar.editor.client import EditorClient, Progress
from sidecar.session.events import SessionEvent, ToolCallChanged, TurnEnded, TurnStarted
from sidecar.session.neutral import neutralise
from sidecar.workspace.actor import RESTART_OFFER, SessionActor
from sidecar.workspace.sessions import Workspace

LABEL_CHARACTERS: Final = 80
REPORT_SECONDS: Final = 0.25

ENDINGS: Final = {
    "end_turn": "done",
    "cancelled": "cancelled",
    "refusal": "the agent refused",
    "max_tokens": "the answer reached its token limit",
    "max_turn_requests": "the turn reached its limit of requests",
}


class TurnProgress:
    """Shows the turns of one session; ``cancelling`` that takes long is told once, with what the user can do."""

    def __init__(self, client: EditorClient, workspace: Workspace, actor: SessionActor) -> None:
        self._client = client
        self._workspace = workspace
        self._actor = actor
        self._ended: dict[str, anyio.Event] = {}
        self._outcome: dict[str, str] = {}
        self._label: str | None = None
        self._labelled_at = 0.0
        self._progress: Progress | None = None
        self._offered = False
        actor.observe(self._on_batch)

    def _on_batch(self, batch: Sequence[SessionEvent]) -> None:
        for event in batch:
            if isinstance(event, TurnStarted):
                ended = self._ended[event.turn_id] = anyio.Event()
                self._workspace.spawn(self._job(event.turn_id, event.text, ended))
            elif isinstance(event, TurnEnded):
                if (done := self._ended.pop(event.turn_id, None)) is not None:
                    self._outcome[event.turn_id] = ending(event)
                    done.set()
            elif isinstance(event, ToolCallChanged):
                self._report(event)

    def _job(self, turn_id: str, text: str, ended: anyio.Event) -> Callable[[], Awaitable[None]]:
        async def show() -> None:
            name = self._actor.identity.agent
            first = neutralise(text.strip().partition("\n")[0])[:LABEL_CHARACTERS]
            progress = await self._client.begin_progress(name, first or None, on_cancel=lambda: self._cancel(turn_id))
            self._progress = progress
            try:
                await ended.wait()
            finally:
                if self._progress is progress:
                    self._progress = None
                progress.end(self._outcome.pop(turn_id, None))

        return show

    def _cancel(self, turn_id: str) -> None:
        """The user cancelled the progress of this turn: nothing else is stopped."""
        if self._actor.running_turn_id == turn_id:
            self._actor.cancel(self._workspace.spawn)

    def _report(self, event: ToolCallChanged) -> None:
        title = event.fields.get("title")
        if self._progress is None or not isinstance(title, str) or title == self._label:
            return
        now = time.monotonic()
        if now - self._labelled_at >= REPORT_SECONDS:
            self._label, self._labelled_at = title, now
            self._progress.report(neutralise(title)[:LABEL_CHARACTERS])


class WayOut:
    """Tells an editor without a plugin when a cancel is not answered, once per cancel."""

    def __init__(self, client: EditorClient, actor: SessionActor) -> None:
        self._client = client
        self._actor = actor
        self._told = False
        actor.state.subscribe(self._look)

    def _look(self) -> None:
        if self._actor.phase != "cancelling":
            self._told = False
        elif not self._told and RESTART_OFFER in self._actor.state.section("state")["state"].get("offers", ()):
            self._told = True
            self._client.show_message(
                "warning",
                f"{self._actor.identity.agent} has not answered the cancel yet. sidecar.agent.restart ends it; "
                "the session is loaded again, and no prompt is sent a second time.",
            )


def ending(event: TurnEnded) -> str:
    """Return in a few words how a turn ended."""
    if event.outcome == "unknown":
        return "outcome unknown: the agent is gone"
    if event.outcome == "failed":
        return neutralise(event.error or "failed")[: 2 * LABEL_CHARACTERS]
    reason = event.stop_reason or ""
    return ENDINGS.get(reason) or neutralise(reason)[:LABEL_CHARACTERS]
