"""Shell lines: asked about first, then run in the client's terminal, or by a few harmless commands built in."""

import re
import shlex
from pathlib import Path
from typing import Final

import anyio
import attrs

from sidecar.codec import encode
from sidecar.demo.consent import Operation, allowed
from sidecar.demo.turn import Tool, Turn
from sidecar.demo.wire import Json, object_at, tool_text
from sidecar.errors import AgentFault, Unavailable

SEPARATORS: Final = re.compile(r"\s*(?:&&|\|\||;|\n)\s*")
UNUSUAL: Final = re.compile(r"[^\w\s./:=,+@%'\"*-]")
"""Anything but plain words: substitution, pipes, redirection … A pattern over such a part could cover more than it shows."""

BUILT_IN: Final = "echo TEXT, pwd, ls, true, false, seq N, sleep N"
MAX_SEQUENCE: Final = 100_000
MAX_SLEEP_SECONDS: Final = 60.0
MAX_LISTED: Final = 200
OUTPUT_LIMIT_BYTES: Final = 200_000
KILL_GRACE_SECONDS: Final = 2.0
NOT_FOUND: Final = 127
USAGE: Final = 2


@attrs.frozen
class Outcome:
    """What a line printed, and its exit code (None: it was ended by a signal)."""

    output: str
    exit_code: int | None


def parts_of(line: str) -> list[str]:
    """Return the commands of ``line``: split at ``&&``, ``||``, ``;`` and line feeds, quotes or not, so never too few."""
    return [part for part in SEPARATORS.split(line.strip()) if part]


def no_rule_reason(line: str) -> str:
    """Return why no rule can be kept for ``line``, or an empty string."""
    unusual = sorted({match for part in parts_of(line) for match in UNUSUAL.findall(part)})
    return f"the line holds {' '.join(unusual)}, so a rule could allow more than it shows" if unusual else ""


async def run_line(turn: Turn, line: str) -> Outcome | None:
    """Ask for ``line`` and run it; return None when it was denied. The frames are those of Kiro V3's shell tool."""
    raw: Json = {"command": line, "cwd": turn.session.cwd}
    tool = turn.open_tool("run_command", "Run Command", kind="execute", rawInput=raw)
    tool.update(title=line)
    operation = Operation("shell", parts_of(line), no_rule_reason(line), {"command": line})
    if not await allowed(turn, tool, operation):
        tool.fail("denied", "You did not allow this line.")
        return None
    tool.update(status="in_progress")
    tool.update(status="in_progress")
    outcome = await (_run_in_terminal(turn, tool, line) if turn.link.features.terminal else _run_built_in(turn, line))
    result: Json = {"output": outcome.output, "exitCode": outcome.exit_code}
    message = f"exit code {outcome.exit_code}"
    content = [] if turn.link.features.terminal else [tool_text(encode(result).decode("ascii"))]
    tool.complete(rawOutput={**result, "message": message}, **({"content": content} if content else {}))
    return outcome


async def _run_in_terminal(turn: Turn, tool: Tool, line: str) -> Outcome:
    """Run ``line`` in a terminal of the client, which gets the whole line as the command (Kiro V3 frame orders, fact 9)."""
    session_id = turn.session.session_id
    created = await turn.link.request(
        "terminal/create", sessionId=session_id, command=line, cwd=turn.session.cwd, outputByteLimit=OUTPUT_LIMIT_BYTES
    )
    terminal_id = object_at(created).get("terminalId")
    if not isinstance(terminal_id, str):
        return Outcome("the client gave no terminal id", NOT_FOUND)
    same: Json = {"sessionId": session_id, "terminalId": terminal_id}
    try:
        tool.update(content=[{"type": "terminal", "terminalId": terminal_id}])
        ended = object_at(await turn.link.request("terminal/wait_for_exit", **same))
        output = object_at(await turn.link.request("terminal/output", **same)).get("output")
    except BaseException:
        await _quietly(turn, "terminal/kill", same)
        raise
    finally:
        await _quietly(turn, "terminal/release", same)
    code = ended.get("exitCode")
    return Outcome(output if isinstance(output, str) else "", code if isinstance(code, int) else None)


async def _quietly(turn: Turn, method: str, params: Json) -> None:
    """Clean up even while the turn is being cancelled; a client that has forgotten the terminal is fine."""
    with anyio.move_on_after(KILL_GRACE_SECONDS, shield=True):
        try:
            await turn.link.request(method, **params)
        except (AgentFault, Unavailable):
            return


async def _run_built_in(turn: Turn, line: str) -> Outcome:
    """Run the parts of ``line`` one after the other until one fails."""
    printed: list[str] = []
    for part in parts_of(line):
        outcome = await _run_part(part, Path(turn.session.cwd))
        printed.append(outcome.output)
        if outcome.exit_code != 0:
            return Outcome("".join(printed), outcome.exit_code)
    return Outcome("".join(printed), 0)


async def _run_part(part: str, cwd: Path) -> Outcome:
    try:
        name, *arguments = shlex.split(part)
    except ValueError as error:
        return Outcome(f"demo: {error}\n", USAGE)
    number = _small_number(arguments)
    outcome = Outcome(f"demo: no '{name}' with these arguments; there are: {BUILT_IN}\n", NOT_FOUND)
    match name:
        case "echo":
            outcome = Outcome(" ".join(arguments) + "\n", 0)
        case "true" | "false":
            outcome = Outcome("", 0 if name == "true" else 1)
        case "pwd" if not arguments:
            outcome = Outcome(f"{cwd}\n", 0)
        case "ls" if not arguments:
            outcome = _list(cwd)
        case "seq" if number is not None:
            outcome = Outcome("".join(f"{count}\n" for count in range(1, number + 1)), 0)
        case "sleep" if number is not None:
            await anyio.sleep(min(number, MAX_SLEEP_SECONDS))
            outcome = Outcome("", 0)
        case _:
            pass
    return outcome


def _small_number(arguments: list[str]) -> int | None:
    """Return the only argument as a number, or None when it is none or too large."""
    if len(arguments) != 1 or not arguments[0].isdecimal() or len(arguments[0]) > len(str(MAX_SEQUENCE)):
        return None
    return min(int(arguments[0]), MAX_SEQUENCE)


def _list(cwd: Path) -> Outcome:
    try:
        names = sorted(entry.name for entry in cwd.iterdir())
    except OSError as error:
        return Outcome(f"ls: {error.strerror}\n", USAGE)
    return Outcome("".join(f"{name}\n" for name in names[:MAX_LISTED]), 0)
