"""Questions as sections of the transcript, and the answers the user edits there. Pure.

A section begins with a heading that carries the question's id and a token of this process, so that a section an earlier sidecar
left behind answers nothing now, and ends with a line of its own: what stands below may be an agent's. In between are the whole
text and, where they apply, ``pattern:`` and ``scope:`` lines or one ``name: value`` line per field of a form.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import attrs

from sidecar.editor.ask_text import Choice, choices, question_text
from sidecar.editor.transcript_text import QUESTION_PREFIX
from sidecar.errors import EditorFault
from sidecar.session.consent import covers_everything, is_literal_only, patterns_for, widening_examples
from sidecar.session.export import fenced
from sidecar.session.forms import asks_for_secret, choices_of, properties_of, required_of
from sidecar.session.interaction import (
    Answer,
    Consent,
    Form,
    FormAnswer,
    OpenUrl,
    PermissionAnswer,
    PermissionRequest,
    SignInAnswer,
    TrustAnswer,
    UrlAnswer,
    Withdrawal,
)
from sidecar.session.lenient import object_at
from sidecar.session.neutral import is_plain, neutralise
from sidecar.session.question_json import PERSISTENT_KINDS
from sidecar.workspace.broker import Pending

PATTERN: Final = "pattern: "
SCOPE: Final = "scope: "
EXAMPLES_SHOWN: Final = 3
_TRUTH: Final = {"true": True, "yes": True, "false": False, "no": False}


@attrs.frozen
class Offer:
    """One thing the user can answer: the title of its code action, and what ``pending.answer`` takes.

    ``form`` true: the values still have to be read from the section.
    """

    title: str
    answer: Mapping[str, Any]
    form: bool = False
    refuses: bool = False


def section_heading(question_id: str, token: str) -> str:
    """Return the first line of a question's section."""
    return f"{QUESTION_PREFIX}{question_id} ({token})"


def section_end(question_id: str) -> str:
    """Return the last line of a question's section."""
    return f"*Answer {question_id} with a code action on this section.*"


def section_lines(pending: Pending, token: str, notice: str | None = None) -> list[str]:
    """Return the section of a question; nothing of a sign-in address but its host stands in it."""
    text = question_text(pending, notice)
    if isinstance(pending.body, OpenUrl):
        text = "\n".join(line for line in text.split("\n") if not line.startswith("Address: "))
    offered = [f"- {offer.title}" for offer in offers(pending, None)]
    lines = [section_heading(pending.id, token), "", *fenced(text, "text").split("\n"), "", *offered]
    editable = [line for block in _editable_lines(pending) for line in block.split("\n")]
    return [*lines, *([""] if editable else []), *editable, "", section_end(pending.id)]


def find_section(lines: Sequence[str], question_id: str, token: str) -> tuple[int, int] | None:
    """Return the first and last line number of a question's section; None when its heading or its end is gone."""
    first = section_start(lines, question_id, token)
    end = section_end(question_id)
    if first is None:
        return None
    for number in range(first + 1, len(lines)):
        line = lines[number].rstrip()
        if line == end:
            return first, number
        if line.startswith(QUESTION_PREFIX):
            return None
    return None


def section_start(lines: Sequence[str], question_id: str, token: str) -> int | None:
    """Return the line number of a question's heading."""
    heading = section_heading(question_id, token)
    return next((number for number in range(len(lines) - 1, -1, -1) if lines[number].rstrip() == heading), None)


def ended_line(question_id: str, body: object, answer: Answer | Withdrawal) -> str:
    """Return the line that tells how a question ended."""
    return f"*Question {question_id}: {_ending(body, answer)}.*"


def _ending(body: object, answer: Answer | Withdrawal) -> str:
    if isinstance(answer, Withdrawal):
        return f"withdrawn, {answer.value}"
    if isinstance(answer, PermissionAnswer) and isinstance(body, PermissionRequest):
        option = next((option for option in body.options if option.option_id == answer.option_id), None)
        name = neutralise(option.name if option is not None else answer.option_id)
        reach = f" for {neutralise(answer.resource)}" if answer.resource else ""
        return f"answered “{name}”{reach}{f' ({answer.scope})' if answer.scope else ''}"
    if isinstance(answer, UrlAnswer):
        opened = "opened" if answer.opened else "not opened; no browser took it"
        return opened if answer.action == "open" else "declined" if answer.action == "decline" else "copied"
    if isinstance(answer, FormAnswer):
        return "filled in" if answer.action == "accept" else "declined" if answer.action == "decline" else "cancelled"
    if isinstance(answer, SignInAnswer):
        return "sign-in started" if answer.action == "start" else "cancelled"
    return "trusted" if isinstance(answer, TrustAnswer) and answer.action == "trust" else "declined"


# --- what can be chosen -------------------------------------------------------------------------------------------------------


def offers(pending: Pending, section: Sequence[str] | None) -> list[Offer]:
    """Return what can be answered, a refusal first. ``section`` (its lines) gives pattern and scope; None: as received."""
    body = pending.body
    found = [_offer(pending, choice, section) for choice in choices(pending) if choice.answer is not None]
    return [*found, Offer("Send the form", {"action": "accept"}, form=True)] if isinstance(body, Form) else found


def _offer(pending: Pending, choice: Choice, section: Sequence[str] | None) -> Offer:
    body, answer = pending.body, choice.answer or {}
    plain = Offer(choice.title, answer, refuses=choice.refuses)
    if not isinstance(body, PermissionRequest) or section is None:
        return plain
    kind = next((option.kind for option in body.options if option.option_id == answer.get("optionId")), "")
    consent = body.consent
    if kind not in PERSISTENT_KINDS or consent is None or not consent.persistable:
        return plain
    pattern, scope = _value(section, PATTERN), _value(section, SCOPE)
    more = {**({"scope": scope} if scope else {}), **({"resource": pattern} if pattern else {})}
    return attrs.evolve(plain, title=f"{choice.title} — {_reach(consent, pattern, scope)}", answer={**answer, **more})


def _reach(consent: Consent, pattern: str | None, scope: str | None) -> str:
    """Say in the title what is remembered; a pattern wider than what was asked says what else it covers."""
    where = f" ({neutralise(scope)})" if scope else ""
    literal = neutralise(consent.resource)
    if pattern is None or pattern in {consent.resource, literal}:
        return f"{literal}{where}"
    if covers_everything(pattern, consent.capability):
        return f"ALL of {neutralise(consent.capability)}: {neutralise(pattern)}{where}"
    others = widening_examples(pattern, consent.resource, capability=consent.capability)
    also = f", also allows {', '.join(neutralise(text) for text in others[:EXAMPLES_SHOWN])}" if others else ""
    return f"{neutralise(pattern)}{also}{where}"


def covers_all(pending: Pending, answer: Mapping[str, Any]) -> bool:
    """Return whether an answer's pattern covers everything of its capability, so that it has to be chosen twice."""
    body, resource = pending.body, answer.get("resource")
    if not isinstance(body, PermissionRequest) or body.consent is None or not isinstance(resource, str):
        return False
    literal = {body.consent.resource, neutralise(body.consent.resource)}
    return resource not in literal and covers_everything(resource, body.consent.capability)


# --- lines the user edits -----------------------------------------------------------------------------------------------------


def _editable_lines(pending: Pending) -> list[str]:
    """Return the blocks, of one or more lines each, that the user may edit, with what they mean."""
    body = pending.body
    if isinstance(body, Form):
        return [_field_block(name, prop, body) for name, prop in properties_of(body.schema).items()]
    if not isinstance(body, PermissionRequest) or body.consent is None or not body.consent.persistable:
        return []
    if not any(option.kind in PERSISTENT_KINDS for option in body.options):
        return []
    consent = body.consent
    lines = ["What a remembered answer covers; edit these lines, then choose:", ""]
    if not is_literal_only(consent):
        wider = [item.pattern for item in patterns_for(consent) if item.level == "wider"]
        hint = f" Wider: {', '.join(neutralise(pattern) for pattern in wider[:EXAMPLES_SHOWN])}" if wider else ""
        lines += [f"(* stands for anything.{hint})", "", f"{PATTERN}{neutralise(consent.resource)}"]
    if consent.scopes:
        default = "session" if "session" in consent.scopes else consent.scopes[0]
        lines += [""] if not is_literal_only(consent) else []
        lines += [f"(scopes: {', '.join(consent.scopes)})", "", f"{SCOPE}{default}"]
    return lines


def _value(section: Sequence[str], key: str) -> str | None:
    """Return the value of the last line that begins with ``key``; None when there is none or it is empty."""
    for line in reversed(section):
        if line.startswith(key.rstrip()):
            return line[len(key.rstrip()) :].strip() or None
    return None


def _field_block(name: str, prop: Mapping[str, Any], form: Form) -> str:
    label = _label(name, form)
    if asks_for_secret(name, prop):
        return f"({label}: asks for a secret; secrets are never typed here)"
    if not _answerable(prop):
        return f"({label}: cannot be answered here)"
    default = prop.get("default")
    shown = _shown_value(default) if default is not None else ""
    allowed = choices_of(prop) or choices_of(object_at(prop, "items"))
    kind = f"one of {', '.join(neutralise(value) for value in allowed)}" if allowed else str(prop.get("type", "string"))
    if prop.get("type") == "array":
        kind = f"any of, with commas between: {', '.join(neutralise(value) for value in allowed or ())}"
    needed = "needed" if name in required_of(form.schema) else "may stay empty"
    title = prop.get("title")
    about = f"{neutralise(title)}; " if isinstance(title, str) and title != name else ""
    return f"({about}{neutralise(kind)}; {needed})\n\n{label}: {shown}"


def _label(name: str, form: Form) -> str:
    """Return how a field is called in the section: its name, or its number where the name would not stand as it is."""
    names = list(properties_of(form.schema))
    return name if is_plain(name) and name.strip() == name and name and ":" not in name else f"field {names.index(name) + 1}"


def _answerable(prop: Mapping[str, Any]) -> bool:
    kind = prop.get("type")
    return kind in {"string", "number", "integer", "boolean"} or (
        kind == "array" and choices_of(object_at(prop, "items")) is not None
    )


def _shown_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(_shown_value(item) for item in cast("list[Any]", value))
    text = str(value)
    return text if is_plain(text) else ""


def read_form(form: Form, section: Sequence[str]) -> dict[str, Any]:
    """Return the content of a form as the user filled it in; raises ``EditorFault`` naming a value that fits no type.

    A line left empty is not given. Text is taken without the spaces around it.
    """
    content: dict[str, Any] = {}
    for name, prop in properties_of(form.schema).items():
        label = _label(name, form)
        if asks_for_secret(name, prop) or not _answerable(prop):
            continue
        text = _value(section, f"{label}: ")
        if text is not None:
            content[name] = _typed(label, prop, text)
    return content


def _typed(label: str, prop: Mapping[str, Any], text: str) -> Any:
    kind = prop.get("type")
    if kind == "boolean":
        if text.lower() not in _TRUTH:
            raise EditorFault(f"{label}: write true or false")
        return _TRUTH[text.lower()]
    if kind == "array":
        return [item.strip() for item in text.split(",") if item.strip()]
    if kind not in {"integer", "number"}:
        return text
    try:
        return int(text) if kind == "integer" else float(text)
    except ValueError:
        raise EditorFault(f"{label}: write a {'whole number' if kind == 'integer' else 'number'}") from None
