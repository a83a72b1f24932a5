"""``sidecar demo``: the main job on the built-in agent, in a folder of its own, with no network and no model.

At a terminal the user answers. Without one, ``sidecar demo`` is itself the word for this one run: questions are answered as by
``run --permission allow-once``, each of them printed; the agent is the built-in one and the folder new and empty.
"""

import tempfile
from pathlib import Path
from typing import Final

from sidecar.cli.arguments import DemoOptions, RunOptions
from sidecar.cli.run import main as run
from sidecar.cli.terminal import open_terminal
from sidecar.config import DEMO_AGENT

PROMPT: Final = "tour"


def main(options: DemoOptions) -> int:
    """Run the tour and return its exit code."""
    with tempfile.TemporaryDirectory(prefix="sidecar-demo-") as folder:
        asked = open_terminal() is not None
        print(f"The built-in agent works in {folder}; nothing leaves this machine.")
        print("You answer its questions." if asked else "No terminal: its questions are answered with “allow once”, each is printed.")
        print()
        code = run(
            RunOptions(
                prompt=PROMPT,
                common=options.common,
                agent=DEMO_AGENT,
                cwd=folder,
                permission="ask" if asked else "allow-once",
            )
        )
        print()
        for path in sorted(Path(folder).iterdir()):
            print(f"{path.name}:")
            print(path.read_text(encoding="utf-8").rstrip())
    print("\nNext: connect your editor (see the README), or: sidecar run --agent kiro “your prompt”")
    return code
