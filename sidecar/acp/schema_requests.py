"""ACP protocol 1: what an agent asks of its client (ACP v1, permission, file system, terminals, elicitation)."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, TypeAlias

import attrs

from sidecar.acp.schema_updates import ToolCallFields
from sidecar.codec import ABSENT, Absent, Unknown, Wire

PERMISSION_KINDS: Final = frozenset({"allow_once", "allow_always", "reject_once", "reject_always"})

JsonObject: TypeAlias = Mapping[str, Any]


@attrs.frozen
class PermissionOption(Wire):
    """A choice offered; ``option_id`` is opaque, ``kind`` a hint. ``name`` and ``kind`` may be missing from a careless agent."""

    option_id: str
    name: str | Absent = ABSENT
    kind: str | Absent = ABSENT


@attrs.frozen
class RequestPermission(Wire):
    """The params of ``session/request_permission``. ``tool_call`` may be a stub (Kiro V3, frame orders)."""

    tool_call: ToolCallFields
    options: tuple[PermissionOption | Unknown, ...]
    session_id: str | Absent = ABSENT


@attrs.frozen
class ReadTextFile(Wire):
    """The params of ``fs/read_text_file``; ``line`` is 1-based (Kiro V3 sends 0 for the first)."""

    session_id: str
    path: str
    line: int | Absent | None = ABSENT
    limit: int | Absent | None = ABSENT


@attrs.frozen
class WriteTextFile(Wire):
    """The params of ``fs/write_text_file``; a missing file is created."""

    session_id: str
    path: str
    content: str


@attrs.frozen
class EnvVariable(Wire):
    """One environment variable."""

    name: str
    value: str


@attrs.frozen
class CreateTerminal(Wire):
    """The params of ``terminal/create``. Kiro V3 puts a whole shell line into ``command``; ``output_byte_limit`` in bytes."""

    session_id: str
    command: str
    args: tuple[str, ...] | Absent = ABSENT
    env: tuple[EnvVariable, ...] | Absent = ABSENT
    cwd: str | Absent | None = ABSENT
    output_byte_limit: int | Absent | None = ABSENT


@attrs.frozen
class TerminalRequest(Wire):
    """The params of ``terminal/output``, ``wait_for_exit``, ``kill`` and ``release``."""

    session_id: str
    terminal_id: str


@attrs.frozen
class FormElicitation(Wire):
    """The params of ``elicitation/create`` with a form: a flat object schema. Scope: a session (and tool call) or a request."""

    TAG: ClassVar = ("mode", "form")

    message: str
    requested_schema: JsonObject
    session_id: str | Absent = ABSENT
    tool_call_id: str | Absent | None = ABSENT
    request_id: int | str | Absent | None = ABSENT


@attrs.frozen
class UrlElicitation(Wire):
    """The params of ``elicitation/create`` with an address to open; ``url`` is never logged, so it stays out of ``repr``."""

    TAG: ClassVar = ("mode", "url")

    message: str
    elicitation_id: str
    url: str = attrs.field(repr=False)
    session_id: str | Absent = ABSENT
    tool_call_id: str | Absent | None = ABSENT
    request_id: int | str | Absent | None = ABSENT


Elicitation: TypeAlias = FormElicitation | UrlElicitation | Unknown


@attrs.frozen
class CompleteElicitation(Wire):
    """The params of ``elicitation/complete``; an unknown id is ignored."""

    elicitation_id: str


@attrs.frozen
class CancelRequest(Wire):
    """The params of ``$/cancel_request``."""

    request_id: int | str | None
