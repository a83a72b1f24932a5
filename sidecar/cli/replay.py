"""``sidecar replay FILE``: a record of ``run --record`` through the real translator and reducer, printed as sessions.

Only the record is read: no agent is started, nothing is asked, nothing is stored.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from sidecar.agents.acp_frames import turn_ended
from sidecar.agents.acp_translate import translate_notification, translate_session_reply, translate_update
from sidecar.cli.arguments import ReplayOptions
from sidecar.cli.output import write_text
from sidecar.codec import NotJson, decode
from sidecar.errors import ConfigFault
from sidecar.rpc.messages import IncomingReply, RpcError
from sidecar.session.events import LoadBegan, LoadEnded, SessionEvent, TurnEnded, TurnStarted
from sidecar.session.export import to_export_json, to_markdown
from sidecar.session.lenient import object_at, object_or_none, objects_in
from sidecar.session.model import SessionState

Message: TypeAlias = Mapping[str, Any]
OPENING: Final = frozenset({"session/new", "session/fork"})
LOADING: Final = frozenset({"session/load", "session/resume"})
UNANSWERED: Final = "the record ends before the agent answered"


def main(options: ReplayOptions) -> int:
    """Print the sessions of the record and return the exit code."""
    replay = Replay()
    for direction, message in read_record(options.file):
        replay.take(direction, message)
    replay.end()
    if options.output == "json":
        sessions = [{"agentSessionId": name, **to_export_json(state)} for name, state in replay.sessions.items()]
        write_text(json.dumps({"sessions": sessions}, indent=2) + "\n")
        return 0
    texts = [to_markdown(state) for state in replay.sessions.values()]
    write_text("\n".join(texts) or "The record holds no session.\n")
    return 0


def read_record(path: str) -> Iterator[tuple[str, Message]]:
    """Yield direction and message of each line; lines of noise are passed over. Raises ``ConfigFault`` for another file."""
    number = 0
    try:
        with Path(path).expanduser().open("rb") as file:
            for number, line in enumerate(file, 1):
                entry = object_or_none(decode(line))
                if entry is None or entry.get("dir") not in {"in", "out"}:
                    raise ConfigFault(f"{path}:{number}: this is no line of a record (sidecar run --record makes them)")
                if (message := object_or_none(entry.get("msg"))) is not None:
                    yield entry["dir"], message
    except NotJson:
        raise ConfigFault(f"{path}:{number}: this line is no JSON; a record has one object a line") from None
    except OSError as error:
        raise ConfigFault(f"{path} cannot be read: {error.strerror or 'input/output error'}") from None


class Replay:
    """Folds recorded traffic into sessions, by the agent's session ids, in the order of the wire."""

    def __init__(self) -> None:
        self.sessions: dict[str, SessionState] = {}
        self._requests: dict[Any, tuple[str, str, str]] = {}
        self._turns = 0

    def take(self, direction: str, message: Message) -> None:
        """Take one message."""
        method, request_id = message.get("method"), message.get("id")
        if direction == "out":
            if isinstance(method, str) and isinstance(request_id, int | str):
                self._asked(method, request_id, message)
        elif isinstance(method, str):
            self._told(method, message.get("params"))
        elif isinstance(request_id, int | str) and request_id in self._requests:
            self._answered(self._requests.pop(request_id), message)

    def end(self) -> None:
        """Nothing more comes: what still runs has an unknown outcome."""
        for method, session_id, turn_id in self._requests.values():
            if method == "session/prompt":
                self._apply(session_id, [TurnEnded(turn_id, "unknown", error=UNANSWERED)])
            elif method in LOADING:
                self._apply(session_id, [LoadEnded(ok=False)])

    def _asked(self, method: str, request_id: int | str, message: Message) -> None:
        params = object_at(message, "params")
        session_id = params.get("sessionId")
        known = session_id if isinstance(session_id, str) else ""
        turn_id = ""
        if method == "session/prompt":
            self._turns += 1
            turn_id = f"t-{self._turns}"
            blocks = objects_in(params.get("prompt"))
            text = "\n".join(block["text"] for block in blocks if isinstance(block.get("text"), str))
            self._apply(known, [TurnStarted(turn_id, text, blocks)])
        elif method in LOADING:
            self._apply(known, [LoadBegan()])
        self._requests[request_id] = (method, known, turn_id)

    def _told(self, method: str, params: Any) -> None:
        if method != "session/update":
            session_id, events = translate_notification(method, params)
        else:
            session_id, update = object_at(params).get("sessionId"), object_or_none(object_at(params).get("update"))
            events = translate_update(update) if update is not None else []
        if isinstance(session_id, str):
            self._apply(session_id, events)

    def _answered(self, request: tuple[str, str, str], message: Message) -> None:
        method, session_id, turn_id = request
        result, error = message.get("result"), object_or_none(message.get("error"))
        if method == "session/prompt":
            self._apply(session_id, [turn_ended(turn_id, _reply(method, result, error), "")])
        elif method in LOADING:
            self._apply(session_id, [*translate_session_reply(result), LoadEnded(ok=error is None)])
        elif method in OPENING or session_id:
            made = object_at(result).get("sessionId")
            target = made if isinstance(made, str) else session_id
            if target:
                self._apply(target, translate_session_reply(result))

    def _apply(self, session_id: str, events: list[SessionEvent]) -> None:
        self.sessions.setdefault(session_id, SessionState()).apply(events)


def _reply(method: str, result: Any, error: Message | None) -> IncomingReply:
    if error is None:
        return IncomingReply(0, method, result, None)
    code, text = error.get("code"), error.get("message")
    told = RpcError(code if isinstance(code, int) else 0, text if isinstance(text, str) else "", error.get("data"))
    return IncomingReply(0, method, None, told)
