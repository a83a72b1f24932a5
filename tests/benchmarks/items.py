"""What is measured beside what. Every function returns the value of one item; the goals are in ``__main__``."""

import re
import statistics
import time
from collections.abc import Iterator
from typing import Final

from tests.benchmarks.agent import END_MARK
from tests.benchmarks.ends import FOLDER, PYTHON, Reframer, Sidecar, agent_argv, config, memory, timed_run, timed_start
from tests.benchmarks.setting import STDLIB, Setting, Skipped, ratio
from tests.benchmarks.transcript import SidecarWithTranscript
from tests.installed import tools_folder

PACE_HZ: Final = 50
FLOOD_HZ: Final = 5000
WARM_UP: Final = "flood 2000 0"
FLOOD: Final = "flood 100000 0"
SHORT_FLOOD: Final = "flood 20000 0"
TURN_UPDATES: Final = 50_000
SHORT_TEXT: Final = 37
"""Characters in a chunk as agents send them."""

HISTORY: Final = "bench mixed 10000"
STAMP: Final = re.compile(rb"@(\d+);")
ANSWER: Final = b"Hello."


# --- start ----------------------------------------------------------------------------------------------------------------


def cold_start(setting: Setting) -> float:
    """From starting the process to the whole reply to ``initialize``, against a bare pygls server."""
    folder = setting.fresh()
    ours = [PYTHON, "-m", "sidecar", "--config", config(folder)]
    bare = [PYTHON, str(FOLDER / "bare_pygls.py")]
    for argv in (ours, bare):
        timed_start(argv, folder)
    return ratio(setting.pick(11, 3), lambda: timed_start(ours, folder), lambda: timed_start(bare, folder))


def one_shot(setting: Setting) -> float:
    """``sidecar run`` to its end, against ``acpx exec`` with the same agent."""
    acpx = tools_folder() / "acpx" / "node_modules" / ".bin" / "acpx"
    if not acpx.exists():
        raise Skipped("skipped: acpx is not installed (python -m tests.install)")
    folder = setting.fresh()
    ours = [PYTHON, "-m", "sidecar", "--config", config(folder), "run", "--agent", "bench", "bench say"]
    theirs = [str(acpx), "--agent", " ".join(agent_argv()), "--approve-all", "exec", "bench say"]
    for argv in (ours, theirs):
        timed_run(argv, folder, ANSWER)
    return ratio(setting.pick(7, 3), lambda: timed_run(ours, folder, ANSWER), lambda: timed_run(theirs, folder, ANSWER))


# --- costs ----------------------------------------------------------------------------------------------------------------


def warm(end: Reframer | Sidecar) -> None:
    """Let the process load what it loads once."""
    end.prompt(WARM_UP)
    end.drain()
    end.settle()


def relay_cpu(setting: Setting) -> float:
    """CPU of a text update in a flood, against the standard library's re-framer."""
    order = SHORT_FLOOD if setting.quick else FLOOD
    with Reframer(STDLIB, setting.fresh()) as other, Sidecar(setting.fresh()) as ours:
        for end in (other, ours):
            warm(end)
        return ratio(setting.pick(9, 3), lambda: _cost_of(ours, order), lambda: _cost_of(other, order))


def relay_cpu_with_transcript(setting: Setting) -> float:
    """The same with the transcript open in an editor that applies its edits; each round begins with a new one."""
    with Reframer(STDLIB, setting.fresh()) as other:
        warm(other)

        def ours() -> float:
            with SidecarWithTranscript(setting.fresh()) as sidecar:
                warm(sidecar)
                return _cost_of(sidecar, SHORT_FLOOD)

        return ratio(setting.pick(7, 2), ours, lambda: _cost_of(other, SHORT_FLOOD))


def _cost_of(end: Reframer | Sidecar, order: str) -> float:
    before = end.cost().cpu
    end.prompt(order)
    end.drain()
    end.settle()
    return end.cost().cpu - before


def replay_rate(setting: Setting) -> float:
    """Rate of a loaded history of mixed updates, until the editor has the last of them, against the re-framer in C."""

    def took(end: Reframer | Sidecar) -> float:
        began = time.perf_counter()
        end.load(HISTORY)
        end.drain(END_MARK.encode())
        seconds = time.perf_counter() - began
        end.settle()
        return seconds

    with Reframer(setting.limit(), setting.fresh(), HISTORY) as other, Sidecar(setting.fresh(), HISTORY) as ours:
        for end in (other, ours):
            took(end)
        return ratio(setting.pick(15, 3), lambda: took(other), lambda: took(ours))


def memory_of_text(setting: Setting) -> float:
    """MB that stay for 10k text updates, over several turns after the first."""
    turns, order = setting.pick(5, 2), f"flood {TURN_UPDATES} {SHORT_TEXT}"
    with Sidecar(setting.fresh()) as ours:

        def after_a_turn() -> float:
            ours.prompt(order)
            ours.drain()
            ours.settle()
            return memory(ours.pid, "VmRSS")

        before = after_a_turn()
        after = [after_a_turn() for _ in range(turns)][-1]
        return (after - before) * 10_000 / (turns * TURN_UPDATES)


def idle_wakeups(setting: Setting) -> float:
    """Switches of any thread a second, with an agent attached and a session that was used."""
    seconds = setting.pick(10, 2)
    with Sidecar(setting.fresh()) as ours:
        warm(ours)
        time.sleep(3.0)
        before = ours.cost().switches
        time.sleep(seconds)
        return (ours.cost().switches - before) / seconds


# --- flow -----------------------------------------------------------------------------------------------------------------


def frames_in_flood(setting: Setting) -> float:
    """Frames of the session a second, while the agent sends 5000 chunks a second."""
    seconds = setting.pick(4, 2)
    with Sidecar(setting.fresh()) as ours:
        warm(ours)
        began = time.monotonic()
        ours.prompt(f"pace {FLOOD_HZ} {FLOOD_HZ * seconds}")
        return ours.drain() / (time.monotonic() - began)


def chunk_latency(setting: Setting) -> float:
    """Time of a chunk from the agent's hands to the editor's at 50 a second, against the re-framer in C; medians."""
    order = f"pace {PACE_HZ} {PACE_HZ * setting.pick(2, 1)}"

    def median_of(end: Reframer | Sidecar) -> float:
        end.prompt(order)
        delay = statistics.median(_delays(end))
        end.settle()
        return delay

    with Reframer(setting.limit(), setting.fresh()) as other, Sidecar(setting.fresh()) as ours:
        for end in (other, ours):
            warm(end)
        return ratio(setting.pick(7, 3), lambda: median_of(ours), lambda: median_of(other))


def _delays(end: Reframer | Sidecar) -> Iterator[int]:
    for body in end.frames():
        now = time.monotonic_ns()
        for stamp in STAMP.findall(body):
            yield now - int(stamp)
        if end.mark in body:
            return
