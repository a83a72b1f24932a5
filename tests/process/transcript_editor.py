"""An editor with one buffer and a user who types: it applies versioned edits and tells of changes as real editors do.

``Habit.ORDERLY`` tells each change at once. ``Habit.LATE`` (Helix 25.01) tells all of them, in the wrong order.
``Habit.SKIPPING`` (Neovim) tells several at once, with versions left out, and says ``applied`` for edits it refused.
"""

import random
import time
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sidecar.workspace.positions import LineBuffer, PositionEncoding
from tests.peers.lsp_client import LspClient

STEP_SECONDS = 0.02
HEADING = "## Your prompt"


class Habit(Enum):
    ORDERLY = "orderly"
    LATE = "late"
    SKIPPING = "skipping"


class TypingEditor:
    """The buffer of one file behind an ``LspClient``; ``refused`` counts edits made for another version."""

    def __init__(self, client: LspClient, habit: Habit, seed: int, encoding: PositionEncoding = "utf-16") -> None:
        self.client = client
        self.habit = habit
        self.random = random.Random(seed)
        self.encoding: PositionEncoding = encoding
        self.uri = ""
        self.version = 0
        self.buffer = LineBuffer("", encoding)
        self.refused = 0
        self.edits: list[float] = []
        self.edited_lines: list[int] = []
        self.typed_at: list[float] = []
        self._untold: list[tuple[int, list[dict[str, Any]]]] = []

    @property
    def text(self) -> str:
        return self.buffer.text

    @property
    def composer(self) -> str:
        """What stands below the last heading."""
        return self.text.rpartition(HEADING + "\n")[2].strip("\n")

    def open(self, uri: str, *, version: int = 1) -> None:
        """Open the file as it is on the disk."""
        self.uri, self.version = uri, version
        self.buffer = LineBuffer(path_of(uri).read_text(encoding="utf-8"), self.encoding)
        item = {"uri": uri, "languageId": "markdown", "version": version, "text": self.text}
        self.client.notify("textDocument/didOpen", {"textDocument": item})

    def close(self) -> None:
        self.tell_all()
        self.client.notify("textDocument/didClose", {"textDocument": {"uri": self.uri}})

    def save(self) -> None:
        self.tell_all()
        path_of(self.uri).write_text(self.text, encoding="utf-8")
        self.client.notify("textDocument/didSave", {"textDocument": {"uri": self.uri}})

    def type(self, text: str) -> None:
        """Type at the end of the buffer."""
        self.typed_at.append(time.monotonic())
        self.change(self.buffer.end, self.buffer.end, text)

    def change(self, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
        """Replace a range, as the user."""
        self._do([{"range": _range(start, end), "text": text}])

    def delete_lines(self, first: int, last: int) -> None:
        """Delete whole lines, both included."""
        self.change((first, 0), (last + 1, 0), "")

    def _do(self, changes: list[dict[str, Any]]) -> None:
        for change in changes:
            start, end = change["range"]["start"], change["range"]["end"]
            self.buffer.replace((start["line"], start["character"]), (end["line"], end["character"]), change["text"])
        self.version += 1
        self._untold.append((self.version, changes))
        if self.habit is Habit.ORDERLY:
            self.tell_all()

    def tell_all(self) -> None:
        """Tell what was not told yet, in the editor's own way."""
        untold, self._untold = self._untold, []
        if self.habit is Habit.SKIPPING and untold:
            untold = [(untold[-1][0], [change for _, changes in untold for change in changes])]
        elif self.habit is Habit.LATE:
            self.random.shuffle(untold)
        for version, changes in untold:
            params = {"textDocument": {"uri": self.uri, "version": version}, "contentChanges": changes}
            self.client.notify("textDocument/didChange", params)

    def answer_edits(self) -> None:
        """Apply or refuse what the sidecar asked for since."""
        while (asked := self._next_edit()) is not None:
            document = asked["params"]["edit"]["documentChanges"][0]
            assert document["textDocument"]["uri"] == self.uri
            current = document["textDocument"]["version"] == self.version
            if current:
                self.edits.append(time.monotonic())
                self._apply(document["edits"])
            else:
                self.refused += 1
            self.client.answer(asked, {"applied": current or self.habit is Habit.SKIPPING})

    def _apply(self, edits: list[dict[str, Any]]) -> None:
        ordered = sorted(edits, key=lambda edit: edit["range"]["start"]["line"], reverse=True)
        heading = max((number for number, line in enumerate(self.buffer.lines) if line.rstrip() == HEADING), default=0)
        self.edited_lines += [edit["range"]["start"]["line"] - heading for edit in edits]
        self._do([{"range": edit["range"], "text": edit["newText"]} for edit in ordered])

    def _next_edit(self) -> dict[str, Any] | None:
        inbox = self.client.inbox
        with inbox.changed:
            at = next((at for at, asked in enumerate(inbox.asked) if asked["method"] == "workspace/applyEdit"), None)
            return None if at is None else inbox.asked.pop(at)

    def live(self, until: Callable[[], object], *, within: float = 20.0, user: Callable[[], None] | None = None) -> None:
        """Be an editor, and ``user`` its user, until something is so."""
        deadline = time.monotonic() + within
        while not until():
            assert time.monotonic() < deadline, f"it did not happen; the buffer is:\n{self.text[-3000:]}"
            if user is not None:
                user()
            self.answer_edits()
            if self.habit is Habit.ORDERLY or self.random.random() < 0.4:
                self.tell_all()
            time.sleep(STEP_SECONDS)
        self.tell_all()

    def command(self, name: str, argument: Mapping[str, Any] | None = None, *, within: float = 20.0) -> dict[str, Any]:
        """Run a command as the user does, being an editor meanwhile; return the reply."""
        params = {"command": f"sidecar.{name}", **({"arguments": [dict(argument)]} if argument is not None else {})}
        return self._called(self.client.request("workspace/executeCommand", params), within)

    def actions(self, line: int) -> dict[str, dict[str, Any]]:
        """Return the code actions on a line, by title."""
        self.tell_all()
        context: dict[str, list[Any]] = {"diagnostics": []}
        params = {"textDocument": {"uri": self.uri}, "range": _range((line, 0), (line, 0)), "context": context}
        found = self._called(self.client.request("textDocument/codeAction", params), 20.0)["result"]
        return {action["title"]: action["command"] for action in found}

    def act(self, action: Mapping[str, Any]) -> dict[str, Any]:
        """Run a code action's command."""
        params = {"command": action["command"], "arguments": action["arguments"]}
        return self._called(self.client.request("workspace/executeCommand", params), 20.0)

    def complete(self) -> list[str]:
        """Return the labels offered at the end of the buffer."""
        self.tell_all()
        line, character = self.buffer.end
        params = {"textDocument": {"uri": self.uri}, "position": {"line": line, "character": character}}
        result = self._called(self.client.request("textDocument/completion", params), 20.0)["result"]
        return [item["label"] for item in result["items"]]

    def _called(self, request_id: int | str, within: float) -> dict[str, Any]:
        key = (type(request_id), request_id)
        self.live(lambda: key in self.client.inbox.replies, within=within)
        return self.client.reply(request_id)

    def line_of(self, text: str) -> int:
        """Return the number of the last line that begins with ``text``."""
        return max(number for number, line in enumerate(self.buffer.lines) if line.startswith(text))


def path_of(uri: str) -> Path:
    return Path(unquote(uri.removeprefix("file://")))


def _range(start: tuple[int, int], end: tuple[int, int]) -> dict[str, Any]:
    return {
        "start": dict(zip(("line", "character"), start, strict=True)),
        "end": dict(zip(("line", "character"), end, strict=True)),
    }
