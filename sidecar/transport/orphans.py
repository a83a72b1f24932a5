"""When a guardian was killed: its tree came to us, because the sidecar is a subreaper too (Linux), and is ended here."""

import contextlib
import os
import signal
import sys
from collections.abc import Sequence

import anyio

from sidecar.transport.exits import ExitStatus
from sidecar.transport.guardian import MARKER, RESCAN_SECONDS, Process, descendants, process_table, send_signal

SWEEP_SECONDS = 1.0


async def end_orphans(agent: int, marker: str) -> ExitStatus | None:
    """KILL what is left of the tree of ``agent`` (its pid), in at most ``SWEEP_SECONDS``.

    Returns how the agent itself ended, when that became ours to know.
    """
    status: ExitStatus | None = None
    with anyio.move_on_after(SWEEP_SECONDS):
        while True:
            table = process_table(marker)
            roots = _roots(table, agent, marker)
            send_signal(
                [*descendants(roots, table), *(row.pid for row in table if row.pid in roots and row.alive)], signal.SIGKILL
            )
            for pid in roots:
                ended = _collect(pid)
                if pid == agent and ended is not None:
                    status = ended
            if not roots:
                return status
            await anyio.sleep(RESCAN_SECONDS)
    return status


def _roots(table: Sequence[Process], agent: int, marker: str) -> list[int]:
    """Return our children that belong to the agent: itself, of its session, or carrying its marker; no others."""
    if sys.platform != "linux":
        return [row.pid for row in table if row.pid == agent or row.marked or row.session == agent]
    me = os.getpid()
    return [row.pid for row in table if row.parent == me and (agent in {row.pid, row.session} or _carries(row.pid, marker))]


def _carries(pid: int, marker: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - a fixed file of the system
            return f"{MARKER}={marker}\0".encode() in file.read()
    except OSError:
        return False


def _collect(pid: int) -> ExitStatus | None:
    """Take the exit status of a child of ours that ended; never waits, never touches other children."""
    with contextlib.suppress(ChildProcessError):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            return ExitStatus(code) if code >= 0 else ExitStatus(None, -code)
    return None
