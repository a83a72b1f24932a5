"""Real third-party agents, ready to be started: their argv, their environment, and the model behind those that need one."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests import installed
from tests.peers.model_server import MODEL, ModelServer


@attrs.frozen
class RealAgent:
    """How a real agent is started: a clean environment with a HOME of its own, in a work folder that is a git repository."""

    argv: list[str]
    env: dict[str, str]
    cwd: Path
    model: ModelServer | None = None


@pytest.fixture
def work_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    (folder / "README.md").write_text("alpha\n")
    return folder


def clean_environment(home: Path) -> dict[str, str]:
    home.mkdir(parents=True, exist_ok=True)
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}


@pytest.fixture
def example_agent(tmp_path: Path, work_folder: Path) -> RealAgent:
    """Return the example agent of the TypeScript SDK."""
    return RealAgent(installed.example_agent(), clean_environment(tmp_path / "home"), work_folder)


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def codex_acp(tmp_path: Path, work_folder: Path, model_server: ModelServer) -> RealAgent:
    """Return codex-acp, asking before every command, on a model of ours."""
    argv = installed.codex_acp()
    home = tmp_path / "home"
    env = clean_environment(home) | {"CODEX_HOME": str(home), "NO_BROWSER": "1", "MODEL_KEY": "none needed"}
    (home / "config.toml").write_text(
        'approval_policy = "untrusted"\nsandbox_mode = "danger-full-access"\n'
        f'model = "{MODEL}"\nmodel_provider = "local"\n'
        f'[model_providers.local]\nname = "local"\nbase_url = "{model_server.base_url}"\nenv_key = "MODEL_KEY"\n'
        'wire_api = "responses"\nrequest_max_retries = 0\nstream_max_retries = 0\n'
    )
    return RealAgent(argv, env, work_folder, model_server)
