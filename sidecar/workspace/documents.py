"""The mirror of the editor's open documents: what stands in its buffers, saved or not.

It is ours because editors deliver changes out of order or leave versions out; the rule is in ``ordered_text``. Every notification
is taken as plain JSON (LSP 3.17, text document synchronization); one that cannot be used is ignored and the reason returned.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, cast

import attrs

from sidecar.workspace.ordered_text import Certainty, Change, ContentEdit, EditorHabits, OrderedText
from sidecar.workspace.positions import DEFAULT_ENCODING, LineBuffer, Position, PositionEncoding, common_prefix
from sidecar.workspace.uris import normalise_uri

MAX_EXPECTED_INSERTS: Final = 16

EventKind: TypeAlias = Literal["opened", "changed", "closed", "saved", "unsure"]
Listener: TypeAlias = Callable[["DocumentEvent"], None]


@attrs.frozen
class DocumentEvent:
    """Something happened to a document. ``uri`` is normalised, ``version`` the newest one known.

    ``ours`` is true for a change whose whole effect is text announced with ``Documents.expect_insert``. ``unsure`` is told once
    each time the mirror loses track, after the change that showed it.
    """

    kind: EventKind
    uri: str
    version: int
    ours: bool = False


@attrs.define
class _Document:
    uri: str
    client_uri: str
    language: str
    content: OrderedText
    expected: list[str] = attrs.Factory(list[str])


class Documents:
    """All open documents of one editor.

    ``read_text`` reads a file by URI when an editor saves an unsure document without sending its text (None: not readable).
    ``clock`` gives seconds, for how long a missing version is waited for.
    """

    def __init__(
        self,
        position_encoding: PositionEncoding = DEFAULT_ENCODING,
        *,
        read_text: Callable[[str], str | None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.encoding: PositionEncoding = position_encoding
        self._read_text = read_text
        self._clock = clock
        self._habits = EditorHabits()
        self._documents: dict[str, _Document] = {}
        self._listeners: list[Listener] = []

    def text(self, uri: str) -> str | None:
        """Return the newest text of ``uri`` as far as known, or None when it is not open."""
        document = self._find(uri)
        return document.content.text if document else None

    def buffer(self, uri: str) -> LineBuffer | None:
        """Return the newest lines of ``uri`` to read and convert positions with; valid until the next change of the document."""
        document = self._find(uri)
        return document.content.current if document else None

    def version(self, uri: str) -> int | None:
        """Return the newest version seen, which a versioned edit must name; None when not open."""
        document = self._find(uri)
        return document.content.version if document else None

    def client_uri(self, uri: str) -> str:
        """Return the URI as the editor itself writes it, for messages to the editor."""
        document = self._find(uri)
        return document.client_uri if document else uri

    def language(self, uri: str) -> str | None:
        """Return the language id given at opening, or None when not open."""
        document = self._find(uri)
        return document.language if document else None

    def open_uris(self) -> list[str]:
        """Return the normalised URIs of all open documents, in order of opening."""
        return list(self._documents)

    def certainty(self, uri: str) -> Certainty:
        """Say how far the text can be relied on.

        ``waiting``: a version is missing that may still come (for at most a second). ``unsure``: do not edit, read the disk. A
        document that is not open is unsure.
        """
        document = self._find(uri)
        return document.content.certainty if document else "unsure"

    def is_unsure(self, uri: str) -> bool:
        """Say whether the mirror lost track: reads fall back to the disk with a note, edits wait for a save or an open."""
        return self.certainty(uri) == "unsure"

    def why_unsure(self, uri: str) -> str | None:
        """Return half a sentence for the user on why the mirror lost track, or None when it did not."""
        document = self._find(uri)
        if document is None:
            return "the document is not open in the editor"
        return document.content.unsure or ("a change of the editor has not come" if self.is_unsure(uri) else None)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` after each event, in order, on the thread that feeds the mirror; the result stops that."""
        self._listeners.append(listener)

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    def expect_insert(self, uri: str, text: str) -> None:
        """Announce an insertion sent to the editor, so that the change it causes is told as ours (once)."""
        document = self._find(uri)
        if document is not None and text:
            document.expected.append(_with_plain_ends(text))
            del document.expected[:-MAX_EXPECTED_INSERTS]

    def forget_expected(self, uri: str) -> None:
        """Drop the announcements of ``uri``: the editor refused the edit, or the wait for it is over."""
        document = self._find(uri)
        if document is not None:
            document.expected.clear()

    def did_open(self, params: object) -> str | None:
        """Take ``textDocument/didOpen``. Returns None, or why it was ignored."""
        item = _member(params, "textDocument")
        uri, text, language = _get(item, "uri"), _get(item, "text"), _get(item, "languageId")
        if not isinstance(uri, str) or not isinstance(text, str):
            return "textDocument/didOpen has no uri or no text"
        key = normalise_uri(uri)
        version = _integer(_get(item, "version")) or 0
        content = OrderedText(text, version, self.encoding, habits=self._habits, clock=self._clock)
        self._documents.pop(key, None)
        self._documents[key] = _Document(key, uri, language if isinstance(language, str) else "", content)
        self._tell("opened", key, version)
        return None

    def did_change(self, params: object) -> str | None:
        """Take ``textDocument/didChange``. Returns None, or why it was ignored.

        A change of an open document that cannot be read makes its mirror unsure, since its text is now not known.
        """
        identifier = _member(params, "textDocument")
        document = self._find(_get(identifier, "uri"))
        if document is None:
            return "textDocument/didChange names a document that is not open"
        edits = _read_edits(_get(params, "contentChanges"))
        was_unsure = document.content.unsure
        if edits is None:
            document.content.unsure = "the editor sent a change that could not be read"
            self._tell_unsure(document, was_unsure)
            return "textDocument/didChange holds a content change that could not be read"
        version = _integer(_get(identifier, "version"))
        change = Change(document.content.version if version is None else version, edits)
        before = document.content.current.lines.copy() if document.expected else []
        taken = document.content.take(change)
        if taken == "applied":
            ours = bool(document.expected) and _consume_expected(document, before)
            self._tell("changed", document.uri, document.content.version, ours=ours)
        self._tell_unsure(document, was_unsure)
        return None if taken == "applied" else f"the change is {taken}: version {change.version} of the document"

    def did_close(self, params: object) -> str | None:
        """Take ``textDocument/didClose``. Returns None, or why it was ignored."""
        document = self._find(_get(_member(params, "textDocument"), "uri"))
        if document is None:
            return "textDocument/didClose names a document that is not open"
        del self._documents[document.uri]
        self._tell("closed", document.uri, document.content.version)
        return None

    def did_save(self, params: object) -> str | None:
        """Take ``textDocument/didSave``, best with its text (``save.includeText``). Returns None, or why it was ignored."""
        document = self._find(_get(_member(params, "textDocument"), "uri"))
        if document is None:
            return "textDocument/didSave names a document that is not open"
        text = _get(params, "text")
        if not isinstance(text, str) and self._read_text is not None and document.content.certainty == "unsure":
            text = self._read_text(document.client_uri)
        was_unsure = document.content.unsure
        if isinstance(text, str):
            document.content.take_saved(text)
        self._tell("saved", document.uri, document.content.version)
        self._tell_unsure(document, was_unsure)
        return None

    def _find(self, uri: object) -> _Document | None:
        if not isinstance(uri, str):
            return None
        return self._documents.get(uri) or self._documents.get(normalise_uri(uri))

    def _tell(self, kind: EventKind, uri: str, version: int, *, ours: bool = False) -> None:
        event = DocumentEvent(kind, uri, version, ours)
        for listener in tuple(self._listeners):
            listener(event)

    def _tell_unsure(self, document: _Document, before: str | None) -> None:
        if document.content.unsure and not before:
            self._tell("unsure", document.uri, document.content.version)


def _get(value: object, key: str) -> Any:
    return cast("Mapping[str, Any]", value).get(key) if isinstance(value, Mapping) else None


def _member(params: object, key: str) -> object:
    return _get(params, key)


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _read_edits(value: object) -> tuple[ContentEdit, ...] | None:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return None
    edits = [_read_edit(item) for item in cast("Sequence[object]", value)]
    return None if None in edits else tuple(edit for edit in edits if edit is not None)


def _read_edit(item: object) -> ContentEdit | None:
    text, span = _get(item, "text"), _get(item, "range")
    if not isinstance(text, str):
        return None
    if span is None:
        return ContentEdit(text)
    start, end = _read_position(_get(span, "start")), _read_position(_get(span, "end"))
    return ContentEdit(text, start, end) if start is not None and end is not None else None


def _read_position(value: object) -> Position | None:
    line, character = _integer(_get(value, "line")), _integer(_get(value, "character"))
    return None if line is None or character is None or line < 0 or character < 0 else (line, character)


def _with_plain_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _consume_expected(document: _Document, before: list[str]) -> bool:
    """Whether the whole difference is one expected insertion, which is then not expected any more.

    Editors report an insertion shifted when its text repeats what stands beside it, so a rotation of it is the same insertion.
    """
    after = document.content.current.lines
    head = common_prefix(before, after)
    tail = common_prefix(before[head:][::-1], after[head:][::-1])
    old = _with_plain_ends("".join(before[head : len(before) - tail]))
    new = _with_plain_ends("".join(after[head : len(after) - tail]))
    start = common_prefix(old, new)
    end = common_prefix(old[start:][::-1], new[start:][::-1])
    if start + end != len(old):
        return False
    inserted = new[start : len(new) - end]
    for index, text in enumerate(document.expected):
        if len(text) == len(inserted) and inserted in text + text:
            del document.expected[index]
            return True
    return False
