"""Operations on the stream of a session: watch, unwatch, and ``session.state`` with its place in the stream."""

from collections.abc import Mapping
from typing import Any

import attrs

from sidecar.editor.publish import Publisher, watching_new
from sidecar.errors import EditorFault
from sidecar.session.model import SNAPSHOT_TURNS
from sidecar.workspace.operation import Operation, Param, Params
from sidecar.workspace.selection import WHICH, the_session
from sidecar.workspace.sessions import Workspace

WATCHED_IMPLICITLY = ("prompt", "session.new", "session.load")
"""Operations whose session the editor follows from then on (editor protocol, notifications)."""


def stream_operations(workspace: Workspace, publisher: Publisher, table: Mapping[str, Operation]) -> list[Operation]:
    """Return the rows of this family; those of ``table`` of the same name are replaced."""
    turns = Param("turns", "integer", doc="How many turns the snapshot holds; default 50.")
    since = Param("since", "object", doc="{epoch, seq} seen last; without a gap no snapshot is sent.")

    async def watch(params: Params) -> Any:
        stream = publisher.stream(the_session(workspace, params))
        return {"sessionId": stream.session_id, **stream.watch(_since(params.get("since")), _count(params.get("turns")))}

    async def unwatch(params: Params) -> Any:
        stream = publisher.stream(the_session(workspace, params))
        stream.unwatch()
        return {"sessionId": stream.session_id}

    async def state(params: Params) -> Any:
        stream = publisher.stream(the_session(workspace, params))
        return stream.snapshot(_count(params.get("turns")), params.get("before"))

    return [
        Operation(
            "session.watch",
            "Stream a session's changes, from a snapshot on: the next sidecar/session/changed has seq + 1.",
            watch,
            (*WHICH, since, turns),
            "{sessionId, epoch, seq, snapshot?}",
        ),
        Operation(
            "session.unwatch", "Stop streaming; changes of the session's state are still told.", unwatch, WHICH, "{sessionId}"
        ),
        attrs.evolve(
            table["session.state"],
            run=state,
            result="{turns, plan, modes, configOptions, commands, tools, usage, mcp, capabilities, epoch, seq, ...}",
        ),
    ]


def watching(workspace: Workspace, publisher: Publisher, operation: Operation) -> Operation:
    """Return the operation with its session watched from then on."""

    async def run(params: Params) -> Any:
        with watching_new():
            result = await operation.run(params)
        session_id = result.get("sessionId")
        for actor in workspace.actors():
            if actor.identity.session_id == session_id:
                publisher.watch_quietly(actor)
        return result

    return attrs.evolve(operation, run=run)


def _since(value: Any) -> Mapping[str, Any] | None:
    if value is not None and not (isinstance(value.get("epoch"), str) and isinstance(value.get("seq"), int)):
        raise EditorFault("session.watch: since must be {epoch, seq} as a frame or a snapshot named them")
    return value


def _count(value: int | None) -> int:
    return SNAPSHOT_TURNS if value is None else max(0, value)
