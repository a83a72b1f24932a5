"""Where and how thoroughly to measure, and how ratios are taken."""

import functools
import shutil
import statistics
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import attrs

from tests.benchmarks.ends import FOLDER, PYTHON

STDLIB: Final = (PYTHON, "-I", str(FOLDER / "reframe.py"))
"""The argv of the standard library's re-framer."""


class Skipped(Exception):
    """The item cannot be measured here; the text says why."""


@attrs.frozen
class Setting:
    """``folder`` is a temporary one that takes everything the measured processes write."""

    quick: bool
    folder: Path

    def pick(self, thorough: int, quick: int) -> int:
        return quick if self.quick else thorough

    def fresh(self) -> Path:
        """Return a new folder for one process."""
        path = self.folder / f"p{len(list(self.folder.iterdir()))}"
        path.mkdir()
        return path

    def limit(self) -> Sequence[str]:
        """Return the argv of the re-framer in C, where a compiler is, else of the one in Python."""
        return _compiled(self.folder) or STDLIB


@functools.cache
def _compiled(folder: Path) -> tuple[str, ...] | None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    program = folder / "reframe"
    subprocess.run([compiler, "-O2", "-o", str(program), str(FOLDER / "reframe.c")], check=True, capture_output=True)
    return (str(program),)


def ratio(rounds: int, measured: Callable[[], float], reference: Callable[[], float]) -> float:
    """Measure both in turns and return the median of measured / reference."""
    pairs = [(reference(), measured()) for _ in range(rounds)]
    return statistics.median(mine / other for other, mine in pairs)
