"""The sidecar with its transcript open in an editor that applies the edits it is asked for."""

from pathlib import Path

from tests.benchmarks.ends import Sidecar
from tests.benchmarks.setting import Skipped


class SidecarWithTranscript(Sidecar):
    def __init__(self, folder: Path) -> None:
        raise Skipped(f"skipped: there is no transcript yet ({folder.name})")
