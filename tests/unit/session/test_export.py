"""A session becomes a document that reads like the conversation and can always be written."""

import json
from typing import Any

from hypothesis import given, settings

from sidecar.session.events import (
    CancelRequested,
    ContentAdded,
    InfoChanged,
    NoticeAdded,
    TextDelta,
    ToolCallChanged,
    TurnEnded,
    TurnStarted,
    UnknownUpdate,
)
from sidecar.session.export import code_span, export_text, fenced, texts_of_role, to_export_json, to_markdown
from sidecar.session.model import SessionState
from tests.unit.session.test_cursor import STEPS
from tests.unit.session.test_reducer import IMAGE, agent, state_after, thought, user

CONVERSATION = (
    InfoChanged("Fix\x07 it"),
    TurnStarted("t1", "please fix"),
    user("please fix"),
    thought("hm\nwell"),
    agent("On it"),
    ToolCallChanged(
        "c1",
        {
            "title": "edit `a`",
            "status": "completed",
            "content": [
                {"type": "diff", "path": "a.py", "oldText": "x", "newText": "y\nz"},
                {"type": "content", "content": {"type": "text", "text": "```\nout\x1b[0m"}},
                {"type": "terminal", "terminalId": "t-1"},
                {"type": "odd"},
                "junk",
            ],
        },
    ),
    ToolCallChanged("c2", {"kind": "execute", "failure_reason": "denied"}),
    ContentAdded("agent", {"type": "resource_link", "uri": "file:///a", "name": "a"}),
    ContentAdded("agent", IMAGE),
    UnknownUpdate("odd", {"n": 1}),
    agent("Done \x1b[2J\u202e\ud83d"),
    CancelRequested("t1"),
    TurnEnded("t1", "ended", "end_turn"),
    TurnStarted("t2", "again"),
    TurnEnded("t2", "failed", None, "429\nslow"),
    TurnStarted("t3", "more"),
    TurnEnded("t3", "unknown"),
)


def test_the_markdown_reads_like_the_conversation() -> None:
    text = to_markdown(state_after(*CONVERSATION))
    assert text.removesuffix("\n").split("\n\n") == [
        "# Fix\\u{7} it",
        "## You",
        "please fix",
        "## Agent",
        "> hm\n> well",
        "On it",
        "**Tool** `` edit `a` `` (completed)",
        "Change of `a.py`:",
        "```diff\n-x\n+y\n+z\n```",
        "````\n```\nout\\u{1b}[0m\n````",
        "Terminal `t-1`",
        "**Tool** `execute` (cancelled)",
        "Reason: denied",
        "[a] `file:///a`",
        "[image]",
        "Done \\u{1b}[2J\\u{202e}\ufffd",
        "*Turn cancelled.*",
        "## You",
        "again",
        "*Turn failed: 429\\nslow.*",
        "## You",
        "more",
        "*The agent was lost; what became of this turn is not known.*",
    ]


def test_the_json_holds_every_turn_and_notice() -> None:
    state = SessionState()
    for number in range(120):
        state.apply([TurnStarted(f"t{number}", str(number)), NoticeAdded("info", str(number))])
    exported: dict[str, Any] = json.loads(export_text(state, "json"))
    assert exported == json.loads(json.dumps(to_export_json(state)))
    assert (exported["format"], exported["version"]) == ("sidecar-session", 1)
    assert len(exported["session"]["turns"]) == 120
    assert len(exported["session"]["notices"]) == 120


@settings(max_examples=50, deadline=None)
@given(STEPS)
def test_any_session_can_be_exported_as_utf8(steps: list[Any]) -> None:
    state = SessionState()
    for step in steps:
        if isinstance(step, list):
            state.apply(step)  # pyright: ignore[reportUnknownArgumentType]  # a batch of events
    for form in ("markdown", "json"):
        assert export_text(state, form).encode()


def test_fences_and_spans_cannot_be_closed_from_inside() -> None:
    assert fenced("a ```` b") == "`````\na ```` b\n`````"
    assert code_span("a `` b") == "``` a `` b ```"
    assert code_span("plain") == "`plain`"


def test_the_answer_of_a_turn_is_the_agents_text() -> None:
    state = state_after(TurnStarted("t1", "q"), user("q"), thought("no"), agent("yes"), TextDelta("agent", "!", "m2"))
    assert texts_of_role(state.conversation.turns[0].parts, "agent") == "yes!"
    assert texts_of_role(state.conversation.turns[0].parts, "user") == ""
