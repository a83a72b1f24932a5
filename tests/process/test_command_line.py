"""The command ``sidecar`` as a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sidecar import __version__

pytestmark = pytest.mark.process


def command_line(*words: str, home: Path, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    return subprocess.run(
        [sys.executable, "-m", "sidecar", *words],
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_wrong_usage_ends_with_two_and_one_line_on_stderr(tmp_path: Path) -> None:
    done = command_line("--log-level", "loud", home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        "sidecar: --log-level must be one of debug, info, warning, error\n",
    )
    strict = command_line("rnu", "--strict", home=tmp_path)
    assert strict.returncode == 2
    assert 'no command "rnu"' in json.loads(strict.stderr)["message"]
    assert list(tmp_path.iterdir()) == []


def test_version_and_help_go_to_stdout(tmp_path: Path) -> None:
    assert command_line("--version", home=tmp_path).stdout == f"sidecar {__version__}\n"
    done = command_line("--help", home=tmp_path)
    assert done.returncode == 0
    assert "--log-level" in done.stdout
