"""``allow-once`` against commands that hide what they touch."""

from typing import Any

import pytest

from sidecar.cli.answers import allow_once
from tests.unit.cli.test_answers import ALLOW, REJECT, permission


@pytest.mark.parametrize(
    "more",
    [
        {"title": "cp evil .git/hooks/pre-commit", "toolKind": "execute"},
        {"rawInput": {"cmd": "true\ncp evil .git/hooks/pre-commit"}},
        {"rawInput": {"script": "true\ncp evil .git/hooks/pre-commit\n"}},
        {"rawInput": {"command": ["sh", "-c", "true\ncp evil .git/hooks/pre-commit"]}},
        {"title": "cat\\n.git/config", "toolKind": "execute"},
        {"title": "cat\\t.git/config", "toolKind": "execute"},
        {"command": "cat\\r.git/config"},
        {"command": 'cat ~/.s""sh/id'},
        {"command": "cat ~/.ss\\h/id"},
        {"command": "cp evil .'gi't/hooks/pre-commit"},
        {"command": "cp evil .g*/hooks/pre-commit"},
        {"command": "cp evil .g?t/hooks/pre-commit"},
        {"command": "cp evil ./.[g]it/hooks/pre-commit"},
    ],
)
def test_a_protected_path_is_found_however_it_is_written(more: dict[str, Any]) -> None:
    answer, told = allow_once(permission(ALLOW, REJECT, **more), "/project", ())
    assert answer is None
    assert "protected" in told


@pytest.mark.parametrize(
    "more",
    [
        {"title": "Run make test", "command": "make test"},
        {"command": "ls *.py src/?.c"},
        {"command": "grep -n 'a\\.b' ./x.txt"},
        {"rawInput": {"content": "see .git/config\nfor more"}, "path": "/project/notes.md"},
    ],
)
def test_what_touches_nothing_protected_is_still_allowed(more: dict[str, Any]) -> None:
    answer, _ = allow_once(permission(ALLOW, REJECT, **more), "/project", ())
    assert answer == {"optionId": "y"}
