"""The operations every front offers, one table (CONTRACT 3.1). The editor adds what only an editor has."""

from collections.abc import Mapping

from sidecar.workspace.operation import Operation
from sidecar.workspace.operations_agents import agent_operations
from sidecar.workspace.operations_questions import question_operations
from sidecar.workspace.operations_sessions import session_operations
from sidecar.workspace.operations_terminals import terminal_operations
from sidecar.workspace.operations_turns import turn_operations
from sidecar.workspace.sessions import Workspace


def operations(workspace: Workspace) -> Mapping[str, Operation]:
    """Return the table for one workspace, by name with dots."""
    rows = (
        *agent_operations(workspace),
        *session_operations(workspace),
        *turn_operations(workspace),
        *question_operations(workspace),
        *terminal_operations(workspace),
    )
    return {row.name: row for row in rows}
