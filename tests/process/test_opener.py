"""The system opener with a spy in its place: one process, one argument, the truth about the outcome."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from sidecar.secret import SecretText
from sidecar.workspace.opener import Opening, open_url, remote_notice

pytestmark = [
    pytest.mark.process,
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="the spy is a POSIX script"),
]

URL = "https://as.example/authorize?a=%2B%26%23&state=S3NT1NEL;$x&n='(1)'&e=%action"

SPY = """#!{python}
import json, os, sys, time
record = {{"argv": sys.argv[1:], "pid": os.getpid(), "cwd": os.getcwd()}}
record |= {{"path": os.environ.get("PATH"), "browser": os.environ.get("BROWSER")}}
with open({log!r}, "a") as file:
    file.write(json.dumps(record) + "\\n")
{end}
"""


class Spy:
    """A folder with an ``xdg-open`` (or another name) that writes down how it was started."""

    def __init__(self, folder: Path, end: str = "sys.exit(0)", name: str = "xdg-open") -> None:
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True, exist_ok=True)
        self.log = folder / "log"
        program = self.bin / name
        program.write_text(SPY.format(python=sys.executable, log=str(self.log), end=end))
        program.chmod(0o755)
        self.env = {"PATH": f"{self.bin}:/usr/bin:/bin", "DISPLAY": ":99", "HOME": str(folder)}

    @property
    def started(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []


async def opening(spy: Spy, url: str = URL, *, workspaces: tuple[str, ...] = (), patience: float = 5.0, **env: str) -> Opening:
    return await open_url(SecretText(url), env={**spy.env, **env}, workspaces=workspaces, platform="linux", timeout=patience)


async def test_one_process_gets_the_address_as_its_one_argument_byte_for_byte(tmp_path: Path) -> None:
    spy = Spy(tmp_path)
    result = await opening(spy)
    assert result.opened
    assert [record["argv"] for record in spy.started] == [[URL]]
    assert "as.example" not in result.message


@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", "--remote-debugging-port=9", "https://as.example/$(touch x)?a=`id`&b=1|c", "file:///etc/passwd", ""],
)
async def test_an_address_that_is_not_allowed_starts_nothing(tmp_path: Path, url: str) -> None:
    spy = Spy(tmp_path)
    result = await opening(spy, url)
    assert not result.opened
    assert spy.started == []


async def test_an_opener_that_fails_is_not_reported_as_success(tmp_path: Path) -> None:
    result = await opening(Spy(tmp_path, "sys.exit(1)"))
    assert not result.opened
    assert "exited with code 1" in result.message
    assert "copy the address" in result.message


async def test_an_opener_that_is_killed_is_not_reported_as_success(tmp_path: Path) -> None:
    result = await opening(Spy(tmp_path, "os.kill(os.getpid(), 9)"))
    assert not result.opened


async def test_an_opener_that_hangs_is_neither_waited_for_nor_reported_as_success_nor_ended(tmp_path: Path) -> None:
    spy = Spy(tmp_path, "time.sleep(60)")
    began = time.monotonic()
    result = await opening(spy, patience=2.0)
    assert time.monotonic() - began < 10
    assert not result.opened
    assert "copy the address" in result.message
    pid = spy.started[0]["pid"]
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGKILL)


async def test_without_a_display_nothing_is_started(tmp_path: Path) -> None:
    spy = Spy(tmp_path)
    result = await opening(spy, DISPLAY="")
    assert not result.opened
    assert "no graphical display" in result.message
    assert spy.started == []


async def test_a_browser_of_the_users_own_environment_counts_without_a_display_and_reaches_the_opener(tmp_path: Path) -> None:
    spy = Spy(tmp_path)
    assert (await opening(spy, DISPLAY="", BROWSER="/opt/helper")).opened
    assert spy.started[0]["browser"] == "/opt/helper"


async def test_without_an_opener_the_user_is_told_what_is_missing(tmp_path: Path) -> None:
    spy = Spy(tmp_path)
    result = await opening(spy, PATH=str(tmp_path))
    assert not result.opened
    assert "xdg-utils" in result.message


async def test_an_opener_planted_in_the_workspace_is_never_used_nor_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted, honest = Spy(tmp_path / "workspace"), Spy(tmp_path / "system")
    monkeypatch.chdir(planted.bin)
    path = f":.:bin:{planted.bin}:{honest.bin}:/usr/bin"
    result = await opening(honest, workspaces=(str(tmp_path / "workspace"),), PATH=path)
    assert result.opened
    assert planted.started == []
    assert honest.started[0]["path"] == f"{honest.bin}:/usr/bin"
    assert honest.started[0]["cwd"] == "/"


async def test_in_wsl_the_opener_of_windows_comes_first(tmp_path: Path) -> None:
    spy = Spy(tmp_path, name="wslview")
    assert (await opening(spy, DISPLAY="", WSL_DISTRO_NAME="Debian")).opened
    assert spy.started[0]["argv"] == [URL]


@pytest.mark.parametrize("mark", ["SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"])
async def test_over_ssh_the_user_is_told_where_the_browser_must_run(mark: str) -> None:
    notice = remote_notice({mark: "10.0.0.1 22"})
    assert notice is not None
    assert "SSH" in notice
    assert "machine you sit at" in notice
    assert "10.0.0.1" not in notice


@pytest.mark.parametrize("mark", ["VSCODE_IPC_HOOK_CLI", "REMOTE_CONTAINERS", "CODESPACES"])
async def test_in_a_remote_editor_the_user_is_told_too(mark: str) -> None:
    assert "remote side" in str(remote_notice({mark: "true"}))


async def test_on_the_users_own_machine_there_is_no_such_notice() -> None:
    assert remote_notice({"DISPLAY": ":0", "SSH_AUTH_SOCK": "/tmp/agent", "SSH_TTY": ""}) is None
