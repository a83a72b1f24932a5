"""The demo agent as a real process: cancelling, steering, sign-in, sessions that survive, and what it refuses."""

import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest

from tests.conftest import shared_path
from tests.peers.line_client import Message
from tests.unit.demo.client import FULL, OPENS_URLS, DemoClient, choose, parsed, prompt_params

pytestmark = pytest.mark.process

CHECKED_CHUNKS = 30
"""Text chunks are all alike, and checking one takes milliseconds."""


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[DemoClient]:
    with DemoClient(tmp_path) as client:
        yield client


@pytest.fixture
def session(demo: DemoClient) -> str:
    demo.initialize(OPENS_URLS)
    return demo.new_session()


def is_text(message: Message) -> bool:
    return message.get("method") == "session/update" and message["params"]["update"]["sessionUpdate"] == "agent_message_chunk"


def test_cancelling_ends_the_turn_as_cancelled_and_the_session_goes_on(demo: DemoClient, session: str) -> None:
    turn = demo.begin("session/prompt", prompt_params(session, "slow"))
    demo.until(is_text)
    demo.notify("session/cancel", {"sessionId": session})
    assert demo.finish(turn) == {"stopReason": "cancelled"}
    assert demo.prompt(session, "hello") == {"stopReason": "end_turn"}


def test_a_cancellation_right_behind_the_prompt_counts(demo: DemoClient, session: str) -> None:
    turn = demo.begin("session/prompt", prompt_params(session, "slow"))
    demo.notify("session/cancel", {"sessionId": session})
    assert demo.finish(turn) == {"stopReason": "cancelled"}


def test_withdrawing_the_prompt_request_cancels_its_turn(demo: DemoClient, session: str) -> None:
    turn = demo.begin("session/prompt", prompt_params(session, "slow"))
    demo.until(is_text)
    demo.notify("$/cancel_request", {"requestId": turn})
    assert demo.finish(turn) == {"stopReason": "cancelled"}


def test_cancelling_while_a_line_runs_closes_its_tool_call(demo: DemoClient, session: str) -> None:
    turn = demo.begin("session/prompt", prompt_params(session, "run sleep 60"))
    demo.until(lambda message: "in_progress" in str(message))
    demo.notify("session/cancel", {"sessionId": session})
    assert demo.finish(turn) == {"stopReason": "cancelled"}
    (tool,) = demo.tools().values()
    assert (tool["status"], tool["_meta"]["kiro"]["failureReason"]) == ("failed", "cancelled")


def test_cancelling_a_line_in_a_terminal_kills_and_releases_it(demo: DemoClient) -> None:
    demo.initialize(FULL)
    session = demo.new_session(_meta={"kiro": {"shellType": "bash"}})

    def never(request: Message) -> Message:
        demo.notify("session/cancel", {"sessionId": session})
        return {"exitCode": None, "signal": "SIGKILL"} if request["method"] == "terminal/kill" else {}

    demo.answers |= {
        "terminal/create": lambda _: {"terminalId": "t"},
        "terminal/kill": lambda _: {},
        "terminal/release": lambda _: {},
    }
    demo.answers["terminal/wait_for_exit"] = never
    demo.answers["terminal/output"] = lambda _: {"output": ""}
    turn = demo.begin("session/prompt", prompt_params(session, "run sleep 60"))
    assert demo.finish(turn) == {"stopReason": "cancelled"}
    assert "terminal/release" in [request["method"] for request in demo.asked]


def test_cancelling_an_idle_session_or_an_unknown_one_does_nothing(demo: DemoClient, session: str) -> None:
    demo.notify("session/cancel", {"sessionId": session})
    demo.notify("session/cancel", {"sessionId": "nobody"})
    demo.notify("session/cancel", {})
    assert demo.prompt(session, "hello") == {"stopReason": "end_turn"}


def test_a_second_prompt_aborts_the_first_and_both_are_answered(demo: DemoClient, session: str) -> None:
    first = demo.begin("session/prompt", prompt_params(session, "slow"))
    second = demo.begin("session/prompt", prompt_params(session, "hello"))
    assert demo.finish(first) == {"stopReason": "cancelled"}
    assert demo.finish(second) == {"stopReason": "end_turn"}


def test_turns_of_two_sessions_run_side_by_side(demo: DemoClient, session: str) -> None:
    other = demo.new_session()
    slow = demo.begin("session/prompt", prompt_params(session, "slow"))
    demo.until(is_text)
    assert demo.prompt(other, "hello") == {"stopReason": "end_turn"}
    assert slow not in demo.replied
    demo.notify("session/cancel", {"sessionId": session})
    assert demo.finish(slow) == {"stopReason": "cancelled"}


def test_steering_is_taken_up_within_the_turn(demo: DemoClient, session: str) -> None:
    turn = demo.begin("session/prompt", prompt_params(session, "slow"))
    demo.until(is_text)
    queued = demo.ask("_session/steer", {"sessionId": session, "message": "be brief", "messageId": "m-1"})
    assert queued == {"queued": True, "messageId": "m-1"}
    demo.until(lambda message: "steering_injected" in str(message))
    demo.notify("session/cancel", {"sessionId": session})
    demo.finish(turn)
    assert [entry["messageId"] for entry in demo.infos("steering_injected")] == ["m-1"]


def test_steering_that_is_cleared_or_comes_too_late_is_said(demo: DemoClient, session: str) -> None:
    turn = demo.begin("session/prompt", prompt_params(session, "run sleep 60"))
    demo.until(lambda message: "in_progress" in str(message))
    demo.ask("_session/steer", {"sessionId": session, "message": "one", "messageId": "m-1"})
    demo.ask("_session/steer", {"sessionId": session, "message": "two", "messageId": "m-2"})
    assert demo.ask("_session/steer/clear", {"sessionId": session}) == {"cleared": True, "messageIds": ["m-1", "m-2"]}
    demo.ask("_session/steer", {"sessionId": session, "message": "three", "messageId": "m-3"})
    demo.notify("session/cancel", {"sessionId": session})
    demo.finish(turn)
    assert [entry["messageIds"] for entry in demo.infos("steering_cleared")] == [["m-1", "m-2"], ["m-3"]]
    assert demo.ask("_session/steer", {"sessionId": session, "message": "late"}) == {"queued": False, "dropped": "epoch_changed"}
    assert demo.ask("_session/steer/clear", {"sessionId": session}) == {"cleared": True, "messageIds": []}


def test_a_server_that_wants_a_sign_in_fails_and_says_so(demo: DemoClient, session: str) -> None:
    demo.prompt(session, "sign in")
    (tool,) = demo.tools().values()
    assert tool["status"] == "failed"
    servers = demo.servers()
    assert (servers["demo-search"]["status"], servers["demo-search"]["failedAuthorization"]) == ("failed", True)
    assert (servers["demo-files"]["status"], servers["demo-off"]["status"]) == ("connected", "disabled")
    own = demo.asked[0]["params"]["_meta"]["kiro"]
    assert own["mcpTool"]["identity"] == {"serverName": "demo-search", "toolName": "search"}


def test_visiting_the_page_of_a_sign_in_connects_the_server(tmp_path: Path) -> None:
    with DemoClient(tmp_path, environment={"SIDECAR_DEMO_SIGN_IN_SECONDS": "30"}) as demo:
        demo.initialize(OPENS_URLS)
        session = demo.new_session()
        urls: list[str] = []

        def open_url(request: Message) -> Message:
            urls.append(request["params"]["url"])
            return {"success": True}

        demo.answers["_kiro/openExternalUrl"] = open_url
        assert demo.ask("_kiro/mcp/resetServer", {"serverName": "demo-search", "startOAuth": True}) == {"success": True}
        demo.pump(lambda: bool(urls))
        assert demo.servers()["demo-search"]["status"] == "connecting"
        with pytest.raises(urllib.error.HTTPError), urllib.request.urlopen(f"{urls[0]}x", timeout=5):
            pass
        with urllib.request.urlopen(urls[0], timeout=5) as page:
            assert b"signed in" in page.read()
        demo.pump(lambda: demo.servers()["demo-search"]["status"] == "connected")
        demo.prompt(session, "sign in")
        (tool,) = demo.tools().values()
        assert tool["status"] == "completed"


def test_a_sign_in_that_nobody_visits_goes_on_after_a_moment_and_says_so(demo: DemoClient, session: str) -> None:
    demo.answers["_kiro/openExternalUrl"] = lambda _: {"success": True}
    demo.ask("_kiro/mcp/resetServer", {"serverName": "demo-search", "startOAuth": True})
    demo.pump(lambda: demo.servers()["demo-search"]["status"] == "connected")
    assert any("Nobody visited" in note for note in demo.notes())
    tools = [message for message in demo.seen if message.get("method") == "_kiro/tools/didChange"]
    assert "@demo-search/search" in str(tools[-1]) or "@demo-search/search" in str(
        demo.until(lambda m: "tools/didChange" in str(m))
    )


def test_a_page_that_was_not_opened_leaves_the_server_failed(demo: DemoClient, session: str) -> None:
    demo.answers["_kiro/openExternalUrl"] = lambda _: {"success": False}
    demo.ask("_kiro/mcp/resetServer", {"serverName": "demo-search", "startOAuth": True})
    demo.pump(lambda: "not opened" in demo.servers()["demo-search"].get("errorMessage", ""))


def test_a_client_that_cannot_open_pages_is_told_in_the_snapshot(demo: DemoClient) -> None:
    demo.initialize()
    demo.new_session()
    demo.ask("_kiro/mcp/resetServer", {"serverName": "demo-search", "startOAuth": True})
    demo.pump(lambda: "cannot open" in demo.servers()["demo-search"].get("errorMessage", ""))


def test_resetting_another_server_is_a_result_without_success(demo: DemoClient, session: str) -> None:
    for name in ("demo-files", "nobody"):
        result = demo.ask("_kiro/mcp/resetServer", {"serverName": name, "startOAuth": True})
        assert result["success"] is False
        assert name in result["message"]


def test_servers_of_the_client_are_in_the_snapshot_of_its_session_only(demo: DemoClient, session: str) -> None:
    demo.new_session(mcpServers=[{"name": "mine", "command": "/bin/true", "args": [], "env": []}])
    assert "real MCP server" in demo.servers()["mine"]["errorMessage"]
    demo.new_session()
    assert "mine" not in demo.servers()


def test_a_session_survives_the_process_and_replays_what_happened(tmp_path: Path) -> None:
    with DemoClient(tmp_path) as demo:
        demo.initialize()
        session = demo.new_session()
        demo.prompt(session, "edit a line")
        said = demo.text()
    with DemoClient(tmp_path) as demo:
        demo.initialize()
        rows = demo.ask("session/list", {"cwd": str(demo.workspace)})["sessions"]
        assert [(row["sessionId"], row["title"]) for row in rows] == [(session, "edit a line")]
        assert demo.ask("session/list", {"cwd": "/elsewhere"})["sessions"] == []
        result = demo.ask("session/load", {"sessionId": session, "cwd": str(demo.workspace), "mcpServers": []})
        assert "sessionId" not in result
        assert demo.text() == said
        assert [update["content"]["text"] for update in demo.updates("user_message_chunk")] == ["edit a line"]
        replayed = [*demo.updates("user_message_chunk"), *demo.updates("agent_message_chunk"), *demo.updates("tool_call")]
        assert all(update["_meta"]["kiro"]["replay"] is True for update in replayed)
        (tool,) = demo.tools().values()
        assert tool["status"] == "completed"
        assert demo.prompt(session, "hello") == {"stopReason": "end_turn"}


def test_a_crash_in_a_turn_loses_nothing_that_was_said(tmp_path: Path) -> None:
    with DemoClient(tmp_path) as demo:
        demo.initialize()
        session = demo.new_session()
        demo.begin("session/prompt", prompt_params(session, "crash"))
        with pytest.raises(AssertionError, match="closed its output"):
            demo.pump(lambda: False)
        assert demo.process.wait(5) == 70
    with DemoClient(tmp_path) as demo:
        demo.initialize()
        demo.ask("session/load", {"sessionId": session, "cwd": str(demo.workspace), "mcpServers": []})
        assert demo.text() == "This was my last word.\n"


def test_an_interrupt_ends_the_process_without_a_traceback(demo: DemoClient, session: str) -> None:
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(5) == 130


def test_a_load_without_replay_sends_the_state_only(tmp_path: Path) -> None:
    with DemoClient(tmp_path) as demo:
        demo.initialize()
        session = demo.new_session()
        demo.prompt(session, "hello")
    with DemoClient(tmp_path) as demo:
        demo.initialize()
        params: Message = {
            "sessionId": session,
            "cwd": str(demo.workspace),
            "mcpServers": [],
            "_meta": {"kiro": {"noReplay": True}},
        }
        demo.ask("session/load", params)
        assert demo.text() == ""
        assert demo.servers()


def test_sessions_are_listed_in_pages_forked_renamed_exported_closed_and_deleted(demo: DemoClient, session: str) -> None:
    demo.prompt(session, "hello")
    fork = demo.ask("session/fork", {"sessionId": session, "cwd": str(demo.workspace), "mcpServers": []})["sessionId"]
    assert demo.ask("_kiro/session/rename", {"sessionId": fork, "title": "Another"}) == {"success": True}
    assert demo.refusal("_kiro/session/rename", {"sessionId": fork, "title": "x" * 81})["code"] == -32602
    titles = {row["sessionId"]: row["title"] for row in demo.ask("session/list", {})["sessions"]}
    assert titles == {session: "hello", fork: "Another"}
    export = demo.ask("_kiro/session/export", {"sessionId": fork})
    assert parsed(Path(export["filePath"]))["title"] == "Another"
    assert demo.ask("session/close", {"sessionId": fork}) == {}
    assert demo.refusal("session/prompt", prompt_params(fork, "hello"))["message"] == f"Session '{fork}' not found"
    assert demo.ask("session/delete", {"sessionId": fork}) == {}
    assert demo.ask("session/delete", {"sessionId": fork}) == {}
    assert [row["sessionId"] for row in demo.ask("session/list", {})["sessions"]] == [session]


def test_an_empty_session_cannot_be_forked(demo: DemoClient, session: str) -> None:
    error = demo.refusal("session/fork", {"sessionId": session, "cwd": str(demo.workspace), "mcpServers": []})
    assert error["message"] == "No effective messages to fork from"


def test_many_sessions_come_in_pages(demo: DemoClient) -> None:
    demo.initialize()
    opened = {demo.new_session() for _ in range(60)}
    first = demo.ask("session/list", {})
    second = demo.ask("session/list", {"cursor": first["nextCursor"]})
    assert (len(first["sessions"]), len(second["sessions"])) == (50, 10)
    assert "nextCursor" not in second
    assert {row["sessionId"] for row in [*first["sessions"], *second["sessions"]]} == opened
    assert demo.refusal("session/list", {"cursor": "*"})["code"] == -32602


def test_older_history_comes_page_by_page(demo: DemoClient, session: str) -> None:
    for text in ("one", "two", "three"):
        demo.prompt(session, text)
    last = [entry["userMessageId"] for entry in demo.infos("user_message_id_assigned")][-1]
    page = demo.ask("_kiro/session/history", {"sessionId": session, "beforeMessageId": last, "limit": 2})
    assert [update["sessionUpdate"] for update in page["updates"]] == ["user_message_chunk", "agent_message_chunk"]
    assert page["hasMore"] is True
    older = demo.ask("_kiro/session/history", {"sessionId": session, "beforeMessageId": page["oldestLoadedMessageId"]})
    assert older["updates"][0]["content"]["text"] == "one"
    assert older["hasMore"] is False


def test_compacting_replaces_the_history_by_a_summary(demo: DemoClient) -> None:
    demo.initialize(FULL)
    session = demo.new_session(_meta={"kiro": {"shellType": "bash"}})
    assert demo.ask("_kiro/session/compact", {"sessionId": session})["success"] is False
    demo.prompt(session, "hello")
    assert demo.ask("_kiro/session/compact", {"sessionId": session}) == {"success": True}
    assert [update["status"] for update in demo.updates("compaction_update")] == ["in_progress", "completed"]
    assert demo.infos("summarization_completed")


def test_initial_values_are_taken_where_they_exist(demo: DemoClient) -> None:
    demo.initialize()
    demo.new_session(_meta={"kiro": {"modeId": "plan", "modelId": "demo-deep", "effortLevel": "high"}})
    options = {option["id"]: option["currentValue"] for option in late_options(demo)}
    assert options == {"mode": "plan", "autopilot": "on", "model": "demo-deep", "effortLevel": "high"}
    demo.new_session(_meta={"kiro": {"modeId": "nope", "modelId": "nope"}})
    options = {option["id"]: option["currentValue"] for option in demo.updates("config_option_update")[-1]["configOptions"]}
    assert options == {"mode": "vibe", "autopilot": "on", "model": "demo-fast"}


def late_options(demo: DemoClient) -> list[Message]:
    """Return the options once the model is among them."""
    while True:
        options = demo.updates("config_option_update")[-1]["configOptions"]
        if any(option["id"] == "model" for option in options):
            return options
        demo.until(lambda message: "config_option_update" in str(message))


def test_an_unknown_method_gets_an_error_as_the_real_agent_gives_it(demo: DemoClient, session: str) -> None:
    codes = {
        "session/set_model": -32601,
        "session/resume": -32601,
        "invented": -32601,
        "_kiro.dev/commands/execute": -32603,
        "_kiro/invented": -32603,
    }
    for method, code in codes.items():
        error = demo.refusal(method, {"sessionId": session})
        assert error["code"] == code, method
        assert ("PersistenceClassification" in str(error)) is (code == -32603), method


def test_bad_params_get_an_error_that_names_the_field(demo: DemoClient) -> None:
    demo.initialize()
    cases: list[tuple[str, Any, int, str]] = [
        ("session/new", {"cwd": "relative", "mcpServers": []}, -32602, "'cwd'"),
        ("session/new", {"cwd": "/"}, -32602, "'mcpServers'"),
        ("session/new", None, -32602, "'cwd'"),
        ("session/load", {"sessionId": "sess_x", "cwd": "/", "mcpServers": []}, -32000, "'sess_x'"),
        ("session/prompt", {"sessionId": "nobody", "prompt": []}, -32000, "'nobody'"),
        ("session/prompt", {"sessionId": 7, "prompt": []}, -32602, "'sessionId'"),
        ("session/prompt", [1, 2], -32602, "'sessionId'"),
        ("session/set_config_option", {"sessionId": "nobody", "configId": "mode", "value": "plan"}, -32000, "'nobody'"),
        ("_session/steer", {}, -32602, "'sessionId'"),
        ("_kiro/mcp/resetServer", {}, -32602, "'serverName'"),
    ]
    for method, params, code, named in cases:
        error = demo.refusal(method, params)
        assert (error["code"], named in error["message"]) == (code, True), (method, params, error)


def test_lines_that_are_no_messages_do_no_harm(demo: DemoClient, session: str) -> None:
    assert demo.process.stdin is not None
    for line in (b"npm WARN\n", b"[1]\n", b'{"jsonrpc":"2.0","id":true,"result":{}}\n', b"\xff\xfe\n", b"[" * 5000 + b"\n"):
        demo.process.stdin.write(line)
    demo.process.stdin.flush()
    demo.pump(lambda: demo.prompt(session, "hello") == {"stopReason": "end_turn"})


def test_the_end_of_stdin_ends_the_process_in_the_middle_of_a_turn(demo: DemoClient, session: str) -> None:
    demo.begin("session/prompt", prompt_params(session, "slow"))
    demo.until(is_text)
    assert demo.process.stdin is not None
    demo.process.stdin.close()
    assert demo.process.wait(5) == 0


def test_everything_the_demo_sends_validates_against_the_schema(tmp_path: Path) -> None:
    schema = parsed(shared_path("acp", "v1", "schema.json"))
    with DemoClient(tmp_path) as demo:
        demo.answers["_kiro/openExternalUrl"] = lambda _: {"success": True}
        demo.answers["elicitation/create"] = lambda _: {"action": "decline"}
        demo.answers["session/request_permission"] = choose("accept")
        caps: Message = {**FULL, "fs": {}, "terminal": False}
        results = {"InitializeResponse": demo.initialize(caps)}
        results["NewSessionResponse"] = demo.ask("session/new", {"cwd": str(demo.workspace), "mcpServers": []})
        session = results["NewSessionResponse"]["sessionId"]
        for text in ("tour", "ask", "ask url", "image", "big diff", "markdown", "think", "plan", "run seq 3"):
            results["PromptResponse"] = demo.prompt(session, text)
        change: Message = {"sessionId": session, "configId": "model", "value": "demo-deep"}
        results["SetSessionConfigOptionResponse"] = demo.ask("session/set_config_option", change)
        results["SetSessionModeResponse"] = demo.ask("session/set_mode", {"sessionId": session, "modeId": "plan"})
        results["ListSessionsResponse"] = demo.ask("session/list", {})
        demo.ask("_kiro/session/compact", {"sessionId": session})
        results["LoadSessionResponse"] = demo.ask("session/load", {"sessionId": session, "cwd": "/", "mcpServers": []})
        demo.ask("_kiro/mcp/resetServer", {"serverName": "demo-search", "startOAuth": True})
        demo.pump(lambda: demo.servers()["demo-search"]["status"] == "connected")
    for name, result in results.items():
        validator(schema, name).validate(result)
    requests = {"session/request_permission": "RequestPermissionRequest", "elicitation/create": "CreateElicitationRequest"}
    notifications = {"session/update": "SessionNotification", "elicitation/complete": "CompleteElicitationNotification"}
    validators = {method: validator(schema, name) for method, name in (requests | notifications).items()}
    chunks = 0
    checked: set[str] = set()
    for message in demo.seen:
        chunks += is_text(message)
        if message.get("method") in validators and not (is_text(message) and chunks > CHECKED_CHUNKS):
            validators[message["method"]].validate(message["params"])
            checked.add(message["method"])
    assert checked == set(validators) - {"elicitation/complete"}


def validator(schema: Message, name: str) -> Any:
    """Return a validator of the type ``name``."""
    return cast("Any", jsonschema.Draft202012Validator)({"$defs": schema["$defs"], "$ref": f"#/$defs/{name}"})
