"""One session as the user works with it: the prompts that wait and the turn that runs, on top of ``actor_core``.

A prompt whose outcome is unknown is never sent again.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import anyio

from sidecar.errors import AgentFault, EditorFault, SidecarError, Unavailable, to_rpc_error
from sidecar.session.events import CancelRequested, JsonObject, SessionEvent, TurnEnded, TurnStarted
from sidecar.session.interaction import Form, PermissionRequest, Withdrawal
from sidecar.workspace.actor_core import RESTART_OFFER, Opener, SessionCore, SessionIdentity
from sidecar.workspace.turns import PromptQueue, QueuedPrompt

__all__ = ["Opener", "SessionActor", "SessionIdentity"]

CANCEL_PATIENCE_SECONDS: Final = 10.0

_log = logging.getLogger(__name__)


class SessionActor(SessionCore):
    """Folds events into state, runs one turn at a time, keeps the queue."""

    async def prompt(self, text: str, blocks: Sequence[JsonObject], while_running: str = "queue") -> dict[str, str]:
        """Send a prompt, or queue it, steer with it or replace the running turn: ``{"turnId", "state"}``."""
        if self._running is not None:
            if while_running == "steer":
                outcome = await self.steer(text)
                if outcome["state"] == "steered":
                    return {"turnId": self.running_turn_id or "", "state": "steered"}
                return {"turnId": outcome["turnId"], "state": "queued"}
            if while_running == "replace":
                item = self._queue(text, blocks, first=True)
                self.cancel()
                self.resume()
                return {"turnId": item.turn_id, "state": "queued"}
            item = self._queue(text, blocks)
            return {"turnId": item.turn_id, "state": "queued"}
        before = self._idle_cancels
        await self.ensure_open()
        kept_back = self._idle_cancels != before
        waiting = len(self.queue) > 0 or self._running is not None or kept_back
        self.queue.held = self.queue.held or kept_back
        item = self._queue(text, blocks)
        if not kept_back:
            self.resume()
        return {"turnId": item.turn_id, "state": "queued" if waiting else "started"}

    def _queue(self, text: str, blocks: Sequence[JsonObject], *, first: bool = False, origin: str = "user") -> QueuedPrompt:
        item = QueuedPrompt(self._new_turn_id(), text, blocks, self._clock.iso(), origin)
        self.queue.add(item, first=first)
        self._show_queue()
        return item

    def resume(self) -> None:
        """Let the queue go on."""
        self.queue.held = False
        self._show_queue()
        self._wake.set()

    def edit_queue(self, change: Callable[[PromptQueue], Any]) -> list[dict[str, Any]]:
        """Change the queue and return it."""
        change(self.queue)
        self._show_queue()
        return self.queue.to_json()

    async def run(self) -> None:
        """Send queued prompts one after the other, for as long as the session is open. Owned by the workspace's task group."""
        while not self.closed:
            item = self.queue.next()
            if item is None:
                self._wake = anyio.Event()
                await self._wake.wait()
                continue
            self._show_queue()
            await self._run_turn(item)

    async def _run_turn(self, item: QueuedPrompt) -> None:
        self._running = item
        self._cancel_wanted = False
        self._ended = anyio.Event()
        try:
            connection = await self.ensure_open()
            if self._cancel_wanted:
                self._end_cancelled(item)
                return
            self._set_phase("running")
            self.apply([TurnStarted(item.turn_id, item.text, item.blocks, self._clock.iso())])
            await connection.prompt(self._agents_id(), item.turn_id, item.blocks)
            if connection.closed is not None and not self.closed:
                self.queue.held = bool(len(self.queue))
                self._set_phase("lost", connection.closed, [RESTART_OFFER])
        except SidecarError as error:
            self._end_unsent(item, error.message)
        except Exception as error:  # noqa: BLE001  the top of a turn: a bug in one costs no other session anything
            _log.exception("a turn failed")
            self._end_unsent(item, to_rpc_error(error)["message"])
        finally:
            self._running = None
            self._ended.set()
            if self._phase in {"running", "cancelling"}:
                self._set_phase("idle")

    def _agents_id(self) -> str:
        if self.identity.agent_session_id is None:
            raise Unavailable("the session has no id at the agent")
        return self.identity.agent_session_id

    def _end_cancelled(self, item: QueuedPrompt) -> None:
        """Show a turn that was cancelled while the session was being opened; nothing of it was sent."""
        now = self._clock.iso()
        self.apply(
            [
                TurnStarted(item.turn_id, item.text, item.blocks, now),
                CancelRequested(item.turn_id, now),
                TurnEnded(item.turn_id, "ended", stop_reason="cancelled", ended_at=now),
            ]
        )

    def _end_unsent(self, item: QueuedPrompt, error: str) -> None:
        """Show a turn that could not even be sent as failed, and hold what waits behind it."""
        turn = self.state.conversation.turn_index.get(item.turn_id)
        events: list[SessionEvent] = []
        if turn is None:
            events.append(TurnStarted(item.turn_id, item.text, item.blocks, self._clock.iso()))
        if turn is None or turn.running:
            events.append(TurnEnded(item.turn_id, "failed", error=error, ended_at=self._clock.iso()))
        if events:
            self.apply(events)
        self.queue.held = bool(len(self.queue))
        self._show_queue()

    def cancel(self, spawn: Callable[[Callable[[], Awaitable[None]]], None] | None = None) -> dict[str, str]:
        """Stop the running turn: questions are answered cancelled, then the agent is told once. ``{"state"}``.

        The queue is held until the user sends or resumes. When idle nothing is sent, and a prompt that has not gone out yet stays
        in the queue.
        """
        running = self._running
        if running is None:
            self._idle_cancels += 1
            self.queue.held = len(self.queue) > 0
            self._show_queue()
            return {"state": "idle"}
        self.queue.held = True
        self._cancel_wanted = True
        self._show_queue()
        if self._phase == "cancelling":
            return {"state": "cancelling"}
        self._set_phase("cancelling")
        if self.state.running_turn is not None:
            self.apply([CancelRequested(running.turn_id, self._clock.iso())])
        for pending in self._broker.pending():
            if pending.asker.session_id == self.identity.session_id and isinstance(pending.body, PermissionRequest | Form):
                self._broker.withdraw(pending, Withdrawal.TURN_CANCELLED)
        if self.connection is not None and self.identity.agent_session_id is not None:
            self.connection.cancel(self.identity.agent_session_id)
        if spawn is not None:
            spawn(self._offer_way_out)
        return {"state": "cancelling"}

    async def _offer_way_out(self) -> None:
        """After a while of cancelling, offer to restart the agent; nothing is done without the user."""
        with anyio.move_on_after(CANCEL_PATIENCE_SECONDS):
            await self._ended.wait()
            return
        if self._phase == "cancelling":
            self._set_phase("cancelling", "the agent has not answered the cancel", [RESTART_OFFER])

    async def wait_idle(self) -> None:
        """Wait until no turn runs."""
        if self._running is not None:
            await self._ended.wait()

    async def steer(self, text: str) -> dict[str, str]:
        """Add text to the running turn: ``{"state": "steered" | "queued" | "unsupported", "turnId"?}``.

        Text the agent did not take returns to the queue, first in line.
        """
        connection, agent_session_id = self.connection, self.identity.agent_session_id
        if connection is None or agent_session_id is None or self._running is None:
            raise EditorFault("no turn is running; send a prompt instead")
        state = "unsupported"
        if connection.info.capabilities.steer:
            try:
                state = (await connection.steer(agent_session_id, text)).state
            except (AgentFault, Unavailable) as error:
                self.notice("warning", "The agent did not take the guidance; it waits as the next prompt", error.message)
        if state == "steered":
            return {"state": "steered"}
        item = self._queue(text, [{"type": "text", "text": text}], first=True, origin="steer")
        self._wake.set()
        return {"state": "queued", "turnId": item.turn_id, **({"reason": "unsupported"} if state == "unsupported" else {})}

    async def guide(self, text: str) -> None:
        """Send guidance that goes with a permission answer: as steering before it, else as the first queued prompt."""
        if self._running is not None:
            await self.steer(text)
        else:
            self._queue(text, [{"type": "text", "text": text}], first=True, origin="guidance")
            self._wake.set()
