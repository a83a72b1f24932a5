"""The demo agent's side of the connection: which method does what, and how a turn begins and ends."""

import contextlib
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

import anyio
import anyio.abc

from sidecar.demo import announce
from sidecar.demo.link import ClientLink
from sidecar.demo.mcp import McpServers
from sidecar.demo.scenes import act
from sidecar.demo.session import DemoSession
from sidecar.demo.sessions import TITLE_CHARACTERS, Sessions
from sidecar.demo.settings import DemoSettings
from sidecar.demo.storage import SessionFiles
from sidecar.demo.turn import Stage, Turn, TurnCancelled, TurnFailed
from sidecar.demo.wire import ClientFeatures, Json, object_at, prompt_attachments, prompt_text, text_block, text_of
from sidecar.errors import INTERNAL_ERROR, METHOD_NOT_FOUND, AgentFault, EditorFault, SidecarError, Unavailable
from sidecar.rpc.messages import IncomingRequest, RequestId
from sidecar.transport.peer import Noise, Peer
from sidecar.transport.streams import ByteStream

SHELL_TYPE_TIMEOUT_SECONDS: Final = 5.0
USAGE: Final[Json] = {"success": True, "message": "The demo agent is free.", "data": {"planName": "Demo", "usageBreakdowns": []}}
REGISTRY_WORDS: Final = 20
"""The model option appears this many words after the first session: the registry of Kiro V3 loads late."""


class DemoAgent:
    """Implements ``PeerHandler`` for one client. ``tasks`` owns the turns and sign-ins."""

    def __init__(self, stream: ByteStream, settings: DemoSettings, tasks: anyio.abc.TaskGroup) -> None:
        self._tasks = tasks
        self._settings = settings
        self.peer = Peer(stream, self, name="the client")
        self._link = ClientLink(self.peer)
        self._files = SessionFiles(settings.state_folder)
        self._servers = McpServers(self._link, settings.sign_in_seconds, self._publish_servers, self._note_everywhere)
        self._sessions = Sessions(self._link, self._files, self._servers.snapshot)
        self._turns: dict[str, Turn] = {}
        self._prompts: dict[RequestId, Turn] = {}
        self._registry_started = False
        self._answers: dict[str, Callable[[Any], Json]] = {
            "initialize": self._initialize,
            "authenticate": lambda _: {},
            "session/list": self._sessions.list,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/fork": self._sessions.fork,
            "session/set_mode": self._sessions.set_mode,
            "session/set_config_option": self._sessions.set_option,
            "_session/steer": self._steer,
            "_session/steer/clear": self._clear_steers,
            "_kiro/session/context": self._sessions.context,
            "_kiro/session/compact": self._compact,
            "_kiro/session/export": self._sessions.export,
            "_kiro/session/history": self._sessions.history,
            "_kiro/session/rename": self._sessions.rename,
            "_kiro/permissions/list": self._sessions.rules,
            "_kiro/account/getUsage": lambda _: dict(USAGE),
            "_kiro/mcp/resetServer": self._reset_server,
        }

    def on_request(self, request: IncomingRequest) -> None:
        try:
            if request.method == "session/prompt":
                self._begin_turn(request)
            elif request.method in {"session/new", "session/load"}:
                self._begin_session(request)
            elif request.method in self._answers:
                self.peer.answer(request.id, self._answers[request.method](request.params), urgent=False)
            else:
                self._refuse_unknown(request)
        except SidecarError as error:
            self.peer.refuse(request.id, error.code, error.message, error.data)

    def on_notification(self, method: str, params: Any) -> None:
        if method == "session/cancel":
            turn = self._turns.get(str(object_at(params).get("sessionId")))
            if turn is not None:
                turn.scope.cancel()

    def on_cancelled(self, request_id: RequestId) -> None:
        """A withdrawn prompt is a cancelled turn; everything else is answered at once anyway."""
        if request_id in self._prompts:
            self._prompts[request_id].scope.cancel()

    def on_item(self, item: object) -> None:
        """Nothing but messages comes here."""

    def on_batch_end(self) -> None:
        """Nothing is held back for the end of a read."""

    def on_noise(self, noise: Noise) -> None:
        """A line that is no message is passed over; the peer answers what wants an answer."""

    def on_closed(self, reason: str) -> None:  # noqa: ARG002 - the signature of a peer handler
        self._tasks.cancel_scope.cancel()

    def store_open_sessions(self) -> None:
        """Write what happened so far, also in turns that did not come to their end."""
        for session in self._sessions.open.values():
            self._sessions.store(session)

    def _refuse_unknown(self, request: IncomingRequest) -> None:
        """Refuse as Kiro V3 does: private methods by its own assertion, standard ones by the JSON-RPC code."""
        if request.method.startswith("_"):
            details = f'[PersistenceClassification] Ext method "{request.method}" has no persistence classification'
            self.peer.refuse(request.id, INTERNAL_ERROR, "Internal error", {"details": details})
        else:
            self.peer.refuse(request.id, METHOD_NOT_FOUND, f"Method not found: {request.method}", {"method": request.method})

    def _begin_session(self, request: IncomingRequest) -> None:
        opened = self._sessions.create if request.method == "session/new" else self._sessions.reopen
        self._tasks.start_soon(self._open_session, request, opened(request.params))

    def _initialize(self, params: Any) -> Json:
        self._link.features = ClientFeatures.declared_in(params)
        return announce.initialize_result()

    async def _open_session(self, request: IncomingRequest, session: DemoSession) -> None:
        """Answer ``session/new`` or ``session/load``; most of the state goes out before the reply, some after it."""
        own = object_at(request.params, "_meta", "kiro")
        if self._link.features.terminal and "shellType" not in own:
            await self._ask_for_shell_type(session)
        self._sessions.send_state(session)
        loaded = request.method == "session/load"
        if loaded and own.get("noReplay") is not True:
            self._sessions.send_history(session)
        self._sessions.store(session)
        self.peer.answer(request.id, self._opened(session, loaded=loaded), urgent=False)
        self._sessions.send_commands(session)
        self._sessions.send_usage(session)
        if not self._registry_started:
            self._registry_started = True
            self._tasks.start_soon(self._load_registry)

    async def _ask_for_shell_type(self, session: DemoSession) -> None:
        with contextlib.suppress(AgentFault, Unavailable):
            session_id = session.session_id
            await self._link.request("_kiro/terminal/shell_type", timeout=SHELL_TYPE_TIMEOUT_SECONDS, sessionId=session_id)

    def _opened(self, session: DemoSession, *, loaded: bool) -> Json:
        """Return the reply; that of a load does not repeat the id."""
        meta = {"schemaVersion": 1, "agentMode": session.mode, "workspacePaths": [session.cwd], "source": "local"}
        return {**({} if loaded else {"sessionId": session.session_id}), **self._sessions.describe(session), "_meta": meta}

    async def _load_registry(self) -> None:
        """The models become known a moment after the first session, and every open session is told."""
        await anyio.sleep(REGISTRY_WORDS * self._settings.pace)
        self._sessions.models_known = True
        for session in self._sessions.open.values():
            session.models_known = True
            self._sessions.send_options(session)

    def _publish_servers(self) -> None:
        for session in self._sessions.open.values():
            self._sessions.send_servers(session)

    def _note_everywhere(self, text: str) -> None:
        for session in self._sessions.open.values():
            self._link.notice(session.session_id, text)

    def _close(self, params: Any) -> Json:
        self._stop_turn(params)
        return self._sessions.close(params)

    def _delete(self, params: Any) -> Json:
        self._stop_turn(params)
        return self._sessions.delete(params)

    def _compact(self, params: Any) -> Json:
        if text_of(params, "sessionId") in self._turns:
            return {"success": False, "message": "a turn is running"}
        return self._sessions.compact(params)

    def _stop_turn(self, params: Any) -> None:
        turn = self._turns.get(text_of(params, "sessionId"))
        if turn is not None:
            turn.scope.cancel()

    def _steer(self, params: Any) -> Json:
        session = self._sessions.get(params)
        message = text_of(params, "message")
        given = object_at(params).get("messageId")
        message_id = given if isinstance(given, str) else f"steer_{uuid.uuid4()}"
        turn = self._turns.get(session.session_id)
        if turn is None:
            return {"queued": False, "dropped": "epoch_changed"}
        turn.steer(message_id, message)
        return {"queued": True, "messageId": message_id}

    def _clear_steers(self, params: Any) -> Json:
        session = self._sessions.get(params)
        turn = self._turns.get(session.session_id)
        return {"cleared": True, "messageIds": turn.drop_steers() if turn is not None else []}

    def _reset_server(self, params: Any) -> Json:
        problem = self._servers.check_reset(params)
        if problem is not None:
            return {"success": False, "message": problem}

        async def reset() -> None:
            await self._servers.reset(start_oauth=object_at(params).get("startOAuth") is True)

        self._tasks.start_soon(reset)
        return {"success": True}

    def _begin_turn(self, request: IncomingRequest) -> None:
        """Start a turn; one that still runs in the session is aborted first, as Kiro V3 does."""
        session = self._sessions.get(request.params)
        if not isinstance(object_at(request.params).get("prompt"), list):
            raise EditorFault("the params need an array field 'prompt'")
        previous = self._turns.get(session.session_id)
        if previous is not None:
            previous.scope.cancel()
        stage = Stage(self._link, self._settings, self._files, self._servers)
        turn = Turn(stage, session, uuid.uuid4().hex[:12], prompt_text(request.params))
        turn.attachments = prompt_attachments(request.params)
        self._turns[session.session_id] = self._prompts[request.id] = turn
        self._tasks.start_soon(self._play, request, turn, previous)

    async def _play(self, request: IncomingRequest, turn: Turn, previous: Turn | None) -> None:
        if previous is not None:
            await previous.finished.wait()
        started = time.monotonic()
        self._open_turn(turn)
        stop, failure = "end_turn", None
        with turn.scope:
            try:
                await act(turn)
                await turn.take_steers()
            except TurnCancelled:
                stop = "cancelled"
            except TurnFailed as error:
                failure = str(error)
            except (AgentFault, Unavailable) as error:
                failure = f"The client did not do what the demo agent asked for: {error.message}"
        if turn.scope.cancel_called:
            stop, failure = "cancelled", None
        self._end_turn(turn, "error" if failure else stop, time.monotonic() - started)
        if failure is not None:
            self.peer.refuse(request.id, INTERNAL_ERROR, failure)
        else:
            self.peer.answer(request.id, {"stopReason": stop}, urgent=False)
        self._sessions.send_usage(turn.session)
        turn.finished.set()

    def _open_turn(self, turn: Turn) -> None:
        session = turn.session
        user_message = turn.new_id("user")
        block = {"sessionUpdate": "user_message_chunk", "messageId": user_message, "content": text_block(turn.text)}
        session.record(block)
        self._link.info(session.session_id, "user_message_id_assigned", userMessageId=user_message)
        self._link.info(session.session_id, "turn_start", messageId=user_message)
        self._sessions.send_changed(session, "running")
        if not session.title:
            first_line = turn.text.strip().split("\n", 1)[0][:TITLE_CHARACTERS]
            self._sessions.set_title(session, first_line or "Untitled")

    def _end_turn(self, turn: Turn, status: str, seconds: float) -> None:
        """Send the end in Kiro V3's order; the reply follows, and only it ends the prompt."""
        session_id = turn.session.session_id
        turn.close_tools("cancelled" if status == "cancelled" else "error")
        turn.drop_steers()
        usage = {"unit": "credit", "unitPlural": "credits", "usage": 0, "usedTools": turn.tools_used}
        summary = {"promptTurnSummaries": [usage], "elapsedTime": round(seconds * 1000), "status": status, "requestIds": []}
        self._link.info(session_id, "turn_completion", **summary)
        self._sessions.send_changed(turn.session, "idle")
        self._link.info(session_id, "turn_end", stopReason=status)
        self._sessions.store(turn.session)
        if self._turns.get(session_id) is turn:
            del self._turns[session_id]
        self._prompts = {request: other for request, other in self._prompts.items() if other is not turn}


async def serve(stream: ByteStream, settings: DemoSettings) -> None:
    """Serve one client until it closes the stream."""
    try:
        async with anyio.create_task_group() as tasks:
            agent = DemoAgent(stream, settings, tasks)
            try:
                await agent.peer.run()
            finally:
                agent.store_open_sessions()
            tasks.cancel_scope.cancel()
    finally:
        await stream.aclose()
