"""The language server as a process: its standard streams, signals, start and end.

Exit code 0 after shutdown and exit, 1 when the editor's end closes or a signal comes, also while standard input stays open and
tasks run. The end is bounded: what has not cleaned up by then is left to the operating system.
"""

import asyncio
import contextlib
import gc
import logging
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NoReturn

import attrs

from sidecar.errors import SidecarBug

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from sidecar.editor.front_door import FrontDoor
    from sidecar.editor.ports import EditorApp

READ_BYTES: Final = 65536
READS_AHEAD: Final = 2
SHUTDOWN_GRACE_SECONDS: Final = 2.0
EXIT_LIMIT_SECONDS: Final = 5.0
"""From the first sign of the end to the end, whatever hangs."""

_SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK") if hasattr(signal, name))

_log = logging.getLogger(__name__)


@attrs.frozen
class Stdio:
    """The file descriptors the editor speaks on."""

    input: int = 0
    output: int = 1


def take_stdio() -> Stdio:
    """Keep the editor's streams for the protocol alone.

    Standard input becomes empty and standard output leads to standard error, for us and for every child: nothing but LSP can
    get on the wire, and nobody else eats from it.
    """
    stdio = Stdio(os.dup(0), os.dup(1))
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(stdio.input, os.O_BINARY)
        msvcrt.setmode(stdio.output, os.O_BINARY)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without a standard error
        os.dup2(null, 1)
    os.close(null)
    return stdio


class Watchdog:
    """Ends the process ``EXIT_LIMIT_SECONDS`` after the end began, even when the loop does not run any more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._armed = False

    def arm(self, code: int) -> None:
        """Start the clock; only the first call counts. From any thread."""
        with self._lock:
            if self._armed:
                return
            self._armed = True
        timer = threading.Timer(EXIT_LIMIT_SECONDS, os._exit, (code,))
        timer.daemon = True
        timer.start()


async def serve(app: "EditorApp", stdio: Stdio | None = None, watchdog: Watchdog | None = None) -> int:
    """Serve one editor until it is over and return the exit code. ``app.aclose`` is called last, within bounds."""
    import anyio

    from sidecar.editor.lsp_types import load_lsp_types

    load_lsp_types()  # first, or pygls does it in its way
    from sidecar.editor.front_door import FrontDoor
    from sidecar.editor.writer import FrameWriter

    stdio = stdio or Stdio()
    loop = asyncio.get_running_loop()

    def on_loop(act: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
            loop.call_soon_threadsafe(act)

    async with anyio.create_task_group() as tasks:
        door = FrontDoor(app, tasks)
        writer = FrameWriter(stdio.output, on_loop, lambda: door.end(1))
        door.attach(writer)
        gc.freeze()
        gc.enable()
        _end_on_signals(loop, door)
        _start_reader(stdio.input, door, on_loop, watchdog)
        await door.ended.wait()
        if watchdog is not None:
            watchdog.arm(door.exit_code)
        tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True), anyio.move_on_after(SHUTDOWN_GRACE_SECONDS):
            await app.aclose()
        writer.flush()
        return door.exit_code
    raise SidecarBug("the front door was left before it ended")


def run(factory: "Callable[[TaskGroup], EditorApp]") -> NoReturn:
    """Be the language server: take the standard streams, serve the application ``factory`` makes, exit the process.

    ``factory`` gets the task group that owns everything the application starts; it is cancelled when the editor is gone.
    """
    gc.disable()  # nothing made while importing is garbage
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _exit_at_once)
    stdio = take_stdio()
    watchdog = Watchdog()
    code = 1
    try:
        import anyio

        code = anyio.run(_main, factory, stdio, watchdog)
    except BaseException:  # noqa: BLE001  the end of the process, whatever ended it
        _log.exception("the sidecar failed")
        with contextlib.suppress(OSError):
            os.write(2, b"sidecar: ended by an error of its own; see its log\n")
    finally:
        logging.shutdown()
        os._exit(code)


async def _main(factory: "Callable[[TaskGroup], EditorApp]", stdio: Stdio, watchdog: Watchdog) -> int:
    import anyio

    code = 1
    async with anyio.create_task_group() as tasks:
        code = await serve(factory(tasks), stdio, watchdog)
        tasks.cancel_scope.cancel()
    return code


def _exit_at_once(*_: object) -> None:
    os._exit(1)


def _end_on_signals(loop: asyncio.AbstractEventLoop, door: "FrontDoor") -> None:
    """End the door on a signal; one that the parent had us ignore (nohup) stays ignored."""
    for number in _SIGNALS:
        if signal.getsignal(number) is signal.SIG_IGN:
            continue
        if sys.platform == "win32":
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(door.end, 1))
        else:
            loop.add_signal_handler(number, door.end, 1)


def _start_reader(fd: int, door: "FrontDoor", on_loop: Callable[[Callable[[], None]], None], watchdog: Watchdog | None) -> None:
    """Read ``fd`` in blocks on a daemon thread; at most ``READS_AHEAD`` blocks wait for the loop."""
    credit = threading.Semaphore(READS_AHEAD)

    def deliver(data: bytes) -> None:
        credit.release()
        door.feed(data)

    def pump() -> None:
        data = b"-"
        while data:
            credit.acquire()
            data = _read_block(fd)
            on_loop(lambda data=data: deliver(data))
        if watchdog is not None:
            watchdog.arm(1)

    threading.Thread(target=pump, name="editor reader", daemon=True).start()


def _read_block(fd: int) -> bytes:
    """Return the next bytes of ``fd``, ``b""`` at its end or when it cannot be read any more."""
    while True:
        try:
            return os.read(fd, READ_BYTES)
        except BlockingIOError:  # the other side of a shared file description made it non-blocking
            select.select([fd], [], [])
        except OSError:
            return b""
