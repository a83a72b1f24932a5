"""Turns: one at a time, a visible queue, steering, cancelling, guidance, and what happens when the agent goes."""

from pathlib import Path

import pytest

from sidecar.errors import AgentFault, EditorFault, Unavailable
from sidecar.workspace import actor as actor_module
from tests.flows.harness import bench, text_of
from tests.peers.kiro_v3 import kiro_v3
from tests.peers.memory import until_called
from tests.peers.plain import PlainAgent, PlainOptions
from tests.peers.scripted import member

pytestmark = pytest.mark.anyio


async def test_a_second_prompt_waits_in_a_queue_the_user_can_change(tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path) as b:
        actor = await b.new()
        session = actor.identity.session_id
        await b.prompt(actor, "shell ls")
        first = await b.question()
        second, third = await b.prompt(actor, "answer two"), await b.prompt(actor, "answer three")
        assert [item["turnId"] for item in (await b.call("queue.list", sessionId=session))["queue"]] == [second, third]
        await b.call("queue.edit", sessionId=session, turnId=third, text="answer third")
        await b.call("queue.move", sessionId=session, turnId=third, position=0)
        left = (await b.call("queue.remove", sessionId=session, turnId=second))["queue"]
        assert [item["text"] for item in left] == ["answer third"]
        assert len(b.agent.calls("session/prompt")) == 1
        await b.call("pending.answer", id=first.id, optionId="reject")
        assert "answer third" in text_of(await b.turn(actor, third))
        with pytest.raises(EditorFault, match=r"queue\.list"):
            await b.call("queue.remove", sessionId=session, turnId=second)


async def test_cancel_answers_questions_cancelled_tells_the_agent_once_and_holds_the_queue(tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path) as b:
        actor = await b.new()
        session = actor.identity.session_id
        running = await b.prompt(actor, "shell ls")
        pending = await b.question()
        waiting = await b.prompt(actor, "answer later")
        assert (await b.call("cancel", sessionId=session))["state"] == "cancelling"
        assert (await b.call("cancel", sessionId=session))["state"] in {"cancelling", "idle"}
        turn = await b.turn(actor, running)
        assert turn["endedAs"] == "cancelled"
        methods = [message.get("method", "reply") for message in b.agent.received]
        assert methods.count("session/cancel") == 1
        assert methods.index("session/cancel") > max(i for i, m in enumerate(methods) if m == "reply")
        late = await b.call("pending.answer", id=pending.id, optionId="accept")
        assert late["accepted"] is False
        assert actor.queue.held
        assert len(b.agent.calls("session/prompt")) == 1
        await b.call("queue.resume", sessionId=session)
        assert "answer later" in text_of(await b.turn(actor, waiting))


async def test_cancel_when_idle_sends_nothing(tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path) as b:
        actor = await b.new()
        assert (await b.call("cancel", sessionId=actor.identity.session_id)) == {"state": "idle"}
        await b.run(actor, "answer")
        assert (await b.call("cancel", sessionId=actor.identity.session_id)) == {"state": "idle"}
        assert not b.agent.calls("session/cancel")


async def test_replace_cancels_waits_for_the_reply_and_sends_the_new_prompt(tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path) as b:
        actor = await b.new()
        await b.prompt(actor, "shell ls")
        await b.question()
        new = await b.prompt(actor, "answer instead", whileRunning="replace")
        assert "answer instead" in text_of(await b.turn(actor, new))
        methods = [str(message.get("method")) for message in b.agent.received]
        assert methods.count("session/cancel") == 1
        assert methods.index("session/cancel") < len(methods) - methods[::-1].index("session/prompt") - 1


async def test_an_agent_that_ignores_a_cancel_gets_a_way_out_offered_and_nothing_done_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actor_module, "CANCEL_PATIENCE_SECONDS", 0.05)
    async with bench(kiro_v3(), tmp_path) as b:
        actor = await b.new()
        turn_id = await b.prompt(actor, "deaf")
        await until_called(b.agent, "session/prompt")
        await b.call("cancel", sessionId=actor.identity.session_id)
        await b.until(lambda: "agent.restart" in str(actor.state.section("state")), actor)
        assert actor.running_turn_id == turn_id
        await b.call("agent.restart", sessionId=actor.identity.session_id)
        assert (await b.turn(actor, turn_id))["outcome"] == "unknown"
        assert len(b.agent.calls("session/prompt")) == 1


async def test_guidance_is_sent_before_the_answer(tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path) as b:
        actor = await b.new()
        turn_id = await b.prompt(actor, "shell ls")
        pending = await b.question()
        await b.call("pending.answer", id=pending.id, optionId="reject", guidance="use find instead")
        await b.turn(actor, turn_id)
        order = [m.get("method", "reply") for m in b.agent.received if m.get("method") == "_session/steer" or "result" in m]
        assert order == ["_session/steer", "reply"]
        assert b.agent.calls("_session/steer")[0]["params"]["message"] == "use find instead"


async def test_guidance_without_steering_becomes_the_first_queued_prompt(tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path, extension_methods="announced-only") as b:
        actor = await b.new()
        await b.prompt(actor, "shell ls")
        pending = await b.question()
        await b.call("pending.answer", id=pending.id, optionId="reject", guidance="answer find")
        await until_called(b.agent, "session/prompt", 2)
        assert not b.agent.calls("_session/steer")
        assert member(b.agent.calls("session/prompt")[1], "params", "prompt")[0]["text"] == "answer find"


async def test_a_plain_refusal_interrupts_nothing(tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path) as b:
        actor = await b.new()
        turn_id = await b.prompt(actor, "shell ls")
        pending = await b.question()
        await b.call("pending.answer", id=pending.id, optionId="reject")
        turn = await b.turn(actor, turn_id)
        assert turn["endedAs"] == "end_turn"
        assert not b.agent.calls("session/cancel")


async def test_steering_the_agent_dropped_returns_to_the_queue(tmp_path: Path) -> None:
    async with bench(kiro_v3(steer="dropped"), tmp_path) as b:
        actor = await b.new()
        await b.prompt(actor, "shell ls")
        pending = await b.question()
        outcome = await b.call("steer", sessionId=actor.identity.session_id, text="answer more")
        assert outcome["state"] == "queued"
        assert actor.queue.to_json()[0]["text"] == "answer more"
        await b.call("pending.answer", id=pending.id, optionId="reject")
        assert "answer more" in text_of(await b.turn(actor, outcome["turnId"]))


async def test_a_lost_agent_leaves_the_turn_unknown_and_its_prompt_is_never_sent_again(tmp_path: Path) -> None:
    async with bench(lambda _: kiro_v3(), tmp_path) as b:
        actor = await b.new()
        first = b.agent
        turn = await b.run(actor, "crash")
        assert turn["outcome"] == "unknown"
        assert "last words" in text_of(turn)
        await b.until(lambda: actor.phase == "lost", actor)
        again = await b.run(actor, "answer after")
        assert "answer after" in text_of(again)
        second = b.agent
        assert second is not first
        methods = [str(message.get("method")) for message in second.received if message.get("method")]
        assert methods == ["initialize", "session/load", "session/set_config_option", "session/prompt"]
        assert second.calls("session/load")[0]["params"]["sessionId"] == actor.identity.agent_session_id


async def test_questions_of_a_lost_agent_are_withdrawn_and_a_late_answer_reaches_nobody(tmp_path: Path) -> None:
    async with bench(lambda _: kiro_v3(), tmp_path) as b:
        actor = await b.new()
        await b.prompt(actor, "shell rm -rf /")
        pending = await b.question()
        await b.kill()
        await b.until(lambda: not b.workspace.broker.pending())
        assert (await b.call("pending.answer", id=pending.id, optionId="accept"))["accepted"] is False
        await b.until(lambda: actor.phase == "lost", actor)
        turn_id = await b.prompt(actor, "shell echo hi")
        fresh = await b.question()
        assert fresh.id != pending.id
        await b.call("pending.answer", id=fresh.id, optionId="reject")
        await b.turn(actor, turn_id)
        assert "accept" not in str(b.agent.received)


async def test_a_load_swaps_the_whole_history_in_at_the_reply(tmp_path: Path) -> None:
    agent = kiro_v3(load="held")
    async with bench(agent, tmp_path) as b:
        actor = await b.new()
        live = await b.run(actor, "answer live")
        session = actor.identity.session_id
        b.workspace.spawn(lambda: b.call("session.load", sessionId=session))
        await until_called(agent, "session/load")
        assert [t["turnId"] for t in actor.state.to_json()["turns"]][-1] == live["turnId"]
        agent.signal("load")
        await b.until(lambda: "an older answer" in str(actor.state.to_json()) and not actor.state.loading, actor)
        texts = str(actor.state.to_json()["turns"])
        assert texts.count("an older answer") == 1
        assert "answer live" not in texts


async def test_a_load_that_is_never_answered_ends_with_an_error_and_keeps_what_was_shown(tmp_path: Path) -> None:
    async with bench(kiro_v3(load="never"), tmp_path, limits={"load_timeout_seconds": 1}) as b:
        actor = await b.new()
        live = await b.run(actor, "answer live")
        with pytest.raises(AgentFault, match="did not answer session/load"):
            await b.call("session.load", sessionId=actor.identity.session_id)
        assert [t["turnId"] for t in actor.state.to_json()["turns"]][-1] == live["turnId"]


async def test_no_replay_keeps_the_transcript_of_a_local_session(tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path) as b:
        actor = await b.new()
        live = await b.run(actor, "answer live")
        await b.call("session.load", sessionId=actor.identity.session_id, replay=False)
        assert b.agent.calls("session/load")[0]["params"]["_meta"]["kiro"] == {"noReplay": True}
        assert [t["turnId"] for t in actor.state.to_json()["turns"]][-1] == live["turnId"]


async def test_no_replay_is_not_used_for_a_remote_session(tmp_path: Path) -> None:
    async with bench(kiro_v3(remote=True), tmp_path) as b:
        actor = await b.new()
        assert actor.identity.remote
        await b.call("session.load", sessionId=actor.identity.session_id, replay=False)
        assert b.agent.calls("session/load")[0]["params"]["_meta"]["kiro"] == {"sessionSource": "remote"}
        with pytest.raises(Unavailable, match="local sessions only"):
            await b.call("mcp.authenticate", sessionId=actor.identity.session_id, server="docs")


async def test_an_agent_without_load_gets_a_new_session_and_the_user_is_told(tmp_path: Path) -> None:
    async with bench(lambda _: PlainAgent(PlainOptions(load=False)), tmp_path, protocol="acp") as b:
        actor = await b.new()
        await b.run(actor, "hello")
        await b.kill()
        await b.until(lambda: actor.phase == "lost", actor)
        turn = await b.run(actor, "hello again")
        assert "hello again" in text_of(turn)
        assert any("cannot load sessions" in notice.title for notice in actor.state.notices)


async def test_an_agent_of_another_protocol_version_is_refused_with_the_versions(tmp_path: Path) -> None:
    async with bench(PlainAgent(PlainOptions(protocol_version=99)), tmp_path, protocol="acp") as b:
        with pytest.raises(AgentFault, match="protocol version 99"):
            await b.new()


async def test_signing_in_is_asked_once_and_the_session_opened_afterwards(tmp_path: Path) -> None:
    async with bench(PlainAgent(PlainOptions(auth="agent")), tmp_path, protocol="acp") as b:

        async def open_session() -> None:
            await b.new()

        b.workspace.spawn(open_session)
        pending = await b.question()
        shown = pending.to_json()
        assert shown["kind"] == "signIn"
        await b.call("pending.answer", id=pending.id, action="start", method=shown["methods"][0]["id"])
        await b.until(lambda: bool(b.workspace.actors()) and b.workspace.actors()[0].phase == "idle")
        assert len(b.agent.calls("authenticate")) == 1
        assert len(b.agent.calls("session/new")) == 2


async def test_restarts_stop_after_three_within_half_a_minute(tmp_path: Path) -> None:
    async with bench(lambda _: kiro_v3(), tmp_path) as b:
        actor = await b.new()
        for _ in range(3):
            await b.run(actor, "crash")
            await b.until(lambda: actor.phase == "lost", actor)
            await actor.ensure_open()
        await b.run(actor, "crash")
        await b.until(lambda: actor.phase == "lost", actor)
        with pytest.raises(Unavailable, match=r"doctor.*agent\.restart"):
            await actor.ensure_open()
        assert len(b.agents) == 4
        await b.call("agent.restart", sessionId=actor.identity.session_id)
        await actor.ensure_open()
        assert len(b.agents) == 5


async def test_a_form_is_shown_checked_and_answered(tmp_path: Path) -> None:
    async with bench(PlainAgent(), tmp_path, protocol="acp") as b:
        actor = await b.new()
        turn_id = await b.prompt(actor, "form")
        pending = await b.question()
        with pytest.raises(EditorFault):
            await b.call("pending.answer", id=pending.id, action="accept", content={"count": 3})
        await b.call("pending.answer", id=pending.id, action="accept", content={"name": "Ada", "count": 3})
        await b.turn(actor, turn_id)
        reply = next(m for m in b.agent.received if "action" in (m.get("result") or {}))
        assert reply["result"] == {"action": "accept", "content": {"name": "Ada", "count": 3}}


async def test_a_question_whose_command_changes_gets_a_new_id_and_the_old_answer_is_not_sent(tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path) as b:
        actor = await b.new()
        turn_id = await b.prompt(actor, "shell ls")
        pending = await b.question()
        old = pending.id
        call_id = pending.to_json()["toolCallId"]
        raw = {"command": "rm -rf ~"}
        b.agent.update(
            actor.identity.agent_session_id or "", "tool_call_update", toolCallId=call_id, title="rm -rf ~", rawInput=raw
        )
        await b.until(lambda: b.workspace.broker.pending()[0].id != old)
        assert (await b.call("pending.answer", id=old, optionId="accept"))["accepted"] is False
        fresh = b.workspace.broker.pending()[0]
        assert fresh.to_json()["replaces"] == old
        await b.call("pending.answer", id=fresh.id, optionId="reject")
        await b.turn(actor, turn_id)


async def test_a_prompt_queued_behind_a_lost_turn_waits_and_is_not_spent_on_the_dead_agent(tmp_path: Path) -> None:
    async with bench(lambda _: kiro_v3(), tmp_path) as b:
        actor = await b.new()
        turn_id = await b.prompt(actor, "silent")
        await until_called(b.agent, "session/prompt")
        waiting = await b.prompt(actor, "answer later")
        await b.kill()
        assert (await b.turn(actor, turn_id))["outcome"] == "unknown"
        assert [item["turnId"] for item in actor.queue.to_json()] == [waiting]
        assert actor.queue.held
        await b.call("queue.resume", sessionId=actor.identity.session_id)
        assert "answer later" in text_of(await b.turn(actor, waiting))
        assert len(b.agents) == 2


async def test_a_cancel_while_the_session_is_still_opening_means_the_prompt_is_never_sent(tmp_path: Path) -> None:
    agent = kiro_v3(load="held")
    async with bench(agent, tmp_path) as b:
        actor = await b.new()
        actor.connection = None
        item = actor._queue("answer me", [{"type": "text", "text": "answer me"}])  # pyright: ignore[reportPrivateUsage]
        actor.resume()
        await until_called(agent, "session/load")
        assert (await b.call("cancel", sessionId=actor.identity.session_id))["state"] == "cancelling"
        agent.signal("load")
        assert (await b.turn(actor, item.turn_id))["endedAs"] == "cancelled"
        assert not agent.calls("session/prompt")
