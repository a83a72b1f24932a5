"""The decoder of one read of an ACP agent: plain text chunks become runs, everything else is decoded as it is (DESIGN, rule 5).

Text is most of what an agent sends. A chunk is plain when its keys are exactly ``jsonrpc, method, params``, then ``sessionId,
update``, then ``sessionUpdate, content, messageId`` (the last may be missing), then ``type, text``, in any order. Neighbouring
plain chunks of the same session, role and message become one ``TextRun``; anything with more to it (``_meta``, annotations)
keeps every detail by taking the general way.

A run costs one decoding: its first chunk shows which bytes stand before and after the text, lines with the same bytes around it
are chunks of the same message, and what stands between is the inside of one JSON string, decoded whole.
"""

import re
from collections.abc import Callable
from itertools import takewhile
from typing import Final, Literal

import attrs
import msgspec

from sidecar.session.events import Role
from sidecar.transport.handler import decode_line, decode_lines

_ROLES: Final[dict[str, Role]] = {"agent_message_chunk": "agent", "agent_thought_chunk": "thought", "user_message_chunk": "user"}


@attrs.frozen
class TextRun:
    """Text that neighbouring plain chunks of one read add to one message. ``count`` is how many chunks it was."""

    session_id: str
    role: Role
    text: str
    message_id: str | None = None
    count: int = 1


class _Text(msgspec.Struct, tag_field="type", tag="text", forbid_unknown_fields=True, gc=False):
    text: str


class _Update(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    sessionUpdate: Literal["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"]  # noqa: N815 - a key of the wire
    content: _Text
    messageId: str | None = None  # noqa: N815 - a key of the wire


class _Params(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    sessionId: str  # noqa: N815 - a key of the wire
    update: _Update


class _Notification(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    method: Literal["session/update"]
    params: _Params
    jsonrpc: Literal["2.0"]


LARGE_LINE_BYTES: Final = 1 << 16
"""A line above this is not looked through to be decoded together with its neighbours."""

_DECODER: Final = msgspec.json.Decoder(_Notification)
FIRST_LOOK_AHEAD: Final = 8
"""Lines compared at first with one that was decoded; twice as many each time that all are like it."""

_STRING: Final = msgspec.json.Decoder(str)
_MARK: Final = b"_chunk"
_META: Final = b'"_meta"'
_TEXT: Final = re.compile(rb'"text"[ \t]*:[ \t]*"((?:[^"\\]++|\\.)*+)"')
"""The text of a plain chunk: no other key is called so, and inside of strings quotes are escaped."""


def batch_decoder(*, merge: bool = True) -> Callable[[list[bytes]], list[object]]:
    """Return the decoder for ``transport.Peer``; ``merge`` false decodes every chunk on its own, as received."""
    return decode_batch if merge else decode_lines


def decode_batch(lines: list[bytes]) -> list[object]:
    """Return what the lines of one read hold, in order: ``TextRun``, JSON values, or the ``Noise`` a line is."""
    items: list[object] = []
    at = 0
    while at < len(lines):
        chunk = _read_chunk(lines[at])
        if chunk is None:
            items.append(decode_line(lines[at]))
            at += 1
            continue
        text, count = _read_run(chunk.update.content.text, lines, at)
        _add(items, chunk, text, count)
        at += count
    return items


def _read_chunk(line: bytes) -> _Params | None:
    if _MARK not in line or _META in line:
        return None
    try:
        return _DECODER.decode(line).params
    except (msgspec.MsgspecError, RecursionError):
        return None


def _read_run(first: str, lines: list[bytes], at: int) -> tuple[str, int]:
    """Return the text of the plain chunk at ``at`` (``first``) and of those like it that follow, and how many chunks it is."""
    line = lines[at]
    if at + 1 == len(lines) or len(line) > LARGE_LINE_BYTES or (place := _TEXT.search(line)) is None:
        return first, 1
    inside = _insides(lines, at + 1, line[: place.start(1)], line[place.end(1) :])
    joined = b"\n".join(inside)
    if not inside or b"\\\n" in joined or joined.endswith(b"\\"):  # a backslash could swallow what comes next
        return first, 1
    try:
        return first + _STRING.decode(b'"%b"' % joined.replace(b"\n", b"")), 1 + len(inside)
    except msgspec.MsgspecError:
        return first, 1


def _insides(lines: list[bytes], at: int, before: bytes, after: bytes) -> list[bytes]:
    """Return what stands between ``before`` and ``after`` in the lines from ``at`` on, up to the first that differs in them."""
    around = len(before) + len(after)
    found: list[bytes] = []
    ahead = FIRST_LOOK_AHEAD
    while stretch := lines[at : at + ahead]:
        insides = [line.removeprefix(before).removesuffix(after) for line in stretch]
        if sum(map(len, insides)) + around * len(stretch) != sum(map(len, stretch)):
            pairs = zip(stretch, insides, strict=True)
            return found + [inside for _, inside in takewhile(lambda pair: len(pair[1]) + around == len(pair[0]), pairs)]
        found += insides
        at += ahead
        ahead *= 2
    return found


def _add(items: list[object], chunk: _Params, text: str, count: int) -> None:
    """Append a run, to the run before it when that is of the same session, role and message."""
    update = chunk.update
    role = _ROLES[update.sessionUpdate]
    last = items[-1] if items else None
    if isinstance(last, TextRun) and (last.session_id, last.role, last.message_id) == (chunk.sessionId, role, update.messageId):
        items[-1] = attrs.evolve(last, text=last.text + text, count=last.count + count)
    else:
        items.append(TextRun(chunk.sessionId, role, text, update.messageId, count))
