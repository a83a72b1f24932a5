"""Kiro's envelopes: read when they are well formed, nothing when they are not, and never a reason for the message to fail."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.acp import kiro_v2, kiro_v3
from sidecar.acp.kiro_v3 import (
    failure_reason,
    kiro_meta,
    read_capabilities,
    read_consent,
    read_mcp_tool,
    without_sign_in_urls,
)
from sidecar.codec import ABSENT, converter

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)

ANNOUNCED: dict[str, Any] = {
    "loadSession": True,
    "_meta": {
        "kiro": {
            "checkpoints": True,
            "extensionMethods": ["_kiro/session/context", "_kiro/session/compact"],
            "sessionSources": ["local", "remote"],
            "sessionListScopes": ["workspace"],
            "executionTargets": ["local"],
            "sourceProviders": False,
            "replayMarking": True,
            "logging": {"logDir": "/l", "channels": [{"name": "kiro", "filePath": "/l/kiro.log"}]},
            "somethingNew": {"a": 1},
        }
    },
}


def test_v3_is_known_by_what_it_announces_and_every_announced_value_is_kept() -> None:
    found = read_capabilities(ANNOUNCED)
    assert found is not None
    assert found.methods == ("_kiro/session/context", "_kiro/session/compact")
    assert found.session_sources == ("local", "remote")
    assert found.source_providers is False
    assert found.replay_marking is True
    assert found.extra == {"somethingNew": {"a": 1}}
    assert converter().unstructure(found) == ANNOUNCED["_meta"]["kiro"]


@pytest.mark.parametrize("capabilities", [None, {}, {"_meta": None}, {"_meta": {"kiro": {}}}, {"_meta": {"kiro": []}}, [], "x"])
def test_without_the_marker_it_is_not_v3(capabilities: object) -> None:
    assert read_capabilities(capabilities) is None


def test_a_malformed_list_of_methods_is_v3_with_none() -> None:
    found = read_capabilities({"_meta": {"kiro": {"extensionMethods": "all"}}})
    assert found is not None
    assert found.methods == ()


def test_a_consent_is_read_with_what_it_adds() -> None:
    consent: dict[str, Any] = {
        "capability": "shell",
        "resource": "echo hello",
        "askType": "implicit",
        "triggeringResource": "echo hello",
        "workspaceRoot": "/ws",
        "persistableConsent": False,
        "persistableConsentReason": "too wide",
        "matchedRule": {"r": 1},
        "new": 1,
    }
    found = read_consent({"consent": consent})
    assert found is not None
    assert (found.capability, found.resource, found.workspace_root) == ("shell", "echo hello", "/ws")
    assert found.persistable_consent is False
    assert converter().unstructure(found) == consent


@pytest.mark.parametrize("consent", [None, [], {}, {"capability": "shell"}, {"capability": 1, "resource": "x"}])
def test_a_consent_that_cannot_be_read_is_none(consent: object) -> None:
    assert read_consent({"consent": consent}) is None


def test_absent_hints_of_an_mcp_tool_stay_absent_and_false_stays_false() -> None:
    identity = {"serverName": "docs", "toolName": "search"}
    with_hints = read_mcp_tool(
        {"mcpTool": {"version": 1, "identity": identity, "annotations": {"readOnlyHint": False, "x": "y"}}}
    )
    without = read_mcp_tool({"mcpTool": {"version": 1, "identity": identity}})
    assert with_hints is not None
    assert without is not None
    assert with_hints.hints() == {"readOnlyHint": False}
    assert without.hints() is None
    assert without.annotations is ABSENT


@pytest.mark.parametrize(
    "envelope",
    [
        {"version": 2, "identity": {"serverName": "a", "toolName": "b"}},
        {"version": "1", "identity": {"serverName": "a", "toolName": "b"}},
        {"version": True, "identity": {"serverName": "a", "toolName": "b"}},
        {"identity": {"serverName": "a", "toolName": "b"}},
        {"version": 1, "identity": {"serverName": "a"}},
        {"version": 1},
        None,
        [],
    ],
)
def test_another_version_or_shape_of_the_mcp_envelope_is_ignored(envelope: object) -> None:
    assert read_mcp_tool({"mcpTool": envelope}) is None


@pytest.mark.parametrize(
    ("kiro", "reason"),
    [
        ({}, None),
        ({"failureReason": "cancelled"}, "cancelled"),
        ({"failureReason": "denied"}, "denied"),
        ({"failureReason": "error"}, "error"),
        ({"failureReason": "solar_flare"}, "error"),
        ({"failureReason": {"kind": "x"}}, "error"),
        ({"failureReason": None, "policyDenial": {"rule": "r"}}, "denied"),
        ({"policyDenial": "no"}, "denied"),
        ({"refusal": True}, "denied"),
        ({"policyDenial": None, "refusal": False}, None),
        ({"failureReason": "cancelled", "policyDenial": "no"}, "cancelled"),
    ],
)
def test_why_a_tool_failed_has_a_fallback_and_an_unknown_word_is_a_plain_failure(
    kiro: dict[str, Any], reason: str | None
) -> None:
    assert failure_reason(kiro) == reason


@given(JSON)
def test_no_envelope_makes_a_reader_raise(value: object) -> None:
    carrier = {"_meta": {"kiro": value}}
    for kiro in (kiro_meta(carrier), kiro_meta({"_meta": value}), kiro_meta(value)):
        read_consent(kiro)
        read_mcp_tool(kiro)
        failure_reason(kiro)
    read_capabilities(carrier)
    read_capabilities(value)
    kiro_v2.trust_options(kiro_meta(carrier))
    kiro_v2.read_mcp_identity(kiro_meta(carrier))


def test_sign_in_addresses_are_dropped_however_deep_and_nothing_else_is() -> None:
    body = {
        "servers": [
            {"name": "a", "authorizationUrl": "https://x", "origin": [{"oauthUrl": 1, "kept": {"AuthorizationURL": 2, "url": 3}}]}
        ],
        "oauth_url": None,
    }
    assert without_sign_in_urls(body) == {"servers": [{"name": "a", "origin": [{"kept": {"url": 3}}]}]}


def test_flat_v2_identity_and_annotations_are_found_in_meta_or_its_kiro() -> None:
    identity = {"serverName": "s", "toolName": "t"}
    for meta in (
        {"mcpToolIdentity": identity, "mcpAnnotations": {"a": True}},
        {"kiro": {"mcpToolIdentity": identity, "mcpAnnotations": {"a": True}}},
    ):
        found = kiro_v2.read_mcp_identity(meta)
        assert found is not None
        assert (found.server_name, found.tool_name) == ("s", "t")
        assert kiro_v2.read_mcp_annotations(meta) == {"a": True}
    assert kiro_v2.read_mcp_identity({"mcpToolIdentity": "docs"}) is None
    assert kiro_v2.read_mcp_annotations({}) is None


def test_v2_trust_options_are_kept_as_offered() -> None:
    assert kiro_v2.trust_options({"trustOptions": [{"id": 1}, 3, {"id": 2}]}) == ({"id": 1}, {"id": 2})
    assert kiro_v2.trust_options({"trustOptions": {}}) == ()


def test_addresses_and_secrets_of_private_requests_show_in_no_repr() -> None:
    made = converter()
    shown = [
        made.structure({"url": "https://sentinel"}, kiro_v3.OpenExternalUrl),
        made.structure({"key": "k", "value": "sentinel"}, kiro_v3.SecretKey),
        made.structure({"elicitation": {"url": "https://sentinel"}}, kiro_v3.McpElicitation),
    ]
    assert "sentinel" not in repr(shown)


def test_the_tables_name_each_private_method_once_with_its_shape() -> None:
    assert kiro_v3.FROM_AGENT["_kiro/mcp/status"].params is kiro_v3.McpStatus
    assert kiro_v3.FROM_AGENT["_kiro/openExternalUrl"].needs == "openExternalUrl"
    assert all(name == row.name and name.startswith("_kiro/") for name, row in kiro_v3.FROM_AGENT.items())
    assert kiro_v3.TO_AGENT["_kiro/mcp/resetServer"] == ("serverName", "startOAuth")
