"""What a user does with a transcript beside talking: questions, commands, completion, older turns, undoing, saving, reopening."""

import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.process.editor_world import SHOW_DOCUMENT, START_SECONDS, World
from tests.process.test_transcript import HELIX, TOLD, Desk
from tests.process.transcript_editor import HEADING, Habit, TypingEditor, path_of

pytestmark = pytest.mark.process


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def desk(world: World) -> Generator[Callable[..., Desk]]:
    desks: list[Desk] = []

    def make(habit: Habit = Habit.ORDERLY, **more: Any) -> Desk:
        desks.append(Desk(world, habit, pace=more.pop("pace", "1"), **more))
        return desks[-1]

    yield make
    for made in desks:
        made.client.kill()


def say(editor: TypingEditor, text: str) -> dict[str, Any]:
    """Send a prompt from the composer; return the command's reply."""
    editor.type(text)
    return editor.command("transcript.send")


def holds(editor: TypingEditor, *texts: str, within: float = 20.0) -> None:
    editor.live(lambda: all(text in editor.text for text in texts), within=within)


def rest(editor: TypingEditor, seconds: float) -> None:
    """Be an editor for a while."""
    end = time.monotonic() + seconds
    editor.live(lambda: time.monotonic() > end, within=seconds + 5)


def test_a_question_is_answered_by_the_code_actions_on_its_section(desk: Callable[..., Desk]) -> None:
    editor = desk().open()
    say(editor, "run echo hello")
    holds(editor, "*Answer q1 with a code action on this section.*")
    line = editor.line_of("pattern: ")
    editor.change((line, 0), (line + 1, 0), "pattern: echo *\n")
    actions = editor.actions(line)
    titles = [title for title in actions if title.startswith("q1: ")]
    assert titles[0] == "q1: Deny"
    chosen = next(title for title in titles if title.startswith("q1: Always allow — echo *, also allows"))
    assert editor.act(actions[chosen])["result"]["accepted"] is True
    holds(editor, "*Question q1: answered “Always allow” for echo * (session).*", "It printed 6 characters")
    assert not [title for title in editor.actions(line) if title.startswith("q1: ")]
    assert editor.act(actions["q1: Deny"])["result"]["accepted"] is False


def test_a_pattern_for_everything_needs_a_second_word(desk: Callable[..., Desk]) -> None:
    editor = desk().open()
    say(editor, "run echo hello")
    holds(editor, "*Answer q1 with a code action on this section.*")
    line = editor.line_of("pattern: ")
    editor.change((line, 0), (line + 1, 0), "pattern: *\n")
    action = next(action for title, action in editor.actions(line).items() if "Always allow" in title)
    first = editor.act(action)["result"]
    assert first["accepted"] is False
    assert "once more" in first["reason"]
    assert editor.act(action)["result"]["accepted"] is True


def test_a_form_is_filled_in_in_its_section(desk: Callable[..., Desk]) -> None:
    editor = desk().open()
    say(editor, "ask")
    holds(editor, "with a code action on this section.*")
    actions = editor.actions(editor.line_of("### Question"))
    assert list(actions)[:2] == ["q1: Decline", "q1: Send the form"]
    refused = editor.act(actions["q1: Send the form"])["result"]
    assert refused["accepted"] is False
    assert "colour" in refused["reason"]
    for key, value in (("colour", "green"), ("times", "3"), ("sure", "yes"), ("name", "Grace Hopper")):
        line = editor.line_of(f"{key}:")
        editor.change((line, 0), (line + 1, 0), f"{key}: {value}\n")
    assert editor.act(actions["q1: Send the form"])["result"]["accepted"] is True
    holds(editor, "*Question q1: filled in.*")
    editor.live(lambda: "Grace Hopper" in editor.text.rpartition("*Question q1: filled in.*")[2])


def test_what_the_user_deletes_is_not_put_back_but_redraw_shows_it(desk: Callable[..., Desk]) -> None:
    editor = desk().open()
    say(editor, "think")
    holds(editor, "this is the answer.")
    line = editor.line_of("That was a thought")
    editor.delete_lines(line - 1, line)
    rest(editor, 2.0)
    assert "this is the answer." not in editor.text
    editor.type("unsent words")
    assert editor.command("transcript.redraw")["result"] == {"done": True}
    assert editor.text.count("this is the answer.") == 1
    assert editor.composer == "unsent words"


def test_nothing_is_inserted_while_the_heading_is_gone_and_redraw_brings_it_back(desk: Callable[..., Desk]) -> None:
    made = desk()
    editor = made.open()
    say(editor, "think")
    holds(editor, "this is the answer.")
    editor.type("my words")
    rest(editor, 0.2)
    line = editor.line_of(HEADING)
    editor.delete_lines(line, line)
    version = editor.version
    made.client.result("sidecar/prompt", {"text": "markdown"}, within=START_SECONDS)
    rest(editor, 2.0)
    assert editor.version == version
    assert sum("is gone" in message for message in made.messages()) == 1
    error = editor.command("transcript.send")["error"]
    assert "heading" in error["message"]
    editor.command("transcript.redraw")
    holds(editor, "> A quotation at the end.")
    assert editor.text.count(HEADING) == 1
    assert editor.composer == "my words"


def test_older_turns_are_put_above_those_shown(desk: Callable[..., Desk]) -> None:
    made = desk()
    for number in range(23):
        made.client.result("sidecar/prompt", {"text": f"help {number}"}, within=START_SECONDS)
    deadline = time.monotonic() + START_SECONDS
    while len(made.client.result("sidecar/session/state")["turns"]) < 23 or made.client.result("sidecar/queue/list")["queue"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    editor = made.open()
    holds(editor, "help 22")
    assert "help 2\n" not in editor.text
    assert editor.command("transcript.more")["result"]["turns"] >= 3
    order = [line for line in editor.text.split("\n") if line.startswith("help ")]
    assert order == [f"help {number}" for number in range(23)]
    assert "Older turns" not in editor.text
    assert "no older turns" in editor.command("transcript.more")["error"]["message"]


def test_a_prompt_can_be_restored_and_an_unaccepted_one_comes_back(desk: Callable[..., Desk]) -> None:
    editor = desk().open()
    say(editor, "help")
    holds(editor, "I have no model")
    assert editor.composer == ""
    assert editor.command("transcript.restore")["result"] == {"done": True}
    assert editor.composer == "help"
    line = editor.line_of("help")
    editor.delete_lines(line, line)
    say(editor, "/model no-such-model")
    rest(editor, 0.5)
    assert editor.composer == "/model no-such-model"


def test_the_unsent_text_outlives_the_sidecar(desk: Callable[..., Desk], world: World) -> None:
    made = desk()
    editor = made.open()
    say(editor, "help")
    holds(editor, "I have no model")
    editor.type("half a prompt")
    rest(editor, 1.6)
    session_id = made.client.result("sidecar/status")["sessions"][0]["sessionId"]
    made.client.kill()
    again = desk()
    result = again.client.result("sidecar/transcript/open", {"sessionId": session_id}, within=START_SECONDS)
    text = path_of(result["uri"]).read_text(encoding="utf-8")
    assert text.rpartition(HEADING)[2].strip() == "half a prompt"
    assert "I have no model" in text
    assert path_of(result["uri"]).stat().st_mode & 0o777 == 0o600
    assert path_of(result["uri"]).parent == (world.state / "transcripts").resolve()


def test_a_buffer_that_outlives_the_sidecar_goes_on_with_the_next_one_and_its_old_questions_answer_nothing(
    desk: Callable[..., Desk],
) -> None:
    made = desk()
    editor = made.open()
    say(editor, "run echo hello")
    holds(editor, "*Answer q1 with a code action on this section.*")
    made.client.kill()
    again = desk()
    editor.client = again.client
    again.client.notify(
        "textDocument/didOpen",
        {"textDocument": {"uri": editor.uri, "languageId": "markdown", "version": editor.version, "text": editor.text}},
    )
    old = editor.line_of("### Question q1")
    deadline = time.monotonic() + START_SECONDS
    while "Redraw" not in editor.actions(old):
        assert time.monotonic() < deadline
    say(editor, "run echo second")
    holds(editor, "run echo second", within=START_SECONDS)
    editor.live(lambda: editor.text.count("*Answer q1 with a code action on this section.*") == 2)
    assert not [title for title in editor.actions(old) if title.startswith("q1: ")]
    assert [title for title in editor.actions(editor.line_of("### Question q1")) if title.startswith("q1: ")]


def test_while_it_is_open_the_file_is_left_alone_and_written_anew_when_opened_next(desk: Callable[..., Desk]) -> None:
    made = desk()
    editor = made.open()
    before = path_of(editor.uri).read_bytes()
    say(editor, "help")
    holds(editor, "I have no model")
    made.client.result("sidecar/transcript/open")
    assert path_of(editor.uri).read_bytes() == before
    editor.close()
    made.client.result("sidecar/transcript/open")
    assert "I have no model" in path_of(editor.uri).read_text(encoding="utf-8")


def test_a_buffer_that_is_not_known_gets_no_edits_until_it_is_saved(desk: Callable[..., Desk]) -> None:
    made = desk()
    editor = made.open()
    broken = {"textDocument": {"uri": editor.uri, "version": editor.version}, "contentChanges": None}
    made.client.notify("textDocument/didChange", broken)
    made.client.result("sidecar/prompt", {"text": "help"}, within=START_SECONDS)
    version = editor.version
    rest(editor, 1.5)
    assert editor.version == version
    assert any("until you save it" in message for message in made.messages())
    assert "save it" in editor.command("transcript.send")["error"]["message"]
    editor.save()
    holds(editor, "I have no model")


def test_own_slash_commands_run_without_the_agent_seeing_them(desk: Callable[..., Desk]) -> None:
    made = desk()
    editor = made.open()
    say(editor, "help")
    holds(editor, "I have no model")
    say(editor, "/mode")
    holds(editor, "**Modes**", "(in use)")
    say(editor, "/mode plan")
    holds(editor, "*The mode is `plan` now.*")
    say(editor, "/mcp")
    holds(editor, "**MCP servers**", "- `demo-search`")
    say(editor, "/new")
    holds(editor, "*A new session was begun")
    turns = made.client.result("sidecar/session/state", {"sessionId": _session(editor)})["turns"]
    assert [turn.get("text") for turn in turns if turn["origin"] == "prompt"] == ["help"]
    assert len(made.client.result("sidecar/status")["sessions"]) == 2


def test_completion_offers_commands_with_a_route_and_files(desk: Callable[..., Desk], world: World) -> None:
    made = desk()
    (world.workspace / ".git").mkdir()
    (world.workspace / ".git" / "notes.txt").write_text("x")
    (world.workspace / "src").mkdir()
    (world.workspace / "src" / "notes.py").write_text("x")
    editor = made.open()
    say(editor, "help")
    holds(editor, "I have no model")
    editor.type("/")
    labels = editor.complete()
    assert labels[:5] == ["/new", "/model", "/mode", "/effort", "/mcp"]
    editor.type("mode ")
    assert "plan" in editor.complete()
    editor.type("plan and 🚀 @note")
    assert editor.complete() == ["@src/notes.py"]
    line = editor.line_of("/mode")
    editor.change((line, 0), editor.buffer.end, "look at @src/notes.py, please /mo")
    assert editor.complete() == []
    editor.command("transcript.send")
    holds(editor, "With [src/notes.py]", "With your prompt came:")


def test_argument_free_commands_mean_the_transcript_the_user_is_in(desk: Callable[..., Desk]) -> None:
    made = desk(pace="40")
    made.client.result("sidecar/session/new", within=START_SECONDS)
    other = made.client.result("sidecar/session/new", within=START_SECONDS)["sessionId"]
    editor = TypingEditor(made.client, Habit.ORDERLY, 1)
    editor.open(made.client.result("sidecar/transcript/open", {"sessionId": other})["uri"])
    editor.type("slow")
    request = made.client.request("sidecar/prompt", {})
    editor.live(lambda: (int, request) in made.client.inbox.replies)
    sent = made.client.reply(request)["result"]
    assert sent["sessionId"] == other
    holds(editor, "## demo")
    assert editor.command("cancel")["result"] == {"state": "cancelling"}
    holds(editor, "*The turn was cancelled.*")


def test_an_empty_composer_is_not_sent_and_the_user_is_told(desk: Callable[..., Desk]) -> None:
    made = desk()
    editor = made.open()
    error = editor.command("transcript.send")["error"]
    assert "nothing to send" in error["message"]
    assert any("nothing to send" in message for message in made.messages())
    error = editor.command("transcript.send", {"sessionId": "s-00000000"})["error"]
    assert "transcript.open" in error["message"]


def test_the_transcript_is_shown_by_the_editor_that_can_and_named_to_one_that_cannot(world: World) -> None:
    with world.start(ignore=TOLD) as client:
        client.initialize(SHOW_DOCUMENT, **world.options("demo"))
        request = client.request("sidecar/transcript/open", {})
        shown = client.asked("window/showDocument", within=START_SECONDS)
        client.answer(shown, {"success": True})
        assert client.reply(request)["result"]["uri"] == shown["params"]["uri"]
        assert shown["params"]["takeFocus"] is True
    with world.start(ignore=(*TOLD, "$/cancelRequest")) as client:
        client.initialize({}, clientInfo=HELIX, **world.options("demo"))
        request = client.request("sidecar/transcript/open", {})
        shown = client.asked("window/showDocument", within=START_SECONDS)
        assert client.reply(request)["result"]["path"], "it waits for an editor that did not announce it"
    with world.start(ignore=tuple(name for name in TOLD if name != "window/showMessage")) as client:
        client.initialize({}, **world.options("demo"))
        result = client.result("sidecar/transcript/open", within=START_SECONDS)
        assert result["path"] in client.told("window/showMessage")["message"]


def test_an_edit_for_version_zero_is_not_repeated_before_it_was_answered(desk: Callable[..., Desk]) -> None:
    made = desk()
    result = made.client.result("sidecar/transcript/open", within=START_SECONDS)
    editor = made.editor
    editor.open(result["uri"], version=0)
    made.client.result("sidecar/prompt", {"text": "help"}, within=START_SECONDS)
    time.sleep(2.5)
    with made.client.inbox.changed:
        asked = [message for message in made.client.inbox.asked if message["method"] == "workspace/applyEdit"]
    assert len(asked) == 1
    holds(editor, "I have no model")


def _session(editor: TypingEditor) -> str:
    return path_of(editor.uri).stem
