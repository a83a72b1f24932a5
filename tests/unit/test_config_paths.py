"""Where files lie, and that they are private."""

import os
import stat
from pathlib import Path

import pytest

from sidecar.config import config_file, private_directory, runtime_directory, state_directory
from sidecar.errors import ConfigFault, Unavailable

LINUX_ONLY = pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")


def test_the_xdg_variables_are_followed_and_relative_values_ignored(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "c"), "XDG_STATE_HOME": str(tmp_path / "s")}
    assert config_file(None, env) == (tmp_path / "c/sidecar/config.toml", False)
    assert state_directory(env) == tmp_path / "s/sidecar"
    relative = {**env, "XDG_CONFIG_HOME": "c", "XDG_STATE_HOME": "./s", "XDG_RUNTIME_DIR": "r"}
    assert config_file(None, relative) == (tmp_path / ".config/sidecar/config.toml", False)
    assert state_directory(relative) == tmp_path / ".local/state/sidecar"
    assert runtime_directory(relative) == tmp_path / ".local/state/sidecar/run"


def test_our_own_variables_come_first_and_must_be_absolute(tmp_path: Path) -> None:
    env = {"HOME": "/h", "SIDECAR_CONFIG": str(tmp_path / "x.toml"), "SIDECAR_STATE": str(tmp_path / "state")}
    assert config_file(None, env) == (tmp_path / "x.toml", True)
    assert state_directory(env) == tmp_path / "state"
    with pytest.raises(ConfigFault, match="SIDECAR_STATE must hold an absolute path"):
        state_directory({"SIDECAR_STATE": "state"})
    with pytest.raises(ConfigFault, match="SIDECAR_CONFIG must hold an absolute path"):
        config_file(None, {"SIDECAR_CONFIG": "x.toml"})


def test_the_command_lines_file_comes_before_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert config_file("mine.toml", {"SIDECAR_CONFIG": "/other"}) == (tmp_path / "mine.toml", True)


def test_the_runtime_folder_is_used_when_it_is_there(tmp_path: Path) -> None:
    env = {"HOME": "/h", "XDG_RUNTIME_DIR": str(tmp_path)}
    assert runtime_directory(env) == tmp_path / "sidecar"
    assert runtime_directory({"HOME": "/h", "XDG_RUNTIME_DIR": str(tmp_path / "gone")}) == Path("/h/.local/state/sidecar/run")


@LINUX_ONLY
def test_a_private_folder_is_0700_whatever_the_umask_and_an_open_one_of_ours_is_closed(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = private_directory(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    made.chmod(0o777)
    assert stat.S_IMODE(private_directory(made).stat().st_mode) == 0o700


def test_a_folder_that_cannot_be_is_told_with_the_fix(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="is not a folder"):
        private_directory(tmp_path / "file")
    with pytest.raises(Unavailable, match="cannot be used"):
        private_directory(tmp_path / "file" / "below")
