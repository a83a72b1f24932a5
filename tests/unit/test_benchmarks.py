"""The benchmarks run and print what the contract says; nothing here looks at how fast anything is."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.__main__ import ITEMS, Item, measure
from tests.benchmarks.agent import END_MARK, flood, mixed, text_of
from tests.benchmarks.setting import Setting, Skipped, ratio

REPOSITORY = Path(__file__).resolve().parents[2]
RUN_SECONDS = 100.0
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the measurements read /proc")


def benchmarks(*arguments: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-m", "tests.benchmarks", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        timeout=RUN_SECONDS,
        check=False,
    )


@LINUX
@pytest.mark.process
def test_one_item_is_measured_and_printed_as_one_json_object() -> None:
    done = benchmarks("--json", "--quick", "--only", "frames_per_second_in_flood")
    results: dict[str, dict[str, Any]] = json.loads(done.stdout)
    assert list(results) == ["frames_per_second_in_flood"]
    entry = results["frames_per_second_in_flood"]
    assert set(entry) == {"value", "goal", "unit", "ok"}
    assert isinstance(entry["value"], float), entry["unit"]
    assert (entry["goal"], entry["unit"]) == (65, "frames/s per session")
    assert done.returncode == (0 if entry["ok"] else 1)


def test_an_item_that_is_not_there_is_refused_with_the_names_there_are() -> None:
    done = benchmarks("--only", "nonsense")
    assert done.returncode == 2
    assert done.stdout == b""
    for name in ITEMS:
        assert name in done.stderr.decode()


def entry_of(item: Item, folder: Path) -> dict[str, Any]:
    return measure(item, Setting(quick=True, folder=folder))


def _skip(_: Setting) -> float:
    raise Skipped("skipped: no compiler")


def _fail(_: Setting) -> float:
    raise AssertionError("the text was lost")


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (Item(lambda _: 2.0, 2.0, "x"), {"value": 2.0, "goal": 2.0, "unit": "x", "ok": True}),
        (Item(lambda _: 2.00049, 2.0, "x"), {"value": 2.0, "goal": 2.0, "unit": "x", "ok": False}),
        (Item(lambda _: 0.3, 0.2, "x", least=True), {"value": 0.3, "goal": 0.2, "unit": "x", "ok": True}),
        (Item(lambda _: 0.1, 0.2, "x", least=True), {"value": 0.1, "goal": 0.2, "unit": "x", "ok": False}),
        (Item(_skip, 1.0, "x"), {"value": None, "goal": 1.0, "unit": "skipped: no compiler", "ok": True}),
        (Item(_fail, 1.0, "x"), {"value": None, "goal": 1.0, "unit": "failed: the text was lost", "ok": False}),
    ],
    ids=["reached", "missed by little", "at least", "less", "skipped", "failed"],
)
def test_an_entry_says_what_was_measured_and_whether_the_goal_was_reached(
    item: Item, expected: dict[str, Any], tmp_path: Path
) -> None:
    assert entry_of(item, tmp_path) == expected


def test_measured_and_reference_take_turns_and_the_median_of_their_ratios_counts() -> None:
    order: list[str] = []
    values = iter([4.0, 9.0, 100.0])

    def measured() -> float:
        order.append("measured")
        return next(values)

    def reference() -> float:
        order.append("reference")
        return 2.0

    assert ratio(3, measured, reference) == 4.5
    assert order == ["reference", "measured"] * 3


def test_the_agent_sends_as_much_as_it_was_told_and_the_same_every_time() -> None:
    lines = b"".join(flood("s", 2500, 0)).splitlines()
    texts = [json.loads(line)["params"]["update"]["content"]["text"] for line in lines]
    assert texts == [text_of(number, 0) for number in range(2500)]
    assert {len(text_of(number, 37)) for number in range(50)} == {37}


def test_a_mixed_history_holds_text_and_diffs_and_ends_with_its_mark() -> None:
    updates = [json.loads(line)["params"]["update"] for line in b"".join(mixed("s", 1000)).splitlines()]
    kinds = [update["sessionUpdate"] for update in updates]
    assert len(kinds) == 1000
    assert kinds.count("tool_call_update") == 11
    assert updates[-1]["content"]["text"] == END_MARK
