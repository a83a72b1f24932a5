"""What the front door needs from the application: operations, features, notifications, and its beginning and end.

Everything is plain JSON as it came from the editor. Hooks raise the errors of ``sidecar.errors``; any other exception is a bug,
answered as -32603 without its text.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import attrs

if TYPE_CHECKING:
    from sidecar.editor.client import EditorClient

RequestHook: TypeAlias = Callable[[dict[str, Any]], Awaitable[Any]]
"""Takes the params (``{}`` when absent), returns the JSON result. It is cancelled at its await when the editor withdraws the
request: what must live on belongs to the workspace, not to the hook."""

NotificationHook: TypeAlias = Callable[[dict[str, Any]], None]
"""Takes the params; called synchronously and in wire order, so it must not block."""


@attrs.frozen
class Feature:
    """A standard LSP request the application answers, such as ``textDocument/codeAction``.

    ``options`` are those of the method's server capability as LSP writes them (``{"triggerCharacters": ["/"]}``); empty = plain
    ``true``. The hook is called with the params as received, after they were found to fit the protocol.
    """

    method: str
    hook: RequestHook
    options: Mapping[str, Any] = attrs.field(factory=dict[str, Any])


class EditorApp(Protocol):
    """The application behind the front door. The attributes are read when the editor initializes, and stay as they are."""

    @property
    def version(self) -> str:
        """Version of the sidecar, as shown to the editor."""
        ...

    @property
    def max_message_bytes(self) -> int:
        """Largest message taken from the editor (``limits.max_message_bytes``)."""
        ...

    @property
    def operations(self) -> Mapping[str, RequestHook]:
        """The operations by their name with dots (``session.new``); both doors lead to them."""
        ...

    @property
    def features(self) -> Sequence[Feature]:
        """The standard requests that are answered."""
        ...

    @property
    def notifications(self) -> Mapping[str, NotificationHook]:
        """Notifications by method: documents, ``initialized``, configuration and workspace folder changes, ..."""
        ...

    def initialize(self, editor: "EditorClient", params: dict[str, Any]) -> Mapping[str, Any]:
        """Take the editor's ``initialize`` params; return members to add to ``capabilities.experimental.sidecar``.

        Called once, before the reply, with ``editor.info`` filled in. It must be quick: agents start later.
        """
        ...

    def skipped(self, method: str) -> None:
        """A notification above ``max_message_bytes`` was not read: after a document one, no mirror is sure any more."""
        ...

    def shutdown(self) -> None:
        """The editor said shutdown, or is gone (perhaps before it said initialize): settle what waits.

        Called once, synchronously; nothing can be sent any more.
        """
        ...

    async def aclose(self) -> None:
        """End in bounded time (the caller allows ``SHUTDOWN_GRACE_SECONDS``). Called once, last."""
        ...
