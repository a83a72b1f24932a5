"""``sidecar`` with handlers that break while they hold a secret, and say all they hold in the exception (case O31)."""

import sys
from typing import Any, NoReturn

import sidecar.acp.build
import sidecar.agents.acp_inbound
from sidecar.__main__ import main
from sidecar.agents.acp_requests import AcpRequests
from sidecar.auth.token_command import TokenCommand
from sidecar.editor.ask_url import UrlOpener
from sidecar.workspace.actor import SessionActor

_translate = sidecar.agents.acp_inbound.translate_notification
_new_session = sidecar.acp.build.new_session
_run_turn: Any = vars(SessionActor)["_run_turn"]
_answer = TokenCommand.answer
_tokens = 0


def _elicitation(_: AcpRequests, request: Any, params: Any) -> NoReturn:
    raise ValueError(f"cannot handle {request} {params}")


def _notification(method: str, params: Any) -> Any:
    if method == "_kiro/mcp/status":
        raise KeyError(f"unexpected {params}")
    return _translate(method, params)


async def _token(command: TokenCommand) -> Any:
    global _tokens  # noqa: PLW0603  one process, one test
    _tokens += 1
    answer = await _answer(command)
    if _tokens > 1:
        raise RuntimeError(f"no use for {dict(answer)}")
    return answer


async def _open(_: UrlOpener, body: Any) -> bool:
    raise OSError(f"cannot open {body.url.reveal()}")


def _new(**inputs: Any) -> Any:
    if str(inputs.get("cwd", "")).endswith("second"):
        raise LookupError(f"cannot build {inputs}")
    return _new_session(**inputs)


async def _turn(actor: SessionActor, item: Any) -> None:
    if item.text == "die":
        raise ArithmeticError(f"ended by {item.text} with {list(actor.identity.spec.mcp_servers)}")
    await _run_turn(actor, item)


_BROKEN: list[tuple[Any, str, Any]] = [
    (AcpRequests, "_elicitation", _elicitation),
    (sidecar.agents.acp_inbound, "translate_notification", _notification),
    (sidecar.acp.build, "new_session", _new),
    (SessionActor, "_run_turn", _turn),
    (TokenCommand, "answer", _token),
    (UrlOpener, "open", _open),
]
for _owner, _name, _replacement in _BROKEN:
    setattr(_owner, _name, _replacement)

if __name__ == "__main__":
    sys.exit(main())
