"""What is said about an end, and what error output is never shown with."""

import pytest

from sidecar.transport.exits import TAIL_SHOWN_CHARACTERS, ExitStatus, describe_exit, spawn_failure
from sidecar.transport.process import Launch


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (ExitStatus(0, lived=0.25), "kiro exited with code 0 after 0.2 s (/usr/bin/kiro)."),
        (ExitStatus(None, 9), "kiro was ended by SIGKILL (/usr/bin/kiro)."),
        (ExitStatus(None, 250), "kiro was ended by signal 250 (/usr/bin/kiro)."),
        (ExitStatus(None), "kiro ended in a way that was not seen (/usr/bin/kiro)."),
    ],
)
def test_an_end_is_one_sentence(status: ExitStatus, words: str) -> None:
    assert describe_exit("kiro", ["/usr/bin/kiro", "acp"], status, "") == f"{words} It wrote nothing to its error output."


def test_long_error_output_is_shown_from_its_end() -> None:
    told = describe_exit("kiro", ["/usr/bin/kiro"], ExitStatus(1), "begin " + "x" * 5000 + " the reason\n")
    assert told.endswith("the reason")
    assert "begin" not in told
    assert len(told) < TAIL_SHOWN_CHARACTERS + 200


def test_an_unknown_refusal_of_the_system_is_named() -> None:
    error = spawn_failure("kiro", ["/usr/bin/kiro"], "EAGAIN")
    assert error.message == "kiro could not be started (/usr/bin/kiro): the system refused with EAGAIN."
    assert error.data == {"reason": "EAGAIN", "program": "/usr/bin/kiro"}


def test_the_error_output_of_an_agent_is_redacted_unless_told_otherwise() -> None:
    launch = Launch(argv=["/bin/true"], cwd="/", env={}, name="x")
    assert launch.redact("open https://as.example/authorize?state=SECRET now") == "open https://as.example/*** now"


def test_the_repr_of_a_launch_shows_no_environment() -> None:
    assert "SECRET" not in repr(Launch(argv=["/bin/true"], cwd="/", env={"TOKEN": "SECRET"}, name="x"))
