"""Who answers an agent's questions without a user in front: a refusal, or what was typed for that one run. Pure but for paths.

``allow-once`` picks an offered ``allow_once`` when exactly one is offered and no protected path is touched; each such answer is
printed. It is the only case in which the sidecar answers an allow (CONTRACT 1).
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from sidecar.config import config_file, state_directory
from sidecar.session.protected import why_protected

Question: TypeAlias = Mapping[str, Any]
Answer: TypeAlias = Mapping[str, Any]

REJECTS: Final = ("reject_once", "reject_always")
MAX_CHECKED_PATHS: Final = 4096
_BETWEEN_WORDS: Final = re.compile(r"[\s\"'`;&|<>(){}=,]+")
_QUOTING: Final = re.compile(r"[\"'\\]")
_ESCAPES: Final = re.compile(r"\\(?:[nrt]|u\{[0-9a-f]+\})")
_WILD: Final = re.compile(r"[*?\[]")
_COMMAND_KEYS: Final = frozenset({"command", "cmd", "commandLine", "command_line", "script"})
"""Members of a tool's input that may be run as they are, however many lines they have."""


def refuse(question: Question) -> Answer | None:
    """Return the answer that says no, among what is offered; None when only withdrawing is left."""
    if question["kind"] == "permission":
        offered = choosable(question)
        for kind in REJECTS:
            for option in offered:
                if option.get("kind") == kind:
                    return {"optionId": option["optionId"]}
        return None
    return {
        "openUrl": {"action": "decline"},
        "form": {"action": "decline"},
        "signIn": {"action": "cancel"},
        "trust": {"action": "decline"},
    }.get(question["kind"])


def allow_once(question: Question, cwd: str, protected: Sequence[str]) -> tuple[Answer | None, str]:
    """Return the one ``allow_once`` offered and a line that says so, or None and why not.

    ``cwd`` is the session's folder, against which relative paths are read; ``protected`` are further paths nobody may touch.
    """
    if question["kind"] != "permission":
        return None, f"--permission allow-once does not answer a {question['kind']} question"
    once = [option for option in question.get("options") or () if option.get("kind") == "allow_once"]
    if len(once) != 1 or once[0] not in choosable(question):
        return None, f"{len(once)} one-time options are offered; exactly one is needed to allow"
    paths = touched_paths(question)
    if len(paths) > MAX_CHECKED_PATHS:
        return None, f"it names {len(paths)} words that may be paths; more than {MAX_CHECKED_PATHS} are not checked"
    for path in paths:
        for form in _forms(path, cwd):
            if (why := why_protected(form, protected)) is not None:
                return None, f"{path} is protected: {why}"
        if _is_open_ended(path):
            return None, f"{path} may stand for a protected path: it begins with a dot and is not written out"
    return {"optionId": once[0]["optionId"]}, f"allowed once: {question['title']}"


def choosable(question: Question) -> list[Mapping[str, Any]]:
    """Return the options that can be named: those whose id stands there once."""
    options: list[Mapping[str, Any]] = list(question.get("options") or ())
    ids = [option["optionId"] for option in options]
    return [option for option in options if ids.count(option["optionId"]) == 1]


def touched_paths(question: Question) -> list[str]:
    """Return every path the question names: its own, its diffs', and any word of its command or of the tool's input."""
    found: list[str] = [question["path"]] if isinstance(question.get("path"), str) else []
    diff = question.get("diff")
    if isinstance(diff, Mapping):
        changes = cast("Sequence[Mapping[str, Any]]", (diff, *cast("Mapping[str, Any]", diff).get("more", ())))
        found += [str(entry["path"]) for entry in changes if isinstance(entry.get("path"), str)]
    consent = question.get("consent")
    if isinstance(consent, Mapping):
        texts = cast("Mapping[str, Any]", consent)
        for key in ("resource", "triggeringResource"):
            if isinstance(texts.get(key), str):
                found += [texts[key], *_words(texts[key])]
    shown = question.get("command") or question.get("title")  # a title alone may be the command
    if isinstance(shown, str):
        found += _words(shown)
    for text in _short_texts(question.get("rawInput")):
        found += [text, *_words(text)]
    return list(dict.fromkeys(word for word in found if word))


def _words(text: str) -> list[str]:
    """Return the words of a text, also as a shell reads them: apart at what is shown as an escape, without quotes inside."""
    apart = _ESCAPES.sub(" ", text)
    return [
        word for given in dict.fromkeys((text, apart, _QUOTING.sub("", apart))) for word in _BETWEEN_WORDS.split(given) if word
    ]


def _is_open_ended(path: str) -> bool:
    """Whether a shell would find the name of a hidden file or folder out of a pattern."""
    return any(part.startswith(".") and _WILD.search(part) for part in path.split("/"))


def _short_texts(value: Any, *, command: bool = False) -> Iterator[str]:
    """Yield the one-line texts of a tool's input, and commands; other longer ones are contents, not names."""
    if isinstance(value, str):
        if command or "\n" not in value:
            yield value
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[str, Any]", value).items():
            yield from _short_texts(item, command=command or key in _COMMAND_KEYS)
    elif isinstance(value, list | tuple):
        for item in cast("Sequence[Any]", value):
            yield from _short_texts(item, command=command)


def protected_paths(config: str | None) -> list[str]:
    """Return what belongs to the sidecar itself: its state, and its configuration (``config``: the file named for this run)."""
    file, named = config_file(config)
    return [str(file if named else file.parent), str(state_directory())]


def _forms(path: str, cwd: str) -> set[str]:
    """Return a path as written and where it leads: home and variables expanded, symbolic links followed."""
    expanded = os.path.expanduser(os.path.expandvars(path.removeprefix("file://")))  # noqa: PTH111 - text of an agent
    try:
        real = os.path.realpath(os.path.join(cwd, expanded))  # noqa: PTH118 - as above
    except (OSError, ValueError):
        real = expanded
    return {path, expanded, real}
