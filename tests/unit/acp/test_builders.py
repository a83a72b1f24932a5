"""What we send always fits the schema of protocol 1, whatever the values."""

import functools
import json
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.acp import build
from sidecar.acp.kiro_v3 import consent_reply, list_meta, session_meta
from tests.conftest import shared_path

Validate: TypeAlias = Callable[[str, object], None]

TEXT = st.text(max_size=12)
NAMES = st.text(min_size=1, max_size=8)
PAIRS = st.lists(st.fixed_dictionaries({"name": NAMES, "value": TEXT}), max_size=2)
SERVERS = st.lists(
    st.fixed_dictionaries({"name": NAMES, "command": NAMES}, optional={"args": st.lists(TEXT), "env": PAIRS})
    | st.fixed_dictionaries({"type": st.sampled_from(["http", "sse"]), "name": NAMES, "url": NAMES}, optional={"headers": PAIRS}),
    max_size=3,
)
DIRECTORIES = st.none() | st.lists(NAMES, max_size=2)
BLOCKS = st.lists(
    st.fixed_dictionaries({"type": st.just("text"), "text": TEXT})
    | st.fixed_dictionaries({"type": st.just("resource_link"), "uri": NAMES, "name": TEXT}),
    max_size=3,
)


@functools.cache
def schemas() -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(shared_path("acp", "v1", "schema.json").read_text(encoding="utf-8")))


@functools.cache
def unstable() -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(shared_path("acp", "v1", "schema.unstable.json").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def fits() -> Validate:
    """Return a check that a value fits a named type of the schema, which must be a real constraint."""
    shared_path("acp", "v1", "schema.json")

    def validate(name: str, value: object) -> None:
        source = schemas() if name in schemas()["$defs"] else unstable()
        validator: Any = jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": source["$defs"]})
        errors = [error.message for error in validator.iter_errors(json.loads(json.dumps(value)))]
        assert not errors

    return validate


@settings(max_examples=40)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            key: st.booleans() for key in ("kiro", "form", "url", "terminal_auth", "read_files", "write_files", "terminal")
        },
    )
)
def test_initialize_fits_whatever_is_offered(fits: Validate, offers: dict[str, bool]) -> None:
    params = build.initialize(**cast("Any", offers))
    fits("InitializeRequest", params)
    declared = params["clientCapabilities"]
    assert ("elicitation" in declared) == (offers.get("form", False) or offers.get("url", False))
    assert ("_meta" in declared) == offers.get("kiro", False)
    assert declared["fs"]["writeTextFile"] == offers.get("write_files", False)


@settings(max_examples=40)
@given(NAMES, SERVERS, DIRECTORIES, st.none() | NAMES, st.booleans())
def test_session_requests_always_carry_cwd_and_servers(
    fits: Validate, cwd: str, servers: list[dict[str, Any]], directories: list[str] | None, wish: str | None, flag: bool
) -> None:
    new = build.new_session(cwd, servers, directories, mode_id=wish, model_id=wish, execution_target=wish)
    load = build.load_session("s", cwd, servers, directories, no_replay=flag, session_source=wish)
    fork = build.fork_session("s", cwd, servers, directories, message_id=wish)
    fits("NewSessionRequest", new)
    fits("LoadSessionRequest", load)
    fits("ResumeSessionRequest", load)
    fits("ForkSessionRequest", fork)
    for params in (new, load, fork):
        assert params["cwd"] == cwd
        assert len(params["mcpServers"]) == len(servers)
        assert ("additionalDirectories" in params) == (directories is not None)
        assert all("headers" in server or ("args" in server and "env" in server) for server in params["mcpServers"])


@settings(max_examples=40)
@given(NAMES, BLOCKS, TEXT, st.booleans())
def test_the_other_requests_fit(fits: Validate, name: str, blocks: list[dict[str, Any]], text: str, flag: bool) -> None:
    fits("PromptRequest", build.prompt(name, blocks))
    fits("CancelNotification", build.cancel(name))
    fits("CloseSessionRequest", build.close_session(name))
    fits("DeleteSessionRequest", build.delete_session(name))
    fits("SetSessionModeRequest", build.set_mode(name, text))
    fits("SetSessionConfigOptionRequest", build.set_config_option(name, text, text))
    fits("SetSessionConfigOptionRequest", build.set_config_option(name, text, flag))
    fits("ListSessionsRequest", build.list_sessions(name, text, scope=text, source=text))
    fits("ListSessionsRequest", build.list_sessions())
    fits("AuthenticateRequest", build.authenticate(name))
    fits("LogoutRequest", build.logout())
    fits("CancelRequestNotification", build.cancel_request(name))
    fits("CancelRequestNotification", build.cancel_request(0))


@settings(max_examples=40)
@given(NAMES, TEXT, st.none() | st.integers(-9, 300), st.none() | NAMES, st.booleans())
def test_every_answer_to_the_agent_fits(
    fits: Validate, name: str, text: str, code: int | None, signal: str | None, flag: bool
) -> None:
    status = build.exit_status(code, signal)
    fits("RequestPermissionResponse", build.permission_cancelled())
    fits("RequestPermissionResponse", build.permission_selected(name, outcome_meta={"a": 1}, meta={"b": 2}))
    fits("RequestPermissionResponse", consent_reply(name, scope="workspace", resource=text, workspace_root=name))
    for action in ("accept", "decline", "cancel"):
        fits("CreateElicitationResponse", build.elicitation(cast("Any", action), {"field": text}))
    fits("ReadTextFileResponse", build.file_content(text))
    fits("WriteTextFileResponse", build.empty())
    fits("CreateTerminalResponse", build.terminal_created(name))
    fits("WaitForTerminalExitResponse", status)
    fits("TerminalOutputResponse", build.terminal_output(text, truncated=flag, status=status))
    fits("TerminalOutputResponse", build.terminal_output(text, truncated=flag))
    fits("KillTerminalResponse", build.empty())
    fits("ReleaseTerminalResponse", build.empty())


def test_the_check_itself_refuses_what_does_not_fit(fits: Validate) -> None:
    with pytest.raises(AssertionError):
        fits("NewSessionRequest", {"cwd": "/w"})
    with pytest.raises(AssertionError):
        fits("RequestPermissionResponse", {"outcome": {"outcome": "allowed"}})


def test_a_declined_form_carries_no_content() -> None:
    assert build.elicitation("decline", {"password": "x"}) == {"action": "decline"}
    assert build.elicitation("accept", {"a": 1}) == {"action": "accept", "content": {"a": 1}}


def test_lists_a_server_entry_lacks_are_added_and_the_rest_stays() -> None:
    assert build.mcp_server({"name": "n", "command": "c", "args": None}) == {"name": "n", "command": "c", "args": [], "env": []}
    assert build.mcp_server({"type": "http", "name": "n", "url": "u", "_meta": {"k": 1}}) == {
        "type": "http",
        "name": "n",
        "url": "u",
        "headers": [],
        "_meta": {"k": 1},
    }


def test_kiro_wishes_go_under_its_own_key_and_nothing_is_sent_for_nothing() -> None:
    assert build.new_session("/w") == {"cwd": "/w", "mcpServers": []}
    assert build.new_session("/w", mode_id="vibe", model_id=None, effort_level="high")["_meta"] == {
        "kiro": {"modeId": "vibe", "effortLevel": "high"}
    }
    assert session_meta(execution_target="cloud-sandbox", session_source="remote") == {
        "kiro": {"executionTarget": {"kind": "cloud-sandbox"}, "sessionSource": "remote"}
    }
    assert session_meta(no_replay=True) == {"kiro": {"noReplay": True}}
    assert session_meta(no_replay=False, message_id=None) is None
    assert list_meta("both", None) == {"kiro": {"listScope": "both"}}
    assert list_meta(None, None) is None


def test_a_persistent_answer_carries_the_same_consent_in_both_places() -> None:
    consent = {"scope": "workspace", "resource": "npm run *", "workspaceRoot": "/ws"}
    assert consent_reply("always-accept", scope="workspace", resource="npm run *", workspace_root="/ws") == {
        "outcome": {"outcome": "selected", "optionId": "always-accept", "_meta": {"kiro": {"consent": consent}}},
        "_meta": {"kiro": {"consent": consent}},
    }
    assert consent_reply("a", scope="session", resource="x")["_meta"]["kiro"]["consent"] == {"scope": "session", "resource": "x"}


def test_kiro_is_asked_only_for_addresses_and_its_file_details_are_never_declared() -> None:
    declared = build.client_capabilities(kiro=True, read_files=True)
    assert declared["_meta"] == {"kiro": {"openExternalUrl": True}}
    assert declared["fs"] == {"readTextFile": True, "writeTextFile": False}
