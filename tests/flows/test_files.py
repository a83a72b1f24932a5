"""Agents read and write the user's files: over the wire, from buffers, on the disk."""

import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sidecar.session.interaction import PermissionRequest
from sidecar.workspace.files import FileService
from sidecar.workspace.files_rules import FileRules
from tests.flows.files_editor import FilesEditor
from tests.flows.harness import Bench, bench
from tests.peers.kiro_v3 import kiro_v3
from tests.peers.memory import until
from tests.peers.plain import PlainAgent
from tests.peers.scripted import Message, ScriptedAgent

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def files_bench(
    folder: Path, editor: FilesEditor | None = None, agent: ScriptedAgent | None = None, rules: FileRules | None = None
) -> AsyncGenerator[Bench, None]:
    """Yield a bench whose front serves files."""
    protocol = "acp" if isinstance(agent, PlainAgent) else "kiro-v3"
    async with bench(agent or kiro_v3(), folder, protocol=protocol) as b:
        b.workspace.hooks.files = FileService(b.workspace.spawn, editor, rules or FileRules(own=list))
        yield b


async def asked(b: Bench, method: str, **params: Any) -> Message:
    """Have the agent ask for something and return the reply."""
    wanted = b.agent.ask(method, params).request_id
    await until(b.agent, lambda agent: any("method" not in m and m.get("id") == wanted for m in agent.received))
    return next(m for m in b.agent.received if "method" not in m and m.get("id") == wanted)


async def test_the_capability_is_declared_only_by_fronts_that_serve_files(tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path) as b:
        await b.new()
        declared = b.agent.calls("initialize")[0]["params"]["clientCapabilities"]["fs"]
        assert declared == {"readTextFile": False, "writeTextFile": False}
    async with files_bench(tmp_path) as b:
        await b.new()
        declared = b.agent.calls("initialize")[0]["params"]["clientCapabilities"]["fs"]
        assert declared == {"readTextFile": True, "writeTextFile": True}


async def test_a_write_turn_reads_what_is_not_there_and_makes_the_file_on_the_disk(tmp_path: Path) -> None:
    async with files_bench(tmp_path) as b:
        actor = await b.new()
        turn_id = await b.prompt(actor, "write notes")
        pending = await b.question()
        await b.call("pending.answer", id=pending.id, optionId="accept")
        assert (await b.turn(actor, turn_id))["endedAs"] == "end_turn"
        assert (tmp_path / "notes.txt").read_bytes() == b"a note\n"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt"]
        errors = [m["error"] for m in b.agent.received if "error" in m]
        assert [error["code"] for error in errors] == [-32002]
        assert "Resource not found" in errors[0]["message"]


async def test_a_write_turn_adds_to_the_unsaved_text_of_an_open_file(tmp_path: Path) -> None:
    notes, editor = tmp_path / "notes.txt", FilesEditor()
    notes.write_bytes(b"saved\r\n")
    editor.open(notes)
    editor.type(notes, "unsaved\r\n")
    async with files_bench(tmp_path, editor) as b:
        actor = await b.new()
        turn_id = await b.prompt(actor, "write notes")
        pending = await b.question()
        assert isinstance(pending.body, PermissionRequest)
        assert (pending.body.diff or {})["oldText"] == "unsaved\r\n"
        await b.call("pending.answer", id=pending.id, optionId="accept")
        await b.turn(actor, turn_id)
        assert editor.buffers[notes.as_uri()].text == "unsaved\r\na note\r\n"
        assert notes.read_bytes() == b"unsaved\r\na note\r\n"
        editor.undo(notes)
        assert editor.buffers[notes.as_uri()].text == "unsaved\r\n"


READS: list[tuple[dict[str, Any], str]] = [
    ({}, "one\ntwo\nthree\n"),
    ({"line": 0, "limit": 2001}, "one\ntwo\nthree\n"),
    ({"line": 1, "limit": 1}, "one\n"),
    ({"line": 2}, "two\nthree\n"),
    ({"line": 3, "limit": 5}, "three\n"),
    ({"line": 99}, ""),
    ({"limit": 0}, ""),
    ({"line": None, "limit": None}, "one\ntwo\nthree\n"),
    ({"line": 2.0, "limit": 1.0}, "two\n"),
]


async def test_lines_are_counted_from_one_and_zero_is_tolerated(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\ntwo\nthree\n")
    async with files_bench(tmp_path) as b:
        session = (await b.new()).identity.agent_session_id
        for params, content in READS:
            reply = await asked(b, "fs/read_text_file", sessionId=session, path=str(tmp_path / "f"), **params)
            assert reply["result"] == {"content": content}, params


async def test_each_bad_request_ends_in_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "pic.png").write_bytes(b"\x89PNG\0")
    outside = tmp_path.parent / f"{tmp_path.name}-evil"
    outside.mkdir()
    (outside / "x").write_text("secret")
    (tmp_path / "door").symlink_to(outside)
    read: list[tuple[dict[str, Any], str]] = [
        ({"path": str(tmp_path / "absent")}, "does not exist"),
        ({"path": str(tmp_path / "folder")}, "folder"),
        ({"path": str(tmp_path / "pic.png")}, "binary"),
        ({"path": str(outside / "x")}, "outside"),
        ({"path": "../x"}, "outside"),
        ({"path": str(tmp_path / "door" / "x")}, "outside"),
        ({"path": (outside / "x").as_uri()}, "outside"),
        ({"path": f"file://{tmp_path}/%2e%2e/{outside.name}/x"}, "outside"),
        ({"path": "a\0b"}, "NUL"),
        ({"path": 7}, "string"),
        ({}, "string"),
        ({"path": "f", "line": -1}, "whole number"),
        ({"path": "f", "limit": True}, "whole number"),
        ({"path": "f", "line": "1"}, "whole number"),
        ({"path": "f", "sessionId": "nobody"}, "no session"),
    ]
    async with files_bench(tmp_path) as b:
        session = (await b.new()).identity.agent_session_id
        for params, words in read:
            reply = await asked(b, "fs/read_text_file", **{"sessionId": session, **params})
            assert words in reply["error"]["message"], params
            assert "secret" not in str(reply)
        for path in (str(outside / "x"), "../x", str(tmp_path / "door" / "x"), str(tmp_path / "door" / "new")):
            reply = await asked(b, "fs/write_text_file", sessionId=session, path=path, content="pwned")
            assert "outside" in reply["error"]["message"]
        reply = await asked(b, "fs/write_text_file", sessionId=session, path="f", content=None)
        assert "content" in reply["error"]["message"]
        reply = await asked(b, "fs/write_text_file", sessionId=session, path=str(tmp_path / "f"), content="half \ud800")
        assert "half a character" in reply["error"]["message"]
        assert (outside / "x").read_text() == "secret"
        assert [path.name for path in outside.iterdir()] == ["x"]
        assert not (tmp_path / "f").exists()


async def test_an_agent_that_gives_up_on_any_error_reads_a_missing_file_as_empty(tmp_path: Path) -> None:
    agent = PlainAgent()
    async with files_bench(tmp_path, agent=agent) as b:
        session = (await b.new()).identity.agent_session_id
        reply = await asked(b, "fs/read_text_file", sessionId=session, path=str(tmp_path / "new"))
        assert reply["error"]["code"] == -32002

    class Gemini(PlainAgent):
        def reply(self, request: Message, result: Any) -> None:
            named = {"agentInfo": {"name": "gemini-cli", "title": "Gemini CLI"}} if request.get("method") == "initialize" else {}
            super().reply(request, {**result, **named})

    async with files_bench(tmp_path, agent=Gemini()) as b:
        session = (await b.new()).identity.agent_session_id
        reply = await asked(b, "fs/read_text_file", sessionId=session, path=str(tmp_path / "new"))
        assert reply["result"] == {"content": ""}
        reply = await asked(b, "fs/read_text_file", sessionId=session, path=str(tmp_path.parent / "other"))
        assert "error" in reply


async def test_a_request_the_agent_withdraws_is_answered_and_its_question_goes(tmp_path: Path) -> None:
    async with files_bench(tmp_path) as b:
        session = (await b.new()).identity.agent_session_id
        path = str(tmp_path / ".vscode" / "tasks.json")
        wanted = b.agent.ask("fs/write_text_file", {"sessionId": session, "path": path, "content": "{}"}).request_id
        await b.question()
        b.agent.notify("$/cancel_request", {"requestId": wanted})
        await until(b.agent, lambda agent: any("method" not in m and m.get("id") == wanted for m in agent.received))
        reply = next(m for m in b.agent.received if "method" not in m and m.get("id") == wanted)
        assert reply["error"]["code"] == -32800
        assert not b.workspace.broker.pending()
        assert not (tmp_path / ".vscode").exists()


async def test_o26_a_protected_file_is_written_only_after_the_user_said_so_each_time(tmp_path: Path) -> None:
    async with files_bench(tmp_path) as b:
        session = (await b.new()).identity.agent_session_id
        hook = tmp_path / ".git" / "hooks" / "pre-commit"
        hook.parent.mkdir(parents=True)
        for answer, written in (("reject", False), ("allow-once", True), ("reject", True)):
            params = {"sessionId": session, "path": str(hook), "content": f"echo {answer}\n"}
            wanted = b.agent.ask("fs/write_text_file", params).request_id
            pending = await b.question()
            shown = pending.to_json()
            assert ".git, which decides what is run" in shown["title"]
            assert shown["path"] == str(hook)
            assert [option["kind"] for option in shown["options"]] == ["reject_once", "allow_once"]
            assert not hook.exists() or hook.read_text() == "echo allow-once\n"
            await b.call("pending.answer", id=pending.id, optionId=answer)
            await until(
                b.agent, lambda agent, wanted=wanted: any(m.get("id") == wanted and "method" not in m for m in agent.received)
            )
            reply = next(m for m in b.agent.received if m.get("id") == wanted and "method" not in m)
            assert ("error" in reply) == (answer == "reject")
            assert hook.exists() == written
        assert hook.read_text() == "echo allow-once\n"


async def test_a_protected_write_nobody_decided_on_is_refused_when_the_turn_is_cancelled(tmp_path: Path) -> None:
    async with files_bench(tmp_path) as b:
        actor = await b.new()
        await b.prompt(actor, "shell ls")
        await b.question()
        params = {"sessionId": actor.identity.agent_session_id, "path": str(tmp_path / ".envrc"), "content": "x"}
        wanted = b.agent.ask("fs/write_text_file", params).request_id
        await b.question(2)
        await b.call("cancel", sessionId=actor.identity.session_id)
        await until(b.agent, lambda agent: any(m.get("id") == wanted and "method" not in m for m in agent.received))
        reply = next(m for m in b.agent.received if m.get("id") == wanted and "method" not in m)
        assert "not able to decide" in reply["error"]["message"]
        assert not (tmp_path / ".envrc").exists()


async def test_the_sidecars_own_files_are_refused_without_a_question(tmp_path: Path) -> None:
    own = tmp_path / "state"
    own.mkdir()
    (own / "trust.json").write_text("{}")
    async with files_bench(tmp_path, rules=FileRules(own=lambda: [str(own)])) as b:
        session = (await b.new()).identity.agent_session_id
        for method, more in (("fs/read_text_file", {}), ("fs/write_text_file", {"content": "pwned"})):
            reply = await asked(b, method, sessionId=session, path=str(own / "trust.json"), **more)
            assert "sidecar itself" in reply["error"]["message"]
        assert not b.workspace.broker.pending()
        assert (own / "trust.json").read_text() == "{}"


async def test_a_closed_file_keeps_its_form_and_mode(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_bytes("\ufeffecho ä\r\nexit 0".encode("utf-16-le"))
    script.chmod(0o755)
    async with files_bench(tmp_path) as b:
        session = (await b.new()).identity.agent_session_id
        content = (await asked(b, "fs/read_text_file", sessionId=session, path=str(script)))["result"]["content"]
        assert content == "echo ä\r\nexit 0"
        new = "echo \U0001f600\nexit 0\n"
        assert (await asked(b, "fs/write_text_file", sessionId=session, path=str(script), content=new))["result"] == {}
        assert script.read_bytes() == "\ufeffecho \U0001f600\r\nexit 0".encode("utf-16-le")
        assert stat.S_IMODE(script.stat().st_mode) == 0o755


async def test_what_somebody_else_wrote_to_a_closed_file_since_the_agent_read_it_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("one\ntwo\nthree\n")
    async with files_bench(tmp_path) as b:
        session = (await b.new()).identity.agent_session_id
        await asked(b, "fs/read_text_file", sessionId=session, path=str(path))
        path.write_text("one\ntwo\nTHREE\n")
        reply = await asked(b, "fs/write_text_file", sessionId=session, path=str(path), content="ONE\ntwo\nthree\n")
        assert reply["result"] == {}
        assert path.read_text() == "ONE\ntwo\nTHREE\n"
        reply = await asked(b, "fs/write_text_file", sessionId=session, path=str(path), content="ONE\ntwo\n3\n")
        assert "3: THREE" in reply["error"]["message"]
        assert "Read it again" in reply["error"]["message"]
        assert path.read_text() == "ONE\ntwo\nTHREE\n"
        await asked(b, "fs/read_text_file", sessionId=session, path=str(path))
        reply = await asked(b, "fs/write_text_file", sessionId=session, path=str(path), content="ONE\ntwo\n3\n")
        assert path.read_text() == "ONE\ntwo\n3\n"


async def test_writes_to_one_file_happen_in_the_order_they_were_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "f"
    async with files_bench(tmp_path) as b:
        session = (await b.new()).identity.agent_session_id
        for number in range(8):
            b.agent.ask("fs/write_text_file", {"sessionId": session, "path": str(path), "content": f"{number}\n"})
        await until(b.agent, lambda agent: sum("result" in m and m["result"] == {} for m in agent.received) >= 8)
        assert path.read_text() == "7\n"


async def test_whoever_watches_is_told_of_each_change_with_what_stood_there_before(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("old\n")
    async with files_bench(tmp_path) as b:
        actor = await b.new()
        service = b.workspace.hooks.files
        assert isinstance(service, FileService)
        seen: list[tuple[str, str | None, str]] = []
        stop = service.observe(lambda w: seen.append((w.path, w.before.text if w.before else None, w.after.text)))
        await service.write_text(actor, str(path), "old\n")
        await service.write_text(actor, str(path), "new\n")
        await service.write_text(actor, str(tmp_path / "g"), "made\n")
        stop()
        await service.write_text(actor, str(path), "newer\n")
        assert seen == [(str(path.resolve()), "old\n", "new\n"), (str((tmp_path / "g").resolve()), None, "made\n")]
