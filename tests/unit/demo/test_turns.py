"""The demo agent as a real process: what it does on which words, over raw lines, every frame checked."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.demo import texts
from tests.peers.line_client import Message
from tests.unit.demo.client import FULL, DemoClient, choose, prompt_params

pytestmark = pytest.mark.process


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[DemoClient]:
    with DemoClient(tmp_path) as client:
        yield client


@pytest.fixture
def session(demo: DemoClient) -> str:
    demo.initialize()
    return demo.new_session()


def kinds(demo: DemoClient) -> list[str]:
    """Return the kinds of all updates and private events in order, and the methods of the others."""
    names: list[str] = []
    for message in demo.seen:
        if message.get("method") == "session/update":
            update = message["params"]["update"]
            names.append(update.get("_meta", {}).get("kiro", {}).get("kind") or update["sessionUpdate"])
        else:
            names.append(message.get("method", "reply"))
    return names


def test_a_new_session_tells_its_state_before_the_reply_and_the_model_afterwards(demo: DemoClient, session: str) -> None:
    demo.until(lambda message: "model" in json.dumps(message))
    names = kinds(demo)
    before = names[names.index("reply") + 1 :]
    assert before[:5] == [
        "_kiro/governance/state",
        "_kiro/mcp/status",
        "_kiro/tools/didChange",
        "_kiro/sessions/changed",
        "config_option_update",
    ]
    assert before[5:8] == ["reply", "available_commands_update", "context_usage"]
    options = [[option["id"] for option in update["configOptions"]] for update in demo.updates("config_option_update")]
    assert options == [["mode", "autopilot"], ["mode", "autopilot", "model"]]


def test_a_friendly_answer_streams_word_by_word_and_ends_in_the_order_of_the_real_agent(demo: DemoClient, session: str) -> None:
    assert demo.prompt(session, "good morning") == {"stopReason": "end_turn"}
    demo.until(lambda message: message.get("method") == "session/update")
    assert "You wrote: good morning" in demo.text()
    assert len(demo.updates("agent_message_chunk")) > 10
    names = kinds(demo)
    end = names.index("turn_completion")
    assert names[end : end + 5] == ["turn_completion", "_kiro/sessions/changed", "turn_end", "reply", "context_usage"]


def test_attachments_are_named_in_the_answer(demo: DemoClient, session: str) -> None:
    link: Message = {"type": "resource_link", "uri": "file:///ws/a.py", "name": "a.py"}
    resource: Message = {"type": "resource", "resource": {"uri": "file:///ws/b.py", "text": "b"}}
    params = prompt_params(session, "look")
    demo.ask("session/prompt", {**params, "prompt": [*params["prompt"], link, resource]})
    assert "resource_link: file:///ws/a.py" in demo.text()
    assert "resource: file:///ws/b.py" in demo.text()


def test_an_edit_shows_a_diff_asks_and_changes_the_file(demo: DemoClient, session: str) -> None:
    demo.prompt(session, "edit the first line")
    demo.prompt(session, "edit the second line")
    path = demo.workspace / "sidecar-demo.txt"
    assert path.read_text().splitlines()[1:] == ["1: the first line", "2: the second line"]
    first, second = demo.tools().values()
    assert [tool["status"] for tool in (first, second)] == ["completed", "completed"]
    assert first["content"][0]["path"] == path.as_uri()
    assert first["content"][0]["oldText"] == ""
    assert second["content"][0]["oldText"] == first["content"][0]["newText"]
    own = demo.asked[0]["params"]["_meta"]["kiro"]
    assert own["consent"]["capability"] == "fs_write"
    assert own["consent"]["resource"] == "sidecar-demo.txt"
    assert set(demo.asked[0]["params"]["toolCall"]) == {"toolCallId", "status", "title"}
    assert len(demo.infos("pending_interaction")) == len(demo.infos("interaction_resolved")) == 2


def test_a_denied_edit_leaves_the_file_alone(demo: DemoClient, session: str) -> None:
    demo.answers["session/request_permission"] = choose("reject")
    assert demo.prompt(session, "edit") == {"stopReason": "end_turn"}
    assert list(demo.workspace.iterdir()) == []
    (tool,) = demo.tools().values()
    assert tool["status"] == "failed"
    assert tool["_meta"]["kiro"]["failureReason"] == "denied"


def test_an_edit_through_a_link_out_of_the_workspace_fails(demo: DemoClient, session: str, tmp_path: Path) -> None:
    target = tmp_path / "outside.txt"
    target.write_text("untouched")
    (demo.workspace / "sidecar-demo.txt").symlink_to(target)
    demo.prompt(session, "edit")
    (tool,) = demo.tools().values()
    assert tool["status"] == "failed"
    assert target.read_text() == "untouched"
    assert demo.asked == []


def test_an_edit_uses_the_files_of_a_client_that_declared_them(demo: DemoClient) -> None:
    demo.initialize(FULL)
    written: list[Message] = []

    def write(request: Message) -> Message:
        written.append(request["params"])
        return {}

    demo.answers |= {
        "_kiro/terminal/shell_type": lambda _: {"shellType": "bash"},
        "fs/read_text_file": lambda _: {"content": "unsaved\n"},
        "fs/write_text_file": write,
    }
    demo.prompt(demo.new_session(), "edit more")
    assert [entry["content"] for entry in written] == ["unsaved\n1: more\n"]
    assert list(demo.workspace.iterdir()) == []


def test_a_big_diff_arrives_whole(demo: DemoClient, session: str) -> None:
    demo.prompt(session, "big diff")
    (tool,) = demo.tools().values()
    assert tool["content"][0]["newText"].count("\n") == 2000


def test_a_shell_line_is_asked_for_and_run_with_the_frames_of_the_real_agent(demo: DemoClient, session: str) -> None:
    demo.prompt(session, "run echo hello world")
    call, *updates = [*demo.updates("tool_call"), *demo.updates("tool_call_update")]
    assert (call["title"], call["status"], call["rawInput"]["command"]) == ("Run Command", "pending", "echo hello world")
    assert [update.get("status") for update in updates] == [None, "in_progress", "in_progress", "completed"]
    assert updates[0]["title"] == "echo hello world"
    assert json.loads(updates[-1]["content"][0]["content"]["text"]) == {"output": "hello world\n", "exitCode": 0}
    assert updates[-1]["rawOutput"]["output"] == "hello world\n"


def test_only_harmless_commands_run(demo: DemoClient, session: str) -> None:
    results = {
        "pwd": (f"{demo.workspace}\n", 0),
        "seq 3": ("1\n2\n3\n", 0),
        "echo a && false && echo b": ("a\n", 1),
        "ls": ("", 0),
        "rm -rf /": ("demo: no 'rm'", 127),
        "echo 'open": ("demo: No closing quotation", 2),
    }
    for line in results:
        demo.prompt(session, f"run {line}")
    outputs = [tool["rawOutput"] for tool in demo.tools().values()]
    for (line, (output, code)), raw in zip(results.items(), outputs, strict=True):
        assert raw["output"].startswith(output), line
        assert raw["exitCode"] == code, line


def test_a_shell_line_runs_in_the_terminal_of_a_client_that_declared_it(demo: DemoClient) -> None:
    demo.initialize(FULL)
    demo.answers |= {
        "_kiro/terminal/shell_type": lambda _: {"shellType": "bash"},
        "terminal/create": lambda _: {"terminalId": "term-1"},
        "terminal/wait_for_exit": lambda _: {"exitCode": 3},
        "terminal/output": lambda _: {"output": "from the terminal", "truncated": False},
        "terminal/release": lambda _: {},
    }
    demo.prompt(demo.new_session(), "run make test")
    methods = [request["method"] for request in demo.asked]
    assert methods[-4:] == ["terminal/create", "terminal/wait_for_exit", "terminal/output", "terminal/release"]
    created = demo.asked[-4]["params"]
    assert created["command"] == "make test"
    assert "args" not in created
    (tool,) = demo.tools().values()
    assert tool["content"] == [{"type": "terminal", "terminalId": "term-1"}]
    assert tool["rawOutput"] == {"output": "from the terminal", "exitCode": 3, "message": "exit code 3"}


def test_the_shell_type_is_not_asked_for_when_the_client_gave_it(demo: DemoClient) -> None:
    demo.initialize(FULL)
    demo.new_session(_meta={"kiro": {"shellType": "bash"}})
    assert demo.asked == []


def test_a_compound_line_asks_once_for_each_command(demo: DemoClient, session: str) -> None:
    demo.prompt(session, "run echo a && echo b; pwd")
    rounds = [(item["params"]["_meta"]["kiro"]["consentRound"], consent(item)["resource"]) for item in demo.asked]
    assert rounds == [(1, "echo a"), (2, "echo b"), (3, "pwd")]
    assert len({item["params"]["toolCall"]["toolCallId"] for item in demo.asked}) == 1


def consent(request: Message) -> Message:
    return request["params"]["_meta"]["kiro"]["consent"]


@pytest.mark.parametrize("place", ["result", "outcome"])
def test_an_answer_for_longer_is_kept_with_its_pattern_and_the_user_is_told(demo: DemoClient, session: str, place: str) -> None:
    metadata = {"kiro": {"consent": {"scope": "session", "resource": "echo *", "workspaceRoot": str(demo.workspace)}}}
    outcome: Message = {"outcome": "selected", "optionId": "always-accept"}
    reply: Message = {"outcome": outcome, "_meta": metadata} if place == "result" else {"outcome": {**outcome, "_meta": metadata}}
    demo.answers["session/request_permission"] = lambda _: reply
    demo.prompt(session, "run echo a")
    demo.prompt(session, "run echo b && echo c")
    assert len(demo.asked) == 1
    assert demo.notes() == ["Kept for this session: allow shell for 'echo *'"]
    rules = demo.ask("_kiro/permissions/list", {"sessionId": session})["rules"]
    assert rules == [{"capability": "shell", "resource": "echo *", "effect": "allow", "scope": "session"}]


def test_without_metadata_the_literal_is_kept_for_the_session(demo: DemoClient, session: str) -> None:
    demo.answers["session/request_permission"] = choose("always-accept")
    demo.prompt(session, "run echo a")
    demo.prompt(session, "run echo a")
    demo.prompt(session, "run echo b")
    assert len(demo.asked) == 2
    demo.prompt(demo.new_session(), "run echo a")
    assert len(demo.asked) == 3


def test_an_always_denied_line_is_never_asked_again(demo: DemoClient, session: str) -> None:
    demo.answers["session/request_permission"] = choose("always-reject", {"scope": "workspace", "resource": "echo *"})
    demo.prompt(session, "run echo a")
    other = demo.new_session()
    demo.prompt(other, "run echo b")
    assert len(demo.asked) == 1
    assert [tool["status"] for tool in demo.tools().values()] == ["failed", "failed"]


def test_a_workspace_rule_does_not_count_in_another_folder(demo: DemoClient, session: str, tmp_path: Path) -> None:
    demo.answers["session/request_permission"] = choose("always-accept", {"scope": "workspace", "resource": "*"})
    demo.prompt(session, "run echo a")
    demo.prompt(demo.new_session(), "run echo b")
    assert len(demo.asked) == 1
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    demo.prompt(demo.new_session(cwd=str(elsewhere)), "run echo c")
    assert len(demo.asked) == 2


def test_metadata_that_cannot_be_kept_counts_once_and_is_said(demo: DemoClient, session: str) -> None:
    wrong: list[Message] = [{"scope": "galaxy"}, {"workspaceRoot": "/"}, {"resource": ""}, {"resource": 7}]
    for metadata in wrong:
        demo.answers["session/request_permission"] = choose("always-accept", metadata)
        demo.prompt(session, "run echo a")
    assert len(demo.asked) == len(wrong)
    assert [tool["status"] for tool in demo.tools().values()] == ["completed"] * len(wrong)
    assert ["used once only" in note for note in demo.notes()] == [True] * len(wrong)


def test_a_pattern_that_covers_nothing_makes_it_ask_again_but_not_for_ever(demo: DemoClient, session: str) -> None:
    demo.answers["session/request_permission"] = choose("always-accept", {"scope": "session", "resource": "nothing"})
    assert demo.prompt(session, "run echo a") == {"stopReason": "end_turn"}
    assert [item["params"]["_meta"]["kiro"]["consentRound"] for item in demo.asked] == list(range(1, 9))
    (tool,) = demo.tools().values()
    assert tool["status"] == "failed"


def test_an_unusual_line_offers_no_rule_and_says_why(demo: DemoClient, session: str) -> None:
    demo.answers["session/request_permission"] = choose("accept")
    demo.prompt(session, "run echo $(id)")
    (request,) = demo.asked
    assert [option["kind"] for option in request["params"]["options"]] == ["allow_once", "reject_once"]
    assert consent(request)["persistableConsent"] is False
    assert "$" in consent(request)["persistableConsentReason"]


def test_an_option_that_was_not_offered_counts_as_a_denial(demo: DemoClient, session: str) -> None:
    demo.answers["session/request_permission"] = lambda _: {"outcome": {"outcome": "selected", "optionId": "yes-please"}}
    demo.prompt(session, "edit")
    assert list(demo.workspace.iterdir()) == []
    assert any("no option that was offered" in note for note in demo.notes())


def test_a_cancelled_question_cancels_the_turn(demo: DemoClient, session: str) -> None:
    demo.answers["session/request_permission"] = lambda _: {"outcome": {"outcome": "cancelled"}}
    assert demo.prompt(session, "edit") == {"stopReason": "cancelled"}
    (tool,) = demo.tools().values()
    assert (tool["status"], tool["_meta"]["kiro"]["failureReason"]) == ("failed", "cancelled")


def test_a_plan_is_worked_off_step_by_step(demo: DemoClient, session: str) -> None:
    demo.prompt(session, "plan")
    statuses = [[entry["status"] for entry in update["entries"]] for update in demo.updates("plan")]
    assert statuses[0] == ["in_progress", "pending", "pending"]
    assert statuses[-1] == ["completed"] * 3


def test_thoughts_come_apart_from_the_answer_and_can_be_switched_off(demo: DemoClient) -> None:
    demo.initialize(FULL)
    session = demo.new_session(_meta={"kiro": {"shellType": "bash"}})
    demo.prompt(session, "think")
    count = len(demo.updates("agent_thought_chunk"))
    assert count > 5
    demo.ask("session/set_config_option", {"sessionId": session, "configId": "thoughts", "type": "boolean", "value": False})
    demo.prompt(session, "think")
    assert len(demo.updates("agent_thought_chunk")) == count


def test_texts_arrive_whole(demo: DemoClient, session: str) -> None:
    for word in ("help", "markdown", "long"):
        demo.prompt(session, word)
    assert texts.HELP + texts.MARKDOWN in demo.text()
    assert demo.text().count("Paragraph ") == texts.LONG_PARAGRAPHS


def test_an_image_is_a_content_block_of_its_own(demo: DemoClient, session: str) -> None:
    demo.prompt(session, "image")
    (image,) = [update["content"] for update in demo.updates("agent_message_chunk") if update["content"]["type"] == "image"]
    assert image["mimeType"] == "image/png"


def test_a_failure_is_an_error_reply_after_everything_that_was_said(demo: DemoClient, session: str) -> None:
    error = demo.refusal("session/prompt", prompt_params(session, "fail"))
    assert error["code"] == -32603
    assert "because you asked" in error["message"]
    assert demo.text() == "This turn will end with an error.\n"
    assert demo.infos("display_error")[0]["message"] == error["message"]
    assert demo.prompt(session, "hello") == {"stopReason": "end_turn"}


def test_a_crash_ends_the_process_after_its_last_word(demo: DemoClient, session: str) -> None:
    demo.begin("session/prompt", prompt_params(session, "crash"))
    with pytest.raises(AssertionError, match="closed its output"):
        demo.pump(lambda: False)
    assert demo.process.wait(5) == 70
    assert demo.text() == "This was my last word.\n"


def test_the_modes_add_a_plan_or_a_thought(demo: DemoClient, session: str) -> None:
    demo.ask("session/set_mode", {"sessionId": session, "modeId": "plan"})
    assert demo.updates("current_mode_update")[-1] == {"sessionUpdate": "current_mode_update", "currentModeId": "plan"}
    demo.prompt(session, "hello")
    assert [entry["status"] for entry in demo.updates("plan")[-1]["entries"]] == ["completed"] * 3
    demo.ask("session/set_config_option", {"sessionId": session, "configId": "mode", "value": "spec"})
    demo.prompt(session, "hello")
    assert demo.updates("agent_thought_chunk")
    assert demo.refusal("session/set_mode", {"sessionId": session, "modeId": "nope"})["code"] == -32602


def test_a_form_a_page_and_a_choice_come_back_in_the_answer(demo: DemoClient) -> None:
    demo.initialize(FULL)
    session = demo.new_session(_meta={"kiro": {"shellType": "bash"}})
    demo.answers["elicitation/create"] = lambda request: (
        {"action": "accept", "content": {"colour": "green"}} if request["params"]["mode"] == "form" else {"action": "accept"}
    )
    demo.prompt(session, "ask me")
    demo.prompt(session, "ask url")
    form, page = (request["params"] for request in demo.asked)
    assert form["requestedSchema"]["required"] == ["colour"]
    assert "{'colour': 'green'}" in demo.text()
    completed = [message["params"] for message in demo.seen if message.get("method") == "elicitation/complete"]
    assert completed == [{"elicitationId": page["elicitationId"]}]


def test_without_forms_a_question_is_a_permission_request_with_equal_kinds(demo: DemoClient, session: str) -> None:
    demo.answers["session/request_permission"] = choose("blue")
    demo.prompt(session, "ask")
    assert {option["kind"] for option in demo.asked[0]["params"]["options"]} == {"allow_once"}
    assert "`blue`" in demo.text()


def test_the_tour_does_the_main_things(demo: DemoClient, session: str) -> None:
    demo.prompt(session, "tour")
    assert [tool["title"] for tool in demo.tools().values()] == [
        "Edit sidecar-demo.txt",
        "echo hello from the demo agent",
        "@demo-search/search",
    ]
    assert (demo.workspace / "sidecar-demo.txt").exists()
    assert [entry["status"] for entry in demo.updates("plan")[-1]["entries"]] == ["completed"] * 4
