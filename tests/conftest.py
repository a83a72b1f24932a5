"""Shared fixtures: the anyio backend, and where the corpora lie when they are there."""

import os
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import settings

# Several tests run at once on machines of any speed, so no example has a deadline; a failure prints how to repeat it.
settings.register_profile("tests", deadline=None, print_blob=True)
settings.load_profile("tests")

# Whoever starts the tests may ignore it, and what is started would inherit that.
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

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


def _printable(value: Any) -> Any:
    """Return ``value`` with every lone surrogate in it escaped."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_printable(key): _printable(each) for key, each in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        parts = [_printable(each) for each in cast("list[Any]", value)]
        return parts if isinstance(value, list) else tuple(parts)
    return value


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, object, object]:
    """Let reports of tests about broken text travel between processes, which takes UTF-8 only."""
    return _printable((yield))
