"""Writes ``editors/PROTOCOL.md`` from the operation table and the notifications: ``python -m sidecar.editor.protocol_docs``.

A test compares the file in the repository with what this makes.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import anyio
import attrs

from sidecar.config import Layer, combine
from sidecar.editor.announced import FEATURES, NOTIFICATIONS
from sidecar.editor.built_in import PARTS
from sidecar.editor.client import EditorClient
from sidecar.editor.front import EditorFront, FrontNeeds
from sidecar.editor.identity import PROTOCOLS
from sidecar.rpc.connection import LSP_CANCELLATION, Connection
from sidecar.rpc.messages import Message
from sidecar.workspace.operation import Operation, Param
from sidecar.workspace.sessions import Workspace

FILE: Final = Path("editors") / "PROTOCOL.md"


@attrs.frozen
class Told:
    """A notification of the sidecar's own, from server to editor."""

    method: str
    params: str
    doc: str


TOLD: Final = (
    Told(
        "sidecar/session/changed",
        "{sessionId, epoch, seq, changes[]}",
        "What changed in a session. Watched sessions (`session.watch`, and by themselves after `prompt`, `session.new` and "
        "`session.load`) send everything; others only changes of kind `state`, with `title` and `waiting` in it. "
        "`seq` counts without gaps; on a gap, or a new `epoch`, watch again or apply the `reset` that begins it.",
    ),
    Told(
        "sidecar/pending/changed",
        "{pending: Question[]}",
        "All questions that wait for the user, whenever one comes, changes or goes.",
    ),
    Told("sidecar/mcp/changed", "{sessionId, servers[]}", "All MCP servers of a session; never an address to sign in at."),
    Told(
        "sidecar/agent/changed",
        "{agent, state, message?}",
        "An agent is `starting`, `running`, `stopped` or `failed`. With `stopped` a message says why it was lost.",
    ),
    Told(
        "sidecar/operation/finished",
        "{operation, result | error}",
        'The outcome of a command that was answered with `{state: "started"}` because it took longer than a second.',
    ),
)

CHANGES: Final = (
    ("reset", "{reason, before?}", "Forget all turns and sections; everything follows anew. `reason`: `watch` or `load`."),
    ("turn_started", "{turn}", "Append the turn, with no parts."),
    ("turn_ended", "{turn}", "Merge these fields into the turn of that `turnId`."),
    ("part_added", "{turnId, part}", "Append the part to its turn."),
    ("unknown", "{turnId, part}", "The same, for an update of a kind not known here; `part.raw` is the update as received."),
    ("part_text", "{turnId, partId, text, meta?}", "Append `text` to the part; replace its `meta` when given."),
    ("tool_call", "{turnId, partId, toolCallId, fields}", "Merge `fields` into the part's `toolCall`."),
    (
        "terminal",
        "{terminal}",
        (
            "Put the terminal in the place of the one of that `terminalId`, or append it; tool calls show it as content "
            "`{type: terminal, terminalId}`. `output` is the end of what it printed."
        ),
    ),
    ("notice", "{notice}", "Append a notice; it is not part of the conversation."),
    (
        "plan, commands, config, tools, usage, title, mcp, compaction, steering, queue, state",
        "{…}",
        "Replace the members of the snapshot named beside `kind`; `meta` belongs to `metas[kind]` and goes when absent.",
    ),
)

QUESTIONS: Final = (
    (
        "permission",
        "toolCallId, toolKind?, command? | path? | diff?, options[{optionId, name, kind}], consent?, mcpTool?, notes[]",
        "{optionId, scope?, resource?, confirm?, guidance?}",
    ),
    (
        "openUrl",
        "host, display, unencrypted, warnings[], message?, server?; `url` only in `pending.get`",
        '{action: "open" | "copy" | "decline"}',
    ),
    ("form", "message, schema", '{action: "accept" | "decline" | "cancel", content?}'),
    ("signIn", "resource, methods[{id, name, kind, command?}], message?", '{action: "start" | "cancel", method?}'),
    ("trust", "path, items[{file, commands[], urls[]}]", '{action: "trust" | "decline"}'),
)

INTRO: Final = """<!-- Made by `python -m sidecar.editor.protocol_docs`; do not edit. -->
# The editor protocol

`sidecar` is a language server: it speaks LSP 3.17 on its standard input and output. This page lists what it adds. An editor
without any plugin needs none of it; see "Plain LSP" below.

## Getting to know one another

The editor may say `capabilities.experimental.sidecar` in `initialize`:

| member | meaning |
|---|---|
| `protocol` | number, or list of numbers, of this protocol that it speaks; the server speaks {protocols} |
| `client` | name and version, such as `"sidecar.nvim/1.0"` |
| `changes` | `false`: send no changes of sessions that were not watched by name |
| `questions` | `false`: ask by dialogs or messages instead of `sidecar/pending/changed` |
| `commands` | `false`: leave `executeCommandProvider` empty, for clients that register every command they find there |
| `documents` | `true`: the plugin answers the requests about documents below |

The server answers `capabilities.experimental.sidecar = {{protocol: [...], version, operations: [...]}}`. Without a common number
everything below stays off but the operations, and one message says which side to update.

## Documents

An agent's change of an open file is a versioned `workspace/applyEdit`, seen in the `didChange` that follows, then written to the
disk. With `documents: true` the editor is asked to do that itself, so that it never finds a file changed behind its back:

| request to the editor | params | result | what it does |
|---|---|---|---|
| `sidecar/document/save` | `{{uri, version}}` | `{{saved: boolean}}` | Save the buffer, without asking. |
| `sidecar/document/reload` | `{{uri, version}}` | `{{reloaded: boolean}}` | Read an unchanged buffer from the disk again. |

What it did not do within five seconds the sidecar does by itself (save), or tells the user (reload).

## Operations

Each is a request `sidecar/<name with slashes>` with the params as one object, and a command `sidecar.<name>`
(`workspace/executeCommand`) with the same object as the only argument, or none. The request waits for its result. The command is
answered within a second: by the result, or by `{{"state": "started", "operation": name}}` and `sidecar/operation/finished` later.
Unknown names are refused with -32601, wrong params with -32602 and a sentence that says the fix; further codes: -32003 refused,
-32004 not available, -32005 the agent failed, -32800 cancelled. `$/cancelRequest` ends the waiting and undoes nothing.

*which session* stands for `sessionId` (the sidecar's own id) and `workspace` (a folder's URI or absolute path). Both may be left
out: then the session of the active document's folder is meant, else the only one. Parameters in **bold** must be given.

| operation | parameters | result | what it does |
|---|---|---|---|
"""

CHANGES_HEAD: Final = """
Changes of a session, applied in order to the snapshot of `session.watch`; a turn or part that is not known is older than the
snapshot and is skipped:

| kind | members | what to do |
|---|---|---|
"""

PLAIN: Final = """
## Questions

`{id, kind, title, agent, origin, askedAt, sessionId?, replaces?, phase?}` and, by kind:

"""

PLAIN_LSP: Final = """
Everything in a question is neutralised: control, direction and invisible characters stand there as escapes. What is sent back
(`optionId`, names of fields) is as received. A question that changes gets a new id, and `replaces` names the old one.

## Plain LSP

- **Questions** come as `window/showMessageRequest`, one at a time, the refusal first, when the client has `window.showMessage`.
  Null, an error or anything but an offered title leaves the question waiting; `pending.ask` asks again. Without dialogs (or after
  a -32601) a `window/showMessage` names the question, a diagnostic marks it, and `pending.allow` and `pending.reject` answer the
  one question that waits, a second after it was announced.
- **Addresses** are opened by `window/showDocument {external: true}` after the user chose so, else by the system's opener, else
  they stand in a private file whose path is shown, until the user answers.
- **Turns** are shown by `window/workDoneProgress`; cancelling it cancels that turn.
- **Messages**: `window/showMessage` only for what needs the user, `window/logMessage` from warnings up.
- **Settings** are read from `initializationOptions`, `workspace/configuration` (section `sidecar`) and
  `workspace/didChangeConfiguration`. What runs or reaches something counts after a `trust` question only.
"""


class _Nowhere:
    """An editor that is not there."""

    queued_bytes = 0

    def send(self, message: Message) -> None: ...

    async def room(self) -> None: ...


async def _table() -> Mapping[str, Operation]:
    table: Mapping[str, Operation] = {}
    async with anyio.create_task_group() as tasks:
        workspace = Workspace(tasks, combine(Layer("nothing")))
        front = EditorFront(workspace, tasks, FrontNeeds(Layer("nothing"), Path(), parts=PARTS))
        client = EditorClient(_Nowhere(), Connection(LSP_CANCELLATION))
        front.initialize(client, {})
        table = front.table
        front.shutdown()
        tasks.cancel_scope.cancel()
    return table


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _params(operation: Operation) -> str:
    """Return the parameters in words; the two that choose a session are one word."""
    names = {param.name for param in operation.params}
    choosing = (
        {"sessionId", "workspace"} if {"sessionId", "workspace"} <= names and operation.name != "session.load" else set[str]()
    )
    shown = [_param(param) for param in operation.params if param.name not in choosing]
    return "; ".join([*shown, *(["*which session*"] if choosing else [])])


def _param(param: Param) -> str:
    name = f"**{param.name}**" if param.required else param.name
    kind = " / ".join(f"`{choice}`" for choice in param.choices) or param.kind
    return f"{name}: {kind}" + (f" ({param.doc.rstrip('.')})" if param.doc else "")


def _rows(rows: Sequence[Sequence[str]]) -> str:
    return "".join("| " + " | ".join(_cell(cell) for cell in row) + " |\n" for row in rows)


def document() -> str:
    """Return the page."""
    table = anyio.run(_table)
    operations = [(f"`{name}`", _params(table[name]), f"`{table[name].result}`", table[name].doc) for name in sorted(table)]
    told = [(f"`{item.method}`", f"`{item.params}`", item.doc) for item in TOLD]
    changes = [(f"`{kind}`", f"`{members}`", doc) for kind, members, doc in CHANGES]
    questions = [(f"`{kind}`", members, f"`{answer}`") for kind, members, answer in QUESTIONS]
    pieces = [
        INTRO.format(protocols=", ".join(map(str, PROTOCOLS))),
        _rows(operations),
        "\n## Notifications to the editor\n\n| method | params | when |\n|---|---|---|\n",
        _rows(told),
        CHANGES_HEAD,
        _rows(changes),
        PLAIN,
        "| kind | members | answer (`pending.answer`, beside `id`) |\n|---|---|---|\n",
        _rows(questions),
        PLAIN_LSP,
        _standard(),
    ]
    return "".join(pieces)


def _standard() -> str:
    features = "".join(f"- `{method}`\n" for method in sorted(FEATURES))
    taken = "".join(f"- `{method}`\n" for method in NOTIFICATIONS)
    return f"\nStandard requests that are answered:\n\n{features}\nNotifications that are taken:\n\n{taken}"


def main(arguments: Sequence[str]) -> int:
    """Write the page into the repository of the working directory, or print it with ``--print``."""
    text = document()
    if "--print" in arguments:
        sys.stdout.write(text)
    else:
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
