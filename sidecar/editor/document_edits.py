"""The editor's documents as the files service works with them (``workspace.files_open.EditorDocuments``).

An editor whose plugin says ``"documents": true`` in ``capabilities.experimental.sidecar`` is asked to save and to reload
documents itself, so that it never finds a file changed behind its back. Others are not asked; the user is told what to reload.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from sidecar.editor.client import EditorClient
from sidecar.errors import Unavailable
from sidecar.workspace.documents import Documents
from sidecar.workspace.positions import TextEdit
from sidecar.workspace.uris import uri_to_path

SAVE: Final = "sidecar/document/save"
RELOAD: Final = "sidecar/document/reload"
LABEL: Final = "Agent edit"
PLUGIN_SECONDS: Final = 5.0
MAX_TOLD: Final = 256


class EditorFiles:
    """Edits by ``workspace/applyEdit``, versioned; saves and reloads by the plugin."""

    def __init__(self, client: EditorClient, documents: Documents) -> None:
        self._client = client
        self._documents = documents
        self._told: set[str] = set()

    @property
    def documents(self) -> Documents:
        """The mirror."""
        return self._documents

    async def apply(self, uri: str, version: int, edits: Sequence[TextEdit]) -> bool:
        identifier = {"uri": self._documents.client_uri(uri), "version": version}
        reply = await self._client.apply_edit({"documentChanges": [{"textDocument": identifier, "edits": list(edits)}]}, LABEL)
        path = uri_to_path(uri) or uri
        if reply.error is not None:
            raise Unavailable(f"the editor does not change {path}: {reply.error.message}")
        if reply.outcome != "result":
            raise Unavailable(f"the editor did not say whether it changed {path}; read the file before you try again")
        return _member(reply.result, "applied") is True

    async def save(self, uri: str) -> bool:
        return await self._plugin(SAVE, uri, "saved")

    async def reload(self, uri: str) -> bool:
        if await self._plugin(RELOAD, uri, "reloaded"):
            return True
        if uri not in self._told and len(self._told) < MAX_TOLD:
            self._told.add(uri)
            path = uri_to_path(uri) or uri
            self._client.show_message(
                "info", f"{path} was changed on the disk; reload it in the editor to see what the agent sees."
            )
        return False

    async def _plugin(self, method: str, uri: str, done: str) -> bool:
        if self._client.info.capability("experimental", "sidecar", "documents") is not True:
            return False
        params = {"uri": self._documents.client_uri(uri), "version": self._documents.version(uri)}
        reply = await self._client.request(method, params, timeout=PLUGIN_SECONDS)
        return reply.outcome == "result" and _member(reply.result, done) is True


def _member(value: object, name: str) -> Any:
    return cast("Mapping[str, Any]", value).get(name) if isinstance(value, Mapping) else None
