"""What an ACP agent asks of its client, turned into questions for the user, and the user's answers turned into replies.

Every request with an id gets exactly one answer: what the user chose, a cancelled outcome, or an error. Nothing is ever allowed
here; an allow is only passed on.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import anyio.abc
import attrs

from sidecar.acp.kiro_v3 import consent_reply
from sidecar.agents.acp_sessions import Bound, SessionTable
from sidecar.agents.acp_translate import UnreadableRequest, read_permission, translate_update
from sidecar.agents.profiles import AgentProfile
from sidecar.errors import INVALID_PARAMS, METHOD_NOT_FOUND, SidecarError, to_rpc_error
from sidecar.rpc.messages import IncomingRequest, RequestId
from sidecar.session.events import ToolCallChanged
from sidecar.session.interaction import (
    Answer,
    Form,
    FormAnswer,
    OpenUrl,
    PermissionAnswer,
    PermissionRequest,
    QuestionBody,
    QuestionHandle,
    UrlAnswer,
    Withdrawal,
)
from sidecar.session.lenient import object_at, object_or_none
from sidecar.session.ports import ConnectionSink
from sidecar.session.questions import is_persistent
from sidecar.session.urls import judge_url

CANCELLED_OUTCOME: Mapping[str, Any] = {"outcome": {"outcome": "cancelled"}}
NARROWEST_SCOPE = "session"
SIGN_IN_LIMIT = 8

_log = logging.getLogger(__name__)

TokenSource: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
Reply: TypeAlias = Callable[[QuestionBody, Answer | Withdrawal], Mapping[str, Any]]


class Answering(Protocol):
    """The part of a peer that answers requests."""

    def answer(self, request_id: RequestId, result: Any, *, urgent: bool = True) -> bool: ...

    def refuse(self, request_id: RequestId, code: int, message: str, data: Any = None) -> bool: ...


@attrs.define
class OpenRequest:
    """A request the user has not decided on: what is asked now, and for a permission what it was built from.

    ``since`` holds what the agent said of the tool call after it asked.
    """

    body: QuestionBody
    owner: Bound | None
    params: Mapping[str, Any] | None = None
    handle: QuestionHandle | None = None
    since: dict[str, Any] = attrs.field(factory=dict[str, Any])


@attrs.define
class SignInIntent:
    """The user asked to sign in to an MCP server; the next URL of the agent most likely belongs to it."""

    bound: Bound
    server: str


class AcpRequests:
    """Answers the agent's requests. ``tasks`` owns what needs waiting (a token command)."""

    def __init__(
        self,
        profile: AgentProfile,
        table: SessionTable,
        sink: ConnectionSink,
        tasks: anyio.abc.TaskGroup,
        token: TokenSource | None,
    ) -> None:
        self._profile = profile
        self.paths = profile.paths
        self._table = table
        self._sink = sink
        self._tasks = tasks
        self._token = token
        self._peer: Answering | None = None
        self._open: dict[RequestId, OpenRequest] = {}
        self._intents: list[SignInIntent] = []
        self._handlers: dict[str, Callable[[IncomingRequest, Mapping[str, Any]], None]] = {
            "session/request_permission": self._permission,
            "elicitation/create": self._elicitation,
            "_kiro/mcp/elicitation": self._mcp_elicitation,
            "_kiro/openExternalUrl": self._open_external_url,
            "_kiro/auth/getAccessToken": self._access_token,
        }
        self._withdrawals: list[Callable[[RequestId], None]] = []

    def attach(self, peer: Answering) -> None:
        """Say through whom answers go; called once, before the first byte is read."""
        self._peer = peer

    def serve(self, method: str, handler: Callable[[IncomingRequest, Mapping[str, Any]], None]) -> None:
        """Have ``handler`` take the requests of one more method; it answers each once."""
        self._handlers[method] = handler

    def tell_withdrawn(self, listener: Callable[[RequestId], None]) -> None:
        """Call ``listener`` with the id of each request the agent withdraws, whoever takes it."""
        self._withdrawals.append(listener)

    def on_request(self, request: IncomingRequest) -> None:
        """Take one request of the agent."""
        handler = self._handlers.get(request.method)
        if handler is None:
            self._refuse(request, METHOD_NOT_FOUND, f"{request.method} is not offered by this client", {"method": request.method})
            return
        params = object_or_none(request.params)
        if params is None:
            self._refuse(request, INVALID_PARAMS, f"{request.method}: params must be an object")
            return
        handler(request, params)

    def on_cancelled(self, request_id: RequestId) -> None:
        """The agent withdrew its request (ACP v1, $/cancel_request): the question goes, the request is still answered."""
        if (found := self._open.get(request_id)) is not None and found.handle is not None:
            found.handle.withdraw(Withdrawal.AGENT_WITHDREW)
        for listener in self._withdrawals:
            listener(request_id)

    def withdraw_all(self, why: Withdrawal) -> None:
        """The connection ends: no question may outlive it."""
        for found in list(self._open.values()):
            if found.handle is not None:
                found.handle.withdraw(why)

    def expect_sign_in(self, bound: Bound, server: str) -> None:
        """Remember that the user started a sign-in, so that its URL is shown with the server's name and in its session."""
        self._intents = [i for i in self._intents if i.server != server][-SIGN_IN_LIMIT:]
        self._intents.append(SignInIntent(bound, server))

    def sign_in_ended(self, server: str) -> None:
        """A snapshot says the server is connected, or the user gave up."""
        self._intents = [i for i in self._intents if i.server != server]

    @property
    def waiting(self) -> bool:
        """Whether any request waits for the user."""
        return bool(self._open)

    def tool_call_changed(self, session_id: str, event: ToolCallChanged) -> None:
        """Ask anew when what is waiting for a decision changed its meaning (adversarial case O23)."""
        for found in list(self._open.values()):
            body, params = found.body, found.params
            if params is None or found.handle is None or not isinstance(body, PermissionRequest):
                continue
            if body.tool_call_id != event.tool_call_id or params.get("sessionId") != session_id:
                continue
            found.since.update(event.fields)
            try:
                changed = self._read_permission(params, found.owner, found.since)
            except UnreadableRequest:
                found.handle.withdraw(Withdrawal.AGENT_WITHDREW)
            else:
                found.body = attrs.evolve(changed, origin=body.origin)
                found.handle.replace(found.body)

    # --- permissions ----------------------------------------------------------------------------------------------------

    def _permission(self, request: IncomingRequest, params: Mapping[str, Any]) -> None:
        bound = self._table.get(params.get("sessionId"))
        if self.paths:
            params = {**params, "toolCall": self.paths.tool_call(object_at(params, "toolCall"))}
        try:
            body = self._read_permission(params, bound)
        except UnreadableRequest as error:
            self._refuse(request, INVALID_PARAMS, f"session/request_permission: {error}")
            self._sink.notice("warning", "The agent asked for permission in a way that cannot be shown", str(error))
            return
        if not _answerable(body):
            self._answer(request.id, CANCELLED_OUTCOME)
            self._sink.notice(
                "warning",
                f"The agent asked about “{body.title}” without an option that can be chosen",
                "The request was answered as cancelled. Nothing was allowed.",
            )
            return

        if bound is not None:
            bound.take(translate_update({**object_at(params, "toolCall"), "sessionUpdate": "tool_call_update"}))
        self._ask(request, bound, body, permission_reply, params)

    def _read_permission(
        self, params: Mapping[str, Any], bound: Bound | None, since: Mapping[str, Any] | None = None
    ) -> PermissionRequest:
        call_id, session_id = object_at(params, "toolCall").get("toolCallId"), params.get("sessionId")
        known = self._table.tool_call(session_id, call_id) if isinstance(session_id, str) and isinstance(call_id, str) else None
        root = _workspace_root(params)
        own = bound is not None and root is not None and is_session_folder(self.paths.to_ours(root), bound.cwd)
        body = read_permission(params, known, since=since, workspace_is_session=own)
        if body.consent is None or bound is None:
            return body
        workspace_root = self.paths.to_agent(bound.cwd) if own else None
        return attrs.evolve(body, consent=attrs.evolve(body.consent, workspace_root=workspace_root))

    # --- forms and addresses ----------------------------------------------------------------------------------------------

    def _elicitation(self, request: IncomingRequest, params: Mapping[str, Any]) -> None:
        bound = self._table.get(params.get("sessionId"))
        message = params.get("message")
        text = message if isinstance(message, str) else ""
        mode = params.get("mode")
        if mode == "form" and isinstance(params.get("requestedSchema"), Mapping):
            self._ask(request, bound, Form(text, params["requestedSchema"]), form_reply)
        elif mode == "url" and isinstance(params.get("url"), str):
            self._ask_url(request, bound, params["url"], elicitation_url_reply, {"message": text or None})
        else:
            self._refuse(request, INVALID_PARAMS, "elicitation/create: mode must be form with requestedSchema, or url with url")

    def _mcp_elicitation(self, request: IncomingRequest, params: Mapping[str, Any]) -> None:
        inner = object_or_none(params.get("elicitation"))
        if inner is None:
            self._refuse(request, INVALID_PARAMS, "_kiro/mcp/elicitation: elicitation must be an object")
            return
        shaped = {"mode": "url" if isinstance(inner.get("url"), str) else "form", **inner, "sessionId": params.get("sessionId")}
        self._elicitation(request, shaped)

    def _open_external_url(self, request: IncomingRequest, params: Mapping[str, Any]) -> None:
        url = params.get("url")
        if not isinstance(url, str):
            self._refuse(request, INVALID_PARAMS, "_kiro/openExternalUrl: url must be a string")
            return
        intent = self._intents[0] if len(self._intents) == 1 else None
        bound = self._table.get(params.get("sessionId")) or (intent.bound if intent is not None else None)
        self._ask_url(request, bound, url, external_url_reply, {"server": intent.server if intent is not None else None})

    def _ask_url(
        self, request: IncomingRequest, bound: Bound | None, url: str, reply: Reply, about: Mapping[str, str | None]
    ) -> None:
        verdict = judge_url(url)
        if not verdict.allowed or verdict.url is None:
            self._refuse(request, INVALID_PARAMS, f"the address was refused: {verdict.reason}")
            self._sink.notice("warning", "An address the agent wanted to open was refused", verdict.reason)
            return
        body = OpenUrl(
            url=verdict.url,
            host=verdict.host,
            display=verdict.display,
            unencrypted=verdict.unencrypted,
            warnings=verdict.warnings,
            message=about.get("message"),
            server=about.get("server"),
        )
        self._ask(request, bound, body, reply)

    # --- the account's token ----------------------------------------------------------------------------------------------

    def _access_token(self, request: IncomingRequest, _: Mapping[str, Any]) -> None:
        token = self._token
        if not self._profile.token_by_client or token is None:
            self._refuse(request, METHOD_NOT_FOUND, "access tokens stay with the agent (--auth-method=cli); none is given here")
            self._sink.notice(
                "error",
                f"{self._profile.name} asked for an account token",
                'The sidecar gives none unless the agent has auth = "client" and a token_command in the configuration.',
            )
            return

        async def run() -> None:
            try:
                result = await token()
            except SidecarError as error:
                refusal = to_rpc_error(error)
                self._refuse(request, refusal["code"], refusal["message"])
                self._sink.notice("error", f"No account token for {self._profile.name}", error.message)
            except Exception as error:  # noqa: BLE001  the top of a request: it is answered whatever goes wrong
                _log.exception("an account token could not be given")
                refusal = to_rpc_error(error)
                self._refuse(request, refusal["code"], refusal["message"])
            else:
                self._answer(request.id, dict(result))

        self._tasks.start_soon(run)

    # --- asking and answering ---------------------------------------------------------------------------------------------

    def _ask(
        self,
        request: IncomingRequest,
        bound: Bound | None,
        body: QuestionBody,
        reply: Reply,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        asked = OpenRequest(body, bound, params)
        self._open[request.id] = asked

        def answered(answer: Answer | Withdrawal) -> None:
            self._open.pop(request.id, None)
            if bound is not None:
                bound.questions.pop(request.id, None)
            self._answer(request.id, reply(asked.body, answer))

        if bound is None and isinstance(body, PermissionRequest) and params is not None:
            body = attrs.evolve(body, origin=f"session {params.get('sessionId')} (not known here, most likely a sub-agent)")
            asked.body = body
        handle = (bound.sink if bound is not None else self._sink).ask(body, answered)
        if request.id in self._open:
            asked.handle = handle
            if bound is not None:
                bound.questions[request.id] = handle

    def _answer(self, request_id: RequestId, result: Any) -> None:
        if self._peer is not None:
            self._peer.answer(request_id, result)

    def _refuse(self, request: IncomingRequest, code: int, message: str, data: Any = None) -> None:
        if self._peer is not None:
            self._peer.refuse(request.id, code, message, data)


def permission_reply(body: QuestionBody, answer: Answer | Withdrawal) -> Mapping[str, Any]:
    """Return the result of ``session/request_permission``; anything but a chosen option is cancelled."""
    if not isinstance(answer, PermissionAnswer) or not isinstance(body, PermissionRequest):
        return CANCELLED_OUTCOME
    consent = body.consent
    if consent is None or not is_persistent(body, answer):
        return {"outcome": {"outcome": "selected", "optionId": answer.option_id}}
    scope = answer.scope or NARROWEST_SCOPE
    return consent_reply(
        answer.option_id,
        scope=scope,
        resource=answer.resource if answer.resource is not None else consent.resource,
        workspace_root=consent.workspace_root if scope == "workspace" else None,
    )


def external_url_reply(_: QuestionBody, answer: Answer | Withdrawal) -> Mapping[str, Any]:
    """Return the result of ``_kiro/openExternalUrl``: success only when the user really has the address."""
    has_it = isinstance(answer, UrlAnswer) and (answer.action == "copy" or (answer.action == "open" and answer.opened))
    return {"success": has_it}


def elicitation_url_reply(_: QuestionBody, answer: Answer | Withdrawal) -> Mapping[str, Any]:
    """Return the result of a URL elicitation: accept means the user agreed to open it (ACP v1, elicitation)."""
    if isinstance(answer, UrlAnswer) and answer.action == "decline":
        return {"action": "decline"}
    return {"action": "accept" if external_url_reply(_, answer)["success"] else "cancel"}


def form_reply(_: QuestionBody, answer: Answer | Withdrawal) -> Mapping[str, Any]:
    """Return the result of a form elicitation; a form withdrawn is cancelled."""
    if not isinstance(answer, FormAnswer):
        return {"action": "cancel"}
    if answer.action == "accept":
        return {"action": "accept", "content": dict(answer.content or {})}
    return {"action": answer.action}


def is_session_folder(root: str, cwd: str) -> bool:
    """Return whether ``root`` is the session's own folder by identity, and not the file system's root or the user's home."""
    try:
        if not Path(root).samefile(cwd):
            return False
        return not any(Path(root).samefile(wide) for wide in (Path(root).anchor, Path.home()))
    except (OSError, ValueError, RuntimeError):
        return False


def _workspace_root(params: Mapping[str, Any]) -> str | None:
    root = object_at(params, "_meta", "kiro", "consent").get("workspaceRoot")
    return root if isinstance(root, str) else None


def _answerable(body: PermissionRequest) -> bool:
    """Whether one option can be named without doubt: an id that stands twice names none."""
    ids = [option.option_id for option in body.options]
    return any(ids.count(option_id) == 1 for option_id in ids)
