"""The smallest application behind the real front door, run as a process by the tests beside it."""

import asyncio
import contextlib
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup

from sidecar.editor.client import EditorClient, MessageKind
from sidecar.editor.ports import Feature, NotificationHook, RequestHook
from sidecar.editor.server import run
from sidecar.errors import AgentFault, ConfigFault, EditorFault, Refused, SidecarBug, Unavailable

BEAT_SECONDS = 0.005
ERRORS: Mapping[str, Exception] = {
    "editor": EditorFault("text: say what to send"),
    "config": ConfigFault("agent: no such agent"),
    "agent": AgentFault("the agent answered with an error", agent_code=7, data={"why": 1}),
    "refused": Refused("the user said no"),
    "unavailable": Unavailable("no agent is running"),
    "bug": SidecarBug("an invariant does not hold"),
    "foreign": ValueError("sk-secret stands here"),
    "group": ExceptionGroup("tasks", [Refused("said inside a task group")]),
}


class TinyApp:
    """Answers what tests ask; keeps what it was told."""

    version = "9.9.9"

    def __init__(self, tasks: TaskGroup, max_message_bytes: int) -> None:
        self.max_message_bytes = max_message_bytes
        self.tasks = tasks
        self.editor: EditorClient | None = None
        self.told: list[Any] = []
        self.stall = 0.0
        self.opened = anyio.Event()
        self.operations: Mapping[str, RequestHook] = {
            "echo": self.echo,
            "deep.name.echo": self.echo,
            "sleep": self.sleep,
            "nap": self.nap,
            "nap.fail": self.nap_and_fail,
            "stubborn": self.stubborn,
            "block": self.block,
            "fail": self.fail,
            "unwritable": self.unwritable,
            "told": self.what_was_told,
            "ask": self.ask,
            "request": self.request,
            "flood": self.flood,
            "big": self.big,
            "progress": self.progress,
            "cancelled.inside": self.cancelled_inside,
            "whoami": self.who_am_i,
            "print": self.print_to_stdout,
        }
        self.features: Sequence[Feature] = [
            Feature("textDocument/hover", self.hover),
            Feature("textDocument/completion", self.hover, {"triggerCharacters": ["/", "@"]}),
            Feature("textDocument/codeAction", self.hover, {"codeActionKinds": ["quickfix"]}),
        ]
        self.notifications: Mapping[str, NotificationHook] = {
            name: self.keep(name)
            for name in (
                "textDocument/didOpen",
                "textDocument/didChange",
                "textDocument/didClose",
                "textDocument/didSave",
                "workspace/didChangeConfiguration",
                "workspace/didChangeWorkspaceFolders",
            )
        } | {"test/broken": self.broken}

    def initialize(self, editor: EditorClient, params: dict[str, Any]) -> Mapping[str, Any]:
        options = params.get("initializationOptions")
        if options == "refuse":
            raise ConfigFault("agent: no such agent")
        self.editor = editor
        self.tasks.start_soon(self.heart)
        return {"extra": options}

    def skipped(self, method: str) -> None:
        self.told.append(["skipped", method])

    def shutdown(self) -> None:
        sys.stderr.write("settled\n")

    async def aclose(self) -> None:
        sys.stderr.write("closed\n")

    def keep(self, name: str) -> NotificationHook:
        return lambda params: self.told.append([name, params])

    def broken(self, params: dict[str, Any]) -> None:
        raise ValueError("sk-secret in a notification")

    async def heart(self) -> None:
        clock = asyncio.get_running_loop().time
        last = clock()
        while True:
            await anyio.sleep(BEAT_SECONDS)
            self.stall = max(self.stall, clock() - last - BEAT_SECONDS)
            last = clock()

    @property
    def client(self) -> EditorClient:
        assert self.editor is not None
        return self.editor

    async def echo(self, params: dict[str, Any]) -> Any:
        return {"echo": params}

    async def sleep(self, params: dict[str, Any]) -> Any:
        try:
            await anyio.sleep(30)
        finally:
            self.told.append("sleep ended")

    async def nap(self, params: dict[str, Any]) -> Any:
        await anyio.sleep(params.get("seconds", 1.2))
        return {"rested": True}

    async def nap_and_fail(self, params: dict[str, Any]) -> Any:
        await anyio.sleep(1.2)
        raise Unavailable("the agent did not come")

    async def stubborn(self, params: dict[str, Any]) -> Any:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(60)

    async def block(self, params: dict[str, Any]) -> Any:
        import time

        self.client.notify("test/blocking")
        time.sleep(60)  # noqa: ASYNC251  a loop that does not run any more

    async def fail(self, params: dict[str, Any]) -> Any:
        raise ERRORS[params["kind"]]

    async def unwritable(self, params: dict[str, Any]) -> Any:
        return {"value": object()}

    async def what_was_told(self, params: dict[str, Any]) -> Any:
        told = {"told": self.told, "stall": self.stall}
        if params.get("reset"):
            self.stall = 0.0
        return told

    async def ask(self, params: dict[str, Any]) -> Any:
        kind = cast("MessageKind", params.get("type", "info"))
        return {"picked": await self.client.show_message_request(kind, "Allow?", ["Reject", "7", "Allow once"])}

    async def request(self, params: dict[str, Any]) -> Any:
        call = params["call"]
        if call == "configuration":
            return await self.client.configuration("sidecar", params.get("scope"))
        if call == "showDocument":
            reply = await self.client.show_document(params["uri"], timeout=params["timeout"], external=True)
        elif call == "applyEdit":
            reply = await self.client.apply_edit({"changes": {}}, "an edit")
        else:
            reply = await self.client.request(call, params.get("params"), timeout=params.get("timeout"))
        error = None if reply.error is None else {"code": reply.error.code, "message": reply.error.message}
        return {"outcome": reply.outcome, "result": reply.result, "error": error}

    async def flood(self, params: dict[str, Any]) -> Any:
        most = 0
        for number in range(params["count"]):
            await self.client.room()
            self.client.notify("test/flood", {"number": number, "text": "x" * params["size"]})
            most = max(most, self.client.queued_bytes)
        return {"most_queued": most}

    async def big(self, params: dict[str, Any]) -> Any:
        return {"text": "é" * params["size"]}

    async def progress(self, params: dict[str, Any]) -> Any:
        stopped = anyio.Event()
        progress = await self.client.begin_progress("Working", "step 1", on_cancel=stopped.set)
        if progress.shown:
            progress.report("step 2", 40)
            await stopped.wait()
        shown = progress.shown
        progress.end("stopped")
        progress.end("twice")
        progress.report("too late")
        return {"shown": shown, "stopped": stopped.is_set()}

    async def cancelled_inside(self, params: dict[str, Any]) -> Any:
        task = asyncio.ensure_future(anyio.sleep(30))
        task.cancel()
        await task

    async def who_am_i(self, params: dict[str, Any]) -> Any:
        info = self.client.info
        return [info.name, info.version, info.position_encoding, info.protocol, info.changes, info.questions, info.commands]

    async def print_to_stdout(self, params: dict[str, Any]) -> Any:
        import subprocess

        print("this must not reach the editor", flush=True)
        sys.stdout.flush()
        child = subprocess.run(["cat"], stdout=None, timeout=5, check=True)  # noqa: ASYNC221  inherits our streams
        return {"child": child.returncode}

    async def hover(self, params: dict[str, Any]) -> Any:
        if params.get("wait"):
            await anyio.sleep(30)
        return {"contents": params.get("unknownMember", "plain"), "x": params["textDocument"]["uri"]}


if __name__ == "__main__":
    logging.basicConfig(level=logging.DEBUG, stream=sys.stderr, format="%(name)s: %(message)s")
    with contextlib.suppress(IndexError):
        logging.getLogger().setLevel(sys.argv[2])
    limit = int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 26
    run(lambda tasks: TinyApp(tasks, limit))
