"""ACP protocol 1: everything this side sends, built so that it always fits the schema.

Each function returns plain JSON for ``params`` or ``result``. ``meta`` is put into ``_meta`` when it holds anything.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, TypedDict, Unpack

from sidecar import __version__
from sidecar.acp.kiro_v3 import CLIENT_META, SessionInputs, list_meta, session_meta
from sidecar.acp.version import PROTOCOL_VERSION

Json: TypeAlias = dict[str, Any]
Meta: TypeAlias = Mapping[str, Any] | None

CLIENT_NAME: Final = "acp-sidecar"
SERVER_KINDS: Final = ("http", "sse")


def _with_meta(body: Json, meta: Meta) -> Json:
    if meta:
        body["_meta"] = dict(meta)
    return body


class Offers(TypedDict, total=False):
    """What ``initialize`` declares; everything left out is not offered.

    ``form`` and ``url``: elicitations that can be shown. ``kiro``: addresses of ``_kiro/openExternalUrl`` can be shown.
    """

    kiro: bool
    form: bool
    url: bool
    terminal_auth: bool
    read_files: bool
    write_files: bool
    terminal: bool


def client_capabilities(**offers: Unpack[Offers]) -> Json:
    """Return ``clientCapabilities``; notices, compaction and boolean options are always taken."""
    body: Json = {
        "fs": {"readTextFile": offers.get("read_files", False), "writeTextFile": offers.get("write_files", False)},
        "terminal": offers.get("terminal", False),
        "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}},
        "auth": {"terminal": offers.get("terminal_auth", False)},
    }
    modes: Json = {}
    if offers.get("form", False):
        modes["form"] = {}
    if offers.get("url", False):
        modes["url"] = {}
    if modes:
        body["elicitation"] = modes
    return _with_meta(body, {"kiro": dict(CLIENT_META)} if offers.get("kiro", False) else None)


def initialize(**offers: Unpack[Offers]) -> Json:
    """Return the params of ``initialize``."""
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "clientCapabilities": client_capabilities(**offers),
        "clientInfo": {"name": CLIENT_NAME, "title": "sidecar", "version": __version__},
    }


def authenticate(method_id: str) -> Json:
    """Return the params of ``authenticate``."""
    return {"methodId": method_id}


def logout() -> Json:
    """Return the params of ``logout``."""
    return {}


def mcp_server(entry: Mapping[str, Any]) -> Json:
    """Return an MCP server entry with every list the schema (and Kiro) insists on; other keys of ``entry`` stay."""
    required: Json = {"headers": []} if entry.get("type") in SERVER_KINDS else {"args": [], "env": []}
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
    **kiro: Unpack[SessionInputs],
) -> Json:
    """Return the params of ``session/new``; directories None leave the key out. ``kiro`` goes to ``_meta.kiro``."""
    return _with_meta(_session(cwd, mcp_servers, additional_directories), session_meta(**kiro))


def load_session(
    session_id: str,
    cwd: str,
    mcp_servers: Sequence[Mapping[str, Any]] = (),
    additional_directories: Sequence[str] | None = None,
    **kiro: Unpack[SessionInputs],
) -> Json:
    """Return the params of ``session/load`` and ``session/resume``.

    For Kiro V3: ``no_replay``, and ``session_source`` for a session of the remote store (one store, never ``all``).
    """
    body = {"sessionId": session_id, **_session(cwd, mcp_servers, additional_directories)}
    return _with_meta(body, session_meta(**kiro))


def fork_session(
    session_id: str,
    cwd: str,
    mcp_servers: Sequence[Mapping[str, Any]] = (),
    additional_directories: Sequence[str] | None = None,
    **kiro: Unpack[SessionInputs],
) -> Json:
    """Return the params of ``session/fork`` (unstable); ``message_id`` is Kiro V3's choice of the point."""
    body = {"sessionId": session_id, **_session(cwd, mcp_servers, additional_directories)}
    return _with_meta(body, session_meta(**kiro))


def list_sessions(
    cwd: str | None = None, cursor: str | None = None, *, scope: str | None = None, source: str | None = None
) -> Json:
    """Return the params of ``session/list``; ``scope`` and ``source`` are Kiro V3's and sent only when it announced them."""
    body: Json = {}
    if cwd is not None:
        body["cwd"] = cwd
    if cursor is not None:
        body["cursor"] = cursor
    return _with_meta(body, list_meta(scope, source))


def cancel(session_id: str) -> Json:
    """Return the params of ``session/cancel``."""
    return {"sessionId": session_id}


def close_session(session_id: str) -> Json:
    """Return the params of ``session/close``."""
    return {"sessionId": session_id}


def delete_session(session_id: str) -> Json:
    """Return the params of ``session/delete``."""
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
