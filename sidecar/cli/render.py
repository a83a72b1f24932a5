"""How ``sidecar run`` prints what happens: text for a person, NDJSON for a program, or only the answer."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TextIO

from sidecar.cli.events import event_lines
from sidecar.log import redact
from sidecar.session.events import NoticeAdded, SessionEvent, TextDelta, ToolCallChanged, TurnEnded
from sidecar.session.neutral import neutralise

SHOWN_TITLE_CHARACTERS: Final = 200


class Renderer(Protocol):
    """Prints the events of one run."""

    def events(self, session_id: str, batch: Sequence[SessionEvent]) -> None: ...

    def question(self, session_id: str | None, question: Mapping[str, Any]) -> None: ...

    def answered(self, session_id: str | None, question: Mapping[str, Any], answer: object) -> None: ...

    def note(self, severity: str, text: str) -> None: ...

    def finish(self) -> None: ...


class JsonRenderer:
    """One JSON object a line on standard output; nothing else there. With ``strict`` standard error is JSON too."""

    def __init__(self, now: Callable[[], str], *, strict: bool, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self._now = now
        self._strict = strict
        self._out = out or sys.stdout
        self._err = err or sys.stderr

    def _line(self, kind: str, session_id: str | None, data: Mapping[str, Any]) -> None:
        line = {"type": kind, "timestamp": self._now(), "sessionId": session_id, "data": data}
        self._out.write(json.dumps(line, ensure_ascii=True, default=str) + "\n")
        self._out.flush()

    def events(self, session_id: str, batch: Sequence[SessionEvent]) -> None:
        for event in batch:
            for kind, data in event_lines(event):
                self._line(kind, session_id, data)

    def question(self, session_id: str | None, question: Mapping[str, Any]) -> None:
        self._line("permission_requested", session_id, question)

    def answered(self, session_id: str | None, question: Mapping[str, Any], answer: object) -> None:
        self._line("permission_answered", session_id, {"id": question.get("id"), "kind": question.get("kind"), "answer": answer})

    def note(self, severity: str, text: str) -> None:
        shown = json.dumps({"type": severity, "message": redact(text)}) if self._strict else f"sidecar: {redact(text)}"
        self._err.write(shown + "\n")

    def finish(self) -> None:
        self._out.flush()


class TextRenderer:
    """The answer as it streams, tool calls as one line each. ``quiet`` prints the answer's text only, at the end."""

    def __init__(self, *, quiet: bool, strict: bool, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self._quiet = quiet
        self._strict = strict
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._answer: list[str] = []
        self._at_line_start = True
        self._titles: dict[str, str] = {}

    def events(self, session_id: str, batch: Sequence[SessionEvent]) -> None:  # noqa: ARG002 - one session a run
        for event in batch:
            if isinstance(event, TextDelta) and event.role == "agent" and not event.replay:
                self._text(event.text)
            elif isinstance(event, ToolCallChanged) and not self._quiet:
                self._tool(event)
            elif isinstance(event, NoticeAdded) and not self._quiet and event.severity in {"warning", "error"}:
                self.note(event.severity, f"{event.title}{': ' + event.description if event.description else ''}")
            elif isinstance(event, TurnEnded) and event.error is not None:
                self.note("error", event.error)

    def _text(self, text: str) -> None:
        if self._quiet:
            self._answer.append(text)
            return
        self._out.write(neutralise(text, keep_newlines=True))
        self._out.flush()
        self._at_line_start = text.endswith("\n") or (not text and self._at_line_start)

    def _tool(self, event: ToolCallChanged) -> None:
        if isinstance(title := event.fields.get("title"), str):
            self._titles[event.tool_call_id] = title
        status = event.fields.get("status")
        if status in {"completed", "failed"}:
            title = neutralise(self._titles.get(event.tool_call_id, event.tool_call_id))[:SHOWN_TITLE_CHARACTERS]
            self._own_line(f"[{status}] {title}")

    def _own_line(self, line: str) -> None:
        if not self._at_line_start:
            self._out.write("\n")
        self._out.write(line + "\n")
        self._out.flush()
        self._at_line_start = True

    def question(self, session_id: str | None, question: Mapping[str, Any]) -> None: ...

    def answered(self, session_id: str | None, question: Mapping[str, Any], answer: object) -> None:  # noqa: ARG002
        if not self._quiet and answer is None:
            self.note("warning", f"not answered: {question.get('title', question.get('kind'))}")

    def note(self, severity: str, text: str) -> None:
        shown = json.dumps({"type": severity, "message": redact(text)}) if self._strict else f"sidecar: {redact(text)}"
        self._err.write(shown + "\n")

    def finish(self) -> None:
        if self._quiet:
            self._out.write(neutralise("".join(self._answer), keep_newlines=True).rstrip("\n") + "\n")
        elif not self._at_line_start:
            self._out.write("\n")
        self._out.flush()
