"""The commands agents have us run, for all sessions: ``session.ports.TerminalService`` and the user's own hold on them."""

from collections.abc import Sequence

import anyio.abc

from sidecar.errors import EditorFault, Refused
from sidecar.session.interaction import Answer, PermissionRequest, Withdrawal
from sidecar.session.ports import SessionSink, TerminalExit, TerminalRequest, TerminalText
from sidecar.transport.terminal import open_terminal
from sidecar.workspace.actor import SessionActor
from sidecar.workspace.broker import Broker, Pending
from sidecar.workspace.terminal_commands import shell_name
from sidecar.workspace.terminal_consent import ORIGIN
from sidecar.workspace.terminal_entry import TerminalEntry
from sidecar.workspace.terminal_session import Environment, Open, SessionTerminals


class Terminals:
    """Implements ``session.ports.TerminalService`` for all sessions. ``tasks`` owns every command."""

    def __init__(self, tasks: anyio.abc.TaskGroup, broker: Broker, environment: Environment, start: Open = open_terminal) -> None:
        self._tasks = tasks
        self._environment = environment
        self._open = start
        self._sessions: dict[object, SessionTerminals] = {}
        broker.on_ended(self._answered)

    def follow(self, actor: SessionActor) -> None:
        """Serve the session until it ends."""
        session = self._sessions[actor] = SessionTerminals(actor, self._tasks, self._environment, self._open)
        actor.observe(session.saw)

        def ended() -> None:
            self._sessions.pop(actor, None)
            session.close()

        actor.when_ended(ended)

    def _answered(self, pending: Pending, answer: Answer | Withdrawal) -> None:
        body = pending.body
        if not isinstance(body, PermissionRequest) or pending.asker.origin == ORIGIN:
            return
        for actor, session in self._sessions.items():
            if isinstance(actor, SessionActor) and actor.identity.session_id == pending.asker.session_id:
                session.allowed.answered(body, answer)

    def of(self, sink: object) -> SessionTerminals:
        """Return those of a session; raises ``Refused`` when it is closed."""
        if (found := self._sessions.get(sink)) is None:
            raise Refused("the session is closed; nothing is run for it any more")
        return found

    def get(self, terminal_id: str) -> TerminalEntry | None:
        """Return the terminal of any session, None when none of ours has that id (any more)."""
        found = (session.entries.get(terminal_id) for session in self._sessions.values())
        return next((entry for entry in found if entry is not None), None)

    def find(self, terminal_id: str) -> TerminalEntry:
        """As ``get``; raises ``EditorFault`` when there is none."""
        if (entry := self.get(terminal_id)) is not None:
            return entry
        raise EditorFault(
            f"there is no terminal {terminal_id!r} the sidecar runs (any more); see terminal.list. What an agent runs itself is "
            "stopped by cancelling its turn."
        )

    # --- TerminalService ------------------------------------------------------------------------------------------------------

    async def create(self, sink: SessionSink, request: TerminalRequest) -> str:
        return await self.of(sink).create(request)

    def output(self, sink: SessionSink, terminal_id: str) -> TerminalText:
        return self.of(sink).entry(terminal_id).text()

    async def wait(self, sink: SessionSink, terminal_id: str) -> TerminalExit:
        return await self.of(sink).entry(terminal_id).wait()

    async def kill(self, sink: SessionSink, terminal_id: str) -> None:
        await self.of(sink).entry(terminal_id).end()

    async def release(self, sink: SessionSink, terminal_id: str) -> None:
        await self.of(sink).forget(terminal_id).end()

    def shell(self) -> str:
        return shell_name(self._environment())

    def leave(self, sink: SessionSink, terminal_ids: Sequence[str]) -> None:
        if (found := self._sessions.get(sink)) is not None:
            found.leave(terminal_ids)
