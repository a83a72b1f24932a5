"""A secret in every slot, the whole job at the most verbose level, crashes included: none of them stands anywhere (O10, O31)."""

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.peers import lsp_client
from tests.peers.lsp_client import Inbox, LspClient
from tests.process.editor_world import NOISE, PLUGIN, SHOW_DOCUMENT, START_SECONDS, turn_of, waiting
from tests.process.secrets_planted import Planted

pytestmark = [pytest.mark.process, pytest.mark.timeout(180)]

URL_SLOTS = ("open", "elicitation")


class RecordingInbox(Inbox):
    """Keeps every body the server wrote."""

    def __init__(self, stream: Any) -> None:
        self.bodies: list[bytes] = []
        super().__init__(stream)

    def _receive(self, body: bytes) -> None:
        self.bodies.append(body)
        super()._receive(body)


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planted:
    monkeypatch.setattr(lsp_client, "Inbox", RecordingInbox)
    made = Planted(tmp_path)
    kept = subprocess.run(
        [sys.executable, "-m", "sidecar", "config", "set-secret", "docs"],
        input=made.values["kept_header"].encode(),
        env=made.world.environment(),
        capture_output=True,
        check=False,
    )
    assert kept.returncode == 0, kept.stderr
    assert not made.found_in("set-secret", kept.stdout + kept.stderr)
    return made


class Editor:
    """An editor at its most talkative, which notes where it may see an address: in ``pending.get`` and when it opens one."""

    def __init__(self, planted: Planted, *module: str) -> None:
        world = planted.world
        words = ["-m", *module, "--log-level", "debug", "--log-file", str(world.root / "debug.log")]
        self.client = LspClient(
            [sys.executable, *words],
            env=world.environment(**planted.environment),
            cwd=str(world.root),
            ignore=[*NOISE, "window/showMessage", "$/logTrace", "telemetry/event", "sidecar/operation/finished"],
        )
        self._may_show: set[Any] = set()
        options = world.options()
        self.client.initialize(
            {**PLUGIN, **SHOW_DOCUMENT}, **{**options, "initializationOptions": planted.options()}, trace="verbose"
        )
        self.client.notify("$/setTrace", {"value": "verbose"})

    def call(self, operation: str, **params: Any) -> dict[str, Any]:
        return self.client.call(f"sidecar/{operation}", params, within=START_SECONDS)

    def full(self, question: str) -> dict[str, Any]:
        request = self.client.request("sidecar/pending/get", {"id": question})
        self._may_show.add(request)
        found: dict[str, Any] = self.client.reply(request)["result"]
        return found

    def decline_trust(self) -> None:
        """The settings of the editor run and reach something: the user says no."""
        for question in self.client.result("sidecar/pending/list")["pending"]:
            if question["kind"] == "trust":
                self.call("pending/answer", id=question["id"], action="decline")

    def question(self, kind: str) -> dict[str, Any]:
        found = waiting(self.client)[0]
        assert found["kind"] == kind
        return found

    def frames(self) -> bytes:
        """Return what was written to the editor, less where it is to see an address."""
        assert isinstance(self.client.inbox, RecordingInbox)
        kept: list[bytes] = []
        for body in self.client.inbox.bodies:
            message = json.loads(body)
            shows = message["method"] == "window/showDocument" if "method" in message else message["id"] in self._may_show
            if not shows:
                kept.append(body)
        return b"\n".join(kept)


def searched(planted: Planted, editor: Editor) -> list[str]:
    """Search every channel; the strict client's own check of unread messages is beside the point here."""
    return [
        *planted.found_in("frames to the editor", editor.frames()),
        *planted.found_in("stderr", editor.client.stderr),
        *planted.found_on_disk(),
    ]


def work(editor: Editor, planted: Planted) -> None:
    """Use everything that touches a secret once."""
    client = editor.client
    trust = client.request("sidecar/session/new", {"agent": "other"})
    client.reply(trust, within=START_SECONDS)
    editor.decline_trust()
    made = editor.call("session/new", agent="kiro")
    session = made["result"]["sessionId"]
    editor.call("session/watch", sessionId=session)
    prompts: Sequence[tuple[str, Callable[[], None] | None]] = (
        ("answer hello", None),
        ("token", None),
        ("url", lambda: open_it(editor, planted)),
        ("elicit", lambda: decline_it(editor)),
    )
    for text, act in prompts:
        turn = editor.call("prompt", sessionId=session, text=text)["result"]["turnId"]
        if act is not None:
            act()
        ended(editor, session, turn)
    authenticating = client.request("sidecar/mcp/authenticate", {"server": "docs", "sessionId": session})
    decline_it(editor)
    client.reply(authenticating, within=START_SECONDS)
    for operation in ("status", "session/state", "session/list", "mcp/status", "pending/list", "agent/list"):
        editor.call(operation, **({"sessionId": session} if operation in {"session/state", "mcp/status"} else {}))
    editor.call("session/export", sessionId=session, format="json")
    turn = editor.call("prompt", sessionId=session, text="spill")["result"]["turnId"]
    ended(editor, session, turn)


def open_it(editor: Editor, planted: Planted) -> None:
    question = editor.question("openUrl")
    assert editor.full(question["id"])["url"] == planted.urls["open"]
    editor.call("pending/answer", id=question["id"], action="open")
    asked = editor.client.asked("window/showDocument", within=START_SECONDS)
    assert asked["params"]["uri"] == planted.urls["open"]
    editor.client.answer(asked, {"success": True})


def decline_it(editor: Editor) -> None:
    question = editor.question("openUrl")
    editor.call("pending/answer", id=question["id"], action="decline")


def ended(editor: Editor, session: str, turn: str) -> None:
    turn_of(editor.client, turn, sessionId=session)


def test_no_secret_leaves_its_slot_in_a_whole_session(planted: Planted) -> None:
    editor = Editor(planted, "sidecar")
    try:
        work(editor, planted)
        assert editor.client.shut_down() == 0
        assert searched(planted, editor) + planted.found_in_children() == []
    finally:
        editor.client.kill()


def test_no_secret_leaves_its_slot_when_every_handler_breaks_with_it_in_hand(planted: Planted) -> None:
    editor = Editor(planted, "tests.process.crashing_sidecar")
    client = editor.client
    try:
        client.reply(client.request("sidecar/session/new", {"agent": "other"}), within=START_SECONDS)
        editor.decline_trust()
        session = editor.call("session/new", agent="kiro")["result"]["sessionId"]
        for text in ("answer hello", "token", "elicit"):
            turn = editor.call("prompt", sessionId=session, text=text)["result"]["turnId"]
            ended(editor, session, turn)
        turn = editor.call("prompt", sessionId=session, text="url")["result"]["turnId"]
        question = editor.question("openUrl")
        editor.call("pending/answer", id=question["id"], action="open")
        ended(editor, session, turn)
        second = planted.world.root / "second"
        second.mkdir()
        assert "error" in editor.call("session/new", agent="kiro", workspace=str(second))
        client.request("sidecar/prompt", {"sessionId": session, "text": "die"})
        assert client.wait(within=START_SECONDS) == 1
        log = (planted.world.root / "debug.log").read_text(encoding="utf-8")
        for raised in ("ValueError", "KeyError", "RuntimeError", "OSError", "LookupError", "ArithmeticError"):
            assert raised in log, f"{raised} was not raised"
        assert searched(planted, editor) == []
    finally:
        client.kill()


@pytest.mark.parametrize("prompt", ["answer hello", "url", "token", "elicit", "spill"])
def test_no_secret_leaves_its_slot_in_a_run(prompt: str, planted: Planted) -> None:
    world = planted.world
    words = ["--log-level", "debug", "--log-file", str(world.root / "debug.log"), "run", "--agent", "kiro", "--output", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "sidecar", *words, "--record", str(world.root / "record"), "--cwd", str(world.workspace), prompt],
        env=world.environment(**planted.environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=START_SECONDS,
        check=False,
    )
    assert done.stdout, done.stderr
    hits = planted.found_in("NDJSON", done.stdout) + planted.found_in("stderr", done.stderr) + planted.found_on_disk()
    assert hits == []


def test_the_search_finds_a_secret_in_every_dress(planted: Planted) -> None:
    """What would find nothing proves nothing."""
    for slot, value in planted.values.items():
        encoded = base64.b64encode(b"user:" + value.encode())
        for dress in (value.encode(), quote(value, safe="").encode(), encoded, value[5:14].encode()):
            assert any(hit.startswith(slot) for hit in planted.found_in("here", b"before " + dress + b" after"))
