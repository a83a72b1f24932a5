"""The configuration of one editor: the user's file, the editor's settings, a repository's file, and the user's trust.

Nothing starts before ``settled``: the editor's options and, where it offers them, its settings are known then.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import anyio
import anyio.to_thread
import attrs

from sidecar.config import Configuration, Layer, combine, read_editor_settings, read_repository_file
from sidecar.config.layers import MAX_FILE_BYTES, overlay
from sidecar.editor.client import CONFIGURATION_SECONDS, EditorClient
from sidecar.editor.trust import TrustStore
from sidecar.session.interaction import Answer, QuestionHandle, Trust, TrustAnswer, Withdrawal
from sidecar.workspace.broker import Asker, Broker

SECTION: Final = "sidecar"
REPOSITORY_FILE: Final = ".sidecar.toml"
SETTLE_SECONDS: Final = CONFIGURATION_SECONDS + 1.0
ASKER: Final = Asker(None, "sidecar", "sidecar")

_log = logging.getLogger(__name__)


class EditorConfiguration:
    """Combines the layers and applies them: ``apply`` gets every new configuration.

    ``folder`` is the folder whose repository file counts and for which trust is asked (the first of the workspace).
    """

    def __init__(
        self,
        client: EditorClient,
        user: Layer,
        trust: TrustStore,
        broker: Broker,
        apply: Callable[[Configuration], None],
    ) -> None:
        self.settled = anyio.Event()
        self.folder = ""
        self._client = client
        self._user = user
        self._trust = trust
        self._broker = broker
        self._apply = apply
        self._options = Layer("editor settings")
        self._pulled: Layer | None = None
        self._repository: Layer | None = None
        self._told: set[str] = set()
        self._declined: set[str] = set()
        self._asked: tuple[frozenset[str], QuestionHandle] | None = None

    @property
    def pulls(self) -> bool:
        """Whether the editor can be asked for its settings."""
        return self._client.info.capability("workspace", "configuration") is True

    def initialize(self, options: Any, folder: str) -> None:
        """Take ``initializationOptions``; what they say counts before anything starts."""
        self.folder = folder
        self._options = read_editor_settings(options)
        self._apply(self._combined())

    async def settle(self) -> None:
        """Ask the editor and the repository for their settings, then apply and tell; afterwards agents may start."""
        try:
            self._pulled = await self._pull()
            self._repository = await _read_repository(self.folder)
            self.refresh()
        finally:
            self.settled.set()

    async def wait_settled(self) -> None:
        """Wait until agents may start; an editor that never says ``initialized`` is not waited for for ever."""
        with anyio.move_on_after(SETTLE_SECONDS):
            await self.settled.wait()

    async def changed(self, params: Mapping[str, Any]) -> None:
        """Take ``workspace/didChangeConfiguration``: settings that are pushed, or a hint to ask again."""
        settings: object = params.get("settings")
        table = cast("dict[str, Any]", settings) if isinstance(settings, dict) else {}
        if self.pulls:
            self._pulled = await self._pull()
        elif table:
            inner: object = table.get(SECTION)
            self._pulled = read_editor_settings(inner if isinstance(inner, dict) else table)
        self.refresh()

    async def folder_changed(self, folder: str) -> None:
        """The first workspace folder is another one now."""
        if folder != self.folder:
            self.folder = folder
            self._repository = await _read_repository(folder)
            self.refresh()

    def refresh(self) -> None:
        """Combine, apply, and tell what is new: warnings to the log, what was refused to the user, trust as a question."""
        configuration = self._combined()
        self._apply(configuration)
        for sentence in configuration.warnings:
            self._tell(sentence, lambda text: self._client.log_message("warning", text))
        for sentence in [*configuration.problems, *configuration.settings.refused.values()]:
            self._tell(sentence, lambda text: self._client.show_message("warning", text))
        self._ask_trust(configuration)

    def _combined(self) -> Configuration:
        accepted = self._trust.accepted(self.folder)
        return combine(self._user, repository=self._repository, editor=self._editor_layer(), accepted=accepted)

    def _editor_layer(self) -> Layer:
        pulled = self._pulled
        if pulled is None:
            return self._options
        return attrs.evolve(
            self._options,
            raw=overlay(self._options.raw, pulled.raw),
            warnings=(*self._options.warnings, *pulled.warnings),
            problems=(*self._options.problems, *pulled.problems),
            faulty=(*self._options.faulty, *pulled.faulty),
        )

    def _tell(self, sentence: str, say: Callable[[str], None]) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            say(sentence)

    async def _pull(self) -> Layer | None:
        if not self.pulls:
            return None
        value = await self._client.configuration(SECTION)
        return None if value is None else read_editor_settings(value)

    # --- trust ----------------------------------------------------------------------------------------------------------------

    def _ask_trust(self, configuration: Configuration) -> None:
        waiting = {question.fingerprint: question for question in configuration.untrusted}
        marks = frozenset(waiting) - self._declined
        if self._asked is not None and self._asked[0] != marks:
            asked, self._asked = self._asked, None
            asked[1].withdraw(Withdrawal.AGENT_WITHDREW)
        if not marks or self._asked is not None:
            return
        folder = self.folder
        body = Trust(folder or "this editor", [waiting[mark].item for mark in sorted(marks)])

        def answered(answer: Answer | Withdrawal) -> None:
            if isinstance(answer, TrustAnswer):
                self._asked = None
                self._decide(folder, sorted(marks), trusted=answer.action == "trust")

        handle = self._broker.ask(ASKER, body, answered)
        self._asked = (marks, handle)

    def _decide(self, folder: str, marks: list[str], *, trusted: bool) -> None:
        if not trusted:
            self._declined.update(marks)
            return
        if not self._trust.accept(folder, marks):
            self._client.show_message("warning", "Your trust could not be saved; it counts until the sidecar ends.")
        self.refresh()


async def _read_repository(folder: str) -> Layer | None:
    """Read the repository's file of settings, off the loop; None when there is none."""
    if not folder:
        return None
    path = Path(folder) / REPOSITORY_FILE
    try:
        data = await anyio.to_thread.run_sync(_read_regular, path, abandon_on_cancel=True)
    except (OSError, ValueError) as error:
        _log.warning("the repository's settings file could not be read (%s)", type(error).__name__)
        return None
    return None if data is None else read_repository_file(data, str(path))


def _read_regular(path: Path) -> bytes | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return file.read(MAX_FILE_BYTES + 1)
