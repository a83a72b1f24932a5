"""The editor as the application sees it: what can be told and asked, in plain JSON.

An answer of the editor is a value whatever it is: a result, null, an error, silence. None of them is consent by itself; who
asked decides what was said.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

import anyio
import attrs

from sidecar.editor.identity import ClientInfo
from sidecar.rpc.connection import Connection
from sidecar.rpc.messages import IncomingReply, Message, RequestId, RpcError

CREATE_PROGRESS_SECONDS: Final = 2.0
APPLY_EDIT_SECONDS: Final = 10.0
SHOW_DOCUMENT_SECONDS: Final = 10.0
CONFIGURATION_SECONDS: Final = 5.0

MessageKind: TypeAlias = Literal["error", "warning", "info", "log"]
_MESSAGE_TYPES: Final[Mapping[MessageKind, int]] = {"error": 1, "warning": 2, "info": 3, "log": 4}


@attrs.frozen
class ClientReply:
    """What came of a request to the editor.

    ``outcome``: ``result`` (see ``result``, which may be null), ``error`` (see ``error``), ``timeout`` (no answer in time; a
    later one is ignored), ``closed`` (the editor is shutting the sidecar down, or gone).
    """

    outcome: Literal["result", "error", "timeout", "closed"]
    result: Any = attrs.field(default=None, repr=False)
    error: RpcError | None = None


_TIMEOUT: Final = ClientReply("timeout")
_CLOSED: Final = ClientReply("closed")


class Outlet(Protocol):
    """Where messages to the editor go (the front door)."""

    def send(self, message: Message) -> None:
        """Write one message; never blocks."""
        ...

    async def room(self) -> None:
        """Return when a bulk producer may write again."""
        ...

    @property
    def queued_bytes(self) -> int:
        """Bytes the editor has not taken yet."""
        ...


class _Waiter:
    __slots__ = ("event", "reply")

    def __init__(self) -> None:
        self.event = anyio.Event()
        self.reply: ClientReply | None = None

    def resolve(self, reply: ClientReply) -> None:
        self.reply = reply
        self.event.set()


class Progress:
    """One work-done progress shown by the editor, or a silent stand-in when it shows none (``shown`` false)."""

    def __init__(self, client: "EditorClient", token: str, *, shown: bool) -> None:
        self._client = client
        self.token = token
        self.shown = shown

    def report(self, message: str | None = None, percentage: int | None = None) -> None:
        """Show how far it is; nothing after the end."""
        if self.shown:
            self._client.notify_progress(self.token, {"kind": "report", "message": message, "percentage": percentage})

    def end(self, message: str | None = None) -> None:
        """End it; safe to call again."""
        if self.shown:
            self._client.notify_progress(self.token, {"kind": "end", "message": message})
            self.shown = False
        self._client.forget_progress(self.token)


class EditorClient:
    """Notifications and requests to the editor. ``info`` says who it is; before ``initialize`` it knows nothing."""

    def __init__(self, outlet: Outlet, connection: Connection) -> None:
        self.info = ClientInfo()
        self._outlet = outlet
        self._connection = connection
        self._waiting: dict[int, _Waiter] = {}
        self._on_cancel: dict[RequestId, Callable[[], None]] = {}
        self._tokens = itertools.count(1)
        self._closed = False

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification at once. After shutdown nothing is sent."""
        if not self._closed:
            self._outlet.send(self._connection.notification(method, params))

    async def room(self) -> None:
        """Wait until the editor has read enough; to be awaited before each frame of bulk output."""
        await self._outlet.room()

    @property
    def queued_bytes(self) -> int:
        """Bytes written that the editor's pipe has not taken yet."""
        return self._outlet.queued_bytes

    async def request(self, method: str, params: Mapping[str, Any] | None = None, *, timeout: float | None = None) -> ClientReply:  # noqa: ASYNC109  a timeout is an answer here
        """Ask the editor; ``timeout`` in seconds, None = as long as it takes. Never raises for what the editor does.

        When the caller is cancelled, or in time got no answer, the request is withdrawn with ``$/cancelRequest``.
        """
        if self._closed:
            return _CLOSED
        request_id, message = self._connection.request(method, params)
        waiter = self._waiting[request_id] = _Waiter()
        self._outlet.send(message)
        try:
            with anyio.move_on_after(timeout):
                await waiter.event.wait()
        finally:
            if self._waiting.pop(request_id, None) is not None:
                self._withdraw(request_id)
        return waiter.reply or _TIMEOUT

    def show_message(self, kind: MessageKind, text: str) -> None:
        """Show ``text`` to the user (window/showMessage); only for what needs the user."""
        self.notify("window/showMessage", {"type": _MESSAGE_TYPES[kind], "message": text})

    def log_message(self, kind: MessageKind, text: str) -> None:
        """Put ``text`` in the editor's log (window/logMessage)."""
        self.notify("window/logMessage", {"type": _MESSAGE_TYPES[kind], "message": text})

    def publish_diagnostics(self, uri: str, diagnostics: Sequence[Mapping[str, Any]], version: int | None = None) -> None:
        """Replace the diagnostics of a document (textDocument/publishDiagnostics)."""
        params: dict[str, Any] = {"uri": uri, "diagnostics": list(diagnostics)}
        self.notify("textDocument/publishDiagnostics", params if version is None else {**params, "version": version})

    async def show_message_request(self, kind: MessageKind, text: str, titles: Sequence[str]) -> str | None:
        """Ask the user to pick one of ``titles`` (window/showMessageRequest); wait until answered or the caller is cancelled.

        Returns the title picked, exactly as offered, else None: dismissed, refused, an answer that names nothing offered.
        """
        params = {"type": _MESSAGE_TYPES[kind], "message": text, "actions": [{"title": title} for title in titles]}
        reply = await self.request("window/showMessageRequest", params)
        answer: object = reply.result
        picked = cast("dict[str, Any]", answer).get("title") if isinstance(answer, dict) else None
        return picked if isinstance(picked, str) and picked in titles else None

    async def show_document(self, uri: str, *, timeout: float = SHOW_DOCUMENT_SECONDS, **options: Any) -> ClientReply:  # noqa: ASYNC109  a timeout is an answer here
        """Open ``uri`` byte for byte (window/showDocument); ``options``: ``external``, ``takeFocus``, ``selection``."""
        return await self.request("window/showDocument", {"uri": uri, **options}, timeout=timeout)

    async def apply_edit(
        self,
        edit: Mapping[str, Any],
        label: str | None = None,
        *,
        timeout: float = APPLY_EDIT_SECONDS,  # noqa: ASYNC109  a timeout is an answer here
    ) -> ClientReply:
        """Have the editor apply a WorkspaceEdit. ``applied`` in the result is a claim, to be verified in the mirror."""
        params = {"edit": edit} if label is None else {"label": label, "edit": edit}
        return await self.request("workspace/applyEdit", params, timeout=timeout)

    async def configuration(self, section: str, scope_uri: str | None = None) -> Any:
        """Return the editor's settings of ``section`` (workspace/configuration), or None when it offers or answers nothing."""
        if self.info.capability("workspace", "configuration") is not True:
            return None
        item = {"section": section} if scope_uri is None else {"scopeUri": scope_uri, "section": section}
        reply = await self.request("workspace/configuration", {"items": [item]}, timeout=CONFIGURATION_SECONDS)
        answer: object = reply.result
        values = cast("list[Any]", answer) if isinstance(answer, list) else []
        return values[0] if values else None

    async def begin_progress(
        self, title: str, message: str | None = None, *, on_cancel: Callable[[], None] | None = None
    ) -> Progress:
        """Begin a progress (window/workDoneProgress/create); ``on_cancel`` makes it cancellable and is called at most once."""
        token = f"sidecar-{next(self._tokens)}"
        if self.info.capability("window", "workDoneProgress") is not True:
            return Progress(self, token, shown=False)
        reply = await self.request("window/workDoneProgress/create", {"token": token}, timeout=CREATE_PROGRESS_SECONDS)
        shown = reply.outcome == "result"
        if shown:
            if on_cancel is not None:
                self._on_cancel[token] = on_cancel
            begin = {"kind": "begin", "title": title, "cancellable": on_cancel is not None, "message": message}
            self.notify_progress(token, begin)
        return Progress(self, token, shown=shown)

    def notify_progress(self, token: str, value: Mapping[str, Any]) -> None:
        """Send one step of a progress; members that are None are left out."""
        self.notify("$/progress", {"token": token, "value": {name: item for name, item in value.items() if item is not None}})

    def forget_progress(self, token: str) -> None:
        """A cancellation of this token reaches nobody any more."""
        self._on_cancel.pop(token, None)

    def progress_cancelled(self, token: object) -> None:
        """The user cancelled a progress (window/workDoneProgress/cancel); tokens that are not ours are ignored."""
        on_cancel = self._on_cancel.pop(token, None) if isinstance(token, str) else None
        if on_cancel is not None:
            on_cancel()

    def resolve(self, reply: IncomingReply) -> None:
        """Hand a reply to who waits for it."""
        waiter = self._waiting.pop(reply.id, None)
        if waiter is not None:
            waiter.resolve(
                ClientReply("result", reply.result) if reply.error is None else ClientReply("error", None, reply.error)
            )

    def close(self) -> None:
        """Settle everything that waits, and send nothing more."""
        self._closed = True
        waiting, self._waiting = self._waiting, {}
        for request_id, waiter in waiting.items():
            self._connection.forget(request_id)
            waiter.resolve(_CLOSED)
        self._on_cancel.clear()

    def _withdraw(self, request_id: int) -> None:
        message = self._connection.cancel(request_id)
        if message is not None and not self._closed:
            self._outlet.send(message)
        self._connection.forget(request_id)
