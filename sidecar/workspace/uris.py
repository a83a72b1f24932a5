"""One spelling for each document URI, and the way between file URIs and paths.

Editors write the same file differently: ``file:///c%3A/x`` and ``file:///C:/x``, ``%20`` or a blank, ``file://localhost/``.
"""

import re
import sys
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):(.*)", re.DOTALL)
_DRIVE: Final = re.compile(r"/([A-Za-z])[:|](?=/|$)")
_SAFE: Final = "/:@!$&'()*+,;=~"


def normalise_uri(uri: str) -> str:
    """Return the one spelling of ``uri`` used as a key here; what is no URI comes back unchanged."""
    match = _URI.fullmatch(uri)
    if match is None:
        return uri
    scheme = match[1].lower()
    if scheme != "file":
        return f"{scheme}:{match[2]}"
    authority, path = _file_parts(match[2])
    return f"file://{authority}{_quoted(path)}"


def uri_to_path(uri: str, *, windows: bool = sys.platform == "win32") -> str | None:
    """Return the absolute path of a file URI, or None for another scheme, a relative path or a path with a NUL."""
    match = _URI.fullmatch(uri)
    if match is None or match[1].lower() != "file":
        return None
    authority, path = _file_parts(match[2])
    if not path.startswith("/") or "\0" in path:
        return None
    if not windows:
        return path if not authority else None
    if authority:
        return f"//{authority}{path}".replace("/", "\\")
    return path[1:].replace("/", "\\") if _DRIVE.match(path) else None


def path_to_uri(path: str, *, windows: bool = sys.platform == "win32") -> str:
    """Return the normalised file URI of an absolute ``path``."""
    slashed = path.replace("\\", "/") if windows else path
    if windows and slashed.startswith("//"):
        return normalise_uri("file:" + _quoted(slashed))
    lead = "" if slashed.startswith("/") else "/"
    return normalise_uri("file://" + lead + _quoted(slashed))


def _file_parts(rest: str) -> tuple[str, str]:
    """Cut what follows ``file:`` into authority (lower case, "" for this machine) and decoded path."""
    authority = ""
    if rest.startswith("//"):
        authority, slash, tail = rest[2:].partition("/")
        rest = slash + tail
    authority = authority.lower()
    path = unquote_to_bytes(rest.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogateescape")
    path = _DRIVE.sub(lambda drive: f"/{drive[1].lower()}:", path, count=1) if _DRIVE.match(path) else path
    return ("" if authority == "localhost" else authority), path


def _quoted(path: str) -> str:
    encoded = path.encode("utf-8", "surrogateescape") if _is_encodable(path) else path.encode("utf-8", "surrogatepass")
    return quote_from_bytes(encoded, safe=_SAFE)


def _is_encodable(path: str) -> bool:
    return not any("\ud800" <= character <= "\udc7f" or "\udd00" <= character <= "\udfff" for character in path)
