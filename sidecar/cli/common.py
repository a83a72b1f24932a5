"""The part of the command line every command shares; the language server needs nothing else to start.

Wrong usage is a ``ConfigFault`` with a sentence that says the fix; the caller ends with exit code 2.
"""

from collections.abc import Sequence
from typing import Final

import attrs

from sidecar.errors import ConfigFault

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
_COMMON_FLAGS: Final = {"--config": "config", "--log-file": "log_file", "--log-level": "log_level"}
_SERVE_WORDS: Final = ("serve", "--stdio")
# vscode-languageclient adds this to every server it starts; the end of the editor is seen by the end of its pipe.
_IGNORED_PREFIX: Final = "--clientProcessId="


@attrs.frozen
class CommonOptions:
    """Options any command takes, in any position. Paths are as typed; None means not given."""

    config: str | None = None
    log_file: str | None = None
    log_level: str | None = None


NOTHING_COMMON: Final = CommonOptions()


@attrs.frozen
class ServeOptions:
    """The language server on stdin and stdout."""

    common: CommonOptions = NOTHING_COMMON


def split_common(arguments: Sequence[str]) -> tuple[CommonOptions, list[str]]:
    """Take the common options out of ``arguments`` wherever they stand (up to ``--``) and return the rest."""
    found: dict[str, str] = {}
    rest: list[str] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word == "--":
            rest += [word, *words]
            break
        flag, joined, value = word.partition("=")
        field = _COMMON_FLAGS.get(flag)
        if field is None:
            rest.append(word)
            continue
        if not joined:
            if not words:
                raise ConfigFault(f"{flag} needs a value; write {flag} VALUE")
            value = words.pop(0)
        if not value:
            raise ConfigFault(f"{flag} needs a value that is not empty")
        found[field] = value
    level = found.get("log_level")
    if level is not None:
        found["log_level"] = level.lower()
        if level.lower() not in LOG_LEVELS:
            raise ConfigFault(f"--log-level must be one of {', '.join(LOG_LEVELS)}")
    return CommonOptions(**found), rest


def is_serve(rest: Sequence[str]) -> bool:
    """Tell whether what remains asks for the language server: nothing, ``serve``, ``--stdio``, or both."""
    words = [word for word in rest if not word.startswith(_IGNORED_PREFIX)]
    return all(word in _SERVE_WORDS for word in words) and len(set(words)) == len(words)
