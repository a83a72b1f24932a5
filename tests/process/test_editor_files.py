"""The demo agent changes files of a real sidecar's editor: open ones in their buffers, closed ones on the disk."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.peers.lsp_client import LspClient
from tests.process.editor_world import PLUGIN, START_SECONDS, World, text_of, turn_of, waiting
from tests.unit.workspace.test_edits import applied

pytestmark = pytest.mark.process

NAME = "sidecar-demo.txt"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def client(world: World) -> Iterator[LspClient]:
    with world.start() as client:
        client.initialize(PLUGIN, **world.options("demo"))
        yield client


def allowed_edit(client: LspClient) -> str:
    """Have the demo agent edit its file, with the user's leave; return the turn's id."""
    turn_id: str = client.result("sidecar/prompt", {"text": "edit by the agent"}, within=START_SECONDS)["turnId"]
    (question,) = waiting(client)
    allow = next(option for option in question["options"] if option["kind"] == "allow_once")
    client.result("sidecar/pending/answer", {"id": question["id"], "optionId": allow["optionId"]})
    return turn_id


def change(client: LspClient, uri: str, version: int, text: str) -> None:
    client.notify(
        "textDocument/didChange", {"textDocument": {"uri": uri, "version": version}, "contentChanges": [{"text": text}]}
    )


def only_edit(asked: Mapping[str, Any], version: int) -> dict[str, Any]:
    ((document,),) = (asked["params"]["edit"]["documentChanges"],)
    assert document["textDocument"]["version"] == version
    (edit,) = document["edits"]
    return edit


def test_unsaved_text_of_an_open_file_is_read_changed_by_one_small_edit_and_written_to_the_disk(
    world: World, client: LspClient
) -> None:
    path = world.workspace / NAME
    path.write_bytes(b"\xef\xbb\xbfsaved\r\n")
    path.chmod(0o755)
    uri, typed = path.as_uri(), "saved\r\n\U0001f600 unsaved\r\n"
    client.notify("textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "text", "version": 1, "text": "saved\r\n"}})
    change(client, uri, 2, typed)
    turn_id = allowed_edit(client)
    asked = client.asked("workspace/applyEdit", within=START_SECONDS)
    edit = only_edit(asked, 2)
    assert edit == {
        "range": {"start": {"line": 1, "character": 10}, "end": {"line": 1, "character": 10}},
        "newText": "\r\n2: by the agent",
    }
    assert path.read_bytes() == b"\xef\xbb\xbfsaved\r\n"
    change(client, uri, 3, applied(typed, [edit], "utf-16"))
    client.answer(asked, {"applied": True})
    assert "one more line" in text_of(turn_of(client, turn_id))
    assert path.read_bytes() == b"\xef\xbb\xbf" + (typed + "2: by the agent\r\n").encode()
    assert path.stat().st_mode & 0o777 == 0o755


def test_a_closed_file_is_made_on_the_disk_and_no_editor_is_asked(world: World, client: LspClient) -> None:
    turn_id = allowed_edit(client)
    assert "one more line" in text_of(turn_of(client, turn_id))
    assert (world.workspace / NAME).read_text() == "This file was made by the sidecar's demo agent.\n1: by the agent\n"
    assert not client.inbox.asked


def test_an_editor_that_makes_no_edits_is_asked_once_and_its_file_stays_as_it_is(world: World, client: LspClient) -> None:
    path = world.workspace / NAME
    path.write_text("saved\n")
    item = {"uri": path.as_uri(), "languageId": "text", "version": 1, "text": "saved\n"}
    client.notify("textDocument/didOpen", {"textDocument": item})
    turn_id = allowed_edit(client)
    asked = client.asked("workspace/applyEdit", within=START_SECONDS)
    client.answer(asked, error={"code": -32601, "message": "no edits here"})
    turn = turn_of(client, turn_id)
    assert "was not changed" in text_of(turn)
    assert "no edits here" in str(turn)
    assert path.read_text() == "saved\n"


def test_a_plugin_that_can_save_is_asked_to(world: World) -> None:
    path = world.workspace / NAME
    path.write_text("saved\n")
    plugin = {"experimental": {"sidecar": {**PLUGIN["experimental"]["sidecar"], "documents": True}}}
    with world.start() as client:
        client.initialize(plugin, **world.options("demo"))
        item = {"uri": path.as_uri(), "languageId": "text", "version": 1, "text": "saved\n"}
        client.notify("textDocument/didOpen", {"textDocument": item})
        turn_id = allowed_edit(client)
        asked = client.asked("workspace/applyEdit", within=START_SECONDS)
        text = applied("saved\n", [only_edit(asked, 1)], "utf-16")
        client.answer(asked, {"applied": True})
        change(client, path.as_uri(), 2, text)
        save = client.asked("sidecar/document/save", within=START_SECONDS)
        assert save["params"] == {"uri": path.as_uri(), "version": 2}
        path.write_text(text)
        inode = path.stat().st_ino
        client.notify("textDocument/didSave", {"textDocument": {"uri": path.as_uri()}})
        client.answer(save, {"saved": True})
        assert "one more line" in text_of(turn_of(client, turn_id))
        assert path.stat().st_ino == inode
        assert path.read_text() == text
