"""What ``sidecar doctor`` looks at of one agent: the command, its version, and whether it introduces itself."""

import os
import re
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import anyio
import attrs

from sidecar.agents.profiles import KIRO_V3_NEEDS, OWN_VARIABLES
from sidecar.cli.checks import Check
from sidecar.client import first_error, open_client
from sidecar.config import DEMO_AGENT, AgentSettings, Configuration, without_own_secrets
from sidecar.errors import ConfigFault, SidecarError, Unavailable
from sidecar.secret import SecretText
from sidecar.session.lenient import object_or_none
from sidecar.session.ports import AgentInfo
from sidecar.transport.exits import interpreter_of
from sidecar.transport.process import resolve_program, run_once

VERSION_SECONDS: Final = 10.0
START_SECONDS: Final = 30.0
RUNNERS: Final = re.compile(r"(python[\d.]*|node|npx|uvx?|bun|bunx|deno|sh|bash|env|docker|podman)(\.exe)?\Z")
_VERSION: Final = re.compile(r"(\d+)\.(\d+)(?:\.\d+)?")


async def check_agent(configuration: Configuration, name: str) -> AsyncIterator[Check]:
    """Yield the findings on the agent ``name``, in the order in which they matter; the first failure ends them."""
    area = f"agent {name}"
    try:
        agent = configuration.settings.agent_named(name)
    except ConfigFault as fault:
        yield Check(area, "fail", fault.message, "Correct the configuration; sidecar config check names file and key.")
        return
    if agent.protocol == "ahp":
        yield Check(area, "warn", "it lives behind a connection, which is not checked here")
        return
    try:
        program = _program(agent)
    except Unavailable as error:
        yield Check(area, "fail", error.message, _install_advice(agent))
        return
    yield Check(area, "ok", f"the command is {program}")
    interpreter = _check_interpreter(area, program, _path(agent))
    if interpreter is not None:
        yield interpreter
        if interpreter.level == "fail":
            return
    yield _check_environment(area, configuration, agent)
    version = await _check_version(area, agent, program)
    if version is not None:
        yield version
    for check in await _check_start(area, configuration, agent):
        yield check


def _program(agent: AgentSettings) -> str:
    if not agent.command:
        raise Unavailable("no command is configured")
    here = os.getcwd()  # noqa: PTH109 - text for text
    return resolve_program(agent.command[0], path=_path(agent), forbidden=[here])


def _path(agent: AgentSettings) -> str:
    """Return the PATH the agent gets, which is also the one its command is looked up on."""
    given = agent.env.get("PATH")
    return given.reveal() if isinstance(given, SecretText) else os.environ.get("PATH", "")


def _install_advice(agent: AgentSettings) -> str:
    if agent.protocol.startswith("kiro"):
        return f"Install Kiro CLI {KIRO_V3_NEEDS} or newer, or set agents.{agent.name}.command to its full path."
    return f"Install it, or set agents.{agent.name}.command to its full path; an editor started from a desktop has another PATH."


def _check_interpreter(area: str, program: str, path: str) -> Check | None:
    """Look at the ``#!`` line of a script: the commonest reason why a program that is there does not start."""
    words = interpreter_of(program)
    if not words:
        return None
    wanted = words[0]
    if Path(words[0]).name == "env":
        wanted = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), words[0])
    try:
        found = resolve_program(wanted, path=path)
    except Unavailable as error:
        advice = f"Install {wanted}, or add its folder to PATH in the agent's env."
        return Check(area, "fail", f"it is a script that needs {wanted}: {error.message}", advice)
    return Check(area, "ok", f"it is a script run by {found}")


def _check_environment(area: str, configuration: Configuration, agent: AgentSettings) -> Check:
    """Say which variables the agent gets: names, never values."""
    given = set(without_own_secrets(os.environ, configuration.settings)) - set(OWN_VARIABLES)
    removed = {name for name, value in agent.env.items() if value is None}
    names = sorted((given | set(agent.env)) - removed)
    missing = [name for name in ("HOME", "PATH") if name not in names]
    told = f"it gets {len(names)} environment variables, {len(agent.env) - len(removed)} of them from the configuration"
    if missing:
        return Check(area, "warn", f"{told}; {' and '.join(missing)} not among them", "Many agents fail without them.", names)
    return Check(area, "ok", told, details=names)


async def _check_version(area: str, agent: AgentSettings, program: str) -> Check | None:
    """Run ``--version`` once, bounded; not for programs that only run another one."""
    if agent.name == DEMO_AGENT or RUNNERS.fullmatch(Path(program).name.lower()):
        return None
    env = {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES}
    try:
        done = await run_once([program, "--version"], timeout=VERSION_SECONDS, cwd=tempfile.gettempdir(), env=env)
    except Unavailable as error:
        return Check(area, "fail", error.message, _install_advice(agent))
    if done.timed_out:
        return Check(area, "warn", f"--version was not answered within {VERSION_SECONDS:g} s")
    said = (done.stdout.decode("utf-8", "replace").strip() or done.stderr.strip()).split("\n")[0][:200]
    found = _VERSION.search(said)
    if found is None:
        return Check(area, "ok", f"--version says: {said or 'nothing'}")
    return _judge_version(area, agent, said, (int(found[1]), int(found[2])))


def _judge_version(area: str, agent: AgentSettings, said: str, found: tuple[int, int]) -> Check:
    major, _, minor = KIRO_V3_NEEDS.partition(".")
    if agent.protocol == "kiro-v3" and agent.auth == "cli" and found < (int(major), int(minor)):
        advice = f"Run kiro-cli update: --auth-method=cli needs {KIRO_V3_NEEDS} or newer; or choose protocol kiro-v2."
        return Check(area, "fail", f"the version is {said}, too old for the V3 engine", advice)
    return Check(area, "ok", f"the version is {said}")


async def _check_start(area: str, configuration: Configuration, agent: AgentSettings) -> list[Check]:
    """Start the agent in an empty folder, shake hands, and end it. No session is made and nothing is sent beyond that."""
    with tempfile.TemporaryDirectory(prefix="sidecar-doctor-") as folder, anyio.move_on_after(START_SECONDS):
        return await _introduce(area, configuration, agent, folder)
    told = f"it did not answer initialize within {START_SECONDS:g} s"
    return [Check(area, "fail", told, "Run its command in a terminal and look at what it prints.")]


async def _introduce(area: str, configuration: Configuration, agent: AgentSettings, folder: str) -> list[Check]:
    checks: list[Check] = []
    try:
        async with open_client(configuration, store=False) as client:
            connection = await client.workspace.supervisor.connect(agent, folder)
            checks = _introduction(area, agent, connection.info)
    except* SidecarError as group:
        advice = "Run its command in a terminal and look at what it prints."
        checks = [Check(area, "fail", f"it does not start: {first_error(group).message}", advice)]
    return checks


def _introduction(area: str, agent: AgentSettings, info: AgentInfo) -> list[Check]:
    named = " ".join(word for word in (info.title, info.version) if word) or "it gives no name"
    able = [name for name, value in attrs.asdict(info.capabilities, recurse=False).items() if value is True]
    checks = [Check(area, "ok", f"it starts and answers initialize: {named}, {info.generation}", details=sorted(able))]
    if agent.protocol == "kiro-v3" and info.generation != "kiro-v3":
        advice = "Update Kiro CLI, or choose protocol kiro-v2; features of V3 stay off until then."
        checks.append(Check(area, "fail", "it does not introduce itself as Kiro CLI V3", advice))
    methods = list(info.capabilities.announced)
    if methods:
        checks.append(Check(area, "ok", f"it announces {len(methods)} methods of its own", details=methods))
    checks += [_sign_in(area, method) for method in info.auth_methods]
    if (logging := info.capabilities.values.get("logging")) is not None:
        checks.append(Check(area, "ok", f"it announces where its logs are: {_shown(logging)}"))
    return checks


def _sign_in(area: str, method: Mapping[str, Any]) -> Check:
    return Check(area, "ok", f"a way to sign in: {method.get('name') or method.get('id')}")


def _shown(value: Any) -> str:
    found = object_or_none(value)
    if found is None:
        return str(value)
    return ", ".join(f"{key} {item}" for key, item in found.items() if isinstance(item, str | int | bool))
