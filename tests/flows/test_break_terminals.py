"""Hostile commands: nothing they hold ends the sidecar, and nothing runs that the user has not seen."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.flows.terminal_agent import terminal_agent
from tests.flows.test_terminals import permit, running, runs_unasked

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="POSIX commands")]


@pytest.mark.parametrize(
    "params",
    [
        {"command": "./" + "a" * 5000, "args": []},
        {"command": "./" + "a" * 5000, "args": ["x"]},
        {"command": "a" * 5000, "args": ["x"]},
        {"command": "./\ud800", "args": []},
        {"command": "\ud800", "args": ["x"]},
        {"command": "true", "cwd": "a" * 5000},
        {"command": "true", "cwd": "\ud800"},
    ],
)
async def test_a_command_no_system_can_name_costs_only_its_own_request(tmp_path: Path, params: dict[str, Any]) -> None:
    async with terminal_agent(tmp_path) as agent:
        request_id = agent.ask("terminal/create", **params)
        await agent.bench.until(lambda: agent.replied(request_id) or bool(agent.bench.workspace.broker.pending()))
        if agent.bench.workspace.broker.pending():
            await agent.answer("allow-once")
        await agent.reply(request_id)
        assert (await agent.ran("echo fine"))["output"] == "fine\n"


@pytest.mark.parametrize(
    ("command", "env"),
    [
        ("true", {"name": "X", "value": "\ud800"}),
        ("true", {"name": "X", "value": "x" * 300_000}),
        ("echo \ud800", {"name": "X", "value": "1"}),
        ("echo " + "x" * 300_000, {"name": "X", "value": "1"}),
    ],
)
async def test_what_cannot_be_handed_to_a_process_is_answered_and_ends_nothing(
    tmp_path: Path, command: str, env: dict[str, str]
) -> None:
    async with terminal_agent(tmp_path) as agent:
        request_id = agent.ask("terminal/create", command=command, env=[env])
        await agent.answer("allow-once")
        await agent.reply(request_id)
        assert (await agent.ran("echo fine"))["output"] == "fine\n"


@pytest.mark.parametrize(
    ("name", "value"), [("PATH", ""), ("PATH", "cat"), ("BASH_ENV", "cat"), ("GIT_EXTERNAL_DIFF", "cat"), ("LD_PRELOAD", "1")]
)
async def test_a_variable_that_decides_what_is_run_is_shown_whatever_its_value(tmp_path: Path, name: str, value: str) -> None:
    (tmp_path / "cat").mkdir()
    for place in (tmp_path / "uname", tmp_path / "cat" / "uname"):
        place.write_text(f"#!/bin/sh\n: > {tmp_path}/made\n")
        os.chmod(place, 0o755)  # noqa: PTH101 - text for text
    async with terminal_agent(tmp_path) as agent:
        await running(agent)
        await permit(agent, "once", rawInput={"command": "uname"})
        assert not await runs_unasked(agent, "uname", env=[{"name": name, "value": value}])
        assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "name", ["SHELLOPTS", "BASHOPTS", "PS4", "_JAVA_OPTIONS", "MAVEN_OPTS", "XDG_CONFIG_HOME", "PIP_INDEX_URL"]
)
async def test_more_variables_that_can_change_what_is_run_are_shown(tmp_path: Path, name: str) -> None:
    async with terminal_agent(tmp_path) as agent:
        await running(agent)
        await permit(agent, "once", rawInput={"command": "true"})
        assert not await runs_unasked(agent, "true", env=[{"name": name, "value": "xtrace"}])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PAGER", "cat"),
        ("GIT_PAGER", ""),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("PYTHONUNBUFFERED", "1"),
        ("CI", "1"),
        ("GIT_EDITOR", "true"),
    ],
)
async def test_what_agents_set_to_keep_commands_quiet_asks_nothing_more(tmp_path: Path, name: str, value: str) -> None:
    async with terminal_agent(tmp_path) as agent:
        await running(agent)
        await permit(agent, "once", rawInput={"command": "true"})
        assert await runs_unasked(agent, "true", env=[{"name": name, "value": value}])


async def test_the_name_of_a_variable_cannot_pass_for_a_command(tmp_path: Path) -> None:
    async with terminal_agent(tmp_path) as agent:
        request_id = agent.ask("terminal/create", command="touch made", env=[{"name": "echo hello #PAGER", "value": "less"}])
        pending = await agent.answer("reject-once")
        await agent.reply(request_id)
        assert str(pending.to_json()["command"]).startswith("'echo hello #PAGER'=")


@pytest.mark.parametrize("line", ["rm -r build\u00a0", "\u2003ls", "ls\x1f"])
async def test_a_space_that_is_none_for_the_shell_makes_another_command(tmp_path: Path, line: str) -> None:
    async with terminal_agent(tmp_path) as agent:
        await running(agent)
        await permit(agent, "once", rawInput={"command": line.strip()})
        assert not await runs_unasked(agent, line)


@pytest.mark.parametrize("key", ["cwd", "workdir", "working_directory", "workingDirectory"])
@pytest.mark.parametrize("option", ["once", "always"])
async def test_a_line_allowed_in_one_folder_is_asked_about_in_another(tmp_path: Path, key: str, option: str) -> None:
    (tmp_path / "build").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "build")
    async with terminal_agent(tmp_path) as agent:
        await running(agent)
        await permit(agent, option, rawInput={"command": "true", key: "build"})
        assert not await runs_unasked(agent, "true")
        assert await runs_unasked(agent, "true", cwd=str(tmp_path / "link"))
