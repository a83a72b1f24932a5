"""JSON values to the attrs classes of a wire, and back.

Wire classes derive from ``Wire``; ``converter()`` reads and writes them. Whatever is in a message and not in its class survives
in ``extra``, so writing what was read gives an equal message.
"""

import functools
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, cast

import attrs

if TYPE_CHECKING:
    from cattrs import Converter


class Absent(Enum):
    """The field was not in the message; differs from an explicit null."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


class BadShape(ValueError):
    """A message lacks a field it cannot do without, or that field has the wrong type. The text names message and field."""


@attrs.frozen
class Wire:
    """Base of wire classes: attributes are the message's keys in snake case.

    A field whose default is ``ABSENT`` is optional; only a type that names None takes null. An optional field of the wrong type
    is treated as absent and kept in ``extra``, beside the keys the class does not know. ``meta`` is ``_meta``.
    ``TAG`` is the key and value that mark a member of a union; the value None marks the member without that key.
    """

    TAG: ClassVar[tuple[str, str | None] | None] = None

    meta: Mapping[str, Any] | Absent | None = attrs.field(default=ABSENT, kw_only=True, metadata={"key": "_meta"})
    extra: Mapping[str, Any] = attrs.field(factory=dict[str, Any], kw_only=True)


@attrs.frozen
class Unknown:
    """A member of a union whose kind is not known here, or that does not fit its kind; ``raw`` is what was received."""

    kind: str | None
    raw: Any


_Read: TypeAlias = Callable[[Any, Any], Any]
_Write: TypeAlias = Callable[[Any], Any]


@functools.cache
def converter() -> "Converter":
    """Return the converter of all wire classes: ``structure(json, cls)`` and ``unstructure(obj)``.

    ``structure`` raises ``BadShape`` only; ``unstructure(structure(x, cls)) == x``.
    """
    from cattrs import Converter  # not needed by an idle start

    made = Converter(detailed_validation=False)
    for kind in (str, bool, int, float):
        made.register_structure_hook(kind, _SCALARS[kind])
    made.register_structure_hook_func(lambda kind: kind is Any or kind is object, _read_any)
    made.register_structure_hook_func(_is_mapping, _read_object)
    made.register_structure_hook_factory(_is_tuple, functools.partial(_list_reader, made))
    made.register_structure_hook_factory(_is_union, functools.partial(_union_reader, made))
    made.register_structure_hook_factory(_is_wire, functools.partial(_ObjectReader, made))
    made.register_unstructure_hook_factory(_is_wire, functools.partial(_object_writer, made))
    made.register_unstructure_hook(Unknown, _write_unknown)
    return made


def _is_wire(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Wire)


def _is_mapping(kind: Any) -> bool:
    return typing.get_origin(kind) is Mapping


def _is_tuple(kind: Any) -> bool:
    return typing.get_origin(kind) is tuple


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in {types.UnionType, typing.Union}


def _read_any(value: Any, _: Any) -> Any:
    return value


def _read_str(value: Any, _: Any) -> str:
    if isinstance(value, str):
        return value
    raise BadShape("must be a string")


def _read_bool(value: Any, _: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise BadShape("must be true or false")


def _read_int(value: Any, _: Any) -> int:
    if (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    raise BadShape("must be a whole number")


def _read_float(value: Any, _: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise BadShape("must be a number")


def _read_object(value: Any, _: Any) -> Any:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    raise BadShape("must be an object")


_SCALARS: Final[Mapping[type, _Read]] = {str: _read_str, bool: _read_bool, int: _read_int, float: _read_float}


def _list_reader(made: "Converter", kind: Any) -> _Read:
    read = made.get_structure_hook(typing.get_args(kind)[0])

    def read_list(value: Any, _: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise BadShape("must be an array")
        items: list[Any] = []
        for index, item in enumerate(cast("list[Any]", value)):
            try:
                items.append(read(item, None))
            except BadShape as error:
                raise BadShape(f"[{index}] {error}") from None
        return tuple(items)

    return read_list


def _union_reader(made: "Converter", kind: Any) -> _Read:
    """Read a union: null where None is a member, tagged classes by their tag, else the first member that fits."""
    members = [member for member in typing.get_args(kind) if member not in {Absent, Unknown, types.NoneType}]
    nullable = types.NoneType in typing.get_args(kind)
    tagged = Unknown in typing.get_args(kind)
    reads = [made.get_structure_hook(member) for member in members]
    read = _tagged_reader(members, reads) if tagged else reads[0] if len(reads) == 1 else _first_fit(reads)
    if not nullable:
        return read
    return lambda value, _: None if value is None else read(value, None)


def _first_fit(reads: Sequence[_Read]) -> _Read:
    def read_first(value: Any, _: Any) -> Any:
        problem = BadShape("fits no allowed type")
        for read in reads:
            try:
                return read(value, None)
            except BadShape as error:
                problem = error
        raise problem

    return read_first


def _tagged_reader(members: Sequence[type[Wire]], reads: Sequence[_Read]) -> _Read:
    tags = [member.TAG or ("", None) for member in members]
    key = tags[0][0]
    by_tag = {tag[1]: read for tag, read in zip(tags, reads, strict=True)}

    def read_tagged(value: Any, _: Any) -> Any:
        tag = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
        kind = tag if isinstance(tag, str) else None
        read = by_tag.get(kind)
        if read is None:
            return Unknown(kind, value)
        try:
            return read(value, None)
        except BadShape:
            return Unknown(kind, value)

    return read_tagged


def _key_of(field: "attrs.Attribute[Any]") -> str:
    head, *rest = field.name.split("_")
    return field.metadata.get("key") or head + "".join(word.capitalize() for word in rest)


def _fields(cls: type[Wire]) -> list["attrs.Attribute[Any]"]:
    return [field for field in attrs.fields(cls) if field.name != "extra"]


@attrs.frozen
class _Slot:
    """How one key is read: values whose type is in ``plain`` (None: any value) are taken as they are, others go to ``read``."""

    attribute: str
    plain: frozenset[type] | None
    read: _Read
    required: bool


def _slot(made: "Converter", field: "attrs.Attribute[Any]") -> _Slot:
    return _Slot(field.name, _plain_types(field.type), made.get_structure_hook(field.type), field.default is attrs.NOTHING)


def _plain_types(kind: Any) -> frozenset[type] | None:
    if kind is Any:
        return None
    found: set[type] = set()
    for member in typing.get_args(kind) if _is_union(kind) else (kind,):
        if member in {str, bool, int, types.NoneType}:
            found.add(member)
        elif _is_mapping(member):
            found.add(dict)
    return frozenset(found)


class _ObjectReader:
    """Reads one wire class. This is the general path of every update, so the usual value costs one look-up."""

    def __init__(self, made: "Converter", cls: type[Wire]) -> None:
        self._cls = cls
        self._tag = cls.TAG if cls.TAG is not None and cls.TAG[1] is not None else ("", "")
        self._slots = {_key_of(field): _slot(made, field) for field in _fields(cls)}
        self._quick = {key: (slot.attribute, slot.plain) for key, slot in self._slots.items()}
        self._needed = frozenset(slot.attribute for slot in self._slots.values() if slot.required)

    def __call__(self, value: Any, _: Any) -> Wire:
        if type(value) is not dict:
            raise BadShape(f"{self._cls.__name__} must be an object")
        found: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        quick = self._quick
        for key, item in cast("dict[str, Any]", value).items():
            known = quick.get(key)
            if known is not None:
                attribute, plain = known
                if plain is None or type(item) in plain:
                    found[attribute] = item
                else:
                    self._read_member(key, item, found, extra)
            elif (key, item) != self._tag:
                extra[key] = item
        if not self._needed <= found.keys():
            missing = [key for key, slot in self._slots.items() if slot.required and slot.attribute not in found]
            raise BadShape(f"{self._cls.__name__}.{missing[0]} is missing")
        if extra:
            found["extra"] = extra
        return self._cls(**found)

    def _read_member(self, key: str, item: Any, found: dict[str, Any], extra: dict[str, Any]) -> None:
        slot = self._slots[key]
        try:
            found[slot.attribute] = slot.read(item, None)
        except BadShape as error:
            if slot.required:
                raise BadShape(f"{self._cls.__name__}.{key} {error}") from None
            extra[key] = item


def _object_writer(made: "Converter", cls: type[Wire]) -> _Write:
    keys = [(field.name, _key_of(field)) for field in _fields(cls)]
    tag_key, tag = cls.TAG or (None, None)

    def write_object(value: Wire) -> dict[str, Any]:
        out: dict[str, Any] = {tag_key: tag} if tag_key is not None and tag is not None else {}
        for attribute, key in keys:
            item = getattr(value, attribute)
            if item is not ABSENT:
                out[key] = _write_value(made, item)
        out.update(value.extra)
        return out

    return write_object


def _write_value(made: "Converter", value: Any) -> Any:
    if isinstance(value, Wire | Unknown):
        return made.unstructure(value)
    if isinstance(value, tuple):
        return [_write_value(made, item) for item in cast("tuple[Any, ...]", value)]
    return value


def _write_unknown(value: Unknown) -> Any:
    return value.raw
