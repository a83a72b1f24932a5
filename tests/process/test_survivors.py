"""Nothing outlives the sidecar: not the agent that ignores TERM, nor its daemons in sessions of their own (case O41).

The whole way: an editor or a shell starts the real ``sidecar``, an agent opens a session, and one of them is ended.
"""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.peers.lsp_client import LspClient
from tests.process.editor_world import NOISE, PLUGIN, REPOSITORY, START_SECONDS, World
from tests.process.trees import FOREST, TAG, forest, left_after, marked

pytestmark = [pytest.mark.process, pytest.mark.skipif(sys.platform != "linux", reason="finds processes through /proc")]

FOREST_SIZE = 6
SERVE = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
from tests.peers import faults
def hold(_):
    faults.update("working")
    faults.hold()
faults._serve(hold)
while True:
    time.sleep(600)
"""
"""The agent answers until its first prompt, then never again, whatever is closed or signalled."""

EDITOR = """
import sys, time
from pathlib import Path
from tests.peers.lsp_client import LspClient
from tests.process.editor_world import PLUGIN, World
root = Path(sys.argv[1])
client = LspClient([sys.executable, "-m", "sidecar"], cwd=sys.argv[1])
client.initialize(PLUGIN, workspaceFolders=[{"uri": (root / "ws").as_uri(), "name": "ws"}])
client.result("sidecar/session/new", {"agent": "stubborn"}, within=30)
print("ready", client.process.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def tag() -> Iterator[str]:
    name = uuid.uuid4().hex
    yield name
    for pid in marked(name):
        os.kill(pid, signal.SIGKILL)


def world_of(tag: str, folder: Path) -> World:
    """Make a machine whose agent ``stubborn`` starts a forest and serves ACP."""
    program = forest(tag)[: forest(tag).index('os.write(1, b"up')] + SERVE
    command = [sys.executable, "-c", program, "stubborn", "bare"]
    table = {"protocol": "acp", "command": command, "env": {"PYTHONPATH": str(REPOSITORY)}}
    return World(folder, {"stubborn": table})


def test_the_forest_is_one_that_serves() -> None:
    assert 'os.write(1, b"up' in FOREST


def with_a_turn_running(tag: str, folder: Path) -> LspClient:
    """Start the sidecar as an editor would and leave a prompt running."""
    world = world_of(tag, folder)
    client = LspClient(
        [sys.executable, "-m", "sidecar"], env=world.environment(**{TAG: tag}), cwd=str(folder), ignore=NOISE, new_session=True
    )
    client.initialize(PLUGIN, **world.options("stubborn"))
    client.result("sidecar/prompt", {"text": "work"}, within=START_SECONDS)
    assert len(marked(tag)) >= FOREST_SIZE
    return client


ENDS: dict[str, Callable[[LspClient], object]] = {
    "end of input": lambda client: client.close_stdin(),
    "SIGTERM": lambda client: client.signal(signal.SIGTERM),
    "SIGKILL": lambda client: client.signal(signal.SIGKILL),
    "SIGKILL of the group": lambda client: os.killpg(client.process.pid, signal.SIGKILL),
    "shutdown and exit": lambda client: client.shut_down(),
}


@pytest.mark.parametrize("how", sorted(ENDS))
def test_nothing_is_left_of_an_agent_when_the_language_server_ends(how: str, tag: str, tmp_path: Path) -> None:
    client = with_a_turn_running(tag, tmp_path)
    try:
        ENDS[how](client)
        assert left_after(tag) == []
    finally:
        client.kill()


def test_nothing_is_left_when_the_editor_is_killed(tag: str, tmp_path: Path) -> None:
    world = world_of(tag, tmp_path)
    environment = {**os.environ, **world.environment(**{TAG: tag})}
    editor = subprocess.Popen([sys.executable, "-c", EDITOR, str(tmp_path)], env=environment, stdout=subprocess.PIPE)
    try:
        assert editor.stdout is not None
        assert editor.stdout.readline().startswith(b"ready")
        assert len(marked(tag)) >= FOREST_SIZE
        editor.kill()
        editor.wait()
        assert left_after(tag) == []
    finally:
        editor.kill()
        editor.wait()
        if editor.stdout is not None:
            editor.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_when_a_run_is_ended(number: signal.Signals, tag: str, tmp_path: Path) -> None:
    """The agent does not answer the cancel, so those that may be repeated are."""
    world = world_of(tag, tmp_path)
    run = subprocess.Popen(
        [sys.executable, "-m", "sidecar", "run", "--agent", "stubborn", "--cwd", str(world.workspace), "work"],
        env={**os.environ, **world.environment(**{TAG: tag})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert run.stdout is not None
        assert run.stdout.read(7) == b"working"
        assert len(marked(tag)) >= FOREST_SIZE
        run.send_signal(number)
        if number in {signal.SIGTERM, signal.SIGINT}:
            assert run.stderr is not None
            assert b"stop" in run.stderr.readline()
            run.send_signal(number)
        run.wait(START_SECONDS)
        assert left_after(tag) == []
    finally:
        run.kill()
        run.communicate()
