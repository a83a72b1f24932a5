"""Kiro CLI V2 keeps its own adapter: no Kiro keys are sent, its private events are read, and nothing of V3 is expected."""

from pathlib import Path

import pytest

from sidecar.errors import ConfigFault, Unavailable
from tests.flows.harness import bench, text_of
from tests.peers.kiro_v2 import KiroV2

pytestmark = pytest.mark.anyio


async def test_it_is_started_with_the_v2_engine_and_known_by_the_missing_marker(tmp_path: Path) -> None:
    async with bench(KiroV2(), tmp_path, protocol="kiro-v2") as b:
        actor = await b.new()
        assert b.launches[0].argv[1:] == ["acp", "--agent-engine=v2"]
        assert actor.connection is not None
        assert actor.connection.info.generation == "kiro-v2"
        sent = b.agent.calls("session/new")[0]["params"]
        assert sent == {"cwd": str(tmp_path), "mcpServers": []}
        assert "kiro" not in str(b.agent.calls("initialize"))


async def test_its_turns_steering_and_usage_work(tmp_path: Path) -> None:
    async with bench(KiroV2(), tmp_path, protocol="kiro-v2") as b:
        actor = await b.new()
        turn = await b.run(actor, "hello")
        assert "You said: hello" in text_of(turn)
        assert (actor.state.conversation.usage or {}).get("percent") == 1.5
        running = await b.prompt(actor, "wait")
        await b.until(lambda: actor.state.running_turn is not None, actor)
        assert (await b.call("steer", sessionId=actor.identity.session_id, text="more"))["state"] == "steered"
        await b.call("cancel", sessionId=actor.identity.session_id)
        assert (await b.turn(actor, running))["endedAs"] == "cancelled"


async def test_retry_warnings_of_v2_are_kept_raw_and_make_no_state(tmp_path: Path) -> None:
    async with bench(KiroV2(), tmp_path, protocol="kiro-v2") as b:
        actor = await b.new()
        await b.run(actor, "retry")
        assert actor.phase == "idle"
        assert "retrying" not in str(actor.state.section("state"))


async def test_a_sign_in_address_of_v2_reaches_no_state(tmp_path: Path) -> None:
    async with bench(KiroV2(), tmp_path, protocol="kiro-v2") as b:
        actor = await b.new()
        await b.run(actor, "oauth")
        assert "state=secret" not in str(actor.state.to_json())
        assert not b.workspace.broker.pending()


async def test_a_permission_of_v2_is_answered_with_an_offered_option_and_no_consent_metadata(tmp_path: Path) -> None:
    async with bench(KiroV2(), tmp_path, protocol="kiro-v2") as b:
        actor = await b.new()
        turn_id = await b.prompt(actor, "shell")
        pending = await b.question()
        await b.call("pending.answer", id=pending.id, optionId="allow_always")
        await b.turn(actor, turn_id)
        reply = next(m for m in b.agent.received if "outcome" in (m.get("result") or {}))
        assert reply["result"] == {"outcome": {"outcome": "selected", "optionId": "allow_always"}}


async def test_what_v2_does_not_offer_is_refused_without_asking_it(tmp_path: Path) -> None:
    agent = KiroV2()
    async with bench(agent, tmp_path, protocol="kiro-v2") as b:
        actor = await b.new()
        session = actor.identity.session_id
        for operation in ("session.compact", "account.usage", "session.fork", "session.delete"):
            with pytest.raises(Unavailable):
                await b.call(operation, sessionId=session)
        assert not agent.refused


@pytest.mark.parametrize("flag", ["--agent", "--model=x", "--effort", "--trust-all-tools", "--trust-tools=a"])
async def test_flags_of_v2_in_the_command_of_a_v3_agent_are_refused_by_name(flag: str, tmp_path: Path) -> None:
    async with bench(KiroV2(), tmp_path, command=["kiro-cli", flag]) as b:
        with pytest.raises(ConfigFault, match=flag.split("=", maxsplit=1)[0]):
            await b.new()
        assert not b.launches
