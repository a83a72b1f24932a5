"""pygls behind the front door: it answers the lifecycle and computes the capabilities; everything else stays outside.

Of its own intake, output, logging and pop-ups nothing is used (design, "pygls behind a front door"). Importing this module
imports pygls and lsprotocol.
"""

import logging
import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

import cattrs
import pygls.lsp
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import (
    JsonRPCNotification,
    JsonRPCRequestMessage,
    LanguageServerProtocol,
    default_converter,
    lsp_method,
)

from sidecar.editor.ports import Feature
from sidecar.errors import INTERNAL_ERROR, METHOD_NOT_FOUND, EditorFault, SidecarBug
from sidecar.rpc.messages import Message, RequestId, request_message

_log = logging.getLogger(__name__)
_pygls_lsp: Any = pygls.lsp


class Lifecycle(Protocol):
    """What pygls has the front door do."""

    def answer(self, request_id: RequestId, result: Any) -> None:
        """Send the one reply of a request."""
        ...

    def refuse(self, request_id: RequestId, code: int, message: str) -> None:
        """Send the one reply of a request, an error."""
        ...

    def on_shutdown(self) -> None:
        """Settle what is open; called before shutdown is answered."""
        ...

    def on_exit(self) -> None:
        """The editor said exit."""
        ...


class SidecarProtocol(LanguageServerProtocol):
    """The protocol object of pygls with its output, exit and shutdown replaced; ``build_protocol`` makes it."""

    lifecycle: Lifecycle
    experimental: Mapping[str, Any]

    def _send_data(self, data: Any) -> None:
        """Take what pygls answers. There is no other sender: questions to the editor do not pass pygls."""
        plain = self._converter.unstructure(data)
        if "method" in plain or "id" not in plain:
            raise SidecarBug("pygls was used to send something that is no reply; use EditorClient")
        if (error := plain.get("error")) is not None:
            text = "the request could not be carried out" if error["code"] == INTERNAL_ERROR else error["message"]
            self.lifecycle.refuse(plain["id"], error["code"], text)
        else:
            self.lifecycle.answer(plain["id"], plain.get("result"))

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        """Answer initialize with the capabilities pygls computes and what is ours in ``experimental``."""
        result = yield from super().lsp_initialize(params)
        result.capabilities.experimental = {"sidecar": dict(self.experimental)}
        return result

    @lsp_method(types.SHUTDOWN)
    def lsp_shutdown(self, *args: Any) -> Generator[Any, Any, None]:  # noqa: ARG002  pygls passes the params
        """Settle everything that waits, then answer."""
        self.lifecycle.on_shutdown()
        self._shutdown = True
        return None
        yield  # pygls runs its own handlers as generators

    @lsp_method(types.EXIT)
    def lsp_exit(self, *args: Any) -> Generator[Any, Any, None]:  # noqa: ARG002  pygls passes the params
        """End by the front door, with its exit code, instead of by SystemExit in a callback."""
        self.lifecycle.on_exit()
        return
        yield

    def offer(self, features: Sequence[Feature], notifications: Iterable[str], commands: Iterable[str]) -> None:
        """List features, notifications and commands in the capabilities. Calls of them never come here."""
        manager: Any = self.fm
        for feature in features:
            manager.features[feature.method] = _never_called
            options_type = _pygls_lsp.get_method_options_type(feature.method)
            if feature.options and options_type is not None:
                manager.feature_options[feature.method] = self._converter.structure(dict(feature.options), options_type)
        manager.features.update(dict.fromkeys(notifications, _never_called))
        manager.feature_options[types.TEXT_DOCUMENT_DID_SAVE] = types.SaveOptions(include_text=False)
        manager.commands.update(dict.fromkeys(commands, _never_called))

    def check(self, method: str, params: Mapping[str, Any]) -> None:
        """Raise EditorFault when ``params`` do not fit a standard request; what is unknown in them fits."""
        message_type = self.get_message_type(method)
        if message_type is not None:
            self._structured(request_message(0, method, params), method, message_type)

    def handle(self, message: Message) -> None:
        """Let pygls handle a lifecycle message or one it does not know. Raises EditorFault for params that do not fit."""
        method = str(message.get("method"))
        fallback = JsonRPCRequestMessage if "id" in message else JsonRPCNotification
        self.handle_message(self._structured(message, method, self.get_message_type(method) or fallback))

    def _structured(self, message: Message, method: str, message_type: type[Any]) -> Any:
        try:
            return self._converter.structure(message, message_type)
        except (cattrs.BaseValidationError, ValueError, TypeError, KeyError, AttributeError) as error:
            where = _where(error)
        raise EditorFault(f"{method}: the params do not fit the Language Server Protocol ({where})")


class _Server(LanguageServer):
    """What pygls needs around a protocol object. Its errors go to our log, never to a pop-up."""

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log what went wrong, by its kind only."""
        unknown_method = isinstance(error, JsonRpcException) and error.code == METHOD_NOT_FOUND
        level = logging.DEBUG if unknown_method else logging.ERROR
        _log.log(
            level, "the protocol library failed: %s (%s)", type(error).__name__, getattr(source, "__name__", "unknown source")
        )


def build_protocol(lifecycle: Lifecycle, version: str) -> SidecarProtocol:
    """Return the protocol object; ``experimental`` is to be set before initialize is handed to it."""
    silence_libraries()
    protocol = cast(
        "SidecarProtocol", _SERVER("sidecar", version, protocol_cls=SidecarProtocol, converter_factory=_converter).protocol
    )
    protocol.lifecycle = lifecycle
    protocol.experimental = {}
    return protocol


_SERVER: Any = _Server


def silence_libraries() -> None:
    """Turn the libraries' loggers off: they print whole messages, also at ERROR."""
    for name in ("pygls", "lsprotocol", "cattrs"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.CRITICAL + 1)
        logger.propagate = False
        logger.handlers = [logging.NullHandler()]


def _never_called(*_: Any) -> None:
    """Stand in for a handler; it exists so that pygls lists the name."""


def _converter() -> cattrs.Converter:
    """Return lsprotocol's converter; messages pygls has no type for keep their params as they are."""
    converter = default_converter()

    def request(value: Message, _: Any) -> JsonRPCRequestMessage:
        return JsonRPCRequestMessage(value["id"], value["method"], value["jsonrpc"], value.get("params"))

    def notification(value: Message, _: Any) -> JsonRPCNotification:
        return JsonRPCNotification(value["method"], value["jsonrpc"], value.get("params"))

    converter.register_structure_hook(JsonRPCRequestMessage, request)
    converter.register_structure_hook(JsonRPCNotification, notification)
    return converter


def _where(error: Exception) -> str:
    """Name the first place that does not fit, without the value that stands there."""
    found = cattrs.transform_error(error)
    place = found[0].replace("$.params", "params") if found else type(error).__name__
    return re.sub(r"_([a-z])", lambda letter: letter[1].upper(), place)[:200]
