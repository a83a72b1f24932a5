"""ACP protocol 1: what an agent answers and announces (ACP v1, initialize, session setup, session list, prompt turn).

Attributes are the keys of the wire in snake case; see ``sidecar.codec.Wire`` for what happens to unknown and wrong ones. Words of
a fixed vocabulary stay plain strings, so that a new word is kept; the vocabularies known stand beside them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias

import attrs

from sidecar.codec import ABSENT, Absent, Unknown, Wire

STOP_REASONS: Final = frozenset({"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"})
CONFIG_CATEGORIES: Final = frozenset({"mode", "model", "model_config", "thought_level"})

JsonObject: TypeAlias = Mapping[str, Any]


def offered(capability: Any) -> bool:
    """Return whether a capability that is an object when supported was announced: ``{}`` is, null and absence are not.

    A bare true, which the schema does not allow, is taken for what its sender meant.
    """
    return isinstance(capability, Mapping) or capability is True


def is_true(flag: bool | Absent) -> bool:
    """Return whether an optional boolean was sent as true."""
    return flag is True


@attrs.frozen
class Implementation(Wire):
    """Name and version of a client or agent."""

    name: str
    version: str | Absent | None = ABSENT
    title: str | Absent | None = ABSENT


@attrs.frozen
class PromptCapabilities(Wire):
    """Content allowed in prompts beside text and resource_link."""

    image: bool | Absent = ABSENT
    audio: bool | Absent = ABSENT
    embedded_context: bool | Absent = ABSENT


@attrs.frozen
class McpCapabilities(Wire):
    """MCP transports allowed beside stdio."""

    http: bool | Absent = ABSENT
    sse: bool | Absent = ABSENT


@attrs.frozen
class SessionCapabilities(Wire):
    """Optional session methods, each an object when supported; ask ``offered``. ``fork`` is unstable in protocol 1."""

    list: Any = ABSENT
    delete: Any = ABSENT
    additional_directories: Any = ABSENT
    resume: Any = ABSENT
    close: Any = ABSENT
    fork: Any = ABSENT


@attrs.frozen
class AgentAuthCapabilities(Wire):
    """Optional sign-in methods; ask ``offered``."""

    logout: Any = ABSENT


@attrs.frozen
class AgentCapabilities(Wire):
    """What the agent says it can do; what is absent is not supported."""

    load_session: bool | Absent = ABSENT
    prompt_capabilities: PromptCapabilities | Absent | None = ABSENT
    mcp_capabilities: McpCapabilities | Absent | None = ABSENT
    session_capabilities: SessionCapabilities | Absent | None = ABSENT
    auth: AgentAuthCapabilities | Absent | None = ABSENT

    @property
    def prompts(self) -> PromptCapabilities:
        """The content allowed in prompts; nothing when not announced."""
        return self.prompt_capabilities if isinstance(self.prompt_capabilities, PromptCapabilities) else PromptCapabilities()

    @property
    def mcp(self) -> McpCapabilities:
        """The MCP transports allowed; none when not announced."""
        return self.mcp_capabilities if isinstance(self.mcp_capabilities, McpCapabilities) else McpCapabilities()

    @property
    def sessions(self) -> SessionCapabilities:
        """The optional session methods; none when not announced."""
        return self.session_capabilities if isinstance(self.session_capabilities, SessionCapabilities) else SessionCapabilities()


@attrs.frozen
class AuthMethodTerminal(Wire):
    """The user signs in by running the agent's program with ``args`` and ``env`` added; never sent to ``authenticate``."""

    TAG: ClassVar = ("type", "terminal")

    id: str
    name: str
    description: str | Absent | None = ABSENT
    args: tuple[str, ...] | Absent = ABSENT
    env: JsonObject | Absent = ABSENT


@attrs.frozen
class AuthMethodAgent(Wire):
    """The agent signs the user in itself when ``authenticate`` is called."""

    TAG: ClassVar = ("type", None)

    id: str
    name: str
    description: str | Absent | None = ABSENT


AuthMethod: TypeAlias = AuthMethodTerminal | AuthMethodAgent | Unknown


@attrs.frozen
class InitializeResult(Wire):
    """The agent's answer to ``initialize``. A version other than ``PROTOCOL_VERSION`` must not be used."""

    protocol_version: int
    agent_capabilities: AgentCapabilities | Absent | None = ABSENT
    auth_methods: tuple[AuthMethod, ...] | Absent | None = ABSENT
    agent_info: Implementation | Absent | None = ABSENT

    @property
    def capabilities(self) -> AgentCapabilities:
        """What the agent can do; nothing when not announced."""
        return self.agent_capabilities if isinstance(self.agent_capabilities, AgentCapabilities) else AgentCapabilities()

    @property
    def methods(self) -> tuple[AuthMethod, ...]:
        """The ways to sign in; offered even by agents that are signed in (Kiro)."""
        return self.auth_methods if isinstance(self.auth_methods, tuple) else ()


@attrs.frozen
class SessionMode(Wire):
    """One mode a session can be in."""

    id: str
    name: str
    description: str | Absent | None = ABSENT


@attrs.frozen
class SessionModeState(Wire):
    """The modes of a session and the current one."""

    current_mode_id: str
    available_modes: tuple[SessionMode | Unknown, ...]


@attrs.frozen
class SelectOption(Wire):
    """A value of a select option."""

    value: str
    name: str
    description: str | Absent | None = ABSENT


@attrs.frozen
class SelectGroup(Wire):
    """Values of a select option under a heading."""

    group: str
    name: str
    options: tuple[SelectOption, ...]


@attrs.frozen
class SelectConfig(Wire):
    """A config option with named values, flat or grouped. ``category`` is for display only."""

    TAG: ClassVar = ("type", "select")

    id: str
    name: str
    current_value: str
    options: tuple[SelectOption, ...] | tuple[SelectGroup, ...]
    description: str | Absent | None = ABSENT
    category: str | Absent | None = ABSENT


@attrs.frozen
class BooleanConfig(Wire):
    """A config option that is on or off."""

    TAG: ClassVar = ("type", "boolean")

    id: str
    name: str
    current_value: bool
    description: str | Absent | None = ABSENT
    category: str | Absent | None = ABSENT


ConfigOption: TypeAlias = SelectConfig | BooleanConfig | Unknown


@attrs.frozen
class SessionResult(Wire):
    """The answer to ``session/load`` and ``session/resume``.

    ``modes`` and ``config_options`` stay as received, since they travel on; ``SessionModeState`` and ``ConfigOption`` type them.
    """

    modes: JsonObject | Absent | None = ABSENT
    config_options: tuple[JsonObject, ...] | Absent | None = ABSENT


@attrs.frozen
class NewSessionResult(Wire):
    """The answer to ``session/new`` and ``session/fork``; as ``SessionResult`` with the id of the new session."""

    session_id: str
    modes: JsonObject | Absent | None = ABSENT
    config_options: tuple[JsonObject, ...] | Absent | None = ABSENT


@attrs.frozen
class SetConfigOptionResult(Wire):
    """The answer to ``session/set_config_option``: all options anew."""

    config_options: tuple[JsonObject, ...]


@attrs.frozen
class SessionInfo(Wire):
    """A session the agent stores. ``updated_at`` is ISO 8601."""

    session_id: str
    cwd: str
    additional_directories: tuple[str, ...] | Absent = ABSENT
    title: str | Absent | None = ABSENT
    updated_at: str | Absent | None = ABSENT


@attrs.frozen
class ListSessionsResult(Wire):
    """One page of sessions; a session that cannot be read stands among them as ``Unknown``. No cursor: the last page."""

    sessions: tuple[SessionInfo | Unknown, ...]
    next_cursor: str | Absent | None = ABSENT

    def readable(self) -> Sequence[SessionInfo]:
        """Return the sessions that could be read."""
        return [session for session in self.sessions if isinstance(session, SessionInfo)]


@attrs.frozen
class PromptResult(Wire):
    """The end of a turn. ``usage`` (unstable) and what else agents add stay in ``extra``."""

    stop_reason: str


@attrs.frozen
class EmptyResult(Wire):
    """An answer without content of its own, only ``_meta`` and what an agent adds."""
