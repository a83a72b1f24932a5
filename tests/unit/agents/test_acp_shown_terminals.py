"""Terminals an agent runs itself, read from the private members of its tool calls."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.agents.acp_shown_terminals import with_terminals
from sidecar.session.events import TerminalChanged, TextDelta, ToolCallChanged

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)
KEYS = ("terminal_info", "terminal_output", "terminal_output_delta", "terminal_exit")


def read(meta: dict[str, Any], **fields: Any) -> list[Any]:
    return list(with_terminals([ToolCallChanged("c", fields, meta=meta)]))[1:]


def test_a_terminal_is_read_from_its_three_members_in_their_order() -> None:
    meta = {
        "terminal_exit": {"terminal_id": "t", "exit_code": 1, "signal": "SIGINT"},
        "terminal_output": {"terminal_id": "t", "data": "x"},
        "terminal_info": {"terminal_id": "t", "cwd": "/w"},
    }
    assert read(meta, raw_input={"command": "make"}) == [
        TerminalChanged("t", {"command": "make", "cwd": "/w"}),
        TerminalChanged("t", appended="x"),
        TerminalChanged("t", {"exitStatus": {"exitCode": 1, "signal": "SIGINT"}}),
    ]


@pytest.mark.parametrize(
    ("content", "terminal_id"),
    [
        ([{"type": "terminal", "terminalId": "shown"}], "shown"),
        ([{"type": "terminal", "terminalId": "a"}, {"type": "terminal", "terminalId": "b"}], "c"),
        ([{"type": "terminal", "terminalId": 1}], "c"),
        ([], "c"),
    ],
)
def test_output_that_names_no_terminal_belongs_to_the_one_shown_else_to_the_tool_call(content: Any, terminal_id: str) -> None:
    (event,) = read({"terminal_output": {"data": "x"}}, content=content)
    assert event.terminal_id == terminal_id


def test_events_without_terminals_pass_as_they_are() -> None:
    events = [TextDelta("agent", "a"), ToolCallChanged("c", {"title": "t"}), ToolCallChanged("c", {}, meta={"kiro": {}})]
    assert list(with_terminals(events)) == events


@given(
    st.dictionaries(
        st.sampled_from(KEYS),
        JSON | st.dictionaries(st.sampled_from(["terminal_id", "data", "exit_code", "signal", "cwd"]), JSON),
    )
)
def test_any_members_are_read_without_failing(meta: dict[str, Any]) -> None:
    for event in read(meta):
        assert isinstance(event, TerminalChanged)
        assert isinstance(event.appended, str)
