"""What the environment tells the demo agent."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import attrs

DEFAULT_PACE_MS = 15.0
MAX_PACE_MS = 5_000.0
DEFAULT_SIGN_IN_SECONDS = 20.0
MAX_SIGN_IN_SECONDS = 600.0


@attrs.frozen
class DemoSettings:
    """Pace and places.

    ``pace`` is the wait between two words in seconds. ``sign_in_seconds`` is how long a sign-in waits for a visit of its page
    before it goes on as if there had been one. ``state_folder`` keeps the sessions, so that they survive a restart.
    """

    pace: float
    sign_in_seconds: float
    state_folder: Path

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "DemoSettings":
        """Read ``SIDECAR_DEMO_PACE_MS``, ``SIDECAR_DEMO_SIGN_IN_SECONDS`` and ``SIDECAR_DEMO_STATE``.

        A number that cannot be used counts as the default.
        """
        folder = environment.get("SIDECAR_DEMO_STATE")
        return cls(
            pace=_number(environment, "SIDECAR_DEMO_PACE_MS", DEFAULT_PACE_MS, MAX_PACE_MS) / 1000,
            sign_in_seconds=_number(environment, "SIDECAR_DEMO_SIGN_IN_SECONDS", DEFAULT_SIGN_IN_SECONDS, MAX_SIGN_IN_SECONDS),
            state_folder=Path(folder) if folder else Path(tempfile.gettempdir()) / f"sidecar-demo-{_user()}",
        )


def _number(environment: Mapping[str, str], name: str, default: float, limit: float) -> float:
    try:
        value = float(environment.get(name, ""))
    except ValueError:
        return default
    return value if 0 <= value <= limit else default


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
