"""The commands that the README promises work in a clean clone with a fresh HOME."""

import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.test_architecture import REPOSITORY, git_files

INSTALL_SECONDS = 240
DEMO_SECONDS = 60


def command_below(heading: str) -> str:
    """Return the first indented block below a heading of the README."""
    section = (REPOSITORY / "README.md").read_text().split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    found = re.search(r"^    (.+)$", section, re.MULTILINE)
    assert found is not None, f"no command below {heading}"
    return found[1]


@pytest.fixture
def fresh_clone(tmp_path: Path) -> Path:
    """Return a copy of exactly the files that a clone has."""
    clone = tmp_path / "clone"
    for path in git_files():
        copy = clone / path.relative_to(REPOSITORY)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    return clone


@pytest.fixture
def fresh_environment(tmp_path: Path) -> dict[str, str]:
    """Return this machine's environment with a HOME of its own and nothing of ours or of a virtual environment in it."""
    home = tmp_path / "home"
    home.mkdir()
    ours = ("XDG_", "SIDECAR_", "VIRTUAL_ENV", "PYTHON", "PYTEST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | {"HOME": str(home), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def run_in(folder: Path, environment: dict[str, str], command: str, seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env=environment,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )


def test_ci_runs_the_command_that_the_readme_names() -> None:
    assert command_below("Run all tests").endswith("python -m tests")
    assert re.search(r'^exec "\$venv/bin/python" -m tests\b', (REPOSITORY / ".ci" / "run").read_text(), re.MULTILINE)


@pytest.mark.process
@pytest.mark.timeout(INSTALL_SECONDS + 2 * DEMO_SECONDS)
def test_the_main_job_runs_in_a_clean_clone_with_a_fresh_home(fresh_clone: Path, fresh_environment: dict[str, str]) -> None:
    command = command_below("Try it")
    done = run_in(fresh_clone, fresh_environment, command, INSTALL_SECONDS)
    assert done.returncode == 0, done.stdout[-4000:]
    again = run_in(fresh_clone, fresh_environment, command.rsplit("&&", 1)[1], DEMO_SECONDS)
    assert again.returncode == 0, again.stdout[-4000:]
    for shown in ("Hello", "allowed once", "a line written by the demo agent", "sign in"):
        assert shown in again.stdout, again.stdout


@pytest.mark.process
@pytest.mark.timeout(INSTALL_SECONDS)
def test_the_wheel_holds_the_package_its_licence_and_its_command(
    fresh_clone: Path, fresh_environment: dict[str, str], tmp_path: Path
) -> None:
    python = shutil.which("python3.11", path=fresh_environment["PATH"]) or "python3"
    done = run_in(
        fresh_clone, fresh_environment, f"{python} -m pip wheel --quiet --no-deps -w {tmp_path / 'dist'} .", INSTALL_SECONDS
    )
    assert done.returncode == 0, done.stdout[-4000:]
    (wheel,) = (tmp_path / "dist").glob("acp_sidecar-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (entry_points,) = (name for name in names if name.endswith("entry_points.txt"))
        assert "sidecar = sidecar.__main__:main" in archive.read(entry_points).decode()
    tracked = {path.relative_to(REPOSITORY).as_posix() for path in git_files("sidecar")}
    assert tracked <= set(names)
    assert any(name.endswith("licenses/sidecar/LICENSE") for name in names)
    assert not [name for name in names if name.startswith("tests/")]
