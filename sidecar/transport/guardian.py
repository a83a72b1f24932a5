"""Guardian: ends an agent and everything it started once the agent has ended or the sidecar is gone.

It stands between the two in the process tree only; the agent inherits the pipes and nothing is copied. Started as a script in a
session of its own, with the standard library alone::

    python -I -S -E guardian.py FD TERM_GRACE KEEP LC_CTYPE -- PROGRAM ARGUMENT...

``FD`` is one end of a socket pair whose other end only the sidecar holds. Its end of file means that the sidecar is gone, a byte
that it asks for the end. Upwards go lines: ``spawned PID`` or ``spawn-error ENOENT``, then ``exit 7`` or ``signal 9``.
``TERM_GRACE`` is in seconds. ``KEEP`` is 1 when what the program leaves running may go on after it ended by itself.
``LC_CTYPE`` is ``=value`` as the sidecar gave it or ``-`` for none, because Python changes it at its own start.

Linux: descendants are found by parent ids over all of /proc (a thread's children file would miss what other threads started), and
a subreaper keeps those whose parents died. Elsewhere ``ps`` gives parent ids and a marker variable in the environment; a daemon
that drops it escapes.
"""

import contextlib
import errno
import os
import select
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import NamedTuple

MARKER = "SIDECAR_AGENT_TREE"
EOF_GRACE_SECONDS = 1.0
KILL_GRACE_SECONDS = 1.0
RESCAN_SECONDS = 0.02
PR_SET_CHILD_SUBREAPER = 36


class Process(NamedTuple):
    """One row of the process table. ``session`` is the process group where the system tells no session."""

    pid: int
    parent: int
    session: int
    alive: bool
    marked: bool = False


def become_subreaper() -> bool:
    """Make orphaned descendants ours (Linux); False where the system has no such thing."""
    if sys.platform != "linux":
        return False
    import ctypes

    return ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def process_table(marker: str = "") -> list[Process]:
    """Return all processes; ``marked`` is filled from ``marker`` only where /proc is missing."""
    if sys.platform == "linux":
        return _proc_table()
    own, text = _run_ps()
    return [row for row in parse_ps(text, marker) if row.pid != own]


def _proc_table() -> list[Process]:
    rows: list[Process] = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib is not imported here
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - as above
                    state, parent, _, session = file.read().rpartition(b")")[2].split()[:4]
            except (OSError, ValueError):
                continue
            rows.append(Process(int(name), int(parent), int(session), state not in {b"Z", b"X"}))
    return rows


def parse_ps(text: str, marker: str) -> list[Process]:
    """Read ``ps -o pid=,ppid=,pgid=,stat=,command=`` with environments shown; other lines are left out."""
    rows: list[Process] = []
    for line in text.splitlines():
        fields = line.split(None, 4)
        if len(fields) >= 4 and all(field.isdigit() for field in fields[:3]):
            marked = bool(marker) and len(fields) > 4 and f"{MARKER}={marker}" in fields[4]
            rows.append(Process(int(fields[0]), int(fields[1]), int(fields[2]), "Z" not in fields[3], marked))
    return rows


def _run_ps() -> tuple[int, str]:
    reading, writing = os.pipe()
    argv = ["/bin/ps", "-axEww", "-o", "pid=,ppid=,pgid=,stat=,command="]
    try:
        pid = os.posix_spawn(argv[0], argv, {}, file_actions=[(os.POSIX_SPAWN_DUP2, writing, 1)])
    except OSError:
        os.close(reading)
        return 0, ""
    finally:
        os.close(writing)
    with open(reading, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        text = file.read()
    os.waitpid(pid, 0)
    return pid, text.decode("utf-8", "replace")


def descendants(roots: Iterable[int], table: Iterable[Process]) -> list[int]:
    """Return the living processes below ``roots`` (themselves left out), and those marked with theirs."""
    children: dict[int, list[Process]] = {}
    todo, seen = list(roots), set(roots)
    found: list[int] = []
    for row in table:
        children.setdefault(row.parent, []).append(row)
    marked = [row for rows in children.values() for row in rows if row.marked]
    while todo or marked:
        rows = children.get(todo.pop(), []) if todo else [marked.pop()]
        for row in rows:
            if row.pid not in seen:
                seen.add(row.pid)
                todo.append(row.pid)
                if row.alive:
                    found.append(row.pid)
    return found


def send_signal(pids: Iterable[int], number: int) -> None:
    """Signal each process; those already gone, or of another user, are passed over."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            continue


class Guardian:
    """One agent process and its descendants."""

    def __init__(self, fd: int, term_grace: float, keep: bool) -> None:
        self.fd = fd
        self.term_grace = term_grace
        self.keep = keep
        self.marker = os.environ.get(MARKER, "")
        self.agent = 0
        self.ended = False

    def tell(self, line: str) -> None:
        """Write one status line; a sidecar that is gone cannot be told."""
        with contextlib.suppress(OSError):
            os.write(self.fd, line.encode() + b"\n")

    def spawn(self, argv: list[str], environment: Mapping[str, str]) -> bool:
        """Start the agent as leader of a session of its own; report how it went."""
        try:
            self.agent = os.posix_spawn(
                argv[0],
                argv,
                environment,
                setsid=True,
                setsigmask=[],
                setsigdef=[signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ],
            )
        except OSError as error:
            self.tell(f"spawn-error {errno.errorcode.get(error.errno or 0, 'EIO')}")
            return False
        self.tell(f"spawned {self.agent}")
        return True

    def reap(self) -> None:
        """Collect every child that ended; report the agent's own end once."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.agent:
                self.ended = True
                code = os.waitstatus_to_exitcode(status)
                self.tell(f"exit {code}" if code >= 0 else f"signal {-code}")

    def remaining(self) -> list[int]:
        """Return the living descendants of this moment: children born meanwhile and orphans just adopted included."""
        me = os.getpid()
        return [pid for pid in descendants([me], process_table(self.marker)) if pid != me]

    def end_tree(self) -> None:
        """TERM to each descendant once, then KILL until none is left or the grace is over."""
        asked: set[int] = set()
        for number, grace in ((signal.SIGTERM, self.term_grace), (signal.SIGKILL, KILL_GRACE_SECONDS)):
            deadline = time.monotonic() + grace
            while True:
                left = self.remaining()
                send_signal([pid for pid in left if number == signal.SIGKILL or pid not in asked], number)
                asked.update(left)
                self.reap()
                if not self.remaining():
                    self.reap()  # the last ones died after the look before
                    return
                if time.monotonic() >= deadline:
                    break
                time.sleep(RESCAN_SECONDS)

    def watch(self, signals: int) -> None:
        """Return once the tree has to end. A sidecar that is gone leaves the agent a moment to end by its own end of file."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        poll.register(signals, select.POLLIN)
        deadline: float | None = None
        while not self.ended:
            wait = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            ready = [fd for fd, _ in poll.poll(wait)]
            if signals in ready:
                seen = os.read(signals, 512)
                self.reap()
                if signal.SIGTERM in seen or signal.SIGHUP in seen:
                    return
            if self.fd in ready:
                if self.asked_to_end():
                    return
                poll.unregister(self.fd)
                deadline = time.monotonic() + EOF_GRACE_SECONDS
            if deadline is not None and time.monotonic() >= deadline:
                return

    def asked_to_end(self) -> bool:
        """Return True for a byte of the sidecar, False for its end."""
        try:
            return bool(os.read(self.fd, 1))
        except OSError:
            return False


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Let the signal wake the poll through the wakeup pipe."""


def _watch_signals() -> int:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _nothing)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return reading


def _let_go_of_the_pipes() -> None:
    """Leave the agent's pipes to the agent, so that their ends of file are its own, and hold no folder."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    os.chdir("/")


def main() -> int:
    """Run as described at the top of the file; the exit code carries no meaning."""
    fd, term_grace, keep, lc_ctype = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "1", sys.argv[4]
    os.set_inheritable(fd, False)
    environment = dict(os.environ)
    environment.pop("LC_CTYPE", None)
    if lc_ctype.startswith("="):
        environment["LC_CTYPE"] = lc_ctype[1:]
    become_subreaper()
    signals = _watch_signals()
    guardian = Guardian(fd, term_grace, keep)
    if not guardian.spawn(sys.argv[6:], environment):
        return 127
    _let_go_of_the_pipes()
    guardian.watch(signals)
    if not (guardian.ended and guardian.keep):
        guardian.end_tree()
    return 0


if __name__ == "__main__":
    sys.exit(main())
