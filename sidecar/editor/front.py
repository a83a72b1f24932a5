"""The application behind the front door: the workspace's operations, what is told to the editor, and the parts plugged in."""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import attrs
from anyio.abc import TaskGroup

import sidecar
from sidecar.config import Configuration, Layer
from sidecar.editor.ask import QuestionLadder, QuestionWords
from sidecar.editor.ask_marks import QuestionMarks
from sidecar.editor.ask_url import UrlOpener
from sidecar.editor.client import EditorClient
from sidecar.editor.configuration import EditorConfiguration
from sidecar.editor.document_edits import EditorFiles
from sidecar.editor.folders import WorkspaceFolders
from sidecar.editor.going_on import going_on
from sidecar.editor.handlers_questions import asking_operations
from sidecar.editor.handlers_sessions import WATCHED_IMPLICITLY, stream_operations, watching
from sidecar.editor.parts import Diagnostic, Front, Part, PartFactory, Place
from sidecar.editor.ports import Feature, NotificationHook, RequestHook
from sidecar.editor.progress import TurnProgress, WayOut
from sidecar.editor.publish import Publisher
from sidecar.editor.trust import TrustStore
from sidecar.errors import ConfigFault, EditorFault, SidecarError
from sidecar.log import add_editor_sink
from sidecar.session.interaction import OpenUrl
from sidecar.store.worker import StoreWorker
from sidecar.workspace.actor import SessionActor
from sidecar.workspace.broker import Pending
from sidecar.workspace.documents import Documents
from sidecar.workspace.files import FileService
from sidecar.workspace.files_rules import FileRules, own_paths
from sidecar.workspace.hooks import Offers
from sidecar.workspace.opener import remote_notice
from sidecar.workspace.operation import Operation, Params
from sidecar.workspace.operations import operations
from sidecar.workspace.selection import folder_of
from sidecar.workspace.sessions import Workspace

AGENT_CHANGED: Final = "sidecar/agent/changed"
NEXT_NEED: Final = "It is started again when it is next needed; no prompt is sent a second time."
NEEDS_NO_AGENT: Final = frozenset({"status", "pending.list", "pending.get", "pending.ask", "pending.answer", "cancel"})
"""Operations that never start anything, and so do not wait for the editor's settings."""

TAKES_BACK: Final = "transcript."
"""Operations of this family put the user's text back themselves when the editor stops waiting."""

_log = logging.getLogger(__name__)


@attrs.frozen
class FrontNeeds:
    """What the composition root gives the front: the user's layer of settings, the state folder, the store, and the parts."""

    user: Layer
    state_directory: Path
    environment: Callable[[], Mapping[str, str]] = lambda: os.environ
    store: StoreWorker | None = None
    parts: Sequence[PartFactory] = ()


class EditorFront:
    """One editor's front (``sidecar.editor.ports.EditorApp``). Most of it is made at ``initialize``."""

    version = sidecar.__version__

    def __init__(self, workspace: Workspace, tasks: TaskGroup, needs: FrontNeeds) -> None:
        self.max_message_bytes = workspace.configuration.settings.limits.max_message_bytes
        self.operations: Mapping[str, RequestHook] = {}
        self.features: Sequence[Feature] = ()
        self.notifications: Mapping[str, NotificationHook] = {}
        self.workspace = workspace
        self._tasks = tasks
        self._needs = needs
        self._folders = WorkspaceFolders(workspace)
        self._made: _Made | None = None
        self._troubles: list[str] = []
        self._agents: dict[str, tuple[str, str | None]] = {}
        workspace.hooks.agent_changed = self.agent_changed
        workspace.hooks.notice = self.notice
        workspace.hooks.session_added = self._session_added
        workspace.hooks.open_url = self._open_url
        workspace.hooks.offers = Offers(forms=True, urls=True, terminal_sign_in=True)

    # --- the front door's hooks ---------------------------------------------------------------------------------------------

    def initialize(self, editor: EditorClient, params: dict[str, Any]) -> Mapping[str, Any]:
        """Build the front for this editor. The agent starts later: options and folders are only known now."""
        self._folders.initialize(params)
        made = self._made = _Made(self, editor, self._tasks, self._needs)
        made.configuration.initialize(params.get("initializationOptions"), self._first_folder())
        self.operations = {name: self._settled(name, operation) for name, operation in made.table.items()}
        self.features = made.features
        self.notifications = self._notification_hooks(made)
        self._tasks.start_soon(made.ladder.run)
        return {}

    def skipped(self, method: str) -> None:
        """A document notification was too large: nothing is known of what it said."""
        if self._made is not None and method.startswith("textDocument/"):
            documents = self._made.documents
            for uri in documents.open_uris():
                documents.did_change({"textDocument": {"uri": uri}, "contentChanges": None})

    def shutdown(self) -> None:
        """Withdraw every question; nothing can be sent any more."""
        self.workspace.settle()
        if self._made is not None:
            self._made.close()

    async def aclose(self) -> None:
        """End every session and agent in bounded time."""
        await self.workspace.aclose()

    # --- what the workspace tells -------------------------------------------------------------------------------------------

    def trouble(self, sentence: str) -> None:
        """Show the user one sentence about the sidecar itself, now or as soon as an editor is there."""
        if self._made is not None:
            self._made.client.show_message("warning", sentence)
        else:
            self._troubles.append(sentence)

    def agent_changed(self, agent: str, state: str, message: str | None) -> None:
        """An agent started, failed, or is gone: told at once, with the reason."""
        if self._made is None:
            return
        client = self._made.client
        if client.info.protocol is None:
            if state == "stopped" and message is not None:
                client.show_message("error", f"{agent} is gone: {message}\n{NEXT_NEED}")
        elif self._agents.get(agent) != (state, message):
            self._agents[agent] = (state, message)
            client.notify(AGENT_CHANGED, {"agent": agent, "state": state, **({"message": message} if message else {})})

    def notice(self, agent: str, severity: str, title: str, description: str | None) -> None:
        """Put something about an agent as a whole in the editor's log."""
        if self._made is not None:
            kind = "error" if severity == "error" else "warning" if severity == "warning" else "info"
            self._made.client.log_message(kind, f"{agent}: {title}" + (f" ({description})" if description else ""))

    def _session_added(self, actor: SessionActor) -> None:
        if self._made is not None:
            self._made.session_added(actor)

    async def _open_url(self, body: OpenUrl) -> bool:
        return self._made is not None and await self._made.opener.open(body)

    # --- settings and folders -------------------------------------------------------------------------------------------------

    def apply(self, configuration: Configuration) -> None:
        """Use a new configuration from now on; agents that run keep what they were started with."""
        self.workspace.configuration = configuration

    def _first_folder(self) -> str:
        return self.workspace.folders[0] if self.workspace.folders else ""

    async def _settle(self, made: "_Made") -> None:
        await made.configuration.settle()
        for part in made.parts:
            if part.ready is not None:
                part.ready()
        settings = self.workspace.configuration.settings
        if settings.warm:
            self.workspace.spawn(self._warm)

    async def _warm(self) -> None:
        """Start the default agent ahead of its first use."""
        try:
            agent = self.workspace.configuration.settings.agent_named(None)
        except ConfigFault:
            return  # told already, as a refused setting
        await self.workspace.supervisor.connect(agent, folder_of(self.workspace, None))

    def _settled(self, name: str, operation: Operation) -> RequestHook:
        """Return the operation as the editor calls it: after its settings are known."""

        async def run(params: dict[str, Any]) -> Any:
            if name not in NEEDS_NO_AGENT and self._made is not None:
                await self._made.configuration.wait_settled()
            if name.startswith(TAKES_BACK):
                return await operation(params)
            return await going_on(self._tasks, lambda: operation(params))

        return run

    # --- notifications of the editor ------------------------------------------------------------------------------------------

    def _notification_hooks(self, made: "_Made") -> dict[str, NotificationHook]:
        documents = made.documents
        own: dict[str, NotificationHook] = {
            "initialized": lambda _: self._initialized(made),
            "textDocument/didOpen": lambda params: self._document(documents.did_open, params),
            "textDocument/didChange": lambda params: self._document(documents.did_change, params),
            "textDocument/didSave": lambda params: self._document(documents.did_save, params),
            "textDocument/didClose": lambda params: _said(documents.did_close(params)),
            "workspace/didChangeConfiguration": lambda params: self.workspace.spawn(lambda: made.configuration.changed(params)),
            "workspace/didChangeWorkspaceFolders": self._folders_changed,
        }
        hooks = dict(own)
        for part in made.parts:
            for method, hook in part.notifications.items():
                hooks[method] = _both(hooks[method], hook) if method in hooks else hook
        return hooks

    def _initialized(self, made: "_Made") -> None:
        self.workspace.spawn(lambda: self._settle(made))
        troubles, self._troubles = self._troubles, []
        for sentence in troubles:
            made.client.show_message("warning", sentence)

    def _document(self, feed: Callable[[object], str | None], params: dict[str, Any]) -> None:
        _said(feed(params))
        document: object = params.get("textDocument")
        if isinstance(document, dict):
            self._folders.touch(cast("dict[str, Any]", document).get("uri"))

    def _folders_changed(self, params: dict[str, Any]) -> None:
        self._folders.changed(params)
        if self._made is not None:
            configuration, folder = self._made.configuration, self._first_folder()
            self.workspace.spawn(lambda: configuration.folder_changed(folder))

    @property
    def table(self) -> Mapping[str, Operation]:
        """Every operation this editor can run; nothing before ``initialize``."""
        return self._made.table if self._made is not None else {}

    @property
    def active_uri(self) -> str | None:
        """The document the user works in."""
        return self._folders.active_uri


class _Made:
    """Everything that exists only once the editor is known."""

    def __init__(self, front: EditorFront, client: EditorClient, tasks: TaskGroup, needs: FrontNeeds) -> None:
        workspace = front.workspace
        self.client = client
        self._front = front
        self._workspace = workspace
        encoding = "utf-8" if client.info.position_encoding == "utf-8" else "utf-16"
        self.documents = Documents(encoding, read_text=_read_text)
        workspace.hooks.files = FileService(
            workspace.spawn, EditorFiles(client, self.documents), FileRules(own=lambda: own_paths(needs.user.source))
        )
        workspace.hooks.terminals = True
        self.publisher = Publisher(client, tasks, workspace.broker, automatic=client.info.changes)
        marks = QuestionMarks(client, self._place_of, self._diagnostics)
        words = QuestionWords(
            marks,
            notice_for=lambda pending: remote_notice(needs.environment()) if isinstance(pending.body, OpenUrl) else None,
            hint=self._hint,
        )
        self.ladder = QuestionLadder(client, workspace.broker, workspace.clock, words)
        self.opener = UrlOpener(client, workspace.broker, self.ladder, needs.environment, lambda: workspace.folders)
        trust = TrustStore(needs.state_directory)
        self.configuration = EditorConfiguration(client, needs.user, trust, workspace.broker, front.apply)
        base = operations(workspace)
        self.parts: list[Part] = []
        context = Front(client, workspace, self.documents, tasks, base, self.run, self.ladder.questions_moved, needs.store)
        self.parts += [factory(context) for factory in needs.parts]
        self.table = self._table(base)
        self.features = [feature for part in self.parts for feature in part.features]
        self._end_sink = add_editor_sink(_on_loop(self._log_to_editor))

    def _table(self, base: Mapping[str, Operation]) -> dict[str, Operation]:
        added = [*stream_operations(self._workspace, self.publisher, base), *asking_operations(self.ladder)]
        added += [operation for part in self.parts for operation in part.operations]
        table = {**base, **{operation.name: operation for operation in added}}
        for name in WATCHED_IMPLICITLY:
            table[name] = watching(self._workspace, self.publisher, table[name])
        return table

    async def run(self, name: str, params: Params) -> Any:
        """Run an operation by name, as the editor would."""
        operation = self.table.get(name)
        if operation is None:
            raise EditorFault(f"there is no operation {name!r}")
        await self.configuration.wait_settled()
        return await operation(params)

    def session_added(self, actor: SessionActor) -> None:
        self.publisher.session_added(actor)
        TurnProgress(self.client, self._workspace, actor)
        if self.client.info.protocol is None:
            WayOut(self.client, actor)
        for part in self.parts:
            if part.session_added is not None:
                part.session_added(actor)

    def close(self) -> None:
        """Tell the parts that it is over."""
        self._end_sink()
        for part in self.parts:
            if part.shutdown is not None:
                try:
                    part.shutdown()
                except SidecarError as error:
                    _log.warning("a part of the editor front did not end well: %s", error.message)

    def _place_of(self, pending: Pending) -> Place | None:
        for part in self.parts:
            place = part.question_place(pending) if part.question_place is not None else None
            if place is not None:
                return place
        uri = self._front.active_uri
        return Place(self.documents.client_uri(uri), 0, 0) if uri is not None else None

    def _diagnostics(self, uri: str) -> list[Diagnostic]:
        return [item for part in self.parts if part.diagnostics is not None for item in part.diagnostics(uri)]

    def _hint(self, pending: Pending) -> str | None:
        for part in self.parts:
            hint = part.how_to_answer(pending) if part.how_to_answer is not None else None
            if hint is not None:
                return hint
        return None

    def _log_to_editor(self, kind: int, text: str) -> None:
        self.client.log_message({1: "error", 2: "warning", 3: "info"}.get(kind, "log"), text)  # pyright: ignore[reportArgumentType]


def _said(ignored: str | None) -> None:
    if ignored is not None:
        _log.info("a document notification was ignored: %s", ignored)


def _both(first: NotificationHook, second: NotificationHook) -> NotificationHook:
    def hook(params: dict[str, Any]) -> None:
        first(params)
        second(params)

    return hook


def _on_loop(sink: Callable[[int, str], None]) -> Callable[[int, str], None]:
    """Return the sink for any thread: log records of worker threads are handed over to the loop."""
    loop = asyncio.get_running_loop()

    def from_any_thread(kind: int, text: str) -> None:
        loop.call_soon_threadsafe(sink, kind, text)

    return from_any_thread


def _read_text(uri: str) -> str | None:
    from sidecar.workspace.uris import uri_to_path

    path = uri_to_path(uri)
    if path is None:
        return None
    try:
        return Path(path).read_bytes().decode("utf-8")
    except (OSError, ValueError):
        return None
