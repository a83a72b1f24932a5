"""Code actions and completion of the transcript: what can be done where the cursor is."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anyio.to_thread

from sidecar.editor.parts import Front
from sidecar.editor.transcript_answers import offers
from sidecar.editor.transcript_documents import Transcript, Transcripts
from sidecar.editor.transcript_slash import OWN, offered_values
from sidecar.editor.transcript_text import composer_lines, heading_line
from sidecar.session.lenient import object_at, objects_in
from sidecar.session.neutral import neutralise
from sidecar.workspace.actor import RESTART_OFFER, SessionActor
from sidecar.workspace.broker import Pending
from sidecar.workspace.positions import index_in_line, units_in
from sidecar.workspace.uris import path_to_uri

ACTION_KIND: Final = "quickfix"
DIAGNOSTIC_SOURCE: Final = "sidecar"
MAX_FILES: Final = 100
MAX_VISITED: Final = 20_000
IGNORED_FOLDERS: Final = frozenset(
    {".git", ".hg", ".svn", ".jj", ".bzr", "_darcs", "CVS", "node_modules", "__pycache__", ".venv"}
)
FILE, KEYWORD, VALUE = 17, 14, 12
"""Kinds of completion items (LSP 3.17, CompletionItemKind)."""

_SLASH: Final = re.compile(r"/(\S*)$")
_SLASH_VALUE: Final = re.compile(r"/(model|mode|effort|mcp)[ \t]+(\S*)$")
_FILE_WORD: Final = re.compile(r"(?:^|(?<=\s))@([^\s@]*)$")
_LINKS: Final = re.compile(r"(?:^|(?<=\s))@(\S+)")


def command(title: str, name: str, argument: Mapping[str, Any]) -> dict[str, Any]:
    """Return a code action that runs an operation."""
    run = {"title": title, "command": f"sidecar.{name}", "arguments": [dict(argument)]}
    return {"title": title, "kind": ACTION_KIND, "command": run}


class TranscriptActions:
    """Answers ``textDocument/codeAction`` and ``textDocument/completion``."""

    def __init__(self, front: Front, transcripts: Transcripts) -> None:
        self._front = front
        self._transcripts = transcripts

    # --- code actions -------------------------------------------------------------------------------------------------------

    async def code_actions(self, params: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the answers of the question at the cursor, then what can be done with the transcript."""
        only: Any = object_at(params, "context").get("only")
        if isinstance(only, list) and not any(isinstance(kind, str) and ACTION_KIND.startswith(kind) for kind in only):  # pyright: ignore[reportUnknownVariableType]
            return []
        marked = self._marked(objects_in(object_at(params, "context").get("diagnostics")))
        transcript = self._transcripts.at(object_at(params, "textDocument").get("uri"))
        if transcript is None:
            return [action for pending in marked for action in self._answers(pending, None)]
        self._transcripts.touch(transcript)
        start: Any = object_at(params, "range", "start").get("line")
        asked = self._asked_at(transcript, start if isinstance(start, int) else 0)
        answers = [action for pending in asked for action in self._answers(pending, transcript)]
        return [*answers, *self._actions(transcript)]

    def _marked(self, diagnostics: Sequence[Mapping[str, Any]]) -> list[Pending]:
        codes = {item.get("code") for item in diagnostics if item.get("source") == DIAGNOSTIC_SOURCE}
        return [pending for pending in self._front.workspace.broker.pending() if pending.id in codes and pending.phase is None]

    def _asked_at(self, transcript: Transcript, line: int) -> list[Pending]:
        """Return the question whose section the cursor is in; in the composer the only one that waits."""
        stream, buffer = transcript.stream, self._front.documents.buffer(transcript.uri)
        if stream is None or buffer is None:
            return []
        waiting = [pending for pending in stream.waiting() if pending.phase is None]
        heading = heading_line(buffer.lines)
        if heading is not None and line >= heading:
            return waiting if len(waiting) == 1 else []
        places = [(pending, stream.place(pending.id)) for pending in waiting]
        return [pending for pending, place in places if place is not None and place[0] <= line <= place[1]]

    def _answers(self, pending: Pending, transcript: Transcript | None) -> list[dict[str, Any]]:
        section = self._transcripts.section(transcript, pending.id) if transcript is not None else None
        actions: list[dict[str, Any]] = []
        for offer in offers(pending, section):
            if offer.form and section is None:
                continue
            argument = {"id": pending.id, **offer.answer, **({"form": True} if offer.form else {})}
            actions.append(command(f"{pending.id}: {offer.title}", "transcript.answer", argument))
        return actions

    def _actions(self, transcript: Transcript) -> list[dict[str, Any]]:
        stream = transcript.stream
        where = {"sessionId": transcript.session_id}
        if stream is None:
            return [command("Send", "transcript.send", where)]
        actor, composed = stream.actor, "\n".join(stream.composed() or ()).strip()
        running = actor.running_turn_id is not None
        actions: list[dict[str, Any]] = []
        if composed:
            actions.append(command("Send as the next prompt" if running else "Send", "transcript.send", where))
        if composed and running:
            if actor.connection is not None and actor.connection.info.capabilities.steer:
                actions.append(command("Steer the running turn", "transcript.send", {**where, "whileRunning": "steer"}))
            actions.append(command("Cancel the running turn and send", "transcript.send", {**where, "whileRunning": "replace"}))
        if running:
            actions.append(command("Cancel the running turn", "cancel", where))
        if actor.queue.held and len(actor.queue):
            actions.append(command("Go on with the prompts that wait", "queue.resume", where))
        if RESTART_OFFER in actor.state.section("state")["state"].get("offers", ()):
            actions.append(command("Restart the agent", "agent.restart", where))
        if transcript.composed and transcript.composed not in composed:
            actions.append(command("Restore my prompt", "transcript.restore", where))
        if stream.before is not None:
            actions.append(command("Show older turns", "transcript.more", where))
        return [*actions, command("Redraw", "transcript.redraw", where)]

    # --- completion ---------------------------------------------------------------------------------------------------------

    async def complete(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return ``/commands`` at the beginning of the composer and ``@files`` anywhere in it."""
        transcript = self._transcripts.at(object_at(params, "textDocument").get("uri"))
        before = self._before_cursor(transcript, params) if transcript is not None else None
        if transcript is None or transcript.stream is None or before is None:
            return {"isIncomplete": False, "items": []}
        actor, (typed, first) = transcript.stream.actor, before
        if first and (found := _SLASH_VALUE.fullmatch(typed)) is not None:
            values = _values(actor, found[1])
            return self._items(params, found[2], [(value, label, VALUE) for value, label in values])
        if first and (found := _SLASH.fullmatch(typed)) is not None:
            return self._items(params, typed, [(f"/{name}", about, KEYWORD) for name, about in _commands(actor)])
        found = _FILE_WORD.search(typed)
        if found is None:
            return {"isIncomplete": False, "items": []}
        paths = await anyio.to_thread.run_sync(find_files, actor.identity.spec.cwd, found[1])
        items = self._items(params, "@" + found[1], [(f"@{path}", "", FILE) for path in paths])
        return {**items, "isIncomplete": True}

    def _before_cursor(self, transcript: Transcript, params: Mapping[str, Any]) -> tuple[str, bool] | None:
        """Return what stands before the cursor on its line, and whether that is the first thing in the composer."""
        buffer = self._front.documents.buffer(transcript.uri)
        line, character = (object_at(params, "position").get(name) for name in ("line", "character"))
        heading = heading_line(buffer.lines) if buffer is not None else None
        if buffer is None or heading is None or not isinstance(line, int) or not isinstance(character, int):
            return None
        if not heading < line < len(buffer.lines):
            return None
        text = buffer.lines[line]
        above = composer_lines(buffer.lines[:line], heading)
        return text[: index_in_line(text, character, buffer.encoding)], not any(item.strip() for item in above)

    def _items(self, params: Mapping[str, Any], typed: str, found: Sequence[tuple[str, str, int]]) -> dict[str, Any]:
        """Return completion items that take the place of ``typed``, which ends at the cursor."""
        position = object_at(params, "position")
        start = {**position, "character": position["character"] - units_in(typed, self._front.documents.encoding)}
        items: list[dict[str, Any]] = []
        for number, (text, about, kind) in enumerate(found):
            edit = {"range": {"start": start, "end": dict(position)}, "newText": text}
            item = {"label": text, "kind": kind, "filterText": text, "sortText": f"{number:04}", "textEdit": edit}
            items.append({**item, "detail": about} if about else item)
        return {"isIncomplete": False, "items": items}


def _commands(actor: SessionActor) -> list[tuple[str, str]]:
    """Return the commands that have a route: ours, and those the agent takes as the text of a prompt."""
    theirs = objects_in(actor.state.conversation.commands)
    names = [(str(item.get("name", "")).removeprefix("/"), str(item.get("description") or "")) for item in theirs]
    usable = [(name, neutralise(about)) for name, about in names if name and neutralise(name) == name and " " not in name]
    return [*OWN.items(), *((name, about) for name, about in usable if name not in OWN)]


def _values(actor: SessionActor, name: str) -> list[tuple[str, str]]:
    if name == "mcp":
        return [(server, str(state.get("status", ""))) for server, state in actor.state.conversation.mcp.items()]
    return offered_values(actor, name)


def find_files(folder: str, typed: str, limit: int = MAX_FILES, visited: int = MAX_VISITED) -> list[str]:
    """Return paths below ``folder``, with slashes, that hold ``typed`` (whatever case); the shortest first.

    Folders of version control and the like are left out; links are not followed; at most ``visited`` entries are looked at.
    """
    wanted, found = typed.lower(), list[str]()
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in IGNORED_FOLDERS)
        visited -= len(names) + len(folders)
        for name in names:
            path = os.path.relpath(os.path.join(parent, name), folder).replace(os.sep, "/")  # noqa: PTH118  many of them
            if wanted in path.lower() and neutralise(path) == path and not any(letter.isspace() for letter in path):
                found.append(path)
        if visited <= 0:
            break
    return sorted(found, key=lambda path: (path.count("/"), len(path), path))[:limit]


def file_links(text: str, folder: str, limit: int = MAX_FILES) -> list[dict[str, Any]]:
    """Return a resource link (ACP v1, content) for each ``@path`` in ``text`` that is a file below ``folder``."""
    root = Path(os.path.realpath(folder))
    links: dict[str, dict[str, Any]] = {}
    for found in _LINKS.finditer(text):
        for name in (found[1], found[1].rstrip(".,;:!?)")):
            path = Path(os.path.realpath(root / name))
            if path.is_file() and path.is_relative_to(root):
                links[str(path)] = {"type": "resource_link", "uri": path_to_uri(str(path)), "name": name}
                break
        if len(links) >= limit:
            break
    return list(links.values())
