"""What ``initialize`` announces, known without loading what carries it out: the reply is there before the rest is imported.

A test compares these names with the tables they stand for.
"""

from collections.abc import Mapping
from typing import Any, Final

OPERATIONS: Final = (
    "account.usage",
    "agent.list",
    "agent.restart",
    "cancel",
    "config.set",
    "consent.list",
    "mcp.authenticate",
    "mcp.status",
    "pending.allow",
    "pending.answer",
    "pending.ask",
    "pending.get",
    "pending.list",
    "pending.reject",
    "prompt",
    "queue.edit",
    "queue.list",
    "queue.move",
    "queue.remove",
    "queue.resume",
    "session.close",
    "session.compact",
    "session.context",
    "session.delete",
    "session.export",
    "session.fork",
    "session.history",
    "session.list",
    "session.load",
    "session.new",
    "session.rename",
    "session.state",
    "session.unwatch",
    "session.watch",
    "status",
    "steer",
    "terminal.kill",
    "terminal.list",
    "terminal.output",
    "transcript.answer",
    "transcript.more",
    "transcript.open",
    "transcript.redraw",
    "transcript.restore",
    "transcript.send",
)
FEATURES: Final[Mapping[str, Mapping[str, Any]]] = {
    "textDocument/codeAction": {"codeActionKinds": ["quickfix"]},
    "textDocument/completion": {"triggerCharacters": ["/", "@"]},
}
"""Standard requests that are answered, with the options of their capability as LSP writes them."""

NOTIFICATIONS: Final = (
    "initialized",
    "textDocument/didChange",
    "textDocument/didClose",
    "textDocument/didOpen",
    "textDocument/didSave",
    "workspace/didChangeConfiguration",
    "workspace/didChangeWorkspaceFolders",
)
