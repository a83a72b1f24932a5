"""The sidecar with its transcript open in an editor that applies the edits it is asked for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.benchmarks.ends import Sidecar, frame


class SidecarWithTranscript(Sidecar):
    """Edits come as versioned ``documentChanges``; what was done is told as ``didChange``, as editors do."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        opened = self.call("sidecar/transcript/open", {"sessionId": self.session_id})
        self.uri, self.version, self.edits = str(opened["uri"]), 1, 0
        self.lines = Path(opened["path"]).read_text(encoding="utf-8").split("\n")
        document = {"uri": self.uri, "languageId": "markdown", "version": 1, "text": "\n".join(self.lines)}
        self._tell("textDocument/didOpen", {"textDocument": document})

    def answer(self, request: Mapping[str, Any]) -> Any:
        if request["method"] != "workspace/applyEdit":
            return super().answer(request)
        for change in request["params"]["edit"]["documentChanges"]:
            assert change["textDocument"]["uri"] == self.uri
            edits = sorted(change["edits"], key=lambda edit: _place(edit["range"]["start"]), reverse=True)
            for edit in edits:
                self._replace(edit["range"], edit["newText"])
            self.version += 1
            self.edits += 1
            changes = [{"range": edit["range"], "text": edit["newText"]} for edit in edits]
            place = {"uri": self.uri, "version": self.version}
            self._tell("textDocument/didChange", {"textDocument": place, "contentChanges": changes})
        return {"applied": True}

    def _replace(self, span: Mapping[str, Any], text: str) -> None:
        (first, start), (last, end) = _place(span["start"]), _place(span["end"])
        before = self.lines[first][:start] if first < len(self.lines) else ""
        after = self.lines[last][end:] if last < len(self.lines) else ""
        self.lines[first : last + 1] = (before + text + after).split("\n")

    def _tell(self, method: str, params: Mapping[str, Any]) -> None:
        self.write(frame({"jsonrpc": "2.0", "method": method, "params": params}))


def _place(position: Mapping[str, int]) -> tuple[int, int]:
    return position["line"], position["character"]
