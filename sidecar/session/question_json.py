"""How a question is shown (CONTRACT 3.3). Pure.

Everything shown is neutralised; option ids, field names and values are as received, since they are sent back.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from sidecar.session.consent import is_literal_only, is_shell, patterns_for
from sidecar.session.events import JsonObject
from sidecar.session.forms import schema_json
from sidecar.session.interaction import (
    Consent,
    Form,
    McpTool,
    OpenUrl,
    PermissionOption,
    PermissionRequest,
    QuestionBody,
    SignIn,
    Trust,
)
from sidecar.session.neutral import neutralise, neutralise_json

PERSISTENT_KINDS: Final = frozenset({"allow_always", "reject_always"})
SHOWN_SENTENCE_CHARS: Final = 200


def answerable_options(body: PermissionRequest) -> list[PermissionOption]:
    """Return the options that can be chosen: those whose id stands there once."""
    ids = [option.option_id for option in body.options]
    return [option for option in body.options if ids.count(option.option_id) == 1]


def question_to_json(body: QuestionBody, *, full: bool = False) -> dict[str, Any]:
    """Return the question as CONTRACT 3.3 shapes it, without what the broker adds (id, agent, askedAt, ...).

    ``full`` is the view of one question (``pending.get``): an openUrl question's exact ``url`` and a tool's ``rawInput`` are only
    there.
    """
    return _SHOW[type(body)](body, full)


def _line(text: str) -> str:
    return neutralise(text)


def _block(text: str) -> str:
    return neutralise(text, keep_newlines=True)


def _present(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _permission_json(body: PermissionRequest, full: bool) -> dict[str, Any]:
    answerable = answerable_options(body)
    shown: dict[str, Any] = {
        "kind": "permission",
        "title": _line(body.title) or _line(body.tool_kind or "") or "Permission for a tool call",
        "toolCallId": body.tool_call_id,
        **_present(
            toolKind=None if body.tool_kind is None else _line(body.tool_kind),
            command=None if body.command is None else _block(body.command),
            path=None if body.path is None else _line(body.path),
            diff=None if body.diff is None else _diff_json(body.diff),
            origin=None if body.origin is None else _line(body.origin),
            meta=body.meta,
        ),
        "options": [_option_json(option, ambiguous=option not in answerable) for option in body.options],
        "notes": _notes(body),
    }
    if body.consent is not None:
        shown["consent"] = _consent_json(body.consent)
    if body.mcp_tool is not None:
        shown["mcpTool"] = _mcp_tool_json(body.mcp_tool)
    if full and body.raw_input is not None:
        shown["rawInput"] = neutralise_json(body.raw_input, keep_newlines=True)
    return shown


def _diff_json(diff: JsonObject) -> dict[str, Any]:
    """Return the diff, and under ``more`` those of the other files the request changes."""
    shown: dict[str, Any] = neutralise_json(dict(diff), keep_newlines=True)
    path, more = diff.get("path"), diff.get("more")
    if isinstance(path, str):
        shown["path"] = _line(path)
    if isinstance(more, list):
        shown["more"] = [_diff_json(cast("JsonObject", item)) for item in cast("list[Any]", more) if isinstance(item, Mapping)]
    return shown


def _option_json(option: PermissionOption, *, ambiguous: bool) -> dict[str, Any]:
    shown = {"optionId": option.option_id, "name": _line(option.name), "kind": _line(option.kind), **_present(meta=option.meta)}
    return {**shown, "ambiguous": True} if ambiguous else shown


def _consent_json(consent: Consent) -> dict[str, Any]:
    suggestions = [
        {
            "pattern": _line(item.pattern),
            "level": item.level,
            "confirm": item.confirm,
            "alsoAllows": [_line(text) for text in item.also_allows],
            "warnings": [_line(text) for text in item.warnings],
        }
        for item in patterns_for(consent)
    ]
    return {
        "capability": _line(consent.capability),
        "resource": _line(consent.resource),
        **_present(
            triggeringResource=None if consent.triggering_resource is None else _line(consent.triggering_resource),
            workspaceRoot=None if consent.workspace_root is None else _line(consent.workspace_root),
            persistableReason=None if consent.persistable_reason is None else _line(consent.persistable_reason),
            round=consent.round,
        ),
        "scopes": list(consent.scopes) if consent.persistable else [],
        "persistable": consent.persistable,
        "compound": is_literal_only(consent) if is_shell(consent.capability) else consent.compound,
        "patterns": suggestions,
    }


def _mcp_tool_json(tool: McpTool) -> dict[str, Any]:
    shown = {"serverName": _line(tool.server_name), "toolName": _line(tool.tool_name), "untrusted": True}
    return shown | _present(annotations=None if tool.annotations is None else dict(tool.annotations))


def _notes(body: PermissionRequest) -> list[str]:
    """Sentences on what the agent did not offer, so that the user does not look for it."""
    kinds = {option.kind for option in body.options}
    notes: list[str] = []
    if not any(kind.startswith("reject") for kind in kinds):
        notes.append("The agent offered no way to refuse; leaving this undecided or cancelling the turn allows nothing.")
    if "allow_once" in kinds and "allow_always" not in kinds:
        notes.append("The agent did not offer to remember an allow.")
    if body.consent is None and kinds & PERSISTENT_KINDS:
        notes.append("The agent did not say how far a remembered answer reaches.")
    if body.consent is not None and (body.consent.round or 0) > 1:
        notes.append(f"The agent asks about this tool call for the {body.consent.round}. time.")
    return notes


def _url_json(body: OpenUrl, full: bool) -> dict[str, Any]:
    shown = {
        "kind": "openUrl",
        "title": f"Open {_line(body.host)} in the browser?",
        "host": _line(body.host),
        "display": _line(body.display),
        "unencrypted": body.unencrypted,
        "warnings": [_line(text) for text in body.warnings],
        **_present(
            message=None if body.message is None else _block(body.message),
            server=None if body.server is None else _line(body.server),
        ),
    }
    return {**shown, "url": body.url.reveal()} if full else shown


def _form_json(body: Form, _: bool) -> dict[str, Any]:
    first_line = body.message.partition("\n")[0][:SHOWN_SENTENCE_CHARS]
    title = _line(first_line) or "The agent asks for some values"
    return {"kind": "form", "title": title, "message": _block(body.message), "schema": schema_json(body.schema)}


def _sign_in_json(body: SignIn, _: bool) -> dict[str, Any]:
    methods = [
        {
            "id": method.id,
            "name": _line(method.name),
            "kind": _line(method.kind),
            **_present(
                description=None if method.description is None else _line(method.description),
                command=[_line(word) for word in method.command] or None,
            ),
        }
        for method in body.methods
    ]
    message = None if body.message is None else _block(body.message)
    target = _line(body.target)
    return {
        "kind": "signIn",
        "title": f"Sign in to {target}",
        "resource": target,
        "methods": methods,
        **_present(message=message),
    }


def _trust_json(body: Trust, _: bool) -> dict[str, Any]:
    items = [cast("dict[str, Any]", neutralise_json(dict(item))) for item in body.items]
    path = _line(body.path)
    return {"kind": "trust", "title": f"Trust what {path} defines?", "path": path, "items": items}


_SHOW: Final[Mapping[type, Callable[[Any, bool], dict[str, Any]]]] = {
    PermissionRequest: _permission_json,
    OpenUrl: _url_json,
    Form: _form_json,
    SignIn: _sign_in_json,
    Trust: _trust_json,
}
