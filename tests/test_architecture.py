"""The rules of sidecar/ARCHITECTURE.md, checked over the tree as it stands. Each failure lists every violation at once."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "sidecar"

FILE_LINES = 400
LONG_FILE_LINES = 800
LONG_FILES = ("tests/", "sidecar/acp/", "sidecar/ahp/")
FUNCTION_LINES = 50
CLASS_LINES = 250
PARAMETERS = 5

PURE = ("sidecar.rpc", "sidecar.acp", "sidecar.ahp", "sidecar.session", "sidecar.agents.acp_translate", "sidecar.auth.oauth")
# fmt: off
IMPURE = frozenset([
    "anyio", "asyncio", "concurrent", "httpx", "keyring", "lsprotocol", "multiprocessing", "os", "platformdirs", "pygls",
    "random", "secrets", "select", "selectors", "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "tempfile",
    "threading", "time", "urllib3", "watchfiles", "websockets",
])
# fmt: on
RESERVED = {
    "pygls": ("sidecar.editor", "sidecar.app"),
    "lsprotocol": ("sidecar.editor", "sidecar.app"),
    "sqlite3": ("sidecar.store",),
    "subprocess": ("sidecar.transport",),
    "multiprocessing": (),
    "pty": (),
    "webbrowser": (),
    "sidecar.acp": ("sidecar.acp", "sidecar.agents", "sidecar.demo"),
    "sidecar.ahp": (
        "sidecar.ahp",
        "sidecar.agents",
        "sidecar.host",
        "sidecar.editor.handlers.automation",
        "sidecar.cli.automations",
    ),
    "sidecar.demo": ("sidecar.demo",),
}
PROCESS_STARTERS = re.compile(
    r"os\.(spawn\w+|exec\w+|posix_spawnp?|fork|forkpty|system|popen|startfile)"
    r"|subprocess\.(Popen|run|call|check_call|check_output|getoutput|getstatusoutput)"
    r"|(asyncio\.)?create_subprocess_(exec|shell)|anyio\.(open|run)_process|\w+\.subprocess_(exec|shell)"
)
MAY_START_PROCESSES = ("sidecar.transport.process", "sidecar.transport.guardian")

Rule = Callable[[Path, ast.Module], Iterator[str]]


def git_files(*patterns: str) -> list[Path]:
    """Return the files that git tracks or would track, so that a new file counts before it is added."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
    )
    found = sorted({REPOSITORY / name for name in os.fsdecode(listed.stdout).split("\0") if name})
    return [path for path in found if path.is_file()]


@cache
def sources() -> dict[Path, ast.Module]:
    parsed: dict[Path, ast.Module] = {}
    for path in git_files("*.py"):
        parsed[path] = ast.parse(path.read_bytes(), filename=str(path))
    return parsed


def in_package() -> dict[Path, ast.Module]:
    return {path: tree for path, tree in sources().items() if path.is_relative_to(PACKAGE)}


def name_of(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def module_of(path: Path) -> str:
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def within(module: str, packages: tuple[str, ...] | frozenset[str]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def imports(path: Path, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and absolute name of every import of a file, those inside functions too; ``from a import b`` gives ``a.b``."""
    package = module_of(path).split(".") if path.name == "__init__.py" else module_of(path).split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{start}.{alias.name}"


def violations(rule: Rule, files: dict[Path, ast.Module]) -> list[str]:
    return [f"{name_of(path)}:{text}" for path, tree in files.items() for text in rule(path, tree)]


def report(found: list[str], sentence: str) -> None:
    if found:
        pytest.fail(f"{sentence} ({len(found)}):\n  " + "\n  ".join(sorted(found)), pytrace=False)


def lines_without_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def parameter_count(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return len([each for each in given if each.arg not in {"self", "cls"}])


def over_budget(path: Path, tree: ast.Module) -> Iterator[str]:
    name = name_of(path)
    allowed = LONG_FILE_LINES if name.startswith(LONG_FILES) else FILE_LINES
    lines = len(path.read_bytes().splitlines()) if path.exists() else 0
    if lines > allowed:
        yield f"1 the file has {lines} lines of {allowed}"
    is_test = name.startswith("tests/")
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and lines_without_docstring(node) > CLASS_LINES:
            yield f"{node.lineno} class {node.name} has {lines_without_docstring(node)} lines of {CLASS_LINES}"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if lines_without_docstring(node) > FUNCTION_LINES:
                yield f"{node.lineno} {node.name} has {lines_without_docstring(node)} lines of {FUNCTION_LINES}"
            if not is_test and parameter_count(node) > PARAMETERS:
                yield f"{node.lineno} {node.name} takes {parameter_count(node)} parameters of {PARAMETERS}"


def impure(path: Path, tree: ast.Module) -> Iterator[str]:
    if within(module_of(path), PURE):
        for line, name in imports(path, tree):
            if name.split(".")[0] in IMPURE:
                yield f"{line} imports {name}"


def trespassing(path: Path, tree: ast.Module) -> Iterator[str]:
    module = module_of(path)
    for line, name in imports(path, tree):
        for reserved, owners in RESERVED.items():
            if within(name, (reserved,)) and not within(module, owners):
                yield f"{line} imports {name}, which is for {' and '.join(owners) or 'nobody'}"


def starting_processes(path: Path, tree: ast.Module) -> Iterator[str]:
    if within(module_of(path), MAY_START_PROCESSES):
        return
    types = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Subscript)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and id(node) not in types and PROCESS_STARTERS.fullmatch(ast.unparse(node)):
            yield f"{node.lineno} uses {ast.unparse(node)}"


def forbidden_words() -> re.Pattern[str]:
    """Return the pattern of what no file may hold; put together here so that this file does not hold it."""
    hosts = [
        "pypi" + r"\.org",
        "python" + r"hosted\.org",
        "registry\\.npm" + r"js\.org",
        "deb" + r"\.debian\.org",
        "debian" + r"\.org/debian",
    ]
    places = [
        "/wo" + r"rk/(main|shared|\.)",
        "/tmp/" + "venv",
        "/tmp/" + "brief",
        "/ro" + "ot/",
        "/home/" + r"(?!(user|me|you|agent|kiro)\b)\w",
    ]
    workshop = [r"\bsub" + "agents? wrote", r"builder " + r"[A-Z]\d\b", "brief/" + "COMMON"]
    return re.compile("|".join([*hosts, *places, *workshop]), re.IGNORECASE)


def run_tool(*argv: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1", "NO_COLOR": "1", "COLUMNS": "140"}
    return subprocess.run(argv, cwd=REPOSITORY, env=environment, check=False, capture_output=True, text=True, timeout=300)


def tool(name: str) -> str:
    """Return the program of that name in this Python's own environment, so that no other version of it is taken."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        pytest.fail(f"{name} is not installed beside {sys.executable}: pip install '.[test]'")
    return str(path)


def test_files_functions_and_classes_keep_to_their_budgets() -> None:
    report(violations(over_budget, sources()), "Over budget, split them")


def test_pure_packages_import_nothing_that_does_input_or_output() -> None:
    report(violations(impure, in_package()), "Pure packages that are not")


def test_reserved_modules_are_imported_by_their_owners_only() -> None:
    report(violations(trespassing, in_package()), "Imports of what belongs to others")


def test_only_the_process_transport_starts_processes() -> None:
    report(violations(starting_processes, in_package()), "Processes started outside sidecar.transport.process")


def test_every_package_named_in_the_architecture_page_exists() -> None:
    named = set(
        re.findall(r"`((?:[\w/]+/|[\w/]+\.py))`|`((?:sidecar|tests)/[\w/.]+)`", (PACKAGE / "ARCHITECTURE.md").read_text())
    )
    missing = [name for name in map("".join, named) if not any((base / name).exists() for base in (REPOSITORY, PACKAGE))]
    report(missing, "ARCHITECTURE.md names what does not exist")


def test_every_package_of_the_tree_is_named_in_the_architecture_page() -> None:
    text = (PACKAGE / "ARCHITECTURE.md").read_text()
    folders = sorted({path.relative_to(PACKAGE).parts[0] for path in in_package() if path.parent != PACKAGE})
    report([folder for folder in folders if f"`{folder}/`" not in text], "Packages without a line in ARCHITECTURE.md")


def test_no_file_names_a_registry_or_a_place_on_one_machine() -> None:
    pattern = forbidden_words()
    found: list[str] = []
    for path in git_files():
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1):
            match = pattern.search(line)
            if match:
                found.append(f"{name_of(path)}:{number} holds {match.group()!r}")
    report(found, "Words that must not stand in the repository")


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (over_budget, "def f(a, b, c, d, e, f): pass"),
        (over_budget, "def f():\n" + "    x = 1\n" * FUNCTION_LINES),
        (over_budget, "class C:\n" + "    x = 1\n" * CLASS_LINES),
        (impure, "def f():\n    import os.path"),
        (impure, "from asyncio import sleep"),
        (trespassing, "from pygls import server"),
        (trespassing, "from ..acp import schema"),
        (trespassing, "from sidecar import acp"),
        (starting_processes, "import os\nos.posix_spawn('/bin/true', [], {})"),
        (starting_processes, "async def f(loop):\n    await loop.subprocess_exec(print, 'true')"),
    ],
)
def test_each_rule_finds_a_planted_violation(rule: Rule, text: str) -> None:
    assert len(list(rule(PACKAGE / "rpc" / "framing.py", ast.parse(text)))) == 1


def must_be_content(*argv: str) -> None:
    """Run a checker over the tree and fail with what it printed, and nothing else, when it is not content."""
    done = run_tool(*argv)
    if done.returncode != 0:
        pytest.fail(f"{Path(argv[0]).name} is not content:\n{done.stdout[-8000:]}{done.stderr[-2000:]}", pytrace=False)


@pytest.mark.lint
def test_imports_keep_to_the_layers() -> None:
    must_be_content(tool("lint-imports"), "--no-cache")


@pytest.mark.lint
def test_the_linter_finds_nothing() -> None:
    must_be_content(tool("ruff"), "check", "--no-cache", "--output-format", "concise", ".")


@pytest.mark.lint
def test_the_formatter_would_change_nothing() -> None:
    must_be_content(tool("ruff"), "format", "--no-cache", "--check", ".")


@pytest.mark.lint
@pytest.mark.timeout(400)
def test_the_strict_type_checker_finds_nothing() -> None:
    must_be_content(tool("pyright"), "--pythonpath", sys.executable)
