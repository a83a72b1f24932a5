"""Frames real agents sent, read back: nothing standard is unknown, text survives merging, no request is unreadable."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from sidecar.agents.acp_hot import TextRun, decode_batch
from sidecar.agents.acp_translate import read_permission, translate_notification, translate_session_reply, translate_update
from sidecar.session.events import ConfigReplaced, ModesReplaced, TextDelta, UnknownUpdate
from tests.conftest import shared_path


def frames(path: Path) -> Iterator[dict[str, Any]]:
    for row in path.read_text(encoding="utf-8").split("\n"):
        record: dict[str, Any] = json.loads(row) if row.strip() else {}
        if record.get("dir") == "a2c" and isinstance(record.get("msg"), dict):
            yield record["msg"]


def recordings() -> list[Path]:
    found = sorted(shared_path("facts", "agents-traffic").glob("*.jsonl"))
    assert found
    return found


def test_every_recorded_update_is_understood() -> None:
    for path in recordings():
        for frame in frames(path):
            if frame.get("method") == "session/update":
                events = translate_update(frame["params"]["update"])
                assert events
                assert not any(isinstance(event, UnknownUpdate) for event in events), (path.name, frame)


def test_every_recorded_permission_can_be_asked() -> None:
    asked = 0
    for path in recordings():
        for frame in frames(path):
            if frame.get("method") == "session/request_permission":
                body = read_permission(frame["params"])
                assert [option.option_id for option in body.options] == [
                    option["optionId"] for option in frame["params"]["options"]
                ]
                asked += 1
    assert asked


def test_every_recorded_session_reply_tells_what_it_holds() -> None:
    for path in recordings():
        for frame in frames(path):
            result: Any = frame.get("result")
            if isinstance(result, dict):
                reply = cast("dict[str, Any]", result)
                kinds = [type(event) for event in translate_session_reply(reply)]
                assert (ModesReplaced in kinds) == (reply.get("modes") is not None), path.name
                assert (ConfigReplaced in kinds) == (reply.get("configOptions") is not None), path.name


def test_the_text_of_a_recording_is_the_same_merged_or_not() -> None:
    for path in recordings():
        updates = [frame for frame in frames(path) if frame.get("method") == "session/update"]
        plain: dict[tuple[str, str], str] = {}
        for frame in updates:
            for event in translate_update(frame["params"]["update"]):
                if isinstance(event, TextDelta):
                    key = (frame["params"]["sessionId"], event.role)
                    plain[key] = plain.get(key, "") + event.text
        merged: dict[tuple[str, str], str] = {}
        for item in decode_batch([json.dumps(frame).encode() for frame in updates]):
            deltas: list[tuple[tuple[str, str], str]] = []
            if isinstance(item, TextRun):
                deltas = [((item.session_id, item.role), item.text)]
            elif isinstance(item, dict):
                body = cast("dict[str, Any]", item)
                events = translate_update(body["params"]["update"])
                deltas = [((body["params"]["sessionId"], e.role), e.text) for e in events if isinstance(e, TextDelta)]
            for key, text in deltas:
                merged[key] = merged.get(key, "") + text
        assert merged == plain, path.name


def test_recorded_private_notifications_are_kept_or_understood() -> None:
    for path in recordings():
        for frame in frames(path):
            method = frame.get("method")
            if isinstance(method, str) and "id" not in frame and method != "session/update":
                _, events = translate_notification(method, frame.get("params"))
                assert events, (path.name, method)


@pytest.mark.parametrize("lines", [[], [b"\xff"], [b"[]"], [b"3", b'"x"']])
def test_lines_that_are_no_objects_do_not_stop_the_reading(lines: list[bytes]) -> None:
    assert len(decode_batch(lines)) == len(lines)
