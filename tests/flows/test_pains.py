"""What users of such tools suffered from, where no other test looks at it (facts on pains; the numbers are theirs)."""

from pathlib import Path
from typing import Any

import pytest

from sidecar.agents import acp_link, acp_session_calls
from sidecar.errors import AgentFault
from tests.flows.asking import ALLOW, REJECT, ask, reply_to, shell, times_answered, turn
from tests.flows.harness import bench, text_of
from tests.peers.kiro_v3 import KiroV3, kiro_v3
from tests.peers.memory import until, until_called
from tests.peers.plain import PlainAgent, PlainOptions
from tests.peers.scripted import Message

pytestmark = pytest.mark.anyio


class Odd(PlainAgent):
    """A plain agent whose answer to a method is given by the test: a result, or an error when it holds ``code``."""

    def __init__(self, answers: dict[str, Message | None], options: PlainOptions | None = None) -> None:
        super().__init__(options)
        for method, answer in answers.items():
            self.handlers[method] = lambda request, answer=answer: self._give(request, answer)

    def _give(self, request: Message, answer: Message | None) -> None:
        if answer is None:
            return
        if "code" in answer:
            self.refuse(request, answer["code"], answer["message"], answer.get("data"))
        else:
            self.reply(request, answer)


async def test_variables_with_line_breaks_reach_the_agent_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """4, 5, 6: the whole environment, as a map, never as shell text."""
    monkeypatch.setenv("BASH_FUNC_which%%", "() { echo 'a'\n}")
    async with bench(kiro_v3(), tmp_path, env={"ADDED": "x\ny; touch z"}) as b:
        await b.new()
        env = b.launches[0].env
        assert env["BASH_FUNC_which%%"] == "() { echo 'a'\n}"
        assert env["ADDED"] == "x\ny; touch z"
        assert {"PATH", "HOME"} <= set(env)


@pytest.mark.parametrize("method", ["initialize", "session/new"])
async def test_an_agent_that_does_not_answer_is_told_by_method(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10, 11: never a wait without an end; the next try starts anew."""
    monkeypatch.setattr(acp_link, "INITIALIZE_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(acp_session_calls, "NEW_SESSION_TIMEOUT_SECONDS", 0.05)
    agents = [Odd({method: None}), PlainAgent()]
    async with bench(lambda _: agents.pop(0), tmp_path, protocol="acp") as b:
        with pytest.raises(AgentFault, match=f"did not answer {method}"):
            await b.new()
        await b.call("agent.restart", agent="scripted")
        assert "You said: hi" in text_of(await b.run(await b.new(), "hi"))


async def test_one_process_serves_many_sessions_and_a_cancel_ends_none(tmp_path: Path) -> None:
    """14, 79, 108: the process and what was said stay."""
    async with bench(lambda _: kiro_v3(), tmp_path) as b:
        first, second = await b.new(), await b.new()
        said = await b.run(first, "answer before")
        running = await b.prompt(first, "silent")
        await until_called(b.agent, "session/prompt", 2)
        await b.call("cancel", sessionId=first.identity.session_id)
        assert (await b.turn(first, running))["endedAs"] == "cancelled"
        assert "answer after" in text_of(await b.run(first, "answer after"))
        assert "answer other" in text_of(await b.run(second, "answer other"))
        assert len(b.agents) == 1
        assert said["turnId"] in [t["turnId"] for t in first.state.to_json()["turns"]]


@pytest.mark.parametrize("reason", ["out_of_cheese", "", None, 7])
async def test_a_stop_reason_nobody_knows_ends_a_good_turn(reason: Any, tmp_path: Path) -> None:
    """18: the answer stays."""

    class Answers(PlainAgent):
        def _prompt(self, request: Message) -> Any:
            self.say(request["params"]["sessionId"], "the answer")
            self.reply(request, {"stopReason": reason})
            yield from ()

    async with bench(Answers(), tmp_path, protocol="acp") as b:
        ended = await b.run(await b.new(), "hi")
        assert text_of(ended) == "the answer"
        assert ended["outcome"] == "ended"
        assert ended.get("stopReason") == (reason if isinstance(reason, str) and reason else None)


LINKED: Message = {"type": "image", "data": "aGk=", "mimeType": "image/png", "uri": "file:///p/shot.png"}
BARE: Message = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
FILE: Message = {"type": "resource", "resource": {"uri": "file:///p/a.py", "text": "x = 1", "mimeType": "text/x-python"}}


async def test_content_an_agent_did_not_announce_becomes_a_link_or_is_left_out_and_told(tmp_path: Path) -> None:
    """29: an image sent to an agent that takes none would hang the turn."""
    async with bench(PlainAgent(PlainOptions(embedded_context=False)), tmp_path, protocol="acp") as b:
        actor = await b.new()
        turn_id = await b.prompt(actor, "look", context=[LINKED, BARE, FILE])
        await b.turn(actor, turn_id)
        assert b.agent.calls("session/prompt")[0]["params"]["prompt"] == [
            {"type": "text", "text": "look"},
            {"type": "resource_link", "uri": "file:///p/shot.png", "name": "shot.png", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "file:///p/a.py", "name": "a.py", "mimeType": "text/x-python"},
        ]
        told = [notice.title for notice in actor.state.notices]
        assert any("takes no images; a link" in title for title in told)
        assert any("takes no images; it was left out" in title for title in told)
        assert any("takes no embedded files" in title for title in told)


async def test_a_prompt_of_which_nothing_can_be_taken_is_not_sent(tmp_path: Path) -> None:
    """29: and says so."""
    async with bench(PlainAgent(), tmp_path, protocol="acp") as b:
        actor = await b.new()
        sent = await b.call("prompt", sessionId=actor.identity.session_id, context=[BARE])
        ended = await b.turn(actor, sent["turnId"])
        assert ended["outcome"] == "failed"
        assert "takes no images" in ended["error"]
        assert not b.agent.calls("session/prompt")


async def test_content_an_agent_announced_goes_as_it_is(tmp_path: Path) -> None:
    """29: nothing is changed for those that take it."""
    async with bench(kiro_v3(), tmp_path) as b:
        actor = await b.new()
        turn_id = await b.prompt(actor, "answer", context=[BARE, FILE])
        await b.turn(actor, turn_id)
        assert b.agent.calls("session/prompt")[0]["params"]["prompt"][1:] == [BARE, FILE]


async def test_string_ids_and_the_empty_string_and_zero_come_back_as_they_were(tmp_path: Path) -> None:
    """27: by value and by type."""
    async with bench(kiro_v3(), tmp_path) as b:
        await b.new()
        ids = ["", "0", "srv-1", 0, -1, 1 << 53]
        for request_id in ids:
            b.agent.send({"jsonrpc": "2.0", "id": request_id, "method": "_x/unknown"})
        await until(b.agent, lambda agent: (1 << 53) in agent.replies())
        assert [m["id"] for m in b.agent.received if "method" not in m and "error" in m] == ids


async def test_an_always_offers_the_waiting_ones_of_the_same_kind_and_answers_none(tmp_path: Path) -> None:
    """33, 34, 48: the narrowest scope is the default, and the user decides for the others too."""
    async with bench(kiro_v3(), tmp_path) as b:
        actor = await b.new()
        await turn(b, actor)
        asked = [
            ask(b, actor, toolCallId=f"c-{number}", title=line, meta=shell(line))
            for number, line in enumerate(("make", "make", "rm x"))
        ]
        await b.question(3)
        first, same, other = b.workspace.broker.pending()
        outcome = await b.call("pending.answer", id=first.id, optionId="always")
        assert outcome["related"] == [same.id]
        assert (await reply_to(b, asked[0]))["result"]["_meta"]["kiro"]["consent"] == {"scope": "session", "resource": "make"}
        assert [pending.id for pending in b.workspace.broker.pending()] == [same.id, other.id]
        assert not times_answered(b, asked[1])
        assert not times_answered(b, asked[2])


async def test_two_requests_at_once_are_answered_in_any_order(tmp_path: Path) -> None:
    """43: by the id of the request, not by their order."""
    async with bench(kiro_v3(), tmp_path) as b:
        actor = await b.new()
        await turn(b, actor)
        first = ask(b, actor, title="one", options=[ALLOW, REJECT])
        second = ask(b, actor, title="two", options=[ALLOW, REJECT])
        await b.question(2)
        one, two = b.workspace.broker.pending()
        await b.call("pending.answer", id=two.id, optionId="no")
        assert (await reply_to(b, second))["result"]["outcome"]["optionId"] == "no"
        assert not times_answered(b, first)
        await b.call("pending.answer", id=one.id, optionId="yes")
        assert (await reply_to(b, first))["result"]["outcome"]["optionId"] == "yes"


async def test_a_session_that_waits_for_the_user_blocks_no_other(tmp_path: Path) -> None:
    """41, 42: and it waits for as long as the user takes."""
    async with bench(kiro_v3(), tmp_path) as b:
        waiting = await b.new()
        await b.prompt(waiting, "shell make")
        pending = await b.question()
        other = await b.new()
        assert "answer quick" in text_of(await b.run(other, "answer quick"))
        await b.call("session.list", agent="scripted")
        assert [item.id for item in b.workspace.broker.pending()] == [pending.id]


@pytest.mark.parametrize(
    ("code", "message", "data"),
    [
        (-32603, "Internal error", "Failed to start session: Session is active in another process (PID 4242)"),
        (-32603, "Internal error", {"details": "index out of range"}),
        (-32000, "Session 'x' not found", None),
    ],
)
async def test_a_session_that_cannot_be_loaded_says_why_and_a_new_one_works(
    code: int, message: str, data: Any, tmp_path: Path
) -> None:
    """30, 31, 64, 65: the agent's own words, once, and a way on."""
    agent = Odd({"session/load": {"code": code, "message": message, "data": data}})
    async with bench(agent, tmp_path, protocol="acp") as b:
        with pytest.raises(AgentFault) as raised:
            await b.call("session.load", agentSessionId="x", agent="scripted", workspace=str(tmp_path))
        assert message in raised.value.message
        told = f"{raised.value.message} {raised.value.data}"
        assert "4242" in told if "4242" in str(data) else True
        assert len(agent.calls("session/load")) == 1
        assert "You said: hi" in text_of(await b.run(await b.new(), "hi"))


async def test_another_agent_is_another_process_named_by_its_own_introduction(tmp_path: Path) -> None:
    """73, 74: who answers is who was asked."""
    async with bench(lambda _: PlainAgent(), tmp_path, protocol="acp") as b:
        await b.run(await b.new(), "hi")
        shown = (await b.call("status"))["agents"]
        assert [(agent["name"], agent["title"], agent["version"]) for agent in shown if agent["state"] == "running"] == [
            ("scripted", "Plain Agent", "1.2.3")
        ]


async def test_a_cancelled_turn_that_the_agent_calls_ended_is_shown_as_cancelled(tmp_path: Path) -> None:
    """76: the sidecar remembers what the user did."""

    class Polite(KiroV3):
        def end_turn(self, request: Message, stop: str) -> None:
            super().end_turn(request, "end_turn")

    async with bench(Polite(), tmp_path) as b:
        actor = await b.new()
        turn_id = await turn(b, actor)
        await b.call("cancel", sessionId=actor.identity.session_id)
        ended = await b.turn(actor, turn_id)
        assert ended["cancelRequested"]
        assert ended["endedAs"] == "cancelled"


async def test_a_cancel_that_comes_before_the_prompt_went_out_keeps_it_back(tmp_path: Path) -> None:
    """75, 78, 82: it waits in the queue, where the user can see it, and is sent when they say so."""
    agent = PlainAgent()
    opening: list[Message] = []
    initialize = agent.handlers["initialize"]
    agent.handlers["initialize"] = opening.append
    async with bench(agent, tmp_path, protocol="acp") as b:
        b.workspace.spawn(lambda: b.call("prompt", text="early", workspace=str(tmp_path)))
        await until_called(agent, "initialize")
        (actor,) = b.workspace.actors()
        assert (await b.call("cancel", sessionId=actor.identity.session_id)) == {"state": "idle"}
        initialize(opening[0])
        await b.until(lambda: len(actor.queue) == 1, actor)
        waiting = actor.queue.to_json()[0]
        await b.call("status")
        assert not agent.calls("session/prompt")
        assert not agent.calls("session/cancel")
        await b.call("queue.resume", sessionId=actor.identity.session_id)
        assert text_of(await b.turn(actor, waiting["turnId"])) == "You said: early"


async def test_a_cancel_in_the_same_breath_as_the_prompt_is_not_lost(tmp_path: Path) -> None:
    """75: the prompt did not go out and does not go out behind the user's back."""
    async with bench(kiro_v3(), tmp_path) as b:
        actor = await b.new()
        turn_id = await b.prompt(actor, "silent")
        state = (await b.call("cancel", sessionId=actor.identity.session_id))["state"]
        if state == "idle":
            assert [item["turnId"] for item in actor.queue.to_json()] == [turn_id]
            assert actor.queue.held
        else:
            assert (await b.turn(actor, turn_id))["endedAs"] == "cancelled"


async def test_the_age_of_a_silent_turn_is_plain_time_and_its_prompt_goes_out_once(tmp_path: Path) -> None:
    """80, 81: since when, and when something last came."""
    async with bench(kiro_v3(), tmp_path) as b:
        actor = await b.new()
        await turn(b, actor)
        state = actor.state.section("state")["state"]
        assert state["state"] == "running"
        assert state["since"]
        listed = (await b.call("status"))["sessions"][0]
        assert listed["lastFrameAt"]
        assert len(b.agent.calls("session/prompt")) == 1


async def test_a_request_for_an_address_told_as_an_error_stays_the_agents_own_words(tmp_path: Path) -> None:
    """91: -32042 is passed on intact."""
    agent = Odd({"session/prompt": {"code": -32042, "message": "This tool needs a sign-in", "data": {"elicitations": []}}})
    async with bench(agent, tmp_path, protocol="acp") as b:
        ended = await b.run(await b.new(), "hi")
        assert ended["outcome"] == "failed"
        assert "This tool needs a sign-in" in ended["error"]


async def test_a_sign_in_names_its_server_and_host_and_is_asked_each_time(tmp_path: Path) -> None:
    """128: a bad server cannot reuse an earlier yes."""
    async with bench(kiro_v3(), tmp_path) as b:
        actor = await b.new()
        for _ in range(2):
            b.workspace.spawn(lambda: b.call("mcp.authenticate", sessionId=actor.identity.session_id, server="docs"))
            pending = await b.question()
            shown = pending.to_json()
            assert (shown["server"], shown["host"]) == ("docs", "as.example")
            await b.call("pending.answer", id=pending.id, action="open")
            await b.until(lambda: not b.workspace.broker.pending())
        assert len(b.opened_urls) == 2
