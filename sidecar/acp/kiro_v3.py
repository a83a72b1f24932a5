"""The dialect of Kiro CLI V3: ``_meta.kiro`` on ACP messages and the ``_kiro/*`` methods (Kiro V3 client guide; wire captures).

A malformed or missing envelope reads as None: it never spoils the ACP message that carries it.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, TypedDict, TypeVar, Unpack, cast

import attrs

from sidecar.codec import ABSENT, Absent, BadShape, Wire, converter

Json: TypeAlias = dict[str, Any]
JsonObject: TypeAlias = Mapping[str, Any]

CLIENT_META: Final[JsonObject] = {"openExternalUrl": True}
"""What is declared under ``clientCapabilities._meta.kiro``; everything undeclared stays work of the agent."""

MCP_TOOL_VERSION: Final = 1
FAILURE_REASONS: Final = frozenset({"cancelled", "denied", "error"})
CONSENT_SCOPES: Final = ("invocation", "session", "workspace", "user")

INFO_KINDS: Final = frozenset(
    {
        "turn_start",
        "turn_end",
        "turn_completion",
        "context_usage",
        "user_message_id_assigned",
        "focus_update",
        "pending_interaction",
        "interaction_resolved",
        "display_error",
        "queued",
        "steering_queued",
        "steering_injected",
        "steering_cleared",
        "summarization_started",
        "summarization_separator",
        "summarization_completed",
        "summarization_failed",
        "summary_message",
        "recap",
        "hook_update",
        "steering_inclusion",
        "checkpoint_restore_availability",
        "model_routed",
    }
)
"""``_meta.kiro.kind`` of a ``session_info_update`` (captures, frame orders)."""


_EMPTY: Final[Json] = {}


def kiro_meta(carrier: Any) -> JsonObject:
    """Return ``carrier["_meta"]["kiro"]``, or an empty object."""
    meta = inner_object(carrier, "_meta")
    return inner_object(meta, "kiro") if meta else _EMPTY


def inner_object(carrier: Any, key: str) -> JsonObject:
    """Return ``carrier[key]`` when both are objects, else an empty object."""
    if not isinstance(carrier, dict):
        return _EMPTY
    found = cast("Json", carrier).get(key)
    return cast("Json", found) if isinstance(found, dict) else _EMPTY


@attrs.frozen
class KiroCapabilities(Wire):
    """``agentCapabilities._meta.kiro``. Its presence is what tells V3 from V2; both negotiate protocol version 1."""

    extension_methods: tuple[str, ...] | Absent = ABSENT
    session_sources: tuple[str, ...] | Absent = ABSENT
    session_list_scopes: tuple[str, ...] | Absent = ABSENT
    execution_targets: tuple[str, ...] | Absent = ABSENT
    source_providers: bool | Absent = ABSENT
    replay_marking: bool | Absent = ABSENT
    checkpoints: bool | Absent = ABSENT
    session_list: bool | Absent = ABSENT
    policy_notifications: bool | Absent = ABSENT
    logging: JsonObject | Absent = ABSENT

    @property
    def methods(self) -> tuple[str, ...]:
        """The private methods that may be called; none when the list cannot be read."""
        return self.extension_methods if isinstance(self.extension_methods, tuple) else ()


def read_capabilities(agent_capabilities: Any) -> KiroCapabilities | None:
    """Return what V3 announces, or None when the agent is not Kiro V3 (no ``extensionMethods``)."""
    kiro = kiro_meta(agent_capabilities)
    if "extensionMethods" not in kiro:
        return None
    return _structured(kiro, KiroCapabilities)


@attrs.frozen
class ConsentEnvelope(Wire):
    """``_meta.kiro.consent`` of a permission request; ``persistable_consent`` absent means true."""

    capability: str
    resource: str
    triggering_resource: str | Absent = ABSENT
    workspace_root: str | Absent = ABSENT
    ask_type: str | Absent = ABSENT
    persistable_consent: bool | Absent = ABSENT
    persistable_consent_reason: str | Absent = ABSENT
    matched_rule: Any = ABSENT
    scope: str | Absent = ABSENT
    source: str | Absent = ABSENT


def read_consent(kiro: JsonObject) -> ConsentEnvelope | None:
    """Return the consent envelope of ``_meta.kiro``, or None."""
    return _structured(kiro.get("consent"), ConsentEnvelope)


@attrs.frozen
class ToolIdentity(Wire):
    """Who serves an MCP tool, as the agent says."""

    server_name: str
    tool_name: str


@attrs.frozen
class McpToolEnvelope(Wire):
    """``_meta.kiro.mcpTool`` version 1. Hints are untrusted; an absent hint is not false."""

    version: int
    identity: ToolIdentity
    annotations: JsonObject | Absent = ABSENT

    def hints(self) -> Mapping[str, bool] | None:
        """Return the boolean hints that were sent, None when there is no annotation object."""
        return boolean_hints(self.annotations)


def boolean_hints(annotations: Any) -> Mapping[str, bool] | None:
    """Return the entries of an annotation object that are booleans, None when it is no object."""
    if not isinstance(annotations, Mapping):
        return None
    return {key: value for key, value in cast("JsonObject", annotations).items() if isinstance(value, bool)}


def read_mcp_tool(kiro: JsonObject) -> McpToolEnvelope | None:
    """Return the envelope of ``_meta.kiro``, or None; another version is ignored as a whole."""
    envelope = _structured(kiro.get("mcpTool"), McpToolEnvelope)
    return envelope if envelope is not None and envelope.version == MCP_TOOL_VERSION else None


def failure_reason(kiro: JsonObject) -> str | None:
    """Return why a tool failed: cancelled, denied or error; None when the agent gives no reason.

    An unknown word is a plain failure. ``policyDenial`` and ``refusal`` stand in where ``failureReason`` is missing.
    """
    reason = kiro.get("failureReason")
    if reason is not None and reason is not False:
        return reason if isinstance(reason, str) and reason in FAILURE_REASONS else "error"
    return "denied" if kiro.get("policyDenial") or kiro.get("refusal") else None


class SessionInputs(TypedDict, total=False):
    """What a client may put under ``_meta.kiro`` of session requests; None is left out."""

    mode_id: str | None
    model_id: str | None
    effort_level: str | None
    execution_target: str | None
    session_source: str | None
    no_replay: bool
    message_id: str | None


def session_meta(**inputs: Unpack[SessionInputs]) -> Json | None:
    """Return ``{"kiro": {...}}`` for ``session/new``, ``load`` and ``fork``, or None when there is nothing to say.

    ``execution_target`` is a kind such as ``cloud-sandbox``; the wire wants an object. Malformed values are dropped by the agent
    without a word, so only the keys known are sent.
    """
    kiro: Json = {
        "modeId": inputs.get("mode_id"),
        "modelId": inputs.get("model_id"),
        "effortLevel": inputs.get("effort_level"),
        "sessionSource": inputs.get("session_source"),
        "messageId": inputs.get("message_id"),
    }
    if (target := inputs.get("execution_target")) is not None:
        kiro["executionTarget"] = {"kind": target}
    if inputs.get("no_replay"):
        kiro["noReplay"] = True
    kept = {key: value for key, value in kiro.items() if value is not None}
    return {"kiro": kept} if kept else None


def list_meta(scope: str | None, source: str | None) -> Json | None:
    """Return ``{"kiro": {...}}`` for ``session/list``, or None. Values beyond the announced ones are refused by the agent."""
    kept = {key: value for key, value in (("listScope", scope), ("sessionSource", source)) if value is not None}
    return {"kiro": kept} if kept else None


def consent_reply(option_id: str, *, scope: str, resource: str, workspace_root: str | None = None) -> Json:
    """Return the result of a permission request for a persistent option.

    The consent object stands at the top level (client guide) and in the selected outcome (the agent's own types); which of them
    the agent reads is not known from outside.
    """
    consent: Json = {"scope": scope, "resource": resource}
    if workspace_root is not None:
        consent["workspaceRoot"] = workspace_root
    return {
        "outcome": {"outcome": "selected", "optionId": option_id, "_meta": {"kiro": {"consent": dict(consent)}}},
        "_meta": {"kiro": {"consent": consent}},
    }


@attrs.frozen
class OpenExternalUrl(Wire):
    """The params of ``_kiro/openExternalUrl``; answered ``{"success"}``. The address stays out of ``repr``."""

    url: str = attrs.field(repr=False)
    session_id: str | Absent = ABSENT


@attrs.frozen
class McpElicitation(Wire):
    """The params of ``_kiro/mcp/elicitation``; answered ``{"action", "content"?}``."""

    elicitation: JsonObject = attrs.field(repr=False)
    session_id: str | Absent = ABSENT
    tool_call_id: str | Absent = ABSENT


@attrs.frozen
class UserInput(Wire):
    """The params of ``_kiro/userInput``; answered ``{"action": "answered" | "dismissed", "answer"?}``."""

    question: str
    options: tuple[JsonObject, ...] | Absent = ABSENT
    session_id: str | Absent = ABSENT
    tool_call_id: str | Absent = ABSENT


@attrs.frozen
class SessionOnly(Wire):
    """Params that name a session and nothing this side reads."""

    session_id: str | Absent = ABSENT


@attrs.frozen
class SecretKey(Wire):
    """The params of ``_kiro/secret/get``, ``store`` and ``delete``; the value stays out of ``repr``."""

    key: str
    value: str | Absent = attrs.field(default=ABSENT, repr=False)


@attrs.frozen
class McpStatus(Wire):
    """The params of ``_kiro/mcp/status``: all servers of the session. Read it only after ``without_sign_in_urls``."""

    servers: tuple[JsonObject, ...]
    session_id: str | Absent = ABSENT


@attrs.frozen
class ToolsChanged(Wire):
    """The params of ``_kiro/tools/didChange``: all native tools ``{"source", "tag", "description"}``."""

    tags: tuple[JsonObject, ...]
    session_id: str | Absent = ABSENT


@attrs.frozen
class RateLimit(Wire):
    """The params of ``_kiro/error/rate_limit``."""

    message: str
    session_id: str | Absent = ABSENT


@attrs.frozen
class CustomAgentNotFound(Wire):
    """The params of ``_kiro/customAgent/not_found``."""

    requested_agent: str
    fallback_agent: str | Absent | None = ABSENT
    session_id: str | Absent = ABSENT


@attrs.frozen
class CustomAgentConfigError(Wire):
    """The params of ``_kiro/customAgent/config_error``."""

    error: str
    path: str | Absent | None = ABSENT
    session_id: str | Absent = ABSENT


@attrs.frozen
class SystemNotify(Wire):
    """The params of ``_kiro/system/notify``."""

    message: str
    level: str | Absent = ABSENT
    session_id: str | Absent = ABSENT


@attrs.frozen
class PolicyChanged(Wire):
    """The params of ``_kiro/policy/changed``."""

    status: str
    errors: tuple[Any, ...] | Absent | None = ABSENT
    session_id: str | Absent = ABSENT


@attrs.frozen
class SessionsChanged(Wire):
    """The params of ``_kiro/sessions/changed``: connection-wide, so no session id at the top."""

    upserted: tuple[Any, ...] | Absent = ABSENT
    deleted: tuple[Any, ...] | Absent = ABSENT


@attrs.frozen
class PrivateMethod:
    """A row of the tables: ``params`` types what is read, None where the body is passed on raw.

    ``needs`` is the key under ``clientCapabilities._meta.kiro`` without which the agent does not send it.
    """

    name: str
    kind: Literal["request", "notification"]
    params: type[Wire] | None = None
    needs: str | None = None


_FROM_AGENT: Final = (
    PrivateMethod("_kiro/auth/getAccessToken", "request"),
    PrivateMethod("_kiro/openExternalUrl", "request", OpenExternalUrl, needs="openExternalUrl"),
    PrivateMethod("_kiro/secret/get", "request", SecretKey, needs="secretStorage"),
    PrivateMethod("_kiro/secret/store", "request", SecretKey, needs="secretStorage"),
    PrivateMethod("_kiro/secret/delete", "request", SecretKey, needs="secretStorage"),
    PrivateMethod("_kiro/userInput", "request", UserInput, needs="userInput"),
    PrivateMethod("_kiro/mcp/elicitation", "request", McpElicitation),
    PrivateMethod("_kiro/terminal/shell_type", "request", SessionOnly),
    PrivateMethod("_kiro/mcp/status", "notification", McpStatus),
    PrivateMethod("_kiro/mcp/governance_disabled", "notification", SessionOnly),
    PrivateMethod("_kiro/tools/didChange", "notification", ToolsChanged),
    PrivateMethod("_kiro/sessions/changed", "notification", SessionsChanged),
    PrivateMethod("_kiro/error/rate_limit", "notification", RateLimit),
    PrivateMethod("_kiro/customAgent/not_found", "notification", CustomAgentNotFound),
    PrivateMethod("_kiro/customAgent/config_error", "notification", CustomAgentConfigError),
    PrivateMethod("_kiro/system/notify", "notification", SystemNotify),
    PrivateMethod("_kiro/policy/changed", "notification", PolicyChanged),
    PrivateMethod("_kiro/policy/error", "notification", SessionOnly),
    PrivateMethod("_kiro/governance/state", "notification"),
    PrivateMethod("_kiro/powers/items_changed", "notification"),
    PrivateMethod("_kiro/steering/documents_changed", "notification"),
    PrivateMethod("_kiro/progressive_context/items_changed", "notification"),
    PrivateMethod("_kiro/session/notify", "notification"),
    PrivateMethod("_kiro/configuration/state", "notification"),
)

FROM_AGENT: Final[Mapping[str, PrivateMethod]] = {method.name: method for method in _FROM_AGENT}

TO_AGENT: Final[Mapping[str, tuple[str, ...]]] = {
    "_session/steer": ("sessionId", "message", "messageId"),
    "_session/steer/clear": ("sessionId",),
    "_kiro/mcp/resetServer": ("serverName", "startOAuth"),
    "_kiro/session/context": ("sessionId", "subcommand", "path", "force"),
    "_kiro/session/compact": ("sessionId",),
    "_kiro/session/export": ("sessionId",),
    "_kiro/session/history": ("sessionId", "beforeMessageId", "limit"),
    "_kiro/session/rename": ("sessionId", "title"),
    "_kiro/permissions/list": ("sessionId", "scope"),
    "_kiro/account/getUsage": (),
}
"""Keys of the params of the private requests a client may send, where the agent announces them or is known to have them."""


_SIGN_IN_KEYS: Final = frozenset({"authorizationurl", "authorization_url", "oauthurl", "oauth_url", "authurl", "auth_url"})


def without_sign_in_urls(value: Any) -> Any:
    """Return a copy of ``value`` without any address a sign-in would open, however deep (client guide, MCP status)."""
    if isinstance(value, Mapping):
        members = cast("JsonObject", value)
        return {key: without_sign_in_urls(item) for key, item in members.items() if key.lower() not in _SIGN_IN_KEYS}
    if isinstance(value, list):
        return [without_sign_in_urls(item) for item in cast("list[Any]", value)]
    return value


_W = TypeVar("_W", bound=Wire)


def _structured(value: Any, cls: type[_W]) -> _W | None:
    try:
        return converter().structure(value, cls)
    except BadShape:
        return None
