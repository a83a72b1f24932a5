"""A form takes what its schema allows, names the field that does not fit, and never a secret."""

import contextlib
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.errors import EditorFault
from sidecar.session.forms import asks_for_secret, check_content, schema_json

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 5},
        "mail": {"type": "string", "format": "email"},
        "site": {"type": "string", "format": "uri"},
        "day": {"type": "string", "format": "date"},
        "when": {"type": "string", "format": "date-time"},
        "code": {"type": "string", "pattern": "^[a-z]+$"},
        "color": {"type": "string", "enum": ["red", "blue"]},
        "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "ratio": {"type": "number", "minimum": 0},
        "sure": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}, "minItems": 1, "maxItems": 2},
        "titled": {"type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}]}},
        "odd": {"type": "color-picker"},
        "password": {"type": "string"},
    },
    "required": ["name", "no such property"],
}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"mail": "a@b.example", "site": "https://x.example/", "day": "2026-02-28", "when": "2026-02-28T10:00:00Z"},
        {"code": "abc", "color": "red", "size": "l", "count": 9, "ratio": 0.5, "sure": False},
        {"count": 3.0, "tags": ["a", "c"], "titled": ["x"], "mail": None},
    ],
)
def test_fitting_content_is_taken(fields: dict[str, Any]) -> None:
    content = check_content(SCHEMA, {"name": "Ada", **fields})
    assert content == {key: value for key, value in {"name": "Ada", **fields}.items() if value is not None}
    assert not isinstance(content.get("count"), float)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("name", "A", "at least 2 characters"),
        ("name", "Adalbert", "at most 5 characters"),
        ("name", 5, "takes text"),
        ("mail", "nobody", "valid email"),
        ("site", "not a uri", "valid uri"),
        ("day", "2026-02-30", "valid date"),
        ("day", "20260228", "valid date"),
        ("when", "2026-02-28", "valid date-time"),
        ("code", "ABC", "must match"),
        ("color", "green", "one of: red, blue"),
        ("size", "m", "one of: s, l"),
        ("count", 0, "at least 1"),
        ("count", 10, "at most 9"),
        ("count", 1.5, "whole number"),
        ("count", True, "whole number"),
        ("ratio", "1", "takes a number"),
        ("ratio", float("nan"), "takes a number"),
        ("ratio", False, "takes a number"),
        ("sure", "yes", "true or false"),
        ("tags", "a", "list of: a, b, c"),
        ("tags", ["d"], "list of: a, b, c"),
        ("tags", [["a"]], "list of: a, b, c"),
        ("tags", ["a", "a"], "each choice once"),
        ("tags", [], "at least 1"),
        ("tags", ["a", "b", "c"], "at most 2"),
        ("odd", "x", "cannot be answered here"),
        ("password", "hunter2", "secret"),
        ("unknown\u202e", "x", "no field unknown\\u{202e}"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_name_of_the_field(field: str, value: Any, says: str) -> None:
    with pytest.raises(EditorFault) as refused:
        check_content(SCHEMA, {"name": "Ada", field: value})
    assert says in refused.value.message
    assert "hunter2" not in refused.value.message


@pytest.mark.parametrize("content", [None, "x", [], 5])
def test_content_must_be_an_object(content: Any) -> None:
    with pytest.raises(EditorFault, match="must be an object"):
        check_content(SCHEMA, content)


def test_a_required_field_must_be_given() -> None:
    with pytest.raises(EditorFault, match="needs a value for: name"):
        check_content(SCHEMA, {"color": "red"})


@pytest.mark.parametrize(
    ("name", "prop", "secret"),
    [
        ("password", {"type": "string"}, True),
        ("dbPassword", {"type": "string"}, True),
        ("api_key", {"type": "string"}, True),
        ("x", {"type": "string", "title": "Access token"}, True),
        ("x", {"type": "string", "title": "Your API key"}, True),
        ("x", {"type": "string", "format": "password"}, True),
        ("x", {"type": "string", "writeOnly": True}, True),
        ("GITHUB_TOKEN", {"type": "string"}, True),
        ("max_tokens", {"type": "string"}, False),
        ("token_limit", {"type": "string"}, False),
        ("token", {"type": "integer"}, False),
        ("secret", {"type": "string", "enum": ["yes", "no"]}, False),
        ("keyboard", {"type": "string"}, False),
        ("branch", {"type": "string", "title": 5}, False),
        ("", {"type": "string"}, False),
    ],
)
def test_fields_for_secrets_are_recognised(name: str, prop: dict[str, Any], secret: bool) -> None:
    assert asks_for_secret(name, prop) is secret


@pytest.mark.parametrize("pattern", ["(a+)+$", "^(([a-z])+.)+$", "[a-z]+[a-z]+[a-z]+$", "a{1,99999999999}", "[", "(?P<x"])
def test_a_hostile_pattern_neither_hangs_nor_crashes(pattern: str) -> None:
    started = time.monotonic()
    check_content(
        {"properties": {"x": {"type": "string", "pattern": pattern}}}, {"x": "a" * 900 + "!"} if pattern != "[" else {"x": "a"}
    )
    assert time.monotonic() - started < 2


JUNK: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["type", "properties", "required", "enum", "oneOf", "items", "anyOf", "title", "minLength", "x"]),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["type", "properties", "required", "title"]), JUNK, max_size=4), JUNK)
def test_no_schema_and_no_content_makes_anything_but_a_refusal(schema: dict[str, Any], content: Any) -> None:
    schema_json(schema)
    with contextlib.suppress(EditorFault):
        assert isinstance(check_content(schema, content), dict)


def test_the_schema_is_shown_neutralised_and_its_values_stay_as_sent() -> None:
    shown = schema_json(
        {
            "title": "T\u202e",
            "x-unknown": [1],
            "properties": {
                "na\u200bme": {"type": "string", "description": "a\nb\x07", "default": "x\u202e"},
                "pick": {"type": "string", "enum": ["ok", "ev\u202eil"], "default": "ok"},
                "many": {"type": "array", "items": {"anyOf": [{"const": "x", "title": "X\x1b"}, "junk"]}},
                "password": {"type": "string", "default": "guess"},
                "odd": {"type": "color-picker", "x": 1},
            },
            "required": ["pick", "gone"],
        }
    )
    fields = shown["properties"]
    assert shown["title"] == "T\\u{202e}"
    assert shown["x-unknown"] == [1]
    assert shown["required"] == ["pick"]
    assert fields["na\u200bme"] == {"type": "string", "description": "a\nb\\u{7}", "title": "na\\u{200b}me"}
    assert fields["pick"]["oneOf"] == [{"const": "ok", "title": "ok"}, {"const": "ev\u202eil", "title": "ev\\u{202e}il"}]
    assert fields["pick"]["default"] == "ok"
    assert fields["many"]["items"]["anyOf"] == [{"const": "x", "title": "X\\u{1b}"}]
    assert fields["password"] == {"type": "string", "secret": True}
    assert fields["odd"] == {"type": "color-picker", "x": 1, "answerable": False}
