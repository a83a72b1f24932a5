"""Which commands the user allowed in a session, and the question for one of which nothing is known. Nothing runs without leave.

An agent asks by a permission first and then has the client run the command; the two are matched by the text the user saw. An
"allow once" is good for one start within its turn.
"""

import os
from collections.abc import Collection
from typing import Any, Final, cast

import attrs

from sidecar.session.consent import covers, is_compound, is_shell
from sidecar.session.interaction import Answer, PermissionAnswer, PermissionOption, PermissionRequest, Withdrawal
from sidecar.session.lenient import object_at
from sidecar.session.questions import is_persistent
from sidecar.workspace.terminal_commands import bare

ALLOW: Final = "allow-once"
OPTIONS: Final = (PermissionOption(ALLOW, "Allow once", "allow_once"), PermissionOption("reject-once", "Reject", "reject_once"))
ORIGIN: Final = "sidecar"
MAX_KEPT: Final = 256
FOLDER_KEYS: Final = ("cwd", "workdir", "working_directory", "workingDirectory")
INPUT_KEYS: Final = ("cmd", "commandLine", "command_line", "script")


class AllowedCommands:
    """The answers of one session, as far as they are about commands."""

    def __init__(self) -> None:
        self._once: dict[str, tuple[frozenset[str], str | None]] = {}
        self._always: dict[tuple[str, str | None], None] = {}
        self._patterns: dict[str, None] = {}

    def answered(self, body: PermissionRequest, answer: Answer | Withdrawal) -> None:
        """Remember what an answer allows; whatever is no allow takes back what the same tool call was allowed before."""
        kind = _kind(body, answer)
        texts = seen_texts(body)
        if not kind.startswith("allow"):
            self._once.pop(body.tool_call_id, None)
            for kept in [kept for kept in self._always if kept[0] in texts] if kind == "reject_always" else ():
                del self._always[kept]
        elif kind == "allow_always":
            self._remember(body, cast("PermissionAnswer", answer), texts)
        else:
            self._once[body.tool_call_id] = texts, seen_folder(body)
            _bound(self._once)

    def _remember(self, body: PermissionRequest, answer: PermissionAnswer, texts: frozenset[str]) -> None:
        folder = seen_folder(body)
        self._always |= dict.fromkeys((text, folder) for text in texts)
        _bound(self._always)
        if body.consent is not None and is_shell(body.consent.capability) and is_persistent(body, answer):
            self._patterns[answer.resource or body.consent.resource] = None
            _bound(self._patterns)

    def take(self, texts: Collection[str], cwd: str = "", base: str = "") -> bool:
        """Return whether one of ``texts`` was allowed in the real folder ``cwd``; an "allow once" is used up by it.

        An answer that showed no folder holds in all of the session's; one it showed is relative to ``base``, the session's own.
        """
        for call, (allowed, folder) in self._once.items():
            if not allowed.isdisjoint(texts) and _leads_to(folder, cwd, base):
                del self._once[call]
                return True
        if any(text in texts and _leads_to(folder, cwd, base) for text, folder in self._always):
            return True
        return any(covers(pattern, text) for pattern in self._patterns for text in texts if not is_compound(text))

    def turn_over(self) -> None:
        """What was allowed once and not used is allowed no more."""
        self._once.clear()


def _bound(kept: dict[Any, Any]) -> None:
    while len(kept) > MAX_KEPT:
        del kept[next(iter(kept))]


def _kind(body: PermissionRequest, answer: Answer | Withdrawal) -> str:
    if not isinstance(answer, PermissionAnswer):
        return ""
    return next((option.kind for option in body.options if option.option_id == answer.option_id), "")


def seen_texts(body: PermissionRequest) -> frozenset[str]:
    """Return the command a permission showed: its own, else one in the tool's input, else the title of a tool that executes."""
    if body.command is not None:
        return frozenset({bare(body.command)})
    fields = object_at(body.raw_input)
    named = {bare(value) for key in INPUT_KEYS if isinstance(value := fields.get(key), str)}
    if named or body.tool_kind != "execute":
        return frozenset(named)
    return frozenset({bare(bare(body.title).strip("`"))})


def seen_folder(body: PermissionRequest) -> str | None:
    """Return the folder a permission showed beside its command, as the agent wrote it."""
    fields = object_at(body.raw_input)
    return next((value for key in FOLDER_KEYS if isinstance(value := fields.get(key), str) and value), None)


def _leads_to(folder: str | None, cwd: str, base: str) -> bool:
    if folder is None:
        return True
    try:
        return os.path.realpath(os.path.join(base, folder.removeprefix("file://"))) == cwd  # noqa: PTH118 - text of an agent
    except (OSError, ValueError):
        return False


def permission_for(shown: str, cwd: str, tool_call_id: str) -> PermissionRequest:
    """Return our own question for a command in full."""
    return PermissionRequest(
        tool_call_id=tool_call_id,
        title=f"Run a command in {cwd}?",
        options=OPTIONS,
        tool_kind="execute",
        command=shown,
        raw_input={"command": shown, "cwd": cwd},
        origin=ORIGIN,
    )


@attrs.frozen
class Decision:
    """How our own question ended."""

    answer: Answer | Withdrawal

    @property
    def allowed(self) -> bool:
        """Whether the user said yes."""
        return isinstance(self.answer, PermissionAnswer) and self.answer.option_id == ALLOW

    @property
    def reason(self) -> str:
        """Why not, for the agent."""
        if isinstance(self.answer, Withdrawal):
            return f"the user was asked and gave no answer: {self.answer.value}"
        return "the user does not allow this command. Do not try it again; ask what to do instead."
