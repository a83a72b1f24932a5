"""What can stand on the command line, as frozen options; the language server needs nothing but this file to start.

Wrong usage is a ``ConfigFault`` with a sentence that says the fix; the caller ends with exit code 2.
"""

from collections.abc import Sequence
from typing import Final, Literal

import attrs

from sidecar.errors import ConfigFault

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
_COMMON_FLAGS: Final = {"--config": "config", "--log-file": "log_file", "--log-level": "log_level"}
_SERVE_WORDS: Final = ("serve", "--stdio")
# vscode-languageclient adds this to every server it starts; the end of the editor is seen by the end of its pipe.
_IGNORED_PREFIX: Final = "--clientProcessId="


@attrs.frozen
class CommonOptions:
    """Options any command takes, in any position. Paths are as typed; None means not given."""

    config: str | None = None
    log_file: str | None = None
    log_level: str | None = None


@attrs.frozen
class ServeOptions:
    """The language server on stdin and stdout."""

    common: CommonOptions = CommonOptions()


@attrs.frozen
class RunOptions:
    """One prompt, headless. ``prompt`` "-" means stdin; ``timeout`` is in seconds; None means not given.

    ``tags``, ``contexts`` and ``forwards`` may be given several times. ``session`` is an id or a name.
    """

    prompt: str
    common: CommonOptions = CommonOptions()
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

    common: CommonOptions = CommonOptions()


@attrs.frozen
class DoctorOptions:
    """Checks of the installation; ``report`` is the file a bug report is written to."""

    common: CommonOptions = CommonOptions()
    agent: str | None = None
    report: str | None = None
    output: Literal["text", "json"] = "text"


@attrs.frozen
class AgentsOptions:
    """The list of configured agents."""

    common: CommonOptions = CommonOptions()
    output: Literal["text", "json"] = "text"


@attrs.frozen
class SessionsOptions:
    """The list of sessions: stored ones, and with ``agent`` those the agent knows. ``cwd`` narrows to one folder."""

    common: CommonOptions = CommonOptions()
    agent: str | None = None
    cwd: str | None = None
    output: Literal["text", "json"] = "text"


@attrs.frozen
class ConfigOptions:
    """``schema`` prints the JSON schema, ``show`` the merged settings without secrets, ``check`` what is wrong.

    ``set-secret`` and ``delete-secret`` change the secret ``name`` in the secret store.
    """

    action: Literal["schema", "show", "check", "set-secret", "delete-secret"]
    common: CommonOptions = CommonOptions()
    name: str | None = None
    output: Literal["text", "json"] = "text"


def split_common(arguments: Sequence[str]) -> tuple[CommonOptions, list[str]]:
    """Take the common options out of ``arguments`` wherever they stand (up to ``--``) and return the rest."""
    found: dict[str, str] = {}
    rest: list[str] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word == "--":
            rest += [word, *words]
            break
        flag, joined, value = word.partition("=")
        field = _COMMON_FLAGS.get(flag)
        if field is None:
            rest.append(word)
            continue
        if not joined:
            if not words:
                raise ConfigFault(f"{flag} needs a value; write {flag} VALUE")
            value = words.pop(0)
        if not value:
            raise ConfigFault(f"{flag} needs a value that is not empty")
        found[field] = value
    level = found.get("log_level")
    if level is not None:
        found["log_level"] = level.lower()
        if level.lower() not in LOG_LEVELS:
            raise ConfigFault(f"--log-level must be one of {', '.join(LOG_LEVELS)}")
    return CommonOptions(**found), rest


def is_serve(rest: Sequence[str]) -> bool:
    """Tell whether what remains asks for the language server: nothing, ``serve``, ``--stdio``, or both."""
    words = [word for word in rest if not word.startswith(_IGNORED_PREFIX)]
    return all(word in _SERVE_WORDS for word in words) and len(set(words)) == len(words)
