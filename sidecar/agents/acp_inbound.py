"""What an ACP agent sends, in the order of the wire, to whom it belongs: requests to the asker, updates to their session's sink.

The only per-update work is here and in the translator; everything moves in batches of one read (DESIGN, six hops).
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from sidecar.agents.acp_hot import TextRun
from sidecar.agents.acp_requests import AcpRequests
from sidecar.agents.acp_sessions import SessionTable
from sidecar.agents.acp_shown_terminals import with_terminals
from sidecar.agents.acp_translate import translate_update
from sidecar.agents.kiro_translate import translate_notification
from sidecar.errors import SidecarError
from sidecar.rpc.messages import IncomingRequest, RequestId
from sidecar.session.events import McpServersReplaced, SessionEvent, TextDelta, ToolCallChanged, TurnEnded
from sidecar.session.interaction import Withdrawal
from sidecar.session.lenient import object_at, object_or_none
from sidecar.session.ports import ConnectionSink
from sidecar.transport.peer import Noise

SHOWN_NOISE_LINES = 3
LOST_FRAME_KINDS = frozenset({"oversize", "partial"})

_log = logging.getLogger(__name__)


class AcpInbound:
    """The peer handler of one ACP connection. ``now`` gives ISO time for turns that end with the connection."""

    def __init__(
        self, table: SessionTable, requests: AcpRequests, sink: ConnectionSink, now: Callable[[], str], *, keep_raw: bool
    ) -> None:
        self._table = table
        self._requests = requests
        self._sink = sink
        self._now = now
        self._keep_raw = keep_raw
        self._paths = requests.paths
        self._batch: list[SessionEvent] = []
        self._batch_session = ""
        self._noise = 0
        self.on_lost: Callable[[str], None] | None = None
        self.frames = 0

    # --- updates --------------------------------------------------------------------------------------------------------

    def on_item(self, item: object) -> None:
        """Take a run of text that the decoder merged."""
        if isinstance(item, TextRun):
            self._add(item.session_id, [TextDelta(item.role, item.text, item.message_id)])

    def on_notification(self, method: str, params: Any) -> None:
        """Take an update, or one of the agent's private notifications."""
        if method == "session/update":
            self._update(params)
            return
        session_id, events = translate_notification(method, params)
        if method == "_kiro/sessions/changed":
            self._sink.sessions_changed()
        if session_id is not None:
            self._add(session_id, events)
            return
        self._flush()
        for event in events:
            self._connection_event(event)

    def _update(self, params: Any) -> None:
        session_id = object_at(params).get("sessionId")
        update = object_or_none(object_at(params).get("update"))
        if not isinstance(session_id, str) or update is None:
            self._table.mark_incomplete("the agent sent an update without a session id")
            return
        events = with_terminals(translate_update(update, keep_raw=self._keep_raw))
        self._add(session_id, [self._paths.event(event) for event in events] if self._paths else events)

    def _connection_event(self, event: SessionEvent) -> None:
        if isinstance(event, McpServersReplaced):
            for bound in self._table.all():
                bound.sink.apply([event])
            return
        title = getattr(event, "title", None)
        if isinstance(title, str):
            self._sink.notice(getattr(event, "severity", "info"), title, getattr(event, "description", None))

    def _add(self, session_id: str, events: Sequence[SessionEvent]) -> None:
        if session_id != self._batch_session:
            self._flush()
            self._batch_session = session_id
        self._batch += events

    def _flush(self) -> None:
        if not self._batch:
            return
        batch, self._batch = self._batch, []
        self._table.apply(self._batch_session, batch)
        self.frames += len(batch)
        asked = self._requests.waiting
        for event in batch:
            if type(event) is ToolCallChanged and asked:
                self._requests.tool_call_changed(self._batch_session, event)
            elif type(event) is McpServersReplaced:
                for server in event.servers:
                    if server.get("status") == "connected":
                        self._requests.sign_in_ended(str(server.get("name")))

    def flush(self) -> None:
        """Hand over what was gathered; called before a reply is looked at, so that order is the wire's."""
        self._flush()

    # --- the rest of the handler ------------------------------------------------------------------------------------------

    def on_request(self, request: IncomingRequest) -> None:
        self._flush()
        self._requests.on_request(request)

    def on_batch_end(self) -> None:
        self._flush()

    def on_cancelled(self, request_id: RequestId) -> None:
        self._requests.on_cancelled(request_id)

    def on_noise(self, noise: Noise) -> None:
        """Tell of what could not be read: the first few lines, and every frame that was lost."""
        self._flush()
        self._noise += 1
        if noise.kind == "bug":
            _log.error("%s", noise.detail, exc_info=noise.error)
        lost = noise.kind in LOST_FRAME_KINDS or (noise.kind == "not-json" and noise.excerpt.lstrip().startswith(b"{"))
        if lost:
            self._table.mark_incomplete(f"a message of the agent could not be read ({noise.detail}); reload to be sure")
        elif noise.kind == "bug" or self._noise <= SHOWN_NOISE_LINES:
            severity = "error" if noise.kind == "bug" else "info"
            title = noise.error.message if isinstance(noise.error, SidecarError) else noise.detail
            self._sink.notice(severity, "The agent's output held something that is not a message", title)

    def on_closed(self, reason: str) -> None:
        """End every running turn as unknown and withdraw every question, then say why."""
        self._flush()
        self._requests.withdraw_all(Withdrawal.AGENT_LOST)
        for bound in self._table.all():
            bound.withdraw_questions(Withdrawal.AGENT_LOST)
            if bound.turn_id is not None:
                error = "the agent is gone; whether the prompt was carried out is not known, and it is not sent again"
                bound.end_turn(TurnEnded(bound.turn_id, "unknown", error=error, ended_at=self._now()))
        if self.on_lost is not None:
            self.on_lost(reason)
