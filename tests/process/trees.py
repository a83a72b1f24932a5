"""An agent that does everything to outlive its parents, a stand-in for the sidecar around it, and a count of who is left."""

import os
import sys
import time
from pathlib import Path

TAG = "SIDECAR_TEST_TREE"
GONE_SECONDS = 5.0

FOREST = """
import os, signal, subprocess, sys, threading, time
reading, writing = os.pipe()
mode = sys.argv[1]
bare = "bare" in sys.argv

def nap():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(writing, b"x")
    while True:
        time.sleep(600)

if os.fork() == 0:                      # a plain child that ignores TERM
    nap()
if os.fork() == 0:                      # a daemon: double fork and a session of its own
    os.setsid()
    if os.fork() == 0:
        nap()
    os._exit(0)
if os.fork() == 0:                      # a child in a session of its own
    os.setsid()
    nap()
if bare and os.fork() == 0:             # a daemon without its parent's environment
    os.setsid()
    if os.fork() == 0:
        os.set_inheritable(writing, True)
        os.execve("/bin/sh", ["sh", "-c", "trap '' TERM; echo x >&%d; while :; do sleep 600; done" % writing], {"%s": "%s"})
    os._exit(0)

def from_a_thread():
    script = "trap '' TERM; echo x >&%d; sleep 600 & wait" % writing
    subprocess.Popen(["/bin/sh", "-c", script], start_new_session=True, pass_fds=[writing])
    threading.Event().wait()

threading.Thread(target=from_a_thread, daemon=True).start()
ready = b""
while ready.count(b"x") < 4 + bare:
    ready += os.read(reading, 64)
os.write(1, b"up\\n")
if mode == "exit":
    os._exit(3)
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in sys.stdin:
    os.write(1, line.encode())
while mode == "stubborn":
    time.sleep(600)
"""

STANDIN = """
import os, sys
import anyio
from sidecar.transport.process import Launch, start_agent

async def main():
    async with anyio.create_task_group() as tasks:
        env = {**os.environ, sys.argv[1]: sys.argv[2]}
        launch = Launch(argv=[sys.executable, "-c", *sys.argv[3:]], cwd="/", env=env, name="forest")
        process = await start_agent(launch, tasks)
        assert await process.receive() == b"up\\n"
        print("ready", process.guardian_pid, process.pid, flush=True)
        tasks.start_soon(tell_the_end, process)
        await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        await process.stop()

async def tell_the_end(process):
    status = await process.exit
    print("ended", status.code, status.signal, flush=True)

anyio.run(main)
"""


def forest(tag: str) -> str:
    """Return the program of the agent; its environment-less daemon keeps the tag only, so that the test finds it."""
    return FOREST.replace('{"%s": "%s"}', repr({TAG: tag}))


def marked(tag: str) -> list[int]:
    """Return the living processes that carry ``tag`` in their environment, this one left out."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if f"{TAG}={tag}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def left_after(tag: str, seconds: float = GONE_SECONDS) -> list[int]:
    """Return who is still there once nobody is, or after ``seconds``."""
    deadline = time.monotonic() + seconds
    while (left := marked(tag)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def python_environment() -> dict[str, str]:
    """Return an environment in which a child imports this repository."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).resolve().parents[2]), *sys.path])}
