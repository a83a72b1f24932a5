"""The transcript as an editor without a plugin sees it: real sidecar, real demo agent, a user who types meanwhile."""

import re
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.peers.lsp_client import LspClient
from tests.process.editor_world import NOISE, START_SECONDS, World
from tests.process.transcript_editor import HEADING, Habit, TypingEditor

pytestmark = pytest.mark.process

APPLY: dict[str, Any] = {"workspace": {"applyEdit": True}}
HELIX: dict[str, Any] = {"name": "helix", "version": "25.01.1"}
TOLD = (*NOISE, "window/showMessage", "textDocument/publishDiagnostics", "sidecar/operation/finished")
TYPING_SECONDS = 0.08


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


class Desk:
    """A sidecar in an editor, with a transcript opened."""

    def __init__(self, world: World, habit: Habit, seed: int = 1, *, pace: str = "5", **capabilities: Any) -> None:
        self.world = world
        env = {"SIDECAR_DEMO_PACE_MS": pace, "SIDECAR_DEMO_STATE": str(world.root / "demo")}
        self.client = world.start(ignore=TOLD, env=env)
        self.capabilities = {**APPLY, **capabilities}
        self.client.initialize(self.capabilities, **world.options("demo"))
        self.editor = TypingEditor(self.client, habit, seed)

    def open(self) -> TypingEditor:
        result = self.client.result("sidecar/transcript/open", within=START_SECONDS)
        self.editor.open(result["uri"])
        return self.editor

    def messages(self) -> list[str]:
        with self.client.inbox.changed:
            return [m["params"]["message"] for m in self.client.inbox.told if m["method"] == "window/showMessage"]


@pytest.fixture
def desk(world: World) -> Generator[Callable[..., Desk]]:
    desks: list[Desk] = []

    def make(habit: Habit = Habit.ORDERLY, seed: int = 1, **more: Any) -> Desk:
        desks.append(Desk(world, habit, seed, **more))
        return desks[-1]

    yield make
    for made in desks:
        made.client.kill()


def idle(client: LspClient) -> Callable[[], bool]:
    """Look whether no turn runs, at most ten times a second."""
    looked = 0.0

    def is_idle() -> bool:
        nonlocal looked
        if time.monotonic() - looked < 0.1:
            return False
        looked = time.monotonic()
        return all(session["state"] == "idle" for session in client.result("sidecar/status")["sessions"])

    return is_idle


@pytest.mark.parametrize("habit", Habit)
@pytest.mark.parametrize("seed", [1, 2])
def test_what_the_user_types_during_the_stream_and_the_agents_lines_both_stay_whole(
    desk: Callable[..., Desk], habit: Habit, seed: int
) -> None:
    editor = desk(habit, seed).open()
    editor.type("long")
    sent = editor.command("transcript.send")["result"]
    assert sent["state"] in {"started", "queued"}, sent
    typed, last = "", 0.0

    def user() -> None:
        nonlocal typed, last
        if time.monotonic() - last > TYPING_SECONDS and len(typed) < 200:
            last = time.monotonic()
            word = editor.random.choice(["one ", "zwei ", "três ", "🚀 ", "\n"])
            editor.type(word)
            typed += word

    editor.live(lambda: "Paragraph 60" in editor.text and len(typed) >= 200, within=60, user=user)
    numbers = [int(number) for number in re.findall(r"^Paragraph (\d+):", editor.text, re.MULTILINE)]
    assert numbers == list(range(1, 61))
    # Where the editor changed the line before the sent text was taken out, that text stays too: nothing typed is ever lost.
    assert editor.composer.strip("\n ").removeprefix("long") == typed.strip("\n ")
    assert editor.text.count(HEADING) == 1
    assert all(line < 0 for line in editor.edited_lines[2:]), "an edit went into the composer while the user typed there"


def test_a_quick_stream_makes_at_most_four_edits_a_second(desk: Callable[..., Desk]) -> None:
    editor = desk(pace="1").open()
    editor.type("long")
    editor.command("transcript.send")
    editor.live(lambda: "Paragraph 60" in editor.text)
    gaps = [later - earlier for earlier, later in zip(editor.edits, editor.edits[1:], strict=False)]
    assert min(gaps) > 0.2, gaps
