"""The main job in a real Neovim by plain LSP alone: prompt, consent by its dialogs, URLs, cancel, reload, a lost agent."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.editors.neovim_world import (
    Neovim,
    assert_nothing_stays,
    processes_of,
    texts_of,
)
from tests.process.editor_world import PERMISSION, World, outcome_of, peer

pytestmark = [pytest.mark.editor, pytest.mark.process]

URL = "https://as.example/authorize?a=%2B%26%23&state=S3NT1NEL;$x&n='(1)'&e=%action"
CHANGED_FILE = "sidecar-demo.txt"
SHELL_CHOICES = ["Deny", "Allow", "Always allow", "Always deny"]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(
        tmp_path,
        {"kiro3": peer("tests.peers.kiro_v3", protocol="kiro-v3", report=tmp_path / "kiro.json", url=URL)},
    )


@pytest.fixture
def demo(world: World) -> Iterator[Neovim]:
    with Neovim(world, "demo") as editor:
        yield editor


def changed_file(editor: Neovim) -> Path:
    return editor.world.workspace / CHANGED_FILE


def tool_states(turn: dict[str, Any]) -> list[str]:
    return [part["toolCall"]["status"] for part in turn["parts"] if part["kind"] == "tool"]


def permission_to_run(command: str) -> dict[str, Any]:
    tool_call = {**PERMISSION["toolCall"], "toolCallId": command, "title": command, "rawInput": {"command": command}}
    return {**PERMISSION, "toolCall": tool_call}


def test_a_prompt_by_the_command_is_answered_and_its_progress_begins_and_ends(demo: Neovim) -> None:
    started = demo.command("prompt", text="hello there")
    assert demo.endings() == ["done"]
    assert "You wrote: hello there" in texts_of(demo.turn(started))
    begun = next(value for value in demo.value("job.progress") if value["kind"] == "begin" and value["title"] == "demo")
    assert begun["message"] == "hello there"
    assert begun["cancellable"] is True
    assert demo.value("job.messages") == []
    assert demo.value("job.asked") == []


def test_a_file_is_changed_only_after_the_change_was_allowed_in_the_dialog(demo: Neovim) -> None:
    started = demo.command("prompt", text="edit written by the test")
    dialog = demo.dialog()
    assert "written by the test" in dialog["prompt"]
    assert not changed_file(demo).exists()
    demo.choose("Allow")
    assert demo.endings() == ["done"]
    assert "written by the test" in changed_file(demo).read_text(encoding="utf-8")
    assert tool_states(demo.turn(started)) == ["completed"]


def test_a_change_that_was_refused_in_the_dialog_is_not_made(demo: Neovim) -> None:
    started = demo.command("prompt", text="edit written by the test")
    demo.dialog()
    demo.choose("Deny")
    assert demo.endings() == ["done"]
    turn = demo.turn(started)
    assert "was not changed" in texts_of(turn)
    assert not changed_file(demo).exists()
    assert tool_states(turn) == ["failed"]


def test_a_command_is_shown_whole_with_a_refusal_first(demo: Neovim) -> None:
    started = demo.command("prompt", text="run echo hello")
    dialog = demo.dialog()
    assert dialog["prompt"].startswith("demo asks for permission: echo hello")
    assert dialog["items"] == SHELL_CHOICES
    assert dialog["kind"] == "lsp_message"
    demo.choose("Allow")
    demo.endings()
    assert "ended well" in texts_of(demo.turn(started))


def test_a_dismissed_dialog_answers_nothing_and_the_question_can_be_asked_again(demo: Neovim) -> None:
    started = demo.command("prompt", text="edit written by the test")
    first = demo.dialog()
    demo.choose(None)
    demo.until("#job.messages > 0")
    assert "Undecided, and still waiting" in demo.value("job.messages")[-1]
    assert "sidecar.pending.ask asks again" in demo.value("job.messages")[-1]
    assert [question["kind"] for question in demo.command("pending.list")["pending"]] == ["permission"]
    demo.command("pending.ask")
    assert demo.dialog() == first
    demo.choose("Deny")
    demo.endings()
    assert "was not changed" in texts_of(demo.turn(started))


def test_two_questions_at_once_are_asked_one_after_the_other(world: World) -> None:
    with Neovim(world, "commanded") as editor:
        started: list[dict[str, str]] = []
        for command in ("first", "second"):
            session_id = editor.command("session.new")["sessionId"]
            text = f"ask {json.dumps(permission_to_run(command))}"
            started.append(editor.command("prompt", text=text, sessionId=session_id))
        editor.until_result("pending.list", "#(result.pending or {}) == 2")
        assert "asks for permission: first" in editor.dialog()["prompt"]
        editor.choose("Reject")
        assert "asks for permission: second" in editor.dialog()["prompt"]
        editor.choose("Allow once")
        editor.endings(2)
        outcomes = [outcome_of(editor.turn(each))["outcome"]["optionId"] for each in started]
        assert outcomes == ["no", "yes"]
        assert len(editor.value("job.asked")) == 2


def test_an_address_is_opened_byte_for_byte_and_only_after_the_user_said_so(world: World) -> None:
    with Neovim(world, "kiro3") as editor:
        started = editor.command("prompt", text="url")
        dialog = editor.dialog()
        assert "as.example" in dialog["prompt"]
        assert "S3NT1NEL" not in dialog["prompt"]
        assert dialog["items"] == ["Decline", "Open"]
        assert editor.value("job.opened") == []
        editor.choose("Open")
        editor.endings()
        assert editor.value("job.opened") == [URL]
        assert "Opened: True." in texts_of(editor.turn(started))
        assert "S3NT1NEL" not in json.dumps(editor.value("job.messages"))


def test_an_address_that_was_declined_is_not_opened_and_the_agent_is_told(world: World) -> None:
    with Neovim(world, "kiro3") as editor:
        started = editor.command("prompt", text="url")
        editor.dialog()
        editor.choose("Decline")
        editor.endings()
        assert editor.value("job.opened") == []
        assert "Opened: False." in texts_of(editor.turn(started))


def test_when_the_editor_cannot_open_an_address_the_user_can_and_its_file_is_gone_afterwards(world: World) -> None:
    with Neovim(world, "kiro3") as editor:
        editor.lua("vim.ui.open = function() return nil, 'no handler found' end")
        started = editor.command("prompt", text="url")
        editor.dialog()
        editor.choose("Open")
        dialog = editor.dialog()
        path = Path(dialog["prompt"].split("private file ")[1].split(" until")[0])
        assert path.read_text(encoding="utf-8") == URL + "\n"
        assert path.stat().st_mode & 0o777 == 0o600
        assert dialog["items"] == ["Not opened", "I opened it"]
        editor.choose("I opened it")
        editor.endings()
        assert "Opened: True." in texts_of(editor.turn(started))
        assert not path.exists()


def test_an_mcp_server_is_signed_in_on_the_act_of_the_user(world: World) -> None:
    with Neovim(world, "kiro3") as editor:
        editor.command("session.new")
        kiro = next(process for process in processes_of(world) if "tests.peers.kiro_v3" in process.cmdline())
        assert kiro.cmdline()[-3:] == ["acp", "--agent-engine=v3", "--auth-method=cli"]
        before = {server["name"]: server["status"] for server in editor.command("mcp.status")["servers"]}
        assert before == {"docs": "failed", "off": "disabled"}
        assert editor.value("job.asked") == []
        editor.command("mcp.authenticate", server="docs")
        assert "docs" in editor.dialog()["prompt"]
        editor.choose("Open")
        editor.until("#job.opened == 1")
        assert editor.value("job.opened") == [URL]
        editor.until_result("mcp.status", "result.servers and result.servers[1].status == 'connected'")
    assert_nothing_stays(world)
    report = json.loads((world.root / "kiro.json").read_text(encoding="utf-8"))
    assert not report["failures"], report["failures"]


def test_a_turn_is_cancelled_by_the_command(demo: Neovim) -> None:
    started = demo.command("prompt", text="slow")
    assert demo.command("cancel") == {"state": "cancelling"}
    assert demo.endings() == ["cancelled"]
    assert demo.turn(started)["stopReason"] == "cancelled"
    assert demo.command("cancel") == {"state": "idle"}


def test_a_turn_is_cancelled_by_its_progress(demo: Neovim) -> None:
    started = demo.command("prompt", text="slow")
    demo.until("vim.iter(job.progress):any(function(v) return v.title == 'demo' end)")
    demo.lua(
        "local begun = vim.iter(job.progress):find(function(v) return v.title == 'demo' end)\n"
        "job.client():notify('window/workDoneProgress/cancel', { token = begun.token })"
    )
    assert demo.endings() == ["cancelled"]
    assert demo.turn(started)["stopReason"] == "cancelled"


def test_a_dialog_of_a_cancelled_turn_can_be_answered_without_effect(demo: Neovim) -> None:
    demo.command("prompt", text="edit written by the test")
    demo.dialog()
    demo.command("cancel")
    assert demo.endings() == ["cancelled"]
    demo.choose("Allow")
    started = demo.command("prompt", text="hello again")
    assert demo.endings(2)[-1] == "done"
    assert "You wrote: hello again" in texts_of(demo.turn(started))
    assert not changed_file(demo).exists()
    assert demo.command("pending.list")["pending"] == []


def test_a_session_is_loaded_again_with_what_was_said(demo: Neovim) -> None:
    session_id = demo.command("prompt", text="hello there")["sessionId"]
    demo.endings()
    assert demo.command("session.load", sessionId=session_id) == {"sessionId": session_id, "history": "replayed"}
    turns = demo.command("session.state", sessionId=session_id)["turns"]
    assert [texts_of(turn, "user") for turn in turns if turn["origin"] == "replay"] == ["hello there"]
    assert "You wrote: hello there" in texts_of(turns[-1])


def test_a_session_of_an_earlier_neovim_is_found_and_loaded(world: World) -> None:
    with Neovim(world, "demo") as editor:
        session_id = editor.command("prompt", text="hello there")["sessionId"]
        editor.endings()
    assert_nothing_stays(world)
    with Neovim(world, "demo") as editor:
        listed = editor.command("session.list")["sessions"]
        assert session_id in [row["sessionId"] for row in listed]
        assert editor.command("session.load", sessionId=session_id) == {"sessionId": session_id, "history": "replayed"}
        turns = editor.command("session.state", sessionId=session_id)["turns"]
        assert "You wrote: hello there" in texts_of(turns[-1])


def test_an_agent_that_crashes_in_a_turn_is_told_and_the_next_prompt_has_a_new_one(demo: Neovim) -> None:
    started = demo.command("prompt", text="crash")
    assert demo.endings() == ["outcome unknown: the agent is gone"]
    demo.until("#job.messages > 0")
    told = demo.value("job.messages")
    assert len(told) == 1
    assert "exited with code 70" in told[0]
    assert "no prompt is sent a second time" in told[0]
    again = demo.command("prompt", text="hello again")
    assert demo.endings(2)[-1] == "done"
    assert again["sessionId"] == started["sessionId"]
    assert "You wrote: hello again" in texts_of(demo.turn(again))


@pytest.mark.parametrize("text", ["slow", "edit written by the test"])
def test_nothing_stays_when_the_user_quits_in_the_middle_of_a_turn(world: World, text: str) -> None:
    with Neovim(world, "demo") as editor:
        editor.command("prompt", text=text)
        editor.until("#job.progress > 0")
        assert len(processes_of(world)) >= 3  # the editor, the sidecar and the agent
        editor.quit()
        assert_nothing_stays(world)
    assert not (world.workspace / CHANGED_FILE).exists()


def test_nothing_stays_when_the_editor_is_killed(world: World) -> None:
    with Neovim(world, "demo") as editor:
        editor.command("prompt", text="slow")
        psutil.Process(editor.pid).kill()
        assert_nothing_stays(world)
