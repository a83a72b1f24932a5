"""The pure parts of the demo agent: words, shell lines, patterns, history, settings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.demo import scenes
from sidecar.demo.consent import covers
from sidecar.demo.scenes import scene_for
from sidecar.demo.session import MAX_HISTORY, DemoSession
from sidecar.demo.settings import DEFAULT_PACE_MS, DemoSettings
from sidecar.demo.shell import no_rule_reason, parts_of
from sidecar.demo.storage import SessionFiles
from sidecar.demo.wire import ClientFeatures, Json, list_at, object_at, prompt_attachments, prompt_text
from sidecar.errors import EditorFault


@pytest.mark.parametrize(
    ("prompt", "scene", "rest"),
    [
        ("help", scenes.give_help, ""),
        ("please HELP me", scenes.give_help, "me"),
        ("edit", scenes.edit, ""),
        ("/edit a new line\nmore", scenes.edit, "a new line"),
        ("run echo hello", scenes.run, "echo hello"),
        ("shell", scenes.run, ""),
        ("big diff", scenes.big_diff, ""),
        ("sign in", scenes.sign_in, ""),
        ("Sign-in please", scenes.sign_in, "please"),
        ("mcp", scenes.sign_in, ""),
        ("plan", scenes.plan, ""),
        ("think", scenes.think, ""),
        ("a long one", scenes.long_answer, "one"),
        ("slowly", scenes.slow_answer, ""),
        ("markdown", scenes.markdown, ""),
        ("fail", scenes.fail, ""),
        ("crash", scenes.crash, ""),
        ("ask url", scenes.ask, "url"),
        ("image", scenes.image, ""),
        ("tour", scenes.tour, ""),
        ("what is a runner, and why do we taskedit?", scenes.greet, ""),
        ("", scenes.greet, ""),
        ("help me run it", scenes.give_help, "me run it"),
    ],
)
def test_the_first_word_that_means_something_chooses_the_scene(prompt: str, scene: scenes.Scene, rest: str) -> None:
    assert scene_for(prompt) == (scene, rest)


@given(st.text())
def test_any_prompt_chooses_some_scene(prompt: str) -> None:
    scene, rest = scene_for(prompt)
    assert callable(scene)
    assert "\n" not in rest


@pytest.mark.parametrize(
    ("line", "parts", "kept"),
    [
        ("echo hello", ["echo hello"], True),
        ("echo a && pwd", ["echo a", "pwd"], True),
        ("a; b || c\nd", ["a", "b", "c", "d"], True),
        ("echo $(rm x)", ["echo $(rm x)"], False),
        ("echo `id`", ["echo `id`"], False),
        ("cat <(id)", ["cat <(id)"], False),
        ("echo a | sh", ["echo a | sh"], False),
        ("echo a > ~/.bashrc", ["echo a > ~/.bashrc"], False),
        ("echo a & b", ["echo a & b"], False),
        ("", [], True),
    ],
)
def test_a_line_is_asked_for_part_by_part_and_unusual_parts_keep_no_rule(line: str, parts: list[str], kept: bool) -> None:
    assert parts_of(line) == parts
    assert (no_rule_reason(line) == "") is kept


@pytest.mark.parametrize(
    ("pattern", "resource", "covered"),
    [
        ("npm run test", "npm run test", True),
        ("npm run *", "npm run test", True),
        ("npm run *", "npm install", False),
        ("*", "anything\nat all", True),
        ("a.c", "abc", False),
        ("[a]*", "[a]b", True),
        ("", "x", False),
        (None, "x", False),
    ],
)
def test_only_the_star_is_special_in_a_pattern(pattern: object, resource: str, covered: bool) -> None:
    assert covers(pattern, resource) is covered


@given(st.text())
def test_a_literal_without_stars_covers_itself_and_nothing_else(text: str) -> None:
    literal = text.replace("*", "")
    assert covers(literal, literal)
    assert not covers(literal, literal + "x")


def chunk(text: str, message: str) -> Json:
    return {"sessionUpdate": "agent_message_chunk", "messageId": message, "content": {"type": "text", "text": text}}


def make_session() -> DemoSession:
    return DemoSession("sess_00000000-0000-0000-0000-000000000000", "/ws", "2026-01-01T00:00:00+00:00")


def test_history_joins_text_runs_and_folds_tool_updates_into_their_call() -> None:
    session = make_session()
    updates: list[Json] = [
        chunk("a ", "m1"),
        chunk("b", "m1"),
        chunk("c", "m2"),
        {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x", "status": "pending"},
        chunk("d", "m3"),
        {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"},
        {"sessionUpdate": "plan", "entries": []},
        {"sessionUpdate": "plan", "entries": [1]},
        {"sessionUpdate": "usage_update", "used": 1, "size": 2},
    ]
    for update in updates:
        session.record(update)
    assert [item["sessionUpdate"] for item in session.history] == [
        "agent_message_chunk",
        "agent_message_chunk",
        "tool_call",
        "agent_message_chunk",
        "plan",
    ]
    assert session.history[0]["content"]["text"] == "a b"
    assert session.history[2]["status"] == "completed"
    assert session.history[4]["entries"] == [1]


def test_history_is_bounded() -> None:
    session = make_session()
    for number in range(MAX_HISTORY + 10):
        session.record(chunk("x", f"m{number}"))
    assert len(session.history) == MAX_HISTORY
    assert session.history[-1]["messageId"] == f"m{MAX_HISTORY + 9}"


def test_a_session_survives_its_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    files = SessionFiles(tmp_path_factory.mktemp("state"))
    session = make_session()
    session.record(chunk("half \ud83d", "m1"))
    session.title = "A title"
    files.write(session)
    assert files.read(session.session_id) == session
    assert files.read_all() == [session]
    files.remove(session.session_id)
    assert files.read_all() == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format":99}', b'{"format":1,"session_id":3}', b"[" * 100_000])
def test_a_file_that_is_no_session_is_passed_over(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("state")
    session_id = make_session().session_id
    (folder / f"{session_id}.json").write_bytes(content)
    assert SessionFiles(folder).read(session_id) is None
    assert SessionFiles(folder).read_all() == []


@pytest.mark.parametrize(
    "session_id", ["../../etc/passwd", "sess_", "", "sess_../x", "sess_00000000-0000-0000-0000-00000000000/"]
)
def test_only_ids_of_our_own_become_file_names(session_id: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    files = SessionFiles(tmp_path_factory.mktemp("state"))
    files.remove(session_id)
    assert files.read(session_id) is None


def test_a_state_folder_that_cannot_be_made_leaves_sessions_and_rules_in_memory(tmp_path_factory: pytest.TempPathFactory) -> None:
    blocker = tmp_path_factory.mktemp("state") / "file"
    blocker.write_text("not a folder")
    files = SessionFiles(blocker / "inside")
    files.write(make_session())
    assert files.read_all() == []
    rule = {"capability": "shell", "resource": "*", "effect": "allow", "scope": "user"}
    files.add_user_rule(rule)
    assert files.read_user_rules() == [rule]


def test_options_appear_with_the_registry_and_the_effort_with_its_model() -> None:
    session = make_session()
    ids = [option["id"] for option in session.config_options(booleans=False)]
    assert ids == ["mode", "autopilot"]
    session.models_known = True
    session.set_option("model", "demo-deep", booleans=False)
    ids = [option["id"] for option in session.config_options(booleans=True)]
    assert ids == ["mode", "autopilot", "model", "effortLevel", "thoughts"]
    session.set_option("effortLevel", "high", booleans=False)
    assert session.effort == "high"


@pytest.mark.parametrize(
    ("option", "value"), [("model", "demo-fast"), ("mode", "nope"), ("mode", 3), ("thoughts", True), ("", "")]
)
def test_an_option_or_value_that_is_not_shown_is_refused(option: str, value: object) -> None:
    with pytest.raises(EditorFault):
        make_session().set_option(option, value, booleans=False)


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "-1", "1e9"])
def test_a_pace_that_is_no_sensible_number_counts_as_the_default(text: str) -> None:
    assert DemoSettings.from_environment({"SIDECAR_DEMO_PACE_MS": text}).pace == DEFAULT_PACE_MS / 1000


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_params_of_any_shape_are_read_without_an_error(value: object) -> None:
    params = {"prompt": [value], "clientCapabilities": value}
    assert isinstance(prompt_text(params), str)
    assert isinstance(prompt_attachments(params), list)
    assert ClientFeatures.declared_in(params) is not None
    assert isinstance(object_at(value, "a", "b"), dict)
    assert isinstance(list_at(value, "a"), list)
