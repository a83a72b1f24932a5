"""The acceptance list of the Kiro V3 client guide, one sentence a test, with both policies for private methods."""

from pathlib import Path

import anyio
import pytest

from sidecar.agents.profiles import arguments_for, profile_of
from sidecar.config import AgentSettings
from sidecar.errors import AgentFault, Unavailable
from tests.flows.harness import bench, text_of
from tests.peers.kiro_v3 import STALE_URL, kiro_v3
from tests.peers.memory import until_called
from tests.peers.scripted import member

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("policy", ["announced-only", "announced-plus-known"])]

ALL_ANNOUNCED = (
    "_kiro/mcp/resetServer",
    "_session/steer",
    "_session/steer/clear",
    "_kiro/account/getUsage",
    "_kiro/session/export",
)


async def test_the_cli_is_started_with_the_v3_engine_and_the_intended_owner_of_the_sign_in(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path, extension_methods=policy) as b:
        await b.new()
        assert b.launches[0].argv[1:] == ["acp", "--agent-engine=v3", "--auth-method=cli"]
    by_client = profile_of(AgentSettings("k", "kiro-v3", ("kiro-cli",), auth="client", token_command=("t",)))
    assert arguments_for(by_client, ["kiro-cli"]) == ["acp", "--agent-engine=v3"]


async def test_the_generation_comes_from_the_announcement_never_from_the_protocol_version(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path, protocol="acp", extension_methods=policy) as b:
        actor = await b.new()
        assert actor.connection is not None
        assert actor.connection.info.generation == "kiro-v3"


async def test_optional_methods_are_called_only_when_the_policy_and_the_agent_allow_them(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path, extension_methods=policy) as b:
        actor = await b.new()
        session = actor.identity.session_id
        if policy == "announced-only":
            with pytest.raises(Unavailable):
                await b.call("account.usage", sessionId=session)
            assert not b.agent.calls("_kiro/account/getUsage")
        else:
            assert (await b.call("account.usage", sessionId=session))["success"] is True
        with pytest.raises(Unavailable):
            await b.call("session.rename", sessionId=session, title="x")
        assert not b.agent.calls("_kiro/session/rename")
        exported = await b.call("session.export", sessionId=session, format="agent")
        assert exported["filePath"] == "/tmp/export.zip"


async def test_a_refusal_is_remembered_for_the_life_of_the_process(policy: str, tmp_path: Path) -> None:
    agent = kiro_v3(announced=ALL_ANNOUNCED, works=())
    async with bench(agent, tmp_path, extension_methods=policy) as b:
        actor = await b.new()
        for _ in range(2):
            with pytest.raises(Unavailable):
                await b.call("account.usage", sessionId=actor.identity.session_id)
        assert len(agent.calls("_kiro/account/getUsage")) == 1
        assert actor.connection is not None
        assert actor.connection.info.capabilities.usage is False


async def test_unknown_fields_updates_and_neighbours_in_meta_are_harmless_and_kept(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path, extension_methods=policy) as b:
        actor = await b.new()
        turn = await b.run(actor, "answer me")
        unknown = [part for part in turn["parts"] if part["kind"] == "unknown"]
        assert unknown[-1]["raw"]["payload"] == {"kept": True}
        assert text_of(turn).endswith("\u2028done.")
        assert turn["stopReason"] == "end_turn"


async def test_new_and_load_send_every_input_the_client_owns(policy: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    server = {"docs": {"url": "https://docs.example/mcp"}}
    async with bench(kiro_v3(), tmp_path, extension_methods=policy, mcp_servers=server) as b:
        actor = await b.new(additionalDirectories=[str(other)])
        sent = b.agent.calls("session/new")[0]["params"]
        assert sent["cwd"] == str(tmp_path)
        assert sent["additionalDirectories"] == [str(other)]
        assert sent["mcpServers"] == [{"type": "http", "name": "docs", "url": "https://docs.example/mcp", "headers": []}]
        await b.call("session.load", sessionId=actor.identity.session_id)
        again = b.agent.calls("session/load")[0]["params"]
        assert {key: again[key] for key in ("cwd", "additionalDirectories", "mcpServers")} == {
            key: sent[key] for key in ("cwd", "additionalDirectories", "mcpServers")
        }
        assert again["sessionId"] == actor.identity.agent_session_id


async def test_initial_mode_model_and_effort_travel_under_the_kiro_key(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(model="reply"), tmp_path, extension_methods=policy, mode="spec", model="claude-sonnet") as b:
        await b.new()
        own = b.agent.calls("session/new")[0]["params"]["_meta"]["kiro"]
        assert own == {"modeId": "spec", "modelId": "claude-sonnet"}
        assert not b.agent.calls("session/set_model")


async def test_a_model_the_session_does_not_offer_is_not_set_and_the_difference_is_shown(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path, extension_methods=policy, model="another") as b:
        actor = await b.new()
        assert "model" not in [member(c, "params", "configId") for c in b.agent.calls("session/set_config_option")]
        told = [notice.title for notice in actor.state.notices]
        assert any("'another' is not offered" in title for title in told)


async def test_a_model_named_for_this_call_that_is_not_offered_stops_the_prompt(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path, extension_methods=policy) as b:
        with pytest.raises(Exception, match="not offered"):
            await b.new(model="another")
        assert not b.agent.calls("session/prompt")
        assert not b.workspace.actors()


async def test_a_model_option_that_comes_late_is_waited_for_and_set(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(model="after"), tmp_path, extension_methods=policy, model="claude-sonnet", effort="high") as b:
        await b.new()
        sent = [member(c, "params", "configId") for c in b.agent.calls("session/set_config_option")]
        assert sent == ["model", "effortLevel", "autopilot"]


async def test_autopilot_is_switched_off_where_it_is_offered_unless_the_user_says_otherwise(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path, extension_methods=policy) as b:
        await b.new()
        sent = b.agent.calls("session/set_config_option")[0]["params"]
        assert (sent["configId"], sent["value"]) == ("autopilot", "off")
    async with bench(kiro_v3(), tmp_path, extension_methods=policy, supervised=False) as b:
        await b.new()
        assert not b.agent.calls("session/set_config_option")


async def test_sessions_are_discovered_by_the_agents_list_page_by_page(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path, extension_methods=policy) as b:
        await b.new()
        await b.new()
        first = await b.call("session.list", agent="scripted", scope="workspace", source="remote")
        assert first["nextCursor"] == "opaque-1"
        second = await b.call("session.list", agent="scripted", cursor=first["nextCursor"])
        assert "nextCursor" not in second
        sent = b.agent.calls("session/list")[0]["params"]
        assert sent["_meta"]["kiro"] == {"listScope": "workspace"}


async def test_the_reply_ends_the_turn_and_nothing_else_does(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path, extension_methods=policy) as b:
        actor = await b.new()
        turn_id = await b.prompt(actor, "silent")
        await until_called(b.agent, "session/prompt")
        await b.until(lambda: actor.state.running_turn is not None, actor)
        assert actor.running_turn_id == turn_id
        assert actor.phase == "running"
        await b.call("cancel", sessionId=actor.identity.session_id)
        turn = await b.turn(actor, turn_id)
        assert turn["endedAs"] == "cancelled"


async def test_updates_after_the_reply_are_kept(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path, extension_methods=policy) as b:
        actor = await b.new()
        await b.run(actor, "answer")
        await b.until(lambda: (actor.state.conversation.usage or {}).get("percent") == 1.5, actor)


async def test_concurrent_sessions_are_isolated_and_keep_their_order(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path, extension_methods=policy) as b:
        first, second = await b.new(), await b.new()
        assert len(b.agents) == 1
        turns = [await b.prompt(first, "answer one"), await b.prompt(second, "answer two")]
        assert "answer one" in text_of(await b.turn(first, turns[0]))
        assert "answer two" in text_of(await b.turn(second, turns[1]))


async def test_only_offered_options_are_shown_and_a_one_time_answer_carries_no_consent(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path, extension_methods=policy) as b:
        actor = await b.new()
        turn_id = await b.prompt(actor, "shell npm run test")
        pending = await b.question()
        shown = pending.to_json()
        assert [option["optionId"] for option in shown["options"]] == ["accept", "always-accept", "reject", "always-reject"]
        assert shown["command"] == "npm run test"
        assert (await b.call("pending.answer", id=pending.id, optionId="accept"))["accepted"] is True
        await b.turn(actor, turn_id)
        reply = next(m for m in b.agent.received if "result" in m and "outcome" in (m["result"] or {}))
        assert reply["result"] == {"outcome": {"outcome": "selected", "optionId": "accept"}}


async def test_a_persistent_answer_carries_scope_and_resource_in_both_places(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path, extension_methods=policy) as b:
        actor = await b.new()
        turn_id = await b.prompt(actor, "shell npm run test")
        pending = await b.question()
        await b.call("pending.answer", id=pending.id, optionId="always-accept", scope="workspace", resource="npm run *")
        await b.turn(actor, turn_id)
        result = next(m["result"] for m in b.agent.received if "result" in m and "outcome" in (m["result"] or {}))
        consent = {"scope": "workspace", "resource": "npm run *", "workspaceRoot": str(tmp_path)}
        assert result["_meta"]["kiro"]["consent"] == consent
        assert result["outcome"]["_meta"]["kiro"]["consent"] == consent
        assert result["outcome"]["optionId"] == "always-accept"


async def test_every_round_of_consent_is_asked_and_answered_once(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(rounds=3), tmp_path, extension_methods=policy) as b:
        actor = await b.new()
        turn_id = await b.prompt(actor, "rounds")
        seen: list[str] = []
        for _ in range(3):
            pending = await b.question()
            seen.append(pending.to_json()["consent"]["resource"])
            await b.call("pending.answer", id=pending.id, optionId="accept")
        assert (await b.turn(actor, turn_id))["stopReason"] == "end_turn"
        assert seen == ["part 1", "part 2", "part 3"]


async def test_a_question_of_an_unknown_session_is_shown_and_answered(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path, extension_methods=policy) as b:
        actor = await b.new()
        turn_id = await b.prompt(actor, "subagent")
        pending = await b.question()
        shown = pending.to_json()
        assert "sub-agent" in shown["origin"]
        assert "sessionId" not in shown
        await b.call("pending.answer", id=pending.id, optionId="reject")
        assert "got reject" in text_of(await b.turn(actor, turn_id))


async def test_hints_of_mcp_tools_are_shown_as_untrusted_and_absent_ones_stay_absent(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path, extension_methods=policy) as b:
        actor = await b.new()
        turn_id = await b.prompt(actor, "mcp")
        pending = await b.question()
        tool = pending.to_json()["mcpTool"]
        assert tool["annotations"] == {"readOnlyHint": True, "destructiveHint": False}
        assert tool["untrusted"] is True
        await b.call("pending.answer", id=pending.id, optionId="reject")
        await b.turn(actor, turn_id)


async def test_an_answer_that_cannot_be_kept_offers_no_persistence(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path, extension_methods=policy) as b:
        actor = await b.new()
        turn_id = await b.prompt(actor, "unkept")
        pending = await b.question()
        with pytest.raises(Exception, match=r"scope|kept|persist"):
            await b.call("pending.answer", id=pending.id, optionId="accept", scope="user")
        await b.call("pending.answer", id=pending.id, optionId="accept")
        await b.turn(actor, turn_id)


async def test_a_token_is_refused_while_the_cli_owns_the_sign_in(policy: str, tmp_path: Path) -> None:
    agent = kiro_v3(token_before_initialize=True)
    async with bench(agent, tmp_path, extension_methods=policy) as b:
        await b.new()
        assert agent.token_reply is not None
        assert agent.token_reply["error"]["code"] == -32601
        assert any("token" in title for _, _, title, _ in b.notices)


async def test_unknown_requests_of_the_agent_get_an_error(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path, extension_methods=policy) as b:
        await b.new()
        reply = b.agent.ask("_kiro/unheard/of", {"x": 1})
        await b.until(lambda: True)
        with anyio.fail_after(5):
            while reply.request_id not in b.agent.replies():
                changed = anyio.Event()
                b.agent.on_change = changed.set
                await changed.wait()
        assert b.agent.replies()[reply.request_id]["error"]["code"] == -32601


async def test_snapshots_replace_and_an_unchanged_failure_is_told_once(policy: str, tmp_path: Path) -> None:
    agent = kiro_v3()
    async with bench(agent, tmp_path, extension_methods=policy) as b:
        actor = await b.new()
        for _ in range(3):
            agent.send_servers(actor.identity.agent_session_id or "")
        await b.run(actor, "answer")
        servers = (await b.call("mcp.status", sessionId=actor.identity.session_id))["servers"]
        assert [server["name"] for server in servers] == ["docs", "off"]
        assert STALE_URL not in str(actor.state.to_json())
        assert sum("sign in" in notice.title for notice in actor.state.notices) == 1


async def test_an_mcp_sign_in_is_started_by_the_user_and_done_when_a_snapshot_says_so(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(announced=ALL_ANNOUNCED), tmp_path, extension_methods=policy) as b:
        actor = await b.new()
        session = actor.identity.session_id
        assert not b.workspace.broker.pending()
        async with anyio.create_task_group() as tasks:

            async def sign_in() -> None:
                await b.call("mcp.authenticate", sessionId=session, server="docs")

            tasks.start_soon(sign_in)
            pending = await b.question()
            shown = pending.to_json()
            assert shown["host"] == "as.example"
            assert "state=fresh" not in str(shown)
            assert (await b.call("pending.get", id=pending.id))["url"] == "https://as.example/authorize?state=fresh"
            await b.call("pending.answer", id=pending.id, action="open")
        assert b.opened_urls == ["https://as.example/authorize?state=fresh"]
        await b.until(lambda: actor.state.conversation.mcp["docs"]["status"] == "connected", actor)
        sent = b.agent.calls("_kiro/mcp/resetServer")[0]["params"]
        assert sent == {"serverName": "docs", "startOAuth": True}


async def test_retired_events_and_removed_methods_are_never_ours(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path, extension_methods=policy) as b:
        actor = await b.new()
        await b.run(actor, "answer")
        sent = [str(message.get("method")) for message in b.agent.received]
        assert not [method for method in sent if method.startswith("_kiro.dev/") or method == "session/set_model"]
        snapshot = str(actor.state.to_json()).lower()
        assert "retrying" not in snapshot
        assert "stalled" not in snapshot


async def test_every_shown_command_has_a_route(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path, extension_methods=policy, supervised=False) as b:
        actor = await b.new()
        await b.run(actor, "answer")
        assert [command["name"] for command in actor.state.section("commands")["commands"]] == ["review"]


async def test_a_dead_session_id_is_an_error_with_a_way_on(policy: str, tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path, extension_methods=policy) as b:
        with pytest.raises(AgentFault, match=r"not found.*start a new"):
            await b.call("session.load", agentSessionId="sess_unknown", agent="scripted", workspace=str(tmp_path))
