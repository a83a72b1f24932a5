"""Questions of an agent put to the user at the terminal, line by line.

Nothing is chosen for the user: an empty line asks again, the end of input is no answer. A remembered answer reaches no further
than the literal resource in the narrowest scope unless the user says more.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from sidecar.cli.answers import Answer, Question, choosable, refuse
from sidecar.session.lenient import object_or_none, objects_in

PERSISTENT: Final = frozenset({"allow_always", "reject_always"})
SHOWN_DIFF_LINES: Final = 200


class Dialogue(Protocol):
    """Lines out, lines in; ``read`` gives None at the end of input."""

    def write(self, line: str) -> None: ...

    def read(self, prompt: str) -> str | None: ...


def put(question: Question, at: Dialogue) -> Answer | None:
    """Put ``question`` (the view in full, already neutralised) and return the answer; None when the user gave none."""
    at.write("")
    for line in describe(question):
        at.write(line)
    return _ASK.get(question["kind"], _ask_nothing)(question, at)


def describe(question: Question) -> list[str]:
    """Return the question as lines for a terminal."""
    lines = [f"{question.get('agent', 'the agent')} asks: {question.get('title', '')}"]
    lines += _named(question, ("origin", "command", "path", "message", "host", "server"))
    lines += [f"  warning: {warning}" for warning in question.get("warnings") or ()]
    if (tool := object_or_none(question.get("mcpTool"))) is not None:
        lines.append(f"  MCP tool, as the agent says (not checked): {tool['toolName']} of {tool['serverName']}")
    if (diff := object_or_none(question.get("diff"))) is not None:
        for change in (diff, *objects_in(diff.get("more"))):
            lines += _diff(change)
    if (consent := object_or_none(question.get("consent"))) is not None:
        lines.append(f"  {consent.get('capability')}: {consent.get('resource')}")
        lines += _named(consent, ("triggeringResource",))
    for item in question.get("items") or ():
        lines.append(f"  {item.get('file')}: " + "; ".join([*item.get("commands", ()), *item.get("urls", ())]))
    lines += [f"  note: {note}" for note in question.get("notes") or ()]
    return lines


def _named(question: Question, names: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for name in names:
        value = question.get(name)
        if value and not (name == "origin" and value == "agent"):
            first, *rest = str(value).split("\n")
            lines += [f"  {name}: {first}", *(f"    {line}" for line in rest)]
    return lines


def _diff(change: Mapping[str, Any]) -> list[str]:
    old, new = change.get("oldText"), change.get("newText")
    removed = [f"  - {line}" for line in old.split("\n")] if isinstance(old, str) and old else []
    added = [f"  + {line}" for line in new.split("\n")] if isinstance(new, str) and new else []
    lines = [*removed, *added]
    cut = len(lines) - SHOWN_DIFF_LINES
    shown = [*lines[:SHOWN_DIFF_LINES], f"  ({cut} more lines)"] if cut > 0 else lines
    return [f"  change of {change.get('path')}", *shown]


def _ask_permission(question: Question, at: Dialogue) -> Answer | None:
    offered = choosable(question)
    while True:
        for number, option in enumerate(offered, 1):
            at.write(f"  {number}. {option.get('name')} ({option.get('kind')})")
        chosen = _choose(f"Answer 1-{len(offered)}: ", len(offered), at)
        if chosen is None:
            return None
        option = offered[chosen]
        answer: dict[str, Any] = {"optionId": option["optionId"]}
        consent = object_or_none(question.get("consent"))
        if option.get("kind") not in PERSISTENT or consent is None or not consent.get("persistable"):
            return answer
        reach = _ask_reach(consent, at)
        if reach is not None:
            return {**answer, **reach}


def _ask_reach(consent: Question, at: Dialogue) -> Answer | None:
    """Ask for scope and pattern of an answer that is remembered; None goes back to the options."""
    reach: dict[str, Any] = {}
    scopes: list[str] = list(consent.get("scopes") or ())
    if len(scopes) > 1:
        listed = ", ".join(f"{number}. {scope}" for number, scope in enumerate(scopes, 1))
        chosen = _choose(f"Remember for {listed} [1]: ", len(scopes), at, empty=0)
        if chosen is None:
            return None
        reach["scope"] = scopes[chosen]
    patterns = [pattern for pattern in consent.get("patterns") or () if pattern.get("level") != "literal"]
    if not patterns or consent.get("compound"):
        return reach
    at.write(f"  It is remembered for exactly: {consent.get('resource')}")
    for number, pattern in enumerate(patterns, 1):
        also = ", ".join(pattern.get("alsoAllows") or ())
        at.write(f"  {number}. {pattern['pattern']}{'  also allows: ' + also if also else ''}")
        for warning in pattern.get("warnings") or ():
            at.write(f"     warning: {warning}")
    chosen = _choose(f"Wider 1-{len(patterns)}, or Enter for exactly that: ", len(patterns), at, empty=-1)
    if chosen is None:
        return None
    if chosen < 0:
        return reach
    return _widened(patterns[chosen], reach, at)


def _widened(pattern: Mapping[str, Any], reach: dict[str, Any], at: Dialogue) -> Answer | None:
    reach["resource"] = pattern["pattern"]
    if pattern.get("confirm"):
        said = at.read(f"Type the pattern {pattern['pattern']} again if you mean it: ")
        if said is None or said.strip() != pattern["pattern"]:
            at.write("  Not confirmed.")
            return None
        reach["confirm"] = True
    return reach


def _ask_url(question: Question, at: Dialogue) -> Answer | None:
    at.write(f"  address: {question.get('url', '')}")
    said = at.read("o = open it in the browser, c = I take it from here myself, anything else = no: ")
    action = {"o": "open", "c": "copy"}.get((said or "").strip().lower(), "decline")
    return None if said is None else {"action": action}


def _ask_sign_in(question: Question, at: Dialogue) -> Answer | None:
    methods: Sequence[Mapping[str, Any]] = question.get("methods") or ()
    for number, method in enumerate(methods, 1):
        command = " ".join(method.get("command") or ())
        at.write(f"  {number}. {method.get('name')}{' (run: ' + command + ')' if command else ''}")
    chosen = _choose(f"Method 1-{len(methods)}, or Enter to cancel: ", len(methods), at, empty=-1)
    if chosen is None:
        return None
    return {"action": "cancel"} if chosen < 0 else {"action": "start", "method": methods[chosen]["id"]}


def _ask_trust(_: Question, at: Dialogue) -> Answer | None:
    said = at.read('Type "trust" to trust this, anything else declines: ')
    if said is None:
        return None
    return {"action": "trust" if said.strip().lower() == "trust" else "decline"}


def _ask_nothing(question: Question, at: Dialogue) -> Answer | None:
    at.write("  This cannot be answered at a terminal; it is declined.")
    return refuse(question)


def _choose(prompt: str, most: int, at: Dialogue, *, empty: int | None = None) -> int | None:
    """Return the index chosen, ``empty`` for an empty line when given, None at the end of input; anything else asks again."""
    while most:
        said = at.read(prompt)
        if said is None:
            return None
        text = said.strip()
        if not text and empty is not None:
            return empty
        if text.isascii() and text.isdigit() and 1 <= int(text) <= most:
            return int(text) - 1
        at.write("  type one of the numbers")
    return None


_ASK: Final = {"permission": _ask_permission, "openUrl": _ask_url, "signIn": _ask_sign_in, "trust": _ask_trust}
