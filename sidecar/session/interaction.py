"""Questions only the user answers, and the answers that are possible.

A question is built by an agent connection (or by the workspace itself), numbered and kept by the broker, shown by a front.
Everything here is data; ``questions.py`` beside it says which answers are legal and how a question is shown.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Literal, Protocol, TypeAlias

import attrs

from sidecar.secret import SecretText
from sidecar.session.events import JsonObject, Meta


@attrs.frozen
class PermissionOption:
    """One choice exactly as the agent offered it. ``kind`` is a hint for icons; only ``option_id`` is sent back."""

    option_id: str
    name: str
    kind: str
    meta: Meta = None


@attrs.frozen
class Consent:
    """What a persistent answer may cover (Kiro V3 client guide, permissions).

    ``scopes`` are those the user may choose (session, workspace, user); ``workspace`` stands there only when the request's root
    is the session's own by file identity. ``compound`` is true for shell text a pattern must never widen.
    """

    capability: str
    resource: str
    triggering_resource: str | None = None
    workspace_root: str | None = None
    scopes: Sequence[str] = ()
    persistable: bool = True
    persistable_reason: str | None = None
    compound: bool = False
    round: int | None = None


@attrs.frozen
class McpTool:
    """Who the agent says serves the tool (version 1 envelope). Untrusted; hints that were absent stay absent."""

    server_name: str
    tool_name: str
    annotations: Mapping[str, bool] | None = None


@attrs.frozen
class PermissionRequest:
    """The agent asks leave for a tool call. ``command``, ``path`` and ``diff`` are in full."""

    tool_call_id: str
    title: str
    options: Sequence[PermissionOption]
    tool_kind: str | None = None
    command: str | None = None
    path: str | None = None
    diff: JsonObject | None = None
    raw_input: Any = None
    consent: Consent | None = None
    mcp_tool: McpTool | None = None
    origin: str | None = None
    meta: Meta = None


@attrs.frozen
class OpenUrl:
    """The agent wants a web page opened. ``host`` is punycode; ``warnings`` are sentences; the URL itself stays secret."""

    url: SecretText
    host: str
    display: str
    unencrypted: bool = False
    warnings: Sequence[str] = ()
    message: str | None = None
    server: str | None = None


@attrs.frozen
class Form:
    """A form to fill in (ACP v1, elicitation): ``schema`` is the flat object schema as received."""

    message: str
    schema: JsonObject


@attrs.frozen
class SignInMethod:
    """One way to sign in. ``kind``: agent, terminal or another word; ``command`` is shown for terminal methods."""

    id: str
    name: str
    kind: str = "agent"
    description: str | None = None
    command: Sequence[str] = ()


@attrs.frozen
class SignIn:
    """The agent (or an MCP server) needs the user to sign in; ``target`` names the server or resource."""

    target: str
    methods: Sequence[SignInMethod]
    message: str | None = None


@attrs.frozen
class Trust:
    """The user is asked whether this workspace's own files (or editor settings) may define what is run or reached.

    ``items`` are ``{"file", "commands": [...], "urls": [...]}`` in full.
    """

    path: str
    items: Sequence[JsonObject]


QuestionBody: TypeAlias = PermissionRequest | OpenUrl | Form | SignIn | Trust


@attrs.frozen
class PermissionAnswer:
    """An offered option. ``scope`` and ``resource`` only for a persistent one; ``guidance`` is text for the agent."""

    option_id: str
    scope: str | None = None
    resource: str | None = None
    guidance: str | None = None


@attrs.frozen
class UrlAnswer:
    """``opened`` tells whether it really was handed to a browser; the agent gets the truth."""

    action: Literal["open", "copy", "decline"]
    opened: bool = False


@attrs.frozen
class FormAnswer:
    """``content`` only with accept."""

    action: Literal["accept", "decline", "cancel"]
    content: JsonObject | None = None


@attrs.frozen
class SignInAnswer:
    """``method`` is the id of an offered method."""

    action: Literal["start", "cancel"]
    method: str | None = None


@attrs.frozen
class TrustAnswer:
    """The user's word on a workspace."""

    action: Literal["trust", "decline"]


class Withdrawal(Enum):
    """Why a question went away unanswered. Never consent."""

    TURN_CANCELLED = "the turn was cancelled"
    SESSION_CLOSED = "the session was closed"
    AGENT_LOST = "the agent is gone"
    AGENT_WITHDREW = "the agent withdrew the request"
    SHUTDOWN = "the sidecar is ending"
    LIMIT = "too many questions are waiting"


Answer: TypeAlias = PermissionAnswer | UrlAnswer | FormAnswer | SignInAnswer | TrustAnswer
Answered: TypeAlias = Callable[[Answer | Withdrawal], None]


class QuestionHandle(Protocol):
    """What the asker holds: it may change or withdraw its question, never answer it."""

    def withdraw(self, why: Withdrawal) -> None:
        """Take the question back; ``answered`` is then called with ``why`` (once, and not if it was already called)."""
        ...

    def replace(self, body: QuestionBody) -> None:
        """Show a changed body: an answer given on the old text is not accepted any more."""
        ...
