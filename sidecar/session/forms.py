"""Forms an agent asks to fill in: the flat schema checked, the answer validated, nothing secret ever accepted. Pure.

ACP v1, elicitation: properties are strings (enum, oneOf, lengths, pattern, formats), numbers, integers, booleans, or arrays of
enum strings; forms must not be used for secrets. A property of another type is shown as not answerable here.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from itertools import pairwise
from typing import Any, Final, TypeAlias, cast

from sidecar.errors import EditorFault
from sidecar.session.events import JsonObject
from sidecar.session.neutral import is_plain, neutralise

MAX_PATTERN_TEXT: Final = 1000
MAX_QUANTIFIERS: Final = 2

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_REFUSED_NAMES: Final = """
    password passwd passphrase passcode pwd secret secrets credential credentials apikey otp cvv cvc pin mnemonic
"""
_SECRET_WORDS: Final = frozenset(_REFUSED_NAMES.split())
_SECRET_PAIRS: Final = frozenset({("api", "key"), ("private", "key"), ("access", "key"), ("secret", "key"), ("seed", "phrase")})
_SECRET_ENDINGS: Final = frozenset({"token", "jwt", "bearer"})
_SECRET_FORMATS: Final = frozenset({"password", "secret"})

_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:\S+")
_QUANTIFIER: Final = re.compile(r"[*+{?]")

Check: TypeAlias = Callable[[str, JsonObject, Any], Any]


def properties_of(schema: JsonObject) -> dict[str, JsonObject]:
    """Return the properties by name; one that is no object counts as of unknown type."""
    found = schema.get("properties")
    if not isinstance(found, Mapping):
        return {}
    items = cast("Mapping[str, Any]", found).items()
    return {name: cast("JsonObject", prop) if isinstance(prop, Mapping) else {} for name, prop in items}


def required_of(schema: JsonObject) -> list[str]:
    """Return the names that must be given, as far as they are properties."""
    names = schema.get("required")
    known = properties_of(schema)
    return (
        [name for name in cast("list[Any]", names) if isinstance(name, str) and name in known] if isinstance(names, list) else []
    )


def _word(prop: JsonObject, key: str) -> str:
    value = prop.get(key)
    return value if isinstance(value, str) else ""


def asks_for_secret(name: str, prop: JsonObject) -> bool:
    """Return whether a text field is for a password, token or key, by its name, title or format."""
    if prop.get("type", "string") != "string" or choices_of(prop) is not None:
        return False
    if _word(prop, "format") in _SECRET_FORMATS or prop.get("writeOnly") is True:
        return True
    return any(_names_secret(text) for text in (name, prop.get("title")) if isinstance(text, str))


def _names_secret(text: str) -> bool:
    words = [word.lower() for word in _WORDS.findall(text)]
    if not words:
        return False
    pairs = set(pairwise(words))
    return bool(_SECRET_WORDS.intersection(words)) or words[-1] in _SECRET_ENDINGS or bool(pairs & _SECRET_PAIRS)


def choices_of(prop: JsonObject) -> list[str] | None:
    """Return the values of a single-select or of the items of a multi-select; None when any text is allowed."""
    enum = prop.get("enum")
    if isinstance(enum, list):
        return [value for value in cast("list[Any]", enum) if isinstance(value, str)]
    for key in ("oneOf", "anyOf"):
        titled = prop.get(key)
        if isinstance(titled, list):
            options = [cast("JsonObject", option) for option in cast("list[Any]", titled) if isinstance(option, Mapping)]
            return [option["const"] for option in options if isinstance(option.get("const"), str)]
    return None


def check_content(schema: JsonObject, content: Any) -> dict[str, Any]:
    """Return the content to send; raises ``EditorFault`` that names the field and what it takes. Null means "not given"."""
    if not isinstance(content, Mapping):
        raise EditorFault("content must be an object with one value per field of the form")
    properties = properties_of(schema)
    given = {name: value for name, value in cast("Mapping[str, Any]", content).items() if value is not None}
    unknown = [neutralise(name) for name in given if name not in properties]
    if unknown:
        allowed = ", ".join(neutralise(name) for name in properties) or "none"
        raise EditorFault(f"the form has no field {', '.join(unknown)}; its fields are: {allowed}")
    missing = [neutralise(name) for name in required_of(schema) if name not in given]
    if missing:
        raise EditorFault(f"the form needs a value for: {', '.join(missing)}")
    return {name: _check_value(name, properties[name], value) for name, value in given.items()}


def _check_value(name: str, prop: JsonObject, value: Any) -> Any:
    shown = neutralise(name)
    if asks_for_secret(name, prop):
        raise EditorFault(
            f'the field "{shown}" asks for a secret; secrets are never typed into a form: leave it empty or decline'
        )
    check = _CHECKS.get(_word(prop, "type"))
    if check is None:
        raise EditorFault(f'the field "{shown}" has a type that cannot be answered here; leave it empty, decline or cancel')
    return check(shown, prop, value)


def _check_string(shown: str, prop: JsonObject, value: Any) -> str:
    if not isinstance(value, str):
        raise EditorFault(f'the field "{shown}" takes text')
    choices = choices_of(prop)
    if choices is not None and value not in choices:
        raise EditorFault(f'the field "{shown}" takes one of: {", ".join(neutralise(choice) for choice in choices)}')
    _check_range(shown, prop, len(value), ("minLength", "maxLength"), "characters")
    form = prop.get("format")
    if isinstance(form, str) and form in _FORMATS and not _FORMATS[form](value):
        raise EditorFault(f'the field "{shown}" must be a valid {form}')
    pattern = prop.get("pattern")
    if isinstance(pattern, str) and not _fits_pattern(pattern, value):
        raise EditorFault(f'the field "{shown}" must match {neutralise(pattern)}')
    return value


def _fits_pattern(pattern: str, value: str) -> bool:
    """Check simple patterns; one that could take long to match is left to the agent, which checks it anyway."""
    if "(" in pattern or len(_QUANTIFIER.findall(pattern)) > MAX_QUANTIFIERS or len(value) > MAX_PATTERN_TEXT:
        return True
    try:
        return re.search(pattern, value) is not None
    except (re.error, OverflowError):
        return True


def _check_number(shown: str, prop: JsonObject, value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise EditorFault(f'the field "{shown}" takes a number')
    _check_range(shown, prop, value, ("minimum", "maximum"), "")
    return value


def _check_integer(shown: str, prop: JsonObject, value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise EditorFault(f'the field "{shown}" takes a whole number')
    _check_range(shown, prop, value, ("minimum", "maximum"), "")
    return value


def _check_boolean(shown: str, _: JsonObject, value: Any) -> bool:
    if not isinstance(value, bool):
        raise EditorFault(f'the field "{shown}" takes true or false')
    return value


def _check_array(shown: str, prop: JsonObject, value: Any) -> list[str]:
    items = prop.get("items")
    choices = choices_of(cast("JsonObject", items)) if isinstance(items, Mapping) else None
    if choices is None:
        raise EditorFault(f'the field "{shown}" has no choices that can be answered here; leave it empty, decline or cancel')
    chosen = list(cast("Sequence[str]", value)) if isinstance(value, (list, tuple)) else None
    if chosen is None or any(item not in choices for item in chosen):
        raise EditorFault(f'the field "{shown}" takes a list of: {", ".join(neutralise(choice) for choice in choices)}')
    if len(set(chosen)) != len(chosen):
        raise EditorFault(f'the field "{shown}" takes each choice once')
    _check_range(shown, prop, len(chosen), ("minItems", "maxItems"), "choices")
    return chosen


def _check_range(shown: str, prop: JsonObject, size: float, keys: tuple[str, str], unit: str) -> None:
    low, high = (prop.get(key) for key in keys)
    if isinstance(low, (int, float)) and size < low:
        raise EditorFault(f'the field "{shown}" takes at least {low} {unit}'.rstrip())
    if isinstance(high, (int, float)) and size > high:
        raise EditorFault(f'the field "{shown}" takes at most {high} {unit}'.rstrip())


def _is_date(value: str) -> bool:
    try:
        return len(value) == len("2026-01-01") and bool(date.fromisoformat(value))
    except ValueError:
        return False


def _is_date_time(value: str) -> bool:
    try:
        return "T" in value.upper() and bool(datetime.fromisoformat(value))
    except ValueError:
        return False


_FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "email": lambda value: _EMAIL.fullmatch(value) is not None,
    "uri": lambda value: _URI.fullmatch(value) is not None,
    "date": _is_date,
    "date-time": _is_date_time,
}
_CHECKS: Final[Mapping[Any, Check]] = {
    "string": _check_string,
    "number": _check_number,
    "integer": _check_integer,
    "boolean": _check_boolean,
    "array": _check_array,
}


def schema_json(schema: JsonObject) -> dict[str, Any]:
    """Return the schema to show: titles and descriptions neutralised, names and values as they are sent back.

    A field gets ``title`` when its name is not plain, ``oneOf`` with titles when an enum value is not plain, ``secret: true`` or
    ``answerable: false`` when nothing may be filled in; a default that is not plain is left out.
    """
    shown = _with_plain_texts(schema)
    shown["type"] = "object"
    shown["properties"] = {name: _property_json(name, prop) for name, prop in properties_of(schema).items()}
    shown["required"] = required_of(schema)
    return shown


def _with_plain_texts(value: JsonObject) -> dict[str, Any]:
    shown = dict(value)
    for key in ("title", "description"):
        text = shown.get(key)
        if isinstance(text, str):
            shown[key] = neutralise(text, keep_newlines=key == "description")
    return shown


def _property_json(name: str, prop: JsonObject) -> dict[str, Any]:
    shown = _with_choices(_with_plain_texts(prop))
    if "title" not in shown and not is_plain(name):
        shown["title"] = neutralise(name)
    if isinstance(shown.get("items"), Mapping):
        shown["items"] = _with_choices(dict(cast("JsonObject", shown["items"])))
    default = shown.get("default")
    if isinstance(default, str) and not is_plain(default):
        del shown["default"]
    if asks_for_secret(name, prop):
        shown["secret"] = True
        shown.pop("default", None)
    if _word(prop, "type") not in _CHECKS:
        shown["answerable"] = False
    return shown


def _with_choices(prop: dict[str, Any]) -> dict[str, Any]:
    enum = prop.get("enum")
    if isinstance(enum, list) and not all(is_plain(value) for value in choices_of(prop) or ()):
        del prop["enum"]
        prop["oneOf"] = [{"const": value, "title": neutralise(value)} for value in choices_of({"enum": enum}) or ()]
        return prop
    for key in ("oneOf", "anyOf"):
        titled = prop.get(key)
        if isinstance(titled, list):
            options = [cast("JsonObject", option) for option in cast("list[Any]", titled) if isinstance(option, Mapping)]
            prop[key] = [_with_plain_texts(option) for option in options]
    return prop
