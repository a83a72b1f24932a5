"""Operations on the commands agents have us run: list, read, end."""

from typing import Any

from sidecar.workspace.operation import Operation, Param, Params
from sidecar.workspace.selection import WHICH, find_session
from sidecar.workspace.sessions import Workspace

TERMINAL = Param("terminalId", required=True, doc="Id of a terminal; see terminal.list.")


def terminal_operations(workspace: Workspace) -> list[Operation]:
    """Return the rows of this family."""
    terminals = _Terminals(workspace)
    return [
        Operation(
            "terminal.list",
            "Terminals of a session with the end of their output; running ones can be killed.",
            terminals.listing,
            WHICH,
            "{terminals: [{terminalId, command?, cwd?, output, truncated, exitStatus?, released?, running}]}",
        ),
        Operation(
            "terminal.output",
            "All that is kept of what a command printed, until the agent releases it.",
            terminals.output,
            (TERMINAL,),
            "{output, truncated, exitStatus?}",
        ),
        Operation(
            "terminal.kill",
            "End a command and everything it started; the agent learns of it.",
            terminals.kill,
            (TERMINAL,),
            "{exitStatus}",
        ),
    ]


class _Terminals:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def listing(self, params: Params) -> Any:
        actor = find_session(self._workspace, params)
        if actor is None:
            return {"terminals": []}
        shown = [view.to_json() for view in actor.state.conversation.terminals.values()]
        return {"terminals": [{**view, "running": self._runs(view["terminalId"])} for view in shown]}

    def _runs(self, terminal_id: str) -> bool:
        entry = self._workspace.terminals.get(terminal_id)
        return entry is not None and entry.running

    async def output(self, params: Params) -> Any:
        entry = self._workspace.terminals.find(params["terminalId"])
        text = entry.text()
        return {"output": text.output, "truncated": text.truncated, **_exit(entry.exit_json())}

    async def kill(self, params: Params) -> Any:
        entry = self._workspace.terminals.find(params["terminalId"])
        await entry.end()
        return _exit(entry.exit_json())


def _exit(status: Any) -> dict[str, Any]:
    return {} if status is None else {"exitStatus": status}
