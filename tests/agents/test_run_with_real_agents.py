"""``sidecar run`` with real third-party agents: the main job without an editor, end to end, in a HOME of its own."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import attrs
import psutil
import pytest

from tests.agents.conftest import RealAgent
from tests.conftest import REPOSITORY

pytestmark = [pytest.mark.agent, pytest.mark.process]
RUN_SECONDS = 60


@attrs.frozen
class Finished:
    """How a run ended; ``events`` are the objects of its NDJSON."""

    code: int
    stdout: str
    stderr: str

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stdout.splitlines()]

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def answer(self) -> str:
        texts = [event["data"] for event in self.events if event["type"] == "delta"]
        return "".join(str(find_text(data)) for data in texts)


def find_text(data: Any) -> str:
    """Return the first text in a raw ``agent_message_chunk``, wherever the update stands in what was recorded."""
    if not isinstance(data, dict):
        return ""
    members = cast("dict[str, Any]", data)
    if isinstance(members.get("text"), str):
        return members["text"]
    return next((found for value in members.values() if (found := find_text(value))), "")


def begin_run(agent: RealAgent, *arguments: str) -> subprocess.Popen[str]:
    config = Path(agent.env["HOME"]) / "sidecar.toml"
    table = "".join(f"{name} = {json.dumps(value)}\n" for name, value in agent.env.items() if name not in {"PATH", "HOME"})
    config.write_text(f'[agents.real]\nprotocol = "acp"\ncommand = {json.dumps(agent.argv)}\n[agents.real.env]\n{table}')
    return subprocess.Popen(
        [sys.executable, "-m", "sidecar", "run", "--config", str(config), "--agent", "real", "--cwd", str(agent.cwd), *arguments],
        cwd=REPOSITORY,
        env=agent.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> Finished:
    try:
        stdout, stderr = process.communicate(timeout=RUN_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        stdout, stderr = process.communicate()
        pytest.fail(f"the run did not end within {RUN_SECONDS} s\n{stdout[-2000:]}\n{stderr[-2000:]}")
    return Finished(process.returncode, stdout, stderr)


def run(agent: RealAgent, *arguments: str) -> Finished:
    return finish(begin_run(agent, *arguments))


def assert_nothing_stays(agent: RealAgent) -> None:
    found = psutil.process_iter(["name", "cwd"])
    assert [process.info["name"] for process in found if process.info["cwd"] == str(agent.cwd)] == []


def test_the_words_of_the_model_are_all_that_stands_on_stdout(codex_acp: RealAgent) -> None:
    done = run(codex_acp, "say: one two three")
    assert (done.code, done.stderr) == (0, "")
    assert "one two three" in done.stdout
    assert_nothing_stays(codex_acp)


def test_every_event_of_a_turn_is_one_line_of_json(codex_acp: RealAgent) -> None:
    done = run(codex_acp, "--output", "json", "think: deep and wide")
    assert done.code == 0, done.stderr
    assert "I thought about it." in done.answer
    assert done.types[-1] == "turn_complete"
    assert {"type", "timestamp", "sessionId", "data"} <= set(done.events[0])


def test_without_a_terminal_a_command_is_rejected_and_not_run(codex_acp: RealAgent) -> None:
    done = run(codex_acp, "--output", "json", "run: printf written > out.txt")
    assert not (codex_acp.cwd / "out.txt").exists()
    assert "permission_requested" in done.types
    assert "permission_answered" in done.types
    assert done.code in {0, 1}, done.stderr
    assert_nothing_stays(codex_acp)


def test_allow_once_typed_for_this_run_lets_the_command_run(codex_acp: RealAgent) -> None:
    done = run(codex_acp, "--output", "json", "--permission", "allow-once", "run: printf written > out.txt")
    assert done.code == 0, done.stderr
    assert (codex_acp.cwd / "out.txt").read_text() == "written"
    assert "The command ended." in done.answer
    assert "tool_call_complete" in done.types


def test_an_interrupt_cancels_the_turn_and_leaves_nothing(codex_acp: RealAgent) -> None:
    process = begin_run(codex_acp, "--output", "json", "slowly: " + "word " * 400)
    assert process.stdout is not None
    read = ""
    while '"delta"' not in read or "word" not in read:
        line = process.stdout.readline()
        assert line, finish(process).stderr
        read += line
    process.send_signal(signal.SIGINT)
    done = finish(process)
    assert done.code == 3, done.stderr
    assert done.types[-1] == "turn_cancelled"
    assert_nothing_stays(codex_acp)


def test_a_failing_model_ends_the_run_with_one_and_says_so(codex_acp: RealAgent) -> None:
    done = run(codex_acp, "--output", "json", "fail: 400")
    assert done.code == 1
    assert done.types[-1] == "turn_error"


def test_the_example_agent_is_driven_to_its_end(example_agent: RealAgent) -> None:
    done = run(example_agent, "--output", "json", "--permission", "allow-once", "hello")
    assert done.code == 0, done.stderr
    assert done.types[-1] == "turn_complete"
    assert done.types.count("tool_call_start") == 2
    assert_nothing_stays(example_agent)
