"""A question in words, for editors that show text and a list of choices (editor protocol, editors with plain LSP). Pure.

Everything is neutralised and nothing is cut in silence: what is long is announced with its length before anything can be chosen.
What an agent wrote stands behind a mark on every line, so that it cannot pass for words of the sidecar.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from sidecar.session.interaction import Form, OpenUrl, PermissionRequest, SignIn, Trust
from sidecar.session.neutral import neutralise
from sidecar.session.question_json import PERSISTENT_KINDS, answerable_options
from sidecar.workspace.broker import Pending

DECIDE_LATER: Final = "Decide later"
LONG_CHARACTERS: Final = 400
TAIL_CHARACTERS: Final = 120
DIFF_LINES_SHOWN: Final = 120
QUOTE: Final = "  │ "
REFUSALS: Final = ("reject_once", "reject_always")
ALLOWANCES: Final = ("allow_once", "allow_always")


@attrs.frozen
class Choice:
    """One item of the list; ``answer`` is what ``pending.answer`` takes, None answers nothing."""

    title: str
    answer: Mapping[str, Any] | None
    refuses: bool = False
    allows: bool = False


def one_line(pending: Pending) -> str:
    """Return who asks what, on one line, in full."""
    body = pending.body
    if isinstance(body, PermissionRequest):
        what = body.command or body.path or body.title
        asked = f"{neutralise(body.title)}: {neutralise(what)}" if what != body.title else neutralise(what)
        return f"{_asker(pending)} asks for permission{_length_note(what)}: {asked}"
    shown = str(pending.to_json()["title"])
    return f"{_asker(pending)}: {shown}"


def question_text(pending: Pending, notice: str | None = None) -> str:
    """Return the whole question; ``notice`` is a sentence of the sidecar's own that belongs to it (where a browser must run)."""
    shown = pending.to_json()
    lines = _DESCRIBE[type(pending.body)](pending, shown)
    lines += [notice] if notice else []
    return "\n".join(lines)


def choices(pending: Pending) -> list[Choice]:
    """Return what can be chosen: a refusal first, or else "Decide later"; equal titles are numbered."""
    found = _CHOICES[type(pending.body)](pending.body)
    first = next((choice for choice in found if choice.refuses), None)
    ordered = [Choice(DECIDE_LATER, None), *found] if first is None else [first, *(c for c in found if c is not first)]
    return _numbered(ordered)


def only_allow(pending: Pending) -> Choice | None:
    """Return the choice that allows, when there is exactly one."""
    found = [choice for choice in choices(pending) if choice.allows]
    return found[0] if len(found) == 1 else None


def plain_refusal(pending: Pending) -> Choice | None:
    """Return the choice that refuses without being remembered, else the only one that refuses, else None."""
    found = [choice for choice in choices(pending) if choice.refuses]
    body = pending.body
    if isinstance(body, PermissionRequest):
        kinds = {option.option_id: option.kind for option in body.options}
        once = [c for c in found if c.answer is not None and kinds[c.answer["optionId"]] not in PERSISTENT_KINDS]
        found = once or found
    return found[0] if len(found) == 1 else None


def _asker(pending: Pending) -> str:
    origin = pending.asker.origin
    marked = f" ({neutralise(origin)})" if origin not in {"agent", pending.asker.agent} else ""
    changed = " (changed question)" if pending.replaces is not None else ""
    return f"{neutralise(pending.asker.agent)}{marked}{changed}"


def _length_note(text: str) -> str:
    if len(text) <= LONG_CHARACTERS and text.count("\n") < 10:
        return ""
    lines = text.count("\n") + 1
    size = f"{len(text)} characters" + (f" on {lines} lines" if lines > 1 else "")
    return f" ({size}; its end: {neutralise(text[-TAIL_CHARACTERS:])})"


def _quoted(text: str) -> list[str]:
    return [QUOTE + line for line in text.split("\n")]


def _permission(pending: Pending, shown: Mapping[str, Any]) -> list[str]:
    body = pending.body
    assert isinstance(body, PermissionRequest)  # noqa: S101  the table below pairs them
    lines = [f"{_asker(pending)} asks for permission: {shown['title']}"]
    if body.command is not None:
        lines += [f"Command{_length_note(body.command)}:", *_quoted(shown["command"])]
    if body.path is not None:
        lines.append(f"Path: {shown['path']}")
    if body.diff is not None:
        lines += _diff_lines(shown["diff"])
    if body.mcp_tool is not None:
        tool = shown["mcpTool"]
        lines.append(f"Tool {tool['toolName']} of the MCP server {tool['serverName']} (as the agent says; not checked)")
    lines += _consent_lines(body, shown)
    return lines + list(shown["notes"])


def _diff_lines(diff: Mapping[str, Any]) -> list[str]:
    old, new = str(diff.get("oldText") or ""), str(diff.get("newText") or "")
    changed = list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=2))[2:]
    added = sum(line.startswith("+") for line in changed)
    removed = sum(line.startswith("-") for line in changed)
    head = f"Change of {diff.get('path', 'a file')}: {added} lines added, {removed} removed"
    if len(changed) <= DIFF_LINES_SHOWN:
        return [head, *(QUOTE + line for line in changed)]
    rest = len(changed) - DIFF_LINES_SHOWN
    note = f"Only {DIFF_LINES_SHOWN} lines of the change stand here, {rest} do not; pending.get and the transcript show all."
    return [head, note, *(QUOTE + line for line in changed[:DIFF_LINES_SHOWN])]


def _consent_lines(body: PermissionRequest, shown: Mapping[str, Any]) -> list[str]:
    consent = body.consent
    names = [neutralise(option.name) for option in answerable_options(body) if option.kind in PERSISTENT_KINDS]
    if consent is None or not names:
        return []
    listed = ", ".join(f"“{name}”" for name in names)
    if not consent.persistable:
        reason = f" ({shown['consent']['persistableReason']})" if consent.persistable_reason else ""
        return [f"The agent does not let {listed} be remembered{reason}."]
    what = shown["consent"]
    lines = [f"{listed}: remembered for this session, for exactly this {what['capability']}: {what['resource']}"]
    if consent.compound:
        lines.append("This is more than one plain command; it can only be remembered exactly as it stands.")
    return lines


def _url(pending: Pending, shown: Mapping[str, Any]) -> list[str]:
    who = f" for the MCP server {shown['server']}" if "server" in shown else ""
    lines = [
        f"{_asker(pending)} wants a page opened in the browser{who}.",
        f"Host: {shown['host']}",
        f"Address: {shown['display']}",
    ]
    if "message" in shown:
        lines += ["The agent says:", *_quoted(shown["message"])]
    return lines + [f"Warning: {warning}" for warning in shown["warnings"]]


def _form(pending: Pending, shown: Mapping[str, Any]) -> list[str]:
    fields = ", ".join(shown["schema"].get("properties", {})) or "no field"
    return [
        f"{_asker(pending)} asks for some values ({neutralise(fields)}):",
        *_quoted(shown["message"]),
        "It can be filled in in the transcript (sidecar.transcript.open).",
    ]


def _sign_in(pending: Pending, shown: Mapping[str, Any]) -> list[str]:
    lines = [f"{_asker(pending)}: {shown['title']}"]
    lines += _quoted(shown["message"]) if "message" in shown else []
    for method in shown["methods"]:
        ways = f" — run in a terminal: {' '.join(method['command'])}" if "command" in method else ""
        lines.append(f"“{method['name']}”{': ' + neutralise(method['description']) if 'description' in method else ''}{ways}")
    return lines


def _trust(_: Pending, shown: Mapping[str, Any]) -> list[str]:
    lines = [f"{shown['path']}: these settings run or reach something and count only if you trust them."]
    for item in shown["items"]:
        lines.append(f"From {item.get('file', 'an unknown place')}:")
        lines += [f"{QUOTE}runs {command}" for command in item.get("commands", ())]
        lines += [f"{QUOTE}reaches {url}" for url in item.get("urls", ())]
    return lines


def _permission_choices(body: PermissionRequest) -> list[Choice]:
    options = answerable_options(body)
    once_first = sorted(options, key=lambda option: option.kind != "reject_once")
    refusal = next((option for option in once_first if option.kind in REFUSALS), None)
    found = [
        Choice(
            neutralise(option.name) or neutralise(option.option_id),
            {"optionId": option.option_id},
            refuses=option.kind in REFUSALS,
            allows=option.kind in ALLOWANCES,
        )
        for option in options
    ]
    if refusal is None:
        return found
    at = options.index(refusal)
    return [found[at], *found[:at], *found[at + 1 :]]


def _url_choices(_: OpenUrl) -> list[Choice]:
    return [Choice("Decline", {"action": "decline"}, refuses=True), Choice("Open", {"action": "open"}, allows=True)]


def _form_choices(_: Form) -> list[Choice]:
    return [Choice("Decline", {"action": "decline"}, refuses=True), Choice(DECIDE_LATER, None)]


def _sign_in_choices(body: SignIn) -> list[Choice]:
    ids = [method.id for method in body.methods]
    starts = [
        Choice(neutralise(method.name), {"action": "start", "method": method.id}, allows=True)
        for method in body.methods
        if ids.count(method.id) == 1
    ]
    return [Choice("Cancel", {"action": "cancel"}, refuses=True), *starts]


def _trust_choices(_: Trust) -> list[Choice]:
    return [Choice("Decline", {"action": "decline"}, refuses=True), Choice("Trust", {"action": "trust"}, allows=True)]


def _numbered(found: Sequence[Choice]) -> list[Choice]:
    """Give choices of the same title a number each, so that a title names exactly one of them."""
    titles = [choice.title for choice in found]
    taken = set(titles)
    numbered: list[Choice] = []
    for choice in found:
        title, number = choice.title, 0
        while titles.count(choice.title) > 1 and title in taken:
            number += 1
            title = f"{choice.title} ({number})"
        taken.add(title)
        numbered.append(attrs.evolve(choice, title=title))
    return numbered


_DESCRIBE: Final[Mapping[type, Callable[[Pending, Mapping[str, Any]], list[str]]]] = {
    PermissionRequest: _permission,
    OpenUrl: _url,
    Form: _form,
    SignIn: _sign_in,
    Trust: _trust,
}
_CHOICES: Final[Mapping[type, Callable[[Any], list[Choice]]]] = {
    PermissionRequest: _permission_choices,
    OpenUrl: _url_choices,
    Form: _form_choices,
    SignIn: _sign_in_choices,
    Trust: _trust_choices,
}
