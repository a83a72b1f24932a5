"""From layers to ``Settings``: one call for the command line, one for the editor."""

from collections.abc import Container, Mapping
from typing import Any

import attrs

from sidecar.config.builtin import built_in_agents
from sidecar.config.layers import Layer, Untrusted, overlay, read_user_file, split_by_trust, untrusted
from sidecar.config.paths import config_file
from sidecar.config.rules import Rules
from sidecar.config.settings import SETTINGS, Settings
from sidecar.config.shapes import JsonObject
from sidecar.errors import ConfigFault

NOTHING_TRUSTED: frozenset[str] = frozenset()


@attrs.frozen
class Configuration:
    """Merged settings, what waits for trust, and sentences for the user.

    ``raw`` is the merged plain data (may hold literal secrets, never logged); ``problems`` are wrong values that were left out.
    """

    settings: Settings
    untrusted: tuple[Untrusted, ...] = ()
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    raw: Mapping[str, Any] = attrs.field(factory=dict[str, Any], repr=False)


def combine(
    user: Layer,
    *,
    repository: Layer | None = None,
    editor: Layer | None = None,
    accepted: Container[str] = NOTHING_TRUSTED,
) -> Configuration:
    """Merge built-in agents, the user's file, a repository's file and the editor's settings, in this order.

    ``accepted`` holds the fingerprints the user trusts: the repository's layer counts only with its own; of the editor's layer
    the parts that run or reach something and differ from what is below count only with theirs. Raises nothing.
    """
    layers: list[Layer] = [Layer("built-in settings", {"agents": built_in_agents()}), user]
    waiting: list[Untrusted] = []
    if repository is not None and repository.raw:
        asked = untrusted(repository.source, repository.raw)
        if asked.fingerprint in accepted:
            layers.append(repository)
        else:
            waiting.append(asked)
    if editor is not None:
        layers.append(_trusted_part(editor, _merged(layers), accepted, waiting))
    rules = Rules(layers, [key for question in waiting for key in question.keys])
    merged = rules.apply(_merged(layers))
    settings: Settings = attrs.evolve(SETTINGS.build(merged), refused=rules.refused)
    sources = [user, *(layer for layer in (repository, editor) if layer is not None)]
    return Configuration(
        settings,
        tuple(waiting),
        tuple([told for layer in sources for told in layer.warnings] + rules.warnings),
        tuple([told for layer in sources for told in layer.problems] + rules.problems),
        merged,
    )


def _trusted_part(editor: Layer, below: JsonObject, accepted: Container[str], waiting: list[Untrusted]) -> Layer:
    safe, held = split_by_trust(editor, below)
    if not held:
        return editor
    asked = untrusted(editor.source, held)
    if asked.fingerprint in accepted:
        return editor
    waiting.append(asked)
    return attrs.evolve(editor, raw=safe)


def _merged(layers: list[Layer]) -> JsonObject:
    merged: JsonObject = {}
    for layer in layers:
        merged = overlay(merged, layer.raw)
    return merged


def load_user_layer(path: str | None = None, environ: Mapping[str, str] | None = None) -> Layer:
    """Read the user's file (``--config``, SIDECAR_CONFIG, or the default place). Raises ``ConfigFault`` when it is unreadable."""
    file, named = config_file(path, environ)
    return read_user_file(file, must_exist=named)


def load_configuration(path: str | None = None, environ: Mapping[str, str] | None = None) -> Configuration:
    """Return the configuration of the command line: the user's file alone.

    Raises ``ConfigFault`` with all wrong values, one a line, when there are any.
    """
    configuration = combine(load_user_layer(path, environ))
    if configuration.problems:
        raise ConfigFault("\n".join(configuration.problems), data={"problems": list(configuration.problems)})
    return configuration


def json_schema() -> JsonObject:
    """Return the JSON schema (draft 2020-12) of the configuration file and of the editor's ``sidecar`` section."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "sidecar configuration", **SETTINGS.schema()}
