"""What the user asks of a transcript beside sending: older turns, everything anew, a prompt back in the composer."""

from collections.abc import Callable
from typing import Final

import anyio

from sidecar.editor.transcript_edits import Outcome, Plan
from sidecar.editor.transcript_stream import SHOWN_TURNS, TranscriptStream, plain_lines
from sidecar.editor.transcript_text import OLDER_LINE, composer_text, heading_line, render_turns, whole_text
from sidecar.workspace.positions import LineBuffer, insert_edit, replace_edit

TRIES: Final = 4
LIMIT_SECONDS: Final = 10.0


async def more(stream: TranscriptStream) -> int:
    """Put older turns above those shown; returns how many, 0 also when the editor does not take them."""
    if stream.before is None:
        return 0
    page = stream.actor.state.history(stream.before, SHOWN_TURNS)
    turns, before = page["turns"], page.get("before")
    lines = render_turns(turns, stream.actor.identity.agent)

    def make(buffer: LineBuffer) -> Plan | None:
        mark = next((number for number, line in enumerate(buffer.lines) if line.rstrip() == OLDER_LINE), None)
        at = 0 if mark is None else mark + 1
        text = "".join(line + "\n" for line in lines)
        edits, start = [insert_edit((at, 0), text)], at
        if mark is not None and before is None:
            edits, start = [replace_edit((mark, 0), (mark + 1, 0), text)], mark

        def seen(now: LineBuffer) -> bool:
            return plain_lines(now.lines[start : start + len(lines)]) == lines

        def done() -> None:
            stream.before = before

        return Plan(edits, seen, done)

    return len(turns) if await _try(stream, make) else 0


async def redraw(stream: TranscriptStream, composed: str, moved: Callable[[], None]) -> bool:
    """Write everything above the composer anew; without its heading the composer too, with the text last known."""

    def make(buffer: LineBuffer) -> Plan | None:
        above = stream.above()
        heading = heading_line(buffer.lines)
        whole = whole_text(above, composed) if heading is None else "".join(line + "\n" for line in [*above, ""])
        edit = replace_edit((0, 0), buffer.end if heading is None else (heading, 0), whole)

        def seen(now: LineBuffer) -> bool:
            return plain_lines(now.lines[: len(above)]) == above and heading_line(now.lines) is not None

        return Plan([edit], seen, moved)

    return await _try(stream, make)


async def restore(stream: TranscriptStream, text: str) -> bool:
    """Put a prompt back into the composer, above what stands there."""

    def make(buffer: LineBuffer) -> Plan | None:
        heading = heading_line(buffer.lines)
        if heading is None:
            return None
        last = heading + 1 == len(buffer.lines)
        edit = insert_edit(buffer.end if last else (heading + 1, 0), ("\n" if last else "") + f"\n{text}\n")
        return Plan([edit], lambda now: text in (composer_text(now.lines) or ""), lambda: None)

    return await _try(stream, make)


async def _try(stream: TranscriptStream, make: Callable[[LineBuffer], Plan | None]) -> bool:
    with anyio.move_on_after(LIMIT_SECONDS):
        for _ in range(TRIES):
            outcome = await stream.slot.apply(stream.uri, make, urgent=True)
            if outcome is not Outcome.UNSEEN:
                return outcome is Outcome.SEEN
    return False
