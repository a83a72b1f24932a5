"""What a record keeps, and what it never does."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from sidecar.cli.record import Recorder, without_secrets
from sidecar.cli.replay import Replay, read_record
from sidecar.errors import ConfigFault
from sidecar.session.export import to_markdown

SENTINEL = "Zq7-sentinel-94812"


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "method": "_kiro/openExternalUrl", "params": {"url": f"https://as.example/a?state={SENTINEL}"}},
        {"id": 1, "method": "_kiro/openExternalUrl", "params": {"url": f"https://as.example/{SENTINEL}"}},
        {"id": 1, "method": "elicitation/create", "params": {"mode": "url", "url": f"https://as.example/{SENTINEL}"}},
        {"id": 1, "method": "_kiro/mcp/elicitation", "params": {"elicitation": {"url": f"https://as.example/{SENTINEL}"}}},
        {"method": "_kiro/mcp/status", "params": {"servers": [{"name": "x", "authorizationUrl": f"https://as.example/{SENTINEL}"}]}},
        {"id": 1, "result": {"accessToken": SENTINEL, "expiresAt": "x"}},
        {"id": 1, "result": {"refresh_token": SENTINEL}},
        {"id": 1, "method": "session/new", "params": {"mcpServers": [{"headers": [{"name": "X-Y", "value": SENTINEL}]}]}},
        {"id": 1, "method": "session/new", "params": {"mcpServers": [{"name": "d", "env": [{"name": "Y", "value": SENTINEL}]}]}},
        {"id": 1, "method": "x", "params": {"headers": {"X-Y": SENTINEL}, "env": {"Y": SENTINEL}}},
        {"id": 1, "method": "x", "params": {"headers": [SENTINEL], "env": SENTINEL}},
        {"method": "x", "params": {"text": f"Authorization: Bearer {SENTINEL}"}},
        {"method": "x", "params": {"deep": [{"Authorization": SENTINEL}, [{"password": SENTINEL}]]}},
    ],
)  # fmt: skip
def test_a_secret_stands_in_no_recorded_message(message: dict[str, Any]) -> None:
    kept = json.dumps(without_secrets(message))
    assert SENTINEL not in kept
    assert json.loads(kept).keys() == message.keys()


def test_what_is_no_secret_is_kept() -> None:
    message = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "session/update",
        "params": {"sessionId": "", "update": {"sessionUpdate": "usage_update", "used": 1.5, "ok": True, "none": None, "url": "https://x.example/a"}},
    }  # fmt: skip
    assert without_secrets(message) == message


def test_a_record_is_private_even_where_a_file_stood(tmp_path: Path) -> None:
    path = tmp_path / "record"
    path.write_text("old")
    path.chmod(0o644)
    recorder = Recorder(str(path))
    recorder.tap("out", b'{"id":0,"method":"initialize"}\n')
    recorder.tap("in", b"npm WARN token=abcdefghij123\n")
    recorder.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first, second = map(json.loads, path.read_text().splitlines())
    assert (first["dir"], first["msg"]["method"]) == ("out", "initialize")
    assert second["noise"] == "npm WARN token=***\n"


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(ConfigFault, match="cannot be written"):
        Recorder(str(tmp_path / "link"))
    assert (tmp_path / "target").read_text() == "mine"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device here")  # noqa: PTH110 - a device
def test_a_full_disk_ends_the_record_and_not_the_run() -> None:
    recorder = Recorder("/dev/full")
    recorder.tap("in", b'{"method":"x"}')
    recorder.close()
    assert recorder.trouble is not None


def test_a_record_replays_turns_tools_and_notifications_in_order() -> None:
    replay = Replay()
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "the answer"}}
    tool = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "a tool", "status": "in_progress"}
    wire: list[tuple[str, dict[str, Any]]] = [
        ("out", {"id": 1, "method": "session/new", "params": {"cwd": "/"}}),
        ("in", {"id": 1, "result": {"sessionId": "s"}}),
        ("out", {"id": 2, "method": "session/prompt", "params": {"sessionId": "s", "prompt": [{"type": "text", "text": "ask"}]}}),
        ("in", {"method": "session/update", "params": {"sessionId": "s", "update": update}}),
        ("in", {"method": "session/update", "params": {"sessionId": "s", "update": tool}}),
        ("in", {"method": "session/update", "params": {"sessionId": 7, "update": None}}),
        ("in", {"id": 99, "result": {}}),
        ("in", {"id": 2, "error": {"code": -1, "message": "out of words"}}),
    ]
    for direction, message in wire:
        replay.take(direction, message)
    replay.end()
    shown = to_markdown(replay.sessions["s"])
    assert shown.index("ask") < shown.index("the answer") < shown.index("a tool") < shown.index("out of words")


def test_a_record_that_ends_in_a_turn_says_that_its_outcome_is_not_known() -> None:
    replay = Replay()
    replay.take("out", {"id": 2, "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}})
    replay.end()
    assert replay.sessions["s"].conversation.turns[-1].outcome == "unknown"


@pytest.mark.parametrize("text", ["{", "[1]", '{"dir":"up","msg":{}}', "null"])
def test_a_file_that_is_no_record_names_its_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "record"
    path.write_text('{"t":0,"dir":"in","noise":"x"}\n' + text + "\n")
    with pytest.raises(ConfigFault, match=r"record:2: "):
        list(read_record(str(path)))
