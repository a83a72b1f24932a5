"""What is announced before anything is loaded is what is there, and the page about it is current."""

from pathlib import Path

import anyio

from sidecar.config import Layer, combine
from sidecar.editor.announced import FEATURES, NOTIFICATIONS, OPERATIONS
from sidecar.editor.built_in import PARTS
from sidecar.editor.client import EditorClient
from sidecar.editor.front import EditorFront, FrontNeeds
from sidecar.editor.protocol_docs import FILE, document
from sidecar.rpc.connection import LSP_CANCELLATION, Connection
from sidecar.rpc.messages import Message
from sidecar.workspace.sessions import Workspace
from tests.conftest import REPOSITORY

REMEDY = "run python -m sidecar.editor.protocol_docs, and keep sidecar/editor/announced.py in step"


class Silence:
    queued_bytes = 0

    def send(self, message: Message) -> None: ...

    async def room(self) -> None: ...


def built(folder: Path) -> EditorFront:
    async def build() -> EditorFront:
        front: EditorFront | None = None
        async with anyio.create_task_group() as tasks:
            workspace = Workspace(tasks, combine(Layer("nothing")))
            front = EditorFront(workspace, tasks, FrontNeeds(Layer("nothing"), folder, parts=PARTS))
            front.initialize(EditorClient(Silence(), Connection(LSP_CANCELLATION)), {})
            front.shutdown()
            tasks.cancel_scope.cancel()
        assert front is not None
        return front

    return anyio.run(build)


def test_the_announced_operations_are_those_that_exist(tmp_path: Path) -> None:
    front = built(tmp_path)
    assert sorted(front.operations) == list(OPERATIONS), REMEDY
    assert sorted(front.table) == sorted(front.operations)


def test_the_announced_features_and_notifications_are_those_that_exist(tmp_path: Path) -> None:
    front = built(tmp_path)
    assert {feature.method: dict(feature.options) for feature in front.features} == dict(FEATURES), REMEDY
    assert sorted(front.notifications) == sorted(NOTIFICATIONS), REMEDY


def test_the_page_about_the_protocol_is_the_one_the_code_makes() -> None:
    assert (REPOSITORY / FILE).read_text(encoding="utf-8") == document(), REMEDY
