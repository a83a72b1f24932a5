"""What the two ends of a skipped message still tell: its id, its method, whether it was a reply. Pure."""

import re
from collections.abc import Iterator
from typing import Any

import attrs

from sidecar.codec import NotJson, decode
from sidecar.rpc.framing import Oversize
from sidecar.rpc.messages import RequestId, is_request_id

_TOKEN = re.compile(rb'\s*("(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+)', re.DOTALL)
_SCALAR = rb'(?:"(?:[^"\\]|\\.)*"|[^\s{}\[\],:"]+)'
_LAST_MEMBERS = re.compile(rb'((?:,\s*"(?:id|method|jsonrpc)"\s*:\s*' + _SCALAR + rb")+)\s*\}\s*\Z", re.DOTALL)
_MEMBER = re.compile(rb',\s*"(id|method|jsonrpc)"\s*:\s*(' + _SCALAR + rb")", re.DOTALL)
_NESTED = object()


@attrs.frozen
class Fragment:
    """``id`` and ``method`` None = not seen; ``is_reply`` is true when a result or an error was seen and no method."""

    id: RequestId | None = None
    method: str | None = None
    is_reply: bool = False


def salvage(skipped: Oversize) -> Fragment:
    """Return what the ends of a message tell. Members of nested objects and text inside strings are never taken for its own."""
    members = dict(_leading_members(skipped.head))
    if not members and not skipped.head.lstrip().startswith(b"{"):
        return Fragment()
    members.update(_trailing_members(skipped.tail))
    request_id, method = members.get("id"), members.get("method")
    return Fragment(
        request_id if is_request_id(request_id) else None,
        method if isinstance(method, str) else None,
        "method" not in members and ("result" in members or "error" in members),
    )


def _tokens(data: bytes) -> Iterator[bytes]:
    at = 0
    while (found := _TOKEN.match(data, at)) is not None:
        if found.end() == len(data) and found[1] not in b"{}[],:":
            return  # it may go on beyond what was kept
        yield found[1]
        at = found.end()


def _leading_members(head: bytes) -> Iterator[tuple[str, Any]]:
    depth = 0
    key: bytes | None = None
    before = b""
    for token in _tokens(head):
        if token in b"{[":
            if depth == 1 and key is not None:
                yield _scalar(key), _NESTED
                key = None
            depth += 1
        elif token in b"}]":
            depth -= 1
        elif depth == 1:
            if token == b":":
                key = before
            elif key is not None and before == b":":
                yield _scalar(key), _scalar(token)
                key = None
        if depth < 1:
            return
        before = token
    if key is not None:
        yield _scalar(key), _NESTED  # its value is longer than what was kept


def _trailing_members(tail: bytes) -> Iterator[tuple[str, Any]]:
    found = _LAST_MEMBERS.search(tail)
    for member in _MEMBER.finditer(found[1]) if found is not None else ():
        yield member[1].decode(), _scalar(member[2])


def _scalar(token: bytes) -> Any:
    try:
        return decode(token)
    except NotJson:
        return _NESTED
