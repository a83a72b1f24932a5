"""Shared fixtures: the anyio backend, and where the corpora lie when they are there."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Several tests run at once on machines of any speed, so no example has a deadline; a failure prints how to repeat it.
settings.register_profile("tests", deadline=None, print_blob=True)
settings.load_profile("tests")

REPOSITORY = Path(__file__).resolve().parent.parent


def shared_path(*parts: str) -> Path:
    """Return a path inside the shared corpora, or skip the test with a message when they are not on this machine."""
    root = Path(os.environ.get("SIDECAR_SHARED", REPOSITORY.parent / "shared"))
    path = root.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"the shared corpus {'/'.join(parts)} is not on this machine (set SIDECAR_SHARED)")
    return path


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
