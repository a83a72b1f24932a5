"""Starting processes: the only place that does. Agents with their whole tree, and single commands run to their end.

Nothing guarded here outlives the sidecar (see ``guardian.py`` and ``windows.py``); every start and every wait is bounded.
"""

import asyncio
import contextlib
import errno
import functools
import io
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, cast

import anyio
import anyio.to_thread
import attrs
from anyio.abc import TaskGroup

from sidecar.errors import SidecarBug, Unavailable
from sidecar.transport import guardian
from sidecar.transport.child import TERM_GRACE_SECONDS, AgentProcess, Child, Launch
from sidecar.transport.exits import ExitStatus, describe_exit, spawn_failure
from sidecar.transport.pipes import ErrorTail, GuardianStatus, InputPipe, OutputPipe
from sidecar.transport.programs import SHIM_LIMIT_BYTES, SHIM_SUFFIXES, resolve_program, unwrap_shim

__all__ = [
    "AgentProcess",
    "Completed",
    "ExitStatus",
    "Launch",
    "describe_exit",
    "resolve_program",
    "run_once",
    "run_opener",
    "start_agent",
    "start_terminal",
]

OUTPUT_PIPE_BYTES = 256 * 1024
OUTPUT_LIMIT_BYTES = 4 * 1024 * 1024
TERMINAL_SIZE = (40, 120)
"""Lines and columns told to a program on a pseudo-terminal."""


@attrs.frozen
class Completed:
    """How a command ended. ``stdout`` holds at most ``OUTPUT_LIMIT_BYTES``; ``stderr`` is the redacted tail.

    ``timed_out``: it was ended, or left running, after its time.
    """

    status: ExitStatus
    stdout: bytes = attrs.field(repr=False)
    stderr: str = attrs.field(repr=False)
    truncated: bool = False
    timed_out: bool = False


async def start_agent(launch: Launch, task_group: TaskGroup) -> AgentProcess:
    """Start the agent; its supervision belongs to ``task_group``, whose cancellation ends the whole tree.

    Raises Unavailable, in words for the user, when the program or its folder cannot be used.
    """
    return await _start(launch, task_group, terminal=False)


async def start_terminal(launch: Launch, task_group: TaskGroup) -> AgentProcess:
    """Start a command whose output (both kinds, in order) is received from a pseudo-terminal where the platform has one.

    Its input is empty and it has no controlling terminal, since nobody could type: what would ask for a password fails at once.
    Line ends come as the program wrote them. Otherwise as ``start_agent``.
    """
    return await _start(launch, task_group, terminal=True)


async def _start(launch: Launch, task_group: TaskGroup, *, terminal: bool) -> AgentProcess:
    child: Child | None = None
    try:
        with anyio.CancelScope(shield=True):
            child = await (_start_in_job(launch, terminal) if sys.platform == "win32" else _start_guarded(launch, terminal))
    except (OSError, ValueError) as error:
        raise _refused(launch, error) from error
    if child is None:
        raise SidecarBug(f"{launch.name} was started without leaving a process")
    process = AgentProcess(launch, child)
    task_group.start_soon(process.supervise)
    try:
        await process.started()
    except BaseException:
        await process.stop(grace=0)
        raise
    return process


async def run_once(
    argv: Sequence[str],
    *,
    timeout: float,  # noqa: ASYNC109 - reaching it is a result here, not a cancellation
    cwd: str,
    env: Mapping[str, str],
    stdin: bytes | None = None,
) -> Completed:
    """Run a command to its end: argv only, no shell, for at most ``timeout`` seconds, then its tree is ended.

    What it leaves running after its own end goes on. Raises Unavailable when it cannot be started.
    """
    launch = Launch(argv=argv, cwd=cwd, env=env, name=os.path.basename(argv[0]), keep_descendants=True)  # noqa: PTH119 - a label
    outcome: Completed | Unavailable = Unavailable(f"{launch.name} was not run")
    async with anyio.create_task_group() as task_group:
        try:
            process = await start_agent(launch, task_group)
        except Unavailable as error:
            outcome = error
        else:
            outcome = await _collect(process, stdin or b"", timeout)
    if isinstance(outcome, Unavailable):
        raise outcome
    return outcome


async def _collect(process: AgentProcess, stdin: bytes, timeout: float) -> Completed:  # noqa: ASYNC109 - as above
    output = bytearray()
    truncated = False
    process.write(stdin)
    process.finish_input()
    with anyio.move_on_after(timeout) as limit:
        while block := await process.receive():
            truncated = truncated or len(output) + len(block) > OUTPUT_LIMIT_BYTES
            output += block[: OUTPUT_LIMIT_BYTES - len(output)]
        await process.exit
    if limit.cancelled_caught:
        await process.stop(grace=0)
    return Completed(await process.exit, bytes(output), process.stderr_tail(), truncated, limit.cancelled_caught)


async def run_opener(argv: Sequence[str], *, timeout: float, cwd: str, env: Mapping[str, str]) -> Completed:  # noqa: ASYNC109 - as above
    """Run a command that may become the browser itself: without pipes, not guarded, left running after ``timeout`` seconds.

    Raises Unavailable when it cannot be started.
    """
    launch = Launch(argv=argv, cwd=cwd, env=env, name=os.path.basename(argv[0]))  # noqa: PTH119 - a label
    null = subprocess.DEVNULL
    try:
        popen = subprocess.Popen(  # noqa: ASYNC220 - returns after the exec, milliseconds
            launch.argv, cwd=launch.cwd, env=launch.env, stdin=null, stdout=null, stderr=null, start_new_session=True
        )
    except (OSError, ValueError) as error:
        raise _refused(launch, error) from error
    _left_running[:] = [other for other in _left_running if other.poll() is None] + [popen]
    try:
        code = await anyio.to_thread.run_sync(functools.partial(popen.wait, timeout), abandon_on_cancel=True)
    except subprocess.TimeoutExpired:
        return Completed(ExitStatus(None), b"", "", timed_out=True)
    return Completed(ExitStatus(code) if code >= 0 else ExitStatus(None, -code), b"", "")


_left_running: list["subprocess.Popen[bytes]"] = []
"""Openers still running; kept so that their end is collected at the next call."""

_become_subreaper = functools.cache(guardian.become_subreaper)


async def _start_guarded(launch: Launch, terminal: bool) -> Child:
    _become_subreaper()
    marker = secrets.token_hex(8)
    screen, their_screen = _open_screen() if terminal else (None, None)
    ours, theirs = socket.socketpair()
    with theirs, their_screen or contextlib.nullcontext():
        output = subprocess.PIPE if their_screen is None else their_screen
        try:
            popen = subprocess.Popen(  # noqa: ASYNC220 - as above
                [*_guardian_argv(launch, theirs.fileno()), *launch.argv],
                cwd=launch.cwd,
                env={**launch.env, guardian.MARKER: marker},
                stdin=subprocess.DEVNULL if terminal else subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT if terminal else subprocess.PIPE,
                bufsize=0,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            if screen is not None:
                screen.close()
            raise
    _widen(popen.stdout)
    ours.setblocking(False)
    status = GuardianStatus()
    await asyncio.get_running_loop().create_connection(lambda: status, sock=ours)
    return await _connect(popen, status, marker, screen)


def _widen(output: IO[bytes] | None) -> None:
    """Let the agent write further ahead of us: fewer and larger reads. Refused or unknown, the pipe stays as it is."""
    if sys.platform == "linux" and output is not None:
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.fcntl(output.fileno(), fcntl.F_SETPIPE_SZ, OUTPUT_PIPE_BYTES)


def _open_screen() -> tuple[IO[bytes] | None, IO[bytes] | None]:
    """Return both ends of a pseudo-terminal that leaves line ends alone, ours first; two None where there is none to be had."""
    import termios

    try:
        master, slave = os.openpty()
    except OSError:
        return None, None
    try:
        modes = termios.tcgetattr(slave)
        modes[1] &= ~termios.ONLCR
        termios.tcsetattr(slave, termios.TCSANOW, modes)
        termios.tcsetwinsize(slave, TERMINAL_SIZE)
    except termios.error:
        os.close(master)
        os.close(slave)
        return None, None
    return io.FileIO(master, "rb"), io.FileIO(slave, "wb")


def _guardian_argv(launch: Launch, fd: int) -> list[str]:
    """Return the guardian's command line up to the agent's own argv; the base interpreter needs no virtual environment."""
    python = os.path.realpath(sys.executable)
    lc_ctype = f"={launch.env['LC_CTYPE']}" if "LC_CTYPE" in launch.env else "-"
    keep = "1" if launch.keep_descendants else "0"
    return [python, "-I", "-S", "-E", guardian.__file__, str(fd), str(TERM_GRACE_SECONDS), keep, lc_ctype, "--"]


async def _start_in_job(launch: Launch, terminal: bool) -> Child:
    """Windows; see ``windows.py``. Shims are unwrapped here, since nothing else could start them without a shell."""
    from asyncio import windows_utils

    from sidecar.transport import windows

    popen = cast(
        "subprocess.Popen[bytes]",
        windows_utils.Popen(  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - typed on Windows only
            _without_shim(launch),
            cwd=launch.cwd,
            env=launch.env,
            stdin=subprocess.DEVNULL if terminal else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if terminal else subprocess.PIPE,
            bufsize=0,
            creationflags=windows.CREATE_SUSPENDED | windows.CREATE_NO_WINDOW,
        ),
    )
    try:
        status = windows.JobStatus(popen, launch.keep_descendants)  # pyright: ignore - as above
    except OSError:
        popen.kill()
        raise
    return await _connect(popen, cast("GuardianStatus", status), "", None)


def _without_shim(launch: Launch) -> list[str]:
    program = launch.argv[0]
    if not program.lower().endswith(SHIM_SUFFIXES):
        return list(launch.argv)
    with open(program, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - a bounded read
        text = file.read(SHIM_LIMIT_BYTES)
    find = functools.partial(resolve_program, path=launch.env.get("PATH", ""), forbidden=[launch.cwd])
    return [*unwrap_shim(program, text, find=find), *launch.argv[1:]]


async def _connect(popen: "subprocess.Popen[bytes]", status: GuardianStatus, marker: str, screen: IO[bytes] | None) -> Child:
    loop = asyncio.get_running_loop()
    stdin, stdout, stderr = InputPipe(), OutputPipe(), ErrorTail()
    if popen.stdin is not None:
        await loop.connect_write_pipe(lambda: stdin, popen.stdin)
    await loop.connect_read_pipe(lambda: stdout, screen or cast("IO[bytes]", popen.stdout))
    if popen.stderr is None:
        stderr.abort()
    else:
        await loop.connect_read_pipe(lambda: stderr, popen.stderr)
    return Child(popen, marker, stdin, stdout, stderr, status)


def _refused(launch: Launch, error: OSError | ValueError) -> Unavailable:
    if not isinstance(error, OSError):
        return Unavailable(f"{launch.name} could not be started: its command, folder or environment holds a NUL character")
    reason = errno.errorcode.get(error.errno or 0, "EIO")
    if error.filename == launch.cwd:
        return Unavailable(f"{launch.name} could not be started: its working folder {launch.cwd} cannot be used ({reason})")
    if reason == "ENOENT" and error.filename == os.path.realpath(sys.executable):
        return Unavailable(f"{launch.name} could not be started: the sidecar's own Python {error.filename} is gone; reinstall it")
    return spawn_failure(launch.name, launch.argv, reason)
