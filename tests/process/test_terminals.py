"""Commands that agents have us run, as real processes: what they print, how they end, and that nothing of them is left."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from sidecar.transport.process import Launch
from sidecar.transport.terminal import open_terminal
from sidecar.workspace import terminal_session
from tests.flows.terminal_agent import TerminalAgent, terminal_agent
from tests.process.trees import TAG, left_after, marked

pytestmark = [pytest.mark.process, pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")]

MEGABYTE = 1024 * 1024
TREE = "trap '' TERM; (trap '' TERM; sleep 600) & (setsid sleep 600 &) ; echo up; exec sleep 600"


def python(text: str) -> tuple[str, list[str]]:
    return sys.executable, ["-c", text]


async def tree(agent: TerminalAgent, tag: str) -> str:
    """Start a command with children of which some ignore TERM and one has left its session."""
    terminal = await agent.create(TREE, env=[{"name": TAG, "value": tag}])
    await agent.shows(terminal, "up")
    assert len(marked(tag)) >= 3
    return terminal


# --- what runs and what it prints ---------------------------------------------------------------------------------------------


async def test_a_program_gets_its_arguments_as_they_are(tmp_path: Path) -> None:
    async with terminal_agent(tmp_path) as agent:
        done = await agent.ran(*python("import sys; print(sys.argv[1:])"))
        assert done == {"output": "[]\n", "truncated": False, "exitStatus": {"exitCode": 0, "signal": None}}
        words = ["a b", "$HOME", "*", "'", "é", ""]
        done = await agent.ran(sys.executable, ["-c", "import sys; print(sys.argv[1:])", *words])
        assert done["output"] == f"{words}\n"


async def test_a_line_without_arguments_runs_through_the_users_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/sh")
    async with terminal_agent(tmp_path) as agent:
        done = await agent.ran("echo $((40 + 2)) | tr 4 5 && pwd; exit 7")
        assert done["output"] == f"52\n{tmp_path}\n"
        assert done["exitStatus"] == {"exitCode": 7, "signal": None}
        shell = agent.ask("_kiro/terminal/shell_type")
        assert (await agent.reply(shell))["result"] == {"shellType": "sh"}


async def test_a_shell_of_the_environment_that_cannot_run_gives_way_to_the_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", str(tmp_path / "none"))
    async with terminal_agent(tmp_path) as agent:
        assert (await agent.ran("echo $0"))["output"] == "/bin/sh\n"


async def test_the_output_goes_to_a_terminal_and_nobody_can_type(tmp_path: Path) -> None:
    async with terminal_agent(tmp_path) as agent:
        done = await agent.ran(
            "test -t 1 && test -t 2 && echo terminal; stty size <&1; cat; read x </dev/tty || echo no input; printf 'a\\nb'"
        )
        assert done["output"].startswith("terminal\n40 120\n")
        assert done["output"].endswith("no input\na\nb")


async def test_the_environment_is_the_users_less_what_is_ours_with_what_the_agent_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_THE_USER", "1")
    monkeypatch.setenv("SIDECAR_STATE", "/secret")
    async with terminal_agent(tmp_path) as agent:
        line = 'echo "$FROM_THE_USER,$GIVEN,$SIDECAR_STATE,$TERM,$GIT_PAGER"'
        done = await agent.ran(line, env=[{"name": "GIVEN", "value": "2 3"}])
        assert done["output"] == "1,2 3,,dumb,cat\n"


async def test_a_command_runs_in_a_folder_of_the_session_only(tmp_path: Path) -> None:
    (work := tmp_path / "work").mkdir()
    (work / "sub").mkdir()
    (outside := tmp_path / "other").mkdir()
    (work / "link").symlink_to(outside)
    async with terminal_agent(work, additionalDirectories=[str(tmp_path / "other" / "..") + "/other"]) as agent:
        assert (await agent.ran("pwd", cwd=str(work / "sub")))["output"] == f"{work / 'sub'}\n"
        assert (await agent.ran("pwd", cwd=f"file://{work}/sub"))["output"] == f"{work / 'sub'}\n"
        assert (await agent.ran("pwd", cwd=str(outside)))["output"] == f"{outside}\n"
    async with terminal_agent(work) as agent:
        for cwd in (str(outside), str(work / "link"), str(work / ".."), str(tmp_path / "workshop")):
            error = await agent.fails("terminal/create", command="pwd", cwd=cwd)
            assert "outside of this session's folders" in error["message"], cwd
        (work / "file").touch()
        for missing in ("file", "nowhere"):
            error = await agent.fails("terminal/create", command="pwd", cwd=str(work / missing))
            assert "is not a folder" in error["message"]
        assert not agent.bench.workspace.broker.pending()


async def test_a_program_that_is_not_there_is_told_by_name_before_anybody_is_asked(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\necho mine\n")
    async with terminal_agent(tmp_path) as agent:
        for name in ("a-program-nobody-has", "./tool", "/no/such/program"):
            error = await agent.fails("terminal/create", command=name, args=["x"])
            assert repr(name) in error["message"]
        (tmp_path / "tool").chmod(0o755)
        assert (await agent.ran("./tool", ["x"]))["output"] == "mine\n"


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "command must be"),
        ({"command": " "}, "command must be"),
        ({"command": ["ls"]}, "command must be"),
        ({"command": "ls", "args": "x"}, "args must be"),
        ({"command": "ls", "args": [1]}, "args must be"),
        ({"command": "ls", "args": ["a\0b"]}, "NUL"),
        ({"command": "ls", "env": {"A": "b"}}, "env must be"),
        ({"command": "ls", "env": [{"name": "A=B", "value": "c"}]}, "each entry of env"),
        ({"command": "ls", "env": [{"name": "A", "value": 1}]}, "each entry of env"),
        ({"command": "ls", "cwd": 1}, "cwd must be"),
        ({"command": "ls", "outputByteLimit": -1}, "outputByteLimit must be"),
        ({"command": "ls", "outputByteLimit": True}, "outputByteLimit must be"),
        ({"command": "ls", "outputByteLimit": "1"}, "outputByteLimit must be"),
    ],
)
async def test_a_request_that_makes_no_sense_is_refused_with_what_is_wrong(
    tmp_path: Path, params: dict[str, object], words: str
) -> None:
    async with terminal_agent(tmp_path) as agent:
        error = await agent.fails("terminal/create", **params)
        assert error["code"] == -32602
        assert words in error["message"]


# --- the byte limit -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "text"),
    [(0, ""), (1, ""), (2, "é"), (5, "é"), (6, "\N{ROCKET}é"), (9, "\N{ROCKET}é"), (10, "\N{ROCKET}" * 2 + "é")],
)
async def test_output_beyond_the_limit_is_cut_from_the_start_between_characters(tmp_path: Path, limit: int, text: str) -> None:
    async with terminal_agent(tmp_path) as agent:
        done = await agent.ran(*python("print('\\N{ROCKET}' * 3, end='é')"), outputByteLimit=limit)
        assert (done["output"], done["truncated"]) == (text, True)


async def test_bytes_that_are_no_text_come_as_marks(tmp_path: Path) -> None:
    async with terminal_agent(tmp_path) as agent:
        done = await agent.ran("printf 'a\\377b\\360\\237'")
        assert done["output"] == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"


async def test_a_hundred_megabytes_cost_no_more_memory_than_twice_the_limit(tmp_path: Path) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("memory is read from /proc")
    statm, page = Path("/proc/self/statm"), os.sysconf("SC_PAGE_SIZE")

    def memory() -> int:
        return int(statm.read_text().split()[1]) * page

    async def run(megabytes: int, watch: Callable[[], None]) -> None:
        line = f"yes 0123456789abcdefghijklmnopqrstuvwxyz | head -c {megabytes * MEGABYTE}"
        launch = Launch(argv=["/bin/sh", "-c", line], cwd=str(tmp_path), env=os.environ, name="flood")
        terminal = await open_terminal(launch, tasks, 4 * MEGABYTE)
        with anyio.fail_after(90):
            await terminal.read(watch)
        assert len(terminal.output.text()) == 4 * MEGABYTE

    async with anyio.create_task_group() as tasks:
        await run(5, lambda: None)
        before = peak = memory()

        def watch() -> None:
            nonlocal peak
            peak = max(peak, memory())

        await run(100, watch)
        assert peak - before <= 8 * MEGABYTE


# --- the end ------------------------------------------------------------------------------------------------------------------


async def test_killing_a_command_ends_its_whole_tree_and_answers_who_waits_and_the_id_stays(tmp_path: Path) -> None:
    tag = tmp_path.name
    async with terminal_agent(tmp_path) as agent:
        terminal = await tree(agent, tag)
        waiting = await agent.waits(terminal)
        again = await agent.waits(terminal)
        assert "exitStatus" not in await agent.call("terminal/output", terminalId=terminal)
        assert not agent.replied(waiting)
        assert await agent.call("terminal/kill", terminalId=terminal) == {}
        assert left_after(tag, 0) == []
        for request in (waiting, again):
            assert (await agent.reply(request))["result"] == {"exitCode": None, "signal": "SIGKILL"}
        output = await agent.call("terminal/output", terminalId=terminal)
        assert output == {"output": "up\n", "truncated": False, "exitStatus": {"exitCode": None, "signal": "SIGKILL"}}
        assert await agent.call("terminal/kill", terminalId=terminal) == {}


async def test_a_command_that_ends_by_itself_takes_its_background_with_it(tmp_path: Path) -> None:
    tag = tmp_path.name
    async with terminal_agent(tmp_path) as agent:
        done = await agent.ran("sleep 600 & echo up", env=[{"name": TAG, "value": tag}])
        assert done["output"] == "up\n"
        assert left_after(tag) == []


async def test_a_released_id_is_no_more_and_what_was_shown_stays(tmp_path: Path) -> None:
    tag = tmp_path.name
    async with terminal_agent(tmp_path) as agent:
        terminal = await tree(agent, tag)
        waiting = await agent.waits(terminal)
        assert await agent.call("terminal/release", terminalId=terminal) == {}
        assert left_after(tag, 0) == []
        assert (await agent.reply(waiting))["result"]["signal"] == "SIGKILL"
        for method in ("output", "wait_for_exit", "kill", "release"):
            error = await agent.fails(f"terminal/{method}", terminalId=terminal)
            assert error["code"] == -32002
            assert terminal in error["message"]
        view = agent.view(terminal)
        assert (view["output"], view["released"]) == ("up\n", True)
        assert view["exitStatus"] == {"exitCode": None, "signal": "SIGKILL"}


async def test_what_is_not_known_is_refused(tmp_path: Path) -> None:
    async with terminal_agent(tmp_path) as agent:
        assert (await agent.fails("terminal/output", terminalId="x"))["code"] == -32002
        assert (await agent.fails("terminal/output", terminalId=7))["code"] == -32602
        assert (await agent.fails("terminal/output"))["code"] == -32602
        assert (await agent.fails("terminal/create", sessionId="x", command="ls"))["code"] == -32602


async def test_a_waiting_request_that_the_agent_withdraws_is_answered_and_the_command_goes_on(tmp_path: Path) -> None:
    async with terminal_agent(tmp_path) as agent:
        terminal = await agent.create("sleep 600")
        waiting = agent.ask("terminal/wait_for_exit", terminalId=terminal)
        agent.bench.agent.notify("$/cancel_request", {"requestId": waiting})
        assert (await agent.reply(waiting))["error"]["code"] == -32800
        assert "exitStatus" not in await agent.call("terminal/output", terminalId=terminal)


async def test_cancelling_a_turn_ends_its_commands_and_no_others(tmp_path: Path) -> None:
    tag = tmp_path.name
    async with terminal_agent(tmp_path) as agent:
        kept = await agent.create("echo kept; sleep 600")
        turn = await agent.bench.prompt(agent.actor, "deaf")
        await agent.bench.until(lambda: agent.actor.state.running_turn is not None, agent.actor)
        terminal = await tree(agent, tag)
        waiting = await agent.waits(terminal)
        await agent.bench.call("cancel", sessionId=agent.actor.identity.session_id)
        assert (await agent.reply(waiting))["result"]["signal"] == "SIGKILL"
        assert left_after(tag) == []
        assert "turn" in (await agent.fails("terminal/create", command="echo late"))["message"]
        assert (await agent.call("terminal/output", terminalId=terminal))["output"] == "up\n"
        agent.bench.agent.signal("reply")
        await agent.bench.turn(agent.actor, turn)
        assert (await agent.fails("terminal/output", terminalId=terminal))["code"] == -32002
        assert "exitStatus" not in await agent.call("terminal/output", terminalId=kept)


async def test_closing_a_session_ends_its_commands(tmp_path: Path) -> None:
    tag = tmp_path.name
    async with terminal_agent(tmp_path) as agent:
        terminal = await tree(agent, tag)
        waiting = await agent.waits(terminal)
        await agent.bench.call("session.close", sessionId=agent.actor.identity.session_id)
        assert (await agent.reply(waiting))["result"]["signal"] == "SIGKILL"
        assert left_after(tag) == []


async def test_the_commands_of_an_agent_that_is_gone_are_ended(tmp_path: Path) -> None:
    tag = tmp_path.name
    async with terminal_agent(tmp_path) as agent:
        terminal = await tree(agent, tag)
        await agent.waits(terminal)
        await agent.bench.kill()
        await agent.bench.until(lambda: "exitStatus" in agent.view(terminal), agent.actor)
        assert left_after(tag) == []
        assert agent.view(terminal)["released"] is True


async def test_the_end_of_the_workspace_ends_every_command(tmp_path: Path) -> None:
    tag = tmp_path.name
    async with terminal_agent(tmp_path) as agent:
        await tree(agent, tag)
    assert left_after(tag) == []


async def test_no_more_than_so_many_commands_run_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_session, "MAX_RUNNING", 2)
    async with terminal_agent(tmp_path) as agent:
        first = await agent.create("sleep 600")
        await agent.create("sleep 601")
        error = await agent.fails("terminal/create", command="sleep 602")
        assert "2 commands run in this session already" in error["message"]
        await agent.call("terminal/kill", terminalId=first)
        await agent.create("sleep 603")


async def test_ended_commands_that_are_never_released_do_not_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_session, "MAX_KEPT", 2)
    async with terminal_agent(tmp_path) as agent:
        made = [await agent.create(f"echo {number}") for number in range(2)]
        for terminal in made:
            await agent.ended(terminal)
        third = await agent.create("echo 2")
        assert (await agent.fails("terminal/output", terminalId=made[0]))["code"] == -32002
        assert (await agent.ended(made[1]))["output"] == "1\n"
        assert (await agent.ended(third))["output"] == "2\n"
        assert agent.view(made[0])["output"] == "0\n"


async def test_the_user_sees_lists_reads_and_ends_a_running_command(tmp_path: Path) -> None:
    tag = tmp_path.name
    async with terminal_agent(tmp_path) as agent:
        terminal = await tree(agent, tag)
        (listed,) = (await agent.bench.call("terminal.list"))["terminals"]
        assert listed["running"] is True
        assert (listed["command"], listed["cwd"], listed["output"]) == (TREE, str(tmp_path), "up\n")
        assert await agent.bench.call("terminal.output", terminalId=terminal) == {"output": "up\n", "truncated": False}
        waiting = await agent.waits(terminal)
        killed = await agent.bench.call("terminal.kill", terminalId=terminal)
        assert killed == {"exitStatus": {"exitCode": None, "signal": "SIGKILL"}}
        assert (await agent.reply(waiting))["result"]["signal"] == "SIGKILL"
        assert left_after(tag) == []
        (listed,) = (await agent.bench.call("terminal.list"))["terminals"]
        assert listed["running"] is False


async def test_what_is_shown_changes_at_most_ten_times_a_second(tmp_path: Path) -> None:
    async with terminal_agent(tmp_path) as agent:
        changes: list[float] = []
        terminal = await agent.create("while echo x; do :; done | head -c 60000000")
        state = agent.actor.state
        seen = [""]

        def look() -> None:
            if agent.view(terminal)["output"] != seen[0]:
                seen[0] = agent.view(terminal)["output"]
                changes.append(anyio.current_time())

        state.subscribe(look)
        with anyio.move_on_after(0.75):
            await agent.call("terminal/wait_for_exit", terminalId=terminal)
        state.unsubscribe(look)
        assert len(changes) <= 9
        assert len(seen[0]) <= 8192
