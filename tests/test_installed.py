"""The editors and agents that tests drive are the versions they were written for, and their absence cannot go unnoticed in CI."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import install, installed


def first_line(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=20).stdout.splitlines()[0]


@pytest.mark.editor
@pytest.mark.parametrize(
    ("program", "flag", "version"),
    [
        (installed.nvim, "--version", "NVIM v0.11.4"),
        (installed.hx, "--version", "helix 25.01.1"),
        (installed.tmux, "-V", "tmux "),
    ],
)
def test_editors_have_the_versions_the_tests_were_written_for(program: Callable[[], str], flag: str, version: str) -> None:
    assert first_line(program(), flag).startswith(version)


@pytest.mark.editor
def test_the_newer_helix_starts_with_its_own_c_library() -> None:
    assert first_line(installed.hx_new(), "--version").startswith("helix 2")


@pytest.mark.parametrize("program", [installed.nvim, installed.hx, installed.example_agent, installed.codex_acp])
def test_what_is_absent_fails_in_ci_and_skips_elsewhere(
    program: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIDECAR_TEST_TOOLS", str(tmp_path))
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"python -m tests\.install"):
        program()
    monkeypatch.setenv("CI", "false")
    with pytest.raises(pytest.skip.Exception, match=r"python -m tests\.install"):
        program()


def test_the_moving_helix_may_be_absent_even_in_ci(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIDECAR_TEST_TOOLS", str(tmp_path))
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.skip.Exception, match="newer Helix"):
        installed.hx_new()


def test_an_install_step_is_tried_twice_and_not_repeated_once_it_worked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIDECAR_TEST_TOOLS", str(tmp_path))
    folders: list[Path] = []

    def fails_once(folder: Path) -> str:
        folders.append(folder)
        assert list(folder.iterdir()) == []
        (folder / "half").touch()
        if len(folders) == 1:
            raise install.InstallError("the mirror hung up")
        return "tool 1.0"

    assert install.install_once("tool", "tool==1.0", fails_once) == "tool 1.0"
    assert install.install_once("tool", "tool==1.0", fails_once) == "tool 1.0 (already there)"
    assert len(folders) == 2


def test_a_step_that_never_works_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIDECAR_TEST_TOOLS", str(tmp_path))

    def fails(_folder: Path) -> str:
        raise install.InstallError("no such package")

    with pytest.raises(install.InstallError, match="no such package"):
        install.install_once("tool", "tool==1.0", fails)
    assert list(tmp_path.iterdir()) == []
