"""The front door as a real process: every message of an editor, good or bad, gets what it deserves and nothing twice."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sidecar.editor.calls import COMMAND_ANSWER_SECONDS
from tests.peers.lsp_client import LspClient, frame
from tests.process.front_door_app import ERRORS

pytestmark = pytest.mark.process

DEAF_SECONDS = 1.0
REPOSITORY = Path(__file__).resolve().parents[2]
PLUGIN = {"experimental": {"sidecar": {"protocol": 1, "client": "test/1", "changes": True, "questions": True, "commands": True}}}
PROGRESS = {"window": {"workDoneProgress": True}}
HOVER = {"textDocument": {"uri": "file:///a.py"}, "position": {"line": 0, "character": 0}}


def start(*arguments: str, **options: Any) -> LspClient:
    return LspClient([sys.executable, "-m", "tests.process.front_door_app", *arguments], cwd=str(REPOSITORY), **options)


@pytest.fixture
def fresh() -> Iterator[LspClient]:
    """A server that was not initialized."""
    with start() as client:
        yield client


@pytest.fixture
def editor() -> Iterator[LspClient]:
    """A server of one test alone, initialized by an editor with plain LSP."""
    with start() as client:
        client.initialize()
        yield client


class Shared:
    """One initialized server for the tests that leave no trace in it; replaced when a test left it spoiled."""

    def __init__(self) -> None:
        self.client: LspClient | None = None

    def get(self) -> LspClient:
        if self.client is None:
            self.client = start()
            self.client.initialize()
        return self.client

    def check(self) -> None:
        client, self.client = self.client, None
        if client is None:
            return
        try:
            client.check()
        except AssertionError:
            client.kill()
            raise
        if client.process.poll() is None:
            self.client = client

    def close(self) -> None:
        if self.client is not None:
            with self.client:
                pass


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    holder = Shared()
    yield holder
    holder.close()


@pytest.fixture
def plain(shared: Shared) -> Iterator[LspClient]:
    """The shared server, checked after each test."""
    yield shared.get()
    shared.check()


# the two doors of an operation


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("sidecar/echo", {"a": {"b-c": 1, "class": None}, "type_name": "x"}),
        ("sidecar/deep/name/echo", {"nested": {"jsonrpc": "2.0", "id": 5, "method": "q", "params": {}}}),
        ("sidecar/echo", {"text": "\u2028 é \U0001f600 \ud83d"}),
    ],
)
def test_an_operation_gets_its_params_as_they_were_sent(plain: LspClient, method: str, params: dict[str, Any]) -> None:
    assert plain.result(method, params) == {"echo": params}


def test_an_operation_without_params_or_with_null_gets_an_empty_object(plain: LspClient) -> None:
    assert plain.result("sidecar/echo") == {"echo": {}}
    assert plain.result("sidecar/echo", None) == {"echo": {}}


@pytest.mark.parametrize("arguments", [None, [], [None], [{}]])
def test_a_command_may_come_without_an_argument(plain: LspClient, arguments: object) -> None:
    assert plain.result("workspace/executeCommand", {"command": "sidecar.echo", "arguments": arguments}) == {"echo": {}}
    assert plain.result("workspace/executeCommand", {"command": "sidecar.deep.name.echo"}) == {"echo": {}}


def test_a_command_takes_one_object(plain: LspClient) -> None:
    argument = {"q": 1, "x": {"jsonrpc": "2.0"}}
    assert plain.result("workspace/executeCommand", {"command": "sidecar.echo", "arguments": [argument]}) == {"echo": argument}


@pytest.mark.parametrize(
    ("arguments", "fix"),
    [([{"a": 1}, 2], "2 arguments"), ([1], "one JSON object"), ([[1]], "one JSON object"), ("x", "one JSON object")],
)
def test_a_command_with_other_arguments_is_told_how_to_give_them(plain: LspClient, arguments: object, fix: str) -> None:
    error = plain.error("workspace/executeCommand", {"command": "sidecar.echo", "arguments": arguments})
    assert error["code"] == -32602
    assert fix in error["message"]


@pytest.mark.parametrize("params", [[1], "text", 7, True])
def test_an_operation_with_params_that_are_no_object_is_refused(plain: LspClient, params: object) -> None:
    error = plain.error("sidecar/echo", params)
    assert error["code"] == -32602
    assert "one JSON object" in error["message"]


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("sidecar/no/such", {}, -32601),
        ("sidecar/", {}, -32601),
        ("sidecar/pri\x1b]0;nt", {}, -32601),
        ("workspace/executeCommand", {"command": "sidecar.nope"}, -32601),
        ("workspace/executeCommand", {"command": "editor.action"}, -32602),
        ("workspace/executeCommand", {"command": 7}, -32602),
        ("workspace/executeCommand", {}, -32602),
        ("workspace/executeCommand", None, -32602),
        ("textDocument/nope", {}, -32601),
        ("$/unknown", None, -32601),
        ("initialize", {"processId": None, "rootUri": None, "capabilities": {}}, -32600),
    ],
)
def test_what_nobody_answers_is_refused_with_a_sentence(plain: LspClient, method: str, params: object, code: int) -> None:
    error = plain.error(method, params)
    assert error["code"] == code
    assert len(error["message"]) > 15
    assert error["message"].isprintable()


@pytest.mark.parametrize("kind", sorted(ERRORS))
def test_each_kind_of_error_becomes_its_own_code_and_a_foreign_one_says_nothing_of_its_text(plain: LspClient, kind: str) -> None:
    error = plain.error("sidecar/fail", {"kind": kind})
    codes = {"editor": -32602, "config": -32602, "agent": -32005, "refused": -32003, "unavailable": -32004, "group": -32003}
    assert error["code"] == codes.get(kind, -32603)
    assert "sk-secret" not in str(error)
    assert error.get("data") == ({"why": 1} if kind == "agent" else None)


def test_a_result_that_is_no_json_is_an_error_and_the_next_call_works(plain: LspClient) -> None:
    assert plain.error("sidecar/unwritable")["code"] == -32603
    assert plain.result("sidecar/echo") == {"echo": {}}


def test_a_slow_command_is_answered_within_a_second_and_its_result_follows() -> None:
    with start() as client:
        client.initialize(PLUGIN)
        began = time.monotonic()
        command = {"command": "sidecar.nap"}
        assert client.result("workspace/executeCommand", command) == {"state": "started", "operation": "nap"}
        assert COMMAND_ANSWER_SECONDS - 0.05 <= time.monotonic() - began <= 1.2
        assert client.told("sidecar/operation/finished") == {"operation": "nap", "result": {"rested": True}}


def test_a_quick_command_is_answered_with_its_result_and_nothing_follows(plain: LspClient) -> None:
    assert plain.result("workspace/executeCommand", {"command": "sidecar.nap", "arguments": [{"seconds": 0.01}]}) == {
        "rested": True
    }
    plain.result("sidecar/nap", {"seconds": COMMAND_ANSWER_SECONDS + 0.1})
    assert plain.unread() == []


def test_a_slow_request_waits_for_its_result(plain: LspClient) -> None:
    assert plain.result("sidecar/nap", {"seconds": COMMAND_ANSWER_SECONDS + 0.2}) == {"rested": True}


def test_a_command_that_fails_late_is_told_to_a_plugin_once() -> None:
    with start() as client:
        client.initialize(PLUGIN)
        client.result("workspace/executeCommand", {"command": "sidecar.nap.fail"})
        finished = client.told("sidecar/operation/finished")
        assert finished == {"operation": "nap.fail", "error": {"code": -32004, "message": "the agent did not come"}}
        client.result("sidecar/echo")
        assert client.unread() == []


def test_a_command_that_fails_late_is_shown_to_the_user_of_a_plain_editor_and_ends_its_progress() -> None:
    with start() as client:
        client.initialize(PROGRESS)
        client.result("workspace/executeCommand", {"command": "sidecar.nap.fail"})
        asked = client.asked("window/workDoneProgress/create")
        client.answer(asked)
        assert client.told("$/progress")["value"] == {"kind": "begin", "title": "sidecar: nap.fail", "cancellable": True}
        assert client.told("sidecar/operation/finished")["error"]["code"] == -32004
        assert client.told("$/progress")["value"] == {"kind": "end"}
        assert client.told("window/showMessage") == {"type": 1, "message": "nap.fail: the agent did not come"}


def test_the_progress_of_a_slow_command_can_be_cancelled() -> None:
    with start() as client:
        client.initialize(PROGRESS)
        assert client.result("workspace/executeCommand", {"command": "sidecar.sleep"})["state"] == "started"
        asked = client.asked("window/workDoneProgress/create")
        client.answer(asked)
        client.told("$/progress")
        client.notify("window/workDoneProgress/cancel", {"token": asked["params"]["token"]})
        assert client.told("sidecar/operation/finished")["error"]["code"] == -32800
        assert client.told("$/progress")["value"] == {"kind": "end"}


# ids and cancelling


def test_a_withdrawn_request_is_answered_once_as_cancelled(editor: LspClient) -> None:
    request = editor.request("sidecar/sleep")
    editor.cancel(request)
    assert editor.reply(request)["error"]["code"] == -32800
    editor.cancel(request)
    assert editor.result("sidecar/told")["told"] == ["sleep ended"]


def test_a_withdrawn_feature_request_is_answered_once_as_cancelled(plain: LspClient) -> None:
    request = plain.request("textDocument/hover", {**HOVER, "wait": True})
    plain.cancel(request)
    assert plain.reply(request)["error"]["code"] == -32800


def test_a_cancellation_sent_in_the_same_breath_is_obeyed(plain: LspClient) -> None:
    plain.expect_reply_to(900)
    sleep = {"jsonrpc": "2.0", "id": 900, "method": "sidecar/sleep"}
    plain.send_bytes(frame(sleep) + frame({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 900}}))
    assert plain.reply(900)["error"]["code"] == -32800


@pytest.mark.parametrize("other", ["900", True, 900.0, None, [900], 901])
def test_a_cancellation_with_another_id_or_type_cancels_nothing(plain: LspClient, other: Any) -> None:
    request = plain.request("sidecar/nap", {"seconds": 0.2}, request_id=900)
    plain.cancel(other)
    assert plain.reply(request)["result"] == {"rested": True}


def test_a_string_and_a_number_are_two_ids_and_zero_and_the_empty_string_are_ids(plain: LspClient) -> None:
    for request_id in (7, "7", 0, "", -1):
        plain.request("sidecar/nap", {"seconds": 0.1}, request_id=request_id)
    for request_id in ("", "7", 7, -1, 0):
        assert plain.reply(request_id)["result"] == {"rested": True}


def test_two_requests_with_the_same_id_get_one_reply_to_that_id(plain: LspClient) -> None:
    plain.request("sidecar/nap", {"seconds": 0.2}, request_id=5)
    plain.send({"jsonrpc": "2.0", "id": 5, "method": "sidecar/echo"})
    assert plain.error_without_id()["code"] == -32600
    assert plain.reply(5)["result"] == {"rested": True}
    plain.request("sidecar/echo", request_id=5)
    assert plain.reply(5)["result"] == {"echo": {}}


@pytest.mark.parametrize("request_id", [True, 1.5, None, {}])
def test_a_request_whose_id_is_none_is_refused(plain: LspClient, request_id: object) -> None:
    plain.send({"jsonrpc": "2.0", "id": request_id, "method": "sidecar/echo"})
    assert plain.error_without_id()["code"] == -32600
    assert plain.result("sidecar/echo") == {"echo": {}}


def test_an_operation_cancelled_from_inside_is_still_answered(plain: LspClient) -> None:
    assert plain.error("sidecar/cancelled/inside")["code"] == -32800
    assert plain.result("sidecar/echo") == {"echo": {}}


def test_many_requests_at_once_are_each_answered_with_their_own_result(plain: LspClient) -> None:
    requests = [plain.request("sidecar/echo", {"n": number}) for number in range(500)]
    for number, request in enumerate(requests):
        assert plain.reply(request)["result"] == {"echo": {"n": number}}


# standard features and notifications


def test_a_feature_gets_its_params_raw_once_they_fit(plain: LspClient) -> None:
    assert plain.result("textDocument/hover", {**HOVER, "unknownMember": {"a": 1}}) == {
        "contents": {"a": 1},
        "x": "file:///a.py",
    }


@pytest.mark.parametrize(
    "params", [None, [], {"textDocument": 3}, {"textDocument": {"uri": "x"}}, {**HOVER, "position": {"line": "a"}}]
)
def test_a_feature_with_params_that_do_not_fit_is_refused_naming_the_place(plain: LspClient, params: object) -> None:
    error = plain.error("textDocument/hover", params)
    assert error["code"] == -32602
    assert "textDocument/hover" in error["message"]


def test_document_notifications_arrive_raw_and_in_order_and_broken_ones_cause_no_pop_up(editor: LspClient) -> None:
    changes: list[tuple[str, dict[str, Any]]] = [
        ("textDocument/didOpen", {"textDocument": {"uri": "file:///a", "languageId": "x", "version": 1, "text": "é"}}),
        ("textDocument/didChange", {"textDocument": {"uri": "file:///a", "version": 20}, "contentChanges": [], "new": 1}),
        ("textDocument/didChange", {"textDocument": {"uri": "file:///never-opened", "version": 19}, "contentChanges": []}),
        ("textDocument/didSave", {"textDocument": {"uri": "file:///a"}}),
        ("workspace/didChangeConfiguration", {"settings": None}),
        ("workspace/didChangeWorkspaceFolders", {"event": {"added": [], "removed": []}}),
        ("textDocument/didClose", {"textDocument": {"uri": "file:///a"}}),
    ]
    for method, params in changes:
        editor.notify(method, params)
        editor.notify("test/broken", {})
        editor.notify(method, [1])
        editor.notify("test/unknown", {"a": 1})
        editor.notify("sidecar/echo", {"a": 1})
    editor.notify("$/setTrace", {"value": "verbose"})
    editor.notify("$/setTrace", {"value": 7})
    editor.notify("$/setTrace")
    told = editor.result("sidecar/told")["told"]
    assert [item for item in told if item[1]] == [[method, params] for method, params in changes]
    assert editor.unread() == []


# questions to the editor


def test_a_question_is_answered_by_an_offered_title_only(plain: LspClient) -> None:
    request = plain.request("sidecar/ask", {"type": "warning"})
    asked = plain.asked("window/showMessageRequest")
    assert asked["params"] == {
        "type": 2,
        "message": "Allow?",
        "actions": [{"title": "Reject"}, {"title": "7"}, {"title": "Allow once"}],
    }
    plain.answer(asked, {"title": "Allow once", "extra": 1})
    assert plain.reply(request)["result"] == {"picked": "Allow once"}


@pytest.mark.parametrize(
    "answer", [None, {"title": 7}, {"title": "allow once"}, {"title": ["7"]}, {}, "Allow once", [{"title": "7"}], 1]
)
def test_an_answer_that_names_nothing_offered_is_no_answer(plain: LspClient, answer: object) -> None:
    request = plain.request("sidecar/ask")
    plain.answer(plain.asked("window/showMessageRequest"), answer)
    assert plain.reply(request)["result"] == {"picked": None}


@pytest.mark.parametrize("error", [{"code": -32601, "message": "no"}, {}, "no", {"code": "x"}])
def test_an_error_reply_to_a_question_is_no_answer(plain: LspClient, error: object) -> None:
    request = plain.request("sidecar/ask")
    plain.answer(plain.asked("window/showMessageRequest"), error=error)
    assert plain.reply(request)["result"] == {"picked": None}


def test_replies_nobody_waits_for_are_ignored(editor: LspClient) -> None:
    for message in (
        {"id": 99, "result": {"title": "Allow once"}},
        {"id": "0", "result": 1},
        {"id": True, "result": 1},
        {"result": 1},
    ):
        editor.send({"jsonrpc": "2.0", **message})
    request = editor.request("sidecar/ask")
    asked = editor.asked("window/showMessageRequest")
    editor.send({"jsonrpc": "2.0", "id": asked["id"] + 1, "result": {"title": "Allow once"}})
    editor.answer(asked, {"title": "Reject"})
    editor.answer(asked, {"title": "Allow once"})
    assert editor.reply(request)["result"] == {"picked": "Reject"}


def test_a_question_whose_asker_is_cancelled_is_withdrawn(plain: LspClient) -> None:
    request = plain.request("sidecar/ask")
    asked = plain.asked("window/showMessageRequest")
    plain.cancel(request)
    assert plain.reply(request)["error"]["code"] == -32800
    assert plain.told("$/cancelRequest") == {"id": asked["id"]}
    plain.answer(asked, {"title": "Allow once"})
    assert plain.result("sidecar/echo") == {"echo": {}}


def test_a_request_without_an_answer_in_time_ends_as_a_timeout_and_a_late_answer_is_ignored(plain: LspClient) -> None:
    url = "https://example.com/a?b=%2F&c=é#d"
    request = plain.request("sidecar/request", {"call": "showDocument", "uri": url, "timeout": 0.2})
    asked = plain.asked("window/showDocument")
    assert asked["params"] == {"uri": url, "external": True}
    assert plain.reply(request)["result"] == {"outcome": "timeout", "result": None, "error": None}
    assert plain.told("$/cancelRequest") == {"id": asked["id"]}
    plain.answer(asked, {"success": True})
    assert plain.result("sidecar/echo") == {"echo": {}}


def test_an_edit_is_asked_for_and_its_answer_given_back_as_it_came(plain: LspClient) -> None:
    request = plain.request("sidecar/request", {"call": "applyEdit"})
    asked = plain.asked("workspace/applyEdit")
    assert asked["params"] == {"label": "an edit", "edit": {"changes": {}}}
    plain.answer(asked, {"applied": True, "odd": 1})
    assert plain.reply(request)["result"] == {"outcome": "result", "result": {"applied": True, "odd": 1}, "error": None}
    request = plain.request("sidecar/request", {"call": "applyEdit"})
    plain.answer(plain.asked("workspace/applyEdit"), error={"code": -1, "message": "no"})
    assert plain.reply(request)["result"] == {"outcome": "error", "result": None, "error": {"code": -1, "message": "no"}}


@pytest.mark.parametrize(
    ("answer", "expected"), [([{"agent": "demo"}], {"agent": "demo"}), ([None], None), ([], None), (None, None), ({}, None)]
)
def test_settings_are_pulled_where_the_editor_offers_it(answer: object, expected: object) -> None:
    with start() as client:
        client.initialize({"workspace": {"configuration": True}})
        request = client.request("sidecar/request", {"call": "configuration", "scope": "file:///w"})
        asked = client.asked("workspace/configuration")
        assert asked["params"] == {"items": [{"scopeUri": "file:///w", "section": "sidecar"}]}
        client.answer(asked, answer)
        assert client.reply(request)["result"] == expected


def test_settings_are_not_pulled_where_the_editor_does_not_offer_it(plain: LspClient) -> None:
    assert plain.result("sidecar/request", {"call": "configuration"}) is None


def test_a_progress_is_shown_cancelled_and_ended_once() -> None:
    with start() as client:
        client.initialize(PROGRESS)
        request = client.request("sidecar/progress")
        asked = client.asked("window/workDoneProgress/create")
        client.answer(asked)
        token = asked["params"]["token"]
        begin = {"kind": "begin", "title": "Working", "cancellable": True, "message": "step 1"}
        assert client.told("$/progress") == {"token": token, "value": begin}
        assert client.told("$/progress")["value"] == {"kind": "report", "message": "step 2", "percentage": 40}
        for other in (7, None, "sidecar-99", [token]):
            client.notify("window/workDoneProgress/cancel", {"token": other})
        client.notify("window/workDoneProgress/cancel", {"token": token})
        client.notify("window/workDoneProgress/cancel", {"token": token})
        assert client.told("$/progress")["value"] == {"kind": "end", "message": "stopped"}
        assert client.reply(request)["result"] == {"shown": True, "stopped": True}
        assert client.unread() == []


def test_no_progress_is_shown_where_the_editor_shows_none_or_refuses_it() -> None:
    with start() as client:
        client.initialize()
        assert client.result("sidecar/progress") == {"shown": False, "stopped": False}
    with start() as client:
        client.initialize(PROGRESS)
        request = client.request("sidecar/progress")
        client.answer(client.asked("window/workDoneProgress/create"), error={"code": -32601, "message": "no"})
        assert client.reply(request)["result"] == {"shown": False, "stopped": False}


# bytes


def test_junk_before_a_header_costs_nothing_else(plain: LspClient) -> None:
    plain.send_bytes(b"this is no header\n")
    assert plain.result("sidecar/echo") == {"echo": {}}
    plain.send_bytes(b"X-Other: 1\r\n\r\n\r\n\r\nContent-Length: -1\r\n\r\n\x00\xff\n")
    assert plain.result("sidecar/echo") == {"echo": {}}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"", -32700),
        (b"\xff\xfe", -32700),
        (b"[" * 5000, -32700),
        (b"[]", -32600),
        (b"7", -32600),
        (b"{}", -32600),
    ],
)
def test_a_body_that_is_no_message_is_told_and_the_next_one_is_taken(plain: LspClient, body: bytes, code: int) -> None:
    plain.send_bytes(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
    assert plain.error_without_id()["code"] == code
    assert plain.result("sidecar/echo") == {"echo": {}}


def test_headers_and_bodies_may_come_byte_by_byte(plain: LspClient) -> None:
    plain.expect_reply_to(900)
    data = b"content-length: 56\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n"
    body = b'{"method":"sidecar/echo","id":900,"params":{"a":"\xc3\xa9"}}'
    for byte in data.replace(b"56", b"%d" % len(body)) + body:
        plain.send_bytes(bytes([byte]))
    assert plain.reply(900)["result"] == {"echo": {"a": "é"}}


def test_a_message_above_the_limit_is_skipped_and_answered_by_its_id() -> None:
    with start("20000") as client:
        client.initialize()
        for request_id, message in (
            (41, {"jsonrpc": "2.0", "id": 41, "method": "sidecar/echo", "params": {"text": "x" * 30000}}),
            ("b", {"method": "sidecar/echo", "params": {"text": "x" * 30000, "id": 7}, "id": "b", "jsonrpc": "2.0"}),
        ):
            client.expect_reply_to(request_id)
            client.send(message)
            error = client.reply(request_id)["error"]
            assert error["code"] == -32600
            assert "limits.max_message_bytes is 20000" in error["message"]
        opened = {"textDocument": {"uri": "file:///a", "text": "x" * 30000}}
        client.notify("textDocument/didOpen", opened)
        assert client.told("window/logMessage")["type"] == 2
        assert client.result("sidecar/told")["told"] == [["skipped", "textDocument/didOpen"]]
        request = client.request("sidecar/request", {"call": "test/large"})
        client.answer(client.asked("test/large"), "x" * 30000)
        assert client.reply(request)["result"]["outcome"] == "error"
        client.send_bytes(frame("x" * 30000))
        assert client.error_without_id()["code"] == -32600


def test_nothing_printed_by_us_or_by_a_child_reaches_the_editor_and_no_child_eats_its_input(editor: LspClient) -> None:
    assert editor.result("sidecar/print") == {"child": 0}
    assert editor.result("sidecar/echo") == {"echo": {}}
    assert b"must not reach the editor" in editor.stderr


def test_what_is_written_is_ascii_whatever_stands_in_it(plain: LspClient) -> None:
    assert plain.result("sidecar/big", {"size": 3}) == {"text": "ééé"}


# an editor that does not read


def stall_of(editor: LspClient, *, deaf: float, size: int) -> float:
    """Ask for a big reply and fifty short naps, reading nothing for ``deaf`` seconds; return the server's longest stall."""
    editor.result("sidecar/told", {"reset": True})
    if deaf:
        editor.go_deaf()
    request = editor.request("sidecar/big", {"size": size})
    probes = [editor.request("sidecar/nap", {"seconds": 0.01}) for _ in range(50)]
    time.sleep(deaf)
    editor.hear()
    assert len(editor.reply(request)["result"]["text"]) == size
    for probe in probes:
        assert editor.reply(probe)["result"] == {"rested": True}
    return editor.result("sidecar/told")["stall"]


def test_a_deaf_editor_stops_nobody_and_loses_nothing(editor: LspClient) -> None:
    """A loop that waits for the editor stalls for the whole pause; how short the stall really is, the benchmarks measure."""
    assert stall_of(editor, deaf=DEAF_SECONDS, size=700_000) <= DEAF_SECONDS / 2  # 4.2 MB on the wire


def test_bulk_output_waits_for_a_deaf_editor_in_bounded_memory() -> None:
    with start("67108864", "ERROR") as client:
        client.initialize()
        client.go_deaf()
        request = client.request("sidecar/flood", {"count": 3000, "size": 20_000})
        time.sleep(DEAF_SECONDS)
        client.hear()
        assert client.reply(request, within=30)["result"]["most_queued"] <= 2 << 20
        assert [client.told("test/flood")["number"] for _ in range(3000)] == list(range(3000))
        assert client.result("sidecar/told")["stall"] <= DEAF_SECONDS / 2


# who the editor is


def test_before_initialize_only_initialize_is_answered(fresh: LspClient) -> None:
    assert fresh.error("sidecar/echo")["code"] == -32002
    assert fresh.error("textDocument/hover", HOVER)["code"] == -32002
    fresh.notify("textDocument/didOpen", {"textDocument": {}})
    assert fresh.error("shutdown")["code"] == -32002
    fresh.initialize()
    assert fresh.result("sidecar/told")["told"] == []


@pytest.mark.parametrize("params", [None, [], 3, {"capabilities": 3}, {"capabilities": []}])
def test_initialize_with_unusable_params_is_refused_and_may_be_sent_again(fresh: LspClient, params: object) -> None:
    if params is None:
        assert fresh.result("initialize", None)["serverInfo"]["name"] == "sidecar"
        return
    assert fresh.error("initialize", params)["code"] == -32602
    fresh.initialize()
    assert fresh.result("sidecar/echo") == {"echo": {}}


def test_initialize_survives_what_a_newer_editor_may_say(fresh: LspClient) -> None:
    result = fresh.initialize(
        {
            "textDocument": {"completion": {"completionItemKind": {"valueSet": [1, 99, "x"]}}, "new": 1},
            "workspace": {"symbol": {"symbolKind": {"valueSet": [400]}}, "workspaceEdit": {"failureHandling": "brandNew"}},
            "general": {"positionEncodings": ["utf-9", "utf-8"], "markdown": 7},
            "experimental": 7,
        },
        trace="everything",
        workspaceFolders=[{"uri": 7}],
        clientInfo={"name": "neo", "version": "1"},
        initializationOptions={"warm": True},
    )
    assert result["capabilities"]["experimental"]["sidecar"]["extra"] == {"warm": True}
    assert fresh.result("sidecar/whoami") == ["neo", "1", "utf-8", None, False, False, True]


def test_capabilities_list_what_the_application_offers(fresh: LspClient) -> None:
    capabilities = fresh.initialize()["capabilities"]
    assert capabilities["textDocumentSync"] == {"openClose": True, "change": 2, "save": {"includeText": False}}
    assert capabilities["completionProvider"] == {"triggerCharacters": ["/", "@"]}
    assert capabilities["codeActionProvider"] == {"codeActionKinds": ["quickfix"]}
    assert capabilities["hoverProvider"] is True
    assert {"sidecar.echo", "sidecar.deep.name.echo"} <= set(capabilities["executeCommandProvider"]["commands"])
    ours = capabilities["experimental"]["sidecar"]
    assert ours["protocol"] == [1]
    assert ours["version"] == "9.9.9"
    assert {"echo", "deep.name.echo"} <= set(ours["operations"])


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["utf-16", "utf-8"], "utf-8"),
        (["utf-8", "utf-32"], "utf-8"),
        (["utf-32", "utf-16"], "utf-16"),
        (["utf-32"], "utf-16"),
        (None, "utf-16"),
        ([], "utf-16"),
        (7, "utf-16"),
    ],
)
def test_utf_8_is_chosen_where_the_editor_offers_it(fresh: LspClient, offered: object, chosen: str) -> None:
    assert fresh.initialize({"general": {"positionEncodings": offered}})["capabilities"]["positionEncoding"] == chosen


def test_a_plugin_that_registers_commands_itself_finds_none_listed_and_can_still_call_them(fresh: LspClient) -> None:
    sidecar = {**PLUGIN["experimental"]["sidecar"], "commands": False, "questions": False}
    assert fresh.initialize({"experimental": {"sidecar": sidecar}})["capabilities"]["executeCommandProvider"] == {"commands": []}
    assert fresh.result("workspace/executeCommand", {"command": "sidecar.echo"}) == {"echo": {}}
    assert fresh.result("sidecar/whoami") == ["test/1", "", "utf-16", 1, True, False, False]


@pytest.mark.parametrize(
    ("protocol", "side"),
    [
        (2, "Update the sidecar: "),
        ([2, 3], "Update the sidecar: "),
        (0, "Update the sidecar's editor plugin"),
        ("1", "Update the sidecar's editor plugin"),
        (True, "Update the sidecar's editor plugin"),
    ],
)
def test_without_a_common_number_the_user_is_told_once_which_side_to_update(
    fresh: LspClient, protocol: object, side: str
) -> None:
    fresh.initialize({"experimental": {"sidecar": {**PLUGIN["experimental"]["sidecar"], "protocol": protocol}}})
    told = fresh.told("window/showMessage")
    assert told["type"] == 2
    assert told["message"].startswith(side)
    assert fresh.result("sidecar/whoami")[3:6] == [None, False, False]
    assert fresh.unread() == []


def test_a_plugin_may_offer_several_numbers(fresh: LspClient) -> None:
    fresh.initialize({"experimental": {"sidecar": {"protocol": [3, 1]}}})
    assert fresh.result("sidecar/whoami")[3:6] == [1, True, True]
    assert fresh.unread() == []


def test_an_application_that_refuses_to_initialize_says_why(fresh: LspClient) -> None:
    error = fresh.error("initialize", {"capabilities": {}, "initializationOptions": "refuse"})
    assert error == {"code": -32602, "message": "agent: no such agent"}
