"""Operations on questions. Answers are the user's only; nothing here answers by itself."""

from typing import Any

from sidecar.workspace.operation import Operation, Param, Params
from sidecar.workspace.sessions import Workspace

QUESTION = Param("id", required=True, doc="Id of a waiting question.")


def question_operations(workspace: Workspace) -> list[Operation]:
    """Return the rows of this family."""
    broker = workspace.broker

    async def pending_list(_: Params) -> Any:
        return {"pending": [pending.to_json() for pending in broker.pending()]}

    async def pending_get(params: Params) -> Any:
        return broker.get(params["id"]).to_json(full=True)

    async def pending_answer(params: Params) -> Any:
        return broker.answer(params["id"], {key: value for key, value in params.items() if key != "id"})

    return [
        Operation("pending.list", "Questions that wait for the user.", pending_list, (), "{pending: [Question]}"),
        Operation(
            "pending.get", "One question in full; only here an address stands whole.", pending_get, (QUESTION,), "Question"
        ),
        Operation(
            "pending.answer",
            "Answer a question; the other members are the answer of its kind.",
            pending_answer,
            (QUESTION,),
            "{accepted, reason?, related?}",
            open_ended=True,
        ),
    ]
