"""Runs everything that is checked about this project: ``python -m tests [pytest arguments]``.

First the real editors and agents are put in place (``python -m tests.install``; done once), then pytest runs the whole suite,
linters and type checks included, on as many processes as the machine has cores. The last line is pytest's own.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests import install
from tests.installed import in_ci

MOST_WORKERS = 4


def main() -> int:
    if install.main() != 0 and in_ci():
        print("not everything that the tests need could be installed; see above", file=sys.stderr)
        return 1
    workers = min(os.cpu_count() or 1, MOST_WORKERS)
    argv = [sys.executable, "-m", "pytest", "-n", str(workers), "--dist", "loadfile", "--durations", "10", *sys.argv[1:]]
    return subprocess.run(argv, check=False, cwd=Path(__file__).resolve().parent.parent).returncode


if __name__ == "__main__":
    sys.exit(main())
