"""``sidecar run`` and ``sidecar demo`` at a terminal: the user answers, and nobody else does."""

from pathlib import Path

import pytest

from tests.process.cli_home import CliHome, Screen

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]
CTRL_C = "\x03"
CTRL_D = "\x04"


@pytest.fixture
def home(tmp_path: Path) -> CliHome:
    return CliHome(tmp_path)


def test_the_user_allows_by_number_and_never_by_enter(home: CliHome) -> None:
    screen = Screen(home, "run", "--agent", "kiro3", "shell echo hello")
    shown = screen.until(r"Answer 1-\d: ")
    assert "kiro3 asks: echo hello" in shown
    assert "command: echo hello" in shown
    screen.type("\n")
    screen.until(r"type one of the numbers\n(.*\n)*Answer 1-\d: ")
    screen.type("1\n")
    assert screen.end() == 0
    assert "It ran." in screen.shown


def test_the_end_of_input_rejects(home: CliHome) -> None:
    screen = Screen(home, "run", "--agent", "kiro3", "shell echo hello")
    screen.until(r"Answer 1-\d: ")
    screen.type(CTRL_D)
    assert screen.end() == 0
    assert "rejected: echo hello" in screen.shown
    assert "It ran." not in screen.shown


def test_keys_typed_before_the_question_was_shown_answer_nothing(home: CliHome) -> None:
    screen = Screen(home, "run", "--agent", "kiro3", "shell echo hello")
    screen.type("1\n1\n1\n")
    screen.until(r"Answer 1-\d: ")
    screen.type("3\n")
    assert screen.end() == 0
    assert "It ran." not in screen.shown


def test_an_always_asks_for_scope_and_pattern_and_stays_literal(home: CliHome) -> None:
    record = home.home / "record"
    screen = Screen(home, "run", "--agent", "kiro3", "--record", str(record), "shell npm run test")
    screen.until(r"(\d)\. .*\(allow_always\)\n(.*\n)*Answer 1-\d: ")
    screen.type("2\n")
    screen.until(r"Remember for 1\. session, 2\. workspace, 3\. user \[1\]: ")
    screen.type("\n")
    assert "also allows" in screen.until(r"or Enter for exactly that: ")
    screen.type("\n")
    assert screen.end() == 0
    text = record.read_text()
    assert '"scope":"session"' in text
    assert '"resource":"npm run test"' in text
    assert "npm run *" not in text


def test_an_address_is_shown_at_the_terminal_only(home: CliHome) -> None:
    home.options(url="https://as.example/authorize?state=Zq7-sentinel-94812")
    out = home.home / "out"
    screen = Screen(home, "run", "--agent", "kiro3", "--output", "json", "url")
    shown = screen.until(r"anything else = no: ")
    assert "address: https://as.example/authorize?state=Zq7-sentinel-94812" in shown
    assert "host: as.example" in shown
    screen.type("c\n")
    assert screen.end() == 0
    lines = [line for line in screen.shown.splitlines() if line.startswith("{")]
    out.write_text("\n".join(lines))
    assert any("Opened: True." in line for line in lines)
    assert not any("sentinel" in line for line in lines)


def test_an_interrupt_at_a_question_cancels_and_ends_at_once(home: CliHome) -> None:
    screen = Screen(home, "run", "--agent", "kiro3", "shell echo hello")
    screen.until(r"Answer 1-\d: ")
    screen.type(CTRL_C)
    assert screen.end() == 3
    assert "It ran." not in screen.shown


def test_a_prompt_from_a_pipe_leaves_the_terminal_for_questions(home: CliHome) -> None:
    screen = Screen(home, "run", "--agent", "kiro3", "-")
    screen.type("shell echo hello\n" + CTRL_D)
    screen.until(r"Answer 1-\d: ")
    screen.type("1\n")
    assert screen.end() == 0
    assert "It ran." in screen.shown


def test_the_demo_shows_the_whole_path_answered_by_the_user(home: CliHome) -> None:
    home.env["SIDECAR_DEMO_SIGN_IN_SECONDS"] = "0"
    screen = Screen(home, "demo")
    for asked in ("Edit sidecar-demo.txt", "echo hello from the demo agent", "@demo-search/search"):
        shown = screen.until(r"Answer 1-\d: ")
        assert asked in shown
        screen.type("1\n")
    shown = screen.until(r"anything else = no: ")
    assert "host: 127.0.0.1" in shown
    screen.type("c\n")
    assert "demo-search: connected" in screen.until(r"Answer 1-\d: ")
    screen.type("1\n")
    assert screen.end() == 0
    assert "the search worked" in screen.shown
    assert "1: a line written by the demo agent" in screen.shown
