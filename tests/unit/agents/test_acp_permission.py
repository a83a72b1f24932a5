"""A permission request becomes a question: options exactly as offered, everything in full, the stub joined with what is known."""

from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.agents.acp_translate import UnreadableRequest, read_permission
from sidecar.session.interaction import Consent, McpTool, PermissionOption

OPTIONS = [
    {"optionId": "accept", "name": "Allow", "kind": "allow_once"},
    {"optionId": "always-accept", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "reject", "name": "Deny", "kind": "reject_once"},
]
CONSENT = {
    "capability": "shell",
    "resource": "echo hello",
    "askType": "implicit",
    "triggeringResource": "echo hello",
    "workspaceRoot": "/ws",
}


def request(call: dict[str, Any] | None = None, kiro: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    params: dict[str, Any] = {"sessionId": "s", "toolCall": {"toolCallId": "t", **(call or {})}, "options": OPTIONS, **members}
    return params if kiro is None else {**params, "_meta": {"kiro": kiro}}


def test_a_request_of_kiro_v3_is_read_in_full() -> None:
    kiro = {"toolId": "run_command", "command": "echo hello", "consent": CONSENT, "consentRound": 2}
    body = read_permission(request({"status": "pending", "title": "echo hello"}, kiro), workspace_is_session=True)
    assert body.tool_call_id == "t"
    assert body.title == body.command == "echo hello"
    assert body.consent == Consent(
        capability="shell",
        resource="echo hello",
        triggering_resource="echo hello",
        workspace_root="/ws",
        scopes=("session", "workspace", "user"),
        round=2,
    )
    assert body.meta == {"kiro": kiro}


def test_the_scope_workspace_is_offered_only_when_the_root_is_the_sessions_own() -> None:
    body = read_permission(request(kiro={"consent": CONSENT}), workspace_is_session=False)
    assert body.consent is not None
    assert body.consent.scopes == ("session", "user")


def test_options_are_exactly_as_offered_with_equal_kinds_and_strange_ones() -> None:
    offered: list[Any] = [
        {"optionId": "a", "name": "For this session", "kind": "allow_always"},
        {"optionId": "b", "name": "For ever", "kind": "allow_always", "_meta": {"x": 1}},
        {"optionId": "", "name": "", "kind": "shrug"},
        {"optionId": "c"},
        {"name": "no id", "kind": "allow_once"},
        7,
    ]
    assert read_permission(request(options=offered)).options == [
        PermissionOption("a", "For this session", "allow_always"),
        PermissionOption("b", "For ever", "allow_always", {"x": 1}),
        PermissionOption("", "", "shrug"),
        PermissionOption("c", "c", ""),
    ]


def test_what_the_stub_leaves_out_comes_from_what_is_known() -> None:
    diff = {"type": "diff", "path": "file:///ws/a", "oldText": "", "newText": "n"}
    known = {"title": "Write", "kind": "edit", "content": [diff], "raw_input": {"command": "c"}, "locations": [{"path": "/ws/b"}]}
    body = read_permission(request({"status": "pending"}), known)
    assert (body.title, body.tool_kind, body.diff, body.path, body.command) == ("Write", "edit", diff, "file:///ws/a", "c")
    assert body.raw_input == {"command": "c"}
    own = read_permission(
        request({"title": "New", "kind": "execute", "content": [], "rawInput": {"command": ["ls", "a b"]}}), known
    )
    assert (own.title, own.tool_kind, own.command, own.diff) == ("New", "execute", "ls 'a b'", diff)


def test_a_request_for_a_call_never_announced_stands_on_its_own() -> None:
    body = read_permission(request({"kind": "read", "locations": [{"path": "/a"}, {"path": "/b"}, {"path": "/a"}]}), None)
    assert (body.title, body.tool_kind, body.path, body.command, body.diff) == ("t", "read", "/a, /b", None, None)


def test_of_several_diffs_none_goes_unseen() -> None:
    diffs = [{"type": "diff", "path": path, "newText": path} for path in ("a", "b")]
    body = read_permission(request({"content": [{"type": "content", "content": {}}, *diffs]}))
    assert body.diff == {**diffs[0], "more": [diffs[1]]}
    assert body.path == "a, b"


def test_the_path_of_a_tools_input_and_the_files_of_a_turn_are_found() -> None:
    assert read_permission(request({"rawInput": {"file_path": "/x"}})).path == "/x"
    assert read_permission(request(kiro={"type": "turn_approval", "files": ["/a", "/b"]})).path == "/a, /b"


@pytest.mark.parametrize(
    ("consent", "persistable", "reason"),
    [
        ({}, True, None),
        ({"persistableConsent": True}, True, None),
        ({"persistableConsent": None}, True, None),
        ({"persistableConsent": False, "persistableConsentReason": "wide"}, False, "wide"),
    ],
)
def test_only_an_explicit_false_makes_a_consent_unpersistable(
    consent: dict[str, Any], persistable: bool, reason: str | None
) -> None:
    found = read_permission(request(kiro={"consent": {**CONSENT, **consent}})).consent
    assert found is not None
    assert (found.persistable, found.persistable_reason) == (persistable, reason)


@pytest.mark.parametrize(
    ("kiro", "compound"),
    [
        ({"consent": CONSENT}, False),
        ({"consent": {**CONSENT, "resource": "npm test && rm -rf ~"}}, True),
        ({"consent": CONSENT, "command": "echo hello; curl x | sh"}, True),
        ({"consent": {**CONSENT, "capability": "fs_write", "resource": "a (1).txt"}}, False),
    ],
)
def test_compound_shell_text_is_marked_whether_it_stands_in_the_resource_or_the_command(
    kiro: dict[str, Any], compound: bool
) -> None:
    found = read_permission(request(kiro=kiro)).consent
    assert found is not None
    assert found.compound is compound


@pytest.mark.parametrize("consent", [None, [], {}, {"capability": "shell"}, {"resource": "x"}])
def test_a_consent_that_cannot_be_read_is_no_consent(consent: object) -> None:
    assert read_permission(request(kiro={"consent": consent, "consentRound": True})).consent is None


@pytest.mark.parametrize("place", ["request", "call"])
def test_the_mcp_envelope_is_found_at_the_request_or_its_tool_call(place: str) -> None:
    kiro = {"mcpTool": {"version": 1, "identity": {"serverName": "s", "toolName": "t"}, "annotations": {"readOnlyHint": False}}}
    params = request(kiro=kiro) if place == "request" else request({"_meta": {"kiro": kiro}})
    assert read_permission(params).mcp_tool == McpTool("s", "t", {"readOnlyHint": False})


def test_another_version_of_the_envelope_is_ignored_and_v2_keys_are_the_fallback() -> None:
    identity = {"serverName": "s", "toolName": "t"}
    assert read_permission(request(kiro={"mcpTool": {"version": 2, "identity": identity}})).mcp_tool is None
    flat = request(_meta={"mcpToolIdentity": identity})
    assert read_permission(flat).mcp_tool == McpTool("s", "t", None)


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({}, "RequestPermission.toolCall is missing"),
        ({"toolCall": {}, "options": []}, "toolCallId is missing"),
        ({"toolCall": {"toolCallId": "t"}}, "RequestPermission.options is missing"),
        ({"toolCall": {"toolCallId": "t"}, "options": None}, "RequestPermission.options must be an array"),
    ],
)
def test_a_request_that_cannot_be_shown_says_what_it_lacks(params: dict[str, Any], reason: str) -> None:
    with pytest.raises(UnreadableRequest, match=reason):
        read_permission(params)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "toolCallId",
                    "title",
                    "content",
                    "rawInput",
                    "command",
                    "kiro",
                    "consent",
                    "capability",
                    "resource",
                    "files",
                    "path",
                    "type",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=200)
@given(JSON, JSON, JSON, st.dictionaries(st.sampled_from(["title", "kind", "content", "raw_input", "locations"]), JSON))
def test_whatever_a_request_holds_it_is_read_or_refused(call: Any, options: Any, meta: Any, known: dict[str, Any]) -> None:
    stub: Any = {"toolCallId": "t", **cast("dict[str, Any]", call)} if isinstance(call, dict) else call
    try:
        body = read_permission({"toolCall": stub, "options": options, "_meta": meta}, known)
    except UnreadableRequest as error:
        reason = str(error)
        assert reason
    else:
        assert body.tool_call_id == "t" or isinstance(body.tool_call_id, str)
