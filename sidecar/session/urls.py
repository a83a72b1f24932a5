"""Which addresses an agent may ask to open, and what the user is shown of them.

An agent's address is hostile text (MCP security best practices, URL opening; CVE-2025-6514, CVE-2026-4519). The parser here is
its own, since ``urllib.parse.urlsplit`` strips newlines, takes ``https://real@evil`` and reads ``https:evil`` as host-less. It
takes RFC 3986 text only, so an allowed address is one argv item with nothing a shell script behind an opener could trip over;
the address is passed on byte for byte, but for an international host name, which is replaced by its punycode form so that what
is shown is what is opened.
"""

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

import attrs

from sidecar.secret import SecretText

MAX_URL_CHARS: Final = 16_384
MAX_DISPLAY_PATH_CHARS: Final = 80
MAX_HOST_CHARS: Final = 253

UNENCRYPTED_WARNING: Final = "This address is not encrypted (http); it leads to this machine only."
INTERNATIONAL_WARNING: Final = (
    "The host name has letters outside plain Latin and may imitate another site; it is shown in its technical form."
)
ADDRESS_WARNING: Final = "The host is a bare network address, not a name."

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]{0,31}(?=:)")
_AUTHORITY = re.compile(r"[^/?#]*")
_REST = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?#\[\]]|%[0-9A-Fa-f]{2})*")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_\-]{0,61}[a-z0-9_])?")
_NUMERIC = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_QUAD = re.compile(r"(?:0|[1-9][0-9]{0,2})(?:\.(?:0|[1-9][0-9]{0,2})){3}")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
# Default-ignorable and blank letters and marks, which ``str.isprintable`` takes for visible.
_BLANK_LETTERS = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_DOTS = str.maketrans({"\u3002": ".", "\uff0e": ".", "\uff61": "."})


@attrs.frozen
class UrlVerdict:
    """What became of an address.

    ``allowed`` false: ``reason`` is a sentence that names the scheme and never another part of the address; ``host`` is the real
    host when one could be read (after a refused user name), else "". ``allowed`` true: ``url`` is what is opened, ``host`` the
    punycode host, ``display`` scheme, host, port and path without query and fragment (those carry ``state`` and challenges).
    ``unencrypted`` is true for http to this machine. ``warnings`` are sentences for the user, shown before the choice.
    """

    allowed: bool
    reason: str = ""
    scheme: str = ""
    host: str = ""
    display: str = ""
    unencrypted: bool = False
    warnings: tuple[str, ...] = ()
    url: SecretText | None = None


class _Refusal(Exception):
    """Ends the judgement; the text is the reason."""

    def __init__(self, reason: str, *, host: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.host = host


@attrs.frozen
class _Host:
    name: str
    shown: str
    loopback: bool
    warnings: tuple[str, ...] = ()


def judge_url(text: str) -> UrlVerdict:
    """Decide whether ``text`` may be offered to the user for opening. Never raises, whatever the text holds.

    Allowed: ``https`` to any host; ``http`` to 127.0.0.0/8, ``[::1]`` and ``localhost``. Source: MCP authorization 2026-07-28
    (URL opening), ACP v1 (elicitation, url mode).
    """
    scheme = ""
    try:
        _check_characters(text)
        scheme = _scheme_of(text)
        return _judge_parts(text, scheme)
    except _Refusal as refusal:
        return UrlVerdict(allowed=False, reason=refusal.reason, scheme=scheme, host=refusal.host)


def _check_characters(text: str) -> None:
    if not text:
        raise _Refusal("the address is empty")
    if len(text) > MAX_URL_CHARS:
        raise _Refusal(f"the address is longer than {MAX_URL_CHARS} characters")
    if text[0] == "-":
        raise _Refusal("the address begins with a dash, so a browser could take it for an option")
    if any(
        not character.isprintable() or character.isspace() or character == "\\" for character in text
    ) or _BLANK_LETTERS.search(text):
        raise _Refusal("the address holds a blank, a backslash or an invisible character")


def _scheme_of(text: str) -> str:
    match = _SCHEME.match(text)
    if match is None:
        raise _Refusal("the address has no scheme; only https addresses are opened")
    return match.group().lower()


def _judge_parts(text: str, scheme: str) -> UrlVerdict:
    if scheme not in {"https", "http"}:
        raise _Refusal(f"addresses of the scheme {scheme}: are not opened; only https is")
    start = len(scheme) + 3
    if text[len(scheme) : start] != "://":
        raise _Refusal(f"the {scheme}: address lacks the two slashes before its host")
    authority_match = _AUTHORITY.match(text, start)
    authority = authority_match.group() if authority_match else ""
    rest = text[start + len(authority) :]
    host, port = _read_authority(authority, scheme)
    _check_rest(rest, scheme)
    if scheme == "http" and not host.loopback:
        raise _Refusal("http: addresses are opened only when they lead to this machine; others need https", host=host.shown)
    shown_port = f":{port}" if port else ""
    return UrlVerdict(
        allowed=True,
        scheme=scheme,
        host=host.shown,
        display=f"{scheme}://{host.shown}{shown_port}{_shown_rest(rest)}",
        unencrypted=scheme == "http",
        warnings=((UNENCRYPTED_WARNING,) if scheme == "http" else ()) + host.warnings,
        url=SecretText(f"{text[:start]}{host.name}{shown_port}{rest}"),
    )


def _read_authority(authority: str, scheme: str) -> tuple[_Host, str]:
    _userinfo, at, hostport = authority.rpartition("@")
    name, colon, port = _split_port(hostport, scheme)
    host = _read_host(name, scheme)
    if at:
        raise _Refusal(f"the {scheme}: address carries a user name before its host", host=host.shown)
    if colon and not (_PORT.fullmatch(port) and int(port) <= 65_535):
        raise _Refusal(f"the port of the {scheme}: address is not a number from 1 to 65535", host=host.shown)
    return host, port


def _split_port(hostport: str, scheme: str) -> tuple[str, str, str]:
    if not hostport.startswith("["):
        return hostport.partition(":")
    literal, bracket, tail = hostport.partition("]")
    if not bracket or (tail and not tail.startswith(":")):
        raise _Refusal(f"the IPv6 host of the {scheme}: address is not well formed")
    return literal + bracket, tail[:1], tail[1:]


def _read_host(name: str, scheme: str) -> _Host:
    if not name:
        raise _Refusal(f"the {scheme}: address has no host")
    if "%" in name:
        raise _Refusal(f"the host of the {scheme}: address is percent-encoded")
    if name.startswith("["):
        return _read_ipv6(name, scheme)
    if len(name) > MAX_HOST_CHARS:
        raise _Refusal(f"the host of the {scheme}: address is longer than {MAX_HOST_CHARS} characters")
    if not name.isascii():
        name = _to_ascii(name, scheme)
    lowered = name.lower()
    labels = lowered.removesuffix(".").split(".")
    if len(lowered) > MAX_HOST_CHARS or not all(_LABEL.fullmatch(label) for label in labels):
        raise _Refusal(f"the host of the {scheme}: address is not a valid host name")
    if _NUMERIC.fullmatch(labels[-1]):
        return _read_ipv4(name, scheme)
    international = any(label.startswith("xn--") for label in labels)
    return _Host(
        name=name,
        shown=lowered,
        loopback=lowered == "localhost",
        warnings=(INTERNATIONAL_WARNING,) if international else (),
    )


def _read_ipv6(name: str, scheme: str) -> _Host:
    try:
        address = IPv6Address(name[1:-1])
    except AddressValueError:
        raise _Refusal(f"the IPv6 host of the {scheme}: address is not well formed") from None
    loopback = address.is_loopback
    return _Host(name=name, shown=f"[{address}]", loopback=loopback, warnings=() if loopback else (ADDRESS_WARNING,))


def _read_ipv4(name: str, scheme: str) -> _Host:
    """Browsers read ``0x7f.1`` and ``2130706433`` as addresses; only the plain dotted form shows where it leads."""
    if not _QUAD.fullmatch(name):
        raise _Refusal(f"the network address in the {scheme}: address is not written as four plain numbers")
    try:
        loopback = IPv4Address(name).is_loopback
    except AddressValueError:
        raise _Refusal(f"the network address in the {scheme}: address is out of range") from None
    return _Host(name=name, shown=name, loopback=loopback, warnings=() if loopback else (ADDRESS_WARNING,))


def _to_ascii(name: str, scheme: str) -> str:
    import idna

    try:
        return idna.encode(name.translate(_DOTS), uts46=True, std3_rules=True).decode("ascii")
    except idna.IDNAError:
        raise _Refusal(f"the international host name of the {scheme}: address is not valid") from None


def _check_rest(rest: str, scheme: str) -> None:
    if not _REST.fullmatch(rest):
        raise _Refusal(f"the {scheme}: address holds a character that must be percent-encoded")
    if "$(" in rest:
        raise _Refusal(f"the {scheme}: address holds a shell substitution")


def _shown_rest(rest: str) -> str:
    path = re.split(r"[?#]", rest, maxsplit=1)[0]
    more = len(path) < len(rest)
    if len(path) > MAX_DISPLAY_PATH_CHARS:
        return path[:MAX_DISPLAY_PATH_CHARS] + "…"
    return path + ("?…" if more else "")
