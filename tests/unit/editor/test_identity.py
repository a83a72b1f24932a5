"""What an editor says of itself is read tolerantly; nothing in it can fail but capabilities that are no object."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.editor.identity import ClientInfo, read_client, reduced_params
from sidecar.errors import EditorFault

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "capabilities",
                    "experimental",
                    "sidecar",
                    "protocol",
                    "client",
                    "general",
                    "positionEncodings",
                    "clientInfo",
                    "name",
                    "commands",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def test_an_editor_that_says_nothing_is_plain() -> None:
    assert read_client({}) == ClientInfo()


@given(st.dictionaries(st.sampled_from(["capabilities", "clientInfo", "trace"]), json_values, max_size=3))
def test_no_params_whatever_fail_but_capabilities_that_are_no_object(params: dict[str, Any]) -> None:
    capabilities = params.get("capabilities")
    if capabilities is not None and not isinstance(capabilities, dict):
        with pytest.raises(EditorFault, match="capabilities"):
            read_client(params)
        return
    info = read_client(params)
    assert info.position_encoding in {"utf-8", "utf-16"}
    assert info.protocol in {None, 1}
    assert (info.protocol is not None) or not (info.changes or info.questions)
    assert set(reduced_params(info)) == {"processId", "rootUri", "capabilities"}


def test_a_capability_is_found_by_its_path_and_is_none_where_any_part_is_missing() -> None:
    info = read_client({"capabilities": {"window": {"showMessage": {"x": False}, "workDoneProgress": True}, "general": 7}})
    assert info.capability("window", "showMessage", "x") is False
    assert info.capability("window", "workDoneProgress") is True
    assert info.capability("window", "showDocument", "support") is None
    assert info.capability("general", "markdown") is None
    assert info.capability("workspace") is None


def test_what_the_editor_can_do_does_not_stand_in_a_repr() -> None:
    assert "secret" not in repr(read_client({"capabilities": {"x": "secret"}}))
