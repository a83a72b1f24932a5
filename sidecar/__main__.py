"""The command ``sidecar``: arguments only. The language server is reached without loading anything of the other commands."""

import sys
from collections.abc import Sequence
from pathlib import Path

from sidecar.cli.common import CommonOptions, ServeOptions, is_serve, split_common
from sidecar.errors import ConfigFault, SidecarError, Unavailable

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_CANCELLED = 3
EXIT_UNAVAILABLE = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 2 is wrong usage or configuration, told in one sentence on stderr."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        return _dispatch(words)
    except ConfigFault as error:
        return _tell(error, EXIT_USAGE, strict="--strict" in words)
    except Unavailable as error:
        return _tell(error, EXIT_UNAVAILABLE, strict="--strict" in words)
    except SidecarError as error:
        return _tell(error, EXIT_FAILED, strict="--strict" in words)
    except KeyboardInterrupt:
        return EXIT_CANCELLED
    except BrokenPipeError:
        # Whoever read our output has gone; flushing at exit would fail again.
        sys.stdout = None
        return EXIT_FAILED


def _dispatch(words: Sequence[str]) -> int:
    common, rest = split_common(words)
    if is_serve(rest):
        return _serve(ServeOptions(common))
    import gc  # each command loads its own world only
    import importlib  # each command loads its own world only

    from sidecar.cli.parser import parse

    chosen = parse(rest, common)
    if isinstance(chosen.options, ServeOptions):
        return _serve(chosen.options)
    _start_log(common, strict="--strict" in rest)
    gc.disable()  # nothing made while importing is garbage
    command = importlib.import_module(chosen.module)
    gc.enable()
    code: int = command.main(chosen.options)
    return code


def _serve(options: ServeOptions) -> int:
    _start_log(options.common)
    from sidecar.app import serve  # after the log, so that a failing import is told

    return serve(options)


def _start_log(common: CommonOptions, *, strict: bool = False) -> None:
    from sidecar import log  # --help and --version need none
    from sidecar.config.paths import state_directory

    state = state_directory()
    log.set_up(
        level=common.log_level,
        file=Path(common.log_file).expanduser().absolute() if common.log_file else None,
        fallback_file=state / "logs" / "sidecar.log",
        crash_directory=state / "crashes",
        say=_say_as_json if strict else None,
    )


def _tell(error: SidecarError, code: int, *, strict: bool) -> int:
    """Say what is wrong on stderr, as one JSON object when ``strict``."""
    from sidecar.cli.render import tell_as_json, tell_on_stderr  # only when something is wrong

    (tell_as_json if strict else tell_on_stderr)("error", error.message)
    return code


def _say_as_json(line: str) -> None:
    from sidecar.cli.render import tell_as_json  # as above

    tell_as_json("error", line)


if __name__ == "__main__":
    sys.exit(main())
