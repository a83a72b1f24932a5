"""``sidecar run --record FILE``: the agent's traffic as JSON lines ``{"t", "dir", "msg"}``, with secrets taken out.

``t`` is in seconds since the record began, ``dir`` ``in`` (from the agent) or ``out`` (to it), ``msg`` the message. A line that
is no JSON object stands as ``{"t", "dir", "noise"}``. The file is private (0600). Answers of an agent in it read like the
originals, but for what looks like a secret.
"""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, cast

from sidecar.codec import NotJson, decode, encode_line
from sidecar.errors import ConfigFault
from sidecar.log import redact
from sidecar.secret import looks_secret

HIDDEN: Final = "***"
MAX_NOISE_CHARACTERS: Final = 500
_PAIRS: Final = frozenset({"headers", "env"})
_ADDRESS_METHODS: Final = frozenset({"_kiro/openExternalUrl", "elicitation/create", "_kiro/mcp/elicitation"})
_ADDRESSES: Final = frozenset({"url", "authorizationUrl", "verificationUri", "verificationUriComplete"})


class Recorder:
    """A tap of the wire that writes to a file as it goes; a full disk ends the record, not the run."""

    def __init__(self, path: str) -> None:
        """Raises ``ConfigFault`` when the file cannot be written."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        target = Path(path).expanduser()
        try:
            descriptor = os.open(target, flags, 0o600)
            if hasattr(os, "fchmod"):
                os.fchmod(descriptor, 0o600)
        except OSError as error:
            raise ConfigFault(f"--record {path}: the file cannot be written: {error.strerror or 'input/output error'}") from None
        self._file = os.fdopen(descriptor, "wb")
        self._began = time.monotonic()
        self.trouble: str | None = None

    def tap(self, direction: Literal["in", "out"], line: bytes) -> None:
        """Record one line of the wire."""
        entry: dict[str, Any] = {"t": round(time.monotonic() - self._began, 6), "dir": direction}
        try:
            message = decode(line)
        except NotJson:
            message = None
        if isinstance(message, dict):
            entry["msg"] = without_secrets(cast("dict[str, Any]", message))
        else:
            entry["noise"] = redact(line[:MAX_NOISE_CHARACTERS].decode("utf-8", "backslashreplace"))
        try:
            self._file.write(encode_line(entry))
            self._file.flush()
        except (OSError, ValueError, TypeError) as error:
            self.trouble = self.trouble or f"the record is not complete ({type(error).__name__})"

    def close(self) -> None:
        """End the record."""
        try:
            self._file.close()
        except OSError as error:
            self.trouble = self.trouble or f"the record is not complete ({type(error).__name__})"


def without_secrets(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message without sign-in addresses, tokens, header and environment values, and with all text redacted."""
    addresses = message.get("method") in _ADDRESS_METHODS
    return {name: _clean(name, value, addresses) for name, value in message.items()}


def _clean(name: str, value: Any, addresses: bool) -> Any:
    if name in _PAIRS:
        return _hidden_pairs(value)
    if isinstance(value, str):
        if looks_secret(name) or (name in _ADDRESSES and (addresses or name != "url")):
            return HIDDEN
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(key): _clean(key, item, addresses) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_clean(name, item, addresses) for item in cast("Sequence[Any]", value)]
    return value


def _hidden_pairs(value: Any) -> Any:
    """Return headers or variables with their names only, be they an object or a list of ``{"name", "value"}``."""
    if isinstance(value, Mapping):
        return {redact(key): HIDDEN for key in cast("Mapping[str, Any]", value)}
    if not isinstance(value, list | tuple):
        return HIDDEN if value is not None else None
    pairs: list[Any] = []
    for item in cast("Sequence[Any]", value):
        if isinstance(item, Mapping):
            pair = cast("Mapping[str, Any]", item)
            pairs.append({key: redact(each) if key == "name" and isinstance(each, str) else HIDDEN for key, each in pair.items()})
        else:
            pairs.append(HIDDEN)
    return pairs
