"""How the language server ends: exit codes, what is still answered, and that nothing can keep it alive."""

import contextlib
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sidecar.editor.server import EXIT_LIMIT_SECONDS, SHUTDOWN_GRACE_SECONDS
from tests.peers.lsp_client import LspClient

pytestmark = pytest.mark.process

REPOSITORY = Path(__file__).resolve().parents[2]
QUICK_SECONDS = 2.0


def start(*arguments: str, **options: Any) -> LspClient:
    return LspClient([sys.executable, "-m", "tests.process.front_door_app", *arguments], cwd=str(REPOSITORY), **options)


def test_exit_after_shutdown_gives_zero() -> None:
    with start() as client:
        client.initialize()
        assert client.shut_down() == 0
        assert client.stderr.count(b"settled") == client.stderr.count(b"closed") == 1


def test_exit_without_shutdown_gives_one() -> None:
    with start() as client:
        client.initialize()
        client.notify("exit")
        assert client.wait() == 1


def test_exit_before_initialize_gives_one() -> None:
    with start() as client:
        client.notify("exit")
        assert client.wait() == 1


def test_the_end_of_input_gives_one_also_before_initialize_and_after_shutdown() -> None:
    with start() as client:
        client.close_stdin()
        assert client.wait() == 1
    with start() as client:
        client.initialize()
        client.result("shutdown")
        client.close_stdin()
        assert client.wait() == 1
    with start() as client:
        client.initialize()
        request = client.request("sidecar/sleep")
        client.close_stdin()
        assert client.wait() == 1
        assert client.reply(request)["error"]["code"] == -32800
        assert b"closed" in client.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_with_one_while_input_stays_open_and_tasks_run(number: signal.Signals) -> None:
    with start() as client:
        client.initialize()
        request = client.request("sidecar/sleep")
        client.result("sidecar/echo")
        began = time.monotonic()
        client.signal(number)
        assert client.wait() == 1
        assert client.reply(request)["error"]["code"] == -32800
        assert time.monotonic() - began < QUICK_SECONDS
        assert client.stderr.count(b"settled") == client.stderr.count(b"closed") == 1


def test_a_signal_during_the_start_ends_it_with_one() -> None:
    with start() as client:
        client.signal(signal.SIGCONT)
        time.sleep(0.05)  # somewhere among the imports; the exact place does not matter
        client.signal(signal.SIGTERM)
        assert client.wait() in {1, -signal.SIGTERM}, "before the interpreter runs our code, the system's default ends it"


def test_a_signal_after_shutdown_gives_one() -> None:
    with start() as client:
        client.initialize()
        client.result("shutdown")
        client.signal(signal.SIGTERM)
        assert client.wait() == 1


def test_shutdown_answers_what_is_open_and_settles_questions() -> None:
    with start() as client:
        client.initialize()
        sleeping = client.request("workspace/executeCommand", {"command": "sidecar.sleep"})
        waiting = client.request("sidecar/sleep")
        asking = client.request("sidecar/ask")
        asked = client.asked("window/showMessageRequest")
        shutdown = client.request("shutdown")
        assert client.reply(shutdown)["result"] is None
        for request in (sleeping, waiting, asking):
            assert client.reply(request)["error"] == {"code": -32800, "message": "the sidecar is shutting down"}
        client.answer(asked, {"title": "Allow once"})
        assert client.error("sidecar/echo")["code"] == -32600
        assert client.error("shutdown")["code"] == -32600
        assert client.error("initialize", {"capabilities": {}})["code"] == -32600
        client.notify("textDocument/didOpen", {"textDocument": {}})
        client.notify("exit")
        assert client.wait() == 0


def test_a_started_command_open_at_shutdown_says_nothing_more() -> None:
    with start() as client:
        client.initialize()
        assert client.result("workspace/executeCommand", {"command": "sidecar.sleep"})["state"] == "started"
        assert client.shut_down() == 0


def test_replies_written_just_before_the_end_arrive_whole() -> None:
    with start() as client:
        client.initialize()
        request = client.request("sidecar/big", {"size": 600_000})
        client.reply(request)
        assert client.shut_down() == 0


def test_what_follows_exit_is_not_looked_at() -> None:
    with start() as client:
        client.initialize()
        client.result("shutdown")
        client.notify("exit")
        with contextlib.suppress(OSError):  # it may be gone already
            client.notify("exit")
            client.send({"jsonrpc": "2.0", "id": 5, "method": "sidecar/echo"})
        assert client.wait() == 0


def test_a_task_that_does_not_let_go_cannot_keep_it_alive() -> None:
    with start() as client:
        client.initialize()
        request = client.request("sidecar/stubborn")
        client.result("sidecar/echo")
        began = time.monotonic()
        client.signal(signal.SIGTERM)
        assert client.reply(request)["error"]["code"] == -32800
        assert client.wait(within=EXIT_LIMIT_SECONDS + 3) == 1
        assert time.monotonic() - began < EXIT_LIMIT_SECONDS + 2


def test_a_loop_that_does_not_run_any_more_ends_with_the_editor() -> None:
    with start() as client:
        client.initialize()
        client.request("sidecar/block")
        client.told("test/blocking")
        client.close_stdin()
        assert client.wait(within=EXIT_LIMIT_SECONDS + 3) == 1


def test_a_deaf_editor_that_closes_its_input_does_not_keep_it_alive() -> None:
    with start() as client:
        client.initialize()
        client.go_deaf()
        client.request("sidecar/big", {"size": 2_000_000})
        client.request("sidecar/big", {"size": 2_000_000})
        time.sleep(0.3)  # the pipe is full by now
        client.close_stdin()
        began = time.monotonic()
        assert client.process.wait(SHUTDOWN_GRACE_SECONDS + 3) == 1
        assert time.monotonic() - began < SHUTDOWN_GRACE_SECONDS + 2
        client.wait()
        client.inbox.stop_checking()


def test_an_editor_that_closes_only_its_reading_end_ends_it_quietly() -> None:
    with start("67108864", "WARNING") as client:
        client.initialize()
        client.result("sidecar/echo")
        client.inbox.close_stream()
        for _ in range(3):
            with contextlib.suppress(OSError):
                client.send({"jsonrpc": "2.0", "id": 77, "method": "sidecar/echo"})
        assert client.process.wait(5) == 1
        client.wait()
        assert b"Traceback" not in client.stderr
        client.inbox.stop_checking()
