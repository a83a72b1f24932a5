"""``sidecar run``: one prompt, headless. Exit codes are CONTRACT 1's."""

import functools
import sys
from collections.abc import Sequence
from typing import Final

import anyio

from sidecar.cli.answers import protected_paths
from sidecar.cli.arguments import RunOptions
from sidecar.cli.output import Output
from sidecar.cli.questioner import Policy, Questioner
from sidecar.cli.record import Recorder
from sidecar.cli.render import JsonRenderer, Renderer, TextRenderer, tell_as_json, tell_on_stderr
from sidecar.cli.session_choice import open_session
from sidecar.cli.stopping import Stopper
from sidecar.cli.terminal import Terminal, open_terminal
from sidecar.cli.urls import url_opener
from sidecar.client import Client, first_error, open_client
from sidecar.config import Configuration, load_configuration
from sidecar.errors import AgentFault, ConfigFault, EditorFault, SidecarError, Unavailable
from sidecar.session.conversation import Turn
from sidecar.session.events import SessionEvent, TurnEnded
from sidecar.workspace.actor import SessionActor
from sidecar.workspace.files import FileService
from sidecar.workspace.files_rules import FileRules, own_paths
from sidecar.workspace.sessions import FrontHooks

EXIT_ENDED: Final = 0
EXIT_OTHERWISE: Final = 1
EXIT_USAGE: Final = 2
EXIT_CANCELLED: Final = 3
EXIT_UNAVAILABLE: Final = 4
LOSS_SECONDS: Final = 2.0
"""How long the reason of a lost agent is waited for."""

LATER_FLAGS: Final = {
    "connection": "--connection needs a host of agents, and this sidecar has no connections yet; use --agent",
    "tags": "--tag chooses among hosts of agents, and this sidecar has no connections yet; use --agent",
    "contexts": "--context is not offered yet; put the text into the prompt, or name the file there",
    "forwards": "--forward is not offered yet; use --output json and send the lines on",
}


def main(options: RunOptions) -> int:
    """Run the prompt and return the exit code."""
    for name, sentence in LATER_FLAGS.items():
        if getattr(options, name):
            raise ConfigFault(sentence)
    configuration = load_configuration(options.common.config)
    prompt = read_prompt(options.prompt)
    recorder = Recorder(options.record) if options.record is not None else None
    try:
        return anyio.run(functools.partial(_Run(options, configuration, prompt, recorder).main))
    finally:
        if recorder is not None:
            recorder.close()


def read_prompt(given: str) -> str:
    """Return the prompt, from standard input for ``-``; what is no UTF-8 in it becomes U+FFFD."""
    if given == "-":
        if sys.stdin is None:
            raise ConfigFault("the prompt is to be read from standard input, which is closed")
        prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
    else:
        prompt = given.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if not prompt.strip():
        raise ConfigFault("the prompt is empty; give text, or - to read it from standard input")
    return prompt


class _Run:
    """One run: the client, the session, and who answers questions."""

    def __init__(self, options: RunOptions, configuration: Configuration, prompt: str, recorder: Recorder | None) -> None:
        self._options = options
        self._configuration = configuration
        self._prompt = prompt
        self._recorder = recorder
        self._tell = tell_as_json if options.strict else tell_on_stderr
        self._lost: dict[str, str] = {}
        self._loss_told = anyio.Event()
        self._told_notices = 0

    async def main(self) -> int:
        """Send the prompt and wait for its end, or for the user's word to stop."""
        stopper = Stopper(self._tell, self._options.timeout)
        out = Output(stopper.output_broken)
        renderer = self._renderer(out)
        code = EXIT_OTHERWISE
        async with stopper:
            try:
                code = await self._work(renderer, stopper)
            except* SidecarError as group:
                code = self._failed(first_error(group), stopper)
            renderer.finish()
            await stopper.last_wait(out.finish)
        if self._recorder is not None and self._recorder.trouble is not None:
            self._tell("warning", self._recorder.trouble)
        if out.broken is not None:
            if not out.gone:
                self._tell("error", f"standard output cannot be written: {out.broken}")
            return EXIT_OTHERWISE
        return EXIT_CANCELLED if stopper.stopped is not None else code

    def _renderer(self, out: Output) -> Renderer:
        if self._options.output == "json":
            return JsonRenderer(out, self._tell)
        return TextRenderer(out, self._tell, quiet=self._options.output == "quiet")

    def _failed(self, error: SidecarError, stopper: Stopper) -> int:
        if stopper.stopped is None:
            self._tell("error", error.message)
        return code_of(error)

    async def _work(self, renderer: Renderer, stopper: Stopper) -> int:
        for sentence in self._configuration.warnings:
            self._tell("warning", sentence)
        terminal = open_terminal(prompt_is_piped=self._options.prompt == "-") if self._options.permission == "ask" else None
        hooks = self._hooks(renderer, terminal)
        code = EXIT_OTHERWISE
        with anyio.CancelScope() as scope:
            async with open_client(self._configuration, hooks, on_trouble=lambda text: self._tell("warning", text)) as client:
                stopper.watch(scope, client)
                client.workspace.hooks.files = FileService(client.workspace.spawn, rules=self._file_rules())
                allow = self._options.permission == "allow-once"
                policy = Policy(terminal, allow, protected_paths(self._options.common.config))
                async with anyio.create_task_group() as tasks:
                    stop = Questioner(client, renderer, policy, tasks).start()
                    code = await self._prompt_agent(client, renderer, stopper)
                    stop()
                    tasks.cancel_scope.cancel()
        return code

    def _file_rules(self) -> FileRules:
        named = protected_paths(self._options.common.config)
        return FileRules(own=lambda: own_paths(*named))

    def _hooks(self, renderer: Renderer, terminal: Terminal | None) -> FrontHooks:
        def follow(actor: SessionActor) -> None:
            session_id = actor.identity.session_id
            actor.observe(lambda batch: renderer.events(session_id, batch))

        return FrontHooks(
            open_url=url_opener(self._tell) if terminal is not None else refuse_to_open,
            agent_changed=self._agent_changed,
            notice=self._notice,
            session_added=follow,
            keep_raw=self._options.output == "json",
            tap=self._recorder.tap if self._recorder is not None else None,
            terminals=True,
        )

    def _notice(self, agent: str, severity: str, title: str, description: str | None) -> None:
        if severity in {"warning", "error"}:
            self._tell(severity, f"{agent}: {title}{': ' + description if description else ''}")

    def _agent_changed(self, agent: str, state: str, message: str | None) -> None:
        if state == "stopped" and message is not None:
            self._lost[agent] = message
            self._loss_told.set()

    async def _prompt_agent(self, client: Client, renderer: Renderer, stopper: Stopper) -> int:
        actor = await open_session(client, self._options)
        self._tell_notices(actor)
        turn = await self._send(client, actor, stopper)
        self._tell_notices(actor)
        if turn.outcome == "unknown":
            with anyio.move_on_after(LOSS_SECONDS):
                await self._loss_told.wait()
            for reason in self._lost.values():
                renderer.note("error", reason)
            return EXIT_UNAVAILABLE
        return EXIT_ENDED if turn.outcome == "ended" and turn.stop_reason == "end_turn" else EXIT_OTHERWISE

    def _tell_notices(self, actor: SessionActor) -> None:
        """Print what the sidecar itself has to say about the session: what the agent does not offer, what was left out."""
        notices = actor.state.notices
        for notice in notices[self._told_notices :]:
            if notice.source == "sidecar" and notice.severity in {"warning", "error"}:
                self._tell(notice.severity, f"{notice.title}{': ' + notice.description if notice.description else ''}")
        self._told_notices = len(notices)

    async def _send(self, client: Client, actor: SessionActor, stopper: Stopper) -> Turn:
        session_id = actor.identity.session_id
        ended = anyio.Event()
        ours: list[str] = []

        def seen(batch: Sequence[SessionEvent]) -> None:
            if any(isinstance(event, TurnEnded) and event.turn_id in ours for event in batch):
                ended.set()

        actor.observe(seen)
        stopper.actor = actor
        outcome = await client.call("prompt", {"text": self._prompt, "sessionId": session_id})
        ours.append(str(outcome["turnId"]))
        turn = actor.state.conversation.turn_index.get(ours[0])
        if turn is None or turn.running:
            await ended.wait()
        return actor.state.conversation.turn_index[ours[0]]


async def refuse_to_open(_: object) -> bool:
    """Open nothing: nobody is there who could have agreed."""
    return False


def code_of(error: SidecarError) -> int:
    """Return the exit code of a run that failed before its turn began."""
    if isinstance(error, Unavailable | AgentFault):
        return EXIT_UNAVAILABLE
    return EXIT_USAGE if isinstance(error, ConfigFault | EditorFault) else EXIT_OTHERWISE
