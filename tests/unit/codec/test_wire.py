"""The tolerant reader of wire classes: nothing a peer adds or gets wrong is lost, and only a missing necessity is an error."""

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.codec import ABSENT, Absent, BadShape, Unknown, Wire, converter


@attrs.frozen
class Circle(Wire):
    TAG: ClassVar = ("type", "circle")
    radius: float


@attrs.frozen
class Plain(Wire):
    TAG: ClassVar = ("type", None)
    name: str


@attrs.frozen
class Drawing(Wire):
    drawing_id: str
    shapes: tuple[Circle | Plain | Unknown, ...]
    line_count: int | Absent | None = ABSENT
    visible: bool | Absent = ABSENT
    raw_input: Any = ABSENT
    frame: Circle | Absent | None = ABSENT
    tags: tuple[str, ...] | Absent = ABSENT
    size: float | Absent = ABSENT
    limits: Mapping[str, Any] | Absent = ABSENT
    ratio: int | str | Absent = ABSENT


KEYS = [
    "drawingId",
    "shapes",
    "lineCount",
    "visible",
    "rawInput",
    "frame",
    "tags",
    "size",
    "limits",
    "ratio",
    "_meta",
    "type",
    "new",
]
SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-5, 5) | st.sampled_from(["", "circle", "square", "a"])
SHAPES = st.fixed_dictionaries(
    {}, optional={"type": st.sampled_from(["circle", "square"]) | SCALARS, "radius": SCALARS, "name": SCALARS, "_meta": SCALARS}
)
VALUES = st.recursive(SCALARS | SHAPES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=2))
DRAWINGS = st.fixed_dictionaries(
    {"drawingId": st.text(), "shapes": st.lists(SHAPES | VALUES, max_size=3)},
    optional={key: VALUES for key in KEYS if key not in {"drawingId", "shapes"}},
)


def read(value: object) -> Drawing:
    return converter().structure(value, Drawing)


@given(DRAWINGS)
def test_writing_what_was_read_gives_an_equal_message(message: dict[str, Any]) -> None:
    assert converter().unstructure(read(message)) == message


@given(VALUES | st.dictionaries(st.sampled_from(KEYS), VALUES))
def test_anything_is_read_or_refused_with_the_name_of_message_and_field(value: object) -> None:
    try:
        read(value)
    except BadShape as error:
        reason = str(error)
    else:
        return
    assert reason.startswith("Drawing")
    assert isinstance(value, dict) or reason == "Drawing must be an object"


def test_absent_null_and_false_stay_apart() -> None:
    base: dict[str, Any] = {"drawingId": "d", "shapes": []}
    assert read(base).line_count is ABSENT
    assert read(base).visible is ABSENT
    assert read({**base, "lineCount": None}).line_count is None
    assert read({**base, "visible": False}).visible is False
    assert read({**base, "rawInput": None}).raw_input is None
    assert read({**base, "lineCount": 0}).line_count == 0
    assert read({**base, "frame": None}).frame is None


def test_an_optional_field_of_the_wrong_type_counts_as_absent_and_is_kept() -> None:
    wrong = {
        "lineCount": "3",
        "visible": None,
        "frame": {"radius": "x"},
        "tags": ["a", 1],
        "size": True,
        "limits": [],
        "_meta": "m",
    }
    drawing = read({"drawingId": "d", "shapes": [], **wrong})
    assert drawing == Drawing("d", (), extra=wrong)


def test_unknown_keys_and_meta_are_kept_apart() -> None:
    drawing = read({"drawingId": "d", "shapes": [], "_meta": {"kiro": 1}, "schema_version": 2, "extra": 3, "meta": 4})
    assert drawing.meta == {"kiro": 1}
    assert drawing.extra == {"schema_version": 2, "extra": 3, "meta": 4}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({}, "Drawing.drawingId is missing"),
        ({"drawingId": "d"}, "Drawing.shapes is missing"),
        ({"drawingId": None, "shapes": []}, "Drawing.drawingId must be a string"),
        ({"drawingId": 5, "shapes": []}, "Drawing.drawingId must be a string"),
        ({"drawingId": "d", "shapes": {}}, "Drawing.shapes must be an array"),
        ([], "Drawing must be an object"),
        (None, "Drawing must be an object"),
    ],
)
def test_a_missing_necessity_is_named(value: object, reason: str) -> None:
    with pytest.raises(BadShape, match=reason):
        read(value)


def test_members_of_a_union_are_told_by_their_tag_and_strangers_are_kept_raw() -> None:
    items: list[Any] = [
        {"type": "circle", "radius": 1},
        {"name": "n"},
        {"type": "blob", "x": 1},
        {"type": "circle"},
        7,
        {"type": 3},
    ]
    drawing = read({"drawingId": "d", "shapes": items})
    assert drawing.shapes == (
        Circle(1),
        Plain("n"),
        Unknown("blob", items[2]),
        Unknown("circle", items[3]),
        Unknown(None, 7),
        Unknown(None, {"type": 3}),
    )


def test_a_whole_number_written_as_a_float_is_read_as_a_number() -> None:
    assert read({"drawingId": "d", "shapes": [], "lineCount": 3.0}).line_count == 3
    assert read({"drawingId": "d", "shapes": [], "lineCount": 3.5}).extra == {"lineCount": 3.5}
    assert read({"drawingId": "d", "shapes": [], "lineCount": True}).extra == {"lineCount": True}


def test_an_untagged_union_takes_the_first_type_that_fits() -> None:
    assert read({"drawingId": "d", "shapes": [], "ratio": 2}).ratio == 2
    assert read({"drawingId": "d", "shapes": [], "ratio": "2"}).ratio == "2"
    assert read({"drawingId": "d", "shapes": [], "ratio": []}).extra == {"ratio": []}


def test_the_tag_of_another_kind_is_not_lost_when_a_class_is_read_directly() -> None:
    circle = converter().structure({"type": "ellipse", "radius": 1.5}, Circle)
    assert circle.extra == {"type": "ellipse"}
    assert converter().unstructure(circle) == {"type": "ellipse", "radius": 1.5}
