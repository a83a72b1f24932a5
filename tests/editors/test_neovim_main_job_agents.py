"""The main job in a real Neovim with real third-party agents: codex-acp on a model of ours, and the TypeScript SDK's example."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.agents.conftest import RealAgent
from tests.editors.neovim_world import PLUGIN, START_SECONDS, WAIT_SECONDS, Neovim, assert_nothing_stays, processes_of, texts_of
from tests.process.editor_world import World

pytestmark = [pytest.mark.editor, pytest.mark.agent, pytest.mark.process]

STOP_SECONDS = 2 * WAIT_SECONDS
"""codex-acp ends by a signal only, so its end waits for the grace of the sidecar."""


def neovim_with(agent: RealAgent, tmp_path: Path, plugin: Mapping[str, object] | None = None) -> Neovim:
    """Start Neovim in the agent's work folder, with the agent configured by its command."""
    root = tmp_path / "machine"
    root.mkdir()
    own = {name: value for name, value in agent.env.items() if name not in {"PATH", "HOME", "LANG"}}
    world = World(root, {"real": {"protocol": "acp", "command": agent.argv, "env": own}})
    return Neovim(world, "real", plugin, agent.cwd)


def test_the_words_of_the_model_arrive_by_plain_lsp(codex_acp: RealAgent, tmp_path: Path) -> None:
    with neovim_with(codex_acp, tmp_path) as editor:
        started = editor.command("prompt", text="say: Za\u017c\u00f3\u0142\u0107 one two three")
        assert editor.endings() == ["done"]
        assert "Za\u017c\u00f3\u0142\u0107 one two three" in texts_of(editor.turn(started))
        assert editor.value("job.asked") == []


def test_the_words_of_the_model_stream_to_a_plugin_while_it_still_speaks(codex_acp: RealAgent, tmp_path: Path) -> None:
    with neovim_with(codex_acp, tmp_path, PLUGIN) as editor:
        started = editor.request("prompt", text="slowly: " + " ".join(f"word{number}" for number in range(40)))
        turn_id = started["turnId"]
        editor.until(f"job.text('{turn_id}'):find('word3', 1, true)", START_SECONDS)
        assert editor.value(f"job.ended('{turn_id}')") is None
        assert "word39" not in editor.value(f"job.text('{turn_id}')")
        editor.until(f"job.ended('{turn_id}') ~= nil", START_SECONDS)
        assert " ".join(f"word{number}" for number in range(40)) in editor.value(f"job.text('{turn_id}')")
        assert editor.value("#job.changed") > 5


def test_a_command_of_the_model_runs_only_after_it_was_allowed(codex_acp: RealAgent, tmp_path: Path) -> None:
    with neovim_with(codex_acp, tmp_path) as editor:
        started = editor.command("prompt", text="run: printf written > out.txt")
        dialog = editor.dialog()
        assert "printf written > out.txt" in dialog["prompt"]
        assert not (codex_acp.cwd / "out.txt").exists()
        editor.choose(next(item for item in dialog["items"] if item.startswith("Yes")))
        assert editor.endings() == ["done"]
        assert (codex_acp.cwd / "out.txt").read_text(encoding="utf-8") == "written"
        assert "The command ended." in texts_of(editor.turn(started))
        assert len(editor.value("job.asked")) == 1


def test_a_command_of_the_model_that_was_refused_does_not_run(codex_acp: RealAgent, tmp_path: Path) -> None:
    with neovim_with(codex_acp, tmp_path) as editor:
        editor.command("prompt", text="run: printf written > out.txt")
        dialog = editor.dialog()
        editor.choose(dialog["items"][0])
        editor.endings()
        assert dialog["items"][0].startswith("No")
        assert not (codex_acp.cwd / "out.txt").exists()
        assert editor.command("pending.list")["pending"] == []


def test_a_long_answer_of_the_model_is_cancelled(codex_acp: RealAgent, tmp_path: Path) -> None:
    with neovim_with(codex_acp, tmp_path, PLUGIN) as editor:
        started = editor.request("prompt", text="slowly: " + "word " * 400)
        turn_id = started["turnId"]
        editor.until(f"job.text('{turn_id}'):find('word word', 1, true)", START_SECONDS)
        assert editor.request("cancel") == {"state": "cancelling"}
        editor.until(f"job.ended('{turn_id}') ~= nil")
        assert editor.value(f"job.ended('{turn_id}').stopReason") == "cancelled"


def test_a_session_is_loaded_again_in_the_same_process_and_goes_on(codex_acp: RealAgent, tmp_path: Path) -> None:
    with neovim_with(codex_acp, tmp_path) as editor:
        session_id = editor.command("prompt", text="say: one two three")["sessionId"]
        editor.endings()
        before = {process.pid for process in processes_of(editor.world)}
        loaded = editor.command("session.load", sessionId=session_id)
        assert loaded == {"sessionId": session_id, "history": "replayed"}
        assert {process.pid for process in processes_of(editor.world)} == before
        turns = editor.command("session.state", sessionId=session_id)["turns"]
        assert "say: one two three" in "".join(texts_of(turn, "user") for turn in turns)
        assert "one two three" in "".join(texts_of(turn) for turn in turns)
        started = editor.command("prompt", text="say: four five", sessionId=session_id)
        assert editor.endings(2)[-1] == "done"
        assert "four five" in texts_of(editor.turn(started))


def test_nothing_of_the_agent_stays_when_the_editor_quits_while_it_speaks(codex_acp: RealAgent, tmp_path: Path) -> None:
    with neovim_with(codex_acp, tmp_path, PLUGIN) as editor:
        turn_id = editor.request("prompt", text="slowly: " + "word " * 400)["turnId"]
        editor.until(f"job.text('{turn_id}'):find('word word', 1, true)", START_SECONDS)
        assert any("codex-acp" in process.name() for process in processes_of(editor.world))
        editor.quit()
        assert_nothing_stays(editor.world, STOP_SECONDS)


@pytest.mark.parametrize(
    ("choice", "told"),
    [("Allow this change", "changes have been applied"), ("Skip this change", "skip the configuration update")],
)
def test_the_example_agent_goes_on_by_what_the_user_chose(
    example_agent: RealAgent, tmp_path: Path, choice: str, told: str
) -> None:
    with neovim_with(example_agent, tmp_path) as editor:
        started = editor.command("prompt", text="hello")
        assert choice in editor.dialog()["items"]
        editor.choose(choice)
        assert editor.endings() == ["done"]
        assert told in texts_of(editor.turn(started))


def test_the_example_agent_is_cancelled(example_agent: RealAgent, tmp_path: Path) -> None:
    with neovim_with(example_agent, tmp_path) as editor:
        started = editor.command("prompt", text="hello")
        editor.command("cancel")
        assert editor.endings() == ["cancelled"]
        assert editor.turn(started)["stopReason"] == "cancelled"
