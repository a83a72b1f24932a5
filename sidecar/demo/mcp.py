"""MCP servers as Kiro V3 shows them: a snapshot with one that fails to sign in, and the sign-in that mends it.

No MCP server is ever started or reached; the sign-in page is served by the demo agent itself on the loopback interface.
"""

import secrets
from collections.abc import Callable
from typing import Any, Final

import anyio
import anyio.abc
import attrs

from sidecar.demo.link import ClientLink
from sidecar.demo.wire import Json, list_at, object_at, text_of
from sidecar.errors import AgentFault, Unavailable

SIGN_IN_SERVER: Final = "demo-search"
SEARCH_TOOL: Final = "search"
SIGN_IN_FIRST: Final = "Sign in to use this server (HTTP 401)."
STALE_URL: Final = "https://stale.invalid/authorize?placeholder=1"
"""Kiro V3 puts an outdated address into the snapshot; a client must open only the one of the request."""

OPEN_TIMEOUT_SECONDS: Final = 600.0
REQUEST_LIMIT_BYTES: Final = 8192
PAGE: Final = b"""HTTP/1.1 200 OK\r
Content-Type: text/html; charset=utf-8\r
Cache-Control: no-store\r
Connection: close\r
\r
<!doctype html><title>Demo sign-in</title><p>You are signed in to the demo server. You can close this page.</p>
"""
NOT_FOUND_PAGE: Final = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@attrs.define
class McpServers:
    """The servers of one connection. ``publish`` sends the snapshot to every open session.

    ``sign_in_seconds`` is how long a sign-in waits for a visit of its page before it goes on as if there had been one.
    """

    link: ClientLink
    sign_in_seconds: float
    publish: Callable[[], None]
    note: Callable[[str], None]
    signed_in: bool = False
    status: str = "failed"
    problem: str = SIGN_IN_FIRST
    _attempt: anyio.CancelScope | None = None

    def snapshot(self, client_servers: list[Json]) -> list[Json]:
        """Return all servers, those that the client gave with its session last; one replaces the last snapshot whole."""
        search: Json = {"name": SIGN_IN_SERVER, "status": self.status, "authType": "oauth"}
        if self.status == "connected":
            search["tools"] = [{"name": SEARCH_TOOL, "description": "Searches nothing"}]
        elif self.status == "failed":
            search |= {"failedAuthorization": True, "errorMessage": self.problem, "authorizationUrl": STALE_URL}
        own: list[Json] = [
            {"name": "demo-files", "status": "connected", "tools": [{"name": "list", "description": "Lists nothing"}]},
            search,
            {"name": "demo-off", "status": "disabled"},
        ]
        given = [
            {"name": server["name"], "status": "failed", "errorMessage": "The demo agent connects to no real MCP server."}
            for server in client_servers
            if isinstance(server.get("name"), str)
        ]
        return own + given

    def check_reset(self, params: Any) -> str | None:
        """Return why ``_kiro/mcp/resetServer`` cannot be done, or None; raises -32602 without a server name."""
        name = text_of(params, "serverName")
        if name == SIGN_IN_SERVER:
            return None
        return f"'{name}' needs no sign-in" if name in {"demo-files", "demo-off"} else f"there is no MCP server '{name}'"

    async def reset(self, *, start_oauth: bool) -> None:
        """Forget the sign-in, give up one that runs and, with ``start_oauth``, ask the client to open the page of a new one."""
        if self._attempt is not None:
            self._attempt.cancel()
        with anyio.CancelScope() as attempt:
            self._attempt = attempt
            if not (start_oauth and self.link.features.open_url):
                self._fail("The client cannot open a sign-in page." if start_oauth else SIGN_IN_FIRST)
                return
            self._set("connecting")
            await self._sign_in()

    async def _sign_in(self) -> None:
        state = secrets.token_urlsafe(24)
        visited = anyio.Event()
        try:
            listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
        except OSError:
            await self._ask_to_open(f"https://sign-in.invalid/authorize?state={state}", visited)
            return

        async def serve_page(stream: anyio.abc.SocketStream) -> None:
            await _answer_visit(stream, f"/authorize?state={state}", visited)

        async with listener, anyio.create_task_group() as visits:
            visits.start_soon(listener.serve, serve_page)
            port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - no database
            await self._ask_to_open(f"http://127.0.0.1:{port}/authorize?state={state}", visited)
            visits.cancel_scope.cancel()

    async def _ask_to_open(self, url: str, visited: anyio.Event) -> None:
        try:
            reply = await self.link.request("_kiro/openExternalUrl", timeout=OPEN_TIMEOUT_SECONDS, url=url)
        except (AgentFault, Unavailable):
            reply = {"success": False}
        if object_at(reply).get("success") is not True:
            self._fail("The sign-in page was not opened.")
            return
        with anyio.move_on_after(self.sign_in_seconds):
            await visited.wait()
        if not visited.is_set():
            self.note("Nobody visited the sign-in page; the demo goes on as if you had signed in.")
        self._set("connected")

    def _fail(self, problem: str) -> None:
        self.problem = problem
        self._set("failed")

    def _set(self, status: str) -> None:
        self.status = status
        self.signed_in = status == "connected"
        self.publish()


def servers_given(params: Any) -> list[Json]:
    """Return the objects among ``mcpServers`` of the params of a session request."""
    return [server for server in list_at(params, "mcpServers") if isinstance(server, dict)]


async def _answer_visit(stream: anyio.abc.SocketStream, target: str, visited: anyio.Event) -> None:
    """Answer one HTTP request; only the page with the right state counts as a visit."""
    async with stream:
        try:
            request = await stream.receive(REQUEST_LIMIT_BYTES)
            words = request.split(b"\r\n", 1)[0].split(b" ")
            right = len(words) == 3 and words[0] == b"GET" and secrets.compare_digest(words[1], target.encode())
            await stream.send(PAGE if right else NOT_FOUND_PAGE)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return
    if right:
        visited.set()
