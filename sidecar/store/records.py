"""The shapes of what is kept of sessions, and their rows."""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

import attrs

from sidecar.codec import NotJson, decode, encode, encode_plain

COMPRESS_FROM_BYTES: Final = 512

Turn: TypeAlias = Mapping[str, Any]


@attrs.frozen
class SessionRecord:
    """One session as it is remembered. Times are ISO 8601 in UTC; paths absolute.

    ``account`` marks the account without naming it (a hash or an id the agent gave). ``mode``, ``model``, ``effort`` are the
    user's wishes for this session. ``incomplete`` says why history may lack something. ``unknown_outcome`` is the id of a turn
    whose end was never seen. ``extra`` is any JSON object of the workspace's.
    """

    session_id: str
    agent: str
    cwd: str
    generation: str | None = None
    account: str | None = None
    agent_session_id: str | None = None
    additional_directories: tuple[str, ...] = ()
    mcp_servers: tuple[str, ...] = ()
    title: str | None = None
    remote: bool = False
    mode: str | None = None
    model: str | None = None
    effort: str | None = None
    incomplete: str | None = None
    unknown_outcome: str | None = None
    created_at: str = ""
    updated_at: str = ""
    extra: Mapping[str, Any] = attrs.Factory(dict[str, Any])


@attrs.frozen
class Wishes:
    """The last mode, model and effort the user chose for one agent, generation and account."""

    mode: str | None = None
    model: str | None = None
    effort: str | None = None


@attrs.frozen
class History:
    """Stored turns, the oldest first; ``before`` is the turn id to ask with for older ones, or None."""

    turns: Sequence[Turn]
    before: str | None = None


COLUMNS: Final = tuple(field.name for field in attrs.fields(SessionRecord))
_LISTS: Final = ("additional_directories", "mcp_servers")
_JSON_COLUMNS: Final = (*_LISTS, "extra")


def to_db(text: str | None) -> str | bytes | None:
    """Return ``text`` as SQLite takes it: text it cannot encode (a path that is not UTF-8, half an emoji) becomes bytes."""
    if text is None:
        return None
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def from_db(value: Any) -> Any:
    """Undo ``to_db``."""
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value


def to_row(record: SessionRecord) -> Sequence[object]:
    """Return the values of ``COLUMNS``."""
    row = [getattr(record, name) for name in COLUMNS]
    for index, name in enumerate(COLUMNS):
        if name in _JSON_COLUMNS:
            row[index] = encode(list(row[index]) if name in _LISTS else dict(row[index])).decode()
        elif isinstance(row[index], str):
            row[index] = to_db(row[index])
    return row


def from_row(row: Sequence[Any]) -> SessionRecord:
    """Return the record of one row; a list or object that cannot be read is empty."""
    values = {name: from_db(value) for name, value in zip(COLUMNS, row, strict=True)}
    for name in _LISTS:
        found = _json(values[name])
        values[name] = tuple(str(item) for item in cast("list[object]", found)) if isinstance(found, list) else ()
    extra = _json(values["extra"])
    values["extra"] = cast("dict[str, Any]", extra) if isinstance(extra, dict) else {}
    values["remote"] = bool(values["remote"])
    return SessionRecord(**values)


def _json(text: str) -> Any:
    try:
        return decode(text.encode())
    except NotJson:
        return None


def pack_turn(turn: Turn) -> bytes:
    """Return a turn as compact JSON, compressed when that pays."""
    plain = encode_plain(dict(turn))
    return zlib.compress(plain, 1) if len(plain) >= COMPRESS_FROM_BYTES else plain


def unpack_turn(body: bytes) -> Turn | None:
    """Undo ``pack_turn``; None when the bytes are damaged."""
    try:
        value = decode(body if body.startswith(b"{") else zlib.decompress(body))
    except (zlib.error, NotJson):
        return None
    return cast("Turn", value) if isinstance(value, dict) else None
