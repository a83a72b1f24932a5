"""Operations on turns: prompt, cancel, steer, the queue, and the session's options."""

from typing import Any

from sidecar.errors import EditorFault
from sidecar.session.wishes import Already, NotOffered, NotReported, SetMode, SetOption, decide
from sidecar.workspace.actor import SessionActor
from sidecar.workspace.operation import Operation, Param, Params
from sidecar.workspace.prompts import read_prompt
from sidecar.workspace.selection import WHICH, find_session, folder_of, the_session
from sidecar.workspace.sessions import Workspace

TURN = Param("turnId", required=True, doc="Id of a queued prompt.")


def turn_operations(workspace: Workspace) -> list[Operation]:
    """Return the rows of this family."""
    turns = _Turns(workspace)
    while_running = Param(
        "whileRunning", choices=("queue", "steer", "replace"), doc="What to do when a turn runs; default queue."
    )
    return [
        Operation(
            "prompt",
            "Send a prompt; the first one creates the session.",
            turns.prompt,
            (
                Param("text", doc="What the user typed."),
                Param("context", "array", doc="Content blocks (ACP ContentBlock) that go with it."),
                while_running,
                *WHICH,
            ),
            '{turnId, state: "started" | "queued" | "steered", sessionId}',
        ),
        Operation(
            "cancel",
            "Stop the running turn; holds the queue until the user sends or resumes.",
            turns.cancel,
            WHICH,
            '{state: "cancelling" | "idle"}',
        ),
        Operation(
            "steer",
            "Add text to the running turn.",
            turns.steer,
            (Param("text", required=True), *WHICH),
            '{state: "steered" | "queued" | "unsupported"}',
        ),
        *_queue_operations(turns),
    ]


def _queue_operations(turns: "_Turns") -> list[Operation]:
    queue = "{queue: [{turnId, text, queuedAt, origin}]}"
    return [
        Operation("queue.list", "Prompts that wait.", turns.queue_list, WHICH, queue),
        Operation(
            "queue.edit", "Change a waiting prompt.", turns.queue_edit, (TURN, Param("text", required=True), *WHICH), queue
        ),
        Operation(
            "queue.move",
            "Move a waiting prompt; position 0 is next.",
            turns.queue_move,
            (TURN, Param("position", "integer", required=True), *WHICH),
            queue,
        ),
        Operation("queue.remove", "Drop a waiting prompt.", turns.queue_remove, (TURN, *WHICH), queue),
        Operation("queue.resume", "Let a held queue go on.", turns.queue_resume, WHICH, queue),
        Operation(
            "config.set",
            "Set an option of the session; mode, model and effort also by those names.",
            turns.config_set,
            (Param("id", required=True), Param("value", "any", required=True, doc="A string, or true/false."), *WHICH),
            "{configOptions: [...]}",
        ),
    ]


class _Turns:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def prompt(self, params: Params) -> Any:
        text, blocks = read_prompt(params)
        actor = find_session(self._workspace, params)
        if actor is None:
            actor = await self._workspace.create(None, folder_of(self._workspace, params.get("workspace")))
        outcome = await actor.prompt(text, blocks, params.get("whileRunning") or "queue")
        return {**outcome, "sessionId": actor.identity.session_id}

    async def cancel(self, params: Params) -> Any:
        actor = find_session(self._workspace, params)
        return {"state": "idle"} if actor is None else actor.cancel(self._workspace.spawn)

    async def steer(self, params: Params) -> Any:
        return await the_session(self._workspace, params).steer(params["text"])

    async def queue_list(self, params: Params) -> Any:
        return {"queue": the_session(self._workspace, params).queue.to_json()}

    async def queue_edit(self, params: Params) -> Any:
        text, blocks = read_prompt(params)
        actor = the_session(self._workspace, params)
        return {"queue": actor.edit_queue(lambda queue: queue.edit(params["turnId"], text, blocks))}

    async def queue_move(self, params: Params) -> Any:
        actor = the_session(self._workspace, params)
        return {"queue": actor.edit_queue(lambda queue: queue.move(params["turnId"], params["position"]))}

    async def queue_remove(self, params: Params) -> Any:
        actor = the_session(self._workspace, params)
        return {"queue": actor.edit_queue(lambda queue: queue.remove(params["turnId"]))}

    async def queue_resume(self, params: Params) -> Any:
        actor = the_session(self._workspace, params)
        actor.resume()
        return {"queue": actor.queue.to_json()}

    async def config_set(self, params: Params) -> Any:
        value = params["value"]
        if not isinstance(value, (str, bool)):
            raise EditorFault("config.set: 'value' must be a string or true/false")
        actor = the_session(self._workspace, params)
        await set_option(actor, params["id"], value)
        options = actor.state.conversation.config_options
        return {"configOptions": [dict(option) for option in options or ()]}


async def set_option(actor: SessionActor, name: str, value: str | bool) -> None:
    """Set an option by the user's word; raises ``EditorFault`` naming what is offered."""
    connection = await actor.ensure_open()
    agent_session_id = actor.identity.agent_session_id or ""
    conversation = actor.state.conversation
    modes = None if conversation.modes is None else {"available": conversation.modes, "current": conversation.mode}
    match decide(conversation.config_options or (), modes, name, value):
        case SetOption(option_id=option_id, value=wanted):
            await connection.set_config(agent_session_id, option_id, wanted)
        case SetMode(mode_id=mode_id):
            await connection.set_mode(agent_session_id, mode_id)
        case Already():
            return
        case NotOffered(offered=offered):
            raise EditorFault(
                f"config.set: {name} {value!r} is not offered; this session offers {', '.join(offered) or 'nothing'}"
            )
        case NotReported():
            known = ", ".join(str(option.get("id")) for option in conversation.config_options or ()) or "none"
            raise EditorFault(f"config.set: this session has no option {name!r} (its options: {known})")
    actor.remember_wish(name, value)
