"""What differs between agents before a single frame is exchanged: arguments, environment, what is declared, what may be called.

The only place (with the ``kiro_*`` files) where one agent is treated unlike another.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import attrs

from sidecar.agents.path_map import PathMap
from sidecar.config import AgentSettings
from sidecar.errors import ConfigFault
from sidecar.transport.process import Launch, resolve_program

# Methods Kiro V3 answers although no captured announcement lists them (Kiro facts, section 2, conflict).
KIRO_V3_KNOWN: Final = frozenset({"_kiro/mcp/resetServer", "_session/steer", "_session/steer/clear", "_kiro/account/getUsage"})
KIRO_V2_KNOWN: Final = frozenset({"_session/steer"})

# Variables of our own that a child has no use for.
OWN_VARIABLES: Final = ("SIDECAR_CONFIG", "SIDECAR_STATE", "SIDECAR_SHARED")

KIRO_V3_ARGUMENTS: Final = ("acp", "--agent-engine=v3")
KIRO_V2_ARGUMENTS: Final = ("acp", "--agent-engine=v2")
KIRO_V3_NEEDS: Final = "2.20"


@attrs.frozen
class AgentProfile:
    """How to start an agent and how far to go with it.

    ``arguments`` follow the configured command. ``kiro`` says which dialect is expected; whether it is spoken is decided by what
    the agent announces. ``known_methods`` may be called without announcement when the policy allows.
    """

    name: str
    kiro: Literal["v3", "v2"] | None = None
    arguments: Sequence[str] = ()
    known_methods: frozenset[str] = frozenset()
    policy: Literal["announced-only", "announced-plus-known", "off"] = "announced-plus-known"
    token_by_client: bool = False
    always_additional_directories: bool = False
    one_process_per_session: bool = False
    supervised: bool = False
    paths: PathMap = attrs.field(factory=PathMap)

    def may_call(self, method: str, announced: Sequence[str]) -> bool:
        """Return whether the policy lets a private ``method`` be called."""
        if self.policy == "off":
            return False
        return method in announced or (self.policy == "announced-plus-known" and method in self.known_methods)


def profile_of(settings: AgentSettings) -> AgentProfile:
    """Return the profile of an agent on a child process; raises ``ConfigFault`` for one that is reached another way."""
    if settings.protocol == "ahp":
        raise ConfigFault(
            f"agents.{settings.name}: an agent with protocol ahp lives behind a connection and is not started as a process"
        )
    common = AgentProfile(
        name=settings.name,
        policy=settings.extension_methods,
        one_process_per_session=settings.process == "session",
        supervised=settings.supervised,
        paths=PathMap(settings.path_map),
    )
    if settings.protocol == "kiro-v3":
        by_client = settings.auth == "client"
        return attrs.evolve(
            common,
            kiro="v3",
            arguments=KIRO_V3_ARGUMENTS if by_client else (*KIRO_V3_ARGUMENTS, "--auth-method=cli"),
            known_methods=KIRO_V3_KNOWN,
            token_by_client=by_client,
            always_additional_directories=True,
        )
    if settings.protocol == "kiro-v2":
        return attrs.evolve(common, kiro="v2", arguments=KIRO_V2_ARGUMENTS, known_methods=KIRO_V2_KNOWN)
    return common


def arguments_for(profile: AgentProfile, command: Sequence[str]) -> list[str]:
    """Return the profile's arguments that the configured command does not name already."""
    given = set(command[1:])
    return [word for word in profile.arguments if word not in given]


def launch_of(
    settings: AgentSettings,
    cwd: str,
    environment: Mapping[str, str],
    overrides: Mapping[str, str | None],
    *,
    forbidden: Sequence[str] = (),
) -> Launch:
    """Return what to start: an absolute program, the full environment plus overrides, minus our own variables.

    ``overrides`` are the agent's configured variables with secrets resolved (None removes). ``forbidden`` are folders a program
    is never taken from (workspaces, the current folder). Raises ``Unavailable`` when the command is not found.
    """
    env = {name: value for name, value in environment.items() if name not in OWN_VARIABLES}
    for name, value in overrides.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    if not settings.command:
        raise ConfigFault(f'agents.{settings.name}.command is empty; set it to a list such as ["/path/to/agent", "--acp"]')
    program = resolve_program(settings.command[0], path=env.get("PATH", ""), forbidden=(*forbidden, str(Path.cwd())))
    argv = [program, *settings.command[1:], *arguments_for(profile_of(settings), settings.command)]
    return Launch(argv=argv, cwd=cwd, env=env, name=settings.name)


def explain_early_exit(profile: AgentProfile, stderr: str) -> str | None:
    """Return what to do when the agent refused its arguments before the first frame, else None."""
    if profile.kiro != "v3":
        return None
    text = stderr.lower()
    if "--auth-method" in text or "--agent-engine" in text:
        needed = f"This Kiro CLI is too old for the flags of the V3 engine: version {KIRO_V3_NEEDS} or newer is needed."
        return f"{needed} Run kiro-cli update, or choose protocol kiro-v2 for the agent."
    if "not logged in" in text:
        return "Sign in with: kiro-cli login"
    return None
