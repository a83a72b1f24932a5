"""What a session shows after the events of an agent: messages, tool calls, turns, the lists beside them."""

from typing import Any

import pytest

from sidecar.session.events import (
    CancelRequested,
    CompactionChanged,
    ConfigReplaced,
    ContentAdded,
    InfoChanged,
    MarkedIncomplete,
    McpServersReplaced,
    ModeChanged,
    ModesReplaced,
    NoticeAdded,
    PlanReplaced,
    SessionEvent,
    SteeringChanged,
    TextDelta,
    ToolCallChanged,
    TurnEnded,
    TurnStarted,
    UnknownUpdate,
    UsageChanged,
)
from sidecar.session.model import SessionState

IMAGE = {"type": "image", "data": "QUJD", "mimeType": "image/png"}


def state_after(*events: SessionEvent) -> SessionState:
    state = SessionState()
    for event in events:
        state.apply([event])
    return state


def parts_of(state: SessionState, turn: int = -1) -> list[Any]:
    """Parts of a turn in short: role and text, tool id and shown status, or the kind."""
    short: list[Any] = []
    for part in state.to_json()["turns"][turn]["parts"]:
        if part["kind"] == "text":
            short.append((part["role"], part["text"]) if not part.get("echo") else ("echo", part["text"]))
        elif part["kind"] == "tool":
            short.append((part["toolCall"]["toolCallId"], part["toolCall"]["shownStatus"]))
        else:
            short.append(part["kind"])
    return short


def agent(text: str, message_id: str | None = None) -> TextDelta:
    return TextDelta("agent", text, message_id)


def thought(text: str, message_id: str | None = None) -> TextDelta:
    return TextDelta("thought", text, message_id)


def user(text: str, message_id: str | None = None, *, replay: bool = False) -> TextDelta:
    return TextDelta("user", text, message_id, replay=replay)


def tool(call: str, status: str | None = None, *, announced: bool = False, **fields: Any) -> ToolCallChanged:
    return ToolCallChanged(call, fields if status is None else {"status": status, **fields}, announced)


START = TurnStarted("t1", "hello agent", [{"type": "text", "text": "hello agent"}])
END = TurnEnded("t1", "ended", "end_turn")


@pytest.mark.parametrize(
    ("events", "parts"),
    [
        ([agent("a"), agent("b")], [("agent", "ab")]),
        ([agent("a", "1"), agent("b", "1")], [("agent", "ab")]),
        ([agent("a", "1"), agent("b", "2")], [("agent", "a"), ("agent", "b")]),
        ([agent("a", "1"), agent("b")], [("agent", "ab")]),
        ([agent("a"), agent("b", "1")], [("agent", "a"), ("agent", "b")]),
        ([agent("a"), thought("t"), agent("b")], [("agent", "a"), ("thought", "t"), ("agent", "b")]),
        ([agent("a"), tool("c", "pending"), agent("b")], [("agent", "a"), ("c", "pending"), ("agent", "b")]),
        ([agent("a", "1"), tool("c", "pending"), agent("b", "1")], [("agent", "a"), ("c", "pending"), ("agent", "b")]),
        ([tool("c", "pending"), agent("a"), tool("c", "completed"), agent("b")], [("c", "completed"), ("agent", "ab")]),
        ([agent("a", "1"), agent("x", "2"), agent("b", "1"), agent("y", "2")], [("agent", "ab"), ("agent", "xy")]),
        ([agent("a"), ContentAdded("agent", IMAGE), agent("b")], [("agent", "a"), "content", ("agent", "b")]),
        ([agent("a"), UnknownUpdate("odd", {"n": 1}), agent("b")], [("agent", "ab"), "unknown"]),
        ([agent("a"), agent(""), PlanReplaced([]), agent("b")], [("agent", "ab")]),
        ([agent("\ud83d"), agent("\ude00!")], [("agent", "\U0001f600!")]),
        ([agent("a\ud83d"), tool("c", "pending")], [("agent", "a\ud83d"), ("c", "pending")]),
    ],
)
def test_chunks_make_the_messages_the_agent_meant(events: list[SessionEvent], parts: list[Any]) -> None:
    assert parts_of(state_after(START, *events)) == parts


def test_an_empty_chunk_begins_no_message() -> None:
    assert parts_of(state_after(START, agent("", "1"))) == []


@pytest.mark.parametrize(
    ("chunks", "parts"),
    [
        (["hello agent"], [("echo", "hello agent")]),
        (["hello ", "agent"], [("echo", "hello agent")]),
        (["hello agent\n[context]"], [("echo", "hello agent"), ("user", "\n[context]")]),
        (["hello ", "world"], [("echo", "hello "), ("user", "world")]),
        (["something else"], [("user", "something else")]),
        (["hello agent", "hello agent"], [("echo", "hello agent"), ("user", "hello agent")]),
    ],
)
def test_an_echo_of_the_prompt_is_kept_and_marked_and_nothing_else_is(chunks: list[str], parts: list[Any]) -> None:
    assert parts_of(state_after(START, *(user(chunk) for chunk in chunks))) == parts
    assert parts_of(state_after(START, *(user(chunk, "u1") for chunk in chunks))) == parts


def test_user_text_after_the_agent_spoke_is_no_echo() -> None:
    assert parts_of(state_after(START, agent("hm"), user("hello agent"))) == [("agent", "hm"), ("user", "hello agent")]


def test_an_echoed_content_block_is_marked_too() -> None:
    start = TurnStarted("t1", "look", [{"type": "text", "text": "look"}, IMAGE])
    state = state_after(start, user("look"), ContentAdded("user", IMAGE), ContentAdded("user", {"type": "image", "data": "WFla"}))
    parts = state.to_json()["turns"][0]["parts"]
    assert [part.get("echo", False) for part in parts] == [True, True, False]


def test_an_update_without_an_announcement_creates_the_tool_call() -> None:
    state = state_after(START, tool("c1", "in_progress", title="Write"))
    (part,) = state.to_json()["turns"][0]["parts"]
    assert part["toolCall"] == {
        "toolCallId": "c1",
        "status": "in_progress",
        "title": "Write",
        "closed": False,
        "shownStatus": "in_progress",
    }


def test_tool_fields_replace_and_the_others_stay() -> None:
    state = state_after(
        START,
        tool("c1", "pending", announced=True, title="Run", kind="execute", content=[{"type": "content"}], raw_input={"a": 1}),
        tool(
            "c1",
            title="ls -l",
            content=[{"type": "terminal", "terminalId": "x"}],
            locations=[{"path": "/a"}],
            failure_reason=None,
        ),
    )
    call = state.to_json()["turns"][0]["parts"][0]["toolCall"]
    assert call["title"] == "ls -l"
    assert call["kind"] == "execute"
    assert call["rawInput"] == {"a": 1}
    assert call["content"] == [{"type": "terminal", "terminalId": "x"}]
    assert call["failureReason"] is None


def test_a_tool_may_go_back_to_pending_but_a_late_announcement_does_not_reopen_it() -> None:
    assert parts_of(state_after(START, tool("c", "in_progress", announced=True), tool("c", "pending"))) == [("c", "pending")]
    assert parts_of(state_after(START, tool("c", "completed"), tool("c", "pending", announced=True))) == [("c", "completed")]


def test_an_id_announced_again_in_a_later_turn_is_a_new_call() -> None:
    state = state_after(
        START, tool("1", "completed", announced=True), END, TurnStarted("t2", "more"), tool("1", "pending", announced=True)
    )
    assert parts_of(state, 0) == [("1", "completed")]
    assert parts_of(state, 1) == [("1", "pending")]
    state.apply([tool("1", "completed")])
    assert parts_of(state, 1) == [("1", "completed")]


def test_meta_of_a_tool_call_is_merged_by_namespace() -> None:
    state = state_after(
        START,
        ToolCallChanged("c", {}, meta={"kiro": {"toolId": "run"}, "x": 1}),
        ToolCallChanged("c", {}, meta={"kiro": {"preview": 2}}),
    )
    assert state.to_json()["turns"][0]["parts"][0]["toolCall"]["meta"] == {"kiro": {"toolId": "run", "preview": 2}, "x": 1}


@pytest.mark.parametrize(
    ("ending", "word", "shown"),
    [
        ([TurnEnded("t1", "ended", "end_turn")], "end_turn", "unfinished"),
        ([TurnEnded("t1", "ended", "cancelled")], "cancelled", "cancelled"),
        ([CancelRequested("t1", "12:00"), TurnEnded("t1", "ended", "end_turn")], "cancelled", "cancelled"),
        ([CancelRequested("t1"), TurnEnded("t1", "ended", "end_turn")], "cancelled", "cancelled"),
        ([TurnEnded("t1", "ended", "made_up")], "made_up", "unfinished"),
        ([TurnEnded("t1", "ended")], "ended", "unfinished"),
        ([TurnEnded("t1", "failed", None, "429")], "failed", "unfinished"),
        ([CancelRequested("t1"), TurnEnded("t1", "unknown")], "unknown", "unfinished"),
    ],
)
def test_a_turn_ends_once_and_its_open_tool_calls_are_closed(ending: list[SessionEvent], word: str, shown: str) -> None:
    state = state_after(
        START, tool("open", "in_progress"), tool("done", "completed"), *ending, TurnEnded("t1", "failed", None, "late")
    )
    turn = state.to_json()["turns"][0]
    assert turn["endedAs"] == word
    assert parts_of(state) == [("open", shown), ("done", "completed")]
    calls = [part["toolCall"] for part in turn["parts"]]
    assert [call["closed"] for call in calls] == [True, False]
    assert calls[0]["status"] == "in_progress"
    assert turn.get("cancelRequested", False) == (len(ending) == 2)


def test_while_cancelling_open_calls_say_so_and_the_state_has_the_time() -> None:
    state = state_after(START, tool("c", "in_progress"), CancelRequested("t1", "12:00"), CancelRequested("t1", "12:05"))
    assert parts_of(state) == [("c", "cancelling")]
    assert state.to_json()["state"] == {"turnId": "t1", "cancelRequestedAt": "12:00"}
    state.apply([tool("c", "completed"), END])
    assert parts_of(state) == [("c", "completed")]
    assert state.to_json()["state"] == {}


def test_nothing_but_the_prompt_reply_ends_a_turn() -> None:
    turn_end = InfoChanged(meta={"kiro": {"kind": "turn_end", "stopReason": "end_turn"}})
    state = state_after(START, agent("a"), turn_end, TurnEnded("other", "ended"), agent("b"))
    assert state.running_turn is not None
    assert parts_of(state) == [("agent", "ab")]


def test_late_updates_stay_with_the_last_turn_and_may_finish_its_calls() -> None:
    state = state_after(START, tool("c", "in_progress"), END, agent("late"), tool("c", "completed"), UsageChanged({"used": 5}))
    assert parts_of(state) == [("c", "completed"), ("agent", "late")]
    assert state.to_json()["turns"][0]["parts"][0]["toolCall"]["closed"] is False
    assert state.to_json()["usage"] == {"used": 5}


def test_updates_before_any_turn_are_kept_in_a_preamble() -> None:
    state = state_after(agent("welcome"), START, agent("hi"))
    assert [turn["origin"] for turn in state.to_json()["turns"]] == ["preamble", "prompt"]
    assert parts_of(state, 0) == [("agent", "welcome")]


def test_lists_beside_the_turns_replace() -> None:
    state = state_after(
        PlanReplaced([{"content": "a", "_meta": {"x": 1}}], {"p": 1}),
        PlanReplaced([{"content": "b"}]),
        ModesReplaced([{"id": "ask", "name": "Ask", "_meta": {"m": 1}}], "ask"),
        ModeChanged("code"),
        ConfigReplaced(
            [{"id": "model", "options": [{"value": "a", "_meta": {"rate": 2}}, {"group": "g", "options": [{"value": "b"}]}]}]
        ),
        InfoChanged("First", "now"),
        InfoChanged(updated_at="later"),
        UsageChanged({"used": 1, "size": 10}),
        UsageChanged({"used": 2}),
        MarkedIncomplete("a frame was too big"),
        MarkedIncomplete("another"),
    )
    shown = state.to_json()
    assert shown["plan"] == [{"content": "b"}]
    assert "plan" not in shown["metas"]
    assert shown["modes"] == {"available": [{"id": "ask", "name": "Ask", "meta": {"m": 1}}], "current": "code"}
    assert shown["configOptions"][0]["options"][0] == {"value": "a", "meta": {"rate": 2}}
    assert (shown["title"], shown["updatedAt"]) == ("First", "later")
    assert shown["usage"] == {"used": 2, "size": 10}
    assert shown["state"]["incomplete"] == "a frame was too big"


def test_what_the_agent_never_told_is_null_and_not_empty() -> None:
    shown = SessionState().to_json()
    assert shown["modes"] is None
    assert shown["configOptions"] is None
    assert shown["turns"] == []


def test_an_unchanged_mcp_failure_is_told_once() -> None:
    failed = {"name": "docs", "status": "failed", "errorMessage": "refused"}
    sign_in = {"name": "mail", "status": "failed", "failedAuthorization": True}
    state = state_after(
        McpServersReplaced([failed, sign_in]), McpServersReplaced([failed, sign_in]), McpServersReplaced([sign_in, failed])
    )
    titles = [notice["title"] for notice in state.to_json()["notices"]]
    assert titles == ['MCP server "docs" failed', 'MCP server "mail" needs you to sign in']
    state.apply([McpServersReplaced([{**failed, "errorMessage": "timed out"}, {"name": "mail", "status": "connected"}])])
    state.apply([McpServersReplaced([sign_in])])
    titles = [notice["title"] for notice in state.to_json()["notices"]]
    assert titles[2:] == ['MCP server "docs" failed', 'MCP server "mail" needs you to sign in']
    assert [server["name"] for server in state.to_json()["mcp"]] == ["mail"]


def test_compaction_keeps_what_is_known_and_appends_its_summary() -> None:
    state = state_after(
        CompactionChanged("k", "in_progress"),
        CompactionChanged("k", summary_text="so "),
        CompactionChanged("k", summary_text="far"),
        CompactionChanged("k", "completed"),
    )
    assert state.to_json()["compactions"] == [{"compactionId": "k", "status": "completed", "summaryText": "so far"}]


def test_steering_is_followed_by_message_id_and_settled_text_goes_with_the_next_turn() -> None:
    state = state_after(
        START,
        SteeringChanged("queued", ["s1"], "left"),
        SteeringChanged("queued", ["s2"], "right"),
        SteeringChanged("injected", ["s1"]),
        SteeringChanged("dropped", ["s9"], "lost"),
    )
    assert state.to_json()["steering"] == [
        {"state": "injected", "messageId": "s1", "text": "left"},
        {"state": "queued", "messageId": "s2", "text": "right"},
        {"state": "dropped", "messageId": "s9", "text": "lost"},
    ]
    state.apply([END, TurnStarted("t2", "next")])
    assert [item["messageId"] for item in state.to_json()["steering"]] == ["s2"]


def test_notices_and_unknown_updates_keep_what_came() -> None:
    raw: dict[str, Any] = {"sessionUpdate": "odd", "text": "\ud83d", "number": float("inf"), "_meta": {"a": 1}}
    state = state_after(START, NoticeAdded("odd word", "Look", "there", "kiro", {"m": 1}), UnknownUpdate("odd", raw))
    assert state.to_json()["turns"][0]["parts"][0]["raw"] == raw
    (notice,) = state.to_json()["notices"]
    assert {**notice, "noticeId": ""} == {
        "noticeId": "",
        "severity": "odd word",
        "title": "Look",
        "description": "there",
        "source": "kiro",
        "meta": {"m": 1},
    }


def test_an_unknown_update_too_deep_for_json_is_kept_as_it_is() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    state = state_after(UnknownUpdate("odd", {"deep": deep}), ToolCallChanged("c", {"raw_input": deep}))
    parts = state.conversation.turns[0].parts
    assert len(parts) == 2


def test_history_pages_backwards() -> None:
    state = state_after(*(TurnStarted(f"t{number}", str(number)) for number in range(7)))
    snapshot = state.to_json(turns=3)
    assert [turn["turnId"] for turn in snapshot["turns"]] == ["t4", "t5", "t6"]
    page = state.history(snapshot["before"], 3)
    assert [turn["turnId"] for turn in page["turns"]] == ["t1", "t2", "t3"]
    page = state.history(page["before"], 3)
    assert [turn["turnId"] for turn in page["turns"]] == ["t0"]
    assert "before" not in page
    assert [turn["turnId"] for turn in state.history("no such turn", 1)["turns"]] == ["t6"]


def test_big_strings_of_tool_content_come_back_as_they_were() -> None:
    content = [{"type": "diff", "path": "a", "oldText": None, "newText": "é\ud83d" * 5000}]
    state = state_after(START, ToolCallChanged("c", {"content": content}))
    assert isinstance(state.conversation.tool_parts["c"].fields["content"][0]["newText"], bytes)
    assert state.to_json()["turns"][0]["parts"][0]["toolCall"]["content"] == content


def test_sessions_share_nothing() -> None:
    first, second = SessionState(), SessionState()
    first.apply([START, agent("a"), UsageChanged({"used": 1})])
    assert second.to_json()["turns"] == []
    assert second.to_json()["usage"] == {}
