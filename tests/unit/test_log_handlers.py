"""What reaches a log file, the editor, a crash report and stderr."""

import errno
import logging
import os
import pickle
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar import log
from sidecar.errors import AgentFault, ConfigFault
from sidecar.log.frames import exception_lines
from sidecar.log.handlers import FileHandler, QuietHandler, RedactingFormatter, SinkHandler
from sidecar.log.redaction import SecretRegister
from sidecar.secret import SecretText

SENTINEL = "Zq9-mark7r-77-Xw"
logger = logging.getLogger("sidecar.tests")


@pytest.fixture(autouse=True)
def no_other_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests registered must not change what is read here."""
    monkeypatch.setattr("sidecar.log.redaction._REGISTER", SecretRegister())


@pytest.fixture
def set_up(tmp_path: Path) -> Iterator[tuple[log.CrashReporter, Path, list[str]]]:
    """Logging as in the product, at DEBUG into a file; everything global is put back."""
    root = logging.getLogger()
    handlers, level, last, raising = list(root.handlers), root.level, logging.lastResort, logging.raiseExceptions
    hooks = sys.excepthook, threading.excepthook, sys.unraisablehook
    for handler in handlers:
        root.removeHandler(handler)
    said: list[str] = []
    file = tmp_path / "sidecar.log"
    try:
        reporter = log.set_up(level="debug", file=file, crash_directory=tmp_path / "crashes", say=said.append)
        yield reporter, file, said
    finally:
        for handler in list(root.handlers):
            root.removeHandler(handler)
            handler.close()
        for handler in handlers:
            root.addHandler(handler)
        root.setLevel(level)
        logging.getLogger("sidecar").setLevel(logging.NOTSET)
        logging.captureWarnings(False)
        logging.lastResort, logging.raiseExceptions = last, raising
        sys.excepthook, threading.excepthook, sys.unraisablehook = hooks


def raise_with(secret: str) -> None:
    empty: dict[str, str] = {}
    try:
        empty[secret]
    except KeyError as cause:
        raise ValueError(f"bad value {secret!r}") from cause


def lose_agent() -> None:
    raise AgentFault("the agent kiro did not answer; restart it")


def test_a_sentinel_in_every_slot_reaches_no_byte_of_the_log_at_debug(set_up: tuple[log.CrashReporter, Path, list[str]]) -> None:
    reporter, file, said = set_up
    secret = SecretText(SENTINEL)
    logger.debug("token %s %r", secret, secret, extra={"agent": "kiro", "params": {"token": SENTINEL}, "body": SENTINEL})
    logger.debug("url https://as.example/authorize?state=%s", SENTINEL)
    logger.debug("header Authorization: Bearer %s", SENTINEL)
    logger.debug('{"accessToken": "%s"}', SENTINEL)
    logging.getLogger("pygls.protocol").critical("params %s", SENTINEL)
    logging.getLogger("asyncio").error("task %s", SENTINEL)
    logging.getLogger("mcp.client").error("code %s", SENTINEL)
    logging.getLogger().critical("root %s", SENTINEL)
    try:
        raise_with(SENTINEL)
    except ValueError as error:
        logger.exception("in a handler")
        logging.getLogger("asyncio").exception("exception was never retrieved")
        reporter.report(error, "a handler")
        log.loop_exception_handler(object(), {"exception": error, "message": SENTINEL, "future": SENTINEL})
    reporter.on_loop_exception(object(), {"message": SENTINEL})
    thread = threading.Thread(target=raise_with, args=(SENTINEL,))
    thread.start()
    thread.join(5)
    reports = list((file.parent / "crashes").iterdir())
    everything = file.read_text() + "".join(said) + "".join(path.read_text() for path in reports)
    assert len(reports) == 3
    for at in range(len(SENTINEL) - 7):
        assert SENTINEL[at : at + 8] not in everything
    assert "agent=kiro" in everything
    assert "test_log_handlers.py" in everything
    assert str(Path(__file__).parent) not in everything
    assert len(said) == 3


def test_the_log_says_what_when_and_where_it_broke(set_up: tuple[log.CrashReporter, Path, list[str]]) -> None:
    _, file, _ = set_up
    try:
        lose_agent()
    except AgentFault:
        logger.exception("prompt failed", extra={"session": "s1", "duration_ms": 12, "anything": "else"})
    text = file.read_text()
    assert "ERROR sidecar.tests: prompt failed duration_ms=12 session=s1\n" in text
    assert "    AgentFault: the agent kiro did not answer; restart it\n" in text
    assert "test_log_handlers.py:" in text
    assert "anything" not in text


def test_a_library_is_logged_by_place_only_and_the_loud_ones_not_at_all(
    set_up: tuple[log.CrashReporter, Path, list[str]],
) -> None:
    _, file, _ = set_up
    logging.getLogger("asyncio").warning("slow callback %s", "x")
    logging.getLogger("pygls.server").error("body")
    logging.getLogger("asyncio").debug("never")
    text = file.read_text()
    assert "WARNING asyncio: message of a library withheld (test_log_handlers.py:" in text
    assert text.count("\n") == 1


def test_a_message_cannot_forge_a_second_line_or_control_a_terminal(set_up: tuple[log.CrashReporter, Path, list[str]]) -> None:
    _, file, _ = set_up
    logger.warning("title %s", "a\n2030-01-01 ERROR forged\r\x1b[2J\u202eb\ud800")
    (line,) = file.read_text().splitlines()
    assert "a\\n2030-01-01 ERROR forged\\r\\x1b[2J\\u202eb\\ud800" in line


def test_a_message_whose_arguments_do_not_fit_is_still_told_and_nothing_is_printed(
    set_up: tuple[log.CrashReporter, Path, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    _, file, _ = set_up
    logger.warning("%d items", "many")
    logger.warning("%s of %s", *["one"])
    assert file.read_text().count("its arguments do not fit") == 2
    assert capsys.readouterr() == ("", "")


def test_a_huge_message_is_cut(set_up: tuple[log.CrashReporter, Path, list[str]]) -> None:
    _, file, _ = set_up
    logger.warning("x" * 100_000)
    assert len(file.read_text()) < 5000
    assert "(cut)" in file.read_text()


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
def test_the_log_file_is_private_whatever_the_umask_and_no_symlink_is_followed(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        handler = FileHandler(tmp_path / "a.log")
    finally:
        os.umask(before)
    handler.close()
    assert stat.S_IMODE((tmp_path / "a.log").stat().st_mode) == 0o600
    (tmp_path / "link.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        FileHandler(tmp_path / "link.log")
    with pytest.raises(ConfigFault, match=r"link\.log cannot be opened"):
        log.set_up(file=tmp_path / "link.log")
    assert not (tmp_path / "elsewhere").exists()


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("sidecar.x", logging.WARNING, "x.py", 1, text, (), None)


def test_a_full_log_file_is_moved_aside_and_few_old_ones_are_kept(tmp_path: Path) -> None:
    handler = FileHandler(tmp_path / "a.log", max_bytes=1000, kept=2)
    for number in range(60):
        handler.emit(record(f"message number {number:04d} " + "." * 40))
    handler.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.log", "a.log.1", "a.log.2"]
    assert all(path.stat().st_size <= 1000 for path in tmp_path.iterdir())
    assert "number 0059" in (tmp_path / "a.log").read_text()


def test_two_processes_on_one_log_file_rotate_it_once(tmp_path: Path) -> None:
    first = FileHandler(tmp_path / "a.log", max_bytes=300, kept=3)
    second = FileHandler(tmp_path / "a.log", max_bytes=300, kept=3)
    for handler in (first, second, first, second, first, second):
        handler.emit(record("x" * 60))
    first.close()
    second.close()
    text = "".join(path.read_text() for path in tmp_path.iterdir())
    assert text.count("x" * 60) == 6


def test_a_full_disk_or_a_lost_folder_costs_lines_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = FileHandler(tmp_path / "a.log")

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("sidecar.log.handlers.os.write", full)
        handler.emit(record("lost"))
    handler.emit(record("kept"))
    handler.close()
    assert (tmp_path / "a.log").read_text().count("\n") == 1
    lazy = FileHandler(tmp_path / "a.log" / "below" / "b.log", lazily=True)
    lazy.emit(record("nowhere"))
    lazy.close()


def test_a_lazy_file_appears_with_the_first_record(tmp_path: Path) -> None:
    handler = FileHandler(tmp_path / "logs" / "a.log", lazily=True)
    assert not (tmp_path / "logs").exists()
    handler.emit(record("first"))
    handler.close()
    assert "first" in (tmp_path / "logs" / "a.log").read_text()


def test_the_editor_gets_our_warnings_and_errors_as_single_clean_lines() -> None:
    got: list[tuple[int, str]] = []
    handler = SinkHandler(lambda kind, text: got.append((kind, text)))
    own, other = logging.getLogger("sidecar.sink_test"), logging.getLogger("elsewhere")
    for target in (own, other):
        target.addHandler(handler)
    try:
        own.warning("warn token=%s", SENTINEL)
        own.info("quiet")
        other.error("foreign")
        try:
            raise_with(SENTINEL)
        except ValueError:
            own.exception("broke")
    finally:
        for target in (own, other):
            target.removeHandler(handler)
    assert got == [(2, "warn token=***"), (1, "broke (ValueError)")]


def test_a_sink_that_logs_or_breaks_does_no_harm() -> None:
    calls: list[str] = []
    own = logging.getLogger("sidecar.sink_loop")

    def sink(_kind: int, text: str) -> None:
        calls.append(text)
        own.error("from the sink")
        raise BrokenPipeError

    handler = SinkHandler(sink)
    own.addHandler(handler)
    try:
        own.error("once")
        own.error("twice")
    finally:
        own.removeHandler(handler)
    assert calls == ["once", "twice"]


def test_the_editor_sink_can_be_added_and_taken_away(set_up: tuple[log.CrashReporter, Path, list[str]]) -> None:
    got: list[str] = []
    end = log.add_editor_sink(lambda _kind, text: got.append(text))
    logger.warning("one")
    end()
    logger.warning("two")
    assert got == ["one"]


def test_an_exception_group_a_cause_and_a_cycle_are_told_within_bounds() -> None:
    inner = ValueError(SENTINEL)
    group = ExceptionGroup(SENTINEL, [inner, AgentFault("ours"), OSError(errno.ENOENT, "No such file or directory")])
    inner.__context__ = group
    lines = exception_lines(group)
    assert [line.strip() for line in lines] == [
        "ExceptionGroup", "ValueError", "while handling", "AgentFault: ours", "FileNotFoundError: No such file or directory",
    ]  # fmt: skip
    deep = ValueError("x")
    for _ in range(1000):
        outer = ValueError("x")
        outer.__cause__ = deep
        deep = outer
    assert len(exception_lines(deep)) < 200


def test_a_long_trace_keeps_both_ends() -> None:
    def fall(depth: int) -> None:
        if depth == 0:
            raise ValueError
        fall(depth - 1)

    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the frames are looked at, not the message
        fall(300)
    lines = exception_lines(caught.value)
    assert len(lines) < 70
    assert any("frames left out" in line for line in lines)


def test_a_crash_report_holds_versions_and_frames_and_is_private(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bad value") as caught:
        raise_with(SENTINEL)
    path = log.write_crash_report(caught.value, tmp_path / "crashes")
    assert path is not None
    text = path.read_text()
    assert "ValueError" in text
    assert "test_log_handlers.py:" in text
    assert "in raise_with" in text
    assert SENTINEL[:8] not in text
    assert str(tmp_path) not in text
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_old_crash_reports_go_and_an_unwritable_folder_gives_none(tmp_path: Path) -> None:
    for _ in range(14):
        assert log.write_crash_report(ValueError(), tmp_path / "crashes") is not None
    assert len(list((tmp_path / "crashes").iterdir())) == 10
    (tmp_path / "file").write_text("")
    assert log.write_crash_report(ValueError(), tmp_path / "file") is None


def test_a_crash_is_one_line_on_stderr(set_up: tuple[log.CrashReporter, Path, list[str]]) -> None:
    reporter, _, said = set_up
    reporter.report(ValueError(SENTINEL), "a handler")
    (line,) = said
    assert line.startswith("sidecar: internal error (ValueError) in a handler; report: ")


def test_a_closed_stderr_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def write(self, text: str) -> int:
            raise ValueError("I/O operation on closed file")

    monkeypatch.setattr(sys, "stderr", Closed())
    log.say_on_stderr("lost")
    monkeypatch.setattr(sys, "stderr", None)
    log.say_on_stderr("lost")


def test_the_secret_wrapper_shows_itself_nowhere() -> None:
    secret = SecretText(SENTINEL)
    shown = [
        str(secret),
        repr(secret),
        f"{secret}",
        f"{secret:>20}",
        repr([secret]),
        pickle.dumps(secret).decode("latin1"),
    ]
    assert not any(SENTINEL in text for text in shown)
    assert secret == SecretText(SENTINEL)
    assert secret != SecretText("other")
    assert secret.reveal() == SENTINEL


def test_our_handlers_never_print_what_goes_wrong_while_logging(capsys: pytest.CaptureFixture[str]) -> None:
    QuietHandler().handleError(record("x"))
    assert capsys.readouterr() == ("", "")


def test_a_formatter_without_a_stamp_gives_the_message_alone() -> None:
    assert RedactingFormatter(stamped=False).format(record("plain")) == "plain"
