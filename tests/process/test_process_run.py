"""Single commands: run to their end, bounded in time and output, with no shell in between."""

import os
import signal
import sys
import time
from pathlib import Path

import anyio
import pytest

from sidecar.errors import Unavailable
from sidecar.transport.process import OUTPUT_LIMIT_BYTES, ExitStatus, run_once, run_opener
from tests.process.trees import TAG, forest, left_after, marked

pytestmark = [pytest.mark.process, pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")]

WAIT_SECONDS = 5.0


def python(script: str) -> list[str]:
    return [sys.executable, "-c", script]


async def test_output_error_output_and_exit_code_come_back() -> None:
    script = "import sys; print(sys.stdin.read().upper(), end=''); print('why', file=sys.stderr); sys.exit(3)"
    done = await run_once(python(script), timeout=WAIT_SECONDS, cwd="/", env=os.environ, stdin=b"in\n" * 100000)
    assert (done.status, done.stdout, done.stderr) == (ExitStatus(3), b"IN\n" * 100000, "why\n")
    assert (done.truncated, done.timed_out) == (False, False)


async def test_a_command_that_reads_finds_the_end_of_its_input_at_once() -> None:
    done = await run_once(["/bin/cat"], timeout=WAIT_SECONDS, cwd="/", env={})
    assert (done.status, done.stdout) == (ExitStatus(0), b"")


async def test_a_command_that_does_not_read_its_input_still_ends() -> None:
    done = await run_once(["/bin/echo", "x"], timeout=WAIT_SECONDS, cwd="/", env={}, stdin=b"y" * 10_000_000)
    assert (done.status, done.stdout) == (ExitStatus(0), b"x\n")


async def test_arguments_are_arguments_whatever_they_hold(tmp_path: Path) -> None:
    hostile = ["$(touch pwn)", "`touch pwn`", ";touch pwn", "-n", "a b", "%action", "é\n"]
    script = "import sys; print(ascii(sys.argv[1:]), end='')"
    done = await run_once([*python(script), *hostile], timeout=WAIT_SECONDS, cwd=str(tmp_path), env=os.environ)
    assert done.stdout.decode() == ascii(hostile)
    assert not (tmp_path / "pwn").exists()


async def test_a_command_over_its_time_is_ended_with_its_tree() -> None:
    tag = f"run-{os.getpid()}-{time.monotonic_ns()}"
    began = time.monotonic()
    done = await run_once(
        [*python(forest(tag)), "stubborn"], timeout=0.5, cwd="/", env={**os.environ, TAG: tag}, stdin=b"text the tree sees\n"
    )
    assert done.timed_out
    assert time.monotonic() - began < WAIT_SECONDS
    assert marked(tag) == []


async def test_output_over_the_limit_is_cut_and_the_command_still_ends_well() -> None:
    script = f"import os\nfor _ in range({OUTPUT_LIMIT_BYTES // 65536 * 2}): os.write(1, b'x' * 65536)"
    done = await run_once(python(script), timeout=WAIT_SECONDS, cwd="/", env=os.environ)
    assert (done.status, len(done.stdout), done.truncated) == (ExitStatus(0), OUTPUT_LIMIT_BYTES, True)


async def test_a_daemon_the_command_leaves_behind_neither_delays_it_nor_is_ended() -> None:
    tag = f"run-{os.getpid()}-{time.monotonic_ns()}"
    leaves = "import os,time\nif os.fork(): os.write(1, b'started')\nelse: os.setsid(); time.sleep(60)"
    began = time.monotonic()
    done = await run_once(python(leaves), timeout=WAIT_SECONDS, cwd="/", env={**os.environ, TAG: tag})
    assert time.monotonic() - began < 2.0
    assert (done.status, done.stdout) == (ExitStatus(0), b"started")
    (daemon,) = marked(tag)
    os.kill(daemon, signal.SIGKILL)
    os.waitpid(daemon, 0)  # noqa: ASYNC222 - it was killed


async def test_a_missing_command_is_unavailable_and_not_wrapped() -> None:
    with pytest.raises(Unavailable, match="absent could not be started"):
        await run_once(["/no/such/absent"], timeout=WAIT_SECONDS, cwd="/", env={})
    with pytest.raises(Unavailable, match="absent could not be started"):
        await run_opener(["/no/such/absent"], timeout=WAIT_SECONDS, cwd="/", env={})


async def test_a_cancelled_command_is_ended() -> None:
    tag = f"run-{os.getpid()}-{time.monotonic_ns()}"
    with anyio.move_on_after(0.3) as scope:
        await run_once(python("import time; time.sleep(60)"), timeout=60, cwd="/", env={**os.environ, TAG: tag})
    assert scope.cancelled_caught
    assert marked(tag) == []


async def test_the_end_of_an_opener_is_known() -> None:
    assert (await run_opener(["/bin/true"], timeout=WAIT_SECONDS, cwd="/", env={})).status == ExitStatus(0)
    failed = await run_opener(["/bin/sh", "-c", "exit 4"], timeout=WAIT_SECONDS, cwd="/", env={})
    assert (failed.status, failed.timed_out) == (ExitStatus(4), False)


async def test_an_opener_that_became_the_browser_is_left_alone() -> None:
    tag = f"run-{os.getpid()}-{time.monotonic_ns()}"
    script = "import os,time\nopen('/dev/null').close(); time.sleep(60)"
    began = time.monotonic()
    done = await run_opener(python(script), timeout=0.3, cwd="/", env={**os.environ, TAG: tag})
    assert time.monotonic() - began < 2.0
    assert (done.status, done.timed_out) == (ExitStatus(None), True)
    (browser,) = marked(tag)
    assert os.getsid(browser) == browser
    os.kill(browser, signal.SIGKILL)
    await run_opener(["/bin/true"], timeout=WAIT_SECONDS, cwd="/", env={})
    assert left_after(tag) == []
