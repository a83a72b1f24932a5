"""Correlation: which reply belongs to which request, and that each request gets exactly one answer."""

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,  # pyright: ignore[reportUnknownVariableType]  # hypothesis leaves its factory untyped
)

from sidecar.errors import INTERNAL_ERROR, INVALID_REQUEST, Unavailable
from sidecar.rpc.connection import FORGOTTEN_KEPT, INCOMING, LSP_CANCELLATION, OUTGOING, Connection, Received, Sent, Step
from sidecar.rpc.messages import (
    Cancelled,
    IncomingNotification,
    IncomingReply,
    IncomingRequest,
    RequestId,
    RpcError,
    Unusable,
    is_request_id,
)


def call(request_id: object, method: object = "m", **more: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, **more}


@pytest.mark.parametrize("value", [0, "", 1, -1, "1", 2**60, "é"])
def test_numbers_and_strings_are_ids_also_zero_and_the_empty_one(value: RequestId) -> None:
    connection = Connection()
    assert connection.receive(call(value)) == IncomingRequest(value, "m", None)
    answered = connection.answer(value, {"ok": 1})
    assert answered == {"jsonrpc": "2.0", "id": value, "result": {"ok": 1}}
    assert answered is not None
    assert type(answered["id"]) is type(value)


@pytest.mark.parametrize("value", [True, False, None, 1.0, 1.5, float("nan"), [], {}, [1]])
def test_a_request_with_an_id_that_is_none_is_refused_without_echoing_it(value: object) -> None:
    received = Connection().receive(call(value))
    assert isinstance(received, Unusable)
    assert received.reply is not None
    assert received.reply["id"] is None
    assert received.reply["error"]["code"] == INVALID_REQUEST
    assert not is_request_id(value)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"method": "m"}, IncomingNotification("m", None)),
        ({"method": "m", "params": None}, IncomingNotification("m", None)),
        ({"params": [1], "method": "m", "jsonrpc": "2.0"}, IncomingNotification("m", [1])),
        ({"method": "", "id": 3}, IncomingRequest(3, "", None)),
        (
            {"params": {"x": {"jsonrpc": "2.0", "id": 9}}, "id": "a", "method": "m", "extra": 1},
            IncomingRequest("a", "m", {"x": {"jsonrpc": "2.0", "id": 9}}),
        ),
        ({"id": 3, "method": "m", "params": "text"}, IncomingRequest(3, "m", "text")),
    ],
)
def test_calls_are_read_in_any_key_order_and_with_unknown_keys(message: object, expected: object) -> None:
    assert Connection().receive(message) == expected


@pytest.mark.parametrize(
    "message", [[], [call(1)], 1, "x", None, True, {}, {"id": 1, "method": 7}, {"id": 1, "method": ["m"]}, {"jsonrpc": "2.0"}]
)
def test_what_is_no_message_is_refused_with_an_invalid_request_error(message: object) -> None:
    received = Connection().receive(message)
    assert isinstance(received, Unusable)
    assert received.reply is not None
    assert received.reply["error"]["code"] == INVALID_REQUEST


def test_a_call_whose_method_is_no_string_is_refused_by_its_own_id() -> None:
    received = Connection().receive({"id": "q", "method": 7})
    assert isinstance(received, Unusable)
    assert received.reply is not None
    assert received.reply["id"] == "q"


def test_requests_are_numbered_upwards_and_leave_absent_params_out() -> None:
    connection = Connection()
    assert connection.request("a") == (0, {"jsonrpc": "2.0", "id": 0, "method": "a"})
    assert connection.request("b", {}) == (1, {"jsonrpc": "2.0", "id": 1, "method": "b", "params": {}})
    assert connection.notification("n", []) == {"jsonrpc": "2.0", "method": "n", "params": []}
    assert connection.notification("n") == {"jsonrpc": "2.0", "method": "n"}


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"id": 1, "result": {"a": 1}}, IncomingReply(1, "second", {"a": 1})),
        ({"id": 1, "result": None}, IncomingReply(1, "second", None)),
        ({"id": 1, "result": 0, "error": None}, IncomingReply(1, "second", 0)),
        ({"method": None, "id": 1, "result": False}, IncomingReply(1, "second", False)),
        ({"result": [], "id": 1, "jsonrpc": "2.0", "x": 1}, IncomingReply(1, "second", [])),
        ({"id": "1", "result": 5}, IncomingReply(1, "second", 5, None, "the id came back as a string")),
        ({"id": 1}, IncomingReply(1, "second", None, None, "neither result nor error; taken as a null result")),
        (
            {"id": 1, "error": {"code": -3, "message": "no", "data": [1]}},
            IncomingReply(1, "second", None, RpcError(-3, "no", [1])),
        ),
        ({"id": 1, "result": 1, "error": {"code": -3, "message": "no"}}, IncomingReply(1, "second", None, RpcError(-3, "no"))),
        ({"id": 1, "error": "broken"}, IncomingReply(1, "second", None, RpcError(INTERNAL_ERROR, "broken"))),
        (
            {"id": 1, "error": {"code": True, "message": 7}},
            IncomingReply(1, "second", None, RpcError(INTERNAL_ERROR, "the peer answered with an error it did not describe")),
        ),
        (
            {"id": 1, "error": [1]},
            IncomingReply(1, "second", None, RpcError(INTERNAL_ERROR, "the peer answered with an error it did not describe")),
        ),
    ],
)
def test_a_reply_reaches_the_request_of_its_id(reply: object, expected: IncomingReply) -> None:
    connection = Connection()
    connection.request("first")
    connection.request("second")
    assert connection.receive(reply) == expected
    assert isinstance(connection.receive(reply), Unusable), "a second reply to the same id is not taken"


@pytest.mark.parametrize("given_id", [True, 1.0, "01", " 1", "+1", "1.0", "\u0661", None, [1], "1" * 400])
def test_a_reply_with_a_boolean_or_otherwise_different_id_is_never_taken_for_request_one(given_id: object) -> None:
    connection = Connection()
    connection.request("zero")
    connection.request("one")
    received = connection.receive({"id": given_id, "result": "stolen"})
    assert isinstance(received, Unusable)
    assert received.reply is None, "a reply is never answered"
    assert connection.close().pending == [(0, "zero"), (1, "one")]


def test_an_error_without_an_id_is_only_told() -> None:
    assert Connection().receive({"jsonrpc": "2.0", "error": {"code": -32700, "message": "sk-secret"}}) == Unusable(
        "a reply without a usable id"
    )


def test_a_request_with_the_id_of_an_open_one_does_not_spoil_the_first() -> None:
    connection = Connection()
    connection.receive(call(5, "first"))
    second = connection.receive(call(5, "second"))
    assert isinstance(second, Unusable)
    assert second.reply is not None
    assert second.reply["id"] is None, "the id five keeps its single answer"
    assert connection.answer(5, 1) is not None
    assert connection.answer(5, 1) is None
    assert connection.receive(call(5, "again")) == IncomingRequest(5, "again")


def test_the_number_one_and_the_string_one_are_two_open_requests() -> None:
    connection = Connection()
    connection.receive(call(1))
    connection.receive(call("1"))
    assert connection.refuse("1", -1, "no") == {"jsonrpc": "2.0", "id": "1", "error": {"code": -1, "message": "no"}}
    assert connection.answer(1, None) == {"jsonrpc": "2.0", "id": 1, "result": None}


def test_ids_of_the_two_directions_do_not_meet() -> None:
    connection = Connection()
    connection.request("ours")
    connection.receive(call(0, "theirs"))
    assert connection.receive({"id": 0, "result": 1}) == IncomingReply(0, "ours", 1)
    assert connection.answer(0, 2) == {"jsonrpc": "2.0", "id": 0, "result": 2}


def test_an_answer_to_a_boolean_id_never_answers_request_one() -> None:
    connection = Connection()
    connection.receive(call(1))
    assert connection.answer(True, None) is None
    assert not connection.is_open(True)
    assert connection.is_open(1)


def test_a_withdrawn_request_still_gets_its_one_answer() -> None:
    connection = Connection()
    connection.receive(call("r"))
    assert connection.receive({"method": "$/cancel_request", "params": {"requestId": "r"}}) == Cancelled("r")
    assert isinstance(connection.receive({"method": "$/cancel_request", "params": {"requestId": "r"}}), Unusable)
    assert connection.refuse("r", -32800, "cancelled", {"why": 1}) is not None
    assert connection.answer("r", 1) is None


@pytest.mark.parametrize(
    "params", [None, [], {}, {"requestId": None}, {"requestId": 2}, {"requestId": True}, {"requestId": [1]}, "x"]
)
def test_a_cancellation_that_names_no_open_request_is_ignored_in_silence(params: object) -> None:
    connection = Connection()
    connection.receive(call(1))
    received = connection.receive({"method": "$/cancel_request", "params": params})
    assert isinstance(received, Unusable)
    assert received.reply is None
    assert connection.is_open(1)


def test_an_editor_withdraws_requests_in_the_words_of_its_own_protocol() -> None:
    connection = Connection(LSP_CANCELLATION)
    connection.receive(call(4))
    assert connection.receive({"method": "$/cancel_request", "params": {"requestId": 4}}) == IncomingNotification(
        "$/cancel_request", {"requestId": 4}
    )
    assert isinstance(connection.receive({"method": "$/cancelRequest", "params": {"id": "4"}}), Unusable)
    assert connection.receive({"method": "$/cancelRequest", "params": {"id": 4}}) == Cancelled(4)
    connection.request("ours")
    assert connection.cancel(0) == {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 0}}


def test_a_cancelled_request_of_ours_still_takes_its_reply_and_is_cancelled_once() -> None:
    connection = Connection()
    connection.request("slow")
    assert connection.cancel(0) == {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 0}}
    assert connection.cancel(0) is None
    assert connection.receive({"id": 0, "error": {"code": -32800, "message": "cancelled"}}) == IncomingReply(
        0, "slow", None, RpcError(-32800, "cancelled")
    )
    assert connection.cancel(0) is None


def test_the_reply_of_a_forgotten_request_is_late_and_reaches_nobody() -> None:
    connection = Connection()
    connection.request("gone")
    connection.forget(0)
    received = connection.receive({"id": 0, "result": 1})
    assert received == Unusable("late reply to gone, which nobody waits for any more")
    assert connection.cancel(0) is None
    connection.forget(0)
    connection.forget(77)


def test_forgotten_requests_do_not_pile_up() -> None:
    connection = Connection()
    for _ in range(FORGOTTEN_KEPT + 10):
        connection.forget(connection.request("m")[0])
    assert len(connection.close().pending) == FORGOTTEN_KEPT


def test_a_closed_connection_tells_what_was_open_takes_nothing_and_answers_nothing() -> None:
    connection = Connection()
    connection.request("a")
    connection.request("b")
    connection.receive(call("x"))
    closed = connection.close()
    assert closed.pending == [(0, "a"), (1, "b")]
    assert closed.unanswered == ["x"]
    assert connection.close().pending == []
    assert connection.answer("x", 1) is None
    assert connection.receive({"id": 0, "result": 1}) == Unusable("the connection is closed")
    with pytest.raises(Unavailable, match="session/prompt was not sent"):
        connection.request("session/prompt")


def test_the_lifecycle_tables_end_and_never_step_out_of_an_end() -> None:
    for (state, step), following in OUTGOING.items():
        assert state is not Sent.DONE
        assert following is not state, f"{state} {step} goes nowhere"
    for state, step in product((Sent.WAITING, Sent.CANCELLING, Sent.FORGOTTEN), (Step.REPLY, Step.CLOSE)):
        assert OUTGOING[state, step] is Sent.DONE, "a reply and the end of the connection end every request"
    for (incoming, _step), following in INCOMING.items():
        assert incoming is not Received.ANSWERED
        assert following is not incoming
    for incoming, step in product((Received.OPEN, Received.WITHDRAWN), (Step.ANSWER, Step.CLOSE)):
        assert INCOMING[incoming, step] is Received.ANSWERED


def test_nothing_of_a_body_stands_in_a_repr() -> None:
    connection = Connection()
    connection.request("m")
    shown = [
        repr(connection.receive(call(1, params={"token": "sk-secret"}))),
        repr(connection.receive({"method": "n", "params": ["sk-secret"]})),
        repr(connection.receive({"id": 0, "result": "sk-secret"})),
        repr(connection.receive({"id": "sk-secret-id", "result": 1})),
    ]
    assert "sk-secret" not in " ".join(shown)


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["2.0", "m", "$/cancel_request", "0", 0, 1]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "code", "message", "requestId", "x"]),
            inner,
            max_size=6,
        )
    ),
    max_leaves=12,
)


@given(st.lists(json_values, max_size=12))
def test_no_json_value_whatever_raises(messages: list[Any]) -> None:
    connection = Connection()
    connection.request("a")
    connection.request("b")
    for message in messages:
        received = connection.receive(message)
        if isinstance(received, Unusable) and received.reply is not None:
            json.dumps(received.reply, allow_nan=False)
        if isinstance(received, IncomingRequest):
            assert connection.answer(received.id, None) is not None


class TwoConnections(RuleBasedStateMachine):
    """Two connections joined by two ordered wires; whatever the order of acts, every call ends once and at its own caller."""

    sent: Bundle[tuple[int, int]] = Bundle("sent")
    taken: Bundle[tuple[int, RequestId]] = Bundle("taken")

    def __init__(self) -> None:
        super().__init__()
        self.ends = (Connection(), Connection())
        self.wires: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
        self.questions: tuple[dict[int, str], dict[int, str]] = ({}, {})
        self.open: tuple[dict[RequestId, str], dict[RequestId, str]] = ({}, {})
        self.forgotten: tuple[set[int], set[int]] = (set(), set())
        self.replies: tuple[list[int], list[int]] = ([], [])
        self.count = 0

    @rule(target=sent, side=st.integers(0, 1))
    def ask(self, side: int) -> tuple[int, int]:
        self.count += 1
        method = f"q{self.count}"
        request_id, message = self.ends[side].request(method, {"side": side})
        assert request_id not in self.questions[side]
        self.questions[side][request_id] = method
        self.wires[1 - side].append(message)
        return side, request_id

    @precondition(lambda self: any(self.wires))
    @rule(target=taken, side=st.integers(0, 1))
    def deliver(self, side: int) -> tuple[int, RequestId]:
        side = side if self.wires[side] else 1 - side
        received = self.ends[side].receive(self.wires[side].pop(0))
        if isinstance(received, IncomingRequest):
            assert received.id not in self.open[side]
            self.open[side][received.id] = received.method
            return side, received.id
        if isinstance(received, IncomingReply):
            assert received.result == self.questions[side][received.id] == received.method, "a reply was crossed"
            assert received.id not in self.replies[side], "a request was answered twice"
            assert received.id not in self.forgotten[side]
            self.replies[side].append(received.id)
        elif isinstance(received, Cancelled):
            assert received.id in self.open[side]
        return side, ""

    @rule(where=taken)
    def answer(self, where: tuple[int, RequestId]) -> None:
        side, request_id = where
        method = self.open[side].pop(request_id, None)
        message = self.ends[side].answer(request_id, method)
        assert (message is None) == (method is None), "exactly one answer"
        if message is not None:
            self.wires[1 - side].append(message)

    @rule(where=sent)
    def withdraw(self, where: tuple[int, int]) -> None:
        side, request_id = where
        message = self.ends[side].cancel(request_id)
        if message is not None:
            assert request_id not in self.replies[side]
            self.wires[1 - side].append(message)

    @rule(where=sent)
    def forget(self, where: tuple[int, int]) -> None:
        side, request_id = where
        if request_id not in self.replies[side]:
            self.forgotten[side].add(request_id)
        self.ends[side].forget(request_id)

    @rule(side=st.integers(0, 1), request_id=st.integers(-2, 40) | st.text(max_size=2) | st.booleans() | st.none())
    def forge_a_reply_to_nothing(self, side: int, request_id: object) -> None:
        if is_request_id(request_id) and (request_id in self.questions[side] or str(request_id).isdecimal()):
            return
        received = self.ends[side].receive({"jsonrpc": "2.0", "id": request_id, "result": "forged"})
        assert isinstance(received, Unusable)

    @invariant()
    def open_requests_agree(self) -> None:
        for side in (0, 1):
            for request_id in self.open[side]:
                assert self.ends[side].is_open(request_id)

    def teardown(self) -> None:
        for side in (0, 1):
            closed = self.ends[side].close()
            waiting = {request_id for request_id, _method in closed.pending}
            assert waiting.isdisjoint(self.replies[side])
            assert set(closed.unanswered) == set(self.open[side])


def test_two_connections_never_cross_lose_or_double_a_reply() -> None:
    run_state_machine_as_test(TwoConnections, settings=settings(max_examples=60, stateful_step_count=60, deadline=None))
