"""What a front offers to the workspace, and real time."""

import datetime as dt
import time
from collections.abc import Awaitable, Callable

import attrs

from sidecar.agents.acp import Offers
from sidecar.session.interaction import OpenUrl
from sidecar.session.ports import FilesService
from sidecar.transport.peer import Tap
from sidecar.workspace.actor import SessionActor

__all__ = ["FrontHooks", "Offers", "SystemClock"]


class SystemClock:
    """Real time."""

    def iso(self) -> str:
        """UTC, milliseconds."""
        return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()


async def _open_nothing(_: OpenUrl) -> bool:
    return False


@attrs.define
class FrontHooks:
    """What the front in use can do. ``open_url`` returns whether a browser really got the address.

    ``files`` serves agents the user's files; without it they read and write by themselves. With ``terminals`` agents may have us
    run commands, which the front shows.
    """

    open_url: Callable[[OpenUrl], Awaitable[bool]] = _open_nothing
    agent_changed: Callable[[str, str, str | None], None] = lambda _agent, _state, _message: None
    notice: Callable[[str, str, str, str | None], None] = lambda _agent, _severity, _title, _description: None
    session_added: Callable[[SessionActor], None] = lambda _: None
    offers: Offers = attrs.field(factory=Offers)
    keep_raw: bool = False
    tap: Tap | None = None
    files: FilesService | None = None
    terminals: bool = False
