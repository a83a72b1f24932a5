"""Settings: the table, its layers and their merge, the JSON schema, and the folders everything lies in."""

from sidecar.config.builtin import DEMO_AGENT
from sidecar.config.environment import without_own_secrets
from sidecar.config.layers import (
    Layer,
    Untrusted,
    read_editor_settings,
    read_repository_file,
    read_table,
    read_toml,
    read_user_file,
)
from sidecar.config.loading import Configuration, combine, json_schema, load_configuration, load_user_layer
from sidecar.config.paths import config_file, private_directory, runtime_directory, state_directory
from sidecar.config.settings import (
    AgentSettings,
    ConnectionSettings,
    FleetSettings,
    ForwarderSettings,
    LimitSettings,
    McpServerSettings,
    PromptSettings,
    SecretSettings,
    Settings,
)
from sidecar.config.values import CommandSecret, EnvironmentSecret, SecretReference, SecretValue, StoredSecret, describe_value

__all__ = [
    "DEMO_AGENT",
    "AgentSettings",
    "CommandSecret",
    "Configuration",
    "ConnectionSettings",
    "EnvironmentSecret",
    "FleetSettings",
    "ForwarderSettings",
    "Layer",
    "LimitSettings",
    "McpServerSettings",
    "PromptSettings",
    "SecretReference",
    "SecretSettings",
    "SecretValue",
    "Settings",
    "StoredSecret",
    "Untrusted",
    "combine",
    "config_file",
    "describe_value",
    "json_schema",
    "load_configuration",
    "load_user_layer",
    "private_directory",
    "read_editor_settings",
    "read_repository_file",
    "read_table",
    "read_toml",
    "read_user_file",
    "runtime_directory",
    "state_directory",
    "without_own_secrets",
]
