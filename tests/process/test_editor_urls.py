"""An address is opened only after the user said so, byte for byte, and who asked hears the truth (adversarial cases, URLs)."""

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.peers.lsp_client import LspClient
from tests.process.editor_world import (
    BARE,
    DIALOGS,
    PLUGIN,
    SHOW_DOCUMENT,
    START_SECONDS,
    World,
    peer,
    text_of,
    turn_of,
    until_armed,
    waiting,
)

pytestmark = pytest.mark.process

URL = "https://as.example/authorize?client_id=a%20b&state=SENTINEL-1f00%2F+~&x=;,(id)&b=%C3%A9%7C#frag"
BOTH: dict[str, Any] = {"window": {**DIALOGS["window"], **SHOW_DOCUMENT["window"]}}
KIRO = {"kiro3": peer("tests.peers.kiro_v3", protocol="kiro-v3", url=URL)}
QUIET = ("window/logMessage", "$/progress", "sidecar/agent/changed", "sidecar/mcp/changed", "sidecar/session/changed")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, KIRO)


def start(world: World, capabilities: dict[str, Any], *, name: str | None = None, **env: str) -> LspClient:
    client = world.start(ignore=(*QUIET, "sidecar/pending/changed", "window/showMessage"), env=env)
    named = {} if name is None else {"clientInfo": {"name": name, "version": "1"}}
    client.initialize(capabilities, **world.options("kiro3"), **named)
    return client


def ask_to_open(client: LspClient) -> dict[str, Any]:
    asked: dict[str, Any] = client.result("sidecar/prompt", {"text": "url"}, within=START_SECONDS)
    return asked


def opened(client: LspClient, asked: dict[str, Any]) -> str:
    return text_of(turn_of(client, asked["turnId"]))


def pick(client: LspClient, title: str) -> dict[str, Any]:
    shown = client.asked("window/showMessageRequest", within=START_SECONDS)
    client.answer(shown, {"title": title})
    return shown


def without_sentinel(world: World, client: LspClient) -> None:
    """The address stands in no message to the editor but the one that opens it, and in no file."""
    for message in [*client.inbox.told, *client.inbox.asked]:
        assert "SENTINEL-1f00" not in json.dumps(message) or message["method"] == "window/showDocument"
    for folder in (world.state, world.home, world.runtime, world.workspace):
        for path in folder.rglob("*"):
            if path.is_file():
                assert b"SENTINEL-1f00" not in path.read_bytes(), path


def test_the_editor_opens_the_address_byte_for_byte_once_the_user_said_so(world: World) -> None:
    with start(world, BOTH) as client:
        asked = ask_to_open(client)
        shown = client.asked("window/showMessageRequest", within=START_SECONDS)
        assert "Host: as.example" in shown["params"]["message"]
        assert "SENTINEL" not in json.dumps(shown)
        assert not client.inbox.asked
        client.answer(shown, {"title": "Open"})
        show = client.asked("window/showDocument")
        assert show["params"] == {"uri": URL, "external": True}
        client.answer(show, {"success": True})
        assert opened(client, asked) == "Opened: True."
        without_sentinel(world, client)


def test_declining_opens_nothing(world: World) -> None:
    with start(world, BOTH) as client:
        asked = ask_to_open(client)
        assert [a["title"] for a in pick(client, "Decline")["params"]["actions"]] == ["Decline", "Open"]
        assert opened(client, asked) == "Opened: False."
        assert not client.inbox.asked


def test_a_plugin_sees_host_and_display_gets_the_address_on_request_and_may_copy(world: World) -> None:
    with start(world, {**PLUGIN, **SHOW_DOCUMENT}) as client:
        asked = ask_to_open(client)
        question = waiting(client)[0]
        assert (question["kind"], question["host"]) == ("openUrl", "as.example")
        assert "SENTINEL" not in json.dumps(question)
        assert client.result("sidecar/pending/get", {"id": question["id"]})["url"] == URL
        assert client.result("sidecar/pending/answer", {"id": question["id"], "action": "copy"})["accepted"]
        assert opened(client, asked) == "Opened: True."
        again = ask_to_open(client)
        question = waiting(client)[0]
        client.result("sidecar/pending/answer", {"id": question["id"], "action": "open"})
        show = client.asked("window/showDocument")
        second = client.result("sidecar/pending/answer", {"id": question["id"], "action": "decline"})
        assert second["accepted"] is False
        assert "being carried out" in second["reason"]
        client.answer(show, {"success": False})
        assert opened(client, again) == "Opened: False."
        without_sentinel(world, client)


@pytest.mark.parametrize("done", [True, False])
def test_an_address_that_was_not_opened_lies_in_a_private_file_until_the_user_answers(world: World, done: bool) -> None:
    with start(world, BOTH) as client:
        asked = ask_to_open(client)
        pick(client, "Open")
        client.answer(client.asked("window/showDocument"), {"success": False})
        shown = client.asked("window/showMessageRequest")
        files = list((world.runtime / "sidecar").glob("url-*.txt"))
        assert len(files) == 1
        assert str(files[0]) in shown["params"]["message"]
        assert files[0].read_text(encoding="utf-8") == URL + "\n"
        assert stat.S_IMODE(files[0].stat().st_mode) == 0o600
        client.answer(shown, {"title": "I opened it"} if done else None)
        assert opened(client, asked) == f"Opened: {done}."
        assert not files[0].exists()
        without_sentinel(world, client)


def test_the_file_goes_with_the_question(world: World) -> None:
    with start(world, BOTH) as client:
        asked = ask_to_open(client)
        pick(client, "Open")
        client.answer(client.asked("window/showDocument"), error={"code": -32603, "message": "no"})
        shown = client.asked("window/showMessageRequest")
        client.result("sidecar/agent/restart")
        assert client.told("$/cancelRequest")["id"] == shown["id"]
        assert not list((world.runtime / "sidecar").glob("url-*.txt"))
        assert asked["state"] == "started"
        client.answer(shown, None)


def test_an_editor_without_dialogs_or_documents_gets_the_path_in_a_message(world: World) -> None:
    with start(world, BARE) as client:
        asked = ask_to_open(client)
        client.told("window/showMessage", within=START_SECONDS)
        until_armed(client)
        assert client.result("sidecar/pending/allow") == {"accepted": True}
        while "private file" not in (text := client.told("window/showMessage")["message"]):
            pass
        path = next((world.runtime / "sidecar").glob("url-*.txt"))
        assert str(path) in text
        assert client.result("sidecar/pending/allow") == {"accepted": True}
        assert opened(client, asked) == "Opened: True."
        assert not path.exists()
        client.ignored.add("textDocument/publishDiagnostics")
        without_sentinel(world, client)


def test_helix_is_tried_once_although_it_does_not_say_that_it_can_open(world: World) -> None:
    with start(world, DIALOGS, name="helix") as client:
        for attempt in range(2):
            asked = ask_to_open(client)
            pick(client, "Open")
            if attempt == 0:
                client.answer(client.asked("window/showDocument"), error={"code": -32601, "message": "Method not found"})
            pick(client, "Not opened")
            assert opened(client, asked) == "Opened: False."
        assert not client.inbox.asked


@pytest.mark.skipif(sys.platform != "linux", reason="xdg-open")
def test_the_system_opener_gets_the_address_as_one_argument_where_the_editor_cannot_open(world: World) -> None:
    programs = world.root / "bin"
    programs.mkdir()
    seen = world.root / "seen"
    opener = programs / "xdg-open"
    opener.write_text(f'#!/bin/sh\nprintf "%s\\n" "$#" "$1" > {seen}\n', encoding="utf-8")
    opener.chmod(0o755)
    with start(world, DIALOGS, PATH=f"{programs}{os.pathsep}{os.environ['PATH']}", DISPLAY=":99") as client:
        asked = ask_to_open(client)
        pick(client, "Open")
        assert opened(client, asked) == "Opened: True."
        assert seen.read_text(encoding="utf-8") == f"1\n{URL}\n"
        seen.unlink()
        without_sentinel(world, client)


def test_over_ssh_the_user_is_told_where_the_browser_must_run(world: World) -> None:
    with start(world, DIALOGS, SSH_CONNECTION="10.0.0.1 1 10.0.0.2 22", DISPLAY=":99") as client:
        asked = ask_to_open(client)
        assert "over SSH" in pick(client, "Open")["params"]["message"]
        pick(client, "Not opened")
        assert opened(client, asked) == "Opened: False."


def test_many_addresses_at_once_are_one_question_and_a_few_that_wait(world: World) -> None:
    frames: list[dict[str, Any]] = [{"jsonrpc": "2.0", "id": 5000 + n, "method": "elicitation/create"} for n in range(200)]
    params = {"mode": "url", "message": "in", "elicitationId": "e", "sessionId": "s-0"}
    for number, frame in enumerate(frames):
        frame["params"] = {**params, "url": f"https://as.example/{number}"}
    with world.start(ignore=(*QUIET, "window/showMessage")) as client:
        client.initialize(BOTH, **world.options())
        client.result("sidecar/prompt", {"text": f"frames {json.dumps(frames)}"}, within=START_SECONDS)
        shown = client.asked("window/showMessageRequest", within=START_SECONDS)
        assert len(client.result("sidecar/pending/list", within=1.0)["pending"]) == 3
        assert not client.inbox.asked
        client.answer(shown, {"title": "Decline"})
        client.asked("window/showMessageRequest")
        assert client.shut_down() == 0
    refused: list[dict[str, Any]] = [m for m in world.reported()["received"] if "method" not in m and m.get("id", 0) >= 5000]
    assert len(refused) >= 197
    assert all(m.get("result") in ({"action": "cancel"}, {"action": "decline"}) for m in refused)
