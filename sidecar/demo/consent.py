"""Asking for consent the way Kiro V3 does, and keeping what the user allowed or denied for longer than once."""

import re
from typing import Any, Final

import attrs

from sidecar.demo.turn import Tool, Turn, TurnCancelled
from sidecar.demo.wire import Json, kiro, object_at
from sidecar.errors import AgentFault

ONCE: Final = (("accept", "Allow", "allow_once"), ("reject", "Deny", "reject_once"))
ALWAYS: Final = (("always-accept", "Always allow", "allow_always"), ("always-reject", "Always deny", "reject_always"))
SCOPES: Final = ("session", "workspace", "user")
MAX_ROUNDS: Final = 8
"""Questions asked for one tool call before it counts as denied, so that a narrow pattern cannot make the demo ask for ever."""


@attrs.frozen
class Operation:
    """What consent is wanted for: ``resources`` are asked one after the other, each until it is covered.

    ``no_rule_reason`` says why the answer cannot be kept (empty: it can). ``details`` are further members of ``_meta.kiro``.
    """

    capability: str
    resources: list[str]
    no_rule_reason: str = ""
    details: Json = attrs.Factory(dict[str, Any])


async def allowed(turn: Turn, tool: Tool, operation: Operation) -> bool:
    """Return whether every resource of ``operation`` is allowed, by a kept rule or by the user now.

    Raises ``TurnCancelled`` when the client answers ``cancelled``.
    """
    once: set[str] = set()
    for consent_round in range(1, MAX_ROUNDS + 1):
        open_resources = [item for item in operation.resources if item not in once and _ruling(turn, operation, item) is None]
        if any(_ruling(turn, operation, item) == "deny" for item in operation.resources):
            return False
        if not open_resources:
            return True
        resource = open_resources[0]
        option, consent = await _ask(turn, tool, operation, resource, consent_round)
        if option in {"always-accept", "always-reject"}:
            effect = "allow" if option == "always-accept" else "deny"
            if not _keep(turn, operation, resource, effect, consent):
                once.add(resource)
        if option in {"reject", "always-reject"}:
            return False
        if option == "accept":
            once.add(resource)
    turn.link.notice(turn.session.session_id, f"Asked {MAX_ROUNDS} times for one tool call; it counts as denied.", "warning")
    return False


async def _ask(turn: Turn, tool: Tool, operation: Operation, resource: str, consent_round: int) -> tuple[str, Json]:
    """Ask once and return the chosen option id and the consent object of the reply."""
    session_id = turn.session.session_id
    offered = ONCE if operation.no_rule_reason else (ONCE[0], ALWAYS[0], ONCE[1], ALWAYS[1])
    shown = [{"optionId": option, "name": name, "kind": kind} for option, name, kind in offered]
    consent: Json = {
        "capability": operation.capability,
        "resource": resource,
        "askType": "explicit" if operation.no_rule_reason else "implicit",
        "triggeringResource": resource,
        "workspaceRoot": turn.session.cwd,
        "persistableConsent": not operation.no_rule_reason,
    }
    if operation.no_rule_reason:
        consent["persistableConsentReason"] = operation.no_rule_reason
    turn.link.info(
        session_id,
        "pending_interaction",
        toolCallId=tool.tool_id,
        interactionType="tool_approval",
        question=f"Allow {tool.title}?",
        options=shown,
    )
    try:
        reply = await turn.link.request(
            "session/request_permission",
            sessionId=session_id,
            toolCall={"toolCallId": tool.tool_id, "status": "pending", "title": tool.title},
            options=shown,
            _meta=kiro(toolId=tool.name, consent=consent, consentRound=consent_round, **operation.details),
        )
    except AgentFault as error:
        turn.link.notice(session_id, f"The client refused to ask for consent: {error.message}", "warning")
        reply = {}
    outcome = object_at(reply, "outcome")
    if outcome.get("outcome") == "cancelled":
        raise TurnCancelled
    option = str(outcome.get("optionId"))
    if option not in [item["optionId"] for item in shown]:
        turn.link.notice(session_id, "The answer named no option that was offered; it counts as a denial.", "warning")
        option = "reject"
    turn.link.info(session_id, "interaction_resolved", toolCallId=tool.tool_id, outcome="selected", selectedOption=option)
    return option, object_at(reply, "_meta", "kiro", "consent") or object_at(outcome, "_meta", "kiro", "consent")


def _keep(turn: Turn, operation: Operation, resource: str, effect: str, consent: Json) -> bool:
    """Keep a rule as the reply wants it, and tell the user what was kept; False when it asks for something that cannot be."""
    scope = consent.get("scope", "session")
    pattern = consent.get("resource", resource)
    root = consent.get("workspaceRoot", turn.session.cwd)
    session_id = turn.session.session_id
    if scope not in SCOPES or not isinstance(pattern, str) or not pattern or root != turn.session.cwd:
        text = "The answer was used once only: its scope, resource or workspace root is not one that can be kept."
        turn.link.notice(session_id, text, "warning")
        return False
    rule: Json = {"capability": operation.capability, "resource": pattern, "effect": effect, "scope": scope}
    if scope == "session":
        turn.session.rules.append(rule)
    else:
        if scope == "workspace":
            rule["workspaceRoot"] = turn.session.cwd
        turn.stage.files.add_user_rule(rule)
    turn.link.notice(session_id, f"Kept for this {scope}: {effect} {operation.capability} for '{pattern}'")
    return True


def rules_of(turn_session_rules: list[Json], user_rules: list[Json], root: str) -> list[Json]:
    """Return the rules that count in the workspace ``root``."""
    return turn_session_rules + [rule for rule in user_rules if rule.get("workspaceRoot", root) == root]


def _ruling(turn: Turn, operation: Operation, resource: str) -> str | None:
    """Return ``allow`` or ``deny`` when a kept rule covers ``resource``; a denial wins. What cannot be kept has no rule."""
    if operation.no_rule_reason:
        return None
    rules = rules_of(turn.session.rules, turn.stage.files.read_user_rules(), turn.session.cwd)
    fitting = [
        rule for rule in rules if rule.get("capability") == operation.capability and covers(rule.get("resource"), resource)
    ]
    effects = {rule.get("effect") for rule in fitting}
    return "deny" if "deny" in effects else "allow" if "allow" in effects else None


def covers(pattern: Any, resource: str) -> bool:
    """Tell whether ``pattern``, in which only ``*`` is special, covers all of ``resource``."""
    if not isinstance(pattern, str):
        return False
    expression = ".*".join(re.escape(piece) for piece in pattern.split("*"))
    return re.fullmatch(expression, resource, re.DOTALL) is not None
