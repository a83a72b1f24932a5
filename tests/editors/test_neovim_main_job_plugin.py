"""The main job in a real Neovim with a plugin: custom requests, changes put together into the answer, questions as data."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.editors.neovim_world import PLUGIN, START_SECONDS, Neovim, assert_nothing_stays, texts_of
from tests.process.editor_world import World, peer

pytestmark = [pytest.mark.editor, pytest.mark.process]

URL = "https://as.example/authorize?a=%2B%26%23&state=S3NT1NEL;$x&n='(1)'&e=%action"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, {"kiro3": peer("tests.peers.kiro_v3", protocol="kiro-v3", url=URL)})


@pytest.fixture
def demo(world: World) -> Iterator[Neovim]:
    with Neovim(world, "demo", PLUGIN) as editor:
        yield editor


@pytest.fixture
def kiro(world: World) -> Iterator[Neovim]:
    with Neovim(world, "kiro3", PLUGIN) as editor:
        yield editor


def turn_from_changes(editor: Neovim, started: dict[str, Any]) -> dict[str, Any]:
    """Return the end of a turn as ``sidecar/session/changed`` tells it, with the text put together from all frames."""
    turn_id = started["turnId"]
    editor.until(f"job.ended('{turn_id}') ~= nil", START_SECONDS)
    return {**editor.value(f"job.ended('{turn_id}')"), "text": editor.value(f"job.text('{turn_id}')")}


def question(editor: Neovim, kind: str) -> dict[str, Any]:
    """Return the only question of the newest full list, once there is one."""
    editor.until("job.pending ~= nil and #job.pending == 1", START_SECONDS)
    found = editor.value("job.pending[1]")
    assert found["kind"] == kind
    return found


def test_the_server_answers_with_the_protocol_and_its_operations(demo: Neovim) -> None:
    said = demo.value("job.client().server_capabilities.experimental.sidecar")
    assert said["protocol"] == [1]
    assert {"prompt", "cancel", "session.load", "pending.answer", "mcp.authenticate"} <= set(said["operations"])


@pytest.mark.parametrize("text", ["hello there", "markdown", "long"])
def test_the_changes_put_together_are_the_answer_of_the_agent(demo: Neovim, text: str) -> None:
    started = demo.request("prompt", text=text)
    assert started["state"] == "started"
    told = turn_from_changes(demo, started)
    assert told["stopReason"] == "end_turn"
    turns = demo.request("session.state")["turns"]
    answer = texts_of(next(turn for turn in turns if turn["turnId"] == started["turnId"]))
    assert answer
    assert told["text"] == answer
    numbers = demo.value("vim.tbl_map(function(frame) return frame.seq end, job.changed)")
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_question_is_data_with_what_was_offered_and_its_answer_reaches_the_agent(demo: Neovim) -> None:
    started = demo.request("prompt", text="edit written by the test")
    asked = question(demo, "permission")
    assert [option["kind"] for option in asked["options"]] == ["allow_once", "allow_always", "reject_once", "reject_always"]
    assert asked["sessionId"] == started["sessionId"]
    assert demo.value("job.asked") == []
    refusal = next(option["optionId"] for option in asked["options"] if option["kind"] == "reject_once")
    assert demo.request("pending.answer", id=asked["id"], optionId=refusal) == {"accepted": True}
    demo.until("#job.pending == 0")
    assert "was not changed" in turn_from_changes(demo, started)["text"]

    started = demo.request("prompt", text="edit written by the test")
    asked = question(demo, "permission")
    once = next(option["optionId"] for option in asked["options"] if option["kind"] == "allow_once")
    assert demo.request("pending.answer", id=asked["id"], optionId=once) == {"accepted": True}
    assert demo.request("pending.answer", id=asked["id"], optionId=once)["accepted"] is False
    assert "has one more line" in turn_from_changes(demo, started)["text"]
    assert "written by the test" in (demo.world.workspace / "sidecar-demo.txt").read_text(encoding="utf-8")


def test_an_address_goes_to_the_opener_of_the_editor_after_the_answer_open(kiro: Neovim) -> None:
    started = kiro.request("prompt", text="url")
    asked = question(kiro, "openUrl")
    assert asked["host"] == "as.example"
    assert "S3NT1NEL" not in str(asked)
    assert kiro.request("pending.get", id=asked["id"])["url"] == URL
    assert kiro.value("job.opened") == []
    assert kiro.request("pending.answer", id=asked["id"], action="open")["accepted"] is True
    assert turn_from_changes(kiro, started)["text"] == "Opened: True."
    assert kiro.value("job.opened") == [URL]
    assert "S3NT1NEL" not in str(kiro.value("job.changed"))


def test_a_turn_is_cancelled_and_its_question_goes_away(demo: Neovim) -> None:
    started = demo.request("prompt", text="edit written by the test")
    question(demo, "permission")
    assert demo.request("cancel") == {"state": "cancelling"}
    demo.until("#job.pending == 0")
    assert turn_from_changes(demo, started)["stopReason"] == "cancelled"
    assert not (demo.world.workspace / "sidecar-demo.txt").exists()


def test_a_reload_comes_as_a_reset_in_a_new_epoch_with_the_same_words(demo: Neovim) -> None:
    started = demo.request("prompt", text="hello there")
    answer = turn_from_changes(demo, started)["text"]
    epoch = demo.value("job.changed[#job.changed].epoch")
    loaded = demo.request("session.load", sessionId=started["sessionId"])
    assert loaded == {"sessionId": started["sessionId"], "history": "replayed"}
    demo.until(f"job.changed[#job.changed].epoch ~= '{epoch}'")
    watched = demo.request("session.watch")
    assert watched["epoch"] != epoch
    demo.until(f"job.changed[#job.changed].seq >= {watched['seq']}")
    assert texts_of(watched["snapshot"]["turns"][-1]) == answer
    assert demo.value("#vim.tbl_filter(function(f) return f.changes[1].kind == 'reset' end, job.changed)") == 2


def test_the_end_of_the_agent_is_told_as_the_end_of_the_turn(demo: Neovim) -> None:
    started = demo.request("prompt", text="crash")
    told = turn_from_changes(demo, started)
    assert told["outcome"] == "unknown"
    assert told["text"] == "This was my last word.\n"
    again = demo.request("prompt", text="hello again")
    assert "You wrote: hello again" in turn_from_changes(demo, again)["text"]


def test_nothing_stays_when_the_editor_quits_while_a_question_waits(demo: Neovim) -> None:
    demo.request("prompt", text="edit written by the test")
    question(demo, "permission")
    demo.quit()
    assert_nothing_stays(demo.world)
