"""``python -m sidecar.demo``: the demo agent on stdin and stdout. It takes no arguments that matter to it."""

import os
import sys

import anyio

from sidecar.demo.agent import serve
from sidecar.demo.settings import DemoSettings
from sidecar.demo.stdio import StdioStream
from sidecar.demo.turn import DemoCrash

CRASH_EXIT_CODE = 70
INTERRUPTED_EXIT_CODE = 130


async def _run() -> None:
    with open(0, "rb", buffering=0, closefd=False) as source, open(1, "wb", buffering=0, closefd=False) as sink:  # noqa: ASYNC230 - no file
        sys.stdout = sys.stderr  # frames only on the real one
        await serve(StdioStream(source, sink), DemoSettings.from_environment(os.environ))


def main() -> int:
    """Serve until the end of stdin; return the exit code."""
    code = 0
    try:
        anyio.run(_run)
    except* DemoCrash:
        sys.stderr.write("demo agent: crashed, as you asked\n")
        code = CRASH_EXIT_CODE
    except* KeyboardInterrupt:
        code = INTERRUPTED_EXIT_CODE
    return code


if __name__ == "__main__":
    sys.exit(main())
