"""The sessions of one connection, and the methods of ACP v1 and Kiro V3 that act on one without running a turn."""

import base64
import binascii
import datetime as dt
import uuid
from collections.abc import Callable
from typing import Any, Final

from sidecar.demo import announce
from sidecar.demo.consent import rules_of
from sidecar.demo.link import ClientLink
from sidecar.demo.mcp import servers_given
from sidecar.demo.session import DemoSession
from sidecar.demo.storage import SessionFiles
from sidecar.demo.wire import Json, folder_of, kiro, list_at, object_at, text_block, text_of
from sidecar.errors import AUTH_REQUIRED, EditorFault

PAGE_SIZE: Final = 50
TITLE_CHARACTERS: Final = 80
MAX_HISTORY_PAGE: Final = 200
CONTEXT_TOKENS: Final = 100_000
NOT_FOUND_CODE: Final = AUTH_REQUIRED
"""Kiro V3 uses -32000 for an unknown session; the same code means something else elsewhere."""


def now() -> str:
    """Return the time as ISO 8601 in UTC."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")


class Sessions:
    """Open sessions by id, with the MCP servers that the client gave with each; stored ones are read when needed."""

    def __init__(self, link: ClientLink, files: SessionFiles, snapshot: Callable[[list[Json]], list[Json]]) -> None:
        self._link = link
        self._files = files
        self._snapshot = snapshot
        self._servers: dict[str, list[Json]] = {}
        self.open: dict[str, DemoSession] = {}
        self.models_known = False

    def get(self, params: Any) -> DemoSession:
        """Return the open session that ``params`` names."""
        session_id = text_of(params, "sessionId")
        if session_id not in self.open:
            raise EditorFault(f"Session '{session_id}' not found", code=NOT_FOUND_CODE)
        return self.open[session_id]

    def find(self, params: Any) -> DemoSession:
        """Return the open or stored session that ``params`` names."""
        session_id = text_of(params, "sessionId")
        session = self.open.get(session_id) or self._files.read(session_id)
        if session is None:
            raise EditorFault(f"Session '{session_id}' not found", code=NOT_FOUND_CODE)
        return session

    def create(self, params: Any) -> DemoSession:
        """Open a new session for ``session/new``."""
        session = DemoSession(f"sess_{uuid.uuid4()}", folder_of(params), now())
        session.take_initial(object_at(params, "_meta", "kiro"))
        return self._opened(session, params)

    def reopen(self, params: Any) -> DemoSession:
        """Open a stored session for ``session/load``; its folder and servers come with the request, nothing of them is kept."""
        session = self.find(params)
        session.cwd = folder_of(params)
        session.take_initial(object_at(params, "_meta", "kiro"))
        return self._opened(session, params)

    def _opened(self, session: DemoSession, params: Any) -> DemoSession:
        if not isinstance(object_at(params).get("mcpServers"), list):
            raise EditorFault("the params need an array field 'mcpServers' (it may be empty)")
        session.models_known = self.models_known
        session.additional = [folder for folder in list_at(params, "additionalDirectories") if isinstance(folder, str)]
        self._servers[session.session_id] = servers_given(params)
        self.open[session.session_id] = session
        return session

    def store(self, session: DemoSession) -> None:
        """Note the time and write ``session`` to disk, unless it has been deleted meanwhile."""
        if session.session_id in self.open:
            session.updated = now()
            self._files.write(session)

    def describe(self, session: DemoSession) -> Json:
        """Return the parts of a reply that show the options of ``session``."""
        return {"modes": announce.modes(session.mode), "configOptions": self.options(session)}

    def options(self, session: DemoSession) -> list[Json]:
        return session.config_options(booleans=self._link.features.boolean_options)

    def send_state(self, session: DemoSession) -> None:
        """Send what Kiro V3 sends before it answers ``session/new`` (client guide, frame orders, fact 2)."""
        session_id = session.session_id
        features = {"mcpEnabled": True, "webToolsEnabled": False}
        self._link.notify("_kiro/governance/state", sessionId=session_id, isEnterprise=False, features=features)
        self.send_servers(session)
        self.send_changed(session, "idle")
        self.send_options(session)

    def send_servers(self, session: DemoSession) -> None:
        servers = self._snapshot(self._servers.get(session.session_id, []))
        self._link.notify("_kiro/mcp/status", sessionId=session.session_id, servers=servers)
        connected = [server for server in servers if server["status"] == "connected"]
        self._link.notify("_kiro/tools/didChange", sessionId=session.session_id, tags=announce.tool_tags(connected))

    def send_options(self, session: DemoSession) -> None:
        self._link.replay(session.session_id, {"sessionUpdate": "config_option_update", "configOptions": self.options(session)})

    def send_commands(self, session: DemoSession) -> None:
        update = {"sessionUpdate": "available_commands_update", "availableCommands": announce.available_commands()}
        self._link.replay(session.session_id, update)

    def send_changed(self, session: DemoSession, status: str) -> None:
        self._link.notify("_kiro/sessions/changed", upserted=[{**_row(session), "status": status}], deleted=[])

    def send_usage(self, session: DemoSession) -> None:
        """Send how full the context is, as Kiro V3 does and in the standard form."""
        used = sum(len(str(item.get("content", ""))) for item in session.history) // 4
        percent = round(100 * used / CONTEXT_TOKENS, 1)
        breakdown = {"kiroResponses": {"tokens": used, "percent": percent}, "tools": {"tokens": 0, "percent": 0}}
        self._link.info(session.session_id, "context_usage", usagePercentage=percent, breakdown=breakdown)
        self._link.replay(session.session_id, {"sessionUpdate": "usage_update", "used": used, "size": CONTEXT_TOKENS})

    def send_history(self, session: DemoSession) -> None:
        """Replay what happened, each update marked as a replay."""
        for update in session.history:
            own = {**object_at(update, "_meta", "kiro"), "replay": True}
            self._link.replay(session.session_id, {**update, "_meta": {"kiro": own}})

    # What follows answers a method each: params in, result out.

    def list(self, params: Any) -> Json:
        """``session/list``: newest first; the cursor is the place of the next one."""
        rows = {session.session_id: session for session in [*self._files.read_all(), *self.open.values()]}
        cwd = object_at(params).get("cwd")
        chosen = [session for session in rows.values() if not isinstance(cwd, str) or session.cwd == cwd]
        chosen.sort(key=lambda session: (session.updated, session.session_id), reverse=True)
        start = _place(object_at(params).get("cursor"))
        result: Json = {"sessions": [_row(session) for session in chosen[start : start + PAGE_SIZE]]}
        if len(chosen) > start + PAGE_SIZE:
            result["nextCursor"] = base64.urlsafe_b64encode(str(start + PAGE_SIZE).encode()).decode()
        return result

    def close(self, params: Any) -> Json:
        session_id = text_of(params, "sessionId")
        self.open.pop(session_id, None)
        self._servers.pop(session_id, None)
        return {}

    def delete(self, params: Any) -> Json:
        """``session/delete``: also for an id that is not known."""
        self.close(params)
        session_id = text_of(params, "sessionId")
        self._files.remove(session_id)
        self._link.notify("_kiro/sessions/changed", upserted=[], deleted=[session_id])
        return {}

    def fork(self, params: Any) -> Json:
        """``session/fork``: a copy up to the message of ``_meta.kiro.messageId``, or of everything."""
        source = self.find(params)
        history = list(source.history)
        message = object_at(params, "_meta", "kiro").get("messageId")
        if isinstance(message, str):
            ends = [index for index, item in enumerate(history) if item.get("messageId") == message]
            history = history[: ends[-1] + 1] if ends else []
        if not history:
            raise EditorFault("No effective messages to fork from")
        cwd = folder_of(params) if "cwd" in object_at(params) else source.cwd
        title = f"{source.title} (fork)"[:TITLE_CHARACTERS]
        copy = DemoSession(
            f"sess_{uuid.uuid4()}", cwd, now(), title, source.mode, source.autopilot, source.thoughts, source.model, source.effort
        )
        copy.history, copy.models_known = history, self.models_known
        self.open[copy.session_id] = copy
        self._servers[copy.session_id] = servers_given(params)
        self.store(copy)
        return {"sessionId": copy.session_id, **self.describe(copy)}

    def set_mode(self, params: Any) -> Json:
        session = self.get(params)
        self._set(session, "mode", text_of(params, "modeId"))
        return {}

    def set_option(self, params: Any) -> Json:
        """``session/set_config_option``: the result is the complete list."""
        session = self.get(params)
        self._set(session, text_of(params, "configId"), object_at(params).get("value"))
        return {"configOptions": self.options(session)}

    def _set(self, session: DemoSession, option: str, value: Any) -> None:
        session.set_option(option, value, booleans=self._link.features.boolean_options)
        if option == "mode":
            self._link.replay(session.session_id, {"sessionUpdate": "current_mode_update", "currentModeId": session.mode})
        self.send_commands(session)
        self.send_options(session)
        self.store(session)

    def rename(self, params: Any) -> Json:
        session = self.find(params)
        title = text_of(params, "title").strip()
        if not 0 < len(title) <= TITLE_CHARACTERS:
            raise EditorFault(f"a title has 1 to {TITLE_CHARACTERS} characters")
        self.set_title(session, title)
        self._files.write(session)
        return {"success": True}

    def set_title(self, session: DemoSession, title: str) -> None:
        session.title = title
        update = {"sessionUpdate": "session_info_update", "title": title, "_meta": kiro(kind="focus_update", title=title)}
        self._link.replay(session.session_id, update)

    def compact(self, params: Any) -> Json:
        """``_kiro/session/compact``: the history becomes one summary."""
        session = self.get(params)
        if not session.history:
            return {"success": False, "message": "there is nothing to compact"}
        summary = f"Summary of {len(session.history)} updates: {session.title or 'no title'}."
        compaction = f"compact_{uuid.uuid4()}"
        self._link.info(session.session_id, "summarization_started")
        self._send_compaction(session, compaction, status="in_progress")
        session.history = [
            {"sessionUpdate": "agent_message_chunk", "messageId": compaction, "content": text_block(summary)},
        ]
        self._send_compaction(session, compaction, status="completed", summary=[text_block(summary)])
        self._link.info(session.session_id, "summarization_completed", summary=summary)
        self.store(session)
        return {"success": True}

    def _send_compaction(self, session: DemoSession, compaction: str, **fields: Any) -> None:
        if self._link.features.compaction:
            self._link.replay(session.session_id, {"sessionUpdate": "compaction_update", "compactionId": compaction, **fields})

    def export(self, params: Any) -> Json:
        session = self.find(params)
        try:
            return {"success": True, "filePath": str(self._files.write_export(session))}
        except OSError as error:
            return {"success": False, "error": f"the export cannot be written: {error.strerror or error}"}

    def history(self, params: Any) -> Json:
        """``_kiro/session/history``: updates older than a message, newest page first."""
        session = self.find(params)
        before = text_of(params, "beforeMessageId")
        limit = object_at(params).get("limit", MAX_HISTORY_PAGE)
        if not isinstance(limit, int) or isinstance(limit, bool) or not 0 < limit <= MAX_HISTORY_PAGE:
            raise EditorFault(f"'limit' is a number from 1 to {MAX_HISTORY_PAGE}")
        ids = [item.get("messageId") for item in session.history]
        end = ids.index(before) if before in ids else 0
        start = max(0, end - limit)
        oldest = next((item for item in ids[start:end] if item), None)
        return {"updates": session.history[start:end], "hasMore": start > 0, "oldestLoadedMessageId": oldest}

    def context(self, params: Any) -> Json:
        """``_kiro/session/context``: show, add, remove or clear the files of a session's context."""
        session = self.get(params)
        command = text_of(params, "subcommand")
        if command in {"add", "remove"}:
            path = text_of(params, "path")
            session.context = [item for item in session.context if item != path] + ([path] if command == "add" else [])
        elif command == "clear":
            session.context = []
        elif command != "show":
            raise EditorFault("'subcommand' is one of show, add, remove, clear")
        return {"success": True, "files": session.context}

    def rules(self, params: Any) -> Json:
        """``_kiro/permissions/list``: the rules that count in this session."""
        session = self.get(params)
        return {"rules": rules_of(session.rules, self._files.read_user_rules(), session.cwd)}


def _row(session: DemoSession) -> Json:
    row: Json = {"sessionId": session.session_id, "cwd": session.cwd, "updatedAt": session.updated}
    if session.title:
        row["title"] = session.title
    if session.additional:
        row["additionalDirectories"] = session.additional
    return row


def _place(cursor: Any) -> int:
    """Return the place a cursor of ours stands for."""
    if cursor is None:
        return 0
    try:
        return max(0, int(base64.urlsafe_b64decode(str(cursor))[:9]))
    except (ValueError, binascii.Error) as error:
        raise EditorFault("the cursor is none that this agent gave") from error
