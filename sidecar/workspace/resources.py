"""What agents are started with: environment, secrets, tokens, MCP servers, bounds. All of it from the configuration."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from sidecar.agents.acp import ConnectionOptions
from sidecar.agents.profiles import OWN_VARIABLES
from sidecar.agents.supervisor import AgentNeeds
from sidecar.auth.mcp_entries import mcp_server_entries
from sidecar.auth.secret_values import CommandRunner, SecretResolver
from sidecar.auth.token_command import TokenCommand
from sidecar.config import AgentSettings, Configuration, state_directory, without_own_secrets
from sidecar.session.ports import SessionSpec, TerminalService
from sidecar.store.secrets import open_secret_store
from sidecar.workspace.hooks import FrontHooks


class Resources:
    """Secrets are resolved when an agent or session needs them, never earlier. ``configuration`` gives the one in force."""

    def __init__(self, configuration: Callable[[], Configuration], hooks: FrontHooks, folders: Sequence[str]) -> None:
        self._configuration = configuration
        self._hooks = hooks
        self._folders = folders
        self.terminals: TerminalService | None = None
        self._tokens: dict[str, TokenCommand] = {}
        self._runner = CommandRunner(str(state_directory()), forbidden=folders)
        store = configuration().settings.secrets.store
        self._resolver = SecretResolver(lambda: open_secret_store(store, state_directory()), self._runner)

    def needs(self, monotonic: Callable[[], float]) -> AgentNeeds:
        """Return what the supervisor starts agents with."""
        return AgentNeeds(
            environment=lambda: without_own_secrets(os.environ, self._configuration().settings),
            variables=lambda agent: self._resolver.resolve_environment(agent.env),
            options=self._options,
            monotonic=monotonic,
            forbidden=lambda: self._folders,
        )

    def _options(self, agent: AgentSettings) -> ConnectionOptions:
        limits = self._configuration().settings.limits
        token = None
        if agent.auth == "client" and agent.token_command:
            token = self._tokens.setdefault(agent.name, TokenCommand(agent.token_command, self._runner)).answer
        return ConnectionOptions(
            max_message_bytes=limits.max_message_bytes,
            load_timeout_seconds=limits.load_timeout_seconds,
            keep_raw=self._hooks.keep_raw,
            offers=self._hooks.offers,
            token=token,
            tap=self._hooks.tap,
            files=self._hooks.files,
            terminals=self._terminals_for(agent),
        )

    def terminal_environment(self) -> dict[str, str]:
        """Return the environment of commands agents have us run: the user's, less what is ours."""
        env = without_own_secrets(os.environ, self._configuration().settings)
        return {name: value for name, value in env.items() if name not in OWN_VARIABLES}

    def _terminals_for(self, agent: AgentSettings) -> TerminalService | None:
        """Commands are run for agents of this machine only: one elsewhere means its own programs."""
        return self.terminals if self._hooks.terminals and not agent.path_map else None

    async def specification(self, agent: AgentSettings, cwd: str, **more: Any) -> tuple[SessionSpec, list[str]]:
        """Return what a new session of ``agent`` in ``cwd`` is given, and sentences on what was left out."""
        servers, left_out = await mcp_server_entries(self._configuration().settings.mcp_servers.values(), self._resolver)
        spec = SessionSpec(
            cwd=cwd,
            mcp_servers=tuple(servers),
            mode=more.get("mode") or agent.mode,
            model=more.get("model") or agent.model,
            effort=more.get("effort") or agent.effort,
            additional_directories=tuple(more.get("additional_directories") or ()),
            execution_target=more.get("execution_target"),
            source=more.get("source"),
        )
        return spec, left_out
