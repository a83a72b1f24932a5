"""Operations on questions that need an editor: asking again, and the two without an argument."""

from typing import Any

from sidecar.editor.ask import QuestionLadder
from sidecar.workspace.operation import Operation, Param, Params


def asking_operations(ladder: QuestionLadder) -> list[Operation]:
    """Return the rows of this family."""

    async def ask(params: Params) -> Any:
        return {"pending": [pending.to_json() for pending in ladder.ask_again(params.get("id"))]}

    async def allow(_: Params) -> Any:
        return ladder.decide(allow=True)

    async def reject(_: Params) -> Any:
        return ladder.decide(allow=False)

    return [
        Operation(
            "pending.ask",
            "Ask again about questions that were left undecided.",
            ask,
            (Param("id", doc="Id of one waiting question; default: all."),),
            "{pending: [Question]}",
        ),
        Operation(
            "pending.allow",
            "Allow the one question that waits, announced a second ago or more and unchanged; it must offer one way to allow.",
            allow,
            (),
            "{accepted, reason?}",
        ),
        Operation(
            "pending.reject",
            "Refuse the one question that waits, announced at least a second ago and unchanged since.",
            reject,
            (),
            "{accepted, reason?}",
        ),
    ]
