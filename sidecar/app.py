"""The composition root of the language server: configuration, store, workspace and editor front, made and owned here."""

import gc
from typing import TYPE_CHECKING, NoReturn

from sidecar.cli.common import ServeOptions

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from sidecar.config import Configuration, Layer
    from sidecar.editor.deferred import DeferredFront
    from sidecar.editor.front import EditorFront


def serve(options: ServeOptions) -> NoReturn:
    """Be the language server on stdin and stdout. Ends the process itself, so that nothing can hold it.

    Raises ``ConfigFault`` when the configuration file was named and cannot be read.
    """
    gc.disable()  # nothing made while importing is garbage; the server turns it on again
    from sidecar.config import combine, load_user_layer  # each command loads its own world only
    from sidecar.editor.server import run

    user = load_user_layer(options.common.config)
    configuration = combine(user)

    def application(tasks: "TaskGroup") -> "DeferredFront":
        from sidecar.editor.deferred import DeferredFront  # after the signals are ours

        limit = configuration.settings.limits.max_message_bytes
        return DeferredFront(tasks, limit, lambda: build(tasks, user, configuration))

    run(application)


def build(tasks: "TaskGroup", user: "Layer", configuration: "Configuration") -> "EditorFront":
    """Make the editor's front and all behind it; everything it starts runs in ``tasks``."""
    from sidecar.config import state_directory  # after the reply to initialize
    from sidecar.editor.built_in import PARTS
    from sidecar.editor.front import EditorFront, FrontNeeds
    from sidecar.store.sessions import SessionStore
    from sidecar.store.worker import StoreWorker
    from sidecar.workspace.records import Records
    from sidecar.workspace.sessions import Workspace

    front: EditorFront | None = None

    def trouble(sentence: str) -> None:
        if front is not None:
            front.trouble(sentence)

    state = state_directory()
    store = StoreWorker(lambda: SessionStore(state), trouble)
    workspace = Workspace(tasks, configuration, records=Records(store))
    front = EditorFront(workspace, tasks, FrontNeeds(user, state, store=store, parts=PARTS))
    tasks.start_soon(store.run)
    return front
