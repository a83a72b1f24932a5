"""Which answers to a question are legal (CONTRACT 3.3); ``question_json.py`` shows them. Pure.

Consent is never inferred: an answer names an offered option, or it is refused with a sentence that says what is possible.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, cast

from sidecar.errors import EditorFault
from sidecar.session.consent import MAX_PATTERN_CHARS, covers, covers_everything, is_literal_only
from sidecar.session.forms import check_content
from sidecar.session.interaction import (
    Answer,
    Consent,
    Form,
    FormAnswer,
    OpenUrl,
    PermissionAnswer,
    PermissionOption,
    PermissionRequest,
    QuestionBody,
    SignIn,
    SignInAnswer,
    TrustAnswer,
    UrlAnswer,
)
from sidecar.session.neutral import is_plain, neutralise
from sidecar.session.question_json import PERSISTENT_KINDS, answerable_options, question_to_json

__all__ = ["answerable_options", "check_answer", "is_persistent", "question_to_json", "same_grant"]


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
