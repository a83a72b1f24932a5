"""What each command is asked to do, as frozen options made by ``parser`` and taken by the command's ``main``."""

from typing import Literal

import attrs

from sidecar.cli.common import NOTHING_COMMON, CommonOptions


@attrs.frozen
class RunOptions:
    """One prompt, headless. ``prompt`` "-" means stdin; ``timeout`` is in seconds; None means not given.

    ``tags``, ``contexts`` and ``forwards`` may be given several times. ``session`` is an id or a name.
    """

    prompt: str
    common: CommonOptions = NOTHING_COMMON
    agent: str | None = None
    connection: str | None = None
    tags: tuple[str, ...] = ()
    cwd: str | None = None
    session: str | None = None
    mode: str | None = None
    model: str | None = None
    effort: str | None = None
    contexts: tuple[str, ...] = ()
    output: Literal["text", "json", "quiet"] = "text"
    strict: bool = False
    permission: Literal["ask", "reject", "allow-once"] = "ask"
    timeout: float | None = None
    record: str | None = None
    forwards: tuple[str, ...] = ()


@attrs.frozen
class DemoOptions:
    """The main job on the built-in agent."""

    common: CommonOptions = NOTHING_COMMON


@attrs.frozen
class DoctorOptions:
    """Checks of the installation; ``report`` is the file a bug report is written to."""

    common: CommonOptions = NOTHING_COMMON
    agent: str | None = None
    report: str | None = None
    output: Literal["text", "json"] = "text"


@attrs.frozen
class AgentsOptions:
    """The list of configured agents."""

    common: CommonOptions = NOTHING_COMMON
    output: Literal["text", "json"] = "text"


@attrs.frozen
class SessionsOptions:
    """The list of sessions: stored ones, and with ``agent`` those the agent knows. ``cwd`` narrows to one folder."""

    common: CommonOptions = NOTHING_COMMON
    agent: str | None = None
    cwd: str | None = None
    output: Literal["text", "json"] = "text"


@attrs.frozen
class ReplayOptions:
    """A record of ``run --record``, printed as sessions."""

    file: str
    common: CommonOptions = NOTHING_COMMON
    output: Literal["text", "json"] = "text"


@attrs.frozen
class ConfigOptions:
    """``schema`` prints the JSON schema, ``show`` the merged settings without secrets, ``check`` what is wrong.

    ``set-secret`` and ``delete-secret`` change the secret ``name`` in the secret store.
    """

    action: Literal["schema", "show", "check", "set-secret", "delete-secret"]
    common: CommonOptions = NOTHING_COMMON
    name: str | None = None
    output: Literal["text", "json"] = "text"
