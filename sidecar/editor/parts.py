"""Parts of the editor front beyond its core, such as the transcript document: what each gets and what it adds.

A part is made once, at ``initialize``, when the editor's capabilities are known. The front (``front.py``) merges what the parts
add into the one table of operations, the features and the notifications.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs
from anyio.abc import TaskGroup

from sidecar.editor.client import EditorClient
from sidecar.editor.ports import Feature, NotificationHook
from sidecar.store.worker import StoreWorker
from sidecar.workspace.actor import SessionActor
from sidecar.workspace.broker import Pending
from sidecar.workspace.documents import Documents
from sidecar.workspace.operation import Operation
from sidecar.workspace.sessions import Workspace

Diagnostic: TypeAlias = Mapping[str, Any]
RunOperation: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[Any]]


@attrs.frozen
class Place:
    """Lines of a document, both ends included, counted from 0."""

    uri: str
    start_line: int
    end_line: int


@attrs.frozen
class Front:
    """What a part works with.

    ``operations`` is the workspace's own table; ``run(name, params)`` runs any operation of the merged table as the editor would.
    ``questions_moved()`` is to be called when the places of questions changed.
    """

    client: EditorClient
    workspace: Workspace
    documents: Documents
    tasks: TaskGroup
    operations: Mapping[str, Operation]
    run: RunOperation
    questions_moved: Callable[[], None]
    store: StoreWorker | None = None


@attrs.frozen
class Part:
    """What a part adds; everything is optional.

    An operation replaces the workspace's of the same name. Notification hooks run in the order of the parts, after the document
    mirror was fed. ``ready`` is called once, when options and folders are known and agents may start; ``shutdown`` synchronously
    at the end. ``question_place`` says where a question stands in a document, ``how_to_answer`` half a sentence for its
    announcement, ``diagnostics`` further ones for a document where questions are marked.
    """

    operations: Sequence[Operation] = ()
    features: Sequence[Feature] = ()
    notifications: Mapping[str, NotificationHook] = attrs.field(factory=dict[str, NotificationHook])
    session_added: Callable[[SessionActor], None] | None = None
    ready: Callable[[], None] | None = None
    shutdown: Callable[[], None] | None = None
    question_place: Callable[[Pending], Place | None] | None = None
    how_to_answer: Callable[[Pending], str | None] | None = None
    diagnostics: Callable[[str], Sequence[Diagnostic]] | None = None


PartFactory: TypeAlias = Callable[[Front], Part]
