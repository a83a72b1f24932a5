"""A session streams to an editor's plugin: numbered, coalesced, atomic with its snapshot, and only what is watched."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.peers.lsp_client import LspClient
from tests.process.editor_world import (
    BARE,
    PLUGIN,
    START_SECONDS,
    Follower,
    World,
    ask,
    peer,
    prompt,
    text_of,
    turn_of,
    waiting,
)

pytestmark = pytest.mark.process

WITHOUT_CHANGES: dict[str, Any] = {"experimental": {"sidecar": {"protocol": 1, "changes": False, "questions": True}}}
FRAMES_PER_SECOND = 65
FLOOD_CHARACTERS = 1 << 20


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(
        tmp_path, {"flood": {**peer("tests.peers.faults"), "command": [*peer("tests.peers.faults")["command"], "flood", "8"]}}
    )


@pytest.fixture
def client(world: World) -> Iterator[LspClient]:
    with world.start() as client:
        client.initialize(PLUGIN, **world.options())
        yield client


def update(text: str) -> dict[str, Any]:
    content = {"type": "text", "text": text}
    return {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": "$S", "update": {"sessionUpdate": "agent_message_chunk", "content": content}},
    }


def test_a_prompt_is_streamed_without_being_watched_first_and_what_was_applied_is_the_state(client: LspClient) -> None:
    follower = prompt(client, "say \u00e9\U0001f680 done")
    turn = follower.ended()
    assert text_of(turn) == "\u00e9\U0001f680 done"
    assert turn["stopReason"] == "end_turn"
    first = follower.frames[0]
    assert first["seq"] == 1
    assert first["changes"][0] == {"kind": "reset", "reason": "watch"}
    follower.until(lambda view: view["state"]["state"] == "idle")
    state = client.result("sidecar/session/state", {"sessionId": follower.session_id})
    assert (state["seq"], state["epoch"]) == (follower.seq, follower.epoch)
    for key in ("turns", "notices", "queue", "plan", "state", "title", "metas"):
        assert follower.view[key] == state[key], key


def test_a_watch_is_atomic_with_its_snapshot_also_while_text_streams(client: LspClient) -> None:
    follower = prompt(client, "wait")
    session_id = follower.session_id
    second = client.result("sidecar/session/new", within=START_SECONDS)["sessionId"]
    watch = client.result("sidecar/session/watch", {"sessionId": session_id})
    follower.take(watch)
    frames = [update(f"{number} ") for number in range(2000)]
    client.request("sidecar/prompt", {"sessionId": second, "text": f"frames {json.dumps(frames[:1000])}"}, request_id="first")
    client.request("sidecar/session/watch", {"sessionId": session_id}, request_id="watch")
    client.request("sidecar/prompt", {"sessionId": second, "text": f"frames {json.dumps(frames[1000:])}"}, request_id="last")
    again = Follower(client, session_id)
    again.take(client.reply("watch")["result"])
    client.inbox.told[:] = [
        m for m in client.inbox.told if m["method"] != "sidecar/session/changed" or m["params"]["seq"] > (again.seq or 0)
    ]
    client.reply("first")
    client.reply("last")
    whole = "".join(f"{number} " for number in range(2000))
    again.until(lambda view: len(text_of(view["turns"][-1])) >= len(whole))
    assert text_of(again.view["turns"][-1]) == whole
    assert client.result("sidecar/cancel", {"sessionId": session_id})["state"] == "cancelling"
    assert again.ended(follower.turn_id)["stopReason"] == "cancelled"


def test_a_watch_from_where_one_stands_sends_no_snapshot_and_any_gap_does(client: LspClient) -> None:
    follower = prompt(client, "say hello")
    follower.ended()
    follower.until(lambda view: view["state"]["state"] == "idle")
    here = {"epoch": follower.epoch, "seq": follower.seq}
    assert client.result("sidecar/session/watch", {"since": here}) == {"sessionId": follower.session_id, **here}
    for since in ({**here, "seq": 1}, {**here, "epoch": "another"}):
        watched = client.result("sidecar/session/watch", {"since": since})
        assert watched["snapshot"]["turns"][-1]["turnId"] == follower.turn_id
        assert watched["seq"] == follower.seq
    assert "since must be" in client.error("sidecar/session/watch", {"since": {"seq": 1}})["message"]


def test_a_session_that_is_not_watched_tells_changes_of_its_state_only(client: LspClient) -> None:
    asked = ask(client)
    question = waiting(client)[0]
    follower = Follower(client, asked["sessionId"])
    follower.until(lambda view: view.get("state", {}).get("waiting") == 1)
    client.result("sidecar/session/unwatch")
    client.result("sidecar/pending/answer", {"id": question["id"], "optionId": "no"})
    seen: list[dict[str, Any]] = [follower.view["state"]]
    while seen[-1]["state"] != "idle":
        frame = follower.step()
        assert [change["kind"] for change in frame["changes"]] == ["state"]
        seen.append(frame["changes"][0]["state"])
    assert seen[-1]["waiting"] == 0
    prompt(client, "say that a prompt watches again").ended()


def test_an_editor_that_wants_no_changes_gets_none_unless_it_watches(world: World) -> None:
    for capabilities in (WITHOUT_CHANGES, BARE):
        with world.start() as client:
            client.initialize(capabilities, **world.options())
            result = client.result("sidecar/prompt", {"text": "say hello"}, within=START_SECONDS)
            turn_of(client, result["turnId"])
            assert not [m for m in client.inbox.told if m["method"] == "sidecar/session/changed"]
            follower = Follower(client, result["sessionId"])
            follower.take(client.result("sidecar/session/watch"))
            again = client.result("sidecar/prompt", {"text": "say again"})
            assert text_of(follower.ended(again["turnId"])) == "again"


def test_a_load_that_replays_is_one_reset_in_a_new_epoch_and_the_numbers_go_on(client: LspClient) -> None:
    follower = prompt(client, "say hello")
    follower.ended()
    follower.until(lambda view: view["state"]["state"] == "idle")
    epoch = follower.epoch
    loaded = client.result("sidecar/session/load", {"sessionId": follower.session_id}, within=START_SECONDS)
    assert loaded == {"sessionId": follower.session_id, "history": "replayed"}
    follower.until(lambda view: any(text_of(turn) == "an older answer" for turn in view["turns"]))
    kinds = [change["kind"] for frame in follower.frames for change in frame["changes"] if frame["epoch"] != epoch]
    assert kinds.count("reset") == 1
    assert follower.epoch != epoch
    watched = client.result("sidecar/session/watch", {"since": {"epoch": epoch, "seq": follower.seq}})
    assert watched["snapshot"]["turns"] == follower.view["turns"]


def test_a_flood_comes_in_few_frames_and_complete(world: World) -> None:
    with world.start() as client:
        client.initialize(PLUGIN, **world.options("flood"))
        follower = prompt(client, "go")
        began = time.monotonic()
        turn = follower.ended(within=2 * START_SECONDS)
        took = time.monotonic() - began
        state = client.result("sidecar/session/state", within=START_SECONDS)
        assert text_of(turn) == text_of(state["turns"][-1])
        assert len(text_of(turn)) > FLOOD_CHARACTERS
        assert len(follower.frames) <= FRAMES_PER_SECOND * (took + 1)


def test_an_editor_that_does_not_read_holds_nobody_up_and_misses_nothing(world: World) -> None:
    with world.start() as client:
        client.initialize(PLUGIN, **world.options("flood"))
        follower = prompt(client, "go")
        client.go_deaf()
        request = client.request("sidecar/session/state", {})
        client.hear()
        client.reply(request, within=START_SECONDS)
        turn = follower.ended(within=2 * START_SECONDS)
        state = client.result("sidecar/session/state", within=START_SECONDS)
        assert text_of(turn) == text_of(state["turns"][-1])


def test_a_session_that_is_closed_says_so_last(client: LspClient) -> None:
    follower = prompt(client, "say hello")
    follower.ended()
    assert client.result("sidecar/session/close") == {"closed": True}
    assert follower.until(lambda view: view["state"]["state"] == "ended")
    assert "no session is open" in client.error("sidecar/session/state")["message"]


def test_mcp_servers_come_as_a_full_snapshot(tmp_path: Path) -> None:
    world = World(tmp_path, {"kiro3": peer("tests.peers.kiro_v3", protocol="kiro-v3")})
    with world.start() as client:
        client.initialize(PLUGIN, **world.options("kiro3"))
        session_id = client.result("sidecar/session/new", within=START_SECONDS)["sessionId"]
        told = client.told("sidecar/mcp/changed", within=START_SECONDS)
        assert told["sessionId"] == session_id
        assert [server["name"] for server in told["servers"]] == ["docs", "off"]
        assert "authorizationUrl" not in json.dumps(told)
