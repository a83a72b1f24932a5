"""``python -m tests.benchmarks --json [--only NAME]... [--quick]``: one JSON object on standard output.

``{name: {"value": x, "goal": y, "unit": "...", "ok": bool}}``. Values are ratios to references built and measured in the
same run, but for those that are counted. An item that cannot be measured here has the value null, is ok, and says why in
``unit``; one that failed is not ok. What is going on is told on standard error. The exit code is 1 when an item is not ok.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import attrs

from tests.benchmarks import deaf, items
from tests.benchmarks.setting import Setting, Skipped


@attrs.frozen
class Item:
    """A measurement, its goal (the most, or where ``least`` the least, that is ok), and what the value is."""

    measure: Callable[[Setting], float]
    goal: float
    unit: str
    least: bool = False

    def reached(self, value: float) -> bool:
        return value >= self.goal if self.least else value <= self.goal


ITEMS: Final[Mapping[str, Item]] = {
    "cold_start_initialize": Item(items.cold_start, 1.15, "x bare pygls, start to the reply to initialize"),
    "one_shot": Item(items.one_shot, 0.25, "x acpx exec, start to end"),
    "relay_cpu_per_update": Item(items.relay_cpu, 4.0, "x stdlib re-framer, CPU of the process"),
    "relay_cpu_with_transcript": Item(items.relay_cpu_with_transcript, 6.0, "x stdlib re-framer, CPU of the process"),
    "replay_rate": Item(items.replay_rate, 0.2, "x rate of the C re-framer, 10k mixed updates", least=True),
    "frames_per_second_in_flood": Item(items.frames_in_flood, 65, "frames/s per session"),
    "chunk_latency_p50": Item(items.chunk_latency, 3.0, "x C re-framer at 50 chunks/s"),
    "deaf_editor_stall": Item(deaf.stall_while_deaf, 50, "ms the event loop served nobody"),
    "deaf_editor_growth": Item(deaf.growth_while_deaf, 16, "MB over the same flood with a reading editor"),
    "memory_per_10k_text_updates": Item(items.memory_of_text, 1.0, "MB"),
    "idle_wakeups": Item(items.idle_wakeups, 0, "switches/s of all threads"),
}


def measure(item: Item, setting: Setting) -> dict[str, Any]:
    """Return one entry of the result."""
    try:
        value = item.measure(setting)
    except Skipped as reason:
        return {"value": None, "goal": item.goal, "unit": str(reason), "ok": True}
    except (AssertionError, OSError) as error:
        return {"value": None, "goal": item.goal, "unit": f"failed: {error}", "ok": False}
    return {"value": round(value, 3), "goal": item.goal, "unit": item.unit, "ok": item.reached(value)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="Measure speed and memory against the goals.")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object (always done; the name is part of the contract)"
    )
    parser.add_argument("--only", action="append", choices=list(ITEMS), metavar="NAME", help=", ".join(ITEMS))
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller floods: less exact")
    chosen = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    with TemporaryDirectory(prefix="sidecar-bench-", ignore_cleanup_errors=True) as folder:
        for name in chosen.only or ITEMS:
            began = time.monotonic()
            results[name] = measure(ITEMS[name], Setting(chosen.quick, Path(folder)))
            print(f"{name}: {results[name]} ({time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)
    print(json.dumps(results, indent=2))
    return 0 if all(result["ok"] for result in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
