"""The commands that look and tell, as processes; and that no secret stands in anything printed or kept."""

import base64
import json
import stat
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.process.cli_home import CliHome

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]


@pytest.fixture
def home(tmp_path: Path) -> CliHome:
    return CliHome(tmp_path)


def script(home: CliHome, name: str, text: str) -> Path:
    folder = home.home / "bin"
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    home.env["PATH"] = f"{folder}:/usr/bin:/bin"
    return path


def test_the_demo_shows_the_whole_path_without_a_terminal(home: CliHome) -> None:
    done = home.run("demo")
    assert (done.code, done.stderr) == (0, "")
    expected = (
        "Hello! You wrote: tour",
        "(allowed once: Edit sidecar-demo.txt)",
        "[completed] Edit sidecar-demo.txt",
        "(allowed once: echo hello from the demo agent)",
        "[failed] @demo-search/search",
        "the sign-in of the MCP server demo-search",
        "(declined: Open 127.0.0.1 in the browser?",
        "demo-search: failed (The sign-in page was not opened.)",
        "1: a line written by the demo agent",
    )
    at = 0
    for text in expected:
        assert text in done.stdout[at:], done.stdout
        at = done.stdout.index(text, at)
    assert "state=" not in done.stdout


def test_the_doctor_finds_nothing_wrong_with_the_demo_agent(home: CliHome) -> None:
    done = home.run("doctor", "--agent", "demo")
    assert (done.code, done.stderr) == (0, "")
    assert "it starts and answers initialize: Demo agent" in done.stdout
    assert "FAIL" not in done.stdout


def test_the_doctor_says_what_is_missing_and_what_to_do(home: CliHome) -> None:
    done = home.run("doctor", "--agent", "absent", "--output", "json")
    assert done.code == 1
    report = json.loads(done.stdout)
    assert report["worst"] == "fail"
    (failed,) = [check for check in report["checks"] if check["level"] == "fail"]
    assert "PATH searched: /usr/bin, /bin" in failed["told"]
    assert "full path" in failed["advice"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#!/usr/bin/env no-such-node\n", "it is a script that needs no-such-node"),
        ("#!/nowhere/node\n", "it is a script that needs /nowhere/node"),
        ("#!/bin/sh\necho kiro-cli 2.16.2\n", "too old for the V3 engine"),
        ('#!/bin/sh\n[ "$1" = --version ] && echo kiro-cli 2.20.1 || exit 9\n', "exited with code 9"),
        ('#!/bin/sh\n[ "$1" = --version ] && echo kiro-cli 2.20.1 || echo You are not logged in >&2\n', "kiro-cli login"),
    ],
)
def test_the_doctor_names_why_kiro_does_not_start(home: CliHome, text: str, said: str) -> None:
    script(home, "kiro-cli", text)
    done = home.run("doctor", "--agent", "kiro")
    assert done.code == 1
    assert said in done.stdout


def test_the_doctor_refuses_flags_of_the_old_generation_by_name(home: CliHome) -> None:
    home.configure('[agents.kiro]\ncommand = ["kiro-cli", "--trust-all-tools"]\n')
    done = home.run("doctor", "--agent", "kiro")
    assert done.code == 1
    assert "--trust-all-tools" in done.stdout


def test_the_doctor_reads_what_kiro_announces(home: CliHome) -> None:
    done = home.run("doctor", "--agent", "kiro3", "--output", "json")
    told = [check["told"] for check in json.loads(done.stdout)["checks"]]
    assert any("kiro-v3" in text for text in told)
    assert any("methods of its own" in text for text in told)
    assert done.code == 0


def test_the_doctor_finds_editors_and_open_folders(home: CliHome) -> None:
    script(home, "nvim", "#!/bin/sh\necho NVIM v0.11.4\n")
    home.state.mkdir(parents=True, mode=0o755)
    home.state.chmod(0o755)
    done = home.run("doctor")
    assert "Neovim: NVIM v0.11.4" in done.stdout
    assert "open to others" in done.stdout
    assert "other sidecars" in done.stdout


def test_the_report_is_private_and_names_no_home_and_no_secret(home: CliHome) -> None:
    secret = "Zq7-sentinel-94812-of-the-user"
    home.env["MY_API_TOKEN"] = secret
    report = home.home / "report.md"
    done = home.run("doctor", "--agent", "demo", "--report", str(report))
    assert done.code == 0
    assert stat.S_IMODE(report.stat().st_mode) == 0o600
    text = report.read_text()
    assert "MY_API_TOKEN" in text
    for hidden in (secret, str(home.home)):
        assert hidden not in text
    assert secret not in done.stdout


def test_agents_are_listed_with_their_programs(home: CliHome) -> None:
    listed = {entry["name"]: entry for entry in json.loads(home.run("agents", "--output", "json").stdout)["agents"]}
    assert listed["demo"]["program"] == sys.executable
    assert "was not found" in listed["absent"]["missing"]
    assert listed["kiro"]["default"] is True
    shown = home.run("agents")
    assert shown.code == 0
    assert "not found" in shown.stdout


def test_sessions_of_nobody_are_told(home: CliHome) -> None:
    done = home.run("sessions")
    assert (done.code, done.stdout) == (0, "There are no sessions. sidecar run or an editor makes them.\n")
    assert json.loads(home.run("sessions", "--output", "json").stdout) == {"sessions": []}
    assert home.run("sessions", "--agent", "absent").code == 4


SLOTS = {
    "environment": "Qe1-environment-secret-5519",
    "agent": "Qe2-agent-secret-7743",
    "header": "Qe3-header-secret-2287",
    "token": "Qe4-account-token-9930",
    "url": "Qe5-url-state-secret-6612",
}


def windows(secret: str) -> set[str]:
    """Return the forms in which a secret is looked for."""
    encoded = base64.b64encode(secret.encode()).decode()
    return {secret, quote(secret, safe=""), encoded[:-4], *(secret[at : at + 12] for at in range(len(secret) - 11))}


@pytest.mark.parametrize("prompt", ["token", "url", "answer", "crash"])
@pytest.mark.parametrize("output", ["json", "text"])
def test_secrets_are_found_in_no_channel_at_the_most_verbose_level(home: CliHome, prompt: str, output: str) -> None:
    printed = json.dumps({"accessToken": SLOTS["token"], "expiresAt": "2099-01-01T00:00:00Z"})
    tokens = script(home, "tokens", f"#!/bin/sh\ncat <<'END'\n{printed}\nEND\n")
    command = json.dumps([sys.executable, "-m", "tests.peers.kiro_v3"])
    home.configure(
        f'[agents.secret]\nprotocol = "kiro-v3"\ncommand = {command}\nauth = "client"\ntoken_command = ["{tokens}"]\n'
        f'env = {{ AGENT_SECRET = "{SLOTS["agent"]}" }}\n'
        f'[mcp_servers.docs]\nurl = "https://docs.example/mcp"\nheaders = {{ Authorization = "Bearer {SLOTS["header"]}" }}\n'
    )
    home.options(url=f"https://as.example/authorize?state={SLOTS['url']}", token_before_initialize=True)
    home.env["MY_API_TOKEN"] = SLOTS["environment"]
    log, record = home.home / "log", home.home / "record"
    verbose = ("--log-level", "debug", "--log-file", str(log), "--record", str(record))
    done = home.prompt("secret", "--output", output, *verbose, prompt)
    assert done.code == (4 if prompt == "crash" else 0), done.stderr
    kept = {path: path.read_bytes().decode("latin-1") for path in [log, record, *home.state.rglob("*")] if path.is_file()}
    for name, secret in SLOTS.items():
        for form in windows(secret):
            assert form not in done.stdout + done.stderr, name
            assert [str(path) for path, text in kept.items() if form in text] == [], name
