"""Which agent processes run: started on need, one per agent and workspace folder, restarted a few times and then no more.

Owned by the root task group; ending it ends every agent with its whole tree.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import anyio
import anyio.abc
import attrs

from sidecar.agents.acp import AcpConnection, ConnectionOptions
from sidecar.agents.profiles import AgentProfile, explain_early_exit, launch_of, profile_of
from sidecar.config import AgentSettings
from sidecar.errors import AgentFault, Unavailable
from sidecar.session.ports import AgentConnection, ConnectionSink, Loss
from sidecar.transport.process import AgentProcess, Launch, start_agent

MAX_RESTARTS: Final = 3
RESTART_WINDOW_SECONDS: Final = 30.0
EXIT_WAIT_SECONDS: Final = 1.0

Start: TypeAlias = Callable[[Launch, anyio.abc.TaskGroup], Awaitable[AgentProcess]]
Key: TypeAlias = tuple[str, str, str]


class AgentWatcher(Protocol):
    """Who hears about agents as a whole."""

    def connection_sink(self, agent: str) -> ConnectionSink:
        """Return where a new connection of that agent reports to."""
        ...

    def agent_state(self, agent: str, state: str, message: str | None) -> None:
        """An agent is ``starting``, ``running``, ``stopped`` or ``failed``."""
        ...


@attrs.frozen
class AgentNeeds:
    """What the supervisor gets from outside: environment, resolved variables and tokens, connection options, a clock."""

    environment: Callable[[], Mapping[str, str]]
    variables: Callable[[AgentSettings], Awaitable[Mapping[str, str | None]]]
    options: Callable[[AgentSettings], ConnectionOptions]
    monotonic: Callable[[], float]
    forbidden: Callable[[], Sequence[str]]


class _Slot:
    """One agent for one workspace: the running connection, and when it was started."""

    def __init__(self) -> None:
        self.lock = anyio.Lock()
        self.connection: AcpConnection | None = None
        self.process: AgentProcess | None = None
        self.starts: deque[float] = deque(maxlen=MAX_RESTARTS + 1)
        self.stopping = False


class AgentSupervisor:
    """Hands out connections. ``connect`` is the only way an agent starts."""

    def __init__(self, tasks: anyio.abc.TaskGroup, watcher: AgentWatcher, needs: AgentNeeds, start: Start = start_agent) -> None:
        self._tasks = tasks
        self._watcher = watcher
        self._needs = needs
        self._start = start
        self._slots: dict[Key, _Slot] = {}

    def running(self) -> list[tuple[str, str, AgentConnection]]:
        """Every live connection as (agent, workspace folder, connection)."""
        live = [(key, slot.connection) for key, slot in self._slots.items()]
        return [(key[0], key[1], found) for key, found in live if found is not None and found.closed is None]

    async def connect(self, settings: AgentSettings, workspace: str, session_id: str = "") -> AgentConnection:
        """Return the running connection of that agent for that folder, starting it when needed.

        Raises ``Unavailable`` when it cannot be started or was restarted too often, ``AgentFault`` when it fails the handshake.
        """
        profile = profile_of(settings)
        slot = self._slots.setdefault(self._key(settings, profile, workspace, session_id), _Slot())
        async with slot.lock:
            if slot.connection is not None and slot.connection.closed is None:
                return slot.connection
            self._count_start(slot, profile.name)
            self._watcher.agent_state(profile.name, "starting", None)
            try:
                connection = await self._begin(slot, settings, profile, workspace)
            except (AgentFault, Unavailable) as error:
                self._watcher.agent_state(profile.name, "failed", error.message)
                raise
            self._watcher.agent_state(profile.name, "running", None)
            return connection

    def _key(self, settings: AgentSettings, profile: AgentProfile, workspace: str, session_id: str) -> Key:
        return (settings.name, workspace, session_id if profile.one_process_per_session else "")

    def _count_start(self, slot: _Slot, name: str) -> None:
        now = self._needs.monotonic()
        if len(slot.starts) > MAX_RESTARTS and now - slot.starts[0] < RESTART_WINDOW_SECONDS:
            raise Unavailable(
                f"{name} was started {len(slot.starts)} times within {RESTART_WINDOW_SECONDS:g} s and is not started again by "
                "itself. Look at `sidecar doctor`, then use agent.restart."
            )
        slot.starts.append(now)

    async def _begin(self, slot: _Slot, settings: AgentSettings, profile: AgentProfile, workspace: str) -> AcpConnection:
        overrides = await self._needs.variables(settings)
        launch = launch_of(
            settings, workspace, self._needs.environment(), overrides, forbidden=(workspace, *self._needs.forbidden())
        )
        process = await self._start(launch, self._tasks)
        slot.process, slot.stopping = process, False
        sink = self._watcher.connection_sink(profile.name)
        options = attrs.evolve(self._needs.options(settings), pid=process.pid)
        connection = AcpConnection(profile, process, sink, self._tasks, options)
        handed_over = False

        def lost(reason: str) -> None:
            if handed_over:
                self._tasks.start_soon(self._report_loss, slot, profile, process, sink, reason)

        connection.on_lost(lost)
        self._tasks.start_soon(connection.read)
        try:
            await connection.initialize()
        except (AgentFault, Unavailable) as error:
            raise await self._explain(process, profile, error) from error
        except BaseException:
            with anyio.CancelScope(shield=True):
                await process.aclose()
            raise
        handed_over = True
        slot.connection = connection
        if connection.closed is not None:  # it ended with its first word: told, and its process ended, like any other loss
            lost(connection.closed)
        return connection

    async def _explain(self, process: AgentProcess, profile: AgentProfile, error: AgentFault | Unavailable) -> Exception:
        """Turn a failed handshake into the reason behind it: an early exit says more than a closed stream."""
        with anyio.move_on_after(EXIT_WAIT_SECONDS):
            await process.exit
        ended = process.exit.status is not None
        told = f"{process.describe_exit()}" if ended else error.message
        advice = explain_early_exit(profile, process.stderr_tail())
        await process.aclose()
        message = f"{told}\n{advice}" if advice else told
        return Unavailable(message) if ended else type(error)(message, data=error.data)

    async def _report_loss(
        self, slot: _Slot, profile: AgentProfile, process: AgentProcess, sink: ConnectionSink, reason: str
    ) -> None:
        with anyio.move_on_after(EXIT_WAIT_SECONDS):
            await process.exit
        status: Any = process.exit.status
        loss = Loss(
            reason=process.describe_exit() if status is not None else reason,
            exit_code=status.code if status is not None else None,
            signal=status.signal if status is not None else None,
            stderr_tail=process.stderr_tail(),
            expected=slot.stopping,
        )
        self._watcher.agent_state(profile.name, "stopped", None if slot.stopping else loss.reason)
        sink.lost(loss)
        await process.aclose()

    async def stop(self, agent: str, workspace: str | None = None) -> bool:
        """End the agent's processes (for one folder or all); False when none ran. The next need starts it anew."""
        found = False
        for (name, folder, _), slot in list(self._slots.items()):
            if name == agent and (workspace is None or folder == workspace):
                slot.starts.clear()
                found = await self._stop_slot(slot) or found
        return found

    async def stop_own(self, session_id: str) -> None:
        """End the process that only this session had, if it had one of its own."""
        for key, slot in list(self._slots.items()):
            if key[2] == session_id:
                await self._stop_slot(slot)
                self._slots.pop(key, None)

    async def _stop_slot(self, slot: _Slot) -> bool:
        connection, slot.connection = slot.connection, None
        if connection is None or connection.closed is not None:
            return False
        slot.stopping = True
        await connection.aclose()
        return True

    async def aclose(self) -> None:
        """End every agent, side by side, in bounded time."""
        async with anyio.create_task_group() as tasks:
            for slot in self._slots.values():
                tasks.start_soon(self._stop_slot, slot)
