"""The agent's own repetition of the prompt inside a live turn (some agents echo it as user_message_chunk). Pure.

The repetition is recognised by its position: user text before anything else in the turn, going on exactly where the prompt
stands. It is kept and marked ``echo``, so that a front shows the prompt once; the first text that differs is shown as what it is.
"""

from sidecar.session.conversation import Turn
from sidecar.session.events import TurnStarted


def echo_candidates(event: TurnStarted) -> list[str] | None:
    """Return the texts an echo of this prompt may follow; None when the prompt is empty."""
    blocks = "".join(
        block["text"] for block in event.prompt if block.get("type") == "text" and isinstance(block.get("text"), str)
    )
    return list(dict.fromkeys(text for text in (event.text, blocks) if text)) or ([""] if event.prompt else None)


def take_echo(turn: Turn, text: str) -> str:
    """Return how much of ``text`` repeats the prompt, and move the expectation on."""
    expected = turn.echoes or []
    going_on = [rest[len(text) :] for rest in expected if rest and rest.startswith(text)]
    if going_on:
        turn.echoes = going_on
        return text
    whole = max((rest for rest in expected if rest and text.startswith(rest)), key=len, default="")
    turn.echoes = [""] if whole else None
    return whole
