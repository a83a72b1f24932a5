"""The sidecar from an editor's start to its end: settings, trust, folders, turns, a lost agent, and the log."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.peers.lsp_client import LspClient
from tests.process.editor_world import (
    BARE,
    DIALOGS,
    NOISE,
    PLUGIN,
    START_SECONDS,
    World,
    ask,
    peer,
    prompt,
    text_of,
    turn_of,
    waiting,
)

pytestmark = pytest.mark.process

PULL = {"workspace": {"configuration": True, "workspaceFolders": True}}
PROGRESS = {"window": {"workDoneProgress": True}}
QUIET = ("sidecar/agent/changed", "sidecar/mcp/changed", "sidecar/session/changed", "sidecar/pending/changed", "$/progress")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, {"kiro3": peer("tests.peers.kiro_v3", protocol="kiro-v3")})


@pytest.fixture
def client(world: World) -> Iterator[LspClient]:
    with world.start() as client:
        client.initialize(PLUGIN, **world.options())
        yield client


def agents_running(client: LspClient) -> list[str]:
    return [agent["name"] for agent in client.result("sidecar/status")["agents"]]


def default_agent(client: LspClient) -> str:
    return next(agent["name"] for agent in client.result("sidecar/agent/list")["agents"] if agent["default"])


def agent_state(client: LspClient, state: str) -> dict[str, Any]:
    while True:
        told = client.told("sidecar/agent/changed", within=START_SECONDS)
        if told["state"] == state:
            return told


# settings and trust


def test_an_agent_starts_on_the_first_sign_of_use_and_not_before(client: LspClient) -> None:
    assert agents_running(client) == []
    client.result("sidecar/agent/list")
    assert agents_running(client) == []
    prompt(client, "say hello").ended()
    assert agents_running(client) == ["commanded"]


def test_a_warm_agent_starts_once_settings_are_known(world: World) -> None:
    with world.start() as client:
        client.initialize({**PLUGIN, **PULL}, **world.options(warm=False))
        assert agents_running(client) == []
        asked = client.asked("workspace/configuration", within=START_SECONDS)
        assert asked["params"] == {"items": [{"section": "sidecar"}]}
        client.answer(asked, [{"agent": "kiro3", "warm": True}])
        assert agent_state(client, "running")["agent"] == "kiro3"


def test_an_operation_waits_for_the_editors_settings(world: World) -> None:
    with world.start() as client:
        client.initialize({**PLUGIN, **PULL}, **world.options("nobody"))
        request = client.request("sidecar/prompt", {"text": "say hello"})
        client.answer(client.asked("workspace/configuration", within=START_SECONDS), [{"agent": "commanded"}])
        assert client.reply(request, within=START_SECONDS)["result"]["state"] == "started"


def test_wrong_and_unknown_settings_are_told_once_each_in_their_place(world: World) -> None:
    with world.start(ignore=QUIET) as client:
        client.initialize(PLUGIN, **world.options(wram=True, warm="often"))
        shown = client.told("window/showMessage", within=START_SECONDS)["message"]
        assert "warm" in shown
        logged = client.told("window/logMessage")["message"]
        assert "wram" in logged
        client.notify("workspace/didChangeConfiguration", {"settings": {"sidecar": {"agent": "commanded"}}})
        prompt(client, "say hello").ended()


def test_a_pushed_setting_counts_from_then_on(world: World) -> None:
    with world.start(ignore=(*NOISE, "window/showMessage")) as client:
        client.initialize(PLUGIN, **world.options("nobody"))
        assert 'no agent "nobody"' in client.error("sidecar/prompt", {"text": "say hello"})["message"]
        client.notify("workspace/didChangeConfiguration", {"settings": {"sidecar": {"agent": "commanded"}}})
        prompt(client, "say hello").ended()


def test_a_command_from_the_editors_settings_runs_only_after_trust_and_the_trust_is_kept_outside_the_workspace(
    world: World,
) -> None:
    command = [sys.executable, "-m", "tests.process.commanded_agent"]
    mine = {"protocol": "acp", "command": command}
    options = world.options("mine", agents={"mine": mine})
    quiet = (*NOISE, "window/showMessage")
    with world.start(ignore=quiet) as client:
        client.initialize(PLUGIN, **options)
        question = waiting(client)[0]
        assert question["kind"] == "trust"
        assert "tests.process.commanded_agent" in json.dumps(question["items"])
        assert "mine" in client.error("sidecar/prompt", {"text": "say hello"})["message"]
        assert client.result("sidecar/pending/answer", {"id": question["id"], "action": "trust"})["accepted"]
        prompt(client, "say hello").ended()
    assert not list(world.workspace.iterdir())
    with world.start(ignore=quiet) as client:
        client.initialize(PLUGIN, **options)
        prompt(client, "say hello").ended()
        assert client.result("sidecar/pending/list") == {"pending": []}
    command.append("--changed")
    with world.start(ignore=quiet) as client:
        client.initialize(PLUGIN, **options)
        question = waiting(client)[0]
        assert client.result("sidecar/pending/answer", {"id": question["id"], "action": "decline"})["accepted"]
        assert "error" in client.call("sidecar/prompt", {"text": "say hello"})
        assert client.result("sidecar/pending/list") == {"pending": []}


def test_a_repositorys_settings_count_only_after_trust(world: World) -> None:
    (world.workspace / ".sidecar.toml").write_text('agent = "kiro3"\n', encoding="utf-8")
    with world.start() as client:
        client.initialize(DIALOGS, workspaceFolders=[{"uri": world.uri, "name": "ws"}])
        shown = client.asked("window/showMessageRequest", within=START_SECONDS)
        assert ".sidecar.toml" in shown["params"]["message"]
        assert [action["title"] for action in shown["params"]["actions"]] == ["Decline", "Trust"]
        assert client.result("sidecar/agent/list")["agents"]
        client.answer(shown, {"title": "Trust"})
        while default_agent(client) != "kiro3":
            pass


# folders


def test_a_prompt_belongs_to_the_folder_of_the_active_document(world: World) -> None:
    other = world.root / "other"
    other.mkdir()
    with world.start() as client:
        client.initialize(PLUGIN, **world.options())
        added = {"event": {"added": [{"uri": other.as_uri(), "name": "other"}], "removed": []}}
        client.notify("workspace/didChangeWorkspaceFolders", added)
        document = {"uri": (other / "a.py").as_uri(), "languageId": "python", "version": 1, "text": ""}
        client.notify("textDocument/didOpen", {"textDocument": document})
        there = prompt(client, "say hello").session_id
        here = client.result("sidecar/session/new", {"workspace": world.uri}, within=START_SECONDS)["sessionId"]
        folders = {s["sessionId"]: s["cwd"] for s in client.result("sidecar/status")["sessions"]}
        assert folders == {there: str(other), here: str(world.workspace)}
        assert client.result("sidecar/prompt", {"text": "say hello"})["sessionId"] == there
        document = {"uri": (world.workspace / "b.py").as_uri(), "languageId": "python", "version": 1, "text": ""}
        client.notify("textDocument/didOpen", {"textDocument": document})
        assert client.result("sidecar/prompt", {"text": "say hello"})["sessionId"] == here


# turns


def test_what_is_typed_while_a_turn_runs_is_queued_and_sent_afterwards_in_order(client: LspClient) -> None:
    running = prompt(client, "wait")
    queued = [client.result("sidecar/prompt", {"text": f"say {word}"}) for word in ("one", "two")]
    assert [item["state"] for item in queued] == ["queued", "queued"]
    client.result("sidecar/queue/move", {"turnId": queued[1]["turnId"], "position": 0})
    assert client.result("sidecar/cancel") == {"state": "cancelling"}
    assert running.ended()["stopReason"] == "cancelled"
    assert len(client.result("sidecar/queue/list")["queue"]) == 2
    client.result("sidecar/queue/resume")
    assert text_of(running.ended(queued[1]["turnId"])) == "two"
    assert text_of(running.ended(queued[0]["turnId"])) == "one"
    assert client.result("sidecar/cancel") == {"state": "idle"}


def test_a_turn_is_a_progress_that_cancels_that_turn(world: World) -> None:
    with world.start(ignore=[name for name in QUIET if name != "$/progress"]) as client:
        client.initialize({**PLUGIN, **PROGRESS}, **world.options())
        first = prompt(client, "wait")
        created = client.asked("window/workDoneProgress/create", within=START_SECONDS)
        client.answer(created, None)
        begin = client.told("$/progress")
        assert begin["token"] == created["params"]["token"]
        assert (begin["value"]["kind"], begin["value"]["cancellable"]) == ("begin", True)
        client.notify("window/workDoneProgress/cancel", {"token": begin["token"]})
        assert first.ended()["stopReason"] == "cancelled"
        assert client.told("$/progress")["value"] == {"kind": "end", "message": "cancelled"}


def test_a_session_is_found_and_loaded_again_by_a_new_sidecar(world: World) -> None:
    with world.start() as client:
        client.initialize(PLUGIN, **world.options())
        follower = prompt(client, "say hello")
        follower.ended()
        assert client.shut_down() == 0
    with world.start() as client:
        client.initialize(PLUGIN, **world.options())
        listed = client.result("sidecar/session/list")["sessions"]
        assert [entry["sessionId"] for entry in listed] == [follower.session_id]
        loaded = client.result("sidecar/session/load", {"sessionId": follower.session_id}, within=START_SECONDS)
        assert loaded == {"sessionId": follower.session_id, "history": "replayed"}
        turns = client.result("sidecar/session/state")["turns"]
        assert any(text_of(turn) == "an older answer" for turn in turns)


# a lost agent


def test_a_lost_agent_is_told_at_once_and_the_next_prompt_starts_a_new_one_without_sending_the_old(
    client: LspClient, world: World
) -> None:
    follower = prompt(client, "exit 7")
    gone = agent_state(client, "stopped")
    assert "7" in gone["message"]
    turn = follower.ended()
    assert (turn["state"], turn["outcome"]) == ("ended", "unknown")
    follower.until(lambda view: view["state"]["state"] == "lost")
    assert follower.view["state"]["offers"] == ["agent.restart"]
    again = client.result("sidecar/prompt", {"text": "say back"}, within=START_SECONDS)
    assert text_of(turn_of(client, again["turnId"])) == "back"
    assert client.shut_down() == 0
    sent = [m["params"]["prompt"][0]["text"] for m in world.reported()["received"] if m.get("method") == "session/prompt"]
    assert sent == ["say back"]


def test_an_editor_without_a_plugin_sees_a_message_about_a_lost_agent(world: World) -> None:
    with world.start(ignore=(*QUIET, "window/logMessage")) as client:
        client.initialize(BARE, **world.options())
        client.result("sidecar/prompt", {"text": "exit 7"}, within=START_SECONDS)
        shown = client.told("window/showMessage", within=START_SECONDS)
        assert shown["type"] == 1
        assert "commanded is gone" in shown["message"]
        assert "no prompt is sent a second time" in shown["message"]


def test_a_restart_by_the_user_ends_the_process_and_its_turns(client: LspClient) -> None:
    follower = prompt(client, "wait")
    pid = client.result("sidecar/status")["agents"][0]["pid"]
    assert client.result("sidecar/agent/restart", within=START_SECONDS) == {"restarted": True}
    assert follower.ended()["outcome"] == "unknown"
    again = client.result("sidecar/prompt", {"text": "say back"}, within=START_SECONDS)
    turn_of(client, again["turnId"])
    assert client.result("sidecar/status")["agents"][0]["pid"] != pid


def test_an_agent_that_cannot_be_started_is_an_error_that_names_it(world: World) -> None:
    with world.start(ignore=(*NOISE, "window/showMessage")) as client:
        options = world.options("gone", agents={"gone": {"protocol": "acp", "command": ["no-such-agent-here"]}})
        client.initialize(PLUGIN, **options)
        question = waiting(client)[0]
        client.result("sidecar/pending/answer", {"id": question["id"], "action": "trust"})
        error = client.error("sidecar/prompt", {"text": "hello"}, within=START_SECONDS)
        assert "no-such-agent-here" in error["message"]


# the end, and the log


@pytest.mark.parametrize("end", ["eof", "exit"])
def test_the_editors_end_is_the_agents_end(world: World, end: str) -> None:
    with world.start() as client:
        client.initialize(PLUGIN, **world.options())
        ask(client)
        waiting(client)
        if end == "exit":
            assert client.shut_down() == 0
        else:
            client.close_stdin()
            assert client.wait() == 1
        assert world.reported()["received"]
        assert client.stderr == b""


def test_nothing_of_what_is_said_reaches_the_log_at_the_most_verbose_level(world: World) -> None:
    log = world.root / "log.txt"
    with world.start(arguments=["--log-level", "debug", "--log-file", str(log)]) as client:
        client.initialize(PLUGIN, **world.options())
        prompt(client, "say SENTINEL-77aa").ended()
        client.error("sidecar/config/set", {"id": "SENTINEL-77aa", "value": "x"})
    assert b"SENTINEL-77aa" not in log.read_bytes()


def test_two_editors_have_each_their_own_sidecar_and_share_what_is_stored(world: World) -> None:
    with world.start() as first, world.start() as second:
        for client in (first, second):
            client.initialize(PLUGIN, **world.options())
        follower = prompt(first, "say hello")
        follower.ended()
        while not (listed := second.result("sidecar/session/list")["sessions"]):
            pass
        assert listed[0]["sessionId"] == follower.session_id
