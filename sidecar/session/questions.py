"""How a question is shown, and which answers are legal (CONTRACT 3.3). Pure.

Everything shown is neutralised; option ids, field names and values are as received, since they are sent back. Consent is never
inferred: an answer names an offered option or it is refused with a sentence that says what is possible.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal, cast

from sidecar.errors import EditorFault
from sidecar.session.consent import (
    MAX_PATTERN_CHARS,
    covers,
    covers_everything,
    is_literal_only,
    is_shell,
    patterns_for,
)
from sidecar.session.events import JsonObject
from sidecar.session.forms import check_content, schema_json
from sidecar.session.interaction import (
    Answer,
    Consent,
    Form,
    FormAnswer,
    McpTool,
    OpenUrl,
    PermissionAnswer,
    PermissionOption,
    PermissionRequest,
    QuestionBody,
    SignIn,
    SignInAnswer,
    Trust,
    TrustAnswer,
    UrlAnswer,
)
from sidecar.session.neutral import is_plain, neutralise, neutralise_json

PERSISTENT_KINDS: Final = frozenset({"allow_always", "reject_always"})
SHOWN_SENTENCE_CHARS: Final = 200


def is_persistent(body: PermissionRequest, answer: PermissionAnswer) -> bool:
    """Return whether the answer is to be remembered by the agent and so carries consent metadata."""
    if body.consent is None or not body.consent.persistable:
        return False
    return any(option.option_id == answer.option_id and option.kind in PERSISTENT_KINDS for option in body.options)


def same_grant(first: PermissionRequest, second: PermissionRequest) -> bool:
    """Return whether both ask for the same capability and resource, so that they may be offered together."""
    if first.consent is None or second.consent is None:
        return False
    return (first.consent.capability, first.consent.resource) == (second.consent.capability, second.consent.resource)


def answerable_options(body: PermissionRequest) -> list[PermissionOption]:
    """Return the options that can be chosen: those whose id stands there once."""
    ids = [option.option_id for option in body.options]
    return [option for option in body.options if ids.count(option.option_id) == 1]


# --- answers ----------------------------------------------------------------------------------------------------------


def check_answer(body: QuestionBody, raw: Mapping[str, Any]) -> Answer:
    """Return the answer ``raw`` stands for; raises ``EditorFault`` with what is possible.

    ``id`` and ``sessionId`` in ``raw`` are ignored.
    """
    fields = {key: value for key, value in raw.items() if key not in {"id", "sessionId"} and value is not None}
    if isinstance(body, PermissionRequest):
        return _check_permission(body, fields)
    if isinstance(body, OpenUrl):
        _only(fields, ("action",))
        return UrlAnswer(cast("Literal['open', 'copy', 'decline']", _action(fields, ("open", "copy", "decline"))))
    if isinstance(body, Form):
        return _check_form(body, fields)
    if isinstance(body, SignIn):
        return _check_sign_in(body, fields)
    _only(fields, ("action",))
    return TrustAnswer(cast("Literal['trust', 'decline']", _action(fields, ("trust", "decline"))))


def _only(fields: Mapping[str, Any], allowed: Collection[str]) -> None:
    unknown = [neutralise(str(key)) for key in fields if key not in allowed]
    if unknown:
        raise EditorFault(f"the answer has unknown fields: {', '.join(unknown)}; it takes {', '.join(allowed)}")


def _text(fields: Mapping[str, Any], key: str) -> str | None:
    value = fields.get(key)
    if value is not None and not isinstance(value, str):
        raise EditorFault(f"{key} must be a string")
    return value


def _action(fields: Mapping[str, Any], allowed: Sequence[str]) -> str:
    action = _text(fields, "action")
    if action is None or action not in allowed:
        raise EditorFault(f"action must be one of {', '.join(allowed)}")
    return action


def _check_permission(body: PermissionRequest, fields: Mapping[str, Any]) -> PermissionAnswer:
    _only(fields, ("optionId", "scope", "resource", "guidance", "confirm"))
    option_id = _text(fields, "optionId")
    option = next((option for option in answerable_options(body) if option.option_id == option_id), None)
    if option is None:
        raise EditorFault(_no_such_option(body, option_id))
    answer = PermissionAnswer(option.option_id, _text(fields, "scope"), _text(fields, "resource"), _text(fields, "guidance"))
    consent = body.consent
    if answer.scope is None and answer.resource is None:
        return answer
    if consent is None or not is_persistent(body, answer):
        raise EditorFault(_not_persistent(body, option))
    if answer.scope is not None and answer.scope not in consent.scopes:
        raise EditorFault(f"scope must be one of {', '.join(consent.scopes) or 'none (leave it out)'}")
    resource = _check_resource(consent, answer.resource, confirmed=fields.get("confirm") is True)
    return PermissionAnswer(answer.option_id, answer.scope, resource, answer.guidance)


def _no_such_option(body: PermissionRequest, option_id: str | None) -> str:
    if any(option.option_id == option_id for option in body.options):
        return "this option id stands twice in the request, so it names nothing; it can only be cancelled, with the turn"
    offered = ", ".join(neutralise(option.option_id) for option in answerable_options(body))
    return f"optionId must be one the agent offered: {offered}" if offered else "the request can only be cancelled, with the turn"


def _not_persistent(body: PermissionRequest, option: PermissionOption) -> str:
    if body.consent is None or not body.consent.persistable:
        return "the agent does not let this decision be remembered; leave scope and resource out"
    return f'"{neutralise(option.name)}" decides once; scope and resource go only with an option that is remembered'


def _check_resource(consent: Consent, resource: str | None, *, confirmed: bool) -> str | None:
    """Return the pattern to send, None for the literal as received."""
    if resource is None or resource in {consent.resource, neutralise(consent.resource)}:
        return None
    if is_literal_only(consent):
        raise EditorFault("this resource can only be remembered exactly as it stands; leave resource out")
    if len(resource) > MAX_PATTERN_CHARS or not is_plain(resource):
        raise EditorFault(f"resource must be one line of at most {MAX_PATTERN_CHARS} visible characters")
    if not covers(resource, consent.resource):
        raise EditorFault("resource must cover what was asked: the text itself, with * for what may differ")
    if covers_everything(resource, consent.capability) and not confirmed:
        raise EditorFault(
            f'"{resource}" covers everything of "{consent.capability}"; send it again with confirm: true if you mean it'
        )
    return resource


def _check_form(body: Form, fields: Mapping[str, Any]) -> FormAnswer:
    _only(fields, ("action", "content"))
    action = _action(fields, ("accept", "decline", "cancel"))
    if action == "accept":
        return FormAnswer("accept", check_content(body.schema, fields.get("content", {})))
    if "content" in fields:
        raise EditorFault("content goes only with accept")
    return FormAnswer("decline" if action == "decline" else "cancel")


def _check_sign_in(body: SignIn, fields: Mapping[str, Any]) -> SignInAnswer:
    _only(fields, ("action", "method"))
    if _action(fields, ("start", "cancel")) == "cancel":
        return SignInAnswer("cancel")
    ids = [method.id for method in body.methods]
    method = _text(fields, "method")
    if method is None and len(ids) == 1:
        method = ids[0]
    if method is None or ids.count(method) != 1:
        raise EditorFault(
            f"method must be one of {', '.join(neutralise(name) for name in ids) or 'none: there is no way to sign in'}"
        )
    return SignInAnswer("start", method)


# --- showing ----------------------------------------------------------------------------------------------------------


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
    shown: dict[str, Any] = neutralise_json(dict(diff), keep_newlines=True)
    path = diff.get("path")
    return {**shown, "path": _line(path)} if isinstance(path, str) else shown


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
