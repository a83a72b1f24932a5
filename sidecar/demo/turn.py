"""One prompt turn: what the scenes use to speak, to show work, and to stop cleanly."""

import re
from typing import Any, Final

import anyio
import attrs

from sidecar.demo.link import ClientLink
from sidecar.demo.mcp import McpServers
from sidecar.demo.session import DemoSession
from sidecar.demo.settings import DemoSettings
from sidecar.demo.storage import SessionFiles
from sidecar.demo.wire import Json, kiro, text_block, tool_text

WORDS: Final = re.compile(r"\S+\s*|\s+")
SENTENCE_END: Final = re.compile(r"[.!?:]\s+$|\n$")


class TurnCancelled(Exception):
    """The client answered a question of this turn with ``cancelled``: the turn ends."""


class TurnFailed(Exception):
    """The turn ends with an error instead of a stop reason; the text is the message of the error."""


class DemoCrash(Exception):
    """The user asked the demo agent to die in the middle of a turn."""


@attrs.frozen
class Stage:
    """What all turns of one connection share."""

    link: ClientLink
    settings: DemoSettings
    files: SessionFiles
    servers: McpServers


@attrs.define
class Turn:
    """A running turn of ``session``. ``text`` is the prompt, ``rest`` what stands behind its word; ``scope`` stops it."""

    stage: Stage
    session: DemoSession
    turn_id: str
    text: str
    rest: str = ""
    attachments: list[str] = attrs.Factory(list[str])
    scope: anyio.CancelScope = attrs.Factory(anyio.CancelScope)
    finished: anyio.Event = attrs.Factory(anyio.Event)
    open_tools: "dict[str, Tool]" = attrs.field(init=False, factory=dict[str, Any])
    steers: list[tuple[str, str]] = attrs.Factory(list[tuple[str, str]])
    tools_used: list[str] = attrs.Factory(list[str])
    words: int = 0
    _ids: int = 0

    @property
    def link(self) -> ClientLink:
        return self.stage.link

    def new_id(self, prefix: str) -> str:
        """Return an id that is new in this session."""
        self._ids += 1
        return f"{prefix}_{self.turn_id}_{self._ids}"

    async def say(self, text: str, *, pace: float | None = None) -> None:
        """Stream ``text`` word by word as the agent's answer; steering that came in is taken up at the end of a sentence."""
        await self._stream("agent_message_chunk", text, pace)

    async def think(self, text: str) -> None:
        """Stream ``text`` as a thought, unless the user switched thoughts off."""
        if self.session.thoughts:
            await self._stream("agent_thought_chunk", text, None)

    async def _stream(self, kind: str, text: str, pace: float | None) -> None:
        message_id = self.new_id("msg")
        wait = self.stage.settings.pace if pace is None else pace
        for match in WORDS.finditer(text):
            word = match.group()
            self.words += 1
            self.link.update(self.session, {"sessionUpdate": kind, "messageId": message_id, "content": text_block(word)})
            await anyio.sleep(wait)
            if self.steers and SENTENCE_END.search(word):
                await self.take_steers()

    def steer(self, message_id: str, text: str) -> None:
        """Queue what the user typed during the turn."""
        self.steers.append((message_id, text))
        self.link.info(self.session.session_id, "steering_queued", messageId=message_id, content=text)

    def drop_steers(self) -> list[str]:
        """Forget what was queued and not taken up, and return its ids."""
        ids = [message_id for message_id, _ in self.steers]
        self.steers.clear()
        if ids:
            self.link.info(self.session.session_id, "steering_cleared", messageIds=ids)
        return ids

    async def take_steers(self) -> None:
        """Take up what the user typed during the turn."""
        while self.steers:
            message_id, text = self.steers.pop(0)
            self.link.info(self.session.session_id, "steering_injected", messageId=message_id, content=text)
            await self.say(f"\n\n> You steered: {text}\n\nNoted, going on with that in mind.\n\n")

    def show(self, block: Json) -> None:
        """Send a content block that is no text, such as an image, as part of the answer."""
        message = {"sessionUpdate": "agent_message_chunk", "messageId": self.new_id("msg"), "content": block}
        self.link.update(self.session, message)

    def plan(self, steps: list[str], done: int) -> None:
        """Show the whole plan with the first ``done`` steps completed and the next one in progress."""
        entries = [
            {
                "content": step,
                "priority": "high" if index == 0 else "medium",
                "status": "completed" if index < done else "in_progress" if index == done else "pending",
            }
            for index, step in enumerate(steps)
        ]
        self.link.update(self.session, {"sessionUpdate": "plan", "entries": entries})

    def open_tool(self, name: str, title: str, **fields: Any) -> "Tool":
        """Announce a tool call; ``fields`` are members of the ACP tool call (kind, status, rawInput, locations …)."""
        tool = Tool(self, self.new_id(name), name, title)
        self.open_tools[tool.tool_id] = tool
        self.tools_used.append(name)
        start = {"sessionUpdate": "tool_call", "toolCallId": tool.tool_id, "title": title, "status": "pending"}
        self.link.update(self.session, {**start, **fields, "_meta": kiro(toolOrigin="default", toolId=name)})
        return tool

    def close_tools(self, reason: str) -> None:
        """End what is still open: a turn leaves no tool call behind."""
        for tool in list(self.open_tools.values()):
            tool.fail(reason, "The turn ended before this was done.")


@attrs.define
class Tool:
    """One tool call of a turn, from its announcement to its end."""

    turn: Turn
    tool_id: str
    name: str
    title: str

    def update(self, **fields: Any) -> None:
        """Send members that changed."""
        self.title = fields.get("title", self.title)
        update = {"sessionUpdate": "tool_call_update", "toolCallId": self.tool_id, **fields}
        self.turn.link.update(self.turn.session, update)

    def complete(self, **fields: Any) -> None:
        self.turn.open_tools.pop(self.tool_id, None)
        self.update(status="completed", **fields)

    def fail(self, reason: str, text: str) -> None:
        """End the call as failed; ``reason`` is Kiro V3's ``failureReason``: ``cancelled``, ``denied`` or ``error``."""
        self.turn.open_tools.pop(self.tool_id, None)
        self.update(status="failed", content=[tool_text(text)], _meta=kiro(failureReason=reason))
