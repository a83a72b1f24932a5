"""Waiting questions as diagnostics, for editors that cannot ask: a mark and the text where the question stands."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from sidecar.editor.ask_text import question_text
from sidecar.editor.client import EditorClient
from sidecar.editor.parts import Diagnostic, Place
from sidecar.workspace.broker import Pending

WARNING: Final = 2
SOURCE: Final = "sidecar"


class QuestionMarks:
    """Publishes the diagnostics of all waiting questions; a document without any more gets an empty list once.

    ``place`` says where a question stands (None: nowhere), ``others`` gives the diagnostics that stand in a document beside them.
    """

    def __init__(
        self,
        client: EditorClient,
        place: Callable[[Pending], Place | None],
        others: Callable[[str], Sequence[Diagnostic]],
    ) -> None:
        self._client = client
        self._place = place
        self._others = others
        self._published: dict[str, list[dict[str, Any]]] = {}

    def show(self, waiting: Sequence[Pending]) -> None:
        """Mark exactly these questions."""
        found: dict[str, list[dict[str, Any]]] = {}
        for pending in waiting:
            place = self._place(pending)
            if place is not None:
                found.setdefault(place.uri, []).append(_diagnostic(pending, place))
        for uri in {**found, **self._published}:
            shown = found.get(uri, [])
            if shown != self._published.get(uri, []):
                self._client.publish_diagnostics(uri, [*shown, *self._others(uri)])
        self._published = found


def _diagnostic(pending: Pending, place: Place) -> dict[str, Any]:
    last = max(place.start_line, place.end_line)
    end = {"line": last, "character": 0 if last > place.start_line else 1}
    return {
        "range": {"start": {"line": place.start_line, "character": 0}, "end": end},
        "severity": WARNING,
        "source": SOURCE,
        "code": pending.id,
        "message": question_text(pending),
    }
