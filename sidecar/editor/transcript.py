"""The transcript document: a chat in any LSP editor, without a plugin (editor protocol, "The transcript is a document").

This module makes the part of the front: its operations and features. The documents are in ``transcript_documents`` and
``transcript_stream``, the text in ``transcript_text`` and ``transcript_answers``, what a cursor offers in ``transcript_actions``.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio
import anyio.to_thread

from sidecar.editor.calls import COMMAND_ANSWER_SECONDS
from sidecar.editor.parts import Front, Part, Place
from sidecar.editor.ports import Feature
from sidecar.editor.transcript_actions import TranscriptActions, file_links
from sidecar.editor.transcript_answers import covers_all, read_form
from sidecar.editor.transcript_documents import Transcript, Transcripts
from sidecar.editor.transcript_requests import more, redraw, restore
from sidecar.editor.transcript_slash import read_command, run_command
from sidecar.editor.transcript_stream import TranscriptStream
from sidecar.errors import EditorFault, SidecarError
from sidecar.session.interaction import Form
from sidecar.session.neutral import neutralise
from sidecar.workspace.actor import SessionActor
from sidecar.workspace.broker import Pending
from sidecar.workspace.operation import Operation, Param, Params
from sidecar.workspace.selection import SESSION, WHICH, find_session, folder_of

CODE_ACTION_OPTIONS: Final[Mapping[str, Any]] = {"codeActionKinds": ["quickfix"]}
COMPLETION_OPTIONS: Final[Mapping[str, Any]] = {"triggerCharacters": ["/", "@"]}
RESTORE_SECONDS: Final = 1.5
WHILE_RUNNING: Final = Param(
    "whileRunning", choices=("queue", "steer", "replace"), doc="What to do when a turn runs; default queue."
)


def transcript_part(front: Front) -> Part:
    """Make the part (``sidecar.editor.parts.PartFactory``)."""
    transcripts = Transcripts(front)
    actions = TranscriptActions(front, transcripts)
    commands = _Commands(front, transcripts)
    return Part(
        operations=commands.operations(),
        features=(
            Feature("textDocument/codeAction", actions.code_actions, CODE_ACTION_OPTIONS),
            Feature("textDocument/completion", actions.complete, COMPLETION_OPTIONS),
        ),
        session_added=transcripts.session_added,
        shutdown=transcripts.shutdown,
        question_place=lambda pending: _place(front, transcripts, pending),
        how_to_answer=lambda pending: _how_to_answer(transcripts, pending),
    )


def _place(front: Front, transcripts: Transcripts, pending: Pending) -> Place | None:
    for transcript in transcripts.open_ones():
        lines = transcript.stream.place(pending.id) if transcript.stream is not None else None
        if lines is not None:
            return Place(front.documents.client_uri(transcript.uri), *lines)
    return None


def _how_to_answer(transcripts: Transcripts, pending: Pending) -> str:
    streams = [transcript.stream for transcript in transcripts.open_ones() if transcript.stream is not None]
    if any(pending in stream.waiting() for stream in streams):
        return "the code actions on its section of the transcript answer it"
    return "sidecar.transcript.open shows it with its answers"


class _Commands:
    """The operations. What goes wrong is also shown to a user whose editor shows no errors of commands."""

    def __init__(self, front: Front, transcripts: Transcripts) -> None:
        self._front = front
        self._transcripts = transcripts
        self._confirmed: tuple[str, str] | None = None

    def operations(self) -> list[Operation]:
        """Return the rows of the table; ``prompt`` and ``cancel`` take the place of the workspace's."""
        prompt, cancel = self._front.operations["prompt"], self._front.operations["cancel"]
        done = "{done, reason?}"
        return [
            Operation(
                "prompt", f"{prompt.doc} Without text: what stands in the transcript.", self.prompt, prompt.params, prompt.result
            ),
            Operation("cancel", cancel.doc, self.cancel, cancel.params, cancel.result),
            Operation(
                "transcript.open",
                "Open a session's transcript, of a new session if there is none.",
                self.open,
                WHICH,
                "{uri, path}",
            ),
            Operation(
                "transcript.send",
                "Send what stands in the composer, or run its slash command.",
                self._told("transcript.send", self.send),
                (SESSION, WHILE_RUNNING),
                "{turnId, state, sessionId} | {command, sessionId}",
            ),
            Operation("transcript.more", "Show older turns.", self._told("transcript.more", self.more), (SESSION,), "{turns}"),
            Operation(
                "transcript.redraw",
                "Write the conversation anew.",
                self._told("transcript.redraw", self.redraw),
                (SESSION,),
                done,
            ),
            Operation(
                "transcript.restore",
                "Put the last prompt back into the composer.",
                self._told("transcript.restore", self.restore),
                (SESSION,),
                done,
            ),
            Operation(
                "transcript.answer",
                "Answer a question as its section in the transcript stands.",
                self.answer,
                (Param("id", required=True), Param("form", "boolean", doc="Read the form's values from the section.")),
                "{accepted, reason?}",
                open_ended=True,
            ),
        ]

    def _told(self, name: str, run: Callable[[Params], Awaitable[Any]]) -> Callable[[Params], Awaitable[Any]]:
        async def told(params: Params) -> Any:
            began = time.monotonic()
            try:
                return await run(params)
            except SidecarError as error:
                if time.monotonic() - began < COMMAND_ANSWER_SECONDS:  # later on the command itself tells
                    self._warn(f"{name}: {error.message}")
                raise

        return told

    def _warn(self, sentence: str) -> None:
        if self._front.client.info.protocol is None:
            self._front.client.show_message("warning", sentence)

    # --- sessions and turns -------------------------------------------------------------------------------------------------

    async def open(self, params: Params) -> Any:
        """Open; the agent is started too, since its commands and options are wanted soon."""
        workspace, session_id = self._front.workspace, params.get("sessionId")
        if session_id is not None:
            actor: SessionActor | None = await workspace.revive(session_id)
        else:
            actor = find_session(workspace, params)
        if actor is None:
            actor = await workspace.create(None, folder_of(workspace, params.get("workspace")))
        return await self._open(actor)

    async def _open(self, actor: SessionActor) -> dict[str, Any]:
        opened = await self._transcripts.open(actor)

        async def warm() -> None:
            await actor.ensure_open()

        self._front.workspace.spawn(warm)
        return opened

    async def prompt(self, params: Params) -> Any:
        """Send the text given, else what stands in the transcript."""
        if params.get("text") is not None or params.get("context"):
            return await self._front.operations["prompt"](params)
        if params.get("workspace") is not None:
            raise EditorFault("prompt: give text; without it a transcript is sent, which sessionId names")
        return await self.send({name: params[name] for name in ("sessionId", "whileRunning") if params.get(name) is not None})

    async def cancel(self, params: Params) -> Any:
        """Stop the turn of the session meant; without a word on it, of the transcript the user is in."""
        inside = self._transcripts.last if self._transcripts.inside else None
        if inside is not None and params.get("sessionId") is None and params.get("workspace") is None:
            params = {**params, "sessionId": inside.session_id}
        return await self._front.operations["cancel"](params)

    async def send(self, params: Params) -> Any:
        """Take the text out of the composer and send it; what is not accepted comes back."""
        transcript = self._transcripts.meant(params.get("sessionId"))
        if transcript.sending:
            raise EditorFault("this prompt is being sent already")
        transcript.sending = True
        try:
            return await self._send(transcript, params.get("whileRunning"))
        finally:
            transcript.sending = False

    async def _send(self, transcript: Transcript, while_running: str | None) -> Any:
        await self._transcripts.settled(transcript)
        actor = await self._actor(transcript)
        stream = self._transcripts.live(transcript)
        composed = stream.composed()
        if composed is None:
            raise EditorFault("the heading above the composer is gone; undo that, or use sidecar.transcript.redraw")
        text = "\n".join(composed).strip()
        if not text:
            raise EditorFault("there is nothing to send; type below the transcript's last heading")
        await stream.clear(composed[: max(number for number, line in enumerate(composed) if line.strip()) + 1])
        try:
            result = await self._carry_out(actor, stream, text, while_running)
        except BaseException:  # also when the editor stops waiting before the prompt is under way
            with anyio.move_on_after(RESTORE_SECONDS, shield=True):
                await restore(stream, text)
            raise
        self._transcripts.sent(transcript, text)
        return result

    async def _carry_out(self, actor: SessionActor, stream: TranscriptStream, text: str, while_running: str | None) -> Any:
        session_id = actor.identity.session_id
        command = read_command(text)
        if command is not None:
            outcome = await run_command(self._front, actor, command)
            stream.say(*outcome.lines)
            result: dict[str, Any] = {"command": command.name, "sessionId": session_id}
            if outcome.opens is not None:
                await self._open(self._front.workspace.actor(outcome.opens))
                result["opened"] = outcome.opens
            return result
        if actor.connection is None:
            stream.say(f"*{neutralise(actor.identity.agent)} is being started …*")
        links = await anyio.to_thread.run_sync(file_links, text, actor.identity.spec.cwd) if "@" in text else []
        more_params: dict[str, Any] = {"context": links} if links else {}
        more_params |= {"whileRunning": while_running} if while_running is not None else {}
        return await self._front.run("prompt", {"text": text, "sessionId": session_id, **more_params})

    async def _actor(self, transcript: Transcript) -> SessionActor:
        stream = transcript.stream
        if stream is not None and not stream.actor.closed:
            return stream.actor
        return await self._front.workspace.revive(transcript.session_id)

    # --- the document -------------------------------------------------------------------------------------------------------

    async def more(self, params: Params) -> Any:
        """Show older turns."""
        stream = self._transcripts.live(self._transcripts.meant(params.get("sessionId")))
        if stream.before is None:
            raise EditorFault("there are no older turns")
        shown = await more(stream)
        if not shown:
            raise EditorFault("the editor did not take the older turns; try again when nothing is being typed")
        return {"turns": shown}

    async def redraw(self, params: Params) -> Any:
        """Write the conversation anew."""
        transcript = self._transcripts.meant(params.get("sessionId"))
        stream = self._transcripts.live(transcript)
        if not await redraw(stream, transcript.draft, self._front.questions_moved):
            raise EditorFault("the editor did not take the conversation; try again when nothing is being typed")
        return {"done": True}

    async def restore(self, params: Params) -> Any:
        """Put the last text of the composer back."""
        transcript = self._transcripts.meant(params.get("sessionId"))
        if not transcript.composed:
            raise EditorFault("no prompt is kept for this transcript")
        if not await restore(self._transcripts.live(transcript), transcript.composed):
            raise EditorFault("the editor did not take the prompt; try again when nothing is being typed")
        return {"done": True}

    # --- questions ----------------------------------------------------------------------------------------------------------

    async def answer(self, params: Params) -> Any:
        """Give the answer a code action stands for; the values of a form are read now."""
        raw = {name: value for name, value in params.items() if name not in {"id", "form"}}
        try:
            pending = self._front.workspace.broker.get(params["id"])
            if params.get("form") is True:
                raw["content"] = await self._form(pending)
            outcome = self._refused_once(pending, raw) or self._front.workspace.broker.answer(pending.id, raw)
        except EditorFault as fault:
            outcome = {"accepted": False, "reason": fault.message}
        if not outcome["accepted"]:
            self._warn(f"Nothing was answered: {outcome.get('reason', 'the question waits no more')}")
        return outcome

    async def _form(self, pending: Pending) -> dict[str, Any]:
        if not isinstance(pending.body, Form):
            raise EditorFault(f"the question {pending.id} is no form")
        for transcript in self._transcripts.open_ones():
            if transcript.stream is None or pending not in transcript.stream.waiting():
                continue
            await self._transcripts.settled(transcript)
            section = self._transcripts.section(transcript, pending.id)
            if section is not None:
                return read_form(pending.body, section)
        raise EditorFault(f"the section of {pending.id} does not stand whole in the transcript; use sidecar.transcript.redraw")

    def _refused_once(self, pending: Pending, raw: dict[str, Any]) -> dict[str, Any] | None:
        """Ask for a second word when a pattern covers everything; the second time it is confirmed."""
        if not covers_all(pending, raw):
            return None
        key = (pending.id, str(sorted(raw.items())))
        if self._confirmed == key:
            raw["confirm"] = True
            return None
        self._confirmed = key
        return {"accepted": False, "reason": "this pattern covers everything; choose it once more if you mean it"}
