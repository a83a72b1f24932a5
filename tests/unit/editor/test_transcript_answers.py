"""Questions as sections: what stands in them, where they end, and what the user's edits there mean."""

import re
from typing import Any

import pytest

from sidecar.editor.transcript_answers import (
    covers_all,
    ended_line,
    find_section,
    offers,
    read_form,
    section_lines,
)
from sidecar.editor.transcript_text import COMPOSER_HEADING, TurnRenderer
from sidecar.errors import EditorFault
from sidecar.secret import SecretText
from sidecar.session.interaction import (
    Consent,
    Form,
    FormAnswer,
    OpenUrl,
    PermissionAnswer,
    PermissionOption,
    PermissionRequest,
    QuestionBody,
    UrlAnswer,
    Withdrawal,
)
from sidecar.session.questions import check_answer
from sidecar.workspace.broker import Asker, Pending

TOKEN = "beef"
OPTIONS = (
    PermissionOption("once", "Allow", "allow_once"),
    PermissionOption("always", "Always allow", "allow_always"),
    PermissionOption("no", "Deny", "reject_once"),
)


class FixedClock:
    def iso(self) -> str:
        return "2026-01-01T00:00:00Z"

    def monotonic(self) -> float:
        return 0.0


def pending(body: QuestionBody) -> Pending:
    return Pending("q7", Asker("s-1", "kiro"), body, lambda _: None, FixedClock())


def permission(command: str = "git status", **consent: Any) -> PermissionRequest:
    about = Consent("shell", command, scopes=("session", "user"), **consent)
    return PermissionRequest("c1", command, OPTIONS, command=command, consent=about)


def section_of(body: QuestionBody) -> list[str]:
    return section_lines(pending(body), TOKEN)


def edited(section: list[str], key: str, value: str) -> list[str]:
    return [f"{key}: {value}" if line.startswith(f"{key}:") else line for line in section]


def offer(body: QuestionBody, section: list[str] | None, name: str) -> Any:
    return next(found for found in offers(pending(body), section) if found.title.startswith(name))


def test_a_section_holds_the_whole_command_the_options_and_the_lines_to_edit() -> None:
    section = section_of(permission("git status"))
    assert section[0] == "### Question q7 (beef)"
    assert "  │ git status" in section
    assert [line for line in section if line.startswith("- ")] == ["- Deny", "- Allow", "- Always allow"]
    assert "pattern: git status" in section
    assert "scope: session" in section
    assert find_section(["x", *section, "pattern: *"], "q7", TOKEN) == (1, len(section))


def test_a_section_of_an_earlier_sidecar_or_without_its_end_is_no_section() -> None:
    section = section_of(permission())
    assert find_section(section, "q7", "dead") is None
    assert find_section(section[:-1], "q7", TOKEN) is None
    assert find_section([*section[:-1], "### Question q8 (beef)", section[-1]], "q7", TOKEN) is None


def test_lines_an_agent_writes_after_the_section_do_not_count() -> None:
    body = permission()
    lines = [*section_of(body), "pattern: *", "scope: user"]
    first, last = find_section(lines, "q7", TOKEN) or (0, 0)
    answer = offer(body, lines[first : last + 1], "Always allow").answer
    assert answer == {"optionId": "always", "scope": "session", "resource": "git status"}


def test_what_an_agent_asks_cannot_forge_the_lines_to_edit_or_a_heading() -> None:
    command = f"echo 1\npattern: *\n{COMPOSER_HEADING}\n### Question q7 (beef)\n*Answer q7 with a code action on this section.*"
    body = permission(command)
    section = section_of(body)
    lines = TurnRenderer("kiro").note(*section)
    assert [line for line in lines if line.startswith(("pattern:", "### Question", COMPOSER_HEADING))] == [section[0]]
    assert find_section(lines, "q7", TOKEN) == (1, len(lines) - 1)


def test_a_one_time_answer_carries_no_scope_or_pattern() -> None:
    body = permission()
    section = edited(section_of(body), "pattern", "git *")
    assert offer(body, section, "Allow").answer == {"optionId": "once"}
    assert offer(body, section, "Deny").answer == {"optionId": "no"}


def test_an_edited_pattern_is_named_in_the_title_with_what_else_it_allows() -> None:
    body = permission("git log src")
    section = edited(edited(section_of(body), "pattern", "git log *"), "scope", "user")
    found = offer(body, section, "Always allow")
    assert found.answer == {"optionId": "always", "scope": "user", "resource": "git log *"}
    assert re.search(r"git log \*, also allows git log .+ \(user\)", found.title)
    answer = check_answer(body, found.answer)
    assert isinstance(answer, PermissionAnswer)
    assert (answer.scope, answer.resource) == ("user", "git log *")


def test_the_literal_is_sent_as_received_when_the_line_was_not_edited() -> None:
    body = permission("ls")
    answer = check_answer(body, offer(body, section_of(body), "Always allow").answer)
    assert isinstance(answer, PermissionAnswer)
    assert answer.resource is None


def test_a_pattern_for_everything_says_so_and_has_to_be_chosen_twice() -> None:
    body = permission("ls")
    found = offer(body, edited(section_of(body), "pattern", "*"), "Always allow")
    assert "ALL of shell" in found.title
    assert covers_all(pending(body), found.answer)
    assert not covers_all(pending(body), {"optionId": "always", "resource": "ls"})


def test_compound_text_has_no_pattern_line() -> None:
    section = section_of(permission("a && b", compound=True))
    assert not any(line.startswith("pattern:") for line in section)
    assert "scope: session" in section


def test_an_address_stands_in_no_section_but_its_host_does() -> None:
    body = OpenUrl(SecretText("https://login.example/x?state=s3cret"), "login.example", "https://login.example/x/s3cret-path")
    section = section_of(body)
    assert any("login.example" in line for line in section)
    assert not any("s3cret" in line for line in section)
    assert [line for line in section if line.startswith("- ")] == ["- Decline", "- Open"]


FORM = Form(
    "Fill in",
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Your name", "default": "Ada"},
            "age": {"type": "integer"},
            "ratio": {"type": "number"},
            "ok": {"type": "boolean", "default": True},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
            "apiKey": {"type": "string"},
            "odd:name": {"type": "string"},
            "strange": {"type": "object"},
        },
        "required": ["name"],
    },
)


def test_a_form_has_a_line_per_field_and_none_for_a_secret() -> None:
    section = section_of(FORM)
    assert {"name: Ada", "age: ", "ok: true", "tags: ", "field 7: "} <= set(section)
    assert not any(line.startswith(("apiKey:", "strange:")) for line in section)
    assert any("apiKey" in line and "secret" in line for line in section)
    assert offers(pending(FORM), section)[-1].form


def test_a_form_is_read_with_the_types_of_its_fields() -> None:
    section = section_of(FORM)
    for key, value in {"age": "41", "ratio": "0.5", "ok": "No", "tags": "a, b", "field 7": " x y "}.items():
        section = edited(section, key, value)
    content = read_form(FORM, section)
    assert content == {"name": "Ada", "age": 41, "ratio": 0.5, "ok": False, "tags": ["a", "b"], "odd:name": "x y"}
    assert isinstance(check_answer(FORM, {"action": "accept", "content": content}), FormAnswer)


@pytest.mark.parametrize(
    ("key", "value", "fault"), [("age", "old", "whole number"), ("ratio", "x", "number"), ("ok", "2", "true or")]
)
def test_a_value_that_fits_no_type_is_named(key: str, value: str, fault: str) -> None:
    with pytest.raises(EditorFault, match=f"{key}: write .*{fault}"):
        read_form(FORM, edited(section_of(FORM), key, value))


def test_what_was_left_empty_is_not_given() -> None:
    assert read_form(FORM, edited(section_of(FORM), "name", "")) == {"ok": True}


@pytest.mark.parametrize(
    ("body", "answer", "line"),
    [
        (permission(), PermissionAnswer("always", "user", "git *"), "*Question q7: answered “Always allow” for git * (user).*"),
        (permission(), Withdrawal.TURN_CANCELLED, "*Question q7: withdrawn, the turn was cancelled.*"),
        (FORM, FormAnswer("decline"), "*Question q7: declined.*"),
        (FORM, UrlAnswer("open", opened=False), "*Question q7: not opened; no browser took it.*"),
    ],
)
def test_the_end_of_a_question_is_one_line(body: QuestionBody, answer: Any, line: str) -> None:
    assert ended_line("q7", body, answer) == line
