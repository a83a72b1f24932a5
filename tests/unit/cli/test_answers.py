"""Answers without a user in front: a real reject, or the one ``allow_once`` that is offered."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.cli.answers import allow_once, choosable, refuse, touched_paths

ALLOW = {"optionId": "y", "name": "Yes", "kind": "allow_once"}
ALWAYS = {"optionId": "a", "name": "Always", "kind": "allow_always"}
REJECT = {"optionId": "n", "name": "No", "kind": "reject_once"}
NEVER = {"optionId": "never", "name": "Never", "kind": "reject_always"}
ODD = {"optionId": "odd", "name": "Hm", "kind": "brand_new"}


def permission(*options: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "permission", "title": "do it", "options": list(options), **more}


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ((ALLOW, REJECT), "n"),
        ((NEVER, ALLOW, REJECT), "n"),
        ((ALLOW, NEVER), "never"),
        ((ALLOW, ALWAYS), None),
        ((ODD,), None),
        ((), None),
        ((REJECT, REJECT), None),
    ],
)
def test_a_refusal_is_an_offered_reject_or_nothing(options: tuple[dict[str, Any], ...], chosen: str | None) -> None:
    answer = refuse(permission(*options))
    assert answer == (None if chosen is None else {"optionId": chosen})


@pytest.mark.parametrize(
    ("kind", "answer"),
    [("openUrl", {"action": "decline"}), ("form", {"action": "decline"}), ("signIn", {"action": "cancel"}),
     ("trust", {"action": "decline"}), ("of tomorrow", None)],
)  # fmt: skip
def test_other_questions_are_declined(kind: str, answer: dict[str, Any] | None) -> None:
    assert refuse({"kind": kind, "title": "?"}) == answer


@pytest.mark.parametrize(
    "options", [(REJECT,), (ALWAYS, REJECT), (ALLOW, {**ALLOW, "optionId": "y2"}), (ALLOW, ALLOW), (ODD,), ()]
)
def test_without_exactly_one_offer_nothing_is_allowed(options: tuple[dict[str, Any], ...]) -> None:
    answer, told = allow_once(permission(*options), "/ws", [])
    assert answer is None
    assert "exactly one is needed" in told


def test_the_one_offer_is_allowed_and_told() -> None:
    assert allow_once(permission(ALWAYS, ALLOW, REJECT), "/ws", []) == ({"optionId": "y"}, "allowed once: do it")


@pytest.mark.parametrize("kind", ["openUrl", "form", "signIn", "trust"])
def test_only_permissions_are_allowed(kind: str) -> None:
    assert allow_once({"kind": kind, "title": "?"}, "/ws", [])[0] is None


@pytest.mark.parametrize(
    "more",
    [
        {"path": ".git/hooks/pre-commit"},
        {"path": "/ws/.vscode/tasks.json"},
        {"path": "file:///ws/.git/config"},
        {"diff": {"path": "a.txt", "more": [{"path": "x/.nvim.lua"}]}},
        {"command": "echo x>.git/hooks/pre-commit"},
        {"command": "cp evil '.envrc'"},
        {"command": "tee ~/.bashrc"},
        {"consent": {"capability": "fs_write", "resource": "project.code-workspace"}},
        {"rawInput": {"edits": [{"file": ".kiro/settings/mcp.json"}]}},
        {"path": "/state/sidecar/state.db"},
        {"command": "cat $SIDECAR_TEST_PLACE/state.db"},
    ],
)
def test_what_touches_a_protected_path_is_not_allowed(more: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIDECAR_TEST_PLACE", "/state/sidecar")
    answer, told = allow_once(permission(ALLOW, REJECT, **more), "/ws", ["/state/sidecar"])
    assert answer is None
    assert "is protected" in told


def test_a_link_into_a_protected_folder_does_not_hide_it(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "harmless").symlink_to(tmp_path / ".git")
    assert allow_once(permission(ALLOW, path="harmless/config"), str(tmp_path), [])[0] is None
    assert allow_once(permission(ALLOW, path="notes.txt"), str(tmp_path), [])[0] is not None


def test_too_many_words_to_check_are_not_allowed() -> None:
    answer, told = allow_once(permission(ALLOW, command=" ".join(map(str, range(5000)))), "/ws", [])
    assert answer is None
    assert "5000 words" in told


JSON = st.recursive(st.none() | st.booleans() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@given(JSON, st.text())
def test_any_tool_input_is_looked_through_without_harm(raw: Any, command: str) -> None:
    question = permission(ALLOW, rawInput=raw, command=command)
    assert all(isinstance(path, str) for path in touched_paths(question))
    answer, _ = allow_once(question, os.sep, [])
    assert answer in (None, {"optionId": "y"})


@given(st.lists(st.sampled_from([ALLOW, ALWAYS, REJECT, NEVER, ODD])))
def test_what_is_answered_was_offered_once(options: list[dict[str, Any]]) -> None:
    question = permission(*options)
    for answer in (refuse(question), allow_once(question, "/ws", [])[0]):
        if answer is not None:
            assert [option["optionId"] for option in options].count(answer["optionId"]) == 1
            assert answer["optionId"] in [option["optionId"] for option in choosable(question)]
