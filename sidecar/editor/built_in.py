"""The parts every editor front has, each imported when it is made: after the reply to ``initialize``."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sidecar.editor.parts import Front, Part, PartFactory


def _transcript(front: "Front") -> "Part":
    from sidecar.editor.transcript import transcript_part  # after the reply to initialize

    return transcript_part(front)


PARTS: "tuple[PartFactory, ...]" = (_transcript,)
"""In the order they are asked (``sidecar.editor.parts``)."""
