"""Addresses under attack, from the agent's frame over the editor's operations to the reply on the wire (O01 to O09, O30)."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.flows.asking import reply_to, times_answered, turn
from tests.flows.harness import Bench, bench
from tests.peers.kiro_v3 import kiro_v3
from tests.peers.memory import until
from tests.peers.plain import PlainAgent
from tests.peers.scripted import ReplyTo

pytestmark = pytest.mark.anyio

REFUSED: list[tuple[str, str]] = [
    *((f"{scheme}:secret-part//x", scheme) for scheme in ("javascript", "data", "vbscript", "blob", "ms-msdt", "vscode")),
    *((f"{scheme}://secret-part/x", scheme) for scheme in ("file", "ftp", "ssh", "smb")),
    ("JavaScript:alert('secret-part')", "javascript"),
    ("FILE:///secret-part", "file"),
    (" https://secret-part.example/", ""),
    ("-secret-part", ""),
    ("--remote-debugging-port=9222", ""),
    ("-new-window https://secret-part.example", ""),
    ("https://as.example/$(touch secret-part)?a=`id`&b=1|c;d&e=%action", ""),
    ("https://as.example/`secret-part`", ""),
    ("http://secret-part.example/", "http"),
    ("https://login.microsoftonline.com@evil.example/secret-part", "https"),
    ("https://login.microsoftonline.com:secret-part@evil.example/a", "https"),
    *((f"https://as.example/{bad}secret-part", "") for bad in ("\n", "\t", "\0", "\x1b", "\u202e", "\u200b", "\\")),
    ("https:secret-part.example", "https"),
    ("", ""),
]


def want(b: Bench, url: Any, **more: Any) -> ReplyTo:
    return b.agent.ask("_kiro/openExternalUrl", {"url": url, **more})


@pytest.mark.parametrize(("url", "scheme"), REFUSED)
async def test_an_address_that_is_not_allowed_is_refused_before_anybody_is_asked(url: str, scheme: str, tmp_path: Path) -> None:
    """O01 to O05 and O07: the reason names the scheme and no other part of the address."""
    async with bench(kiro_v3(), tmp_path) as b:
        await b.new()
        reply = await reply_to(b, want(b, url))
        assert "error" in reply
        assert not b.workspace.broker.pending()
        assert not b.opened_urls
        told = [f"{title} {description}" for _, severity, title, description in b.notices if severity == "warning"]
        assert len(told) == 1
        for text in (*told, str(reply)):
            assert "secret-part" not in text
            assert "microsoftonline" not in text
            assert scheme in text


@pytest.mark.parametrize("url", [7, None, ["https://a.example"], {"url": "https://a.example"}])
async def test_an_address_that_is_no_text_is_refused(url: Any, tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path) as b:
        await b.new()
        assert "error" in await reply_to(b, want(b, url))
        assert not b.workspace.broker.pending()


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080/cb", "http://[::1]:8080/cb", "http://localhost:8080/cb"])
async def test_an_unencrypted_address_of_this_machine_is_asked_with_a_visible_note(url: str, tmp_path: Path) -> None:
    """O04."""
    async with bench(kiro_v3(), tmp_path) as b:
        await b.new()
        want(b, url)
        shown = (await b.question()).to_json()
        assert shown["unencrypted"] is True
        assert any("not encrypted" in warning for warning in shown["warnings"])


async def test_a_look_alike_host_is_shown_in_punycode_with_a_warning_and_so_opened(tmp_path: Path) -> None:
    """O06: the Cyrillic letter is visible before the choice."""
    async with bench(kiro_v3(), tmp_path) as b:
        await b.new()
        asked = want(b, "https://p\u0430ypal.com/login?state=x")
        pending = await b.question()
        shown = pending.to_json()
        assert shown["host"] == "xn--pypal-4ve.com"
        assert "xn--pypal-4ve.com" in shown["title"]
        assert any("imitate" in warning for warning in shown["warnings"])
        assert json.dumps(shown).isascii()
        await b.call("pending.answer", id=pending.id, action="open")
        assert (await reply_to(b, asked))["result"] == {"success": True}
        assert b.opened_urls == ["https://xn--pypal-4ve.com/login?state=x"]


async def test_a_flood_of_addresses_opens_nothing_and_leaves_three_waiting(tmp_path: Path) -> None:
    """O08: 200 in one breath, nobody's act; the editor's operations are answered within a second."""
    async with bench(kiro_v3(), tmp_path) as b:
        actor = await b.new()
        await turn(b, actor)
        session = actor.identity.agent_session_id
        asked = [want(b, f"https://as.example/{number}", sessionId=session) for number in range(200)]
        before = time.monotonic()
        await b.call("status")
        assert time.monotonic() - before < 1
        await until(b.agent, lambda agent: len(agent.replies()) >= 197)
        assert len(b.workspace.broker.pending()) == 3
        assert not b.opened_urls
        refused = [b.agent.replies()[each.request_id] for each in asked if each.request_id in b.agent.replies()]
        assert all(reply.get("result") == {"success": False} for reply in refused)
        await b.call("session.close", sessionId=actor.identity.session_id)
        for each in asked:
            await reply_to(b, each)
            assert times_answered(b, each) == 1
        assert not b.opened_urls


async def test_addresses_of_other_sessions_share_no_limit_with_this_one(tmp_path: Path) -> None:
    """O08: a noisy session does not silence another."""
    async with bench(kiro_v3(), tmp_path) as b:
        noisy, quiet = await b.new(), await b.new()
        for number in range(10):
            want(b, f"https://as.example/{number}", sessionId=noisy.identity.agent_session_id)
        want(b, "https://quiet.example/", sessionId=quiet.identity.agent_session_id)
        await b.until(lambda: any(p.to_json()["host"] == "quiet.example" for p in b.workspace.broker.pending()))


async def test_what_could_not_be_opened_is_never_reported_as_opened_and_can_be_copied(tmp_path: Path) -> None:
    """O09: no display, no opener, an opener that fails."""
    async with bench(kiro_v3(), tmp_path) as b:
        await b.new()

        async def fails(_: Any) -> bool:
            return False

        b.workspace.hooks.open_url = fails
        asked = want(b, "https://as.example/a?state=x")
        pending = await b.question()
        assert (await b.call("pending.get", id=pending.id))["url"] == "https://as.example/a?state=x"
        await b.call("pending.answer", id=pending.id, action="open")
        assert (await reply_to(b, asked))["result"] == {"success": False}


async def test_an_opener_that_hangs_blocks_nobody_and_is_not_reported(tmp_path: Path) -> None:
    """O09: other questions are answered meanwhile, and a withdrawn request is answered at once."""
    async with bench(kiro_v3(), tmp_path) as b:
        actor = await b.new()
        started = anyio.Event()

        async def hangs(_: Any) -> bool:
            started.set()
            await anyio.sleep_forever()
            return True

        b.workspace.hooks.open_url = hangs
        asked = want(b, "https://as.example/a")
        pending = await b.question()
        await b.call("pending.answer", id=pending.id, action="open")
        with anyio.fail_after(5):
            await started.wait()
        assert (await b.call("pending.answer", id=pending.id, action="open"))["accepted"] is False
        assert "done" in str(await b.run(actor, "answer"))
        assert not times_answered(b, asked)
        b.agent.notify("$/cancel_request", {"requestId": asked.request_id})
        assert (await reply_to(b, asked))["result"] == {"success": False}


async def test_an_opener_that_breaks_takes_nothing_with_it(tmp_path: Path) -> None:
    """O09: whatever goes wrong while opening, the agent gets the truth and the next prompt works."""
    async with bench(kiro_v3(), tmp_path) as b:
        actor = await b.new()

        async def breaks(_: Any) -> bool:
            raise OSError(28, "No space left on device")

        b.workspace.hooks.open_url = breaks
        asked = want(b, "https://as.example/a")
        pending = await b.question()
        await b.call("pending.answer", id=pending.id, action="open")
        assert (await reply_to(b, asked))["result"] == {"success": False}
        assert "done" in str(await b.run(actor, "answer"))


@pytest.mark.parametrize(("action", "reply"), [("open", "accept"), ("copy", "accept"), ("decline", "decline")])
async def test_an_address_of_an_elicitation_passes_the_same_gate(action: str, reply: str, tmp_path: Path) -> None:
    """O01 and O10 for standard ACP: shown without its query, opened byte for byte, answered truthfully."""
    async with bench(PlainAgent(), tmp_path, protocol="acp") as b:
        actor = await b.new()
        turn_id = await b.prompt(actor, "url")
        pending = await b.question()
        shown = pending.to_json()
        assert shown["host"] == "as.example"
        assert "secret" not in str(shown)
        assert not b.opened_urls
        await b.call("pending.answer", id=pending.id, action=action)
        assert f"Got {reply}." in str(await b.turn(actor, turn_id))
        assert b.opened_urls == (["https://as.example/start?state=secret"] if action == "open" else [])


async def test_a_bad_address_of_an_elicitation_is_refused(tmp_path: Path) -> None:
    async with bench(PlainAgent(), tmp_path, protocol="acp") as b:
        actor = await b.new()
        for method, params in (
            ("elicitation/create", {"mode": "url", "url": "javascript:x", "message": "m", "elicitationId": "e"}),
            ("_kiro/mcp/elicitation", {"toolCallId": "t", "elicitation": {"url": "file:///etc/passwd", "message": "m"}}),
        ):
            asked = b.agent.ask(method, {"sessionId": actor.identity.agent_session_id, **params})
            assert "error" in await reply_to(b, asked)
        assert not b.workspace.broker.pending()


async def test_without_the_users_order_no_token_command_runs_and_no_token_is_given(tmp_path: Path) -> None:
    """O30: the CLI owns the sign-in; nothing is looked up and nobody is asked."""
    ran = tmp_path / "ran"
    command = [sys.executable, "-c", f"open({str(ran)!r}, 'w')"]
    agent = kiro_v3(token_before_initialize=True)
    async with bench(agent, tmp_path, auth="cli", token_command=command) as b:
        actor = await b.new()
        await b.run(actor, "token")
        assert agent.token_reply is not None
        assert agent.token_reply["error"]["code"] == -32601
        assert not b.workspace.broker.pending()
        assert not ran.exists()
