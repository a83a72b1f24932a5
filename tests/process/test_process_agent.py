"""A real agent process: its pipes, its end and what is told about it."""

import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskGroup

from sidecar.errors import Unavailable
from sidecar.transport import guardian
from sidecar.transport.pipes import READ_AHEAD_BYTES, STDERR_TAIL_BYTES
from sidecar.transport.process import AgentProcess, ExitStatus, Launch, start_agent

pytestmark = [pytest.mark.process, pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")]

WAIT_SECONDS = 5.0
MEGABYTE = 1024 * 1024


async def start(tasks: TaskGroup, script: str, *, env: Mapping[str, str] | None = None) -> AgentProcess:
    argv = [sys.executable, "-c", script]
    return await start_agent(Launch(argv=argv, cwd="/", env=os.environ if env is None else env, name="test agent"), tasks)


async def everything(process: AgentProcess) -> bytes:
    blocks: list[bytes] = []
    with anyio.fail_after(WAIT_SECONDS):
        while block := await process.receive():
            blocks.append(block)
    return b"".join(blocks)


async def line(process: AgentProcess) -> bytes:
    data = b""
    with anyio.fail_after(WAIT_SECONDS):
        while not data.endswith(b"\n"):
            data += await process.receive()
    return data


def script(folder: Path, text: str, mode: int = 0o755) -> str:
    path = folder / "agent"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


async def refusal(argv: list[str], *, cwd: str = "/", env: Mapping[str, str] | None = None) -> str:
    message = ""
    async with anyio.create_task_group() as tasks:
        try:
            await start_agent(Launch(argv=argv, cwd=cwd, env=env or {}, name="test agent"), tasks)
        except Unavailable as error:
            message = error.message
    return message


async def test_what_is_written_reaches_the_agent_and_its_output_comes_back() -> None:
    async with anyio.create_task_group() as tasks:
        process = await start(tasks, "import sys\nfor line in sys.stdin: print(line.upper(), end='', flush=True)")
        process.write(b"hello\n")
        assert await line(process) == b"HELLO\n"
        await process.stop()
        assert await process.exit == ExitStatus(0)


@pytest.mark.parametrize(
    ("script", "status", "words"),
    [
        ("import sys; print('no licence', file=sys.stderr); sys.exit(7)", ExitStatus(7), ["exited with code 7", "no licence"]),
        ("import os; os.kill(os.getpid(), 9)", ExitStatus(None, 9), ["was ended by SIGKILL", "wrote nothing"]),
        ("import os; os.kill(os.getpid(), 15)", ExitStatus(None, 15), ["was ended by SIGTERM"]),
    ],
)
async def test_an_early_exit_is_told_within_a_second_with_code_and_error_output(
    script: str, status: ExitStatus, words: list[str]
) -> None:
    async with anyio.create_task_group() as tasks:
        process = await start(tasks, script)
        with anyio.fail_after(WAIT_SECONDS):
            assert await process.receive() == b""
            ended = time.monotonic()
            told = await process.describe_end()
        assert time.monotonic() - ended < 1.0
        assert await process.exit == status
        for word in ["test agent", sys.executable, *words]:
            assert word in told


async def test_a_script_whose_interpreter_is_not_on_path_is_told_by_name_with_the_path_searched(tmp_path: Path) -> None:
    program = script(tmp_path, "#!/usr/bin/env a-runtime-nobody-has\n")
    env = {"PATH": "/usr/bin:/bin"}
    async with anyio.create_task_group() as tasks:
        process = await start_agent(Launch(argv=[program], cwd="/", env=env, name="test agent"), tasks)
        assert await everything(process) == b""
        told = await process.describe_end()
        assert "exited with code 127" in told
        assert "needs a-runtime-nobody-has, which was not found. PATH searched: /usr/bin, /bin." in told


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ("#!/no/such/interpreter\n", 0o755, "it is a script for /no/such/interpreter, which does not exist"),
        ("not a program", 0o755, "neither a program of this system nor a script"),
        ("#!/bin/sh\n", 0o644, "not executable"),
    ],
)
async def test_a_program_the_system_refuses_is_told_in_words(tmp_path: Path, text: str, mode: int, words: str) -> None:
    program = script(tmp_path, text, mode)
    told = await refusal([program])
    assert words in told
    assert program in told


async def test_missing_programs_folders_and_impossible_arguments_are_told_in_words(tmp_path: Path) -> None:
    assert "there is no such file" in await refusal([str(tmp_path / "absent")])
    assert "it is a folder" in await refusal([str(tmp_path)])
    assert "working folder /no/such/folder" in await refusal(["/bin/true"], cwd="/no/such/folder")
    assert "NUL character" in await refusal(["/bin/true", "a\0b"])
    assert "larger than the system allows" in await refusal(["/bin/true", "x" * (4 * MEGABYTE)])


async def test_the_agent_gets_exactly_the_environment_given_and_one_marker() -> None:
    given = {"A": "1", "WITH NEWLINE": "a\nb", "BASH_FUNC_x%%": "() { :; }", "BYTES": "\udcff"}
    shown = "import os,sys; sys.stdout.buffer.write(open('/proc/self/environ','rb').read())"
    async with anyio.create_task_group() as tasks:
        process = await start(tasks, shown, env=given)
        raw = await everything(process)
        variables = dict(part.split(b"=", 1) for part in raw.split(b"\0") if part)
        assert variables.pop(guardian.MARKER.encode())
        assert variables == {os.fsencode(name): os.fsencode(value) for name, value in given.items()}


async def test_a_locale_the_user_chose_is_left_as_it_was() -> None:
    async with anyio.create_task_group() as tasks:
        launch = Launch(argv=["/usr/bin/env"], cwd="/", env={"LC_CTYPE": "C"}, name="env")
        assert b"LC_CTYPE=C\n" in await everything(await start_agent(launch, tasks))


async def test_a_hostile_folder_name_is_only_a_name(tmp_path: Path) -> None:
    folder = tmp_path / "a;$(touch pwn)&."
    folder.mkdir()
    async with anyio.create_task_group() as tasks:
        launch = Launch(argv=["/bin/pwd", "-P"], cwd=str(folder), env={}, name="pwd")
        assert await everything(await start_agent(launch, tasks)) == os.fsencode(str(folder)) + b"\n"
    assert not (tmp_path / "pwn").exists()
    assert not (folder / "pwn").exists()


READS_WHEN_TOLD = """
import os, signal, sys
def read(*_):
    for line in sys.stdin.buffer:
        os.write(1, b"%d %s\\n" % (len(line), line[:8]))
    os._exit(0)
signal.signal(signal.SIGUSR1, read)
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""


async def test_a_cancel_is_not_stuck_behind_prompts_the_agent_does_not_read() -> None:
    async with anyio.create_task_group() as tasks:
        process = await start(tasks, READS_WHEN_TOLD)
        await line(process)
        first, second, third = (letter * (10 * MEGABYTE) + b"\n" for letter in (b"a", b"b", b"c"))
        began = time.monotonic()
        begun = process.write(first)
        waiting, withdrawn = process.write(second), process.write(third)
        assert time.monotonic() - began < 1.0
        assert (begun.begun, waiting.begun, withdrawn.begun) == (True, False, False)
        assert 30 * MEGABYTE > process.queued_bytes > 29 * MEGABYTE
        urgent = process.write(b"cancel!!\n", urgent=True)
        assert not urgent.begun
        assert withdrawn.withdraw()
        assert not begun.withdraw()
        assert process.queued_bytes < 20 * MEGABYTE
        process.finish_input()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGUSR1)
        lines = (await everything(process)).splitlines()
        size = 10 * MEGABYTE + 1
        assert lines == [b"%d aaaaaaaa" % size, b"9 cancel!!", b"%d bbbbbbbb" % size]
        assert process.queued_bytes == 0


async def test_stopping_an_agent_that_never_reads_is_bounded_and_loses_what_was_not_begun() -> None:
    lost: list[str] = []
    async with anyio.create_task_group() as tasks:
        process = await start(tasks, READS_WHEN_TOLD)
        await line(process)
        process.write(b"a" * (10 * MEGABYTE))
        ticket = process.write(b"never\n")
        ticket.on_lost = lambda: lost.append("never")
        began = time.monotonic()
        await process.stop()
        assert time.monotonic() - began < WAIT_SECONDS
        assert lost == ["never"]
        assert ticket.lost
        assert process.write(b"later\n").lost
        assert process.queued_bytes == 0


async def test_an_agent_that_closes_its_input_loses_what_waits_and_may_go_on_talking() -> None:
    closes = "import os,time\nos.write(1,b'a\\n'); os.read(0,1); os.close(0); os.write(1,b'b\\n'); time.sleep(60)"
    async with anyio.create_task_group() as tasks:
        process = await start(tasks, closes)
        assert await line(process) == b"a\n"
        lost = anyio.Event()
        process.write(b"x" * MEGABYTE)
        process.write(b"more\n").on_lost = lost.set
        assert await line(process) == b"b\n"
        with anyio.fail_after(WAIT_SECONDS):
            await lost.wait()
        assert process.exit.status is None
        await process.stop()


async def test_an_agent_that_closes_its_output_but_lives_is_told_as_such_and_can_be_stopped() -> None:
    async with anyio.create_task_group() as tasks:
        process = await start(tasks, "import os,time\nos.close(1); time.sleep(60)")
        assert await everything(process) == b""
        assert "goes on running" in await process.describe_end()
        await process.stop()
        assert process.exit.status is not None


async def test_a_flood_of_error_output_stops_nothing_and_leaves_a_bounded_redacted_tail() -> None:
    floods = (
        "import os\nfor n in range(20000): os.write(2, b'%07d ' % n + b'x' * 92 + b'\\n')\n"
        "os.write(2, b'Authorization: Bearer abcdef0123456789\\nsee https://as.example/login?code=sentinel\\n')\n"
        "os.write(1, b'done')"
    )
    async with anyio.create_task_group() as tasks:
        process = await start(tasks, floods)
        assert await everything(process) == b"done"
        await process.exit
        tail = process.stderr_tail()
        assert len(tail.encode()) <= STDERR_TAIL_BYTES
        first, *_, last = tail.splitlines()
        assert len(first) == 100
        assert last == "see https://as.example/***"
        assert "abcdef0123456789" not in tail
        assert "sentinel" not in process.describe_exit()


async def test_the_end_of_one_endless_line_of_error_output_is_not_shown_since_it_could_be_half_a_secret() -> None:
    async with anyio.create_task_group() as tasks:
        process = await start(tasks, "import os\nos.write(2, b'token=' + b's' * 100000)")
        await process.exit
        assert process.stderr_tail() == f"(one line of more than {STDERR_TAIL_BYTES} bytes, not shown)"


async def test_a_flood_nobody_receives_waits_in_the_pipe_and_nothing_of_it_is_lost() -> None:
    total = 30 * MEGABYTE
    async with anyio.create_task_group() as tasks:
        process = await start(
            tasks, f"import os\nfor _ in range({total // 65536}): os.write(1, b'x' * 65536)\nos.write(2, b'all')"
        )
        received = 0
        with anyio.fail_after(WAIT_SECONDS):
            while block := await process.receive():
                received += len(block)
                held = process._child.stdout._held  # pyright: ignore[reportPrivateUsage] - the bound is what is tested
                assert held <= READ_AHEAD_BYTES * 2
                await anyio.lowlevel.checkpoint()
        assert received == total
        assert process.stderr_tail() == "all"


async def test_output_written_just_before_the_exit_is_received_whole_although_the_exit_is_known_first() -> None:
    async with anyio.create_task_group() as tasks:
        process = await start(tasks, "import os\nos.write(1, b'x' * 60000)")
        with anyio.fail_after(WAIT_SECONDS):
            await process.exit
        assert len(await everything(process)) == 60000


async def test_a_cancelled_start_leaves_no_process() -> None:
    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await start(tasks, "import time; time.sleep(60)")
        assert scope.cancelled_caught
    assert not [row for row in guardian.process_table() if row.parent == os.getpid() and row.alive]


async def test_the_guardian_costs_no_more_than_a_few_starts_of_a_bare_interpreter() -> None:
    bare: list[float] = []
    guarded: list[float] = []
    async with anyio.create_task_group() as tasks:
        for _ in range(7):
            began = time.perf_counter()
            await anyio.run_process([os.path.realpath(sys.executable), "-I", "-S", "-E", "-c", "pass"])
            bare.append(time.perf_counter() - began)
            began = time.perf_counter()
            process = await start_agent(Launch(argv=["/bin/cat"], cwd="/", env={}, name="cat"), tasks)
            process.write(b"x\n")
            assert await line(process) == b"x\n"
            guarded.append(time.perf_counter() - began)
            await process.stop()
    assert min(guarded) < 4 * min(bare)
