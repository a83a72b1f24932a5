"""What a setting may look like: one small object per kind of value that checks it, builds it, and describes it as JSON schema.

Checking never stops at the first fault: a wrong or unknown value is left out and told to ``Findings``; what remains is plain data
(``dict``, ``list``, ``str`` …) that layers can be merged from before anything is built. Messages name file, key and what is
allowed; they never hold the value, which may be a secret. Shapes are plain classes: generated methods cost the start 1 ms each.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias, cast

import attrs

Json: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Any]

NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
VARIABLE_PATTERN: Final = r"^[^=\x00-\x1f\x7f]+$"
HEADER_PATTERN: Final = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"
_SHOWN_KEY_CHARACTERS: Final = 80
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Dropped(Enum):
    """Stands for a value that was wrong and is left out."""

    DROPPED = "dropped"


DROPPED: Final = Dropped.DROPPED


class Findings:
    """What was wrong in one source (``source`` is a file name or "editor settings"): sentences for the user.

    ``faulty`` are the keys of the problems.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.warnings: list[str] = []
        self.problems: list[str] = []
        self.faulty: list[str] = []


def kind_of(value: object) -> str:
    """Name the kind of a decoded value in plain words, without its content."""
    if value is None:
        return "null"
    for known, words in _KINDS:
        if isinstance(value, known):
            return words
    return f"a {type(value).__name__}"


_KINDS: Final[Sequence[tuple[type, str]]] = (
    (bool, "true or false"),
    (int, "a whole number"),
    (float, "a number"),
    (str, "text"),
    (list, "a list"),
    (dict, "a table"),
)


def suggest(word: str, known: Iterable[str]) -> str:
    """Return " Did you mean …?" for the known word nearest to ``word``, or an empty string."""
    import difflib  # only needed when something is wrong

    near = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f' Did you mean "{near[0]}"?' if near else ""


class Spot:
    """Where the checker stands: the key so far, and where to tell what is wrong."""

    def __init__(self, findings: Findings, key: str = "") -> None:
        self.findings = findings
        self.key = key

    def into(self, name: str) -> "Spot":
        """Return the spot one key deeper."""
        shown = _CONTROL.sub("?", name)[:_SHOWN_KEY_CHARACTERS]
        return Spot(self.findings, f"{self.key}.{shown}" if self.key else shown)

    def item(self, index: int) -> "Spot":
        """Return the spot of a list item."""
        return Spot(self.findings, f"{self.key}[{index}]")

    def wrong(self, value: object, allowed: str) -> Dropped:
        """Tell that ``value`` is not what is ``allowed`` here."""
        return self.problem(f"must be {allowed}, not {kind_of(value)}")

    def problem(self, sentence: str) -> Dropped:
        """Tell a fault of this key."""
        self.findings.faulty.append(self.key)
        self.findings.problems.append(f"{self.findings.source}: {self.key or 'the top level'} {sentence}")
        return DROPPED

    def warn(self, sentence: str) -> None:
        """Tell something that does not stop anything."""
        self.findings.warnings.append(f"{self.findings.source}: {self.key} {sentence}")


class Shape(Protocol):
    """One kind of setting."""

    def check(self, value: Json, spot: Spot) -> Json:
        """Return the value as plain data, without what is wrong in it, or ``DROPPED``."""
        ...

    def build(self, value: Json) -> Any:
        """Return the typed value of checked plain data."""
        ...

    def schema(self) -> JsonObject:
        """Return the JSON schema (draft 2020-12) of what ``check`` takes."""
        ...


class Text:
    """Text without NUL. With ``choices`` only those words."""

    def __init__(self, *, choices: tuple[str, ...] = (), minimum: int = 0) -> None:
        self.choices = choices
        self.minimum = minimum

    def check(self, value: Json, spot: Spot) -> Json:
        if not isinstance(value, str):
            return spot.wrong(value, self._allowed())
        if self.choices and value not in self.choices:
            return spot.problem(f"must be {self._allowed()}.{suggest(value, self.choices)}")
        if "\0" in value:
            return spot.problem("must not contain a NUL character")
        if len(value) < self.minimum:
            return spot.problem("must not be empty")
        return value

    def _allowed(self) -> str:
        return "one of " + ", ".join(f'"{choice}"' for choice in self.choices) if self.choices else "text"

    def build(self, value: Json) -> str:
        return cast("str", value)

    def schema(self) -> JsonObject:
        if self.choices:
            return {"type": "string", "enum": list(self.choices)}
        return {"type": "string", "minLength": self.minimum} if self.minimum else {"type": "string"}


class Flag:
    """true or false."""

    def check(self, value: Json, spot: Spot) -> Json:
        return value if isinstance(value, bool) else spot.wrong(value, "true or false")

    def build(self, value: Json) -> bool:
        return bool(value)

    def schema(self) -> JsonObject:
        return {"type": "boolean"}


class Number:
    """A number from ``minimum`` to ``maximum``; ``whole`` allows integers only. ``unit`` is for messages."""

    def __init__(self, minimum: float, maximum: float, unit: str = "", *, whole: bool = True) -> None:
        self.minimum = minimum
        self.maximum = maximum
        self.unit = unit
        self.whole = whole

    def check(self, value: Json, spot: Spot) -> Json:
        kinds = int if self.whole else (int, float)
        allowed = (
            f"a {'whole ' if self.whole else ''}number from {self.minimum:g} to {self.maximum:g}{self.unit and ' ' + self.unit}"
        )
        if isinstance(value, bool) or not isinstance(value, kinds):
            return spot.wrong(value, allowed)
        if not self.minimum <= value <= self.maximum:
            return spot.problem(f"must be {allowed}")
        return value

    def build(self, value: Json) -> Any:
        return value if self.whole else float(value)

    def schema(self) -> JsonObject:
        return {"type": "integer" if self.whole else "number", "minimum": self.minimum, "maximum": self.maximum}


class TextList:
    """A list of texts, built as a tuple."""

    def check(self, value: Json, spot: Spot) -> Json:
        if not isinstance(value, list):
            return spot.wrong(value, "a list of texts")
        items = [Text().check(item, spot.item(index)) for index, item in enumerate(cast("list[Json]", value))]
        return [item for item in items if item is not DROPPED]

    def build(self, value: Json) -> tuple[str, ...]:
        return tuple(value)

    def schema(self) -> JsonObject:
        return {"type": "array", "items": {"type": "string"}}


class Argv:
    """A program and its arguments as separate words; a shell line is refused with the fix."""

    def check(self, value: Json, spot: Spot) -> Json:
        if isinstance(value, str):
            return spot.problem(f"must be a list of words, not one line of text: write {_as_argv(value)}. No shell is involved")
        if not isinstance(value, list):
            return spot.wrong(value, "a list of words: the program, then its arguments")
        words = cast("list[Json]", value)
        if not words or not all(isinstance(word, str) and "\0" not in word for word in words) or not words[0].strip():
            return spot.problem("must be a list of words that begins with the program, each of them text without NUL")
        return words

    def build(self, value: Json) -> tuple[str, ...]:
        return tuple(value)

    def schema(self) -> JsonObject:
        return {"type": "array", "items": {"type": "string"}, "minItems": 1}


def _as_argv(line: str) -> str:
    import json  # only needed when something is wrong
    import shlex

    try:
        words = shlex.split(line) or ["program", "argument"]
    except ValueError:
        words = ["program", "argument"]
    return json.dumps(words, ensure_ascii=False)


class PathPairs:
    """A list of ``[ours, theirs]`` pairs of absolute paths."""

    def check(self, value: Json, spot: Spot) -> Json:
        allowed = 'a list of pairs of absolute paths: [["/here", "/there"]]'
        if not isinstance(value, list):
            return spot.wrong(value, allowed)
        pairs = cast("list[Json]", value)
        if not all(_is_path_pair(pair) for pair in pairs):
            return spot.problem(f"must be {allowed}")
        return pairs

    def build(self, value: Json) -> tuple[tuple[str, str], ...]:
        return tuple((ours, theirs) for ours, theirs in value)

    def schema(self) -> JsonObject:
        pair = {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 2, "maxItems": 2}
        return {"type": "array", "items": pair}


def _is_path_pair(pair: Json) -> bool:
    if not isinstance(pair, list):
        return False
    words = cast("list[Json]", pair)
    return len(words) == 2 and all(isinstance(word, str) and re.match(r"/|[A-Za-z]:[/\\]|\\\\", word) for word in words)


class Named:
    """A table of free names to values of one shape. ``pattern`` says what a name may be, ``what`` names it in messages."""

    def __init__(self, value: Shape, what: str = "a name", pattern: str = NAME_PATTERN) -> None:
        self.value = value
        self.what = what
        self.pattern = pattern

    def check(self, value: Json, spot: Spot) -> Json:
        if not isinstance(value, dict):
            return spot.wrong(value, f"a table with {self.what} for each entry")
        kept: JsonObject = {}
        for name, item in cast("dict[Json, Json]", value).items():
            if not isinstance(name, str) or not re.match(self.pattern, name):
                spot.into(str(name)).problem(f"is not usable as {self.what} (allowed: {self.pattern})")
                continue
            checked = self.value.check(item, spot.into(name))
            if checked is not DROPPED:
                kept[name] = checked
        return kept

    def build(self, value: Json) -> Mapping[str, Any]:
        if isinstance(self.value, Record) and self.value.takes_name:
            return {name: self.value.build(item, name=name) for name, item in value.items()}
        return {name: self.value.build(item) for name, item in value.items()}

    def schema(self) -> JsonObject:
        return {"type": "object", "additionalProperties": self.value.schema(), "propertyNames": {"pattern": self.pattern}}


class Record:
    """A table with fixed keys: the fields of an attrs class made with ``setting``."""

    def __init__(self, cls: type[Any]) -> None:
        self.cls = cls

    @property
    def takes_name(self) -> bool:
        """Whether the class has a ``name`` that comes from the key of the table."""
        return any(field.name == "name" for field in attrs.fields(self.cls))

    def shapes(self) -> dict[str, Shape]:
        """Return the shape of each key."""
        return {field.name: field.metadata["shape"] for field in attrs.fields(self.cls) if "shape" in field.metadata}

    def check(self, value: Json, spot: Spot) -> Json:
        if not isinstance(value, dict):
            return spot.wrong(value, "a table")
        shapes = self.shapes()
        kept: JsonObject = {}
        for key, item in cast("dict[Json, Json]", value).items():
            shape = shapes.get(key)
            if shape is None:
                spot.into(str(key)).warn(f"is not a known setting and is ignored.{suggest(str(key), shapes)}")
                continue
            checked = shape.check(item, spot.into(str(key)))
            if checked is not DROPPED:
                kept[str(key)] = checked
        return kept

    def build(self, value: Json, **extra: str) -> Any:
        shapes = self.shapes()
        return self.cls(**extra, **{key: shapes[key].build(item) for key, item in value.items()})

    def schema(self) -> JsonObject:
        properties: JsonObject = {}
        for field in attrs.fields(self.cls):
            if "shape" not in field.metadata:
                continue
            described: JsonObject = {**field.metadata["shape"].schema(), "description": field.metadata["doc"]}
            if isinstance(field.default, bool | int | float | str):
                described["default"] = field.default
            properties[field.name] = described
        return {"type": "object", "properties": properties, "additionalProperties": False}


def setting(shape: Shape, doc: str, *, default: Any = attrs.NOTHING, factory: Callable[[], Any] | None = None) -> Any:
    """Return an attrs field that is also a row of the settings table: its shape, one line of documentation, its default."""
    if factory is not None:
        return attrs.field(factory=factory, metadata={"shape": shape, "doc": doc})
    return attrs.field(default=default, metadata={"shape": shape, "doc": doc})
