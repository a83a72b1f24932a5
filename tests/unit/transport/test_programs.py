"""Where a command is looked for, where it never is, and what an npm shim stands for."""

import ntpath
import os
import sys
from pathlib import Path

import pytest

from sidecar.errors import Unavailable
from sidecar.transport.programs import resolve_program, unwrap_shim


def program(folder: Path, name: str = "kiro-cli", mode: int = 0o755) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return str(path)


def refusal(command: str, *, path: str, forbidden: list[str] | None = None, platform: str = sys.platform) -> str:
    with pytest.raises(Unavailable) as refused:
        resolve_program(command, path=path, forbidden=forbidden or [], platform=platform)
    return refused.value.message


def test_the_first_folder_of_path_that_holds_the_program_wins(tmp_path: Path) -> None:
    first, second = program(tmp_path / "a"), program(tmp_path / "b")
    path = f"{tmp_path / 'none'}:{tmp_path / 'a'}:{tmp_path / 'b'}"
    assert resolve_program("kiro-cli", path=path) == first
    assert resolve_program(second, path="") == second


@pytest.mark.parametrize("entry", ["", ".", "bin", "./bin"])
def test_planted_programs_are_not_found_through_empty_or_relative_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    planted = [program(tmp_path, "kiro-cli"), program(tmp_path / "bin", "kiro-cli")]
    real = program(tmp_path / "elsewhere" / "bin")
    monkeypatch.chdir(tmp_path)
    assert resolve_program("kiro-cli", path=f"{entry}:{ntpath.dirname(real)}") == real
    told = refusal("kiro-cli", path=entry)
    assert "not absolute" in told
    assert planted[0] not in told


def test_folders_of_the_workspace_are_not_searched_even_through_links_and_dots(tmp_path: Path) -> None:
    workspace = tmp_path / "project"
    program(workspace / "node_modules" / ".bin")
    (tmp_path / "link").symlink_to(workspace)
    outside = program(tmp_path / "project-tools")
    entries = [
        str(workspace),
        f"{workspace}/node_modules/.bin",
        f"{tmp_path}/link/node_modules/.bin",
        f"{tmp_path}/other/../project/node_modules/.bin",
    ]
    told = refusal("kiro-cli", path=":".join(entries), forbidden=[str(workspace)])
    assert told.count("inside the workspace") == len(entries)
    assert resolve_program("kiro-cli", path=":".join([*entries, ntpath.dirname(outside)]), forbidden=[str(workspace)]) == outside


def test_a_missing_command_is_named_with_the_path_searched_and_what_to_do(tmp_path: Path) -> None:
    told = refusal("kiro-cli", path=f"{tmp_path}:/usr/sbin")
    assert told == (
        f"the command 'kiro-cli' was not found. PATH searched: {tmp_path}, /usr/sbin. "
        "Install it, or set the agent's command to an absolute path."
    )
    assert "(no usable folder)" in refusal("kiro-cli", path="")


@pytest.mark.skipif(os.name != "posix", reason="permission bits")
def test_a_file_that_is_not_executable_is_passed_over_and_named(tmp_path: Path) -> None:
    dead = program(tmp_path / "a", mode=0o644)
    assert f"{dead} exists but is not executable" in refusal("kiro-cli", path=str(tmp_path / "a"))
    alive = program(tmp_path / "b")
    assert resolve_program("kiro-cli", path=f"{tmp_path / 'a'}:{tmp_path / 'b'}") == alive


@pytest.mark.parametrize("command", ["./kiro-cli", "bin/kiro-cli", "../kiro-cli", ".", ".."])
def test_relative_paths_are_refused(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin")
    program(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert "relative path" in refusal(command, path=str(tmp_path))


@pytest.mark.parametrize("command", ["", "kiro\0cli"])
def test_no_command_is_told_as_such(command: str) -> None:
    assert "no command is configured" in refusal(command, path="/usr/bin")


def test_absolute_commands_are_checked(tmp_path: Path) -> None:
    assert "does not exist" in refusal(str(tmp_path / "absent"), path="")
    assert "is a folder" in refusal(str(tmp_path), path="")
    assert "is not executable" in refusal(program(tmp_path, mode=0o600), path="")


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    installed = program(tmp_path / "bin")
    assert resolve_program("~/bin/kiro-cli", path="") == installed


@pytest.mark.parametrize("command", ["sub\\kiro", "sub/kiro", "C:kiro", "\\kiro", ".\\kiro"])
def test_windows_paths_that_depend_on_the_current_folder_or_drive_are_refused(command: str) -> None:
    assert "relative path" in refusal(command, path="C:\\bin", platform="win32")


def test_windows_looks_for_every_extension_of_pathext_in_each_absolute_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def is_file(path: str) -> bool:
        asked.append(path)
        return path == "D:\\npm\\kiro.cmd"

    monkeypatch.setattr(os.path, "isfile", is_file)
    found = resolve_program(
        "kiro", path='.;C:\\work\\bin;;"D:\\npm"', forbidden=["c:\\WORK"], platform="win32", pathext=".EXE;.CMD;nonsense"
    )
    assert found == "D:\\npm\\kiro.cmd"
    assert list(dict.fromkeys(asked)) == ["D:\\npm\\kiro.exe", "D:\\npm\\kiro.cmd"]


NPM_CMD = r"""@ECHO off
GOTO start
:find_dp0
SET dp0=%~dp0
EXIT /b
:start
SETLOCAL
CALL :find_dp0

IF EXIST "%dp0%\node.exe" (
  SET "_prog=%dp0%\node.exe"
) ELSE (
  SET "_prog=node"
  SET PATHEXT=%PATHEXT:;.JS;=;%
)

endLocal & goto #_undefined_# 2>NUL || title %COMSPEC% & "%_prog%"  "%dp0%\node_modules\@scope\agent\dist\cli.js" %*
"""
OLD_NPM_CMD = r"""@IF EXIST "%~dp0\node.exe" (
  "%~dp0\node.exe"  "%~dp0\node_modules\agent\cli.js" %*
) ELSE (
  @SETLOCAL
  @SET PATHEXT=%PATHEXT:;.JS;=;%
  node  "%~dp0\node_modules\agent\cli.js" %*
)
"""
PNPM_CMD = r"""@SETLOCAL
@IF NOT DEFINED NODE_PATH (
  @SET "NODE_PATH=C:\store\node_modules"
)
@IF EXIST "%~dp0\node.exe" (
  "%~dp0\node.exe" --no-warnings "%~dp0\..\agent\cli.js" %*
) ELSE (
  @SET PATHEXT=%PATHEXT:;.JS;=;%
  node --no-warnings "%~dp0\..\agent\cli.js" %*
)
"""
NPM_PS1 = """#!/usr/bin/env pwsh
$basedir=Split-Path $MyInvocation.MyCommand.Definition -Parent

$exe=""
if ($PSVersionTable.PSVersion -lt "6.0" -or $IsWindows) {
  $exe=".exe"
}
$ret=0
if (Test-Path "$basedir/node$exe") {
  if ($MyInvocation.ExpectingInput) {
    $input | & "$basedir/node$exe"  "$basedir/node_modules/agent/cli.js" $args
  } else {
    & "$basedir/node$exe"  "$basedir/node_modules/agent/cli.js" $args
  }
  $ret=$LASTEXITCODE
} else {
  & "node$exe"  "$basedir/node_modules/agent/cli.js" $args
}
exit $ret
"""
NODE = "C:\\Program Files\\nodejs\\node.exe"


@pytest.mark.parametrize(
    ("shim", "text", "rest"),
    [
        ("C:\\npm\\agent.cmd", NPM_CMD, ["C:\\npm\\node_modules\\@scope\\agent\\dist\\cli.js"]),
        ("C:\\npm\\agent.CMD", NPM_CMD.replace("\n", "\r\n"), ["C:\\npm\\node_modules\\@scope\\agent\\dist\\cli.js"]),
        ("C:\\npm\\agent.cmd", OLD_NPM_CMD, ["C:\\npm\\node_modules\\agent\\cli.js"]),
        ("C:\\pnpm\\bin\\agent.cmd", PNPM_CMD, ["--no-warnings", "C:\\pnpm\\agent\\cli.js"]),
        ("C:\\npm\\agent.ps1", NPM_PS1, ["C:\\npm\\node_modules\\agent\\cli.js"]),
    ],
)
def test_a_shim_is_the_interpreter_and_the_script_it_names(shim: str, text: str, rest: list[str]) -> None:
    looked_for: list[str] = []

    def find(name: str) -> str:
        looked_for.append(name)
        return NODE

    assert unwrap_shim(shim, text, find=find) == [NODE, *rest]
    assert looked_for[0] in {"node", "node.exe"}


def test_a_node_beside_the_shim_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_file(path: str) -> bool:
        return path == "C:\\npm\\node.exe"

    monkeypatch.setattr(os.path, "isfile", is_file)

    def find(name: str) -> str:
        raise AssertionError(name)

    assert unwrap_shim("C:\\npm\\agent.cmd", OLD_NPM_CMD, find=find)[0] == "C:\\npm\\node.exe"


@pytest.mark.parametrize(
    "text",
    [
        "@echo off\r\nstart notepad\r\n",
        "",
        '@"%JAVA_HOME%\\bin\\java" -jar "%APP%\\x.jar" %*\r\n',
        "powershell -File x.ps1 $(evil) %*",
    ],
)
def test_any_other_batch_file_is_refused_since_only_a_shell_could_run_it(text: str) -> None:
    with pytest.raises(Unavailable, match="starts no shell"):
        unwrap_shim("C:\\npm\\agent.cmd", text, find=lambda name: name)
