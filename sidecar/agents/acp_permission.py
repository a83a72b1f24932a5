"""A permission request of an agent read into the question the user sees (ACP v1, request permission; Kiro V3, permissions). Pure.

The request's tool call is often a stub; what it leaves out comes from what is known of the tool call already. Options stay
exactly as offered. Nothing here judges the request: identity checks and answers are the caller's.
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from sidecar.acp.kiro_v2 import read_mcp_annotations, read_mcp_identity
from sidecar.acp.kiro_v3 import boolean_hints, inner_object, read_consent, read_mcp_tool
from sidecar.acp.schema_requests import PermissionOption as OfferedOption
from sidecar.acp.schema_requests import RequestPermission
from sidecar.acp.schema_updates import ToolCallFields
from sidecar.codec import ABSENT, BadShape, converter
from sidecar.session.consent import is_compound, is_shell, offered_scopes
from sidecar.session.events import JsonObject
from sidecar.session.interaction import Consent, McpTool, PermissionOption, PermissionRequest

_PATH_KEYS: Final = ("path", "file_path", "filePath", "filename")


class UnreadableRequest(ValueError):
    """The request cannot be shown: it names no tool call, or its options are no list. The text names message and field."""


def read_permission(
    params: Mapping[str, Any],
    known_tool_call: Mapping[str, Any] | None = None,
    *,
    since: Mapping[str, Any] | None = None,
    workspace_is_session: bool = False,
) -> PermissionRequest:
    """Return the question that ``session/request_permission`` asks.

    ``known_tool_call`` holds what was known of the tool call, ``since`` what the agent said of it after it asked, which counts
    more than the request (keys of ``ToolCallChanged.fields``). ``workspace_is_session`` says that the consent's root is the
    session's own folder by identity, which alone makes the scope ``workspace`` possible. Raises ``UnreadableRequest``.
    """
    try:
        request = converter().structure(params, RequestPermission)
    except BadShape as error:
        raise UnreadableRequest(str(error)) from None
    call = _Call(request.tool_call, known_tool_call or {}, since or {})
    meta: JsonObject = request.meta if isinstance(request.meta, Mapping) else {}
    kiro = inner_object(meta, "kiro")
    diff = call.diff()
    command = _command_of_input(call.since.get("raw_input")) or _command(kiro, call.raw_input)
    return PermissionRequest(
        tool_call_id=request.tool_call.tool_call_id,
        title=call.text("title") or command or call.text("name") or request.tool_call.tool_call_id,
        options=[_option(option) for option in request.options if isinstance(option, OfferedOption)],
        tool_kind=call.text("kind"),
        command=command,
        path=_path(diff, call, kiro),
        diff=diff,
        raw_input=call.raw_input,
        consent=_consent(kiro, command, workspace_is_session=workspace_is_session),
        mcp_tool=_mcp_tool(meta, request),
        meta=meta or None,
    )


class _Call:
    """What was said of a tool call since it was asked about, over the stub of the request, over what was known before."""

    def __init__(self, stub: ToolCallFields, known: Mapping[str, Any], since: Mapping[str, Any]) -> None:
        self._stub = stub
        self._known = known
        self.since = since
        inputs = (since.get("raw_input"), stub.raw_input, known.get("raw_input"))
        self.raw_input: Any = next((given for given in inputs if given is not ABSENT and given is not None), None)

    def text(self, name: str) -> str | None:
        """Return a text field, the newest first."""
        for value in (self.since.get(name), getattr(self._stub, name), self._known.get(name)):
            if isinstance(value, str) and value:
                return value
        return None

    def objects(self, name: str) -> list[JsonObject]:
        """Return a list field, the newest that is there."""
        own: Any = getattr(self._stub, name)
        for given in (self.since.get(name), own, self._known.get(name)):
            items: Any = given
            if items and isinstance(items, list | tuple):
                return [cast("JsonObject", item) for item in cast("Sequence[Any]", items) if isinstance(item, Mapping)]
        return []

    def diff(self) -> JsonObject | None:
        """Return the diff; of several the first, with the others under ``more``, so that none is approved unseen."""
        diffs = [item for item in self.objects("content") if item.get("type") == "diff"]
        if len(diffs) < 2:
            return diffs[0] if diffs else None
        return {**diffs[0], "more": diffs[1:]}


def _option(offered: OfferedOption) -> PermissionOption:
    return PermissionOption(
        option_id=offered.option_id,
        name=offered.name if isinstance(offered.name, str) else offered.option_id,
        kind=offered.kind if isinstance(offered.kind, str) else "",
        meta=offered.meta if isinstance(offered.meta, Mapping) else None,
    )


def _command(kiro: JsonObject, raw_input: Any) -> str | None:
    """Return the command in full: Kiro's own word, else ``command`` of the tool's input (an argv is quoted for the eye)."""
    own = kiro.get("command")
    return own if isinstance(own, str) and own else _command_of_input(raw_input)


def _command_of_input(raw_input: Any) -> str | None:
    given: Any = cast("JsonObject", raw_input).get("command") if isinstance(raw_input, Mapping) else None
    if isinstance(given, str) and given:
        return given
    if isinstance(given, list):
        words = cast("list[Any]", given)
        if words and all(isinstance(word, str) for word in words):
            return shlex.join(words)
    return None


def _path(diff: JsonObject | None, call: _Call, kiro: JsonObject) -> str | None:
    """Return every path the request names, comma-separated: of the diffs, else of the locations, else of the tool's input.

    Locations told after the request stand beside the diffs: the user is asked anew because of them.
    """
    diffs = [diff, *cast("list[JsonObject]", diff.get("more", []))] if diff is not None else []
    given: Any = call.raw_input
    raw_input: JsonObject = cast("JsonObject", given) if isinstance(given, Mapping) else {}
    files: Any = kiro.get("files")
    locations = [item.get("path") for item in call.objects("locations")]
    candidates: tuple[list[Any], ...] = (
        [*(item.get("path") for item in diffs), *(locations if "locations" in call.since else [])],
        locations,
        [raw_input.get(key) for key in _PATH_KEYS],
        cast("list[Any]", files) if isinstance(files, list) else [],
    )
    for paths in candidates:
        named = dict.fromkeys(path for path in paths if isinstance(path, str) and path)
        if named:
            return ", ".join(named)
    return None


def _consent(kiro: JsonObject, command: str | None, *, workspace_is_session: bool) -> Consent | None:
    envelope = read_consent(kiro)
    if envelope is None:
        return None
    count = kiro.get("consentRound")
    shell_texts = [envelope.resource, command or ""] if is_shell(envelope.capability) else []
    return Consent(
        capability=envelope.capability,
        resource=envelope.resource,
        triggering_resource=envelope.triggering_resource if isinstance(envelope.triggering_resource, str) else None,
        workspace_root=envelope.workspace_root if isinstance(envelope.workspace_root, str) else None,
        scopes=offered_scopes(workspace_is_session=workspace_is_session),
        persistable=envelope.persistable_consent is not False,
        persistable_reason=envelope.persistable_consent_reason if isinstance(envelope.persistable_consent_reason, str) else None,
        compound=any(is_compound(text) for text in shell_texts if text),
        round=count if isinstance(count, int) and not isinstance(count, bool) else None,
    )


def _mcp_tool(meta: JsonObject, request: RequestPermission) -> McpTool | None:
    """Return who serves the tool: the V3 envelope of the request or its tool call, else the flat keys of V2."""
    stub = request.tool_call
    carriers: list[JsonObject] = [meta, stub.meta if isinstance(stub.meta, Mapping) else {}, request.extra, stub.extra]
    for carrier in carriers:
        if (envelope := read_mcp_tool(inner_object(carrier, "kiro"))) is not None:
            return McpTool(envelope.identity.server_name, envelope.identity.tool_name, envelope.hints())
    for carrier in carriers:
        if (identity := read_mcp_identity(carrier)) is not None:
            return McpTool(identity.server_name, identity.tool_name, boolean_hints(read_mcp_annotations(carrier)))
    return None
