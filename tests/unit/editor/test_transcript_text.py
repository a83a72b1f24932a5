"""The transcript's text: what is rendered is whole lines, never changed, and never taken for the composer's heading."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.editor.transcript_text import (
    COMPOSER_HEADING,
    QUESTION_PREFIX,
    TurnRenderer,
    composer_text,
    heading_line,
    insertion_line,
    render_turns,
    shown_line,
    whole_text,
)
from sidecar.session.cursor import Cursor
from sidecar.session.events import (
    ContentAdded,
    NoticeAdded,
    PlanReplaced,
    SessionEvent,
    TextDelta,
    ToolCallChanged,
    TurnEnded,
    TurnStarted,
)
from sidecar.session.model import SessionState
from sidecar.workspace.positions import split_lines

NASTY = [
    COMPOSER_HEADING,
    COMPOSER_HEADING + "  ",
    QUESTION_PREFIX + "q1 (abcd)",
    "```",
    "````python",
    "~~~",
    "plain",
    "",
    "emoji 🚀",
    "\u2028",
    "\ud800",
    "\x1b[2J",
    "a\rb",
]


def lines_of(events: list[SessionEvent], takes: int = 1 << 20, state: SessionState | None = None) -> list[str]:
    """Render the events one by one, as an editor with endless room would get them."""
    state = state or SessionState()
    cursor, renderer, lines = Cursor(state), TurnRenderer("kiro"), list[str]()
    for event in events:
        state.apply([event])
        while cursor.pending:
            lines += renderer.render(cursor.take(takes))
    return lines


def said(*texts: str) -> list[SessionEvent]:
    return [
        TurnStarted("t1", "hello", [{"type": "text", "text": "hello"}]),
        *(TextDelta("agent", text, "m1") for text in texts),
        TurnEnded("t1", "ended", "end_turn"),
    ]


def text_after(heading: str, lines: list[str]) -> str:
    return "\n".join(lines[lines.index(heading) + 2 :])


@given(st.lists(st.sampled_from(NASTY), max_size=12).map("\n".join), st.integers(0, 10_000))
def test_however_a_text_is_cut_the_lines_are_the_same(text: str, seed: int) -> None:
    chooser = random.Random(seed)
    cuts = sorted(chooser.randrange(len(text) + 1) for _ in range(8))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert lines_of(said(*(piece for piece in pieces if piece))) == lines_of(said(*([text] if text else [])))


@given(st.lists(st.sampled_from(NASTY) | st.text(max_size=20), max_size=15).map("\n".join))
def test_nothing_an_agent_or_a_prompt_says_is_the_composer_a_question_or_more_than_a_line(text: str) -> None:
    events = [TurnStarted("t1", text, [{"type": "text", "text": text}]), *said(text, text)[1:]]
    lines = [*lines_of(events), *lines_of([NoticeAdded("info", text, text), *said()])]
    document = whole_text(lines, "draft")
    rows = split_lines(document)
    assert [row.rstrip() for row in rows].count(COMPOSER_HEADING) == 1
    assert not any(row.startswith(QUESTION_PREFIX) for row in rows)
    assert composer_text(rows) == "draft"
    assert len(rows) == len(lines) + 5
    document.encode("utf-8")


def test_a_line_waits_for_its_end_and_the_last_one_for_the_end_of_the_turn() -> None:
    state = SessionState()
    cursor, renderer = Cursor(state), TurnRenderer("kiro")
    state.apply([TurnStarted("t1", "hello"), TextDelta("agent", "one\ntw", "m")])
    assert renderer.render(cursor.take(10_000)) == ["", "## You", "", "hello", "", "## kiro", "", "one"]
    state.apply([TextDelta("agent", "o\nthr", "m")])
    assert renderer.render(cursor.take(10_000)) == ["two"]
    state.apply([TextDelta("agent", "ee", "m")])
    assert renderer.render(cursor.take(10_000)) == []
    state.apply([TurnEnded("t1", "ended", "end_turn")])
    assert renderer.render(cursor.take(10_000)) == ["three"]


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ("```python\nx = 1", ["```python", "x = 1", "```"]),
        ("````\n```\n", ["````", "```", "````"]),
        ("~~~\n```\n~~~\nafter", ["~~~", "```", "~~~", "after"]),
        ("```\na\n```\n", ["```", "a", "```"]),
    ],
)
def test_a_code_fence_left_open_is_closed_with_its_part(text: str, closed: list[str]) -> None:
    assert text_after("## kiro", lines_of(said(text))).split("\n") == closed


def test_a_tool_call_is_one_line_at_its_begin_and_one_at_its_end() -> None:
    tool = [
        ToolCallChanged("c1", {"title": "Run Command", "status": "pending"}, announced=True),
        ToolCallChanged("c1", {"status": "in_progress"}),
        ToolCallChanged("c1", {"status": "in_progress", "content": [{"type": "diff", "path": "a`.py", "newText": "x"}]}),
        ToolCallChanged("c1", {"status": "completed"}),
        ToolCallChanged("c1", {"raw_output": {"late": 1}}),
    ]
    found = [line for line in lines_of([*said()[:1], *tool, *said()[1:]]) if "Tool" in line]
    assert found == ["- **Tool** `Run Command` (pending)", "- **Tool** `Run Command` (completed): change of `` a`.py ``"]


def test_a_tool_call_the_agent_never_ended_is_told_when_the_turn_ends() -> None:
    tool = ToolCallChanged("c1", {"title": "x", "status": "in_progress"}, announced=True)
    found = [line for line in lines_of([*said()[:1], tool, *said()[1:]]) if "Tool" in line]
    assert found == ["- **Tool** `x` (in_progress)", "- **Tool** `x` (unfinished)"]


def test_a_thought_is_a_quotation_and_the_answer_stands_apart_from_it() -> None:
    events = [*said()[:1], TextDelta("thought", "hm\nso", "a"), TextDelta("agent", "answer", "b"), *said()[1:]]
    assert text_after("## kiro", lines_of(events)) == "> hm\n> so\n\nanswer"


def test_a_plan_is_shown_whole_once_and_then_in_one_line() -> None:
    def plan(*statuses: str) -> PlanReplaced:
        return PlanReplaced([{"content": f"step {n}", "status": status} for n, status in enumerate(statuses)])

    events = [*said()[:1], plan("in_progress", "pending"), plan("completed", "in_progress"), *said()[1:]]
    text = "\n".join(lines_of(events))
    assert "**Plan**\n\n1. step 0\n2. step 1\n\n*Plan: 1 of 2 done; now: step 1*" in text


def test_a_notice_does_not_cut_a_line_or_a_code_block_in_two() -> None:
    events: list[SessionEvent] = [
        *said()[:1],
        TextDelta("agent", "```\nhalf", "m"),
        NoticeAdded("warning", "slow", None),
        TextDelta("agent", " a line\n```\n", "m"),
        *said()[1:],
    ]
    assert text_after("## kiro", lines_of(events)) == "```\nhalf a line\n```\n\n> **warning** slow"


@pytest.mark.parametrize(
    ("end", "line"),
    [
        (TurnEnded("t1", "ended", "cancelled"), "*The turn was cancelled.*"),
        (TurnEnded("t1", "failed", error="no\nluck"), "*The turn failed: no\\nluck*"),
        (TurnEnded("t1", "unknown"), "*The agent was lost; what became of this turn is not known. It is not sent again.*"),
        (TurnEnded("t1", "ended", "max_tokens"), "*The answer reached its token limit.*"),
        (TurnEnded("t1", "ended", "brand_new"), "*The turn ended: brand_new.*"),
    ],
)
def test_an_end_that_is_no_ordinary_one_is_named(end: TurnEnded, line: str) -> None:
    assert lines_of([TurnStarted("t1", "hello"), end])[-1] == line


def test_what_came_with_a_prompt_and_content_that_is_no_text_are_named() -> None:
    link = {"type": "resource_link", "uri": "file:///a.py", "name": "a.py"}
    image = ContentAdded("agent", {"type": "image", "data": "AAAA", "mimeType": "image/png"})
    text = "\n".join(lines_of([TurnStarted("t1", "look", [{"type": "text", "text": "look"}, link]), image, *said()[1:]]))
    assert "With [a.py] `file:///a.py`" in text
    assert "[image]" in text
    assert "AAAA" not in text


@given(st.lists(st.sampled_from(NASTY), min_size=1, max_size=6).map("\n".join))
def test_stored_turns_read_as_they_did_when_they_were_streamed(text: str) -> None:
    state = SessionState()
    lines = lines_of(said(text), state=state)
    assert render_turns(state.history()["turns"], "kiro") == lines


def test_a_stream_taken_up_in_the_middle_of_a_turn_goes_on_with_the_running_text() -> None:
    state = SessionState()
    state.apply([TurnStarted("t1", "hello"), TextDelta("agent", "before\n", "m")])
    cursor, renderer = Cursor(state), TurnRenderer("kiro")
    renderer.take_up(state.history()["turns"][0])
    state.apply([TextDelta("agent", "after\n", "m")])
    assert renderer.render(cursor.take(10_000))[-1] == "after"


@pytest.mark.parametrize(
    ("text", "heading", "composed"),
    [
        (f"a\n\n{COMPOSER_HEADING}\n\nhello\n", 2, "hello"),
        (f"{COMPOSER_HEADING}", 0, ""),
        (f"{COMPOSER_HEADING}\nold\n{COMPOSER_HEADING}  \r\n\r\nnew\r\nline", 2, "new\nline"),
        (f"a\n {COMPOSER_HEADING}\n", None, None),
        ("```\n" + COMPOSER_HEADING + "\nin a fence\n", 1, "in a fence"),
        ("", None, None),
    ],
)
def test_the_composer_is_below_the_last_line_that_is_exactly_the_heading(
    text: str, heading: int | None, composed: str | None
) -> None:
    lines = split_lines(text)
    assert heading_line(lines) == heading
    assert composer_text(lines) == composed


@pytest.mark.parametrize(("above", "at"), [(["text", ""], 1), (["text"], 1), ([], 0), (["", "", ""], 2)])
def test_the_conversation_goes_on_above_the_empty_line_before_the_heading(above: list[str], at: int) -> None:
    lines = [*above, COMPOSER_HEADING]
    assert insertion_line(lines, len(above)) == at


@pytest.mark.parametrize("line", ["plain", "", "# A heading", "   " + COMPOSER_HEADING, "é 🚀"])
def test_ordinary_lines_stand_as_they_are(line: str) -> None:
    assert shown_line(line) == line


def test_a_prompt_that_waits_is_told_only_while_a_turn_runs() -> None:
    def queue(*items: str) -> dict[str, Any]:
        return {"kind": "queue", "queue": [{"turnId": item, "text": item} for item in items]}

    renderer = TurnRenderer("kiro")
    assert renderer.render([queue("a")]) == []
    assert renderer.render([{"kind": "turn_started", "turn": {"turnId": "a", "state": "running"}}, queue()]) == []
    assert renderer.render([queue("next one")])[-1] == "*Waits as the next prompt: next one*"


def test_a_cancel_and_a_lost_agent_are_told_once() -> None:
    def state(phase: str, message: str | None = None) -> dict[str, Any]:
        return {"kind": "state", "state": {"state": phase, "message": message}}

    renderer = TurnRenderer("kiro")
    assert renderer.render([state("cancelling"), state("cancelling")])[-1:] == ["*Cancelling …*"]
    assert "sidecar.agent.restart" in renderer.render([state("cancelling", "no answer")])[-1]
    assert "no prompt is sent again" in renderer.render([state("lost", "exit code 7")])[-1]
    assert renderer.render([state("lost", "exit code 7")]) == []
