"""Sessions under races and faults: no session is doubled, lost or left behind, and a fault of one costs no other."""

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from sidecar.errors import SidecarError
from sidecar.store.sessions import SessionRecord
from sidecar.workspace.records import Records
from tests.flows.harness import bench, text_of
from tests.peers.kiro_v3 import kiro_v3
from tests.peers.scripted import WAIT_SECONDS

pytestmark = pytest.mark.anyio


async def test_a_fault_of_ours_in_one_turn_ends_that_turn_as_failed_and_nothing_else(tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path) as b:
        actor, other = await b.new(), await b.new()
        odd: list[Any] = [{"type": "text", "text": "answer", "odd": {1, 2}}]
        turn_id = (await actor.prompt("odd", odd))["turnId"]
        turn = await b.turn(actor, turn_id)
        assert turn["outcome"] == "failed"
        assert text_of(await b.run(other, "answer"))
        assert text_of(await b.run(actor, "answer"))


async def test_a_session_closed_while_its_agent_starts_takes_no_prompt_and_leaves_none_at_the_agent(tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path) as b:
        actor = await b.workspace.create(None, str(tmp_path))
        refused: list[str] = []

        async def prompt() -> None:
            try:
                await b.prompt(actor, "answer")
            except SidecarError as error:
                refused.append(error.message)

        with anyio.fail_after(WAIT_SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(prompt)
                await b.until(lambda: actor.phase == "opening", actor)
                await b.workspace.close(actor)
        assert refused
        assert "closed" in refused[0]
        assert actor.phase == "ended"
        assert actor.connection is None


class SlowRecords(Records):
    """A store with one session, each read of which takes until ``go``."""

    def __init__(self, record: SessionRecord) -> None:
        self.record = record
        self.readers = 0
        self.go = anyio.Event()

    def follow(self, actor: Any) -> None:
        """Nothing is written."""

    def save(self, actor: Any) -> None:
        """Nothing is written."""

    async def _read(self, found: Any) -> Any:
        self.readers += 1
        if self.readers == 2:
            self.go.set()
        await self.go.wait()
        return found

    async def get(self, session_id: str) -> SessionRecord | None:
        return await self._read(self.record)

    async def find(self, agent: str, agent_session_id: str) -> SessionRecord | None:
        return await self._read(self.record if agent_session_id == self.record.agent_session_id else None)

    async def turns(self, session_id: str) -> Any:
        await anyio.lowlevel.checkpoint()
        return None


@pytest.mark.parametrize(
    "params",
    [
        {"sessionId": "s-1"},
        {"agentSessionId": "a-1", "agent": "scripted"},
        {"agentSessionId": "a-2", "agent": "scripted"},
    ],
)
async def test_a_session_loaded_twice_at_once_is_one_session(tmp_path: Path, params: dict[str, Any]) -> None:
    async with bench(kiro_v3(), tmp_path) as b:
        record = SessionRecord(session_id="s-1", agent="scripted", cwd=str(tmp_path), agent_session_id="a-1")
        b.workspace.records = SlowRecords(record)
        ids: list[str] = []

        async def load() -> None:
            where = {} if "sessionId" in params else {"workspace": str(tmp_path)}
            ids.append((await b.call("session.load", **params, **where))["sessionId"])

        seen: list[Any] = []
        b.workspace.hooks.session_added = seen.append
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(load)
            tasks.start_soon(load)
        assert len(set(ids)) == 1
        assert len(seen) == 1
        assert len(b.workspace.actors()) == 1


async def test_a_restart_leaves_a_connection_made_meanwhile_alone(tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path) as b:
        actor = await b.new()
        await b.run(actor, "answer")
        stop = b.workspace.supervisor.stop

        async def stop_and_use_again(agent: str, folder: str | None = None) -> bool:
            stopped = await stop(agent, folder)
            actor.connection = None
            await actor.ensure_open()
            return stopped

        b.workspace.supervisor.stop = stop_and_use_again  # type: ignore[method-assign]  # stands in for the time a real end takes
        assert await b.workspace.restart("scripted")
        assert actor.connection is not None


@pytest.mark.parametrize("operation", ["session.close", "session.delete"])
async def test_the_process_of_a_session_that_has_its_own_ends_with_it(tmp_path: Path, operation: str) -> None:
    async with bench(lambda _: kiro_v3(), tmp_path, process="session") as b:
        first, second = await b.new(), await b.new()
        assert len(b.workspace.supervisor.running()) == 2
        await b.call(operation, sessionId=first.identity.session_id)
        with anyio.fail_after(WAIT_SECONDS):
            while len(b.workspace.supervisor.running()) != 1:
                await anyio.lowlevel.checkpoint()
        assert text_of(await b.run(second, "answer"))


async def test_a_session_deleted_while_its_turn_runs_is_not_stored_again_by_its_end(tmp_path: Path) -> None:
    async with bench(kiro_v3(), tmp_path) as b:
        saved: list[str] = []

        class Kept(SlowRecords):
            def follow(self, actor: Any) -> None:
                Records.follow(self, actor)

            def save(self, actor: Any) -> None:
                saved.append(actor.identity.session_id)

            def delete(self, session_id: str) -> None:
                saved.clear()

            def _save_turn(self, actor: Any, turn_id: str) -> None:
                saved.append(turn_id)

        b.workspace.records = Kept(SessionRecord(session_id="s-1", agent="scripted", cwd=str(tmp_path)))
        actor = await b.new()
        await b.prompt(actor, "late")
        await b.until(lambda: actor.state.running_turn is not None, actor)
        await b.call("session.delete", sessionId=actor.identity.session_id)
        await b.kill()
        await b.until(lambda: actor.state.running_turn is None, actor)
        assert not saved
