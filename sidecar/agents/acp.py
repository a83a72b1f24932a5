"""One ACP agent behind a byte stream, as the port the workspace speaks to (``session.ports.AgentConnection``).

The order of everything is that of the wire: a reply is looked at only after the updates before it reached their sinks, and what a
reply means for a session (a turn's end, a finished load) is applied before the caller of the request wakes.
"""

from collections.abc import Sequence
from typing import Final

from sidecar.acp import build
from sidecar.agents.acp_announced import PLAIN
from sidecar.agents.acp_frames import turn_ended
from sidecar.agents.acp_link import ConnectionOptions, Offers, now_iso
from sidecar.agents.acp_prompt import fit_prompt
from sidecar.agents.acp_session_calls import CALL_TIMEOUT_SECONDS, AcpSessionCalls
from sidecar.agents.acp_translate import translate_session_reply
from sidecar.agents.extensions import EXTENSIONS, wants_sign_in
from sidecar.errors import AgentFault, Refused, Unavailable
from sidecar.rpc.messages import IncomingReply
from sidecar.session.events import JsonObject, NoticeAdded, SteeringChanged, TurnEnded
from sidecar.session.interaction import Withdrawal
from sidecar.session.lenient import texts_in
from sidecar.session.ports import SteerResult

__all__ = ["AcpConnection", "ConnectionOptions", "Offers"]

STEER_TIMEOUT_SECONDS: Final = 10.0
COMPACT_TIMEOUT_SECONDS: Final = 600.0
AUTHENTICATE_TIMEOUT_SECONDS: Final = 600.0


class AcpConnection(AcpSessionCalls):
    """Implements ``AgentConnection``."""

    async def prompt(self, agent_session_id: str, turn_id: str, blocks: Sequence[JsonObject]) -> None:
        bound = self._bound(agent_session_id)
        if bound.turn_id is not None:
            raise Refused("a turn is already running in this session; prompts are sent one at a time")
        sent, changes = fit_prompt(blocks, self.info.capabilities, self._profile.name)
        if not sent:
            raise Refused(f"nothing was sent: {'; '.join(changes)}")
        if changes:
            bound.sink.apply([NoticeAdded("warning", sentence, source="sidecar") for sentence in changes])

        def on_reply(reply: IncomingReply) -> None:
            self._inbound.flush()
            if bound.turn_id == turn_id:
                bound.end_turn(turn_ended(turn_id, reply, now_iso()))

        call = self._peer.begin("session/prompt", build.prompt(agent_session_id, sent), on_reply=on_reply)
        bound.turn_id = turn_id
        bound.cancel_sent = False
        self._prompts[agent_session_id] = call
        try:
            await call.result()
        except (AgentFault, Unavailable) as error:
            if bound.turn_id == turn_id:
                withdrawn = agent_session_id in self._dropped
                stop = TurnEnded(turn_id, "ended", stop_reason="cancelled", ended_at=now_iso())
                lost = TurnEnded(turn_id, "failed", error=error.message, ended_at=now_iso())
                bound.end_turn(stop if withdrawn else lost)
        finally:
            self._prompts.pop(agent_session_id, None)
            self._dropped.discard(agent_session_id)

    def cancel(self, agent_session_id: str) -> None:
        bound = self._table.get(agent_session_id)
        if bound is None or bound.turn_id is None or bound.cancel_sent:
            return
        bound.cancel_sent = True
        bound.withdraw_questions(Withdrawal.TURN_CANCELLED)
        call = self._prompts.get(agent_session_id)
        if call is not None and not call.begun:
            self._dropped.add(agent_session_id)
            call.withdraw()
            return
        self._peer.notify("session/cancel", build.cancel(agent_session_id), urgent=True)

    async def steer(self, agent_session_id: str, text: str) -> SteerResult:
        bound = self._bound(agent_session_id)
        method = "_session/steer"
        if not self._may_call(method):
            return SteerResult("unsupported")
        params = {"sessionId": agent_session_id, "message": text}
        try:
            result = await self._call(method, params, STEER_TIMEOUT_SECONDS)
        except Unavailable:
            return SteerResult("unsupported")
        if result.get("queued") is False or "dropped" in result:
            bound.sink.apply([SteeringChanged("dropped", text=text)])
            return SteerResult("dropped")
        message_id = result.get("messageId")
        return SteerResult("steered", message_id if isinstance(message_id, str) else None)

    async def clear_steering(self, agent_session_id: str) -> Sequence[str]:
        result = await self._call("_session/steer/clear", {"sessionId": agent_session_id}, STEER_TIMEOUT_SECONDS)
        return texts_in(result.get("messageIds"))

    # --- options and extensions --------------------------------------------------------------------------------------------

    async def set_config(self, agent_session_id: str, option_id: str, value: str | bool) -> None:
        bound = self._bound(agent_session_id)

        def on_reply(reply: IncomingReply) -> None:
            self._inbound.flush()
            if reply.error is None:
                bound.sink.apply(translate_session_reply(reply.result))

        params = build.set_config_option(agent_session_id, option_id, value)
        await self._peer.request("session/set_config_option", params, timeout=CALL_TIMEOUT_SECONDS, on_reply=on_reply)

    async def set_mode(self, agent_session_id: str, mode_id: str) -> None:
        params = build.set_mode(agent_session_id, mode_id)
        await self._peer.request("session/set_mode", params, timeout=CALL_TIMEOUT_SECONDS)

    async def extension(self, agent_session_id: str | None, operation: str, params: JsonObject) -> JsonObject:
        extension = EXTENSIONS.get(operation)
        if extension is None:
            raise Unavailable(f"there is no extension operation {operation!r}")
        wanted = extension.params(agent_session_id, params)
        return await self._call(extension.method, wanted, COMPACT_TIMEOUT_SECONDS if extension.slow else CALL_TIMEOUT_SECONDS)

    async def mcp_authenticate(self, agent_session_id: str, server: str) -> None:
        bound = self._bound(agent_session_id)
        if bound.remote:
            raise Unavailable("signing in to MCP servers works in local sessions only; this one runs elsewhere")
        self._requests.expect_sign_in(bound, server)
        try:
            await self._call("_kiro/mcp/resetServer", {"serverName": server, "startOAuth": True}, AUTHENTICATE_TIMEOUT_SECONDS)
        except BaseException:
            self._requests.sign_in_ended(server)
            raise

    def wants_sign_in(self, fault: AgentFault) -> bool:
        return wants_sign_in(fault, kiro=self._announced.info.generation != PLAIN)

    async def authenticate(self, method_id: str) -> None:
        params = build.authenticate(method_id)
        await self._peer.request("authenticate", params, timeout=AUTHENTICATE_TIMEOUT_SECONDS)
