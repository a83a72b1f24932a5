"""Agents differ in ways the protocol allows; each is taken as it comes (facts on agents, section 3)."""

import sys
from pathlib import Path

import pytest

from sidecar.workspace.hooks import Offers
from tests.flows.harness import bench, text_of
from tests.peers.kiro_v3 import kiro_v3
from tests.peers.plain import PlainAgent, PlainOptions
from tests.peers.scripted import member

pytestmark = pytest.mark.anyio


async def test_a_tool_call_is_made_from_the_permission_that_comes_before_it(tmp_path: Path) -> None:
    async with bench(PlainAgent(PlainOptions(permission_without_call=True, string_ids=True)), tmp_path, protocol="acp") as b:
        actor = await b.new()
        turn_id = await b.prompt(actor, "permission")
        pending = await b.question()
        shown = pending.to_json()
        assert [option["kind"] for option in shown["options"]].count("allow_always") == 2
        calls = [part["toolCall"] for part in actor.state.to_json()["turns"][-1]["parts"] if part["kind"] == "tool"]
        assert calls[0]["toolCallId"] == shown["toolCallId"]
        assert calls[0]["title"] == "ls"
        await b.call("pending.answer", id=pending.id, optionId="proceed_always_tool")
        await b.turn(actor, turn_id)
        reply = next(m for m in b.agent.received if "outcome" in (m.get("result") or {}))
        assert isinstance(reply["id"], str)
        assert reply["result"] == {"outcome": {"outcome": "selected", "optionId": "proceed_always_tool"}}


async def test_the_users_own_prompt_echoed_in_a_live_turn_is_not_shown_twice(tmp_path: Path) -> None:
    async with bench(PlainAgent(PlainOptions(echo_prompt=True)), tmp_path, protocol="acp") as b:
        actor = await b.new()
        turn = await b.run(actor, "hello there")
        assert text_of(turn) == "You said: hello there"
        echoes = [part for part in turn["parts"] if part["kind"] == "text" and part["role"] == "user"]
        assert all(part.get("echo") for part in echoes)


async def test_an_update_before_the_reply_that_names_its_session_is_kept(tmp_path: Path) -> None:
    async with bench(PlainAgent(PlainOptions(update_before_reply=True)), tmp_path, protocol="acp") as b:
        actor = await b.new()
        snapshot = actor.state.to_json()
        assert snapshot["usage"] or snapshot["commands"] or snapshot["title"]


async def test_a_mode_is_set_by_set_mode_where_there_is_no_option_for_it(tmp_path: Path) -> None:
    async with bench(PlainAgent(PlainOptions(modes=True)), tmp_path, protocol="acp", mode="code") as b:
        actor = await b.new()
        assert member(b.agent.calls("session/set_mode")[0], "params", "modeId") == "code"
        await b.call("config.set", sessionId=actor.identity.session_id, id="mode", value="ask")
        assert member(b.agent.calls("session/set_mode")[1], "params", "modeId") == "ask"
        assert not b.agent.calls("session/set_config_option")


async def test_a_plain_agent_gets_no_kiro_keys_and_no_directories_it_does_not_announce(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with bench(PlainAgent(), tmp_path, protocol="acp", model="x") as b:
        actor = await b.new(additionalDirectories=[str(other)])
        sent = b.agent.calls("session/new")[0]["params"]
        assert sent == {"cwd": str(tmp_path), "mcpServers": []}
        told = " ".join(f"{notice.title} {notice.description}" for notice in actor.state.notices)
        assert str(other) in told
        assert "kiro" not in str(b.agent.calls("initialize")[0]["params"])


async def test_an_agent_elsewhere_gets_its_own_paths_and_its_paths_are_told_as_ours(tmp_path: Path) -> None:
    async with bench(kiro_v3(workspace_root="/there"), tmp_path, path_map=[[str(tmp_path), "/there"]]) as b:
        actor = await b.new()
        assert b.agent.calls("session/new")[0]["params"]["cwd"] == "/there"
        turn_id = await b.prompt(actor, "write")
        pending = await b.question()
        shown = pending.to_json()
        assert f"{tmp_path}/notes.txt" in shown["path"]
        assert "workspace" in shown["consent"]["scopes"]
        await b.call("pending.answer", id=pending.id, optionId="always-accept", scope="workspace")
        turn = await b.turn(actor, turn_id)
        tool = next(part["toolCall"] for part in turn["parts"] if part["kind"] == "tool")
        assert tool["locations"][0]["path"] == f"{tmp_path}/notes.txt"
        reply = next(m for m in b.agent.received if "outcome" in (m.get("result") or {}))
        assert member(reply, "result", "_meta", "kiro", "consent", "workspaceRoot") == "/there"


async def test_a_turn_that_fails_shows_the_agents_own_words(tmp_path: Path) -> None:
    async with bench(PlainAgent(), tmp_path, protocol="acp") as b:
        actor = await b.new()
        turn = await b.run(actor, "fail")
        assert turn["outcome"] == "failed"
        assert turn["error"]
        assert actor.phase == "idle"


async def test_a_terminal_sign_in_names_the_command_to_run_and_sends_no_authenticate(tmp_path: Path) -> None:
    agent = PlainAgent(PlainOptions(auth="terminal", login_file=str(tmp_path / "login")))
    async with bench(agent, tmp_path, protocol="acp") as b:
        b.workspace.hooks.offers = Offers(terminal_sign_in=True)

        async def open_session() -> None:
            await b.new()

        b.workspace.spawn(open_session)
        pending = await b.question()
        method = next(method for method in pending.to_json()["methods"] if method["kind"] == "terminal")
        assert method["command"][0] == sys.executable
        assert method["command"][-1] == "login"
        await b.call("pending.answer", id=pending.id, action="start", method=method["id"])
        await b.until(lambda: any("in a terminal" in title for _, _, title, _ in b.notices))
        assert not agent.calls("authenticate")
