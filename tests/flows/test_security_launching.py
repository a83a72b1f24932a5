"""What is started, and from where, when the workspace itself is hostile (cases O28 and O29)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers.scripted import member
from tests.process.editor_world import PLUGIN, START_SECONDS, World, peer, turn_of

pytestmark = [pytest.mark.process, pytest.mark.timeout(120), pytest.mark.skipif(sys.platform == "win32", reason="sh scripts")]

HOSTILE = "a;$(touch pwn)&.`touch pwn`|touch pwn"


def script(path: Path, line: str) -> None:
    """Make an executable script of one line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    path.chmod(0o755)


def test_an_agent_planted_in_the_workspace_is_never_started(tmp_path: Path) -> None:
    """O28: also with an empty and a relative entry in PATH, and with the workspace as the current folder."""
    world = World(tmp_path)
    planted, report = tmp_path / "planted", tmp_path / "kiro.json"
    for name in ("kiro-cli", "kiro-cli.exe", "kiro-cli.cmd", "bin/kiro-cli", "python3", "sh", "env", "bin/env", "bin/sh"):
        script(world.workspace / name, f"touch {planted}")
    script(tmp_path / "good" / "kiro-cli", f'exec {sys.executable} -m tests.peers.kiro_v3 "$@"')
    path = os.pathsep.join(["", ".", "bin", str(world.workspace), str(tmp_path / "good"), "/usr/bin", "/bin"])
    done = subprocess.run(
        [sys.executable, "-m", "sidecar", "run", "--agent", "kiro", "answer me"],
        cwd=world.workspace,
        env={**world.environment(), "PATH": path, "SIDECAR_PEER_REPORT": str(report)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=START_SECONDS,
        check=False,
    )
    assert b"answer me" in done.stdout, done.stderr
    assert done.returncode == 0
    assert not planted.exists()
    argv = json.loads(report.read_text(encoding="utf-8"))["argv"]
    assert argv[1:] == ["acp", "--agent-engine=v3", "--auth-method=cli"]


def test_with_nothing_but_planted_agents_the_command_is_not_found(tmp_path: Path) -> None:
    """O28: the error says where was searched, and that the workspace is not."""
    world = World(tmp_path)
    planted = tmp_path / "planted"
    script(world.workspace / "kiro-cli", f"touch {planted}")
    done = subprocess.run(
        [sys.executable, "-m", "sidecar", "run", "--agent", "kiro", "hi"],
        cwd=world.workspace,
        env={**world.environment(), "PATH": os.pathsep.join(["", ".", str(world.workspace), "/usr/bin"])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=START_SECONDS,
        check=False,
    )
    assert done.returncode == 4
    assert b"kiro-cli" in done.stderr
    assert not planted.exists()


def test_the_name_of_a_folder_is_only_a_name_to_a_run(tmp_path: Path) -> None:
    """O29: as the current folder and in the prompt."""
    report = tmp_path / "plain.json"
    world = World(tmp_path, {"plain": peer("tests.peers.plain", report=report)})
    folder = world.workspace / HOSTILE
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "sidecar", "run", "--agent", "plain", "--cwd", str(folder), f"look at {folder}"],
        cwd=folder,
        env=world.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=START_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert HOSTILE.encode() in done.stdout
    told = json.loads(report.read_text(encoding="utf-8"))
    assert told["cwd"] == str(folder)
    assert [member(m, "params", "cwd") for m in told["received"] if m.get("method") == "session/new"] == [str(folder)]
    assert not list(tmp_path.rglob("pwn"))


def test_the_name_of_a_folder_is_only_a_name_to_the_language_server(tmp_path: Path) -> None:
    """O29: as an editor's workspace folder."""
    report = tmp_path / "plain.json"
    world = World(tmp_path, {"plain": peer("tests.peers.plain", report=report)})
    folder = world.workspace / HOSTILE
    folder.mkdir()
    with world.start() as client:
        folders = [{"uri": folder.as_uri(), "name": HOSTILE}]
        client.initialize(PLUGIN, workspaceFolders=folders, initializationOptions={"agent": "plain"})
        sent = client.result("sidecar/prompt", {"text": "hi"}, within=START_SECONDS)
        turn_of(client, sent["turnId"], sessionId=sent["sessionId"])
        assert client.shut_down() == 0
    assert json.loads(report.read_text(encoding="utf-8"))["cwd"] == str(folder)
    assert not list(tmp_path.rglob("pwn"))
