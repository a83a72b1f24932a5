"""Files that stand in the editor: unsaved text is read, edits are small and seen, typing is never lost, the disk follows."""

import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidecar.errors import Refused, SidecarError, Unavailable
from sidecar.session.interaction import OpenUrl
from sidecar.session.ports import AgentConnection, SessionOpened, SessionSpec
from sidecar.workspace import files_open, files_write
from sidecar.workspace.actor import SessionActor, SessionIdentity
from sidecar.workspace.actor_core import SessionCore
from sidecar.workspace.broker import Broker
from sidecar.workspace.files import FileService
from sidecar.workspace.files_rules import FileRules
from sidecar.workspace.hooks import SystemClock
from sidecar.workspace.positions import PositionEncoding
from tests.flows.files_editor import FilesEditor
from tests.peers.scripted import WAIT_SECONDS

pytestmark = pytest.mark.anyio


class _NoAgent:
    async def open(self, actor: SessionCore) -> tuple[AgentConnection, SessionOpened]:
        raise Unavailable(f"no agent is needed for {actor.identity.session_id}")


class _NobodyToAsk:
    async def open_url(self, body: OpenUrl) -> bool:
        raise Unavailable(f"no page is opened here: {body.host}")

    async def guide(self, session_id: str, text: str) -> None:
        raise Unavailable(f"{session_id} takes no guidance: {text}")


class World:
    """One session, one editor and the service between them, without an agent."""

    def __init__(self, folder: Path, editor: FilesEditor, tasks: anyio.abc.TaskGroup) -> None:
        clock = SystemClock()
        self._tasks = tasks
        self.jobs = 0
        broker = Broker(clock, self.spawn, _NobodyToAsk())
        identity = SessionIdentity("s-1", "agent", SessionSpec(str(folder)))
        self.session = SessionActor(identity, broker, _NoAgent(), clock, lambda: "t-1")
        self.service = FileService(self.spawn, editor, FileRules(own=list))

    def spawn(self, job: Callable[[], Awaitable[None]]) -> None:
        """Run a job beside, and count those that run."""

        async def run() -> None:
            try:
                await job()
            finally:
                self.jobs -= 1

        self.jobs += 1
        self._tasks.start_soon(run)

    async def read(self, path: Path) -> str:
        with anyio.fail_after(WAIT_SECONDS):
            return await self.service.read_text(self.session, str(path))

    async def write(self, path: Path, content: str) -> None:
        with anyio.fail_after(WAIT_SECONDS):
            await self.service.write_text(self.session, str(path), content)

    def notices(self) -> str:
        return str(self.session.state.to_json().get("notices"))


@asynccontextmanager
async def world(folder: Path, editor: FilesEditor) -> AsyncGenerator[World, None]:
    async with anyio.create_task_group() as tasks:
        yield World(folder, editor, tasks)
        tasks.cancel_scope.cancel()


async def settled(w: World) -> None:
    """Wait until the service knows whether each buffer is saved: a thread looks at the file."""
    with anyio.fail_after(WAIT_SECONDS):
        while w.jobs:
            await anyio.lowlevel.checkpoint()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "f.txt"
    path.write_text("one\ntwo\nthree\nfour\nfive\n")
    return path


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_write, "SEEN_SECONDS", 0.05)
    monkeypatch.setattr(files_write, "REPORT_SECONDS", 0.05)


async def test_unsaved_text_is_what_the_agent_reads(file: Path) -> None:
    editor = FilesEditor()
    editor.open(file)
    async with world(file.parent, editor) as w:
        editor.type(file, "typed\n")
        assert await w.read(file) == "typed\n"
        editor.close(file)
        assert (await w.read(file)).startswith("one\n")


async def test_a_buffer_is_found_through_links_to_its_file(file: Path) -> None:
    editor = FilesEditor()
    (file.parent / "alias.txt").symlink_to(file)
    editor.open(file.parent / "alias.txt", "typed\n")
    async with world(file.parent, editor) as w:
        assert await w.read(file) == "typed\n"


async def test_a_clean_buffer_older_than_the_disk_serves_the_disk_and_the_editor_is_asked_to_reload(file: Path) -> None:
    for plugin in (False, True):
        editor = FilesEditor(plugin=plugin)
        editor.open(file)
        async with world(file.parent, editor) as w:
            await settled(w)
            file.write_text(f"by a command {plugin}\n")
            assert await w.read(file) == f"by a command {plugin}\n"
            with anyio.fail_after(WAIT_SECONDS):
                while not editor.reloads:
                    await anyio.lowlevel.checkpoint()
            assert editor.reloads == [file.as_uri()]
            await w.write(file, f"by a command {plugin}\nand more\n")
            assert editor.buffers[file.as_uri()].text == file.read_text() == f"by a command {plugin}\nand more\n"


async def test_a_buffer_with_unsaved_changes_is_served_although_the_disk_is_newer(file: Path) -> None:
    editor = FilesEditor()
    editor.open(file)
    async with world(file.parent, editor) as w:
        await settled(w)
        editor.type(file, "typed\n")
        file.write_text("by a command\n")
        assert await w.read(file) == "typed\n"
        assert not editor.reloads


async def test_a_buffer_restored_with_unsaved_text_is_never_taken_for_a_clean_one(file: Path) -> None:
    editor = FilesEditor()
    editor.open(file, "restored from a crash\n")
    async with world(file.parent, editor) as w:
        file.write_text("by a command\n")
        assert await w.read(file) == "restored from a crash\n"


async def test_a_touched_file_with_the_same_text_is_still_the_buffer(file: Path) -> None:
    editor = FilesEditor()
    editor.open(file)
    async with world(file.parent, editor) as w:
        await settled(w)
        file.write_text(file.read_text())
        assert await w.read(file) == file.read_text()
        assert not editor.reloads


async def test_a_read_waits_for_a_report_that_comes_late(file: Path) -> None:
    editor = FilesEditor()
    editor.open(file)
    async with world(file.parent, editor) as w, anyio.create_task_group() as tasks:
        editor.type(file, "t\n")
        editor.late = True
        editor.type(file, "typed in a burst\n")
        found: list[str] = []

        async def read() -> None:
            found.append(await w.read(file))

        tasks.start_soon(read)
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        assert not found
        editor.report(file.as_uri())
        with anyio.fail_after(WAIT_SECONDS):
            while not found:
                await anyio.lowlevel.checkpoint()
        assert found == ["typed in a burst\n"]


async def test_endless_typing_holds_a_read_for_a_moment_only(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_open, "QUIET_LIMIT_SECONDS", 0.1)
    monkeypatch.setattr(files_open, "QUIET_SECONDS", 1000.0)
    editor = FilesEditor()
    editor.open(file)
    async with world(file.parent, editor) as w:
        editor.type(file, "typed\n")
        with anyio.fail_after(2):
            assert await w.read(file) == "typed\n"


async def test_a_mirror_that_lost_track_is_not_read_and_not_edited(file: Path) -> None:
    editor = FilesEditor()
    editor.open(file)
    async with world(file.parent, editor) as w:
        editor.documents.did_change({"textDocument": {"uri": file.as_uri(), "version": 2}, "contentChanges": None})
        assert await w.read(file) == file.read_text()
        assert "read f.txt from the disk" in w.notices()
        with pytest.raises(Unavailable, match="save it first"):
            await w.write(file, "x\n")
        assert file.read_text().startswith("one\n")
        assert not editor.edits


async def test_an_open_file_is_changed_by_small_edits_and_undo_brings_the_old_text_back(file: Path) -> None:
    editor = FilesEditor()
    editor.open(file)
    old = file.read_text()
    async with world(file.parent, editor) as w:
        new = (await w.read(file)).replace("two", "twice").replace("five", "fivefold")
        await w.write(file, new)
        assert editor.buffers[file.as_uri()].text == file.read_text() == new
        ((first, second),) = editor.edits
        assert (first["range"]["start"], first["newText"]) == ({"line": 1, "character": 2}, "ice")
        assert (second["range"]["start"], second["newText"]) == ({"line": 4, "character": 4}, "fold")
        editor.undo(file)
        assert editor.buffers[file.as_uri()].text == old


async def test_a_write_that_changes_nothing_touches_neither_buffer_nor_file(file: Path) -> None:
    editor = FilesEditor()
    editor.open(file)
    before = file.stat()
    async with world(file.parent, editor) as w:
        await w.write(file, await w.read(file))
        assert not editor.edits
        assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


async def test_line_ends_and_mark_of_an_open_file_stay_on_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "w.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\nthree\r\n")
    editor = FilesEditor()
    editor.open(path, "one\r\ntwo\r\nthree\r\n")
    async with world(tmp_path, editor) as w:
        assert await w.read(path) == "one\r\ntwo\r\nthree\r\n"
        await w.write(path, "one\ntwo\nthree\nfour\n")
        assert editor.buffers[path.as_uri()].text == "one\r\ntwo\r\nthree\r\nfour\r\n"
        assert path.read_bytes() == b"\xef\xbb\xbfone\r\ntwo\nthree\r\nfour\r\n"


async def test_an_editor_with_a_plugin_saves_by_itself(file: Path) -> None:
    editor = FilesEditor(plugin=True)
    editor.open(file)
    async with world(file.parent, editor) as w:
        await w.write(file, "new\n")
        assert editor.saves == [file.as_uri()]
        assert file.read_text() == "new\n"


async def test_a_save_that_did_not_happen_is_made_up_for(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = FilesEditor(plugin=True)
    editor.open(file)

    def write_nothing(path: Path) -> None:
        assert path == file

    monkeypatch.setattr(editor, "write", write_nothing)
    async with world(file.parent, editor) as w:
        await w.write(file, "new\n")
        assert editor.saves == [file.as_uri()]
        assert file.read_text() == "new\n"


@pytest.mark.parametrize("lies", [False, True])
async def test_what_the_user_types_at_the_very_moment_of_an_edit_is_kept(file: Path, lies: bool, hurried: None) -> None:
    editor = FilesEditor()
    editor.open(file)
    editor.lies = lies
    async with world(file.parent, editor) as w:
        text = await w.read(file)
        editor.before_edit = lambda: editor.type(file, text.replace("five", "five typed"))
        await w.write(file, text.replace("one", "ONE"))
        expected = text.replace("five", "five typed").replace("one", "ONE")
        assert editor.buffers[file.as_uri()].text == file.read_text() == expected


async def test_what_the_user_types_right_after_an_edit_is_no_reason_to_make_it_again(file: Path) -> None:
    editor = FilesEditor()
    editor.open(file)
    async with world(file.parent, editor) as w:
        text = await w.read(file)
        editor.after_edit = lambda: editor.type(file, editor.buffers[file.as_uri()].text + "typed\n")
        await w.write(file, text.replace("one", "ONE"))
        assert len(editor.edits) == 1
        assert editor.buffers[file.as_uri()].text == file.read_text() == text.replace("one", "ONE") + "typed\n"


async def test_a_contradiction_is_refused_with_what_stands_there_and_nothing_is_touched(file: Path) -> None:
    editor = FilesEditor()
    editor.open(file)
    async with world(file.parent, editor) as w:
        text = await w.read(file)
        typed = text.replace("two", "two by the user")
        editor.type(file, typed)
        with pytest.raises(Refused, match="2: two by the user") as caught:
            await w.write(file, text.replace("two", "two by the agent"))
        assert "in the editor" in caught.value.message
        assert editor.buffers[file.as_uri()].text == typed
        assert file.read_text() == text
        again = await w.read(file)
        await w.write(file, again.replace("by the user", "by both"))
        assert file.read_text() == text.replace("two", "two by both")


async def test_an_agent_that_reads_the_disk_by_itself_does_not_lose_unsaved_typing(file: Path) -> None:
    editor = FilesEditor()
    editor.open(file)
    async with world(file.parent, editor) as w:
        await settled(w)
        text = file.read_text()
        editor.type(file, text.replace("five", "five typed"))
        await w.write(file, text.replace("one", "ONE"))
        assert editor.buffers[file.as_uri()].text == file.read_text() == text.replace("one", "ONE").replace("five", "five typed")


async def test_a_command_that_changed_the_disk_under_unsaved_typing_loses_nothing_either(file: Path) -> None:
    editor = FilesEditor()
    editor.open(file)
    async with world(file.parent, editor) as w:
        await settled(w)
        text = await w.read(file)
        editor.type(file, text.replace("five", "five typed"))
        file.write_text(text.replace("three", "three by a command"))
        await w.write(file, text.replace("one", "ONE"))
        expected = "ONE\ntwo\nthree by a command\nfour\nfive typed\n"
        assert editor.buffers[file.as_uri()].text == file.read_text() == expected


async def test_unsaved_typing_and_a_command_in_the_same_line_are_the_users_to_sort_out(file: Path) -> None:
    editor = FilesEditor()
    editor.open(file)
    async with world(file.parent, editor) as w:
        await settled(w)
        text = await w.read(file)
        editor.type(file, text.replace("three", "three typed"))
        file.write_text(text.replace("three", "three by a command"))
        with pytest.raises(Refused, match="changed on the disk too"):
            await w.write(file, text.replace("one", "ONE"))
        assert "three typed" in editor.buffers[file.as_uri()].text
        assert "three by a command" in file.read_text()


async def test_an_editor_that_takes_no_edit_gets_none_forced_on_its_disk(file: Path, hurried: None) -> None:
    for lies in (False, True):
        editor = FilesEditor()
        editor.open(file)
        editor.deaf, editor.lies = True, lies
        old = file.read_text()
        async with world(file.parent, editor) as w:
            with pytest.raises(Unavailable, match="Try again"):
                await w.write(file, "new\n")
            assert file.read_text() == old


async def test_a_buffer_closed_during_the_write_leaves_a_closed_file_written(file: Path, hurried: None) -> None:
    editor = FilesEditor()
    editor.open(file)
    async with world(file.parent, editor) as w:
        editor.before_edit = lambda: editor.close(file)
        await w.write(file, "new\n")
        assert file.read_text() == "new\n"


async def test_a_buffer_of_a_file_that_is_not_there_yet_is_written_to_the_disk(tmp_path: Path) -> None:
    editor = FilesEditor()
    path = tmp_path / "new.txt"
    editor.open(path, "")
    async with world(tmp_path, editor) as w:
        assert await w.read(path) == ""
        await w.write(path, "made\n")
        assert editor.buffers[path.as_uri()].text == path.read_text() == "made\n"


async def test_the_agents_own_unsaved_looking_edit_does_not_stop_its_next_one(file: Path) -> None:
    editor = FilesEditor()
    editor.open(file)
    async with world(file.parent, editor) as w:
        for number in range(3):
            await w.write(file, (await w.read(file)) + f"line {number}\n")
        assert file.read_text().endswith("line 0\nline 1\nline 2\n")


# --- random interleavings ---


@pytest.fixture(scope="module", autouse=True)
def impatient() -> Generator[None, None, None]:
    """The service waits for nothing here: the pauses themselves are tested above."""
    kept = files_write.SEEN_SECONDS
    files_write.SEEN_SECONDS = 0.2  # pyright: ignore[reportConstantRedefinition, reportAttributeAccessIssue]
    yield
    files_write.SEEN_SECONDS = kept  # pyright: ignore[reportConstantRedefinition, reportAttributeAccessIssue]


STEP = st.tuples(st.sampled_from(["type", "read", "write", "race", "save"]), st.integers(0, 7), st.booleans())


class Typist:
    """Adds tokens to texts, at line ends and as lines of their own, and remembers them."""

    def __init__(self) -> None:
        self.tokens: list[str] = []

    def add(self, text: str, who: str, at: int, *, inline: bool) -> str:
        token = f"\U0001f600{who}{len(self.tokens)}é"
        self.tokens.append(token)
        end = "\r\n" if "\r\n" in text else "\n"
        lines = text.split(end)
        at = min(at, len(lines) - 1)
        lines[at : at + 1] = [lines[at] + token] if inline else [lines[at], token]
        return end.join(lines)


@given(
    steps=st.lists(STEP, max_size=9),
    encoding=st.sampled_from(["utf-8", "utf-16", "utf-32"]),
    end=st.sampled_from(["\n", "\r\n"]),
    mark=st.booleans(),
    plugin=st.booleans(),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
async def test_random_interleavings_of_typing_and_writing_lose_nothing(
    steps: list[tuple[str, int, bool]], encoding: PositionEncoding, end: str, mark: bool, plugin: bool
) -> None:
    kept_quiet = files_open.QUIET_SECONDS
    files_open.QUIET_SECONDS = 0.0  # pyright: ignore[reportConstantRedefinition, reportAttributeAccessIssue]
    try:
        with tempfile.TemporaryDirectory() as name:
            await _interleave(Path(name), steps, (encoding, end, mark, plugin))
    finally:
        files_open.QUIET_SECONDS = kept_quiet  # pyright: ignore[reportConstantRedefinition, reportAttributeAccessIssue]


def _type(editor: FilesEditor, path: Path, user: Typist, at: int, *, inline: bool = False) -> None:
    editor.type(path, user.add(editor.buffers[path.as_uri()].text, "user", at, inline=inline))


async def _interleave(folder: Path, steps: list[tuple[str, int, bool]], form: tuple[PositionEncoding, str, bool, bool]) -> None:
    encoding, end, mark, plugin = form
    path = folder / "f"
    path.write_bytes((b"\xef\xbb\xbf" if mark else b"") + "".join(f"line {n}{end}" for n in range(8)).encode())
    editor = FilesEditor(encoding, plugin=plugin)
    editor.open(path)
    user, agent = Typist(), Typist()
    kept: list[str] = []
    async with world(folder, editor) as w:
        await settled(w)
        belief = await w.read(path)
        for action, at, inline in steps:
            if action == "type":
                _type(editor, path, user, at, inline=inline)
            elif action == "save":
                editor.write(path)
                await settled(w)
            elif action == "read":
                belief = await w.read(path)
            elif action in {"write", "race"}:
                if action == "race":
                    editor.before_edit = partial(_type, editor, path, user, 7 - at)
                wanted = agent.add(belief, "agent", at, inline=inline)
                try:
                    await w.write(path, wanted)
                except SidecarError:
                    agent.tokens[-1] = ""
                    belief = await w.read(path)
                else:
                    belief = wanted
                    kept.append(agent.tokens[-1])
                    assert path.read_bytes().decode("utf-8-sig") == editor.buffers[path.as_uri()].text
                editor.before_edit = None
            text = editor.buffers[path.as_uri()].text
            for token in (*user.tokens, *kept):
                assert text.count(token) == 1
            assert text.count("\n") == text.count(end)
            assert path.read_bytes().startswith(b"\xef\xbb\xbf") == mark
