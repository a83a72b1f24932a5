"""Who answers an agent's questions in ``sidecar run``: the user at a terminal, or a refusal. Never an invented consent.

``allow-once``, typed for that one run, picks an offered ``allow_once`` when exactly one is offered and no protected path is
touched; each such answer is printed. It is the only case in which the sidecar answers an allow.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from sidecar.session.protected import why_protected

Answer: TypeAlias = Mapping[str, Any]
Policy: TypeAlias = Literal["reject", "allow-once"]

REJECTS = ("reject_once", "reject_always")


def refuse(question: Mapping[str, Any]) -> Answer | None:
    """Return the answer that says no, among what is offered; None when only withdrawing is left."""
    if question["kind"] == "permission":
        offered = _choosable(question)
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


def allow_once(question: Mapping[str, Any], protected: Sequence[str]) -> tuple[Answer | None, str]:
    """Return the one ``allow_once`` offered and a line that says so, or None and why not."""
    if question["kind"] != "permission":
        return None, f"--permission allow-once does not answer a {question['kind']} question"
    once = [option for option in _choosable(question) if option.get("kind") == "allow_once"]
    if len(once) != 1:
        return None, f"{len(once)} one-time options are offered; one is needed to allow"
    for path in touched_paths(question):
        if (why := why_protected(path, protected)) is not None:
            return None, f"{path} is protected: {why}"
    return {"optionId": once[0]["optionId"]}, f"allowed once: {question['title']}"


def touched_paths(question: Mapping[str, Any]) -> list[str]:
    """Return every path the question names: its own, its diffs', and any word of its command."""
    found: list[str] = [question["path"]] if isinstance(question.get("path"), str) else []
    diff = question.get("diff")
    if isinstance(diff, Mapping):
        found += [str(entry["path"]) for entry in (diff, *diff.get("more", ())) if isinstance(entry.get("path"), str)]
    consent = question.get("consent")
    if isinstance(consent, Mapping):
        found += [str(consent[key]) for key in ("resource", "triggeringResource") if isinstance(consent.get(key), str)]
    command = question.get("command")
    if isinstance(command, str):
        found += [word.strip("\"'`;&|<>()") for word in command.split()]
    return found


def _choosable(question: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    options: list[Mapping[str, Any]] = list(question.get("options") or ())
    ids = [option["optionId"] for option in options]
    return [option for option in options if ids.count(option["optionId"]) == 1]


def describe(question: Mapping[str, Any]) -> list[str]:
    """Return the question as lines for a terminal; everything in it is neutralised already."""
    lines = [f"{question.get('agent', 'the agent')} asks: {question.get('title', '')}"]
    lines += [f"  {name}: {question[name]}" for name in ("origin", "command", "path", "message", "host") if question.get(name)]
    lines += [f"  warning: {warning}" for warning in question.get("warnings") or ()]
    consent = question.get("consent")
    if isinstance(consent, Mapping):
        lines.append(f"  {consent.get('capability')}: {consent.get('resource')}")
    return lines


def pick(question: Mapping[str, Any], read: Callable[[str], str | None], write: Callable[[str], None]) -> Answer | None:
    """Ask at the terminal; None when the user gave no answer (end of input): the question is then refused, not allowed."""
    for line in describe(question):
        write(line)
    if question["kind"] == "permission":
        return _pick_option(question, read, write)
    if question["kind"] == "openUrl":
        write(f"  open this yourself if you trust it: {question.get('url', '')}")
        said = read("Did you open it? [y/N] ")
        return {"action": "copy"} if said is not None and said.strip().lower() in {"y", "yes"} else {"action": "decline"}
    if question["kind"] == "signIn":
        methods: Sequence[Mapping[str, Any]] = question.get("methods") or ()
        for number, method in enumerate(methods, 1):
            write(f"  {number}. {method.get('name')}")
        chosen = _number(read(f"Method 1-{len(methods)}, or nothing to cancel: "), len(methods))
        return {"action": "cancel"} if chosen is None else {"action": "start", "method": methods[chosen]["id"]}
    return refuse(question)


def _pick_option(question: Mapping[str, Any], read: Callable[[str], str | None], write: Callable[[str], None]) -> Answer | None:
    offered = _choosable(question)
    for number, option in enumerate(offered, 1):
        write(f"  {number}. {option.get('name')} ({option.get('kind')})")
    while True:
        said = read(f"Answer 1-{len(offered)}: ")
        if said is None:
            return None
        chosen = _number(said, len(offered))
        if chosen is not None:
            return {"optionId": offered[chosen]["optionId"]}
        write("  type the number of an option")


def _number(said: str | None, most: int) -> int | None:
    text = (said or "").strip()
    return int(text) - 1 if text.isascii() and text.isdigit() and 1 <= int(text) <= most else None
