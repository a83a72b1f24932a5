"""The scripted agents themselves: they fail on what they did not want, and behave as their words say."""

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest

from tests.conftest import REPOSITORY
from tests.peers import faults
from tests.peers.kiro_turns import TURNS
from tests.peers.kiro_v2 import KiroV2
from tests.peers.kiro_v3 import CAPTURED_METHODS, KiroV3, kiro_v3, refuse_arguments
from tests.peers.memory import in_memory, until_done
from tests.peers.plain import PlainAgent, PlainOptions
from tests.peers.scripted import (
    Message,
    ScriptedAgent,
    close,
    expect,
    leave,
    member,
    reply,
    send,
    send_raw,
    wait_for_reply,
)


def feed(agent: ScriptedAgent, *messages: Message) -> list[Message]:
    """Feed messages and return what the agent sent because of them."""
    before = len(agent.sent)
    agent.feed(b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in messages))
    return agent.sent[before:]


def call(method: str, params: Any = None, request_id: Any = 1) -> Message:
    return {"id": request_id, "method": method, "params": params or {}}


def updates(sent: list[Message]) -> list[str]:
    """Return the kinds of updates in ``sent``, private ones by their own kind, other messages by their method."""
    names: list[str] = []
    for message in sent:
        update: Message = member(message, "params", "update") or {}
        kind = member(update, "_meta", "kiro", "kind")
        names.append(kind or update.get("sessionUpdate") or message.get("method") or "reply")
    return names


def test_steps_are_played_in_order_and_what_they_wanted_is_no_problem() -> None:
    agent = ScriptedAgent(
        steps=[
            expect("initialize", {"protocolVersion": 1}),
            reply("initialize", {"protocolVersion": 1}),
            send({"jsonrpc": "2.0", "id": 0, "method": "ask/something", "params": {}}),
            wait_for_reply(0, lambda message: message["result"] == "yes"),
            send_raw(b"noise\n"),
            close(),
            leave(3),
        ]
    )
    raw: list[bytes] = []
    agent.attach(raw.append)
    feed(agent, call("initialize", {"protocolVersion": 1}))
    assert agent.done is False
    feed(agent, {"id": 0, "result": "yes"})
    assert (agent.done, agent.closed, agent.exit_code, raw[-1]) == (True, True, 3, b"noise\n")
    agent.finish()


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        ([call("other")], "never read"),
        ([call("initialize", {"protocolVersion": 2})], "protocolVersion is 2, not 1"),
        ([call("initialize", {"protocolVersion": 1}), {"id": "0", "result": "yes"}], "unexpected"),
        ([call("initialize", {"protocolVersion": 1}), {"id": 0, "result": "no"}], "failed"),
        ([call("initialize", {"protocolVersion": 1})], "still waiting for a reply to id 0"),
        ([call("initialize", {"protocolVersion": 1}), {"id": 0, "result": "yes"}, call("more")], "unexpected"),
    ],
)
def test_finish_fails_on_unread_unexpected_or_wrong_messages(messages: list[Message], complaint: str) -> None:
    agent = ScriptedAgent(
        steps=[
            expect("initialize", {"protocolVersion": 1}),
            send({"jsonrpc": "2.0", "id": 0, "method": "ask/something", "params": {}}),
            wait_for_reply(0, lambda message: message["result"] == "yes"),
        ]
    )
    feed(agent, *messages)
    with pytest.raises(AssertionError, match=complaint):
        agent.finish()


def test_a_message_that_comes_early_waits_until_its_step() -> None:
    agent = ScriptedAgent(steps=[expect("first"), expect("second")])
    feed(agent, {"method": "second"}, {"method": "first"})
    agent.finish()


def test_bytes_that_are_no_message_or_no_whole_line_are_a_failure() -> None:
    agent = ScriptedAgent()
    agent.feed(b'Content-Length: 3\n{"x":')
    with pytest.raises(AssertionError, match="ended inside a line") as failure:
        agent.finish()
    assert "no message" in str(failure.value)


@pytest.mark.anyio
async def test_in_memory_the_client_gets_a_stream_and_the_script_is_waited_for() -> None:
    agent = ScriptedAgent(steps=[expect("initialize"), reply("initialize", {"protocolVersion": 1}), expect("bye")])
    async with in_memory(agent) as stream:
        stream.write(b'{"jsonrpc":"2.0","id":7,"method":"initialize","params":{}}\n')
        assert json.loads(await stream.receive()) == {"jsonrpc": "2.0", "id": 7, "result": {"protocolVersion": 1}}
        stream.write(b'{"jsonrpc":"2.0","method":"bye"}\n')
        await until_done(agent)
    agent.finish()


def started(**options: Any) -> tuple[KiroV3, str, list[Message]]:
    """Return a Kiro with one session, its id, and what it sent for it."""
    agent = kiro_v3(**options)
    feed(agent, call("initialize", {"protocolVersion": 1, "clientCapabilities": {}}))
    sent = feed(agent, call("session/new", {"cwd": "/ws", "mcpServers": []}))
    return agent, next(iter(agent.folders)), sent


def test_kiro_sends_the_state_of_a_new_session_before_its_reply_and_more_after() -> None:
    _, _, sent = started()
    assert updates(sent) == [
        "_kiro/governance/state",
        "_kiro/mcp/status",
        "_kiro/powers/items_changed",
        "_kiro/steering/documents_changed",
        "_kiro/progressive_context/items_changed",
        "_kiro/tools/didChange",
        "_kiro/sessions/changed",
        "config_option_update",
        "reply",
        "available_commands_update",
        "context_usage",
        "config_option_update",
    ]


def test_kiro_asks_for_a_token_before_the_reply_to_initialize() -> None:
    agent = kiro_v3(token_before_initialize=True)
    sent = feed(agent, call("initialize", {}, 0))
    assert [(message["id"], message["method"]) for message in sent] == [(0, "_kiro/auth/getAccessToken")]
    sent = feed(agent, {"id": 0, "error": {"code": -32601, "message": "no"}})
    assert sent[0]["result"]["agentCapabilities"]["_meta"]["kiro"]["extensionMethods"] == list(CAPTURED_METHODS)


def test_kiro_asks_for_the_shell_type_only_of_clients_with_terminals() -> None:
    agent = kiro_v3()
    feed(agent, call("initialize", {"clientCapabilities": {"terminal": True}}))
    (asked,) = feed(agent, call("session/new", {"cwd": "/ws", "mcpServers": []}))
    assert asked["method"] == "_kiro/terminal/shell_type"
    assert "reply" in updates(feed(agent, {"id": asked["id"], "result": {"shellType": "bash"}}))


def prompt(session_id: str, text: str, request_id: int = 9) -> Message:
    return call("session/prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]}, request_id)


def select_option(option: str, request: Message) -> Message:
    return {"id": request["id"], "result": {"outcome": {"outcome": "selected", "optionId": option}}}


def test_a_shell_turn_of_kiro_has_the_frames_of_the_trace() -> None:
    agent, session, _ = started()
    *before, question = feed(agent, prompt(session, "shell echo hello"))
    assert updates(before)[2:] == ["tool_call", "tool_call_update", "pending_interaction"]
    assert question["params"]["toolCall"] == {"toolCallId": "run_command_00000004", "status": "pending", "title": "echo hello"}
    sent = feed(agent, select_option("accept", question))
    assert updates(sent) == [
        "interaction_resolved",
        "tool_call_update",
        "tool_call_update",
        "tool_call_update",
        "agent_message_chunk",
        "turn_completion",
        "_kiro/sessions/changed",
        "turn_end",
        "reply",
        "context_usage",
    ]
    assert json.loads(sent[3]["params"]["update"]["content"][0]["content"]["text"]) == {"output": "hello\n", "exitCode": 0}
    agent.finish()


@pytest.mark.parametrize("order", ["answer first", "cancel first"])
def test_cancelling_a_turn_that_asks_works_in_either_order(order: str) -> None:
    agent, session, _ = started()
    question = feed(agent, prompt(session, "shell"))[-1]
    answer = {"id": question["id"], "result": {"outcome": {"outcome": "cancelled"}}}
    cancel: Message = {"method": "session/cancel", "params": {"sessionId": session}}
    sent = feed(agent, *([answer, cancel] if order == "answer first" else [cancel, answer]))
    assert next(message["result"] for message in sent if message.get("id") == 9) == {"stopReason": "cancelled"}
    agent.finish()


def test_an_option_that_was_not_offered_and_an_idle_cancel_are_failures() -> None:
    agent, session, _ = started()
    feed(agent, {"method": "session/cancel", "params": {"sessionId": session}})
    question = feed(agent, prompt(session, "mcp"))[-1]
    feed(agent, select_option("always-accept", question))
    with pytest.raises(AssertionError, match="was not offered") as failure:
        agent.finish()
    assert "which is idle" in str(failure.value)


def test_turns_of_two_sessions_wait_for_their_own_cancellation() -> None:
    agent, first, _ = started()
    feed(agent, call("session/new", {"cwd": "/ws", "mcpServers": []}))
    second = next(session for session in agent.folders if session != first)
    feed(agent, prompt(first, "silent", 11), prompt(second, "silent", 12))
    sent = feed(agent, {"method": "session/cancel", "params": {"sessionId": second}})
    assert [message["id"] for message in sent if "result" in message] == [12]
    sent = feed(agent, {"method": "session/cancel", "params": {"sessionId": first}})
    assert [message["id"] for message in sent if "result" in message] == [11]
    agent.finish()


def test_every_turn_of_kiro_comes_to_its_end() -> None:
    agent, session, _ = started()
    answers: dict[str, Callable[[Message], Message]] = {
        "session/request_permission": lambda request: select_option(request["params"]["options"][0]["optionId"], request),
        "_kiro/openExternalUrl": lambda request: {"id": request["id"], "result": {"success": True}},
    }
    for number, name in enumerate(sorted(set(TURNS) - {"crash"}), 100):
        sent = feed(agent, prompt(session, f"{name} rest", number))
        if name in {"silent", "deaf"}:
            sent += feed(agent, {"method": "session/cancel", "params": {"sessionId": session}})
        while not any(message.get("id") == number for message in sent if "method" not in message):
            open_requests = [message for message in sent if "id" in message and "method" in message]
            if open_requests:
                request = open_requests[-1]
                refusal: Message = {"id": request["id"], "error": {"code": -32601, "message": "no"}}
                answer = answers.get(request["method"])
                sent = feed(agent, answer(request) if answer else refusal)
            else:
                before = len(agent.sent)
                agent.signal("reply")
                sent = agent.sent[before:]
    agent.finish()


def test_loads_can_replay_with_and_without_marks_fail_or_never_end() -> None:
    load = call("session/load", {"sessionId": "sess_1", "cwd": "/ws", "mcpServers": []}, 5)
    marked = feed(kiro_v3(), load)
    assert [member(message, "params", "update", "_meta", "kiro", "replay") for message in marked[8:12]] == [True] * 4
    unmarked = feed(kiro_v3(remote=True), load)
    assert updates(unmarked)[8:12] == ["user_message_chunk", "tool_call", "tool_call_update", "agent_message_chunk"]
    assert "replay" not in json.dumps(unmarked)
    assert feed(kiro_v3(load="never"), load) == []
    assert feed(kiro_v3(load="error"), load)[0]["error"]["message"] == "Session 'sess_1' not found"


def test_an_unknown_private_method_gets_the_assertion_of_the_real_agent() -> None:
    agent, _, _ = started(works=())
    error = feed(agent, call("_kiro/mcp/resetServer", {"serverName": "docs"}))[0]["error"]
    assert error["code"] == -32603
    assert "PersistenceClassification" in error["data"]["details"]
    assert feed(agent, call("session/set_model"))[0]["error"]["code"] == -32601
    assert [request["method"] for request in agent.refused] == ["_kiro/mcp/resetServer", "session/set_model"]


def test_a_sign_in_asks_to_open_the_fresh_url_and_sends_a_new_snapshot() -> None:
    agent, _, _ = started()
    sent = feed(agent, call("_kiro/mcp/resetServer", {"serverName": "docs", "startOAuth": True}))
    assert sent[0]["result"] == {"success": True}
    assert sent[1]["params"] == {"url": agent.options.url}
    (snapshot,) = feed(agent, {"id": sent[1]["id"], "result": {"success": True}})
    assert snapshot["params"]["servers"][0]["status"] == "connected"


def test_flags_of_the_old_generation_are_refused_in_the_words_of_the_real_one() -> None:
    assert refuse_arguments(["acp", "--agent-engine=v3", "--auth-method=cli"]) is None
    problem = refuse_arguments(["acp", "--agent-engine=v3", "--agent", "x", "--model=y"])
    assert problem is not None
    assert problem.startswith("error: the following arguments are not supported with --agent-engine=v3: --agent, --model\n")


def test_the_old_generation_has_no_marker_and_no_list() -> None:
    agent = KiroV2()
    result = feed(agent, call("initialize"))[0]["result"]
    assert "_meta" not in result["agentCapabilities"]
    session = feed(agent, call("session/new", {"cwd": "/", "mcpServers": []}))[1]["result"]["sessionId"]
    question = feed(agent, prompt(session, "shell"))[-1]
    assert feed(agent, select_option("allow_once", question))[-1]["result"] == {"stopReason": "end_turn"}
    assert feed(agent, call("session/list"))[0]["error"]["code"] == -32601
    agent.finish()


def test_a_plain_agent_shows_its_variations() -> None:
    agent = PlainAgent(PlainOptions(config_options=True, string_ids=True, auth="agent", update_before_reply=True))
    feed(agent, call("initialize", {"clientCapabilities": {}}))
    assert feed(agent, call("session/new", {"cwd": "/", "mcpServers": []}))[0]["error"]["code"] == -32000
    feed(agent, call("authenticate", {"methodId": "key"}))
    early, opened = feed(agent, call("session/new", {"cwd": "/", "mcpServers": []}))
    assert early["params"]["sessionId"] == opened["result"]["sessionId"] == "0"
    assert [option["id"] for option in opened["result"]["configOptions"]] == ["mode", "model", "future"]
    question = feed(agent, prompt("0", "permission"))[-1]
    assert question["id"] == "srv_0000"
    assert feed(agent, select_option("proceed_always_tool", question))[-1]["result"] == {"stopReason": "end_turn"}
    for word in ("form", "url"):
        asked = feed(agent, prompt("0", word))[-1]
        assert asked["params"]["mode"] == word
        feed(agent, {"id": asked["id"], "result": {"action": "accept"}})
    agent.finish()


class Process:
    """A peer as a real process."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=REPOSITORY,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.complaints = bytearray()
        self._drain = threading.Thread(target=self._read_stderr)
        self._drain.start()

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        while block := os.read(self.process.stderr.fileno(), 1 << 20):
            self.complaints += block

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._drain.join(5)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def write(self, *messages: Message) -> None:
        assert self.process.stdin is not None
        for message in messages:
            self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def read_until(self, piece: bytes, seconds: float = 20) -> bytes:
        """Read stdout until ``piece`` is in it or it ends; return everything read."""
        assert self.process.stdout is not None
        data = b""
        deadline = time.monotonic() + seconds
        while piece not in data[-1_000_000:]:
            assert select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))[0], data[-1000:]
            block = os.read(self.process.stdout.fileno(), 1 << 20)
            if not block:
                return data
            data += block
        return data


OPENING = (call("initialize", {}, 0), call("session/new", {"cwd": "/", "mcpServers": []}, 1), prompt("s-1", "hello", 2))
ENDS_OR_HOLDS = {
    "endless_line",
    "prompt_unanswered",
    "stops_reading",
    "closes_stdout_in_turn",
    "exit_in_turn",
    "kill_in_turn",
    "half_in_turn",
    "repeated_id",
    "id_as_string",
    "result_and_error",
}


@pytest.mark.process
@pytest.mark.parametrize("name", sorted(set(faults.AT_PROMPT) - ENDS_OR_HOLDS))
def test_a_fault_in_a_turn_is_followed_by_a_good_answer(name: str) -> None:
    amount = {"flood": "2", "long_line": "2"}.get(name, "0")
    with Process("tests.peers.faults", name, amount) as peer:
        peer.write(*OPENING)
        assert b'"alive"' in peer.read_until(b'"id": 2, "result": {"stopReason": "end_turn"}')


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "code"), [("exit_at_once", 7), ("half_then_exit", 0), ("exit_in_turn", 9), ("kill_in_turn", -9), ("half_in_turn", 0)]
)
def test_a_fault_that_ends_the_process_ends_it_with_its_code(name: str, code: int) -> None:
    with Process("tests.peers.faults", name) as peer:
        try:
            peer.write(*OPENING)
        except BrokenPipeError:
            assert name in faults.AT_START
        assert peer.process.wait(10) == code


@pytest.mark.process
def test_a_name_that_is_no_fault_lists_them() -> None:
    with Process("tests.peers.faults", "nothing") as peer:
        assert peer.process.wait(10) == 2
    assert b"exit_at_once" in peer.complaints


@pytest.mark.process
def test_a_scripted_agent_as_a_process_reports_what_it_received(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    options = json.dumps({"sign_in": "connected"})
    environment = {"SIDECAR_PEER_REPORT": str(report), "SIDECAR_PEER_OPTIONS": options}
    arguments = ("tests.peers.kiro_v3", "acp", "--agent-engine=v3", "--auth-method=cli")
    with Process(*arguments, **environment) as peer:
        peer.write(call("initialize", {}, 0), {"id": 99, "result": "nobody asked"})
        peer.read_until(b'"protocolVersion":1')
        assert peer.process.stdin is not None
        peer.process.stdin.close()
        assert peer.process.wait(10) == 98
    written = json.loads(report.read_bytes())
    assert [message.get("method") for message in written["received"]] == ["initialize", None]
    assert written["unexpected"] == [{"jsonrpc": "2.0", "id": 99, "result": "nobody asked"}]
    assert written["argv"][1:] == ["acp", "--agent-engine=v3", "--auth-method=cli"]


@pytest.mark.process
def test_a_login_run_of_the_plain_agent_signs_in_the_next_process(tmp_path: Path) -> None:
    options = json.dumps({"auth": "terminal", "login_file": str(tmp_path / "login")})
    with Process("tests.peers.plain", "login", SIDECAR_PEER_OPTIONS=options) as login:
        assert login.process.wait(10) == 0
    with Process("tests.peers.plain", SIDECAR_PEER_OPTIONS=options) as peer:
        peer.write(call("initialize", {"clientCapabilities": {"auth": {"terminal": True}}}, 0), OPENING[1])
        assert b'"type":"terminal"' in peer.read_until(b'"sessionId":"0"')
