"""The id of a message that was skipped is found at either end, and never taken from inside it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.rpc.framing import HeaderFramer, Oversize
from sidecar.rpc.salvage import Fragment, salvage

BIG = "x" * 20_000


def skip(message: object, *, separators: tuple[str, str] | None = None) -> Fragment:
    body = json.dumps(message, separators=separators).encode()
    (item,) = HeaderFramer(100).feed(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    assert isinstance(item, Oversize)
    return salvage(item)


@pytest.mark.parametrize("separators", [None, (",", ":")])
@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"jsonrpc": "2.0", "id": 7, "method": "sidecar/prompt", "params": {"text": BIG}}, Fragment(7, "sidecar/prompt")),
        (
            {"params": {"text": BIG, "id": 9, "method": "no"}, "method": "sidecar/prompt", "id": "a"},
            Fragment("a", "sidecar/prompt"),
        ),
        ({"method": "m", "params": {"id": 3, "text": BIG}, "id": 0, "jsonrpc": "2.0"}, Fragment(0, "m")),
        (
            {"method": "textDocument/didOpen", "params": {"id": 3, "text": BIG, "x": {"id": 4}}},
            Fragment(None, "textDocument/didOpen"),
        ),
        ({"params": {"x": {"text": BIG, "id": 4}}, "method": "m"}, Fragment(None, "m")),
        ({"id": 5, "result": {"method": "no", "text": BIG}}, Fragment(5, None, True)),
        ({"result": {"text": BIG, "method": "no"}, "id": 5}, Fragment(5, None, True)),
        ({"id": 5, "error": {"code": 1, "message": BIG}}, Fragment(5, None, True)),
        ({"id": True, "method": "m", "params": BIG}, Fragment(None, "m")),
        ({"id": None, "method": "m", "params": BIG}, Fragment(None, "m")),
        ({"params": [BIG, {"id": 1, "method": "no"}]}, Fragment()),
        ({"params": BIG + ',"id":5', "x": 1}, Fragment()),
        ({"params": ',"id":5}' + BIG + '\\",\\"id\\":5}'}, Fragment()),
        ({"id": 'q"uote,{', "method": "m", "params": BIG}, Fragment('q"uote,{', "m")),
        ([{"id": 1, "method": "m", "params": BIG}], Fragment()),
        (BIG, Fragment()),
    ],
)
def test_id_and_method_are_read_from_either_end(message: object, expected: Fragment, separators: tuple[str, str] | None) -> None:
    assert skip(message, separators=separators) == expected


def test_a_number_cut_by_the_end_of_the_excerpt_is_not_believed() -> None:
    assert salvage(Oversize(9999, b'{"id":12', b"xxxx")).id is None


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_no_bytes_whatever_raise(head: bytes, tail: bytes) -> None:
    salvage(Oversize(10_000, head, tail))


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["id", "method", "a", "result"]) | st.text(), inner),
        max_leaves=10,
    ),
    st.integers() | st.text(),
)
def test_what_stands_in_the_params_never_becomes_the_id(params: object, request_id: int | str) -> None:
    for message in (
        {"id": request_id, "method": "m", "params": [BIG, params]},
        {"method": "m", "params": [params, BIG], "id": request_id},
    ):
        assert skip(message).id == request_id
    assert skip({"method": "m", "params": [params, BIG, params]}).id is None
