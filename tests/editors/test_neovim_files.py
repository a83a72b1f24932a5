"""An agent changes files in a real Neovim: unsaved text, undo, encoding and line ends, typing at the same time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.editors.neovim_world import PLUGIN, START_SECONDS, Neovim
from tests.process.editor_world import World

pytestmark = [pytest.mark.editor, pytest.mark.process]

NAME = "sidecar-demo.txt"
MARK = b"\xef\xbb\xbf"
ADDED = "the agent's line"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def editor(world: World) -> Iterator[Neovim]:
    with Neovim(world, "demo", PLUGIN) as editor:
        yield editor


def opened(editor: Neovim, data: bytes) -> Path:
    """Open the demo agent's file with these bytes in the editor, attached to the sidecar."""
    path = editor.world.workspace / NAME
    path.write_bytes(data)
    editor.nvim.command(f"edit {path}")
    editor.until("#vim.lsp.get_clients({ bufnr = 0 }) == 1", START_SECONDS)
    return path


def started_edit(editor: Neovim) -> dict[str, Any]:
    """Have the demo agent ask for its edit; return what ``prompt`` said."""
    started: dict[str, Any] = editor.request("prompt", text=f"edit {ADDED}")
    editor.until("job.pending ~= nil and #job.pending == 1", START_SECONDS)
    return started


def allow(editor: Neovim, started: dict[str, Any]) -> None:
    """Allow the edit and wait for the end of the turn."""
    question = editor.value("job.pending[1]")
    option = next(option for option in question["options"] if option["kind"] == "allow_once")
    editor.request("pending.answer", id=question["id"], optionId=option["optionId"])
    editor.until(f"job.ended('{started['turnId']}') ~= nil", START_SECONDS)


def lines(editor: Neovim) -> list[str]:
    return list(editor.nvim.current.buffer[:])


def test_unsaved_text_is_read_the_edit_can_be_undone_and_mark_and_line_ends_stay(editor: Neovim) -> None:
    path = opened(editor, MARK + b"first\r\nsecond\r\n")
    editor.nvim.current.buffer.append("\U0001f600 unsaved")
    editor.lua("vim.wait(300)")
    allow(editor, started_edit(editor))
    added = f"4: {ADDED}" if lines(editor)[-1].startswith("4") else f"3: {ADDED}"
    assert lines(editor) == ["first", "second", "\U0001f600 unsaved", added]
    assert path.read_bytes() == MARK + f"first\r\nsecond\r\n\U0001f600 unsaved\r\n{added}\r\n".encode()
    editor.nvim.command("undo")
    assert lines(editor) == ["first", "second", "\U0001f600 unsaved"]


def test_what_is_typed_while_the_agent_waits_for_its_permission_stays(editor: Neovim) -> None:
    path = opened(editor, b"first\nsecond\n")
    started = started_edit(editor)
    editor.nvim.current.buffer[0] = "first, typed meanwhile"
    allow(editor, started)
    assert lines(editor) == ["first, typed meanwhile", "second", f"2: {ADDED}"]
    assert path.read_text() == f"first, typed meanwhile\nsecond\n2: {ADDED}\n"


def test_what_is_typed_at_every_moment_of_the_edit_stays(editor: Neovim) -> None:
    path = opened(editor, b"first\nsecond\n")
    started = started_edit(editor)
    editor.lua(
        """
        _G.typed = 0
        local timer = vim.uv.new_timer()
        timer:start(0, 20, vim.schedule_wrap(function()
          if typed == 40 then
            return timer:is_closing() or timer:close()
          end
          typed = typed + 1
          local line = vim.api.nvim_buf_get_lines(0, 0, 1, false)[1]
          vim.api.nvim_buf_set_text(0, 0, #line, 0, #line, { 'x' })
        end))
        """
    )
    allow(editor, started)
    editor.until("typed == 40")
    assert lines(editor) == ["first" + 40 * "x", "second", f"2: {ADDED}"]
    assert path.read_text().endswith(f"second\n2: {ADDED}\n")


def test_a_closed_file_is_made_on_the_disk_and_no_buffer_appears(editor: Neovim) -> None:
    buffers = len(editor.nvim.buffers)
    allow(editor, started_edit(editor))
    assert ADDED in (editor.world.workspace / NAME).read_text()
    assert len(editor.nvim.buffers) == buffers
