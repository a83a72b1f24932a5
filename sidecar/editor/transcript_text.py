"""The transcript as text: a session's changes rendered as whole Markdown lines, and where the user types. Pure.

Editor protocol, "The transcript is a document". The document ends with the composer: a heading that stands nowhere else, and
below it what the user types. Nothing an agent or a prompt says can be taken for that heading or for a question: such lines get
a backslash. What was written is never changed; later news is a line of its own.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from sidecar.editor.transcript_lines import COMPOSER_HEADING, QUESTION_PREFIX, shown_line, stands_as_it_is
from sidecar.session.conversation import FINAL_STATUSES
from sidecar.session.export import code_span, content_block_to_markdown
from sidecar.session.lenient import objects_in
from sidecar.session.neutral import neutralise

OLDER_LINE: Final = "*Older turns are not shown; the command sidecar.transcript.more puts them here.*"
HELP_LINE: Final = (
    "*Type below the last heading. Code actions send, cancel and answer; so do the commands sidecar.transcript.send, "
    "sidecar.cancel and sidecar.transcript.more.*"
)
ENDED: Final = FINAL_STATUSES | {"unfinished"}
SHOWN_FILES: Final = 8
SHOWN_CHARACTERS: Final = 120

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_ENDINGS: Final = {
    "cancelled": "*The turn was cancelled.*",
    "unknown": "*The agent was lost; what became of this turn is not known. It is not sent again.*",
    "refusal": "*The agent refused.*",
    "max_tokens": "*The answer reached its token limit.*",
    "max_turn_requests": "*The turn reached its limit of requests.*",
}


def heading_line(lines: Sequence[str]) -> int | None:
    """Return the number of the composer's heading: the last line that is exactly it, whatever fences stand around."""
    for number in range(len(lines) - 1, -1, -1):
        if lines[number].rstrip() == COMPOSER_HEADING:
            return number
    return None


def insertion_line(lines: Sequence[str], heading: int) -> int:
    """Return the line before which the conversation goes on: the empty line above the heading stays above it."""
    return heading - 1 if heading > 0 and not lines[heading - 1].strip() else heading


def composer_lines(lines: Sequence[str], heading: int) -> list[str]:
    """Return the lines below the heading without their ends."""
    return [line.rstrip("\r\n") for line in lines[heading + 1 :]]


def composer_text(lines: Sequence[str]) -> str | None:
    """Return what the user typed, without the empty lines around it; None when the heading is gone."""
    heading = heading_line(lines)
    return None if heading is None else "\n".join(composer_lines(lines, heading)).strip("\n \t")


def header_lines(title: str | None, agent: str, cwd: str) -> list[str]:
    """Return the first lines of the document."""
    shown = neutralise(title) if title else "Session"
    return [shown_line(f"# {shown} ({neutralise(agent)} in {neutralise(cwd)})"), "", HELP_LINE]


def whole_text(above: Sequence[str], draft: str) -> str:
    """Return the document: what stands above the composer, its heading, and the user's unsent text."""
    return "\n".join([*above, "", COMPOSER_HEADING, "", draft, ""])


class TurnRenderer:
    """Renders the changes of one session (``session.cursor``) as lines, each whole and final.

    Text waits for its line end, at the latest for the end of its part; an open code fence is closed there. ``shown`` tells
    whether any turn was rendered. ``sections=False`` takes lists beside the turns as known already.
    """

    def __init__(self, agent: str) -> None:
        self._agent = neutralise(agent)
        self._out: list[str] = []
        self._blank = False
        self._speaker = ""
        self._part: str | None = None
        self._role = ""
        self._partial = ""
        self._fence = ""
        self._waiting: list[Sequence[str]] = []
        self._roles: dict[str, str] = {}
        self._tools: dict[str, dict[str, Any]] = {}
        self._tool_shown: dict[str, tuple[str, bool]] = {}
        self._after_tool = False
        self._running = False
        self._plan: tuple[str, ...] = ()
        self._queued: frozenset[str] = frozenset()
        self._state: tuple[Any, ...] = ()
        self.shown = False
        self.oldest: str | None = None

    def render(self, changes: Sequence[Mapping[str, Any]], *, sections: bool = True) -> list[str]:
        """Return the lines these changes add."""
        for change in changes:
            kind = change["kind"]
            if (turn_handler := _TURN_CHANGES.get(kind)) is not None:
                turn_handler(self, change)
            elif (section_handler := _SECTION_CHANGES.get(kind)) is not None:
                known = section_handler(self, change)
                if sections and known:
                    self._note_when_whole(known, at_once=kind == "state")
        return self._taken()

    def note(self, *lines: str, at_once: bool = True) -> list[str]:
        """Return own lines as a paragraph (neutralised before); not ``at_once``: after a line or block that is being written."""
        self._note_when_whole(lines, at_once=at_once)
        return self._taken()

    def _taken(self) -> list[str]:
        out, self._out = self._out, []
        return out

    def take_up(self, turn: Mapping[str, Any]) -> None:
        """Go on in the middle of a turn (``session.state``'s shape) of which nothing was rendered here."""
        self._running, self.shown = True, True
        for part in turn["parts"]:
            if part["kind"] == "text":
                self._roles[part["partId"]] = "echo" if part.get("echo") else str(part.get("role"))

    # --- lines --------------------------------------------------------------------------------------------------------------

    def _emit(self, line: str, *, own: bool = False) -> None:
        self._out.append(line if own else shown_line(line))
        self._blank = not line.strip()
        self._after_tool = False

    def _gap(self) -> None:
        if not self._blank:
            self._emit("")

    def _note(self, *lines: str) -> None:
        self._leave_text()
        self._gap()
        for line in lines:
            self._emit(line, own=line.startswith(QUESTION_PREFIX))

    def _note_when_whole(self, lines: Sequence[str], *, at_once: bool) -> None:
        """Show a note, unless it can wait and would stand in the middle of a line or of a code block."""
        if (self._partial or self._fence) and not at_once:
            self._waiting.append(lines)
        else:
            self._note(*lines)

    def _speak(self, speaker: str) -> None:
        if self._speaker != speaker:
            self._leave_text()
            self._gap()
            self._emit("## You" if speaker == "user" else f"## {self._agent}")
            self._emit("")
            self._speaker = speaker

    # --- text ---------------------------------------------------------------------------------------------------------------

    def _text(self, part: str, role: str, text: str) -> None:
        if part != self._part:
            self._leave_text()
            self._speak("user" if role == "user" else "agent")
            self._gap()
            self._part, self._role = part, role
        whole = (self._partial + text).replace("\r\n", "\n")
        held = "\r" if whole.endswith("\r") else ""
        *lines, rest = (whole.removesuffix("\r") if held else whole).split("\n")
        self._partial = rest + held
        if lines and role != "thought" and stands_as_it_is(whole):
            self._out += lines
            self._blank, self._after_tool, lines = not lines[-1].strip(), False, []
        for line in lines:
            self._text_line(line)

    def _text_line(self, line: str) -> None:
        self._note_fence(line)
        self._emit(f"> {line}".rstrip() if self._role == "thought" else line)

    def _note_fence(self, line: str) -> None:
        found = _FENCE.match(line)
        if found is None:
            return
        marks, rest = found[1], found[2]
        if not self._fence:
            if marks[0] == "~" or "`" not in rest:
                self._fence = marks
        elif marks[0] == self._fence[0] and len(marks) >= len(self._fence) and not rest.strip():
            self._fence = ""

    def _leave_text(self) -> None:
        """End the running text: its last line is whole now, and no fence stays open."""
        if self._partial:
            partial, self._partial = self._partial, ""
            self._text_line(partial)
        if self._fence:
            fence, self._fence = self._fence, ""
            self._emit(f"> {fence}" if self._role == "thought" else fence)
        self._part = None
        waiting, self._waiting = self._waiting, []
        for lines in waiting:
            self._note(*lines)

    # --- turns --------------------------------------------------------------------------------------------------------------

    def turn_started(self, change: Mapping[str, Any]) -> None:
        """Show the prompt."""
        turn = change["turn"]
        self._leave_text()
        self._speaker = ""
        self._running = turn.get("state") == "running"
        if self.oldest is None:
            self.oldest = turn["turnId"]
        self.shown = True
        text = str(turn.get("text") or "").strip("\n")
        attached = [block for block in objects_in(turn.get("prompt")) if block.get("type") != "text"]
        if text or attached:
            self._speak("user")
        if text:
            self._text("prompt", "user", text)
            self._leave_text()
        for block in attached:
            self._gap()
            self._emit("With " + content_block_to_markdown(block).partition("\n")[0])

    def turn_ended(self, change: Mapping[str, Any]) -> None:
        """Close what is open; an end that is no ordinary one is named."""
        turn = change["turn"]
        self._leave_text()
        self._running = False
        word = turn.get("endedAs")
        line = _ENDINGS.get(str(word))
        if word == "failed":
            line = f"*The turn failed: {neutralise(str(turn.get('error') or 'the agent gave no reason'))}*"
        elif line is None and word not in {None, "end_turn", "ended"}:
            line = f"*The turn ended: {neutralise(str(word))}.*"
        if line is not None:
            self._gap()
            self._emit(line)
        self._speaker = ""

    def part_added(self, change: Mapping[str, Any]) -> None:
        """Begin a part; text follows as ``part_text``."""
        part = change["part"]
        kind = part.get("kind")
        if kind == "text":
            self._roles[part["partId"]] = "echo" if part.get("echo") else str(part.get("role"))
            if part.get("text"):
                self.part_text({"partId": part["partId"], "text": part["text"]})
        elif kind == "content" and not part.get("echo"):
            self._leave_text()
            self._speak("user" if part.get("role") == "user" else "agent")
            self._gap()
            for line in content_block_to_markdown(part.get("block") or {}).split("\n"):
                self._emit(line)
        elif kind == "tool":
            self._tool(part["partId"], part.get("toolCall") or {})

    def part_text(self, change: Mapping[str, Any]) -> None:
        """Go on with a text."""
        role = self._roles.get(change["partId"])
        if role is not None and role != "echo" and change["text"]:
            self._text(change["partId"], role, change["text"])

    def tool_call(self, change: Mapping[str, Any]) -> None:
        """Show a tool call's news."""
        self._tool(change["partId"], change["fields"])

    def _tool(self, part: str, fields: Mapping[str, Any]) -> None:
        known = self._tools.setdefault(part, {})
        known.update({name: fields[name] for name in _TOOL_FIELDS if name in fields})
        status = fields.get("shownStatus", fields.get("status"))
        if isinstance(status, str):
            known["shown"] = status
        label, ended = _tool_label(known), known.get("shown") in ENDED
        if self._tool_shown.get(part) == (label, ended) or not fields.keys() - {"toolCallId", "meta", "closed"}:
            return
        self._tool_shown[part] = (label, ended)
        self._leave_text()
        self._speak("agent")
        if not self._after_tool:
            self._gap()
        self._emit(f"- **Tool** {code_span(label)} ({neutralise(str(known.get('shown', 'pending')))}){_tool_end(known, ended)}")
        self._after_tool = True
        if ended:
            known.pop("content", None)

    # --- lists beside the turns ---------------------------------------------------------------------------------------------

    def plan(self, change: Mapping[str, Any]) -> Sequence[str]:
        """Show a new plan whole, a step of it in one line."""
        entries = objects_in(change.get("plan"))
        contents = tuple(_short(str(entry.get("content", ""))) for entry in entries)
        before, self._plan = self._plan, contents
        if contents and contents != before:
            return ["**Plan**", "", *(f"{number}. {text}" for number, text in enumerate(contents, 1))]
        return [_plan_line(entries, contents)] if contents else ()

    def notice(self, change: Mapping[str, Any]) -> Sequence[str]:
        """Show a notice."""
        notice = change["notice"]
        description = notice.get("description")
        text = f"{neutralise(str(notice['title']))}{': ' + neutralise(str(description)) if description else ''}"
        return [f"> **{neutralise(str(notice['severity']))}** {text}"]

    def queue(self, change: Mapping[str, Any]) -> Sequence[str]:
        """Show what began to wait while a turn runs."""
        items = objects_in(change.get("queue"))
        before, self._queued = self._queued, frozenset(str(item.get("turnId")) for item in items)
        fresh = [item for item in items if str(item.get("turnId")) not in before]
        if not self._running:
            return ()
        return [
            f"*Waits as the next prompt: {_short(str(item.get('text', '')).strip().partition(chr(10))[0])}*" for item in fresh
        ]

    def state(self, change: Mapping[str, Any]) -> Sequence[str]:
        """Show that a cancel was sent, is not answered, or that the agent is gone."""
        state = cast("Mapping[str, Any]", change.get("state") or {})
        phase, message = state.get("state"), state.get("message")
        before, self._state = self._state, (phase, message)
        if self._state == before:
            return ()
        return _state_lines(self._agent, phase, message)


_TOOL_FIELDS: Final = ("title", "name", "kind", "failureReason", "content")
_TURN_CHANGES: Final[Mapping[str, Callable[[TurnRenderer, Mapping[str, Any]], None]]] = {
    "turn_started": TurnRenderer.turn_started,
    "turn_ended": TurnRenderer.turn_ended,
    "part_added": TurnRenderer.part_added,
    "part_text": TurnRenderer.part_text,
    "tool_call": TurnRenderer.tool_call,
}
_SECTION_CHANGES: Final[Mapping[str, Callable[[TurnRenderer, Mapping[str, Any]], Sequence[str]]]] = {
    "plan": TurnRenderer.plan,
    "notice": TurnRenderer.notice,
    "queue": TurnRenderer.queue,
    "state": TurnRenderer.state,
}


def render_turns(turns: Sequence[Mapping[str, Any]], agent: str) -> list[str]:
    """Return the lines of whole turns as ``session.history`` gives them."""
    renderer = TurnRenderer(agent)
    changes: list[dict[str, Any]] = []
    for turn in turns:
        changes.append({"kind": "turn_started", "turn": turn})
        changes += [{"kind": "part_added", "part": part} for part in turn["parts"]]
        if turn.get("state") == "ended":
            changes.append({"kind": "turn_ended", "turn": turn})
    return renderer.render(changes)


def _state_lines(agent: str, phase: Any, message: Any) -> Sequence[str]:
    reason = neutralise(str(message)) if message else "no reason is known"
    if phase == "lost":
        return [f"*{agent} is gone: {reason}. It is started again when it is needed; no prompt is sent again.*"]
    if phase == "cancelling":
        waiting = "; the command sidecar.agent.restart ends it" if message else ""
        return [f"*Cancelling{': ' + reason if message else ' …'}{waiting}*"]
    return [f"*{reason}*"] if phase == "idle" and message else ()


def _plan_line(entries: Sequence[Mapping[str, Any]], contents: Sequence[str]) -> str:
    done = sum(entry.get("status") == "completed" for entry in entries)
    now = next((text for entry, text in zip(entries, contents, strict=True) if entry.get("status") == "in_progress"), None)
    return f"*Plan: {done} of {len(contents)} done{'; now: ' + now if now is not None else ''}*"


def _short(text: str) -> str:
    shown = neutralise(text)
    return shown if len(shown) <= SHOWN_CHARACTERS else shown[: SHOWN_CHARACTERS - 1] + "…"


def _tool_label(known: Mapping[str, Any]) -> str:
    for name in ("title", "name", "kind"):
        value = known.get(name)
        if isinstance(value, str) and value.strip():
            return neutralise(value)
    return "tool call"


def _tool_end(known: Mapping[str, Any], ended: bool) -> str:
    if not ended:
        return ""
    diffs = [item for item in objects_in(known.get("content")) if item.get("type") == "diff"]
    paths = list(dict.fromkeys(neutralise(str(item.get("path", ""))) for item in diffs))
    more = f" and {len(paths) - SHOWN_FILES} more" if len(paths) > SHOWN_FILES else ""
    changed = f": change of {', '.join(code_span(path) for path in paths[:SHOWN_FILES])}{more}" if paths else ""
    reason = known.get("failureReason")
    return changed + (f": {neutralise(reason)}" if isinstance(reason, str) and reason else "")
