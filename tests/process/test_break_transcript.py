"""What the user typed is never lost to an editor that stops waiting."""

import sys
from pathlib import Path

import pytest

from tests.process.editor_world import START_SECONDS, World
from tests.process.test_transcript import APPLY, TOLD
from tests.process.transcript_editor import Habit, TypingEditor

pytestmark = pytest.mark.process


def test_a_prompt_whose_sending_is_cancelled_before_the_agent_is_there_comes_back(tmp_path: Path) -> None:
    mute = {"protocol": "acp", "command": [sys.executable, "-c", "import time; time.sleep(60)"]}
    client = World(tmp_path, {"mute": mute}).start(ignore=TOLD)
    try:
        client.initialize(
            APPLY, workspaceFolders=[{"uri": tmp_path.as_uri(), "name": "ws"}], initializationOptions={"agent": "mute"}
        )
        editor = TypingEditor(client, Habit.ORDERLY, 1)
        editor.open(client.result("sidecar/transcript/open", within=START_SECONDS)["uri"])
        editor.type("my own words\n")
        request = client.request("sidecar/transcript/send", {})
        editor.live(lambda: "is being started" in editor.text and "my own words" not in editor.composer, within=20)
        client.cancel(request)
        editor.live(lambda: "my own words" in editor.composer, within=10)
        assert client.reply(request)["error"]["code"] == -32800
    finally:
        client.kill()
