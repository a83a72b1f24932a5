"""Everything a user may set, as frozen classes that are also the table the checker and the JSON schema are made from.

Names are those of the TOML file and of the editor's ``sidecar`` section. Nothing here is looked up or started.
"""

from collections.abc import Mapping
from typing import Final, Literal

import attrs

from sidecar.config.shapes import (
    HEADER_PATTERN,
    VARIABLE_PATTERN,
    Argv,
    Flag,
    Named,
    Number,
    PathPairs,
    Record,
    Text,
    TextList,
    setting,
    suggest,
)
from sidecar.config.values import Address, Header, Secret, SecretReference, SecretValue
from sidecar.errors import ConfigFault

MEBIBYTE: Final = 1024 * 1024
Protocol = Literal["acp", "kiro-v3", "kiro-v2", "ahp"]
ExtensionMethods = Literal["announced-only", "announced-plus-known", "off"]


@attrs.frozen
class AgentSettings:
    """How one agent is started and what is asked of it. ``command`` is argv; the profile of the protocol adds its own arguments.

    ``env`` values of None are removed from the inherited environment. ``path_map`` holds (ours, the agent's) pairs.
    """

    name: str
    protocol: Protocol = setting(
        Text(choices=("acp", "kiro-v3", "kiro-v2", "ahp")),
        "What the agent speaks: acp (protocol 1), kiro-v3, kiro-v2, or ahp (behind a connection).",
        default="acp",
    )
    command: tuple[str, ...] = setting(
        Argv(), "Program and arguments, as a list; never a shell line. A full path is best.", default=()
    )
    mode: str | None = setting(Text(minimum=1), "Mode new sessions begin in, when the agent offers it.", default=None)
    model: str | None = setting(Text(minimum=1), "Model new sessions use, when the agent offers it.", default=None)
    effort: str | None = setting(Text(minimum=1), "Thinking effort of new sessions, when the agent offers it.", default=None)
    supervised: bool = setting(
        Flag(), "Ask the agent to ask before it acts, where it can be told so (Kiro: autopilot off).", default=True
    )
    auth: Literal["cli", "client"] = setting(
        Text(choices=("cli", "client")),
        'Who holds the account: "cli" (the agent itself), or "client" (token_command gives the token).',
        default="cli",
    )
    token_command: tuple[str, ...] = setting(
        Argv(),
        "Program that prints one JSON object {accessToken, expiresAt, profileArn?, authMethod?, provider?}.",
        default=(),
    )
    extension_methods: ExtensionMethods = setting(
        Text(choices=("announced-only", "announced-plus-known", "off")),
        "Which of the agent's private methods may be called.",
        default="announced-plus-known",
    )
    env: Mapping[str, SecretValue | None] = setting(
        Named(Secret(literal=True, removable=True), "the name of an environment variable", VARIABLE_PATTERN),
        "Environment variables on top of the inherited ones; false removes one.",
        factory=dict[str, SecretValue | None],
    )
    path_map: tuple[tuple[str, str], ...] = setting(
        PathPairs(), "Pairs of [path here, path where the agent runs], for agents in containers.", default=()
    )
    process: Literal["workspace", "session"] | None = setting(
        Text(choices=("workspace", "session")),
        "One process for all sessions of a workspace folder, or one for each session; the agent's profile decides otherwise.",
        default=None,
    )
    connection: str | None = setting(Text(minimum=1), "With protocol ahp: the connection the agent is reached by.", default=None)


@attrs.frozen
class McpServerSettings:
    """An MCP server given to agents: one with ``url`` (http or sse) or one with ``command`` (stdio)."""

    name: str
    url: str | None = setting(Address(("https", "http")), "Address of a server reached over HTTP.", default=None)
    transport: Literal["http", "sse"] = setting(
        Text(choices=("http", "sse")), "How a server with a url is spoken to.", default="http"
    )
    headers: Mapping[str, SecretValue] = setting(
        Named(Header(), "the name of a header", HEADER_PATTERN),
        "HTTP headers, best with references to secrets.",
        factory=dict[str, SecretValue],
    )
    command: tuple[str, ...] = setting(Argv(), "Program and arguments of a server on stdio.", default=())
    env: Mapping[str, SecretValue] = setting(
        Named(Secret(literal=True), "the name of an environment variable", VARIABLE_PATTERN),
        "Environment variables of a server on stdio.",
        factory=dict[str, SecretValue],
    )


@attrs.frozen
class ConnectionSettings:
    """A host of agents (AHP) to connect to."""

    name: str
    url: str = setting(Address(("wss", "ws"), local=("ws+unix",)), "Address of the host.", default="")
    tags: tuple[str, ...] = setting(TextList(), "Words to choose hosts by.", default=())
    token: SecretReference | None = setting(Secret(), "The secret that proves who connects.", default=None)


@attrs.frozen
class FleetSettings:
    """How a host is chosen when several would do."""

    strategy: Literal["least-sessions", "round-robin", "random", "preferred"] = setting(
        Text(choices=("least-sessions", "round-robin", "random", "preferred")),
        "How one of several hosts is chosen.",
        default="least-sessions",
    )


@attrs.frozen
class ForwarderSettings:
    """Where events are sent to: a webhook (http, https) or a stream (ws, wss)."""

    name: str
    url: str = setting(Address(("https", "http", "wss", "ws")), "Webhook (http, https) or stream (ws, wss).", default="")
    headers: Mapping[str, SecretValue] = setting(
        Named(Header(), "the name of a header", HEADER_PATTERN), "Headers of each request.", factory=dict[str, SecretValue]
    )
    batch_size: int = setting(Number(1, 10_000), "Events in one request.", default=10)
    batch_interval_ms: int = setting(Number(0, 3_600_000, "milliseconds"), "Longest wait for a full batch.", default=1000)
    retries: int = setting(Number(0, 100), "How often a failed request is sent again.", default=3)
    content: Literal["none", "full"] = setting(
        Text(choices=("none", "full")), 'What becomes of text: "none" sends its length only, "full" the text.', default="none"
    )


@attrs.frozen
class PromptSettings:
    """A prompt of the user's own, offered as a command; ``{selection}`` and the like are filled in."""

    name: str
    text: str = setting(Text(minimum=1), "The prompt; {selection} stands for what is selected.", default="")


@attrs.frozen
class LimitSettings:
    """Bounds on what peers may send and how long they may take."""

    max_message_bytes: int = setting(
        Number(64 * 1024, 1024 * MEBIBYTE, "bytes"), "Longest message taken from an agent or editor.", default=64 * MEBIBYTE
    )
    load_timeout_seconds: float = setting(
        Number(1, 86_400, "seconds", whole=False), "How long an agent may take to load a session.", default=60.0
    )


@attrs.frozen
class SecretSettings:
    """Where secrets given to the sidecar are kept."""

    store: Literal["keyring", "file", "memory"] = setting(
        Text(choices=("keyring", "file", "memory")),
        '"keyring" (the system\'s), "file" (a private file, not encrypted) or "memory" (until the sidecar ends).',
        default="keyring",
    )


@attrs.frozen
class Settings:
    """The whole configuration, layers merged.

    ``refused`` tells for agents that cannot be used as configured why not (a sentence with file and key).
    """

    agent: str = setting(Text(minimum=1), "The agent used when none is named.", default="kiro")
    warm: bool = setting(Flag(), "Start the agent with the editor instead of on the first sign of use.", default=False)
    agents: Mapping[str, AgentSettings] = setting(
        Named(Record(AgentSettings), "the name of an agent"), "Agents by name.", factory=dict[str, AgentSettings]
    )
    mcp_servers: Mapping[str, McpServerSettings] = setting(
        Named(Record(McpServerSettings), "the name of a server"),
        "MCP servers every session gets.",
        factory=dict[str, McpServerSettings],
    )
    connections: Mapping[str, ConnectionSettings] = setting(
        Named(Record(ConnectionSettings), "the name of a connection"),
        "Hosts of agents by name.",
        factory=dict[str, ConnectionSettings],
    )
    fleet: FleetSettings = setting(Record(FleetSettings), "Choice among several hosts.", factory=FleetSettings)
    forwarders: Mapping[str, ForwarderSettings] = setting(
        Named(Record(ForwarderSettings), "the name of a forwarder"),
        "Where events are forwarded to.",
        factory=dict[str, ForwarderSettings],
    )
    prompts: Mapping[str, PromptSettings] = setting(
        Named(Record(PromptSettings), "the name of a prompt"), "Prompts of your own.", factory=dict[str, PromptSettings]
    )
    limits: LimitSettings = setting(Record(LimitSettings), "Bounds on messages and waits.", factory=LimitSettings)
    secrets: SecretSettings = setting(Record(SecretSettings), "Where secrets are kept.", factory=SecretSettings)
    refused: Mapping[str, str] = attrs.field(factory=dict[str, str])

    def agent_named(self, name: str | None = None) -> AgentSettings:
        """Return the agent ``name``, or the default one; raises ``ConfigFault`` that says why not and what there is."""
        wanted = name or self.agent
        if wanted in self.refused:
            raise ConfigFault(self.refused[wanted])
        found = self.agents.get(wanted)
        if found is None:
            listed = ", ".join(sorted(self.agents))
            raise ConfigFault(
                f'there is no agent "{wanted}".{suggest(wanted, self.agents)} Known agents: {listed}. '
                f"Add one as [agents.{wanted}] with a command in the configuration file."
            )
        return found


SETTINGS: Final = Record(Settings)
