"""``sidecar doctor``: what has to be right for an agent to answer, checked and said in sentences."""

import functools
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anyio

from sidecar import __version__
from sidecar.cli.arguments import DoctorOptions
from sidecar.cli.checks import Check, worst
from sidecar.cli.doctor_agent import check_agent
from sidecar.cli.doctor_machine import check_machine, read_configuration
from sidecar.cli.output import write_text
from sidecar.cli.printing import print_json
from sidecar.config import state_directory
from sidecar.errors import ConfigFault
from sidecar.log import redact
from sidecar.session.lenient import texts_in
from sidecar.session.neutral import escape_controls

MARKS: Final = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}
LOG_LINES: Final = 100
EXIT_FAILED: Final = 1


def main(options: DoctorOptions) -> int:
    """Check, print, write the report; 0 when nothing failed, else 1."""
    checks = anyio.run(functools.partial(_check, options))
    if options.report is not None:
        write_report(options.report, checks)
    if options.output == "json":
        print_json({"version": __version__, "worst": worst(checks), "checks": [_cleaned(check.to_json()) for check in checks]})
    elif options.report is not None:
        write_text(f"The report is in {options.report}. Read it before you send it to anybody.\n")
    return EXIT_FAILED if worst(checks) == "fail" else 0


async def _check(options: DoctorOptions) -> list[Check]:
    show = options.output == "text"
    checks: list[Check] = [Check("sidecar", "ok", f"sidecar {__version__}, Python {platform.python_version()}, {sys.platform}")]
    configuration, found = read_configuration(options.common.config)
    checks += found
    for check in checks:
        _print(check, show)
    async for check in check_agent(configuration, options.agent or configuration.settings.agent):
        checks.append(check)
        _print(check, show)
    if options.agent is None:
        async for check in check_machine(configuration):
            checks.append(check)
            _print(check, show)
    return checks


def _print(check: Check, show: bool) -> None:
    if not show:
        return
    write_text("\n".join(_lines(check)) + "\n")


def _lines(check: Check) -> list[str]:
    first, *more = clean(check.told).split("\n")
    lines = [f"{MARKS[check.level]}  {check.area}: {first}", *(f"        {line}" for line in more)]
    return [*lines, f"        -> {clean(check.advice)}"] if check.advice else lines


def clean(text: str) -> str:
    """Return ``text`` without secrets, control characters, and the name of the user's home folder."""
    shown = redact(escape_controls(text))
    home = str(Path.home())
    return shown.replace(home, "~") if len(home) > 1 else shown


def _cleaned(shown: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: clean(value) if isinstance(value, str) else [clean(item) for item in texts_in(value)] for key, value in shown.items()
    }


def write_report(path: str, checks: Sequence[Check]) -> None:
    """Write a bug report for others to read: findings, versions, the end of the log; private (0600). Raises ``ConfigFault``."""
    lines = ["# sidecar bug report", "", f"platform: {platform.platform()}", ""]
    for check in checks:
        lines += _lines(check)
        lines += [f"        - {clean(detail)}" for detail in check.details]
    lines += ["", f"## The last lines of the log ({LOG_LINES} at most)", "", *_log_tail()]
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(Path(path).expanduser(), flags, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            if hasattr(os, "fchmod"):
                os.fchmod(descriptor, 0o600)
            file.write("\n".join(lines) + "\n")
    except OSError as error:
        raise ConfigFault(f"--report {path}: the file cannot be written: {error.strerror or 'input/output error'}") from None


def _log_tail() -> list[str]:
    """Return the end of the log, cleaned once more, and the names of crash reports."""
    state = state_directory()
    try:
        log = (state / "logs" / "sidecar.log").read_text(encoding="utf-8", errors="replace")
    except OSError:
        log = ""
    lines = [clean(line) for line in log.split("\n")[-LOG_LINES:] if line]
    crashes = sorted(path.name for path in (state / "crashes").glob("crash-*.txt")) if (state / "crashes").is_dir() else []
    return [*(lines or ["(empty)"]), *(f"crash report: {name}" for name in crashes)]
