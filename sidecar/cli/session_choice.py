"""Which session a run goes on with: a new one, or a stored one by our id, the agent's id, or its title."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sidecar.cli.arguments import RunOptions
from sidecar.client import Client
from sidecar.errors import EditorFault
from sidecar.workspace.actor import SessionActor
from sidecar.workspace.wishes import apply_wishes

WISHES: Final = ("mode", "model", "effort")
MAX_PAGES: Final = 50
KEYS: Final = ("sessionId", "agentSessionId", "title")


async def open_session(client: Client, options: RunOptions) -> SessionActor:
    """Create or load the session, with the mode, model and effort of this run set.

    Raises ``EditorFault`` when one of those is not offered (nothing is sent then) or the session is not known.
    """
    wishes = {name: value for name in WISHES if (value := getattr(options, name)) is not None}
    if options.session is None:
        params = {"workspace": absolute(options.cwd or "."), **wishes}
        made = await client.call("session.new", params | ({"agent": options.agent} if options.agent else {}))
        return client.workspace.actor(made["sessionId"])
    named = await _find(client, options, options.session)
    loaded = await client.call("session.load", named)
    actor = client.workspace.actor(loaded["sessionId"])
    if options.cwd is not None and not _is_same_folder(options.cwd, actor.identity.spec.cwd):
        raise EditorFault(f"the session {options.session!r} belongs to {actor.identity.spec.cwd}; leave --cwd out")
    if wishes:
        await _wish(actor, wishes)
    return actor


def absolute(folder: str) -> str:
    """Return a folder as typed as an absolute path."""
    return str(Path(folder).expanduser().absolute())


def _is_same_folder(given: str, known: str) -> bool:
    try:
        return Path(absolute(given)).samefile(known)
    except OSError:
        return False


async def _wish(actor: SessionActor, wishes: Mapping[str, str]) -> None:
    connection = await actor.ensure_open()
    missed = await apply_wishes(connection, actor, actor.identity.agent_session_id or "", wishes)
    if missed:
        raise EditorFault("; ".join(missed) + ". Nothing was sent.")
    for name, value in wishes.items():
        actor.remember_wish(name, value)


async def _find(client: Client, options: RunOptions, name: str) -> Mapping[str, Any]:
    """Return what ``session.load`` is given: a stored session first, else one of the named agent's own."""
    stored: Sequence[Mapping[str, Any]] = (await client.call("session.list"))["sessions"]
    meant = [entry for entry in stored if options.agent in {None, entry["agent"]}]
    found = _matching(meant, name)
    if found is not None and found.get("sessionId"):
        return {"sessionId": found["sessionId"]}
    if options.agent is None:
        raise EditorFault(f"there is no stored session {name!r} (sidecar sessions lists them); --agent NAME asks that agent too")
    folder = {"workspace": absolute(options.cwd)} if options.cwd is not None else {}
    found = _matching(await agent_sessions(client, options.agent, folder), name)
    if found is None:
        return {"agentSessionId": name, "agent": options.agent, **folder}
    where = folder or ({"workspace": found["cwd"]} if found.get("cwd") else {})
    return {"agentSessionId": found["agentSessionId"], "agent": options.agent, **where}


def _matching(entries: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    for key in KEYS:
        found = [entry for entry in entries if entry.get(key) == name]
        if len(found) > 1:
            ids = ", ".join(str(entry.get("sessionId") or entry.get("agentSessionId")) for entry in found)
            raise EditorFault(f"several sessions are called {name!r}; give one of the ids: {ids}")
        if found:
            return found[0]
    return None


async def agent_sessions(client: Client, agent: str, narrowed: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return all sessions of an agent, page by page, with those stored here; starts the agent. Empty when it lists none."""
    found: dict[str, Mapping[str, Any]] = {}
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        params = {"agent": agent, **narrowed, **({"cursor": cursor} if cursor is not None else {})}
        page = await client.call("session.list", params)
        for entry in page["sessions"]:
            found[entry.get("agentSessionId") or entry["sessionId"]] = entry
        following = page.get("nextCursor")
        if following is None or following == cursor:
            break
        cursor = following
    return list(found.values())
