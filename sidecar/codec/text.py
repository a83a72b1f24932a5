"""JSON text to values and back.

Decoding tries msgspec first and, on its error, the standard library, which also takes lone surrogates (an emoji cut over two
chunks) and NaN. Encoding writes ASCII only, so that whatever was read can be written again.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

MAX_DEPTH: Final = 256
"""Arrays and objects nested deeper than this are refused: encoders, printers and walkers recurse."""

_BOM: Final = b"\xef\xbb\xbf"
_UNREADABLE: Final = object()


class NotJson(ValueError):
    """The bytes are not one JSON value that can be kept. The text says why and never quotes the bytes."""


def decode(data: bytes) -> Any:
    """Return the JSON value in ``data`` (UTF-8, a leading BOM is skipped; of a repeated key the last wins).

    Raises ``NotJson`` for anything else, too deep nesting (``MAX_DEPTH``) and numbers too long to hold included.
    """
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        value = _UNREADABLE
    if value is _UNREADABLE:
        value = _decode_leniently(data)
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _is_too_deep(value):
        reason = f"nested deeper than {MAX_DEPTH} levels"
        raise NotJson(reason)
    return value


def _decode_leniently(data: bytes) -> Any:
    """Decode with the standard library; the error is raised outside the handler so that it carries no copy of the bytes."""
    try:
        return json.loads(data.removeprefix(_BOM).decode("utf-8", "surrogatepass"))
    except json.JSONDecodeError as error:
        reason = f"not JSON: {error.msg} at character {error.pos}"
    except UnicodeDecodeError as error:
        reason = f"not UTF-8: {error.reason} at byte {error.start}"
    except RecursionError:
        reason = f"nested deeper than {MAX_DEPTH} levels"
    except ValueError:
        reason = "a number in it has too many digits"
    raise NotJson(reason)


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for item in level for child in _children(item)]
        if not level:
            return False
    return any(isinstance(item, dict | list) for item in level)


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()


def encode(value: Any) -> bytes:
    """Return ``value`` as compact ASCII JSON without a newline.

    NaN and the infinities, which JSON does not have, become null. Raises ``TypeError`` for what is no JSON value.
    """
    try:
        text = _DUMPS(value)
    except ValueError:
        text = _DUMPS(_without_nan(value))
    return text.encode("ascii")


def encode_plain(value: Any) -> bytes:
    """Return ``encode(value)``, several times faster, for values of dicts, lists, strings, numbers, booleans and None only.

    The caller knows that there is nothing else in it: other types, which ``encode`` refuses, may be written in some form.
    """
    try:
        data = msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError, RecursionError):  # a lone surrogate, for one
        return encode(value)
    return data if data.isascii() else encode(value)


def encode_line(value: Any) -> bytes:
    """Return ``encode(value)`` and a line feed: one message of a newline-framed stream."""
    return encode(value) + b"\n"


_DUMPS: Final = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        members = cast("Mapping[Any, Any]", value)
        return {key: _without_nan(item) for key, item in members.items()}
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        return [_without_nan(item) for item in items]
    return value
