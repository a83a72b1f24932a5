"""The connection to one ACP agent before any session: the handshake, what was announced, private methods, the end."""

import datetime as dt
from collections.abc import Callable
from typing import Final

import anyio.abc
import attrs

from sidecar.acp import build
from sidecar.acp.version import PROTOCOL_VERSION
from sidecar.agents.acp_announced import KIRO_V3, Announced, read_announced
from sidecar.agents.acp_files import AcpFiles
from sidecar.agents.acp_hot import batch_decoder
from sidecar.agents.acp_inbound import AcpInbound
from sidecar.agents.acp_requests import AcpRequests, TokenSource
from sidecar.agents.acp_sessions import Bound, SessionTable
from sidecar.agents.acp_terminals import AcpTerminals
from sidecar.agents.extensions import is_refusal
from sidecar.agents.profiles import AgentProfile
from sidecar.errors import AgentFault, Unavailable
from sidecar.session.events import JsonObject
from sidecar.session.interaction import Withdrawal
from sidecar.session.lenient import object_at, object_or_none
from sidecar.session.ports import AgentInfo, ConnectionSink, FilesService, TerminalService
from sidecar.transport.peer import Call, Peer, Tap
from sidecar.transport.streams import ByteStream

INITIALIZE_TIMEOUT_SECONDS: Final = 60.0


@attrs.frozen
class Offers:
    """What the front can do for the agent; declared at ``initialize`` and never more than that."""

    forms: bool = False
    urls: bool = True
    terminal_sign_in: bool = False


@attrs.frozen
class ConnectionOptions:
    """Bounds and hooks of one connection. ``keep_raw`` keeps each update apart and as received (for records).

    A service that is there is declared to the agent at ``initialize``.
    """

    max_message_bytes: int = 64 * 1024 * 1024
    load_timeout_seconds: float = 60.0
    keep_raw: bool = False
    offers: Offers = Offers()
    token: TokenSource | None = None
    tap: Tap | None = None
    pid: int | None = None
    files: FilesService | None = None
    terminals: TerminalService | None = None


def now_iso() -> str:
    """Return the time in UTC with milliseconds."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class AcpLink:
    """Peer, session table and announcements of one agent. ``tasks`` owns whatever an answer to the agent has to wait for."""

    def __init__(
        self,
        profile: AgentProfile,
        stream: ByteStream,
        sink: ConnectionSink,
        tasks: anyio.abc.TaskGroup,
        options: ConnectionOptions,
    ) -> None:
        self._profile = profile
        self._stream = stream
        self._sink = sink
        self._options = options
        self._table = SessionTable()
        self._requests = AcpRequests(profile, self._table, sink, tasks, options.token)
        self._inbound = AcpInbound(self._table, self._requests, sink, now_iso, keep_raw=options.keep_raw)
        self._peer = Peer(
            stream,
            self._inbound,
            name=profile.name,
            decode=batch_decoder(merge=not options.keep_raw),
            max_message_bytes=options.max_message_bytes,
            tap=options.tap,
        )
        self._requests.attach(self._peer)
        if options.files is not None:
            files = AcpFiles(options.files, self._table, tasks, profile.paths, lambda: self._announced.info)
            files.attach(self._requests, self._peer)
        self._terminals: AcpTerminals | None = None
        if options.terminals is not None:
            self._terminals = AcpTerminals(options.terminals, self._table, tasks)
            self._terminals.serve(self._requests, self._peer)
        self._announced = Announced()
        self._refused: set[str] = set()
        self._prompts: dict[str, Call] = {}
        self._dropped: set[str] = set()

    # --- life ------------------------------------------------------------------------------------------------------------

    @property
    def info(self) -> AgentInfo:
        """What is known since ``initialize``, less what the agent refused since."""
        caps = self._announced.capabilities(self._may_call)
        return attrs.evolve(self._announced.info, name=self._profile.name, pid=self._options.pid, capabilities=caps)

    @property
    def closed(self) -> str | None:
        """Why the connection is over, or None."""
        return self._peer.closed

    def on_lost(self, listener: Callable[[str], None]) -> None:
        """Call ``listener(reason)`` once when nothing more comes; every turn and question has ended by then."""
        self._inbound.on_lost = listener

    async def read(self) -> None:
        """Read the agent until it ends. Handlers are in place before the first byte."""
        try:
            await self._peer.run()
        finally:
            if self._terminals is not None:
                self._terminals.close()

    async def initialize(self) -> None:
        """Shake hands (ACP v1, initialize); raises ``AgentFault`` when the agent speaks another protocol version or fails."""
        offers = self._options.offers
        params = build.initialize(
            kiro=self._profile.kiro == "v3" and offers.urls,
            form=offers.forms,
            url=offers.urls,
            terminal_auth=offers.terminal_sign_in,
            read_files=self._options.files is not None,
            write_files=self._options.files is not None,
            terminal=self._options.terminals is not None,
        )
        result = await self._peer.request("initialize", params, timeout=INITIALIZE_TIMEOUT_SECONDS)
        version = object_at(result).get("protocolVersion")
        if isinstance(version, bool) or version != PROTOCOL_VERSION:
            raise AgentFault(
                f"{self._profile.name} answered initialize with protocol version {version!r}; this sidecar speaks "
                f"{PROTOCOL_VERSION}. Update whichever of the two is older."
            )
        self._announced = read_announced(result, self._profile)
        if self._profile.kiro == "v3" and self._announced.info.generation != KIRO_V3:
            self._sink.notice(
                "warning",
                f"{self._profile.name} did not introduce itself as Kiro CLI V3",
                "Features of V3 stay off. Check the command and the version of the CLI with `sidecar doctor`.",
            )

    async def aclose(self) -> None:
        """Withdraw every question, then end the stream (and with it the process) in bounded time."""
        self._requests.withdraw_all(Withdrawal.SHUTDOWN)
        await self._stream.aclose()

    def _may_call(self, method: str) -> bool:
        if method in self._refused:
            return False
        return self._profile.may_call(method, self._announced.methods)

    async def _call(self, method: str, params: JsonObject, patience: float) -> JsonObject:
        """Call a private method; a refusal is remembered for the life of the process, a failure told as a result is an error."""
        if not self._may_call(method):
            raise Unavailable(f"{self._profile.name} does not offer {method}")
        try:
            result = await self._peer.request(method, params, timeout=patience)
        except AgentFault as fault:
            if is_refusal(fault):
                self._refused.add(method)
                raise Unavailable(f"{self._profile.name} does not offer {method}: {fault.message}") from fault
            raise
        answer = object_or_none(result) or {}
        if answer.get("success") is False:
            reason = answer.get("message") or answer.get("error") or "it gave no reason"
            raise AgentFault(f"{self._profile.name} could not carry out {method}: {reason}")
        return answer

    def _need(self, offered: bool, what: str) -> None:
        if not offered:
            raise Unavailable(f"{self._profile.name} does not offer {what}")

    def _bound(self, agent_session_id: str) -> Bound:
        bound = self._table.get(agent_session_id)
        if bound is None:
            raise Unavailable("the session is not open at the agent; load it again")
        return bound
