"""Layers of settings: the user's file, the editor's section, a repository's file; how they are read and what needs trust first.

Each layer is checked on its own, so that messages name where a wrong value stands. Layers are plain data (secrets and
references to them wrapped) until they are merged and built.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import attrs

from sidecar.config.settings import SETTINGS
from sidecar.config.shapes import DROPPED, Findings, Json, JsonObject, Spot, kind_of
from sidecar.config.values import CommandSecret, describe_value
from sidecar.errors import ConfigFault
from sidecar.secret import SecretText, looks_secret

MAX_FILE_BYTES: Final = 1024 * 1024
EDITOR_SOURCE: Final = "editor settings"
_AGENT_KEYS: Final = ("command", "env", "token_command")
_REACHING_SECTIONS: Final = ("mcp_servers", "connections", "forwarders")
_USER_ONLY: Final = ("secrets",)


@attrs.frozen
class Layer:
    """The checked settings of one source, as plain data, and what was wrong there (sentences).

    ``raw`` is kept out of ``repr``. ``faulty`` are the keys of the problems, which are not in ``raw``.
    """

    source: str
    raw: Mapping[str, Any] = attrs.field(factory=dict[str, Any], repr=False)
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    faulty: tuple[str, ...] = ()


@attrs.frozen
class Untrusted:
    """Settings of one source that run or reach something and wait for the user's trust.

    ``item`` is ``{"file", "commands": [...], "urls": [...]}`` for the trust question, in full. ``fingerprint`` changes with any
    change of them: trust is given to it, not to the file's name.
    """

    source: str
    item: JsonObject
    fingerprint: str
    keys: tuple[str, ...]


def read_table(value: Json, source: str) -> Layer:
    """Check a decoded table of settings."""
    findings = Findings(source)
    checked = SETTINGS.check(value, Spot(findings))
    raw = {} if checked is DROPPED else cast("JsonObject", checked)
    return Layer(source, raw, tuple(findings.warnings), tuple(findings.problems), tuple(findings.faulty))


def read_toml(data: bytes, source: str) -> Layer:
    """Check the bytes of a TOML file; what cannot be read at all is a problem, never an exception."""
    import tomllib  # the server starts without it when there is no file

    if len(data) > MAX_FILE_BYTES:
        return Layer(source, problems=(f"{source} is larger than {MAX_FILE_BYTES} bytes; nothing of it is used",))
    try:
        return read_table(tomllib.loads(data.decode("utf-8-sig")), source)
    except UnicodeDecodeError:
        return Layer(source, problems=(f"{source} is not UTF-8 text; save it as UTF-8",))
    except RecursionError:
        return Layer(source, problems=(f"{source} is nested too deeply to be read",))
    except ValueError as error:
        reason = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "a number in it is too long"
        return Layer(source, problems=(f"{source} is not valid TOML: {reason}",))


def read_user_file(path: Path, *, must_exist: bool = False) -> Layer:
    """Read the user's own file; a missing one is an empty layer unless it was named (``must_exist``).

    Raises ``ConfigFault`` when the file cannot be read.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        if not must_exist:
            return Layer(str(path))
        raise ConfigFault(
            f"the configuration file {path} does not exist; create it or correct --config / SIDECAR_CONFIG"
        ) from None
    except OSError as error:
        raise ConfigFault(f"the configuration file {path} cannot be read: {error.strerror or 'input/output error'}") from None
    except ValueError:
        raise ConfigFault("the name of the configuration file is not usable as a path") from None
    return read_toml(data, str(path))


def read_editor_settings(value: Json) -> Layer:
    """Check ``initializationOptions`` or the ``sidecar`` section of ``workspace/configuration``; null is an empty layer.

    Editors that wrap the section in its own name (``{"sidecar": {...}}``) are understood.
    """
    if value is None:
        return Layer(EDITOR_SOURCE)
    if not isinstance(value, dict):
        return Layer(EDITOR_SOURCE, problems=(f"{EDITOR_SOURCE}: must be a table of settings, not {kind_of(value)}",))
    table = cast("JsonObject", value)
    inner = table.get("sidecar")
    return _without_user_only(read_table(inner if isinstance(inner, dict) and len(table) == 1 else table, EDITOR_SOURCE))


def read_repository_file(data: bytes, path: str) -> Layer:
    """Check a repository's ``.sidecar.toml``. All of it waits for trust."""
    return _without_user_only(read_toml(data, path))


def _without_user_only(layer: Layer) -> Layer:
    taken = [key for key in _USER_ONLY if key in layer.raw]
    if not taken:
        return layer
    told = tuple(f"{layer.source}: {key} counts only in your own configuration file and is ignored here" for key in taken)
    kept = {key: value for key, value in layer.raw.items() if key not in taken}
    return attrs.evolve(layer, raw=kept, warnings=layer.warnings + told)


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> JsonObject:
    """Return ``below`` overlaid by ``above``: tables key by key, all else (secrets too) as a whole."""
    merged = dict(below)
    for key, value in above.items():
        held = merged.get(key)
        if isinstance(value, dict) and isinstance(held, dict):
            merged[key] = merge(cast("JsonObject", held), cast("JsonObject", value))
        else:
            merged[key] = value
    return merged


def overlay(below: Mapping[str, Any], above: Mapping[str, Any]) -> JsonObject:
    """Return the settings ``below`` overlaid by those ``above``.

    An entry of a section that reaches something is replaced as a whole unless it says nothing new: the secrets of one source
    must never travel to the address of another.
    """
    merged = merge(below, {section: value for section, value in above.items() if section not in _REACHING_SECTIONS})
    for section in _REACHING_SECTIONS:
        entries = dict(below.get(section, {}))
        entries.update(
            {name: entry for name, entry in above.get(section, {}).items() if not _already_so(entry, entries.get(name))}
        )
        if entries:
            merged[section] = entries
    return merged


def split_by_trust(layer: Layer, trusted_below: Mapping[str, Any]) -> tuple[JsonObject, JsonObject]:
    """Split the editor's layer into what may be applied and what runs or reaches something and differs from ``trusted_below``."""
    safe = dict(layer.raw)
    held: JsonObject = {}
    _split_agents(safe, held, trusted_below)
    for section in _REACHING_SECTIONS:
        known = trusted_below.get(section, {})
        entries = cast("JsonObject", safe.pop(section, {}))
        same = {name: entry for name, entry in entries.items() if _already_so(entry, known.get(name))}
        rest = {name: entry for name, entry in entries.items() if name not in same}
        if same:
            safe[section] = same
        if rest:
            held[section] = rest
    return safe, held


def _split_agents(safe: JsonObject, held: JsonObject, trusted_below: Mapping[str, Any]) -> None:
    agents = cast("JsonObject", safe.get("agents", {}))
    kept_agents: JsonObject = {}
    held_agents: JsonObject = {}
    for name, agent in agents.items():
        known = trusted_below.get("agents", {}).get(name, {})
        differing = {key: agent[key] for key in _AGENT_KEYS if key in agent and not _already_so(agent[key], known.get(key))}
        if differing:
            held_agents[name] = differing
        rest = {key: value for key, value in agent.items() if key not in differing}
        kept_agents[name] = rest
    if agents:
        safe["agents"] = kept_agents
    if held_agents:
        held["agents"] = held_agents


def _already_so(value: Json, known: Json) -> bool:
    if isinstance(value, dict) and isinstance(known, dict):
        return merge(cast("JsonObject", known), cast("JsonObject", value)) == known
    return value == known


def untrusted(source: str, raw: Mapping[str, Any]) -> Untrusted:
    """Return the trust question's item for ``raw``, the part of a layer that is not applied yet."""
    import hashlib  # only when something waits for trust

    commands: list[str] = []
    urls: list[str] = []
    keys: list[str] = []
    for name, agent in raw.get("agents", {}).items():
        for key in _AGENT_KEYS:
            if key in agent:
                keys.append(f"agents.{name}.{key}")
                _describe(f"agents.{name}.{key}", agent[key], commands, urls)
    for section in _REACHING_SECTIONS:
        for name, entry in raw.get(section, {}).items():
            keys.append(f"{section}.{name}")
            _describe(f"{section}.{name}", entry, commands, urls)
    canonical = json.dumps([source, raw], sort_keys=True, default=_revealed)
    item: JsonObject = {"file": source, "commands": commands, "urls": urls}
    return Untrusted(source, item, hashlib.sha256(canonical.encode()).hexdigest(), tuple(keys))


def _describe(key: str, value: Json, commands: list[str], urls: list[str]) -> None:
    """Add one line for each leaf: what is reached and what is sent there to ``urls``, what is run to ``commands``."""
    if isinstance(value, dict):
        for name, inner in cast("JsonObject", value).items():
            _describe(f"{key}.{name}", inner, commands, urls)
        return
    last = key.rsplit(".", 1)[-1]
    if last == "url":
        urls.append(str(value))
    elif isinstance(value, CommandSecret) or last in {"command", "token_command"}:
        commands.append(f"{key} = {_show(value)}")
    elif ".env." in key:
        literal = isinstance(value, SecretText) and not looks_secret(last)
        commands.append(f"{key} = {_show(value.reveal() if literal else value)}")
    elif ".headers." in key or last == "token":
        urls.append(f"{key} = {_show(value)}")


def _show(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, default=describe_value)


def _revealed(value: object) -> Json:
    return value.reveal() if isinstance(value, SecretText) else describe_value(value)
