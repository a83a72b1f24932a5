"""What must not be read is taken out of text here: before a log line, a crash report, or the tail of an agent's stderr is kept.

Two nets. Registered secrets are found by value in any form they travel in (as they are, URL-encoded, base64, JSON-escaped), down
to fragments of eight characters. Patterns find what was never registered: credentials in headers, fields and URLs, and the
shapes tokens have. All patterns take time linear in the text, since the text may come from a hostile agent.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Final
from urllib.parse import quote, quote_plus

from sidecar.secret import SecretText, looks_secret

HIDDEN: Final = "***"
WINDOW: Final = 8
SHORTEST_SECRET: Final = 4
_ENVIRONMENT_MINIMUM: Final = 8

_NAME: Final = (
    r"(?:token|secret|passwor?d|passwd|passphrase|api[_-]?key|private[_-]?key|access[_-]?key|credential|authorization"
    r"|cookie|code[_-]?verifier|code[_-]?challenge|assertion|signature)[\w.-]{0,20}"
)
_FIELD: Final = re.compile(
    rf"""(?ix) (?P<name>{_NAME}) (?P<between>\\?["']?\s{{0,4}}[:=]\s{{0,4}})
    (?P<value> \\"[^"\n]* | "(?:[^"\\\n]|\\.)* | '(?:[^'\\\n]|\\.)* | \{{[^}}\n]* | \[[^\]\n]* | [^\s,;&"'}}\]]+ )"""
)
_HEADER: Final = re.compile(
    r"""(?im)(\b(?:proxy-|x-[a-z-]{0,30})?(?:authorization|cookie|set-cookie|api-key|token)["']?\s{0,4}:\s{0,4})[^"'\n\r]+"""
)
_FLAG: Final = re.compile(rf"(?i)(?<!\S)(-{{1,2}}[\w.-]{{0,40}}{_NAME}\s{{1,4}})[^\s-]\S*")
_SCHEME: Final = re.compile(r"(?i)\b(bearer|basic|digest|negotiate|aws4-hmac-sha256)[ \t]{1,4}[\w.~+/=:,-]{6,}")
_QUERY: Final = re.compile(r"(?i)\b(code|state|nonce|sig|key|sid)=[\w.~%+/-]{12,}")
_URL: Final = re.compile(r"""(?i)\b([a-z][a-z0-9+.-]{0,19}:/{2})([^\s"'<>`\\]*)""")
_HOST: Final = re.compile(r"^[\w.:\[\]-]*$")
_TOKENS: Final = re.compile(
    r"""(?x) \beyJ[\w-]{8,}\.[\w-]*(?:\.[\w-]*){0,3}            # JSON web token
    | \b(?:sk|pk|rk)[-_][\w-]{12,} | \bgh[opusr]_\w{16,} | \bgithub_pat_\w{16,} | \bglpat-[\w-]{12,} | \bxox[abeoprs]-[\w-]{8,}
    | \b(?:AKIA|ASIA)[0-9A-Z]{12,} | \bAIza[\w-]{20,} | \bya29\.[\w-]{8,} | \b(?:npm|hf|dop_v1|shpat)_\w{16,} | \bpypi-[\w-]{16,}
    | \bao[ar][\w-]?[A-Za-z0-9_-]{40,} """
)
_DENSE: Final = re.compile(r"(?<![\w+/=-])(?=[\w+-]{0,400}[a-z])(?=[\w+-]{0,400}[A-Z])(?=[\w+-]{0,400}[0-9])[\w+-]{32,}={0,2}")
_PEM: Final = re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]*(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?")


class SecretRegister:
    """The secrets known by value. Forms are precomputed; looking costs one set lookup a character."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: set[str] = set()
        self._windows: frozenset[str] = frozenset()
        self._short: tuple[str, ...] = ()

    def add(self, secret: str) -> None:
        """Remember ``secret``; less than four characters cannot be told from ordinary text and are not taken."""
        if len(secret) < SHORTEST_SECRET:
            return
        with self._lock:
            if secret in self._known:
                return
            self._known.add(secret)
            forms = set(_forms(secret))
            self._windows |= {form[at : at + WINDOW] for form in forms for at in range(len(form) - WINDOW + 1)}
            short = {form for form in forms if len(secret) <= len(form) < WINDOW}
            self._short = tuple(sorted({*self._short, *short}, key=len, reverse=True))

    def scrub(self, text: str) -> str:
        """Return ``text`` without any eight characters in a row (or a whole short secret) of a registered form."""
        while True:
            found = self._hide_windows(text)
            for short in self._short:
                found = found.replace(short, HIDDEN)
            if found == text:
                return text
            text = found

    def _hide_windows(self, text: str) -> str:
        windows = self._windows
        if not windows or len(text) < WINDOW:
            return text
        hits = [at for at in range(len(text) - WINDOW + 1) if text[at : at + WINDOW] in windows]
        if not hits:
            return text
        kept: list[str] = []
        end = 0
        for at in hits:
            if at > end:
                kept.append(text[end:at])
            if at >= end:
                kept.append(HIDDEN)
            end = at + WINDOW
        kept.append(text[end:])
        return "".join(kept)


def _forms(secret: str) -> Iterator[str]:
    """Yield the forms a secret takes on its way through URLs, JSON, reprs and base64 (at each of the three alignments)."""
    yield secret
    for encoded in (quote(secret, safe=""), quote(secret, safe="/"), quote_plus(secret)):
        yield encoded
        yield re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), encoded)
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    data = secret.encode("utf-8", "surrogatepass")
    for padding in range(3):
        encoded = base64.b64encode(bytes(padding) + data).decode("ascii")
        # The first characters mix in what stood before, the last ones what follows; the middle is the secret's own.
        own = encoded[(0, 2, 3)[padding] : len(encoded) - (0, 3, 2)[(padding + len(data)) % 3]]
        if len(own) < WINDOW:
            continue
        yield own
        yield own.replace("+", "-").replace("/", "_")


_REGISTER: Final = SecretRegister()


def register_secret(value: str | SecretText) -> None:
    """Make ``value`` disappear from every log line, crash report and stderr tail from now on, in all its usual encodings."""
    _REGISTER.add(value.reveal() if isinstance(value, SecretText) else value)


def register_environment(environ: Mapping[str, str]) -> None:
    """Register the values of the environment variables whose names look like those of secrets."""
    for name, value in environ.items():
        if len(value) >= _ENVIRONMENT_MINIMUM and looks_secret(name):
            _REGISTER.add(value)


def redact(text: str) -> str:
    """Return ``text`` without secrets: safe for a log, a crash report, or an error message that quotes an agent.

    URLs keep scheme and host (and a path, when there is neither user, query nor fragment).
    """
    text = _REGISTER.scrub(text)
    text = _PEM.sub(HIDDEN, text)
    text = _URL.sub(_plain_url, text)
    text = _HEADER.sub(rf"\g<1>{HIDDEN}", text)
    text = _FIELD.sub(_hidden_field, text)
    text = _FLAG.sub(rf"\g<1>{HIDDEN}", text)
    text = _SCHEME.sub(rf"\g<1> {HIDDEN}", text)
    text = _QUERY.sub(rf"\g<1>={HIDDEN}", text)
    text = _TOKENS.sub(HIDDEN, text)
    text = _DENSE.sub(HIDDEN, text)
    return _REGISTER.scrub(text)


def _plain_url(match: re.Match[str]) -> str:
    scheme, rest = match[1], match[2]
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    host = authority.rsplit("@", 1)[-1]
    if "@" not in authority and "?" not in rest and "#" not in rest:
        return match[0]
    return f"{scheme}{host if _HOST.match(host) else HIDDEN}/{HIDDEN}"


def _hidden_field(match: re.Match[str]) -> str:
    name, between, value = match["name"], match["between"], match["value"]
    if name.lower().endswith("tokens") and value.isdigit():
        return match[0]
    quotation = re.match(r"\\?[\"']|[{\[]", value)
    return f"{name}{between}{quotation[0] if quotation else ''}{HIDDEN}"
