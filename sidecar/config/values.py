"""Values that may be secret, and addresses.

A configuration names a secret by reference: ``{ secret = "name" }`` (the secret store), ``{ env = "NAME" }`` (an environment
variable of the sidecar) or ``{ command = [argv] }`` (first line of a program's output). References are resolved at the moment of
use by ``sidecar.auth.secret_values``; nothing here looks a secret up.
"""

import re
from typing import Any, Final, TypeAlias, cast

import attrs

from sidecar.config.shapes import DROPPED, NAME_PATTERN, VARIABLE_PATTERN, Argv, Json, JsonObject, Spot, kind_of
from sidecar.secret import SecretText

_LINE_BREAKS: Final = re.compile(r"[\r\n\0]")


@attrs.frozen
class StoredSecret:
    """A secret kept in the secret store (keyring, or the private file the user chose) under ``name``."""

    name: str


@attrs.frozen
class EnvironmentSecret:
    """A secret in the environment variable ``variable`` of the sidecar itself."""

    variable: str


@attrs.frozen
class CommandSecret:
    """A secret that is the first line a program prints; ``argv`` is run without a shell."""

    argv: tuple[str, ...]


SecretReference: TypeAlias = StoredSecret | EnvironmentSecret | CommandSecret
SecretValue: TypeAlias = SecretText | SecretReference

REFERENCE_FORMS: Final = '{ secret = "name" }, { env = "NAME" } or { command = ["program", "argument"] }'


class Secret:
    """A reference to a secret; with ``literal`` also plain text. What was checked is wrapped at once and merged as a whole.

    ``removable`` allows ``false``, which builds to None and means "not there at all" (an environment variable taken away).
    """

    def __init__(self, *, literal: bool = False, removable: bool = False) -> None:
        self.literal = literal
        self.removable = removable

    def check(self, value: Json, spot: Spot) -> Json:
        if value is False and self.removable:
            return value
        if isinstance(value, str):
            return self._check_literal(value, spot)
        if isinstance(value, dict):
            return _check_reference(cast("JsonObject", value), spot)
        return spot.problem(f"must be {self._allowed()}, not {kind_of(value)}")

    def _check_literal(self, value: str, spot: Spot) -> Json:
        if not self.literal:
            return spot.problem(f"must not stand in the file as plain text: write {REFERENCE_FORMS}")
        if "\0" in value:
            return spot.problem("must not contain a NUL character")
        return SecretText(value)

    def _allowed(self) -> str:
        forms = [*(["text"] if self.literal else []), *(["false (to remove it)"] if self.removable else []), REFERENCE_FORMS]
        return ", ".join(forms)

    def build(self, value: Json) -> SecretValue | None:
        return None if value is False else cast("SecretValue", value)

    def schema(self) -> JsonObject:
        forms: list[JsonObject] = [
            _form("secret", {"type": "string", "pattern": NAME_PATTERN}),
            _form("env", {"type": "string", "pattern": VARIABLE_PATTERN}),
            _form("command", Argv().schema()),
        ]
        if self.literal:
            forms.insert(0, {"type": "string"})
        if self.removable:
            forms.insert(0, {"const": False})
        return {"anyOf": forms}


def _form(key: str, value: JsonObject) -> JsonObject:
    return {"type": "object", "properties": {key: value}, "required": [key], "additionalProperties": False}


def _check_reference(value: JsonObject, spot: Spot) -> Json:
    if len(value) != 1 or next(iter(value)) not in {"secret", "env", "command"}:
        return spot.problem(f"must be exactly one of {REFERENCE_FORMS}")
    key, target = next(iter(value.items()))
    if key == "command":
        checked = Argv().check(target, spot.into(key))
        return DROPPED if checked is DROPPED else CommandSecret(tuple(checked))
    pattern = NAME_PATTERN if key == "secret" else VARIABLE_PATTERN
    if not isinstance(target, str) or not re.match(pattern, target):
        return spot.into(key).problem(f"must be a name (allowed: {pattern})")
    return StoredSecret(target) if key == "secret" else EnvironmentSecret(target)


class Header:
    """The value of an HTTP header: text on one line, or a reference to a secret."""

    def check(self, value: Json, spot: Spot) -> Json:
        if isinstance(value, str) and _LINE_BREAKS.search(value):
            return spot.problem("must stand on one line")
        return Secret(literal=True).check(value, spot)

    def build(self, value: Json) -> SecretValue | None:
        return Secret(literal=True).build(value)

    def schema(self) -> JsonObject:
        return Secret(literal=True).schema()


class Address:
    """An absolute URL with one of ``schemes``, without user or password in it.

    ``local`` are schemes that name a socket in the file system: ``ws+unix:/path``.
    """

    def __init__(self, schemes: tuple[str, ...], local: tuple[str, ...] = ()) -> None:
        self.schemes = schemes
        self.local = local

    def check(self, value: Json, spot: Spot) -> Json:
        if not isinstance(value, str):
            return spot.wrong(value, self._allowed())
        if any(ord(character) <= 0x20 or ord(character) == 0x7F for character in value) or "\\" in value:
            return spot.problem("must not contain spaces, control characters or backslashes")
        fault = self._fault(value)
        return value if fault is None else spot.problem(fault)

    def _fault(self, url: str) -> str | None:
        from urllib.parse import urlsplit  # only where a URL is configured

        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            return f"is not a URL that can be read; it must be {self._allowed()}"
        if parts.scheme in self.local:
            fits = parts.path.startswith("/") and not parts.netloc
        else:
            fits = parts.scheme in self.schemes and bool(host)
        if not fits:
            return f"must be {self._allowed()}"
        return (
            "must not hold a user name or password; use a header or token with a secret instead" if "@" in parts.netloc else None
        )

    def _allowed(self) -> str:
        forms = [f"{scheme}://host…" for scheme in self.schemes] + [f"{scheme}:/path" for scheme in self.local]
        return "a URL like " + " or ".join(forms)

    def build(self, value: Json) -> str:
        return cast("str", value)

    def schema(self) -> JsonObject:
        alternatives = [f"{re.escape(scheme)}://" for scheme in self.schemes] + [
            f"{re.escape(scheme)}:/" for scheme in self.local
        ]
        return {"type": "string", "pattern": f"^({'|'.join(alternatives)})"}


def describe_value(value: Any) -> Any:
    """Return how a secret value may be shown: a literal as ``"***"``, a reference by its form (names are not secret)."""
    match value:
        case SecretText():
            return "***"
        case StoredSecret(name=name):
            return {"secret": name}
        case EnvironmentSecret(variable=variable):
            return {"env": variable}
        case CommandSecret(argv=argv):
            return {"command": list(argv)}
        case _:
            return value
