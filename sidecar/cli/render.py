"""How ``sidecar run`` prints what happens: text for a person, NDJSON for a program, or only the answer."""

import contextlib
import datetime as dt
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from sidecar.cli.events import EventLines
from sidecar.cli.output import Output
from sidecar.codec import encode_line
from sidecar.log import redact
from sidecar.session.events import LoadBegan, LoadEnded, NoticeAdded, SessionEvent, TextDelta, ToolCallChanged, TurnEnded
from sidecar.session.neutral import escape_controls, neutralise
from sidecar.session.text import join_surrogates

SHOWN_TITLE_CHARACTERS: Final = 200
MAX_NOTE_CHARACTERS: Final = 8000
HIDDEN: Final = "***"

Tell = Callable[[str, str], None]


def tell_on_stderr(severity: str, text: str) -> None:
    """Write a note for a person on standard error; one that is closed or full is ignored."""
    for line in redact(text[:MAX_NOTE_CHARACTERS]).split("\n"):
        _to_stderr(f"sidecar: {'warning: ' if severity == 'warning' else ''}{escape_controls(line)}")


def tell_as_json(severity: str, text: str) -> None:
    """Write a note as one JSON object on standard error (``--strict``)."""
    _to_stderr(json.dumps({"type": severity, "message": redact(text[:MAX_NOTE_CHARACTERS])}))


def _to_stderr(line: str) -> None:
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(line + "\n")
            sys.stderr.flush()


class Renderer(Protocol):
    """Prints what happens in one run."""

    def events(self, session_id: str, batch: Sequence[SessionEvent]) -> None:
        """Print the events of one read."""
        ...

    def question(self, session_id: str | None, question: Mapping[str, Any]) -> None:
        """Something is asked; ``question`` as CONTRACT 3.3 shapes it, without an address."""
        ...

    def answered(self, session_id: str | None, question: Mapping[str, Any], answer: Mapping[str, Any] | None, why: str) -> None:
        """It was answered, or (``answer`` None) withdrawn for the reason ``why``."""
        ...

    def note(self, severity: str, text: str) -> None:
        """Say something beside the data."""
        ...

    def hide(self, secret: str) -> None:
        """Let ``secret`` (an address) stand in nothing printed from now on."""
        ...

    async def settled(self) -> None:
        """Wait a moment until what was printed can be seen, before something is asked elsewhere."""
        ...

    def finish(self) -> None:
        """Nothing more comes."""
        ...


class JsonRenderer:
    """One JSON object a line on standard output, each as soon as it is known; nothing else there."""

    def __init__(self, out: Output, tell: Tell) -> None:
        self._out = out
        self._lines: dict[str, EventLines] = {}
        self._hidden: list[bytes] = []
        self._tell = tell

    def events(self, session_id: str, batch: Sequence[SessionEvent]) -> None:
        for kind, data in self._lines.setdefault(session_id, EventLines()).of_batch(batch):
            self._line(kind, session_id, data)

    def question(self, session_id: str | None, question: Mapping[str, Any]) -> None:
        self._line("permission_requested", session_id, question)

    def answered(self, session_id: str | None, question: Mapping[str, Any], answer: Mapping[str, Any] | None, why: str) -> None:
        if any(lines.ended for lines in self._lines.values()):
            return  # left over by the agent: the end of the turn stays the last line
        data = {"id": question.get("id"), "kind": question.get("kind"), "answer": answer}
        self._line("permission_answered", session_id, data if answer is not None else {**data, "reason": why})

    def note(self, severity: str, text: str) -> None:
        self._tell(severity, text)

    def hide(self, secret: str) -> None:
        self._hidden.append(encode_line(secret)[1:-2])

    async def settled(self) -> None:
        await self._out.settled()

    def finish(self) -> None:
        """Every line is written already."""

    def _line(self, kind: str, session_id: str | None, data: Mapping[str, Any]) -> None:
        line = encode_line({"type": kind, "timestamp": _now(), "sessionId": session_id, "data": data})
        for secret in self._hidden:
            line = line.replace(secret, HIDDEN.encode())
        self._out.write_bytes(line)


class TextRenderer:
    """The answer as it streams, each tool call as one line. ``quiet`` prints the answer's text only, at the end."""

    def __init__(self, out: Output, tell: Tell, *, quiet: bool) -> None:
        self._out = out
        self._quiet = quiet
        self._tell = tell
        self._answer: list[str] = []
        self._loading = False
        self._at_line_start = True
        self._held = ""
        self._titles: dict[str, str] = {}
        self._hidden: list[str] = []

    def events(self, session_id: str, batch: Sequence[SessionEvent]) -> None:  # noqa: ARG002 - one session a run
        for event in batch:
            if isinstance(event, LoadBegan | LoadEnded):
                self._loading = isinstance(event, LoadBegan)
            elif not self._loading:
                self._event(event)

    def _event(self, event: SessionEvent) -> None:
        if isinstance(event, TextDelta):
            if event.role == "agent" and not event.replay:
                self._text(event.text)
        elif isinstance(event, ToolCallChanged):
            self._tool(event)
        elif isinstance(event, NoticeAdded):
            if event.severity in {"warning", "error"}:
                self.note(event.severity, f"{event.title}{': ' + event.description if event.description else ''}")
        elif isinstance(event, TurnEnded) and event.error is not None:
            self.note("error", event.error)

    def _text(self, text: str) -> None:
        """Print a piece; half a character or half a line end waits for its other half."""
        text = join_surrogates(self._held + text)
        self._held = text[-1:] if text[-1:] == "\r" or "\ud800" <= text[-1:] <= "\udbff" else ""
        self._put(text[: len(text) - len(self._held)])

    def _put(self, text: str) -> None:
        if not text:
            return
        shown = escape_controls(text)
        for secret in self._hidden:
            shown = shown.replace(secret, HIDDEN)
        self._at_line_start = shown.endswith("\n")
        if self._quiet:
            self._answer.append(shown)
        else:
            self._out.write(shown)

    def _tool(self, event: ToolCallChanged) -> None:
        if isinstance(title := event.fields.get("title"), str):
            self._titles[event.tool_call_id] = title
        status = event.fields.get("status")
        if status in {"completed", "failed"}:
            title = neutralise(self._titles.get(event.tool_call_id, event.tool_call_id))[:SHOWN_TITLE_CHARACTERS]
            self.own_line(f"[{status}] {title}", data=not self._quiet)

    def own_line(self, line: str, *, data: bool = True) -> None:
        """Begin a new line, and print ``line`` on it when it is ``data``."""
        if self._held:
            held, self._held = self._held, ""
            self._put(held)
        if not self._at_line_start:
            self._put("\n")
        if data:
            self._put(line + "\n")

    def question(self, session_id: str | None, question: Mapping[str, Any]) -> None:  # noqa: ARG002 - as above
        if not self._quiet:
            self.own_line("", data=False)

    def answered(self, session_id: str | None, question: Mapping[str, Any], answer: Mapping[str, Any] | None, why: str) -> None:  # noqa: ARG002
        if answer is None:
            self.note("warning", f"not answered ({why}): {question.get('title', question.get('kind'))}")

    def note(self, severity: str, text: str) -> None:
        self._tell(severity, text)

    def hide(self, secret: str) -> None:
        self._hidden.append(secret)

    async def settled(self) -> None:
        await self._out.settled()

    def finish(self) -> None:
        self.own_line("", data=False)
        if self._quiet:
            self._out.write("".join(self._answer))


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
