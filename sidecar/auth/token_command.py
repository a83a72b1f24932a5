"""Account tokens an agent asks its client for, from a program the user named (``token_command``).

Kiro V3 client guide, authentication: ``_kiro/auth/getAccessToken`` is answered with ``{accessToken, expiresAt, profileArn?,
authMethod?, provider?}``. The token is kept in memory until shortly before it expires and is never logged.
"""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, cast

import anyio
import attrs

from sidecar.auth.secret_values import RunCommand, checked_output
from sidecar.errors import Unavailable
from sidecar.log import register_secret
from sidecar.secret import SecretText

RENEW_BEFORE_SECONDS: Final = 60.0
_MILLISECONDS_FROM: Final = 100_000_000_000
_OPTIONAL: Final = {"profileArn": "profile_arn", "authMethod": "auth_method", "provider": "provider"}


@attrs.frozen
class AccessToken:
    """A token and what belongs to it. ``expires_at`` is as the program printed it; ``expires`` is in seconds since 1970."""

    access_token: SecretText
    expires_at: str | int | float
    expires: float
    profile_arn: str | None = None
    auth_method: str | None = None
    provider: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the agent's answer, the token in plain text: for the wire only."""
        answer: dict[str, Any] = {"accessToken": self.access_token.reveal(), "expiresAt": self.expires_at}
        for name, field in _OPTIONAL.items():
            if getattr(self, field) is not None:
                answer[name] = getattr(self, field)
        return answer


class TokenCommand:
    """Runs the token command when a token is needed and none is good any more; one run at a time, whoever asks.

    ``clock`` gives seconds since 1970.
    """

    def __init__(self, argv: Sequence[str], run: RunCommand, clock: Callable[[], float] = time.time) -> None:
        self._argv = tuple(argv)
        self._run = run
        self._clock = clock
        self._lock = anyio.Lock()
        self._token: AccessToken | None = None

    async def token(self) -> AccessToken:
        """Return a token with some life left. Raises ``Unavailable`` with what is wrong with the command, never its output."""
        async with self._lock:
            held = self._token
            if held is not None and held.expires - self._clock() > RENEW_BEFORE_SECONDS:
                return held
            self._token = None
            fresh = parse_token(await checked_output(self._run, self._argv), self._argv[0])
            if fresh.expires <= self._clock():
                raise Unavailable(
                    f"the token command {self._argv[0]} printed a token that has expired; sign in again with its tool"
                )
            self._token = fresh
            return fresh

    async def answer(self) -> dict[str, Any]:
        """Return the agent's answer (``AccessToken.to_json``), for the wire only."""
        return (await self.token()).to_json()

    def forget(self) -> None:
        """Drop the kept token: the agent said it is not good."""
        self._token = None


def parse_token(output: bytes, program: str) -> AccessToken:
    """Read the one JSON object a token command prints. Raises ``Unavailable`` naming the field at fault, never a value."""
    try:
        value: Any = json.loads(output)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Unavailable(f"the token command {program} must print exactly one JSON object and nothing else")
    table = cast("Mapping[str, Any]", value)
    secret = table.get("accessToken")
    if isinstance(secret, str):
        register_secret(secret)
    if not isinstance(secret, str) or not secret.strip() or not secret.isprintable():
        raise Unavailable(f"the token command {program} must print accessToken as text that is not empty")
    expires_at = table.get("expiresAt")
    expires = _seconds_of(expires_at)
    if expires is None:
        raise Unavailable(f"the token command {program} must print expiresAt as a date like 2030-01-31T12:00:00Z or as a number")
    extra: dict[str, str] = {}
    for name, field in _OPTIONAL.items():
        text = table.get(name)
        if text is None:
            continue
        if not isinstance(text, str):
            raise Unavailable(f"the token command {program} must print {name} as text, or leave it out")
        extra[field] = text
    return AccessToken(SecretText(secret), cast("str | int | float", expires_at), expires, **extra)


def _seconds_of(moment: object) -> float | None:
    """Return seconds since 1970 of an ISO date (without a zone: UTC) or of a number of seconds or milliseconds."""
    if isinstance(moment, str):
        try:
            parsed = datetime.fromisoformat(moment)
            return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    if isinstance(moment, bool) or not isinstance(moment, int | float) or not math.isfinite(moment):
        return None
    return moment / 1000 if moment >= _MILLISECONDS_FROM else float(moment)
