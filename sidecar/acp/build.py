"""ACP protocol 1: everything this side sends, built so that it always fits the schema.

Each function returns plain JSON for ``params`` or ``result``. ``meta`` is put into ``_meta`` when it holds anything.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from sidecar.acp.schema import PROTOCOL_VERSION

Json: TypeAlias = dict[str, Any]
Meta: TypeAlias = Mapping[str, Any] | None

SERVER_KINDS: Final = ("http", "sse")


def _with_meta(body: Json, meta: Meta) -> Json:
    if meta:
        body["_meta"] = dict(meta)
    return body


def client_capabilities(
    *,
    read_files: bool = False,
    write_files: bool = False,
    terminal: bool = False,
    sign_in_terminal: bool = False,
    elicitation: Sequence[Literal["form", "url"]] = (),
    meta: Meta = None,
) -> Json:
    """Return ``clientCapabilities``; notices, compaction and boolean options are always taken.

    ``elicitation`` names the modes that can be shown. ``meta`` carries private ones, such as ``{"kiro": {...}}``.
    """
    body: Json = {
        "fs": {"readTextFile": read_files, "writeTextFile": write_files},
        "terminal": terminal,
        "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}},
        "auth": {"terminal": sign_in_terminal},
    }
    if elicitation:
        body["elicitation"] = {mode: {} for mode in elicitation}
    return _with_meta(body, meta)


def initialize(version: str, capabilities: Mapping[str, Any], *, name: str = "acp-sidecar", title: str = "sidecar") -> Json:
    """Return the params of ``initialize``; ``version`` is the client's own."""
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "clientCapabilities": dict(capabilities),
        "clientInfo": {"name": name, "title": title, "version": version},
    }


def authenticate(method_id: str) -> Json:
    """Return the params of ``authenticate``."""
    return {"methodId": method_id}


def logout() -> Json:
    """Return the params of ``logout``."""
    return {}


def mcp_server(entry: Mapping[str, Any]) -> Json:
    """Return an MCP server entry with every list the schema (and Kiro) insists on; other keys of ``entry`` stay."""
    required = {"headers": []} if entry.get("type") in SERVER_KINDS else {"args": [], "env": []}
    return {**required, **{key: value for key, value in entry.items() if value is not None or key not in required}}


def _session(cwd: str, servers: Sequence[Mapping[str, Any]], directories: Sequence[str] | None) -> Json:
    body: Json = {"cwd": cwd, "mcpServers": [mcp_server(entry) for entry in servers]}
    if directories is not None:
        body["additionalDirectories"] = list(directories)
    return body


def new_session(
    cwd: str,
    mcp_servers: Sequence[Mapping[str, Any]] = (),
    additional_directories: Sequence[str] | None = None,
    *,
    meta: Meta = None,
) -> Json:
    """Return the params of ``session/new``; ``additional_directories`` None leaves the key out."""
    return _with_meta(_session(cwd, mcp_servers, additional_directories), meta)


def existing_session(
    session_id: str,
    cwd: str,
    mcp_servers: Sequence[Mapping[str, Any]] = (),
    additional_directories: Sequence[str] | None = None,
    *,
    meta: Meta = None,
) -> Json:
    """Return the params of ``session/load``, ``session/resume`` or ``session/fork``."""
    return _with_meta({"sessionId": session_id, **_session(cwd, mcp_servers, additional_directories)}, meta)


def list_sessions(cwd: str | None = None, cursor: str | None = None, *, meta: Meta = None) -> Json:
    """Return the params of ``session/list``."""
    body: Json = {}
    if cwd is not None:
        body["cwd"] = cwd
    if cursor is not None:
        body["cursor"] = cursor
    return _with_meta(body, meta)


def session_only(session_id: str) -> Json:
    """Return the params of ``session/cancel``, ``session/close`` and ``session/delete``."""
    return {"sessionId": session_id}


def prompt(session_id: str, blocks: Sequence[Mapping[str, Any]], *, meta: Meta = None) -> Json:
    """Return the params of ``session/prompt``; ``blocks`` are content blocks the agent announced it takes."""
    return _with_meta({"sessionId": session_id, "prompt": [dict(block) for block in blocks]}, meta)


def set_mode(session_id: str, mode_id: str) -> Json:
    """Return the params of ``session/set_mode``."""
    return {"sessionId": session_id, "modeId": mode_id}


def set_config_option(session_id: str, config_id: str, value: str | bool) -> Json:
    """Return the params of ``session/set_config_option``; a bool names its type as the schema wants."""
    body: Json = {"sessionId": session_id, "configId": config_id, "value": value}
    if isinstance(value, bool):
        body["type"] = "boolean"
    return body


def permission_cancelled() -> Json:
    """Return the result of ``session/request_permission`` for a question that went away or cannot be answered."""
    return {"outcome": {"outcome": "cancelled"}}


def permission_selected(option_id: str, *, outcome_meta: Meta = None, meta: Meta = None) -> Json:
    """Return the result of ``session/request_permission`` for an offered option."""
    return _with_meta({"outcome": _with_meta({"outcome": "selected", "optionId": option_id}, outcome_meta)}, meta)


def elicitation(action: Literal["accept", "decline", "cancel"], content: Mapping[str, Any] | None = None) -> Json:
    """Return the result of ``elicitation/create``; content goes with accept only."""
    body: Json = {"action": action}
    if action == "accept" and content is not None:
        body["content"] = dict(content)
    return body


def file_content(content: str) -> Json:
    """Return the result of ``fs/read_text_file``."""
    return {"content": content}


def empty() -> Json:
    """Return the result of ``fs/write_text_file``, ``terminal/kill`` and ``terminal/release``."""
    return {}


def terminal_created(terminal_id: str) -> Json:
    """Return the result of ``terminal/create``."""
    return {"terminalId": terminal_id}


def exit_status(code: int | None, signal: str | None) -> Json:
    """Return the result of ``terminal/wait_for_exit``; a negative code is told as null, since the schema has none."""
    return {"exitCode": code if code is not None and code >= 0 else None, "signal": signal}


def terminal_output(output: str, *, truncated: bool, status: Mapping[str, Any] | None = None) -> Json:
    """Return the result of ``terminal/output``; ``status`` comes from ``exit_status`` once the command ended."""
    body: Json = {"output": output, "truncated": truncated}
    if status is not None:
        body["exitStatus"] = dict(status)
    return body


def cancel_request(request_id: int | str) -> Json:
    """Return the params of ``$/cancel_request``."""
    return {"requestId": request_id}
