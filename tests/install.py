"""Installs the real editors and agents that tests drive: ``python -m tests.install``.

Everything goes into one folder outside the tree (see ``tests.installed.tools_folder``) and through the package clients as this
machine has them configured; only tmux is a system package, and pyright fetches itself into its own cache. A second run finds what
is there and does nothing. The exit code is 1 when something could not be had, except for the Helix of Debian's moving suite
and the client only benchmarks need, which are only warned about.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.installed import ACPX, CODEX_ACP, EXAMPLE_AGENT, HELIX_MOVING_SUITE, HELIX_SUITE, NEOVIM, tools_folder

TRIES = 2
STEP_TIMEOUT_SECONDS = 600
RECIPE = "recipe.txt"


class InstallError(Exception):
    """A step did not work; the message holds the command and the end of its output."""


def run(argv: list[str], *, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(
            argv,
            cwd=cwd,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=STEP_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallError(f"{argv[0]}: {error}") from error
    if done.returncode != 0:
        raise InstallError(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stdout[-2000:]}")
    return done.stdout


def install_neovim(folder: Path) -> str:
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    run([sys.executable, "-m", "pip", "--quiet", "--python", str(folder / "bin" / "python"), "install", "--no-deps", NEOVIM])
    return run([str(folder / "bin" / "nvim"), "--version"]).splitlines()[0]


def install_agents(folder: Path) -> str:
    npm = shutil.which("npm")
    if npm is None:
        raise InstallError("npm is not on the PATH: install Node.js 20 with npm")
    packages = [EXAMPLE_AGENT, CODEX_ACP]
    (folder / "package.json").write_text('{"private": true}\n')
    run([npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--save-exact", *packages], cwd=folder)
    modules = folder / "node_modules"
    if not (modules / "@agentclientprotocol/sdk/dist/examples/agent.js").exists():
        raise InstallError(f"{EXAMPLE_AGENT} holds no dist/examples/agent.js")
    programs = list(modules.glob("@zed-industries/codex-acp-*/bin/codex-acp"))
    if not programs:
        raise InstallError(f"{CODEX_ACP} brought no program for this machine")
    programs[0].chmod(0o755)
    return ", ".join(packages)


def install_acpx(folder: Path) -> str:
    """Install another client of agents, which the benchmark of ``sidecar run`` is measured against."""
    npm = shutil.which("npm")
    if npm is None:
        raise InstallError("npm is not on the PATH: install Node.js with npm")
    (folder / "package.json").write_text('{"private": true}\n')
    run([npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--save-exact", ACPX], cwd=folder)
    return run([str(folder / "node_modules" / ".bin" / "acpx"), "--version"]).strip()


def debian_mirror() -> str:
    """Return the first Debian URI of this machine's own apt sources."""
    sources = [
        *sorted(Path("/etc/apt/sources.list.d").glob("*.sources")),
        *sorted(Path("/etc/apt/sources.list.d").glob("*.list")),
    ]
    for source in [*sources, Path("/etc/apt/sources.list")]:
        for line in source.read_text().splitlines() if source.exists() else []:
            words = [word for word in line.split() if not word.startswith(("[", "signed-by")) and not word.endswith("]")]
            if len(words) >= 2 and words[0] in {"URIs:", "deb"} and "debian" in words[1]:
                return words[1]
    raise InstallError("no Debian mirror stands in /etc/apt: these editors are installed from Debian packages")


def install_helix(folder: Path, suite: str) -> str:
    """Unpack ``hx`` of a newer Debian suite beside that suite's own C library, without touching the system."""
    apt, root = folder / "apt", folder / "root"
    for part in ("lists/partial", "cache/archives/partial", "debs"):
        (apt / part).mkdir(parents=True)
    root.mkdir()
    (apt / "status").touch()
    (apt / "sources.list").write_text(
        f"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {debian_mirror()} {suite} main\n"
    )
    (apt / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "{apt}/sources.list";\nDir::Etc::sourceparts "-";\nDir::State::lists "{apt}/lists";\n'
        f'Dir::State::status "{apt}/status";\nDir::Cache "{apt}/cache";\nAPT::Sandbox::User "root";\nAcquire::Languages "none";\n'
    )
    run(["apt-get", "-qq", "-c", str(apt / "apt.conf"), "update"])
    run(["apt-get", "-qq", "-c", str(apt / "apt.conf"), "download", "hx", "libc6", "libgcc-s1"], cwd=apt / "debs")
    for package in sorted((apt / "debs").glob("*.deb")):
        run(["dpkg-deb", "-x", str(package), str(root)])
    shutil.rmtree(apt)
    loader = next(iter(sorted(root.glob("usr/lib/*/ld-linux-*.so.*"))), None)
    program = root / "usr/lib/hx/hx"
    if loader is None or not program.exists():
        raise InstallError(f"the hx package of {suite} is laid out in a new way: no loader, or no usr/lib/hx/hx")
    wrapper = folder / "hx"
    wrapper.write_text(
        "#!/bin/sh\n"
        f'HELIX_RUNTIME="{root}/usr/lib/hx/runtime" exec "{loader}" --library-path "{loader.parent}" "{program}" "$@"\n'
    )
    wrapper.chmod(0o755)
    return run([str(wrapper), "--version"]).strip()


def install_tmux(_folder: Path) -> str:
    if shutil.which("tmux") is None:
        if os.geteuid() != 0:
            raise InstallError("tmux is missing and only root can install it: apt-get install tmux")
        run(["apt-get", "-qq", "update"])
        run(["apt-get", "-qq", "-y", "--no-install-recommends", "install", "tmux"])
    return run(["tmux", "-V"]).strip()


def install_type_checker(_folder: Path) -> str:
    """Run pyright once, because its first run fetches the checker itself, and may need a second try for that."""
    return run([sys.executable, "-m", "pyright", "--version"]).splitlines()[-1]


STEPS: dict[str, tuple[str, Callable[[Path], str]]] = {
    "tmux": ("tmux", install_tmux),
    "pyright": ("pyright", install_type_checker),
    "nvim": (NEOVIM, install_neovim),
    f"helix-{HELIX_SUITE}": (f"hx of {HELIX_SUITE}", lambda folder: install_helix(folder, HELIX_SUITE)),
    f"helix-{HELIX_MOVING_SUITE}": (f"hx of {HELIX_MOVING_SUITE}", lambda folder: install_helix(folder, HELIX_MOVING_SUITE)),
    "agents": (f"{EXAMPLE_AGENT} {CODEX_ACP}", install_agents),
    "acpx": (ACPX, install_acpx),
}
ALWAYS_CHECKED = {"tmux", "pyright"}  # lie outside our folder
MAY_BE_MISSING = {f"helix-{HELIX_MOVING_SUITE}", "acpx"}


def install_once(name: str, recipe: str, step: Callable[[Path], str]) -> str:
    """Run one step in its own fresh folder, unless the same recipe has already ended well there."""
    folder = tools_folder() / name
    marker = folder / RECIPE
    if name not in ALWAYS_CHECKED and marker.exists() and marker.read_text().startswith(recipe + "\n"):
        return marker.read_text().splitlines()[1] + " (already there)"
    for attempt in range(1, TRIES + 1):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            version = step(folder)
        except InstallError as error:
            if attempt == TRIES:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            say(f"{name}: trying again after: {error}")
        else:
            marker.write_text(f"{recipe}\n{version}\n")
            return version
    raise InstallError(f"{name}: no try was made")


def say(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    failed = False
    for name, (recipe, step) in STEPS.items():
        began = time.monotonic()
        try:
            version = install_once(name, recipe, step)
        except InstallError as error:
            if name in MAY_BE_MISSING:
                say(f"WARNING: {name} could not be installed; what needs it is skipped.\n{error}")
            else:
                say(f"FAILED: {name}: {error}")
                failed = True
        else:
            say(f"{name}: {version} ({time.monotonic() - began:.0f} s)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
