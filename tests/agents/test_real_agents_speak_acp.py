"""The real agents work on this machine, with no network and nothing of ours in between: what the other tests build on."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.agents.conftest import RealAgent
from tests.peers.line_client import LineClient, Message

pytestmark = pytest.mark.agent


def open_session(client: LineClient, agent: RealAgent) -> str:
    started = client.call("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    assert started["protocolVersion"] == 1
    return client.call("session/new", {"cwd": str(agent.cwd), "mcpServers": []})["sessionId"]


def begin_prompt(client: LineClient, session_id: str, text: str) -> int:
    return client.begin("session/prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]})


def answering(client: LineClient, kind: str) -> Callable[[Message], None]:
    """Return a callback that answers each permission request with the first offered option of ``kind``."""

    def answer(message: Message) -> None:
        if message.get("method") == "session/request_permission":
            options: list[Message] = message["params"]["options"]
            chosen = next(option for option in options if option["kind"] == kind)
            outcome: dict[str, Any] = {"outcome": "selected", "optionId": chosen["optionId"]}
            client.send({"id": message["id"], "result": {"outcome": outcome}})

    return answer


def is_text(message: Message) -> bool:
    return message.get("method") == "session/update" and message["params"]["update"]["sessionUpdate"] == "agent_message_chunk"


def test_the_example_agent_streams_asks_and_ends_its_turn(example_agent: RealAgent) -> None:
    with LineClient(example_agent.argv, cwd=example_agent.cwd, env=example_agent.env) as client:
        session_id = open_session(client, example_agent)
        result = client.result(begin_prompt(client, session_id, "hello"), on_message=answering(client, "allow_once"))
        assert result["stopReason"] == "end_turn"
        assert len(client.updates("agent_message_chunk")) > 1
        assert len(client.updates("tool_call")) == 2
        assert client.noise == []


def test_the_example_agent_ends_a_cancelled_turn_as_cancelled(example_agent: RealAgent) -> None:
    with LineClient(example_agent.argv, cwd=example_agent.cwd, env=example_agent.env) as client:
        session_id = open_session(client, example_agent)
        prompt = begin_prompt(client, session_id, "hello")
        client.wait_for(is_text)
        client.notify("session/cancel", {"sessionId": session_id})
        assert client.result(prompt)["stopReason"] == "cancelled"


def test_codex_answers_with_the_words_of_the_local_model(codex_acp: RealAgent) -> None:
    with LineClient(codex_acp.argv, cwd=codex_acp.cwd, env=codex_acp.env) as client:
        session_id = open_session(client, codex_acp)
        result = client.result(begin_prompt(client, session_id, "say: Za\u017c\u00f3\u0142\u0107 one two three"))
        assert result["stopReason"] == "end_turn"
        assert "Za\u017c\u00f3\u0142\u0107 one two three" in client.text()
    assert codex_acp.model is not None
    assert codex_acp.model.requests


def test_codex_runs_a_command_only_after_it_was_allowed(codex_acp: RealAgent) -> None:
    with LineClient(codex_acp.argv, cwd=codex_acp.cwd, env=codex_acp.env) as client:
        session_id = open_session(client, codex_acp)
        prompt = begin_prompt(client, session_id, "run: printf written > out.txt")
        request = client.wait_for(lambda message: message.get("method") == "session/request_permission")
        assert isinstance(request["id"], str)
        assert not (codex_acp.cwd / "out.txt").exists()
        answering(client, "allow_once")(request)
        assert client.result(prompt)["stopReason"] == "end_turn"
        assert "The command ended." in client.text()
    assert (codex_acp.cwd / "out.txt").read_text() == "written"


def test_codex_does_not_run_a_command_that_was_rejected(codex_acp: RealAgent) -> None:
    with LineClient(codex_acp.argv, cwd=codex_acp.cwd, env=codex_acp.env) as client:
        session_id = open_session(client, codex_acp)
        prompt = begin_prompt(client, session_id, "run: printf written > out.txt")
        client.result(prompt, on_message=answering(client, "reject_once"))
    assert not (codex_acp.cwd / "out.txt").exists()


def test_codex_ends_a_cancelled_turn_as_cancelled(codex_acp: RealAgent) -> None:
    with LineClient(codex_acp.argv, cwd=codex_acp.cwd, env=codex_acp.env) as client:
        session_id = open_session(client, codex_acp)
        prompt = begin_prompt(client, session_id, "slowly: " + "word " * 400)
        client.wait_for(lambda message: is_text(message) and "word" in client.text())
        client.notify("session/cancel", {"sessionId": session_id})
        assert client.result(prompt)["stopReason"] == "cancelled"
