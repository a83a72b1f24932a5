"""The front door: every message of the editor is decoded, correlated and sent where it belongs, before pygls sees any of it.

``sidecar/*`` and the commands ``sidecar.*`` become tasks over plain JSON, standard features too once their params fit LSP,
document notifications go to the application raw; the lifecycle, and what nobody knows, goes to pygls.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from sidecar.codec import NotJson, decode, encode, encode_plain
from sidecar.editor.calls import Calls
from sidecar.editor.client import EditorClient
from sidecar.editor.identity import PROTOCOLS, read_client, reduced_params
from sidecar.editor.lifecycle import REFUSALS, Phase, is_taken
from sidecar.editor.params import COMMAND_PREFIX, EXECUTE_COMMAND, command_call, object_params, only_argument
from sidecar.editor.ports import EditorApp, RequestHook
from sidecar.editor.protocol import build_protocol
from sidecar.editor.writer import FrameWriter
from sidecar.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    EditorFault,
    SidecarError,
    to_rpc_error,
)
from sidecar.rpc.connection import LSP_CANCELLATION, Connection
from sidecar.rpc.framing import BadHeader, FrameItem, HeaderFramer, Oversize
from sidecar.rpc.messages import (
    Cancelled,
    IncomingNotification,
    IncomingReply,
    IncomingRequest,
    Message,
    RequestId,
    Unusable,
    error_message,
    notification_message,
    request_message,
)
from sidecar.rpc.salvage import salvage

OPERATION_PREFIX: Final = "sidecar/"
BAD_HEADERS_LOGGED: Final = 10
BULK_METHODS: Final = frozenset({"sidecar/session/changed", "workspace/applyEdit"})
"""What is sent in large frames, made of nothing but decoded JSON."""

_log = logging.getLogger(__name__)


def framed(message: Message) -> bytes:
    """Return the bytes of one message: its only header, and ASCII JSON, so that the length is right whatever stands in it."""
    body = (encode_plain if message.get("method") in BULK_METHODS else encode)(message)
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class FrontDoor:
    """One editor. ``feed`` takes what was read, ``ended`` is set once with ``exit_code`` when it is over."""

    def __init__(self, app: EditorApp, tasks: TaskGroup) -> None:
        self.ended = anyio.Event()
        self.exit_code = 1
        self._app = app
        self._connection = Connection(LSP_CANCELLATION)
        self._framer = HeaderFramer(app.max_message_bytes)
        self._protocol = build_protocol(self, app.version)
        self._writer: FrameWriter | None = None
        self._phase = Phase.NEW
        self._settled = False
        self._bad_headers = 0
        self._features: dict[str, RequestHook] = {}
        self.client = EditorClient(self, self._connection)
        self._calls = Calls(self, self.client, tasks)

    def attach(self, writer: FrameWriter) -> None:
        """Take the way out; before this nothing may be fed."""
        self._writer = writer

    # the way out

    def send(self, message: Message) -> None:
        """Write one message. Raises TypeError when it is no JSON."""
        if self._writer is not None:
            self._writer.write(framed(message))

    async def room(self) -> None:
        """Return when a bulk producer may write again."""
        if self._writer is not None:
            await self._writer.room()

    @property
    def queued_bytes(self) -> int:
        """Bytes the editor has not taken yet."""
        return self._writer.queued if self._writer is not None else 0

    def answer(self, request_id: RequestId, result: Any) -> None:
        """Send the one reply of a request; nothing when it was answered before."""
        message = self._connection.answer(request_id, result)
        if message is None:
            return
        try:
            self.send(message)
        except (TypeError, ValueError, RecursionError) as error:
            _log.error("a result is no JSON: %s", type(error).__name__)  # the text may quote the result
            self.send(error_message(request_id, INTERNAL_ERROR, "the result could not be written as JSON; see the sidecar's log"))

    def refuse(self, request_id: RequestId, code: int, message: str, data: Any = None) -> None:
        """Send the one reply of a request, an error; nothing when it was answered before."""
        reply = self._connection.refuse(request_id, code, message, data)
        if reply is not None:
            self.send(reply)

    # the way in

    def feed(self, data: bytes) -> None:
        """Take the bytes of one read, ``b""`` at the end of the stream. Never raises."""
        if not data:
            self.end(1)
        for item in self._framer.feed(data):
            if self._phase is Phase.ENDED:
                return
            self._take(item)

    def end(self, code: int) -> None:
        """Begin the end, whatever runs; the first code counts."""
        if self._phase is Phase.ENDED:
            return
        self._settle()
        self._phase = Phase.ENDED
        self.exit_code = code
        self.ended.set()

    def on_shutdown(self) -> None:
        """Settle everything that waits: called by pygls before it answers shutdown."""
        self._settle()
        self._phase = Phase.SHUT_DOWN

    def on_exit(self) -> None:
        """End with 0 after a shutdown, else with 1 (LSP 3.17, Exit Notification)."""
        self.end(0 if self._phase is Phase.SHUT_DOWN else 1)

    def _settle(self) -> None:
        if self._settled:
            return
        self._settled = True
        self._calls.settle()
        self.client.close()
        try:
            self._app.shutdown()
        except Exception:  # noqa: BLE001  the end goes on whatever the application does
            _log.exception("the application failed to settle what waits")

    def _take(self, item: FrameItem) -> None:
        if isinstance(item, Oversize):
            self._skip(item)
        elif isinstance(item, BadHeader):
            self._bad_headers += 1
            if self._bad_headers <= BAD_HEADERS_LOGGED:
                _log.warning("%d bytes from the editor are no message: %s", item.size, item.reason)
        else:
            self._receive(item)

    def _receive(self, body: bytes) -> None:
        try:
            message = decode(body)
        except NotJson as error:
            self.send(error_message(None, PARSE_ERROR, f"a message of {len(body)} bytes is {error}"))
            return
        incoming = self._connection.receive(message)
        if isinstance(incoming, IncomingRequest):
            self._receive_request(incoming)
        elif isinstance(incoming, IncomingNotification):
            self._receive_notification(incoming)
        elif isinstance(incoming, IncomingReply):
            self.client.resolve(incoming)
        elif isinstance(incoming, Cancelled):
            self._calls.cancel(incoming.id)
        else:
            self._receive_unusable(incoming)

    def _receive_unusable(self, incoming: Unusable) -> None:
        _log.info("a message from the editor was not used: %s", incoming.reason)
        if incoming.reply is not None:
            self.send(incoming.reply)

    def _skip(self, item: Oversize) -> None:
        found = salvage(item)
        method = found.method or "unknown"
        limit = self._app.max_message_bytes
        text = f"a message of {item.size} bytes was skipped: limits.max_message_bytes is {limit}"
        if found.is_reply and found.id is not None:
            incoming = self._connection.receive(error_message(found.id, INVALID_REQUEST, text))
            if isinstance(incoming, IncomingReply):
                self.client.resolve(incoming)
        elif found.id is not None:
            incoming = self._connection.receive(request_message(found.id, method))
            if isinstance(incoming, IncomingRequest):
                self.refuse(incoming.id, INVALID_REQUEST, text)
        elif found.method is None:
            self.send(error_message(None, INVALID_REQUEST, text))
        elif self._phase is Phase.READY:
            self.client.log_message("warning", f"{method}: {text}")
            self._guarded(method, lambda: self._app.skipped(method))

    # requests

    def _receive_request(self, request: IncomingRequest) -> None:
        refusal = REFUSALS.get(self._phase)
        if refusal is not None and not (self._phase is Phase.NEW and request.method == "initialize"):
            self.refuse(request.id, *refusal)
            return
        try:
            self._route(request)
        except SidecarError as error:
            self.refuse(request.id, **to_rpc_error(error))
        except Exception as error:  # noqa: BLE001  the top of every request: whatever goes wrong is answered
            _log.exception("%s could not be begun", ascii(request.method[:80]))
            self.refuse(request.id, **to_rpc_error(error))

    def _route(self, request: IncomingRequest) -> None:
        method = request.method
        if method == "initialize":
            self._initialize(request)
        elif method.startswith(OPERATION_PREFIX):
            name = method.removeprefix(OPERATION_PREFIX).replace("/", ".")
            self._calls.begin(request.id, name, self._operation(name), object_params(name, request.params))
        elif method == EXECUTE_COMMAND:
            name, arguments = command_call(request.params)
            self._calls.begin_command(request.id, name, self._operation(name), only_argument(name, arguments))
        elif (hook := self._features.get(method)) is not None:
            params = object_params(method, request.params)
            self._protocol.check(method, params)
            self._calls.begin(request.id, method, hook, params)
        else:
            self._protocol.handle(request_message(request.id, method, request.params))

    def _operation(self, name: str) -> RequestHook:
        hook = self._app.operations.get(name)
        if hook is None:
            text = f"there is no operation {name[:80]!a}; editors/PROTOCOL.md lists them, and so does initialize"
            raise EditorFault(f"{text} (capabilities.experimental.sidecar.operations)", code=METHOD_NOT_FOUND)
        return hook

    def _initialize(self, request: IncomingRequest) -> None:
        if self._phase is not Phase.NEW:
            raise EditorFault("initialize was sent before; it is sent once", code=INVALID_REQUEST)
        params = object_params("initialize", request.params)
        info = read_client(params)
        self.client.info = info
        additions = self._app.initialize(self.client, params)
        self._features = {feature.method: feature.hook for feature in self._app.features}
        names = sorted(self._app.operations)
        self._protocol.experimental = {
            "protocol": list(PROTOCOLS),
            "version": self._app.version,
            "operations": names,
            **additions,
        }
        commands = [COMMAND_PREFIX + name for name in names] if info.commands else []
        self._protocol.offer(self._app.features, self._app.notifications, commands)
        self._protocol.handle(request_message(request.id, "initialize", reduced_params(info)))
        self._phase = Phase.READY

    # notifications

    def _receive_notification(self, notification: IncomingNotification) -> None:
        method = notification.method
        if not is_taken(self._phase, method) or method.startswith(OPERATION_PREFIX):
            _log.info("the notification %s was not used", ascii(method[:80]))
            return
        self._guarded(method, lambda: self._notify(method, notification.params))

    @staticmethod
    def _guarded(method: str, act: Callable[[], None]) -> None:
        """Run what a notification causes: nobody waits for an answer, and none of it becomes a pop-up."""
        try:
            act()
        except SidecarError as error:
            _log.warning("%s", error.message)
        except Exception:  # noqa: BLE001  the top of every notification: the next one is taken
            _log.exception("the notification %s was not handled", ascii(method[:80]))

    def _notify(self, method: str, params: Any) -> None:
        hook = self._app.notifications.get(method)
        if method == "window/workDoneProgress/cancel":
            self.client.progress_cancelled(object_params(method, params).get("token"))
        elif method == "initialized" and self.client.info.update is not None:
            self.client.show_message("warning", self.client.info.update)
        if hook is not None:
            hook(object_params(method, params))
        elif method in {"exit", "$/setTrace"}:
            self._protocol.handle(notification_message(method, params))
