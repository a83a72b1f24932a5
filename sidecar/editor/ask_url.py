"""Opens an address the user chose to open: through the editor, else the system's opener, else by the user's own hand.

The address goes out byte for byte and stands nowhere else than in the request to the editor, the opener's argv, or a private file
that is deleted with the answer (editor protocol, editors with plain LSP). The result is the truth: false unless somebody said so.
"""

import contextlib
import logging
import os
import secrets
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import anyio

from sidecar.config import private_directory, runtime_directory
from sidecar.editor.ask import QuestionLadder
from sidecar.editor.client import EditorClient
from sidecar.errors import Unavailable
from sidecar.session.interaction import Answer, OpenUrl, Withdrawal
from sidecar.session.neutral import neutralise
from sidecar.workspace.broker import Broker, Pending
from sidecar.workspace.opener import open_url, remote_notice

SHOW_SECONDS: Final = 60.0
"""An editor may ask its user before it opens; others answer at once."""

TRY_SECONDS: Final = 2.0
"""For Helix 25.01, which opens although it does not say that it can."""

STALE_SECONDS: Final = 3600.0
FILE_PREFIX: Final = "url-"

_log = logging.getLogger(__name__)


class UrlOpener:
    """Carries out an openUrl question for one editor. ``environment`` and ``folders`` are those of the user and the workspace."""

    def __init__(
        self,
        client: EditorClient,
        broker: Broker,
        ladder: QuestionLadder,
        environment: Callable[[], Mapping[str, str]],
        folders: Callable[[], Sequence[str]],
    ) -> None:
        self._client = client
        self._broker = broker
        self._ladder = ladder
        self._environment = environment
        self._folders = folders
        self._running: dict[str, anyio.CancelScope] = {}
        self._try = client.info.name.lower() == "helix"
        broker.on_ended(self._on_ended)

    def _on_ended(self, pending: Pending, _: Answer | Withdrawal) -> None:
        if (scope := self._running.get(pending.id)) is not None:
            scope.cancel()

    async def open(self, body: OpenUrl) -> bool:
        """Have ``body``'s address opened; return whether a browser has it, as far as anyone can tell."""
        pending = next((found for found in self._broker.pending() if found.body is body), None)
        if pending is None:
            return False
        with anyio.CancelScope() as scope:
            self._running[pending.id] = scope
            try:
                return await self._open(pending, body)
            finally:
                del self._running[pending.id]
        return False

    async def _open(self, pending: Pending, body: OpenUrl) -> bool:
        shown = await self._through_editor(body)
        if shown:
            return True
        told = "the editor did not open it"
        if shown is None:
            told = "the editor cannot open addresses"
            if remote_notice(self._environment()) is None:
                opening = await open_url(body.url, env=self._environment(), workspaces=self._folders())
                if opening.opened:
                    return True
                told = opening.message.rstrip(".")
        if self._client.info.questions:
            self._client.show_message("warning", f"The page of {neutralise(body.host)} was not opened: {told}.")
            return False
        return await self._by_hand(pending, body, told)

    async def _through_editor(self, body: OpenUrl) -> bool | None:
        """Return what the editor says of opening it, None when it cannot open anything."""
        offered = self._client.info.capability("window", "showDocument", "support") is True
        if not offered and not self._try:
            return None
        limit = SHOW_SECONDS if offered else TRY_SECONDS
        reply = await self._client.show_document(body.url.reveal(), timeout=limit, external=True)
        if reply.outcome == "result":
            answer: object = reply.result
            return isinstance(answer, dict) and cast("dict[str, Any]", answer).get("success") is True
        self._try = False
        return False if offered and reply.outcome == "timeout" else None

    async def _by_hand(self, pending: Pending, body: OpenUrl, told: str) -> bool:
        try:
            with _address_file(body.url.reveal()) as path:
                text = (
                    f"The page of {neutralise(body.host)} was not opened: {told}. Its address stands in the private file {path} "
                    "until you answer; open it in a browser yourself."
                )
                return await self._ladder.done_by_hand(pending.id, text, "I opened it", "Not opened")
        except Unavailable as error:
            self._client.show_message("warning", f"The page of {neutralise(body.host)} was not opened: {error.message}")
            return False


@contextlib.contextmanager
def _address_file(url: str) -> Generator[Path]:
    """Keep ``url`` in a file only its owner can read, for as long as the block runs. Raises ``Unavailable``."""
    folder = private_directory(runtime_directory())
    _remove_stale(folder)
    path = folder / f"{FILE_PREFIX}{secrets.token_hex(8)}.txt"
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(fd, "w", encoding="utf-8", newline="") as file:  # noqa: PTH123  an open descriptor
            file.write(url + "\n")
    except OSError as error:
        path.unlink(missing_ok=True)
        raise Unavailable(f"its address could not be written to {folder} ({error.strerror})") from None
    try:
        yield path
    finally:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("the file of an address could not be deleted (%s)", type(error).__name__)


def _remove_stale(folder: Path) -> None:
    """Delete what a sidecar that was killed left behind."""
    with contextlib.suppress(OSError):
        for path in folder.glob(f"{FILE_PREFIX}*.txt"):
            if time.time() - path.stat().st_mtime > STALE_SECONDS:
                path.unlink(missing_ok=True)
