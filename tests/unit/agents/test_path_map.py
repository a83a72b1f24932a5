"""Paths of an agent that runs elsewhere are told as they are here, and ours as they are there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.agents.path_map import PathMap
from sidecar.session.events import TextDelta, ToolCallChanged

MAP = PathMap((("/host/work", "/container/work"), ("/host/work/deep", "/deep")))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("/host/work", "/container/work"),
        ("/host/work/a b.py", "/container/work/a b.py"),
        ("/host/work/deep/x", "/deep/x"),
        ("/host/workshop/x", "/host/workshop/x"),
        ("/elsewhere", "/elsewhere"),
    ],
)
def test_whole_folders_are_mapped_both_ways_and_siblings_are_not(ours: str, theirs: str) -> None:
    assert MAP.to_agent(ours) == theirs
    assert MAP.to_ours(theirs) == ours


def test_a_file_uri_keeps_its_form() -> None:
    assert MAP.to_ours("file:///container/work/a%20b.py") == "file:///host/work/a%20b.py"


def test_windows_paths_become_posix_ones() -> None:
    assert PathMap((("C:\\work", "/mnt/c/work"),)).to_agent("C:\\work\\src\\a.py") == "/mnt/c/work/src/a.py"


def test_locations_and_diffs_of_tools_are_told_as_they_are_here() -> None:
    fields = {
        "locations": [{"path": "/container/work/a", "line": 3}],
        "content": [{"type": "diff", "path": "/container/work/a", "newText": "x"}, {"type": "content"}],
        "title": "t",
    }
    event = MAP.event(ToolCallChanged("c", fields))
    assert isinstance(event, ToolCallChanged)
    assert event.fields["locations"] == [{"path": "/host/work/a", "line": 3}]
    assert event.fields["content"][0]["path"] == "/host/work/a"
    assert event.fields["content"][1] == {"type": "content"}


def test_other_events_pass_unchanged() -> None:
    event = TextDelta("agent", "/container/work/a")
    assert MAP.event(event) is event


@given(st.text(max_size=30))
def test_without_pairs_nothing_changes(path: str) -> None:
    assert PathMap().to_agent(path) == path
    assert not PathMap()
