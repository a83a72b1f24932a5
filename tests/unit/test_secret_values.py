"""References to secrets, token commands, and MCP entries with secrets in place."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.auth.mcp_entries import mcp_server_entries
from sidecar.auth.secret_values import CommandRunner, SecretResolver
from sidecar.auth.token_command import TokenCommand, parse_token
from sidecar.config import CommandSecret, EnvironmentSecret, McpServerSettings, StoredSecret
from sidecar.errors import ConfigFault, SidecarError, Unavailable
from sidecar.log import redact
from sidecar.log.redaction import SecretRegister
from sidecar.secret import SecretText
from sidecar.store.secrets import MemorySecrets
from sidecar.transport.exits import ExitStatus
from sidecar.transport.process import Completed

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_other_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests registered must not change what is read here."""
    monkeypatch.setattr("sidecar.log.redaction._REGISTER", SecretRegister())


class Program:
    """Stands for programs: each run gives the next of the outputs (the last one again and again)."""

    def __init__(self, *outputs: bytes | Completed | SidecarError) -> None:
        self.outputs = list(outputs)
        self.runs: list[tuple[str, ...]] = []

    async def __call__(self, argv: Sequence[str], seconds: float) -> Completed:
        self.runs.append(tuple(argv))
        await anyio.lowlevel.checkpoint()
        output = self.outputs.pop(0) if len(self.outputs) > 1 else self.outputs[0]
        if isinstance(output, SidecarError):
            raise output
        return output if isinstance(output, Completed) else Completed(ExitStatus(0), output, "")


def resolver(program: Program | None = None, store: MemorySecrets | None = None, **environ: str) -> SecretResolver:
    held = store or MemorySecrets()
    return SecretResolver(lambda: held, program or Program(b""), environ)


async def test_each_form_of_reference_is_resolved() -> None:
    store = MemorySecrets()
    await store.put("docs", SecretText("stored-value-1"))
    program = Program(b"printed-value-2\r\nsecond line\n")
    found = resolver(program, store, NAME="variable-value-3")
    assert await found.resolve(StoredSecret("docs")) == SecretText("stored-value-1")
    assert await found.resolve(EnvironmentSecret("NAME")) == SecretText("variable-value-3")
    assert await found.resolve(CommandSecret(("pass", "show", "x"))) == SecretText("printed-value-2")
    assert await found.resolve(SecretText("literal")) == SecretText("literal")
    assert program.runs == [("pass", "show", "x")]
    assert redact("stored-value-1 printed-value-2 variable-value-3") == "*** *** ***"


async def test_a_table_of_headers_or_variables_is_resolved_and_what_looks_secret_is_hidden_from_logs() -> None:
    table = {"Authorization": SecretText("Bearer literal-abc-44"), "Accept": SecretText("text/plain-5")}
    assert await resolver().resolve_table(table) == {"Authorization": "Bearer literal-abc-44", "Accept": "text/plain-5"}
    assert redact("sent: literal-abc-44 as text/plain-5") == "sent:*** as text/plain-5"
    assert await resolver(A="1").resolve_environment({"X": EnvironmentSecret("A"), "Y": None}) == {"X": "1", "Y": None}


FAILED = Completed(ExitStatus(3), b"planted-out", "planted-err")
SLOW = Completed(ExitStatus(None, 9), b"planted-out", "", timed_out=True)
LONG = Completed(ExitStatus(0), b"planted-out", "", truncated=True)


@pytest.mark.parametrize(
    ("value", "program", "kind", "told"),
    [
        (EnvironmentSecret("NONE"), Program(b""), ConfigFault, "environment variable NONE"),
        (StoredSecret("docs"), Program(b""), ConfigFault, "sidecar config set-secret docs"),
        (CommandSecret(("pass",)), Program(b" \n"), Unavailable, "printed nothing"),
        (CommandSecret(("pass",)), Program(FAILED), Unavailable, "pass exited with code 3"),
        (CommandSecret(("pass",)), Program(SLOW), Unavailable, "did not end within"),
        (CommandSecret(("pass",)), Program(LONG), Unavailable, "too much"),
        (CommandSecret(("pass",)), Program(Unavailable("pass is not there")), Unavailable, "not there"),
    ],
)
async def test_a_secret_that_cannot_be_had_is_told_with_the_fix_and_without_output(
    value: Any, program: Program, kind: type[SidecarError], told: str
) -> None:
    with pytest.raises(kind, match=told) as caught:
        await resolver(program).resolve(value)
    assert "planted" not in str(caught.value)


async def test_mcp_servers_become_session_entries_with_their_secrets() -> None:
    servers = [
        McpServerSettings("docs", url="https://d/mcp", headers={"Authorization": EnvironmentSecret("DOCS")}),
        McpServerSettings("events", url="https://e/sse", transport="sse"),
        McpServerSettings("tools", command=("tools", "--stdio"), env={"A": SecretText("1")}),
        McpServerSettings("lost", url="https://l/", headers={"X": EnvironmentSecret("NONE")}),
    ]
    entries, left_out = await mcp_server_entries(servers, resolver(DOCS="docs-value-6"))
    assert entries == [
        {"type": "http", "name": "docs", "url": "https://d/mcp", "headers": [{"name": "Authorization", "value": "docs-value-6"}]},
        {"type": "sse", "name": "events", "url": "https://e/sse", "headers": []},
        {"name": "tools", "command": "tools", "args": ["--stdio"], "env": [{"name": "A", "value": "1"}]},
    ]
    assert len(left_out) == 1
    assert "MCP server lost is left out" in left_out[0]


def printed(token: str = "token-value-7", expires: Any = 2000, **more: Any) -> bytes:
    return json.dumps({"accessToken": token, "expiresAt": expires, **more}).encode()


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_a_token_is_kept_until_shortly_before_it_expires() -> None:
    program, clock = Program(printed("first-token-8"), printed("second-token-9", 4000)), Clock()
    command = TokenCommand(["tokens", "get"], program, clock)
    first = await command.answer()
    clock.now = 1939
    assert await command.answer() == first == {"accessToken": "first-token-8", "expiresAt": 2000}
    clock.now = 1941
    assert (await command.answer())["accessToken"] == "second-token-9"
    assert program.runs == [("tokens", "get")] * 2
    command.forget()
    await command.answer()
    assert len(program.runs) == 3


async def test_many_who_ask_at_once_run_the_command_once() -> None:
    program = Program(printed())
    command = TokenCommand(["tokens"], program, Clock())
    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(command.token)
    assert len(program.runs) == 1


async def test_an_expired_token_is_told_and_not_kept() -> None:
    program = Program(printed(expires=999), printed())
    command = TokenCommand(["tokens"], program, Clock())
    with pytest.raises(Unavailable, match="has expired; sign in again"):
        await command.token()
    assert (await command.token()).expires == 2000


async def test_all_fields_reach_the_agent_and_none_a_repr_or_a_log() -> None:
    output = printed(
        "planted-token-10", "2030-01-31T12:00:00Z", profileArn="arn:x", authMethod="social", provider="github", extra=1
    )
    token = await TokenCommand(["t"], Program(output), Clock()).token()
    assert token.to_json() == {
        "accessToken": "planted-token-10", "expiresAt": "2030-01-31T12:00:00Z", "profileArn": "arn:x", "authMethod": "social",
        "provider": "github",
    }  # fmt: skip
    assert "planted" not in repr(token)
    assert redact("planted-token-10") == "***"


@pytest.mark.parametrize(
    ("expires", "seconds"),
    [
        (2000, 2000.0),
        (2000.5, 2000.5),
        (1_900_000_000, 1.9e9),
        (1_900_000_000_000, 1.9e9),
        ("2030-01-31T12:00:00Z", 1896091200.0),
        ("2030-01-31T12:00:00.000Z", 1896091200.0),
        ("2030-01-31T14:00:00+02:00", 1896091200.0),
        ("2030-01-31T12:00:00", 1896091200.0),
    ],
)
def test_an_expiry_is_a_date_or_a_number_of_seconds_or_milliseconds(expires: Any, seconds: float) -> None:
    token = parse_token(printed(expires=expires), "t")
    assert (token.expires, token.expires_at) == (seconds, expires)


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (b"", "exactly one JSON object"),
        (b"planted-token", "exactly one JSON object"),
        (printed() + printed(), "exactly one JSON object"),
        (b"[]", "exactly one JSON object"),
        (b"[" * 100_000, "exactly one JSON object"),
        (b'{"expiresAt": 2000}', "accessToken"),
        (printed(""), "accessToken"),
        (printed("planted\ntoken"), "accessToken"),
        (b'{"accessToken": 7, "expiresAt": 2000}', "accessToken"),
        (b'{"accessToken": "planted-token"}', "expiresAt"),
        (printed("planted-token", True), "expiresAt"),
        (printed("planted-token", "soon"), "expiresAt"),
        (printed("planted-token", float("nan")), "expiresAt"),
        (printed("planted-token", profileArn=7), "profileArn"),
    ],
)
def test_output_that_is_no_token_is_told_by_field_and_never_quoted(output: bytes, told: str) -> None:
    with pytest.raises(Unavailable, match=told) as caught:
        parse_token(output, "tokens")
    assert "planted" not in str(caught.value)


TOKEN_TABLES = st.dictionaries(st.sampled_from(["accessToken", "expiresAt"]), st.none() | st.text() | st.floats())


@given(st.binary(max_size=60) | TOKEN_TABLES.map(lambda table: json.dumps(table).encode()))
def test_no_output_whatever_crashes_the_reader(output: bytes) -> None:
    try:
        parse_token(output, "t")
    except Unavailable:
        return


async def test_a_real_program_is_run_by_argv_outside_the_workspace(tmp_path: Path) -> None:
    script = "import sys, os; print(sys.argv[1] + '|' + os.getcwd() + '|' + os.environ['MARK'])"
    runner = CommandRunner(str(tmp_path / "state"), {"PATH": "", "MARK": "m"})
    with anyio.fail_after(20):
        done = await runner([sys.executable, "-c", script, "$(touch x); a b"], 10)
    assert done.stdout.decode().strip() == f"$(touch x); a b|{(tmp_path / 'state').resolve()}|m"
    assert list((tmp_path / "state").iterdir()) == []
    (tmp_path / "file").write_text("")
    done = await CommandRunner(str(tmp_path / "file"), {"PATH": "", "MARK": "m"})([sys.executable, "-c", script, "x"], 10)
    assert done.stdout.decode().strip() == "x|/|m"
    planted = tmp_path / "workspace"
    planted.mkdir()
    (planted / "tokens").write_text("#!/bin/sh\n")
    (planted / "tokens").chmod(0o755)
    with pytest.raises(Unavailable, match="tokens"):
        await CommandRunner(str(tmp_path), {"PATH": f":{planted}:."}, [str(planted)])(["tokens"], 1)
