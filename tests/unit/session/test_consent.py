"""How far a remembered answer may reach, and what is said about it first."""

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.session.consent import (
    covers,
    covers_everything,
    is_compound,
    is_literal_only,
    offered_scopes,
    patterns_for,
    widening_examples,
)
from sidecar.session.interaction import Consent


def shell(resource: str, trigger: str | None = None, *, persistable: bool = True) -> Consent:
    return Consent("shell", resource, trigger, scopes=offered_scopes(workspace_is_session=True), persistable=persistable)


@pytest.mark.parametrize(
    "text",
    [
        "echo hello",
        "npm run test",
        "ls -la src/main.py",
        "git commit -m 'fix the thing'",
        'grep "two words" file.txt',
        "cp a.txt b.txt",
        "C:\\tools\\build.exe /x",
        "rm *.log",
        "tar xf a.tar --directory=~/x",
        "make -j4 CFLAGS=-O2",
    ],
)
def test_a_plain_command_is_not_compound(text: str) -> None:
    assert not is_compound(text)


@pytest.mark.parametrize(
    "text",
    [
        "npm run a && rm -rf ~",
        "npm run a; rm -rf ~",
        "npm run a | sh",
        "npm run a & rm x",
        "npm run a\nrm -rf ~",
        "npm run a\r\nrm",
        "npm run $(id)",
        "npm run `id`",
        "diff <(id) x",
        "npm run a > ~/.bashrc",
        "npm run a >> x",
        "sort < x",
        "X=$(id) npm run a",
        "X=1 npm run a",
        "LD_PRELOAD+=x ls",
        "echo $HOME",
        "echo ${IFS}",
        "(cd x)",
        "{ a",
        "! a",
        "if true",
        "eval 'x'",
        ". ./env",
        "source env",
        "echo 'unbalanced",
        'echo "un',
        'echo "a\\" b"',
        "echo 'a & b'",
        "echo %PATH%",
        "echo ^x",
        "echo a # comment",
        "a \\",
        "",
        "   ",
        "ls \u202e x",
        "ls\xa0-l",
        "ls" + " " * 100 + "x",
        "ls\tx",
        "ls\0x",
    ],
)
def test_o18_anything_not_provably_one_plain_command_is_compound_and_never_widened(text: str) -> None:
    assert is_compound(text)
    patterns = patterns_for(shell(text))
    assert [(item.pattern, item.level) for item in patterns] == [(text, "literal")]
    assert any("exactly as it stands" in warning for warning in patterns[0].warnings)


@given(st.text(alphabet="ab '\"\\&|;<>`$(){}^!#\n=%~*-/.", max_size=30))
def test_text_with_shell_syntax_is_always_compound(text: str) -> None:
    if any(char in text for char in "&|;<>`$(){}^!#\n"):
        assert is_compound(text)


def test_o17_the_literal_comes_first_and_each_wider_step_says_what_else_it_allows() -> None:
    literal, *wider = patterns_for(shell("npm run test"))
    assert (literal.pattern, literal.level, literal.confirm, literal.also_allows) == ("npm run test", "literal", False, ())
    assert [item.pattern for item in wider] == ["npm run *", "npm *", "*"]
    assert "npm run x; rm -rf ~" in wider[0].also_allows
    assert all(item.also_allows for item in wider)
    assert [item.confirm for item in wider] == [False, False, True]
    assert any('"npm" runs what its arguments' in warning for warning in wider[0].warnings)
    assert wider[-1].level == "everything"


def test_paths_widen_by_folder() -> None:
    consent = Consent("fs_write", "src/app/[id]/page (1).tsx", scopes=("session",))
    assert [item.pattern for item in patterns_for(consent)] == [
        "src/app/[id]/page (1).tsx",
        "src/app/[id]/*",
        "src/app/*",
        "src/*",
        "*",
    ]
    assert "src/../../.bashrc" in patterns_for(consent)[3].also_allows
    assert [item.pattern for item in patterns_for(Consent("fs_write", "/etc/hosts"))] == ["/etc/hosts", "/etc/*", "*"]
    assert [item.pattern for item in patterns_for(Consent("fs_write", "a\u202eb"))] == ["a\u202eb"]


def test_one_word_and_a_wildcard_in_the_text_itself() -> None:
    assert [item.pattern for item in patterns_for(shell("ls"))] == ["ls", "*"]
    assert any("holds a *" in warning for warning in patterns_for(shell("rm *.log"))[0].warnings)


def test_o19_nothing_is_suggested_when_the_agent_does_not_persist() -> None:
    assert patterns_for(shell("ls", persistable=False)) == []


def test_a_compound_trigger_keeps_its_parts_literal() -> None:
    assert is_literal_only(shell("npm test", "cd x && npm test"))
    assert not is_literal_only(shell("npm test", "npm test"))


def test_o20_workspace_is_offered_only_for_the_sessions_own_root() -> None:
    assert offered_scopes(workspace_is_session=True) == ("session", "workspace", "user")
    assert offered_scopes(workspace_is_session=False) == ("session", "user")


@pytest.mark.parametrize(
    ("pattern", "literal", "result"),
    [
        ("npm run *", "npm run test", True),
        ("npm run *", "npm running", False),
        ("*", "", True),
        ("a*a", "a", False),
        ("a*b*c", "aXbYc", True),
        ("a*b*c", "aXcYb", False),
        ("a?c", "abc", False),
        ("[a]", "[a]", True),
        ("**", "anything", True),
    ],
)
def test_only_the_star_is_a_wildcard(pattern: str, literal: str, result: bool) -> None:
    assert covers(pattern, literal) is result


@given(st.text("ab*", max_size=8), st.text("ab", max_size=12))
def test_covering_agrees_with_glob_matching(pattern: str, literal: str) -> None:
    assert covers(pattern, literal) == fnmatch.fnmatchcase(literal, pattern)


@pytest.mark.parametrize(
    ("capability", "pattern", "result"),
    [
        ("shell", "*", True),
        ("shell", " *", True),
        ("shell", "**", True),
        ("shell", "n*", True),
        ("shell", "npm*", True),
        ("shell", "npm *", False),
        ("shell", "npm", False),
        ("fs_write", "*", True),
        ("fs_write", "/*", True),
        ("fs_write", "./*", True),
        ("fs_write", "../*", True),
        ("fs_write", "~/*", True),
        ("fs_write", "C:\\*", True),
        ("web_fetch", "https://*", True),
        ("web_fetch", "https://docs.example/*", False),
        ("fs_write", "src/*", False),
        ("some_new_capability", "x*", True),
    ],
)
def test_a_pattern_that_covers_everything_is_recognised(capability: str, pattern: str, result: bool) -> None:
    assert covers_everything(pattern, capability) is result


@given(st.text("ab */.", max_size=10))
def test_examples_are_always_covered_by_their_pattern(pattern: str) -> None:
    for capability in ("shell", "fs_read", "web"):
        examples = widening_examples(pattern, "a", capability=capability)
        assert all(covers(pattern, example) and example != "a" for example in examples)
        assert bool(examples) == ("*" in pattern)
