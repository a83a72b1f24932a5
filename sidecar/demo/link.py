"""The way from the demo agent to its client."""

from typing import Any

from sidecar.demo.session import DemoSession
from sidecar.demo.wire import ClientFeatures, Json, kiro
from sidecar.transport.peer import Peer


class ClientLink:
    """Sends updates, notices and requests to the client; ``features`` are what it declared in ``initialize``."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self.features = ClientFeatures()

    def update(self, session: DemoSession, update: Json) -> None:
        """Send ``update`` of ``session`` and keep it for replays."""
        session.record(update)
        self.replay(session.session_id, update)

    def replay(self, session_id: str, update: Json) -> None:
        """Send ``update`` without keeping it."""
        self._peer.notify("session/update", {"sessionId": session_id, "update": update})

    def info(self, session_id: str, kind: str, **fields: Any) -> None:
        """Send one of Kiro V3's private events, which travel in ``session_info_update``."""
        self.replay(session_id, {"sessionUpdate": "session_info_update", "_meta": kiro(kind=kind, **fields)})

    def notice(self, session_id: str, text: str, severity: str = "info") -> None:
        """Tell the user something outside the conversation: as an ACP notice where declared, else as Kiro's system note.

        ``severity`` is ``info``, ``warning`` or ``error``.
        """
        if self.features.notices:
            self.replay(session_id, {"sessionUpdate": "notice", "severity": severity, "title": text})
        else:
            self._peer.notify("_kiro/system/notify", {"sessionId": session_id, "level": severity, "message": text})

    def notify(self, method: str, **params: Any) -> None:
        self._peer.notify(method, params)

    async def request(self, method: str, *, timeout: float | None = None, **params: Any) -> Any:  # noqa: ASYNC109 - handed to the peer
        """Ask the client and return its result; raises ``AgentFault`` for its refusal and ``Unavailable`` when it went away."""
        return await self._peer.request(method, params, timeout=timeout)
