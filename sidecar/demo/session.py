"""One session of the demo agent: its options, and what happened in it, kept as updates ready for a replay."""

from typing import Any, Final

import attrs

from sidecar.demo import announce
from sidecar.demo.wire import Json, object_at
from sidecar.errors import EditorFault

MAX_HISTORY: Final = 2_000
"""Updates kept of one session; older ones fall off."""

FORMAT: Final = 1


@attrs.define
class DemoSession:
    """Identity, options and history. ``updated`` is a time stamp in ISO 8601; ``history`` holds ``session/update`` bodies."""

    session_id: str
    cwd: str
    updated: str
    title: str = ""
    mode: str = "vibe"
    autopilot: str = "on"
    thoughts: bool = True
    model: str = "demo-fast"
    effort: str = "medium"
    models_known: bool = False
    additional: list[str] = attrs.Factory(list[str])
    history: list[Json] = attrs.Factory(list[Json])
    rules: list[Json] = attrs.Factory(list[Json])
    context: list[str] = attrs.Factory(list[str])

    def config_options(self, *, booleans: bool) -> list[Json]:
        """Return the options to show now: the model only once the registry is loaded, the effort only if the model has it."""
        options = [
            {**announce.select("mode", "Mode", self.mode, _named(announce.MODES)), "category": "mode"},
            announce.select("autopilot", "Autopilot", self.autopilot, _named((("on", "On", ""), ("off", "Off", "")))),
        ]
        if self.models_known:
            options.append({**announce.select("model", "Model", self.model, announce.model_values()), "category": "model"})
            if self.model == announce.EFFORT_MODEL:
                efforts = _named(tuple((level, level.title(), "") for level in announce.EFFORTS))
                options.append({**announce.select("effortLevel", "Effort", self.effort, efforts), "category": "thought_level"})
        if booleans:
            options.append({"id": "thoughts", "name": "Show thoughts", "type": "boolean", "currentValue": self.thoughts})
        return options

    def set_option(self, option_id: str, value: Any, *, booleans: bool) -> None:
        """Set an option that is shown now to one of its values; raises -32602 otherwise, naming what is possible."""
        shown = {option["id"]: option for option in self.config_options(booleans=booleans)}
        option = shown.get(option_id)
        if option is None:
            raise EditorFault(f"this session has no option '{option_id}'; it has {', '.join(shown)}")
        if option["type"] == "boolean":
            if not isinstance(value, bool):
                raise EditorFault(f"option '{option_id}' takes true or false")
            self.thoughts = value
            return
        values = [item["value"] for item in option["options"]]
        if value not in values:
            raise EditorFault(f"option '{option_id}' takes one of {', '.join(values)}")
        setattr(self, "effort" if option_id == "effortLevel" else option_id, value)

    def take_initial(self, own: Json) -> None:
        """Apply ``modeId``, ``modelId`` and ``effortLevel`` of ``_meta.kiro``; values that do not exist are passed over."""
        if own.get("modeId") in [mode for mode, _, _ in announce.MODES]:
            self.mode = own["modeId"]
        if own.get("modelId") in [model for model, _, _ in announce.MODELS]:
            self.model = own["modelId"]
        if own.get("effortLevel") in announce.EFFORTS:
            self.effort = own["effortLevel"]

    def record(self, update: Json) -> None:
        """Keep ``update`` for replays: text runs joined, tool updates folded into their call, plans replaced, states left out."""
        kind = update["sessionUpdate"]
        if kind.endswith("_chunk"):
            self._record_chunk(update)
        elif kind == "tool_call_update":
            self._fold_tool(update)
        elif kind == "plan":
            self.history = [item for item in self.history if item["sessionUpdate"] != "plan"] + [update]
        elif kind == "tool_call":
            self.history.append(dict(update))
        del self.history[:-MAX_HISTORY]

    def _record_chunk(self, update: Json) -> None:
        last = self.history[-1] if self.history else {}
        same = all(last.get(key) == update.get(key) for key in ("sessionUpdate", "messageId"))
        if same and last["content"].get("type") == update["content"].get("type") == "text":
            text = last["content"]["text"] + update["content"]["text"]
            self.history[-1] = {**last, "content": {"type": "text", "text": text}}
        else:
            self.history.append(update)

    def _fold_tool(self, update: Json) -> None:
        for index in range(len(self.history) - 1, -1, -1):
            item = self.history[index]
            if item["sessionUpdate"] == "tool_call" and item["toolCallId"] == update["toolCallId"]:
                self.history[index] = {**item, **update, "sessionUpdate": "tool_call"}
                return
        self.history.append(dict(update))

    def to_json(self) -> Json:
        return {"format": FORMAT, **attrs.asdict(self, recurse=False)}

    @classmethod
    def from_json(cls, value: Any) -> "DemoSession | None":
        """Return the session kept in ``value``, or None when it was not written by this version of the format."""
        stored = object_at(value)
        if stored.get("format") != FORMAT:
            return None
        known = {name: stored[name] for name in attrs.fields_dict(cls) if name in stored}
        texts = all(isinstance(known.get(name), str) for name in ("session_id", "cwd", "updated"))
        lists = all(isinstance(known.get(name, []), list) for name in ("history", "rules", "additional", "context"))
        return cls(**known) if texts and lists else None


def _named(values: tuple[tuple[str, str, str], ...]) -> list[Json]:
    return [{"value": value, "name": name, **({"description": about} if about else {})} for value, name, about in values]
