"""The command line: what is understood, and how wrong usage is told."""

import importlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from sidecar.cli import config_command, parser
from sidecar.cli.arguments import ConfigOptions, RunOptions
from sidecar.cli.common import CommonOptions, is_serve, split_common
from sidecar.config import load_configuration
from sidecar.errors import ConfigFault
from sidecar.log.redaction import SecretRegister


@pytest.fixture(autouse=True)
def no_other_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests registered must not change what is read here."""
    monkeypatch.setattr("sidecar.log.redaction._REGISTER", SecretRegister())


@pytest.mark.parametrize(
    "words", [[], ["serve"], ["--stdio"], ["serve", "--stdio"], ["--stdio", "serve"], ["--stdio", "--clientProcessId=77"]]
)
def test_the_server_starts_with_and_without_its_words(words: list[str]) -> None:
    assert is_serve(words)


@pytest.mark.parametrize("words", [["run"], ["serve", "serve"], ["--help"], ["serve", "--help"], ["--tcp"], ["--stdio", "x"]])
def test_anything_else_is_not_taken_for_the_server(words: list[str]) -> None:
    assert not is_serve(words)


@pytest.mark.parametrize(
    ("words", "rest"),
    [
        (["--config", "c", "--log-file", "l", "--log-level", "DEBUG", "run", "hi"], ["run", "hi"]),
        (["run", "--config=c", "hi", "--log-level=debug", "--log-file=l"], ["run", "hi"]),
        (["run", "hi", "--log-file", "l", "--config", "c", "--log-level", "debug"], ["run", "hi"]),
    ],
)
def test_common_options_count_in_any_position(words: list[str], rest: list[str]) -> None:
    assert split_common(words) == (CommonOptions("c", "l", "debug"), rest)


def test_after_two_dashes_everything_belongs_to_the_prompt() -> None:
    common, rest = split_common(["run", "--", "--config"])
    assert (common, rest) == (CommonOptions(), ["run", "--", "--config"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--config"], "--config needs a value"),
        (["--log-file="], "--log-file needs a value"),
        (["--log-level", "loud"], "must be one of debug"),
    ],
)
def test_a_common_option_without_a_usable_value_is_told(words: list[str], told: str) -> None:
    with pytest.raises(ConfigFault, match=told):
        split_common(words)


@pytest.fixture
def every_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offer commands whose modules another part of the tree may not hold yet."""
    monkeypatch.setattr(parser, "offered_commands", lambda: list(parser.COMMANDS))


def parsed(*words: str) -> Any:
    common, rest = split_common(words)
    return parser.parse(rest, common).options


@pytest.mark.usefixtures("every_command")
def test_run_takes_every_flag_of_the_contract() -> None:
    options = parsed(
        "run", "do it", "--agent", "a", "--connection", "c", "--tag", "t", "--tag", "u", "--cwd", "/d", "--session", "s",
        "--mode", "m", "--model", "o", "--effort", "e", "--context", "file:x", "--context=y", "--output", "json", "--strict",
        "--permission", "allow-once", "--timeout", "2.5", "--record", "r", "--forward", "f", "--config", "conf",
    )  # fmt: skip
    assert options == RunOptions(
        prompt="do it", common=CommonOptions("conf"), agent="a", connection="c", tags=("t", "u"), cwd="/d", session="s",
        mode="m", model="o", effort="e", contexts=("file:x", "y"), output="json", strict=True, permission="allow-once",
        timeout=2.5, record="r", forwards=("f",),
    )  # fmt: skip


@pytest.mark.usefixtures("every_command")
@pytest.mark.parametrize(("words", "prompt"), [(("run", "-"), "-"), (("run", "--", "--model"), "--model"), (("run", ""), "")])
def test_a_prompt_may_be_stdin_or_look_like_a_flag(words: tuple[str, ...], prompt: str) -> None:
    assert parsed(*words) == RunOptions(prompt=prompt)


@pytest.mark.usefixtures("every_command")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("rnu", "x"), 'no command "rnu". Did you mean "run"'),
        (("run",), "PROMPT"),
        (("run", "x", "--output", "xml"), "'xml'"),
        (("run", "x", "--permission", "allow"), "'allow'"),
        (("run", "x", "--timeout", "0"), "above 0"),
        (("run", "x", "--timeout", "nan"), "above 0"),
        (("run", "x", "--timeout", "soon"), "above 0"),
        (("run", "x", "--bogus"), "--bogus"),
        (("run", "x", "--perm", "ask"), "--perm"),
        (("serve", "--tcp"), "--tcp"),
        (("--bogus",), "--bogus"),
        (("config",), "ACTION"),
    ],
)
def test_wrong_usage_is_one_sentence_that_names_the_fix(words: tuple[str, ...], told: str) -> None:
    with pytest.raises(ConfigFault) as caught:
        parsed(*words)
    assert told in caught.value.message
    assert "--help" in caught.value.message
    assert "\n" not in caught.value.message


def test_every_offered_command_is_there_and_nothing_else_is_offered() -> None:
    for command in parser.offered_commands():
        module = importlib.import_module(command.module)
        assert callable(module.serve if command.name == "serve" else module.main)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIDECAR_STATE", str(tmp_path / "state"))
    return tmp_path / "config.toml"


def run_config(action: Any, file: Path, **more: Any) -> int:
    return config_command.main(ConfigOptions(action, CommonOptions(config=str(file)), **more))


def test_config_schema_prints_a_schema(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_config("schema", config) == 0
    assert json.loads(capsys.readouterr().out)["properties"]["agents"]


SECRETS = """
[agents.mine]
command = ["mine", "--api-key", "planted-1234567"]
env = { OPENAI_API_KEY = "planted-1234567", GONE = false, KEPT = { env = "X" } }
[mcp_servers.docs]
url = "https://docs.example/mcp?key=planted-1234567"
headers = { Authorization = "Bearer planted-1234567", X = { secret = "docs" } }
"""


@pytest.mark.parametrize("output", ["text", "json"])
def test_config_show_prints_what_is_in_force_without_a_secret(
    config: Path, output: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(SECRETS)
    assert run_config("show", config, output=output) == 0
    shown = capsys.readouterr().out
    assert "planted" not in shown
    assert "https://docs.example/***" in shown
    assert "kiro-cli" in shown
    if output == "json":
        assert json.loads(shown)["agents"]["mine"]["env"] == {"OPENAI_API_KEY": "***", "GONE": None, "KEPT": {"env": "X"}}
    else:
        assert 'agents.mine.env.KEPT = { env = "X" }' in shown
        assert "agents.mine.env.GONE = false" in shown


def test_what_config_show_prints_is_toml_that_reads_back(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text('warm = true\n[agents."a.b"]\ncommand = ["x\\u0007\\"y"]\nenv = { A = { env = "B" }, C = false }\n')
    run_config("show", config)
    again = config.with_name("again.toml")
    again.write_text(capsys.readouterr().out)
    assert load_configuration(str(again)).settings == load_configuration(str(config)).settings


def test_config_check_lists_what_is_wrong_and_ends_with_two(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text('warm = 1\nagnet = "x"')
    assert run_config("check", config) == 2
    out = capsys.readouterr().out
    assert "wrong: " in out
    assert "warning: " in out
    assert run_config("check", config, output="json") == 2
    listed = json.loads(capsys.readouterr().out)
    assert (len(listed["problems"]), len(listed["warnings"])) == (1, 1)
    config.write_text("warm = true")
    assert run_config("check", config) == 0
    assert "nothing is wrong" in capsys.readouterr().out


def test_a_secret_is_read_from_stdin_kept_privately_and_forgotten(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text('[secrets]\nstore = "file"')
    monkeypatch.setattr(sys, "stdin", io.StringIO("planted-7654321\n"))
    assert run_config("set-secret", config, name="docs") == 0
    (kept,) = (config.parent / "state" / "secrets").iterdir()
    assert "planted-7654321" in kept.read_text()
    assert kept.stat().st_mode & 0o077 == 0
    assert run_config("delete-secret", config, name="docs") == 0
    assert run_config("delete-secret", config, name="docs") == 0
    shown = capsys.readouterr()
    assert "planted" not in shown.out + shown.err
    assert 'there was no secret "docs"' in shown.out
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    with pytest.raises(ConfigFault, match="the secret is empty"):
        run_config("set-secret", config, name="docs")
    with pytest.raises(ConfigFault, match="name of a secret"):
        run_config("set-secret", config, name="../x")
    config.write_text('[secrets]\nstore = "memory"')
    with pytest.raises(ConfigFault, match="keeps nothing"):
        run_config("set-secret", config, name="docs")
