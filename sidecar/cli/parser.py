"""The commands by name, and their arguments. Only what this installation holds is offered."""

import argparse
import importlib.util
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

import attrs

from sidecar import __version__
from sidecar.cli.arguments import (
    AgentsOptions,
    ConfigOptions,
    DemoOptions,
    DoctorOptions,
    ReplayOptions,
    RunOptions,
    SessionsOptions,
)
from sidecar.cli.common import CommonOptions, ServeOptions
from sidecar.errors import ConfigFault

_DESCRIPTION: Final = "A language server that gives any LSP editor a coding agent; and the same agent for the terminal."
_EPILOG: Final = (
    "Every command takes --config FILE, --log-file FILE and --log-level debug|info|warning|error. "
    "Without a command the language server runs on stdin and stdout."
)


@attrs.frozen
class Command:
    """One command: its module (``main(options) -> int``), one line of help, its arguments, and how they become options."""

    name: str
    module: str
    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    options: Callable[[argparse.Namespace, CommonOptions], Any]


@attrs.frozen
class Chosen:
    """The command line understood: call ``main`` of ``module`` with ``options``."""

    module: str
    options: Any


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are sentences for the caller instead of an exit."""

    def error(self, message: str) -> NoReturn:
        raise ConfigFault(f"{message}. See {self.prog} --help")


def parse(rest: Sequence[str], common: CommonOptions) -> Chosen:
    """Return what to run. Raises ``ConfigFault`` on wrong usage and SystemExit(0) after --help or --version."""
    commands = offered_commands()
    parser = _Parser(prog="sidecar", description=_DESCRIPTION, epilog=_EPILOG, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"sidecar {__version__}")
    choices = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for command in commands:
        below = choices.add_parser(
            command.name, help=command.summary, description=command.summary, epilog=_EPILOG, allow_abbrev=False
        )
        command.add_arguments(below)
    known = {command.name: command for command in commands}
    first = next((word for word in rest if not word.startswith("-")), None)
    if first is not None and rest[0] == first and first not in known:
        raise ConfigFault(
            f'there is no command "{first}".{_nearest(first, known)} Commands: {", ".join(known)}. See sidecar --help'
        )
    chosen = parser.parse_args(list(rest))
    if chosen.command is None:
        raise ConfigFault("no command was given. See sidecar --help")
    command = known[chosen.command]
    return Chosen(command.module, command.options(chosen, common))


def _nearest(word: str, known: Sequence[str] | dict[str, Command]) -> str:
    import difflib  # only needed when something is wrong

    near = difflib.get_close_matches(word, list(known), n=1)
    return f' Did you mean "{near[0]}"?' if near else ""


def offered_commands() -> list[Command]:
    """Return the commands whose modules are part of this installation."""
    return [command for command in COMMANDS if importlib.util.find_spec(command.module) is not None]


def _no_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def _serve_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stdio", action="store_true", help="accepted and implied: the server speaks on stdin and stdout")


def _output_argument(parser: argparse.ArgumentParser, choices: Sequence[str] = ("text", "json")) -> None:
    parser.add_argument("--output", choices=choices, default="text", help="form of what is printed (default: text)")


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("prompt", metavar="PROMPT", help='what to say to the agent; "-" reads it from stdin')
    add("--agent", metavar="NAME", help="the agent, by its name in the configuration")
    add("--connection", metavar="NAME", help="run on this host of agents")
    add("--tag", metavar="TAG", action="append", default=[], dest="tags", help="run on a host with this tag (repeatable)")
    add("--cwd", metavar="DIR", help="the folder the agent works in (default: the current one)")
    add("--session", metavar="ID_OR_NAME", help="go on with this session")
    add("--mode", metavar="ID", help="the mode, as the agent names it")
    add("--model", metavar="ID", help="the model, as the agent names it")
    add("--effort", metavar="ID", help="the thinking effort, as the agent names it")
    add("--context", metavar="SPEC", action="append", default=[], dest="contexts", help="context to send along (repeatable)")
    _output_argument(parser, ("text", "json", "quiet"))
    add("--strict", action="store_true", help="keep stderr free of anything but JSON")
    add(
        "--permission",
        choices=("ask", "reject", "allow-once"),
        default="ask",
        help="what is answered when the agent asks leave; ask needs a terminal, without one it rejects (default: ask)",
    )
    add("--timeout", metavar="S", type=_seconds, help="cancel after so many seconds")
    add("--record", metavar="FILE", help="write the protocol traffic, without secrets, to FILE")
    add(
        "--forward",
        metavar="NAME",
        action="append",
        default=[],
        dest="forwards",
        help="send events to this forwarder (repeatable)",
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError("must be a number of seconds above 0")
    return seconds


def _run_options(chosen: argparse.Namespace, common: CommonOptions) -> RunOptions:
    return RunOptions(
        prompt=chosen.prompt,
        common=common,
        agent=chosen.agent,
        connection=chosen.connection,
        tags=tuple(chosen.tags),
        cwd=chosen.cwd,
        session=chosen.session,
        mode=chosen.mode,
        model=chosen.model,
        effort=chosen.effort,
        contexts=tuple(chosen.contexts),
        output=chosen.output,
        strict=chosen.strict,
        permission=chosen.permission,
        timeout=chosen.timeout,
        record=chosen.record,
        forwards=tuple(chosen.forwards),
    )


def _doctor_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--agent", metavar="NAME", help="check this agent only")
    parser.add_argument("--report", metavar="FILE", help="write a bug report without secrets to FILE")
    _output_argument(parser)


def _sessions_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--agent", metavar="NAME", help="ask this agent too")
    parser.add_argument("--cwd", metavar="DIR", help="only sessions of this folder")
    _output_argument(parser)


def _replay_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a record made by sidecar run --record")
    _output_argument(parser)


def _config_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", parser_class=_Parser, required=True)
    for action, summary in (
        ("schema", "print the JSON schema of the configuration"),
        ("show", "print the settings in force, without secrets"),
        ("check", "print what is wrong in the configuration file; exit code 2 when something is"),
    ):
        _output_argument(actions.add_parser(action, help=summary, description=summary, allow_abbrev=False))
    for action, summary in (
        ("set-secret", "keep a secret under a name; it is read from the terminal unseen, or from stdin"),
        ("delete-secret", "forget the secret kept under a name"),
    ):
        below = actions.add_parser(action, help=summary, description=summary, allow_abbrev=False)
        below.add_argument("name", metavar="NAME", help='the name in { secret = "NAME" }')


def _config_options(chosen: argparse.Namespace, common: CommonOptions) -> ConfigOptions:
    return ConfigOptions(chosen.action, common, getattr(chosen, "name", None), getattr(chosen, "output", "text"))


COMMANDS: Final = (
    Command("serve", "sidecar.app", "the language server", _serve_arguments, lambda _, common: ServeOptions(common)),
    Command("run", "sidecar.cli.run", "one prompt without an editor", _run_arguments, _run_options),
    Command(
        "demo", "sidecar.cli.demo", "the main job on the built-in agent", _no_arguments, lambda _, common: DemoOptions(common)
    ),
    Command(
        "doctor",
        "sidecar.cli.doctor",
        "check agents, versions, paths and editor files",
        _doctor_arguments,
        lambda chosen, common: DoctorOptions(common, chosen.agent, chosen.report, chosen.output),
    ),
    Command(
        "agents",
        "sidecar.cli.agents",
        "list the agents",
        _output_argument,
        lambda chosen, common: AgentsOptions(common, chosen.output),
    ),
    Command(
        "sessions",
        "sidecar.cli.sessions",
        "list the sessions",
        _sessions_arguments,
        lambda chosen, common: SessionsOptions(common, chosen.agent, chosen.cwd, chosen.output),
    ),
    Command(
        "replay",
        "sidecar.cli.replay",
        "show the sessions of a record",
        _replay_arguments,
        lambda chosen, common: ReplayOptions(chosen.file, common, chosen.output),
    ),
    Command("config", "sidecar.cli.config_command", "the configuration and its secrets", _config_arguments, _config_options),
)
