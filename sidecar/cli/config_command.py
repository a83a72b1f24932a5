"""``sidecar config``: the schema, the settings in force, what is wrong with them, and the secrets they name."""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import attrs

from sidecar.cli.arguments import ConfigOptions
from sidecar.config import combine, config_file, describe_value, json_schema, load_configuration, load_user_layer, state_directory
from sidecar.config.shapes import NAME_PATTERN
from sidecar.errors import ConfigFault
from sidecar.log import redact
from sidecar.secret import looks_secret

EXIT_OK: Final = 0
EXIT_WRONG: Final = 2


def main(options: ConfigOptions) -> int:
    """Run one action and return the exit code."""
    actions = {
        "schema": _schema,
        "show": _show,
        "check": _check,
        "set-secret": _set_secret,
        "delete-secret": _delete_secret,
    }
    return actions[options.action](options)


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=True))


def _schema(_options: ConfigOptions) -> int:
    _print_json(json_schema())
    return EXIT_OK


def _show(options: ConfigOptions) -> int:
    configuration = load_configuration(options.common.config)
    shown = cast("dict[str, Any]", shown_settings(configuration.settings))
    shown.pop("refused", None)
    if options.output == "json":
        _print_json(shown)
        return EXIT_OK
    print(f"# {config_file(options.common.config)[0]}, on top of the built-in settings; secrets are shown as ***")
    for key, value in _flat(shown, ()):
        print(f"{key} = {value}")
    return EXIT_OK


def shown_settings(value: object) -> object:
    """Return settings as plain data for the user's eyes: secrets by reference or as ``***``, text redacted."""
    if isinstance(value, str):
        return redact(value)
    described = describe_value(value)
    if described is not value:
        return described
    if attrs.has(type(value)):
        fields = attrs.fields(type(value))
        return {field.name: shown_settings(getattr(value, field.name)) for field in fields if field.name != "name"}
    if isinstance(value, Mapping):
        return {str(key): shown_settings(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, tuple | list):
        return _shown_words(cast("Sequence[object]", value))
    return value


def _shown_words(words: Sequence[object]) -> list[object]:
    """Return a list as it may be shown; a word after a flag like ``--api-key`` is a secret."""
    shown: list[object] = []
    before: object = None
    for word in words:
        hidden = isinstance(before, str) and before.startswith("-") and looks_secret(before.lstrip("-")) and isinstance(word, str)
        shown.append("***" if hidden else shown_settings(word))
        before = word
    return shown


def _flat(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield dotted keys and values as TOML writes them; what is not set is left out."""
    for name, value in table.items():
        if value in ({}, []):
            continue
        here = (*path, name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name))
        if isinstance(value, dict) and not (len(path) > 1 and set(cast("dict[str, Any]", value)) <= {"secret", "env", "command"}):
            yield from _flat(cast("dict[str, Any]", value), here)
        elif isinstance(value, dict):
            pairs = ", ".join(
                f"{key} = {json.dumps(item, ensure_ascii=False)}" for key, item in cast("dict[str, Any]", value).items()
            )
            yield ".".join(here), f"{{ {pairs} }}"
        elif value is None:
            if len(path) > 1 and path[-1] == "env":
                yield ".".join(here), "false"
        else:
            yield ".".join(here), json.dumps(value, ensure_ascii=False)


def _check(options: ConfigOptions) -> int:
    layer = load_user_layer(options.common.config)
    configuration = combine(layer)
    if options.output == "json":
        _print_json({"file": layer.source, "problems": configuration.problems, "warnings": configuration.warnings})
    else:
        for problem in configuration.problems:
            print(f"wrong: {problem}")
        for warning in configuration.warnings:
            print(f"warning: {warning}")
        if not configuration.problems:
            print(f"{layer.source}: nothing is wrong")
    return EXIT_WRONG if configuration.problems else EXIT_OK


def _set_secret(options: ConfigOptions) -> int:
    import anyio  # the other actions need no loop

    from sidecar.secret import SecretText
    from sidecar.store.secrets import open_secret_store

    name = _secret_name(options)
    store = open_secret_store(load_configuration(options.common.config).settings.secrets.store, state_directory())
    if store.kind == "memory":
        raise ConfigFault('secrets.store = "memory" keeps nothing after the command ends; choose "keyring" or "file"')
    secret = _read_secret(name)
    anyio.run(store.put, name, SecretText(secret))
    print(f'kept "{name}" ({store.kind}); use it as {{ secret = "{name}" }}')
    return EXIT_OK


def _delete_secret(options: ConfigOptions) -> int:
    import anyio  # the other actions need no loop

    from sidecar.store.secrets import open_secret_store

    name = _secret_name(options)
    store = open_secret_store(load_configuration(options.common.config).settings.secrets.store, state_directory())
    there = anyio.run(store.delete, name)
    print(f'forgot "{name}"' if there else f'there was no secret "{name}"')
    return EXIT_OK


def _secret_name(options: ConfigOptions) -> str:
    name = options.name or ""
    if not re.match(NAME_PATTERN, name):
        raise ConfigFault(f"the name of a secret must match {NAME_PATTERN}")
    return name


def _read_secret(name: str) -> str:
    """Read the secret unseen from the terminal, or the first line of stdin; never from the command line."""
    if sys.stdin.isatty():
        import getpass  # only with a terminal

        secret = getpass.getpass(f'secret "{name}": ')
    else:
        secret = sys.stdin.readline().rstrip("\r\n")
    if not secret:
        raise ConfigFault("the secret is empty; type it, or write it to stdin")
    return secret
