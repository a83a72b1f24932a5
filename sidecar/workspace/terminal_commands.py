"""What an agent's ``terminal/create`` runs: an argv, or a shell line through the user's own shell (Kiro V3, frame orders 9)."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final

import attrs

from sidecar.errors import Unavailable
from sidecar.session.ports import TerminalRequest

FALLBACK_SHELL: Final = "/bin/sh"
DUMB: Final[Mapping[str, str]] = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}
"""Nobody can press a key in these terminals, and what is shown of them is text."""

SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish"})
SHELL_FOLDERS: Final = frozenset({"", "/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"})
_LINE_FLAGS: Final = re.compile(r"-[lie]*c[lie]*")
_OTHER_FLAGS: Final = re.compile(r"-[lie]+")
_RISKY: Final = re.compile(
    r".*PATH|.*_HOME|.*OPTS|.*OPTIONS|.*FLAGS|.*RC|.*INIT|.*_DIR|LD.*|DYLD_.*|SHELL|IFS|ENV|PS4|BASH_.*|PROMPT_COMMAND|ZDOTDIR|HOME"
    r"|PYTHON.*|NODE_.*|PERL.*|RUBY.*|GEM_.*|BUNDLE_.*|JAVA_.*|JDK_.*|DOTNET_.*|GIT_.*|SSH_.*|SUDO_.*|OPENSSL_.*|XDG_.*|.*PAGER"
    r"|.*EDITOR|VISUAL|BROWSER|CC|CXX|CPP|AR|AS|MAKE|MAKEFILES|CMAKE_.*|RUST.*|CARGO.*|GO[A-Z]+|NPM_.*|YARN_.*|PIP_.*|UV_.*"
    r"|LUA_.*|LESSOPEN|LESSCLOSE",
    re.DOTALL,
)
_SWITCHES: Final = frozenset(
    {"GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONUTF8", "NODE_NO_WARNINGS"}
)
_SHOWERS: Final = re.compile(r".*PAGER|.*EDITOR|VISUAL|BROWSER")
_BLANKS: Final = " \t\r\n"
"""What a shell drops around a line; ``str.strip`` drops more, and "build\\u00a0" is another folder than "build"."""


@attrs.frozen
class Command:
    """A command as it will be started. ``shown`` is told to the user in full; ``texts`` are the ways the user may have seen it.

    ``risky`` are variables of the agent's own that can change which code a command runs: those the user has not seen with it.
    """

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str] = attrs.field(repr=False)
    shown: str
    texts: frozenset[str]
    risky: bool = False


def user_shell(environment: Mapping[str, str]) -> str:
    """Return the absolute path of the user's shell: ``SHELL``, else ``/bin/sh``; the command interpreter on Windows."""
    if sys.platform == "win32":
        return environment.get("COMSPEC") or "cmd.exe"
    shell = environment.get("SHELL", "")
    usable = PurePath(shell).is_absolute() and Path(shell).is_file() and os.access(shell, os.X_OK)
    return shell if usable else FALLBACK_SHELL


def shell_name(environment: Mapping[str, str]) -> str:
    """Return the shell's name without its folder and ending."""
    return PurePath(user_shell(environment)).stem


def read_command(request: TerminalRequest, cwd: str, environment: Mapping[str, str]) -> Command:
    """Return what ``request`` runs in ``cwd`` (a real folder); raises ``Unavailable`` for a program that is not there.

    Without arguments the command is a shell line, except that an empty list beside the name of a program starts just that.
    """
    env = {**environment, **DUMB, "PWD": cwd, **request.env}
    argv = [request.command, *(request.args or ())]
    program = _find(request.command, cwd, env) if request.args is not None else None
    risky = {name: value for name, value in request.env.items() if _is_risky(name.upper(), value)}
    assignments = "".join(f"{shlex.quote(name)}={shlex.quote(value)} " for name, value in risky.items())
    if program is None and not request.args:
        line = request.command
        shell = user_shell(environment)
        argv = [shell, "/d", "/s", "/c", line] if sys.platform == "win32" else [shell, "-c", line]
        return Command(argv, cwd, env, assignments + line, frozenset({bare(line)}), bool(risky))
    if program is None:
        raise Unavailable(
            f"there is no program {request.command!r} to run (looked in {cwd} and on PATH). Name one that is installed, or give "
            "the whole line as command without args to have the shell run it."
        )
    return Command([program, *argv[1:]], cwd, env, assignments + shlex.join(argv), _texts(argv, environment), bool(risky))


def bare(line: str) -> str:
    """Return a command line without what a shell drops around it."""
    return line.strip(_BLANKS)


def _is_risky(name: str, value: str) -> bool:
    """Whether a variable can change which code runs. Switches, and showers that are no program of the agent's, cannot."""
    if name in _SWITCHES:
        return value not in {"0", "1"}
    if _SHOWERS.fullmatch(name):
        return value not in {"", "cat", "true", "false"}
    return _RISKY.fullmatch(name) is not None


def _texts(argv: Sequence[str], environment: Mapping[str, str]) -> frozenset[str]:
    """Return the argv as text, and the line in it when it only hands one to a shell."""
    texts = {shlex.join(argv)}
    program = PurePath(argv[0])
    known = program.name in SHELLS and (str(program.parent) in SHELL_FOLDERS or "/" not in argv[0])
    flags = argv[1:-1]
    if flags and (known or argv[0] == environment.get("SHELL")):
        *others, last = flags
        if _LINE_FLAGS.fullmatch(last) and all(_OTHER_FLAGS.fullmatch(flag) for flag in others):
            texts.add(bare(argv[-1]))
    if all(shlex.quote(word) == word for word in argv):
        texts.add(" ".join(argv))
    return frozenset(texts)


def _find(program: str, cwd: str, env: Mapping[str, str]) -> str | None:
    """Return the absolute path of a program, as the shell would find it, but never from empty or relative entries of PATH."""
    try:
        if PurePath(program).name != program:
            path = Path(cwd) / program
            return str(path) if path.is_file() and os.access(path, os.X_OK) else None
        folders = [folder for folder in env.get("PATH", "").split(os.pathsep) if PurePath(folder).is_absolute()]
        return shutil.which(program, path=os.pathsep.join(folders)) if folders else None
    except (OSError, ValueError):  # longer than a name may be, or no text the system has
        return None
