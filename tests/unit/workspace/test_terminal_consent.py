"""Which commands an answer allows, and for how long."""

import attrs
import pytest

from sidecar.session.interaction import Consent, PermissionAnswer, PermissionOption, PermissionRequest, Withdrawal
from sidecar.workspace.terminal_consent import AllowedCommands, seen_texts

OPTIONS = [
    PermissionOption(kind, kind, kind) for kind in ("allow_once", "allow_always", "reject_once", "reject_always", "", "something")
]
ASKED = PermissionRequest("call", "make test", OPTIONS, command="make test")
SHELL = Consent("shell", "make test", scopes=("session",))


def allowed(*answers: tuple[PermissionRequest, str]) -> AllowedCommands:
    kept = AllowedCommands()
    for body, kind in answers:
        kept.answered(body, PermissionAnswer(kind))
    return kept


def test_once_is_good_for_one_start() -> None:
    kept = allowed((ASKED, "allow_once"))
    assert not kept.take({"make"})
    assert kept.take({"make test"})
    assert not kept.take({"make test"})


def test_several_answers_about_one_tool_call_allow_one_start() -> None:
    kept = allowed((ASKED, "allow_once"), (ASKED, "allow_once"))
    assert kept.take({"make test"})
    assert not kept.take({"make test"})


@pytest.mark.parametrize("kind", ["reject_once", "reject_always", "", "something"])
def test_anything_but_an_allow_takes_an_earlier_leave_back(kind: str) -> None:
    assert not allowed((ASKED, "allow_once"), (ASKED, kind)).take({"make test"})


def test_a_withdrawn_question_takes_an_earlier_leave_back() -> None:
    kept = allowed((ASKED, "allow_once"))
    kept.answered(ASKED, Withdrawal.AGENT_WITHDREW)
    assert not kept.take({"make test"})


def test_always_holds_until_it_is_rejected_for_always() -> None:
    kept = allowed((ASKED, "allow_always"), (ASKED, "reject_once"))
    kept.turn_over()
    assert kept.take({"make test"})
    assert kept.take({"make test"})
    kept.answered(ASKED, PermissionAnswer("reject_always"))
    assert not kept.take({"make test"})


def test_the_end_of_a_turn_ends_what_was_allowed_once() -> None:
    kept = allowed((ASKED, "allow_once"))
    kept.turn_over()
    assert not kept.take({"make test"})


@pytest.mark.parametrize(
    ("command", "runs"),
    [("make all", True), ("make", False), ("make all; rm x", False), ("make $(rm x)", False), ("make all\nrm x", False)],
)
def test_a_pattern_covers_single_plain_commands(command: str, runs: bool) -> None:
    kept = AllowedCommands()
    asked = attrs.evolve(ASKED, consent=SHELL)
    kept.answered(asked, PermissionAnswer("allow_always", scope="session", resource="make *"))
    assert kept.take({command}) is runs


def test_a_pattern_over_files_allows_no_command() -> None:
    kept = AllowedCommands()
    asked = attrs.evolve(ASKED, command=None, title="Write", consent=attrs.evolve(SHELL, capability="fs_write", resource="*"))
    kept.answered(asked, PermissionAnswer("allow_always", scope="session", resource="*"))
    assert not kept.take({"ls"})


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        (ASKED, {"make test"}),
        (attrs.evolve(ASKED, command=None, raw_input={"cmd": " ls "}), {"ls"}),
        (attrs.evolve(ASKED, command=None, title="`git status`", tool_kind="execute"), {"git status"}),
        (attrs.evolve(ASKED, command=None, raw_input=["x"], title="ls", tool_kind="read"), set[str]()),
    ],
)
def test_what_the_user_saw_is_the_command_else_the_input_else_the_title_of_what_executes(
    body: PermissionRequest, texts: set[str]
) -> None:
    assert seen_texts(body) == texts
