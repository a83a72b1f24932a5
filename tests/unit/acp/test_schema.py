"""Reading what agents send: every type of the schema, every method, every word of a vocabulary, and writing it back whole."""

import functools
import json
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidecar.acp import schema as s
from sidecar.acp import schema_requests as r
from sidecar.acp import schema_updates as u
from sidecar.acp.methods import METHODS, announced
from sidecar.codec import ABSENT, BadShape, Unknown, Wire, converter
from tests.conftest import shared_path

STABLE_METHODS = {
    "initialize", "authenticate", "logout", "session/new", "session/load", "session/resume", "session/list", "session/delete",
    "session/close", "session/set_mode", "session/set_config_option", "session/prompt", "session/cancel", "session/update",
    "session/request_permission", "fs/read_text_file", "fs/write_text_file", "terminal/create", "terminal/output",
    "terminal/wait_for_exit", "terminal/kill", "terminal/release", "elicitation/create", "elicitation/complete",
    "$/cancel_request",
}  # fmt: skip

WIRE_NAMES: dict[str, Any] = {
    "InitializeResponse": s.InitializeResult,
    "NewSessionResponse": s.NewSessionResult,
    "LoadSessionResponse": s.SessionResult,
    "ResumeSessionResponse": s.SessionResult,
    "ListSessionsResponse": s.ListSessionsResult,
    "SetSessionConfigOptionResponse": s.SetConfigOptionResult,
    "PromptResponse": s.PromptResult,
    "AuthenticateResponse": s.EmptyResult,
    "SessionConfigOption": s.ConfigOption,
    "SessionModeState": s.SessionModeState,
    "SessionNotification": u.SessionNotification,
    "ContentBlock": u.ContentBlock,
    "ToolCallContent": u.ToolCallContent,
    "ToolCallLocation": u.ToolCallLocation,
    "PlanEntry": u.PlanEntry,
    "AvailableCommand": u.AvailableCommand,
    "RequestPermissionRequest": r.RequestPermission,
    "ReadTextFileRequest": r.ReadTextFile,
    "WriteTextFileRequest": r.WriteTextFile,
    "CreateTerminalRequest": r.CreateTerminal,
    "TerminalOutputRequest": r.TerminalRequest,
    "WaitForTerminalExitRequest": r.TerminalRequest,
    "KillTerminalRequest": r.TerminalRequest,
    "ReleaseTerminalRequest": r.TerminalRequest,
    "CreateElicitationRequest": r.Elicitation,
    "CompleteElicitationNotification": r.CompleteElicitation,
    "CancelRequestNotification": r.CancelRequest,
}


@functools.cache
def definitions() -> dict[str, Any]:
    path = shared_path("acp", "v1", "schema.json")
    return cast("dict[str, Any]", json.loads(path.read_text(encoding="utf-8"))["$defs"])


def values_of(node: dict[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
    """Return a strategy for values that fit a schema node; optional members come and go, strangers are added."""
    if "$ref" in node:
        return st.deferred(lambda: values_of(definitions()[node["$ref"].rsplit("/", 1)[1]], depth + 1))
    for key in ("anyOf", "oneOf"):
        if key in node:
            base = {name: value for name, value in node.items() if name != key}
            choices = [values_of(_joined(base, choice), depth) for choice in node[key]]
            return st.one_of(choices)
    if "allOf" in node:
        joined = {name: value for name, value in node.items() if name != "allOf"}
        for part in node["allOf"]:
            joined = _joined(joined, _resolved(part))
        return values_of(joined, depth)
    if "const" in node:
        return st.just(node["const"])
    if "enum" in node:
        return st.sampled_from(node["enum"])
    kinds: Any = node.get("type", "any")
    several = cast("list[str]", kinds) if isinstance(kinds, list) else [str(kinds)]
    return st.one_of([_of_kind(kind, node, depth) for kind in several])


def _resolved(node: dict[str, Any]) -> dict[str, Any]:
    return definitions()[node["$ref"].rsplit("/", 1)[1]] if "$ref" in node else node


def _joined(base: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    if not (base.keys() - {"description", "discriminator", "title", "default"}) and "$ref" in part:
        return part
    part = _resolved(part)
    if "allOf" in part:
        inner = {name: value for name, value in part.items() if name != "allOf"}
        for piece in part["allOf"]:
            inner = _joined(inner, _resolved(piece))
        part = inner
    joined = {**base, **part}
    if "properties" in base or "properties" in part:
        joined["properties"] = {**base.get("properties", {}), **part.get("properties", {})}
        joined["required"] = [*base.get("required", []), *part.get("required", [])]
        joined["type"] = "object"
    return joined


def _of_kind(kind: str, node: dict[str, Any], depth: int) -> st.SearchStrategy[Any]:
    if kind == "object":
        properties = node.get("properties", {})
        needed = {name: values_of(value, depth) for name, value in properties.items() if name in node.get("required", [])}
        optional = {name: values_of(value, depth) for name, value in properties.items() if name not in needed and name != "_meta"}
        optional |= {"_meta": st.none() | st.just({"kiro": {"x": 1}}), "stranger": st.integers(0, 1)}
        return st.fixed_dictionaries(needed, optional=optional)
    if kind == "array":
        return st.lists(values_of(node.get("items", {}), depth), max_size=1 if depth > 3 else 2)
    simple: dict[str, st.SearchStrategy[Any]] = {
        "string": st.text(max_size=5),
        "integer": st.integers(0, 99),
        "number": st.floats(0, 9),
        "boolean": st.booleans(),
        "null": st.none(),
    }
    return simple.get(kind, st.none() | st.just({"any": [1]}))


def test_the_table_holds_every_stable_method_and_one_unstable() -> None:
    assert {name for name, method in METHODS.items() if method.stable} == STABLE_METHODS
    assert {name for name, method in METHODS.items() if not method.stable} == {"session/fork"}


def test_the_table_is_the_schemas_own() -> None:
    meta = json.loads(shared_path("acp", "v1", "meta.json").read_text(encoding="utf-8"))
    sides = {"agentMethods": "client", "clientMethods": "agent", "protocolMethods": "both"}
    table = {name: sender for key, sender in sides.items() for name in meta[key].values()}
    assert {name: method.sender for name, method in METHODS.items() if method.stable} == table


@pytest.mark.parametrize("name", sorted(WIRE_NAMES))
def test_everything_the_schema_allows_is_read_and_written_back(name: str) -> None:
    cls = WIRE_NAMES[name]

    @settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow], database=None)
    @given(values_of(definitions()[name]))
    def check(value: dict[str, Any]) -> None:
        found = converter().structure(value, cls)
        assert converter().unstructure(found) == value

    check()


def test_every_update_kind_of_the_schema_has_a_class_that_reads_it() -> None:
    kinds = {
        part["properties"]["sessionUpdate"]["const"] for part in definitions()["SessionUpdate"]["oneOf"] if "properties" in part
    }
    tags = [cls.TAG for cls in vars(u).values() if isinstance(cls, type) and issubclass(cls, Wire) and cls.TAG is not None]
    assert kinds <= {tag[1] for tag in tags if tag[0] == "sessionUpdate"}

    @settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow], database=None)
    @given(values_of(definitions()["SessionUpdate"]))
    def check(value: dict[str, Any]) -> None:
        found = converter().structure({"sessionId": "s", "update": value}, u.SessionNotification)
        assert not isinstance(found.update, Unknown)

    check()


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        ("ToolKind", u.TOOL_KINDS),
        ("ToolCallStatus", u.TOOL_STATUSES),
        ("PlanEntryPriority", u.PLAN_PRIORITIES),
        ("PlanEntryStatus", u.PLAN_STATUSES),
        ("NoticeSeverity", u.NOTICE_SEVERITIES),
        ("CompactionStatus", u.COMPACTION_STATUSES),
        ("StopReason", s.STOP_REASONS),
        ("SessionConfigOptionCategory", s.CONFIG_CATEGORIES),
        ("PermissionOptionKind", r.PERMISSION_KINDS),
    ],
)
def test_the_vocabularies_are_the_schemas(definition: str, words: frozenset[str]) -> None:
    node = definitions()[definition]
    assert {part["const"] for part in node.get("oneOf", node.get("anyOf")) if "const" in part} == words


def test_an_initialize_result_of_kiro_v3_is_read_with_what_it_adds() -> None:
    frame = {
        "protocolVersion": 1,
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": True},
            "sessionCapabilities": {"list": {}, "fork": {"_meta": {"kiro": {"messageId": True}}}, "new_one": {}},
            "_meta": {"kiro": {"extensionMethods": ["_kiro/knowledge"]}},
        },
        "authMethods": [
            {"id": "aws-builder-id", "name": "AWS Builder ID"},
            {"id": "t", "name": "T", "type": "terminal", "args": ["login"]},
            {"id": "x", "type": "hologram"},
            {"name": "no id"},
        ],
    }
    result = converter().structure(frame, s.InitializeResult)
    assert s.is_true(result.capabilities.load_session)
    assert s.offered(result.capabilities.sessions.list)
    assert s.offered(result.capabilities.sessions.fork)
    assert not s.offered(result.capabilities.sessions.close)
    assert s.is_true(result.capabilities.mcp.http)
    assert not s.is_true(result.capabilities.prompts.audio)
    assert [type(method) for method in result.methods] == [s.AuthMethodAgent, s.AuthMethodTerminal, Unknown, Unknown]
    assert result.agent_info is ABSENT
    assert converter().unstructure(result) == frame


def test_a_minimal_initialize_result_means_nothing_is_offered() -> None:
    result = converter().structure({"protocolVersion": 1}, s.InitializeResult)
    assert result.methods == ()
    assert not s.is_true(result.capabilities.load_session)
    assert not s.offered(result.capabilities.sessions.list)


@pytest.mark.parametrize(
    ("value", "expected"), [({}, True), (True, True), (None, False), (False, False), (ABSENT, False), ("x", False)]
)
def test_a_capability_is_offered_by_an_object_or_a_plain_true(value: object, expected: bool) -> None:
    assert s.offered(value) is expected


def test_a_capability_path_is_looked_up_in_what_was_announced() -> None:
    offered: dict[str, Any] = {"loadSession": True, "sessionCapabilities": {"list": {}, "close": None}, "auth": 3}
    assert announced(offered, "loadSession")
    assert announced(offered, "sessionCapabilities.list")
    for missing in ("sessionCapabilities.close", "sessionCapabilities.fork", "auth.logout", "other"):
        assert not announced(offered, missing)


@pytest.mark.parametrize(
    ("cls", "value", "reason"),
    [
        (s.InitializeResult, {}, "InitializeResult.protocolVersion is missing"),
        (s.InitializeResult, {"protocolVersion": "1"}, "InitializeResult.protocolVersion must be a whole number"),
        (s.NewSessionResult, {"modes": None}, "NewSessionResult.sessionId is missing"),
        (s.NewSessionResult, {"sessionId": 7}, "NewSessionResult.sessionId must be a string"),
        (s.ListSessionsResult, {"sessions": None}, "ListSessionsResult.sessions must be an array"),
        (s.PromptResult, [], "PromptResult must be an object"),
        (r.RequestPermission, {"toolCall": {}, "options": []}, "RequestPermission.toolCall ToolCallFields.toolCallId is missing"),
    ],
)
def test_a_result_that_cannot_be_used_is_refused_by_message_and_field(cls: type[Any], value: object, reason: str) -> None:
    with pytest.raises(BadShape, match=reason):
        converter().structure(value, cls)


def test_one_unreadable_session_does_not_hide_the_others() -> None:
    page = converter().structure(
        {"sessions": [{"sessionId": "a", "cwd": "/"}, {"cwd": "/"}, 3], "nextCursor": None}, s.ListSessionsResult
    )
    assert [session.session_id for session in page.readable()] == ["a"]
    assert page.next_cursor is None


def test_extras_of_a_prompt_result_stay_with_it() -> None:
    result = converter().structure(
        {"stopReason": "quota_gone", "usage": {"totalTokens": 3}, "_meta": {"quota": 1}}, s.PromptResult
    )
    assert (result.stop_reason, result.extra, result.meta) == ("quota_gone", {"usage": {"totalTokens": 3}}, {"quota": 1})


def test_config_options_of_any_kind_are_read_or_kept() -> None:
    flat = {"id": "m", "name": "M", "type": "select", "currentValue": "a", "options": [{"value": "a", "name": "A"}]}
    grouped = {**flat, "options": [{"group": "g", "name": "G", "options": [{"value": "a", "name": "A"}]}]}
    switch = {"id": "b", "name": "B", "type": "boolean", "currentValue": False}
    slider = {"id": "s", "name": "S", "type": "slider", "currentValue": 3}
    kind: Any = s.ConfigOption
    read: list[Any] = [converter().structure(option, kind) for option in (flat, grouped, switch, slider)]
    assert [type(option) for option in read] == [s.SelectConfig, s.SelectConfig, s.BooleanConfig, Unknown]
    assert [converter().unstructure(option) for option in read] == [flat, grouped, switch, slider]


def test_an_address_of_an_elicitation_shows_in_no_repr() -> None:
    kind: Any = r.Elicitation
    found = converter().structure({"mode": "url", "message": "m", "elicitationId": "e", "url": "https://sentinel-url"}, kind)
    assert isinstance(found, r.UrlElicitation)
    assert "sentinel" not in repr(found)
