"""Terminals in the flow of a session: leave of the user, what agents really send, what is shown."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.flows.harness import bench
from tests.flows.terminal_agent import TerminalAgent, terminal_agent
from tests.peers.kiro_v3 import kiro_v3
from tests.peers.scripted import member

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="POSIX commands")]

OPTIONS = [
    {"optionId": "once", "name": "Allow", "kind": "allow_once"},
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


async def running(agent: TerminalAgent) -> None:
    """Begin a turn that runs until the signal "reply"."""
    await agent.bench.prompt(agent.actor, "late")
    await agent.bench.until(lambda: agent.actor.state.running_turn is not None, agent.actor)


async def permit(agent: TerminalAgent, option: str, call: str = "call-1", **tool_call: Any) -> None:
    """Have the agent ask for a permission of its own, and answer it."""
    asked = {"toolCallId": call, "title": "Shell", "kind": "execute", "status": "pending", **tool_call}
    request_id = agent.ask("session/request_permission", toolCall=asked, options=OPTIONS)
    await agent.answer(option)
    await agent.reply(request_id)


async def runs_unasked(agent: TerminalAgent, command: str, args: list[str] | None = None, **more: Any) -> bool:
    """Whether a command runs without a question; one that asks is rejected."""
    request_id = agent.ask("terminal/create", command=command, **({} if args is None else {"args": args}), **more)
    await agent.bench.until(lambda: agent.replied(request_id) or bool(agent.bench.workspace.broker.pending()))
    if agent.bench.workspace.broker.pending():
        await agent.answer("reject-once")
        assert "not run" in (await agent.reply(request_id))["error"]["message"]
        return False
    await agent.ended(str(member(await agent.reply(request_id), "result", "terminalId")))
    return True


# --- the main road ------------------------------------------------------------------------------------------------------------


async def test_a_shell_turn_of_kiro_runs_the_line_the_user_allowed_and_is_asked_about_once(tmp_path: Path) -> None:
    async with terminal_agent(tmp_path) as agent:
        turn_id = await agent.bench.prompt(agent.actor, "shell echo a; pwd")
        await agent.answer("accept")
        turn = await agent.bench.turn(agent.actor, turn_id)
        call = next(part["toolCall"] for part in turn["parts"] if part["kind"] == "tool")
        assert call["rawOutput"]["output"] == f"a\n{tmp_path}\n"
        (view,) = agent.actor.state.to_json()["terminals"]
        assert (view["command"], view["output"], view["released"]) == ("echo a; pwd", f"a\n{tmp_path}\n", True)
        assert view["exitStatus"] == {"exitCode": 0, "signal": None}


async def test_a_line_the_user_rejects_is_never_run(tmp_path: Path) -> None:
    async with terminal_agent(tmp_path) as agent:
        await agent.bench.prompt(agent.actor, f"shell touch {tmp_path}/made")
        await agent.answer("reject")
        assert not agent.bench.agent.calls("terminal/create")
        assert not (tmp_path / "made").exists()
        assert not await runs_unasked(agent, f"touch {tmp_path}/made")


@pytest.mark.parametrize("wanted", [True, False])
async def test_terminals_are_declared_only_where_a_front_shows_them(tmp_path: Path, *, wanted: bool) -> None:
    async with bench(kiro_v3(), tmp_path) as b:
        b.workspace.hooks.terminals = wanted
        await b.run(await b.new(), "answer")
        declared = member(b.agent.calls("initialize")[0], "params", "clientCapabilities", "terminal")
        assert declared is wanted


async def test_an_agent_that_runs_elsewhere_is_not_offered_this_machines_commands(tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path, path_map=[[str(tmp_path), "/container"]]) as b:
        b.workspace.hooks.terminals = True
        await b.run(await b.new(), "answer")
        assert member(b.agent.calls("initialize")[0], "params", "clientCapabilities", "terminal") is False


async def test_without_the_capability_a_request_is_refused_as_not_offered(tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path) as b:
        actor = await b.new()
        await b.run(actor, "answer")
        agent = TerminalAgent(b, actor)
        assert (await agent.fails("terminal/create", command="ls"))["code"] == -32601


# --- leave ---------------------------------------------------------------------------------------------------------------------


async def test_a_command_nobody_allowed_is_asked_about_in_full(tmp_path: Path) -> None:
    async with terminal_agent(tmp_path) as agent:
        line = "rm -rf build && \\\n  echo " + "x" * 500
        request_id = agent.ask("terminal/create", command=line)
        shown = (await agent.bench.question()).to_json(full=True)
        assert shown["command"] == line
        assert str(tmp_path) in shown["title"]
        assert shown["origin"] == "sidecar"
        assert [option["kind"] for option in shown["options"]] == ["allow_once", "reject_once"]
        assert not agent.replied(request_id)
        await agent.answer("reject-once")
        error = (await agent.reply(request_id))["error"]
        assert error["code"] == -32003
        assert "the user does not allow this command" in error["message"]


async def test_an_argv_is_shown_quoted_and_names_its_tool_call(tmp_path: Path) -> None:
    async with terminal_agent(tmp_path) as agent:
        await running(agent)
        call = {"toolCallId": "call-7", "title": "Run", "rawInput": {"command": "echo 'a b'"}}
        agent.bench.agent.update(agent.session, "tool_call", **call)
        agent.ask("terminal/create", command="echo", args=["a b"])
        shown = (await agent.bench.question()).to_json()
        assert (shown["command"], shown["toolCallId"]) == ("echo 'a b'", "call-7")


@pytest.mark.parametrize(
    ("seen", "command", "args"),
    [
        ("echo a; ls", "echo a; ls", None),
        ("echo a; ls", "/bin/sh", ["-lc", "echo a; ls"]),
        ("echo a; ls", "bash", ["-l", "-c", "echo a; ls"]),
        ("seq 1 3", "seq", ["1", "3"]),
        ("echo 'a b'", "echo", ["a b"]),
    ],
)
async def test_what_the_user_allowed_runs_once_without_a_second_question(
    tmp_path: Path, seen: str, command: str, args: list[str] | None
) -> None:
    async with terminal_agent(tmp_path) as agent:
        await running(agent)
        await permit(agent, "once", rawInput={"command": seen})
        assert await runs_unasked(agent, command, args)
        assert not await runs_unasked(agent, command, args)


@pytest.mark.parametrize(
    ("seen", "command", "args"),
    [
        ("echo a", "echo a; touch made", None),
        ("echo", "echo", ["a"]),
        ("echo a", "/bin/sh", ["-c", "echo a", "b"]),
        ("echo a", "./sh", ["-c", "echo a"]),
        ("echo a b", "echo", ["a b"]),
        ("echo a", "echo a", ["x"]),
    ],
)
async def test_what_the_user_did_not_see_is_asked_about(tmp_path: Path, seen: str, command: str, args: list[str] | None) -> None:
    for name in ("sh", "echo a"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    async with terminal_agent(tmp_path) as agent:
        await running(agent)
        await permit(agent, "once", rawInput={"command": seen})
        if command == "echo a" and args:
            command = "./echo a"
        assert not await runs_unasked(agent, command, args)
        assert not (tmp_path / "made").exists()


async def test_always_holds_for_the_same_command_in_this_session(tmp_path: Path) -> None:
    async with terminal_agent(tmp_path) as agent:
        await running(agent)
        await permit(agent, "always", rawInput={"command": "echo a"})
        assert await runs_unasked(agent, "echo a")
        assert await runs_unasked(agent, "echo a")
        assert not await runs_unasked(agent, "echo b")


async def test_a_pattern_the_user_chose_covers_plain_commands_only(tmp_path: Path) -> None:
    async with terminal_agent(tmp_path) as agent:
        await agent.bench.prompt(agent.actor, "shell echo one")
        pending = await agent.bench.question()
        answer = {"optionId": "always-accept", "scope": "session", "resource": "echo *"}
        assert (await agent.bench.call("pending.answer", id=pending.id, **answer))["accepted"]
        await agent.bench.until(lambda: agent.actor.running_turn_id is None, agent.actor)
        assert await runs_unasked(agent, "echo two")
        assert await runs_unasked(agent, "echo", ["three"])
        assert not await runs_unasked(agent, "echo two; touch made")
        assert not await runs_unasked(agent, "echo $(touch made)")


@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD", "BASH_ENV", "GIT_SSH_COMMAND", "NODE_OPTIONS", "path"])
async def test_a_variable_that_changes_what_a_command_runs_is_shown_and_asked_about(tmp_path: Path, name: str) -> None:
    async with terminal_agent(tmp_path) as agent:
        await running(agent)
        await permit(agent, "once", rawInput={"command": "echo a"})
        request_id = agent.ask("terminal/create", command="echo a", env=[{"name": name, "value": "/evil x"}])
        shown = (await agent.bench.question()).to_json()
        assert shown["command"] == f"{name}='/evil x' echo a"
        await agent.answer("reject-once")
        assert "error" in await agent.reply(request_id)
        assert await runs_unasked(agent, "echo a", env=[{"name": "CI", "value": "1"}, {"name": "PAGER", "value": "cat"}])


async def test_leave_that_was_taken_back_or_whose_turn_is_over_counts_no_more(tmp_path: Path) -> None:
    async with terminal_agent(tmp_path) as agent:
        await running(agent)
        await permit(agent, "once", rawInput={"command": "echo a"})
        await permit(agent, "no", rawInput={"command": "echo a"})
        assert not await runs_unasked(agent, "echo a")
        await permit(agent, "once", rawInput={"command": "echo a"})
        agent.bench.agent.signal("reply")
        await agent.bench.until(lambda: agent.actor.running_turn_id is None, agent.actor)
        assert not await runs_unasked(agent, "echo a")


async def test_a_session_has_no_leave_of_another(tmp_path: Path) -> None:
    async with terminal_agent(tmp_path) as agent:
        other = await agent.bench.new()
        await agent.bench.run(other, "answer")
        await running(agent)
        await permit(agent, "always", rawInput={"command": "echo a"})
        assert not await runs_unasked(TerminalAgent(agent.bench, other), "echo a")
        terminal = await agent.create("sleep 600")
        assert (await TerminalAgent(agent.bench, other).fails("terminal/output", terminalId=terminal))["code"] == -32002


async def test_a_question_withdrawn_with_its_turn_runs_nothing(tmp_path: Path) -> None:
    async with terminal_agent(tmp_path) as agent:
        await agent.bench.prompt(agent.actor, "deaf")
        await agent.bench.until(lambda: agent.actor.state.running_turn is not None, agent.actor)
        request_id = agent.ask("terminal/create", command="touch made")
        await agent.bench.question()
        await agent.bench.call("cancel", sessionId=agent.actor.identity.session_id)
        assert "the turn was cancelled" in (await agent.reply(request_id))["error"]["message"]
        assert not agent.bench.workspace.broker.pending()
        agent.bench.agent.signal("reply")


async def test_a_request_withdrawn_by_the_agent_takes_its_question_along(tmp_path: Path) -> None:
    async with terminal_agent(tmp_path) as agent:
        request_id = agent.ask("terminal/create", command="touch made")
        await agent.bench.question()
        agent.bench.agent.notify("$/cancel_request", {"requestId": request_id})
        assert (await agent.reply(request_id))["error"]["code"] == -32800
        assert not agent.bench.workspace.broker.pending()


# --- terminals of the agent's own ----------------------------------------------------------------------------------------------


async def test_terminals_an_agent_runs_itself_are_shown(tmp_path: Path) -> None:
    async with terminal_agent(tmp_path) as agent:
        call = {"toolCallId": "c", "title": "Bash", "kind": "execute", "rawInput": {"command": "make"}}
        content = [{"type": "terminal", "terminalId": "their-1"}]
        send = agent.bench.agent.update
        info = {"terminal_info": {"terminal_id": "their-1", "cwd": "/w"}}
        send(agent.session, "tool_call", **call, content=content, _meta=info)
        for data in ("one\n", "two\n"):
            output = {"terminal_output": {"terminal_id": "their-1", "data": data}}
            send(agent.session, "tool_call_update", toolCallId="c", _meta=output)
        ended = {"terminal_exit": {"terminal_id": "their-1", "exit_code": 2, "signal": None}}
        send(agent.session, "tool_call_update", toolCallId="c", status="completed", _meta=ended)
        await agent.bench.until(lambda: bool(agent.actor.state.to_json()["terminals"]), agent.actor)
        await agent.bench.until(lambda: "exitStatus" in agent.view("their-1"), agent.actor)
        assert agent.view("their-1") == {
            "terminalId": "their-1",
            "command": "make",
            "cwd": "/w",
            "output": "one\ntwo\n",
            "truncated": False,
            "exitStatus": {"exitCode": 2, "signal": None},
        }
        (listed,) = (await agent.bench.call("terminal.list"))["terminals"]
        assert listed["running"] is False
