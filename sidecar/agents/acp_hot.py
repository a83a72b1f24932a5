"""The decoder of one read of an ACP agent: plain text chunks become runs, everything else is decoded as it is (DESIGN, rule 5).

Text is most of what an agent sends. A chunk is plain when its keys are exactly ``jsonrpc, method, params``, then ``sessionId,
update``, then ``sessionUpdate, content, messageId`` (the last may be missing), then ``type, text``, in any order. Neighbouring
plain chunks of the same session, role and message become one ``TextRun``; anything with more to it (``_meta``, annotations)
keeps every detail by taking the general way.
"""

from collections.abc import Callable
from itertools import groupby
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


LARGE_LINE_BYTES: Final = 1 << 20
"""A line above this is not copied to be decoded together with its neighbours."""

_DECODER: Final = msgspec.json.Decoder(_Notification)
_MARK: Final = b"_chunk"
_META: Final = b'"_meta"'


def batch_decoder(*, merge: bool = True) -> Callable[[list[bytes]], list[object]]:
    """Return the decoder for ``transport.Peer``; ``merge`` false decodes every chunk on its own, as received."""
    return decode_batch if merge else decode_lines


def decode_batch(lines: list[bytes]) -> list[object]:
    """Return what the lines of one read hold, in order: ``TextRun``, JSON values, or the ``Noise`` a line is."""
    items: list[object] = []
    if len(lines) > 1 and len(lines[0]) > LARGE_LINE_BYTES:  # only the first line of a read can be longer than a read
        return [*decode_batch(lines[:1]), *decode_batch(lines[1:])]
    if _decode_at_once(lines, items):
        return items
    for hopeful, group in groupby(lines, _may_be_plain):
        if not hopeful:
            items.extend(decode_line(line) for line in group)
        elif not _decode_at_once(stretch := list(group), items):
            _decode_each(stretch, items)
    return items


def _may_be_plain(line: bytes) -> bool:
    return _MARK in line and _META not in line


def _decode_at_once(lines: list[bytes], items: list[object]) -> bool:
    """Append the runs of the lines and return true when every one of them is a plain chunk; one call is what makes it fast."""
    try:
        chunks = _DECODER.decode_lines(b"\n".join(lines))
    except (msgspec.MsgspecError, RecursionError):
        return False
    if len(chunks) != len(lines):
        return False
    _merge([chunk.params for chunk in chunks], items)
    return True


def _decode_each(lines: list[bytes], items: list[object]) -> None:
    run: list[_Params] = []
    for line in lines:
        chunk = _read_chunk(line)
        if chunk is not None:
            run.append(chunk)
            continue
        _merge(run, items)
        run = []
        items.append(decode_line(line))
    _merge(run, items)


def _read_chunk(line: bytes) -> _Params | None:
    try:
        return _DECODER.decode(line).params
    except (msgspec.MsgspecError, RecursionError):
        return None


def _merge(chunks: list[_Params], items: list[object]) -> None:
    """Append one ``TextRun`` for each stretch of chunks of the same session, role and message."""
    texts: list[str] = []
    session_id, kind, message_id = "", "", None
    for chunk in chunks:
        update = chunk.update
        if update.sessionUpdate != kind or update.messageId != message_id or chunk.sessionId != session_id:
            if texts:
                items.append(TextRun(session_id, _ROLES[kind], "".join(texts), message_id, len(texts)))
                texts = []
            session_id, kind, message_id = chunk.sessionId, update.sessionUpdate, update.messageId
        texts.append(update.content.text)
    if texts:
        items.append(TextRun(session_id, _ROLES[kind], "".join(texts), message_id, len(texts)))
