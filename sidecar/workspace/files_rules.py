"""Which files an agent may never have, and which it may write only when the user says so for that one write.

Security cases O26; pains, security 130. No grant is kept: a broad allow rule of the agent does not reach here.
"""

import sys
import unicodedata
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Final

import attrs

from sidecar.config.paths import config_file, runtime_directory, state_directory
from sidecar.errors import ConfigFault, Refused
from sidecar.session.protected import why_protected
from sidecar.workspace.containment import Place, identity

_SHORT_NAMES: Final = {"git~1": ".git", "git~2": ".git"}


def own_paths(*more: str) -> list[str]:
    """Return the folders and files of the sidecar itself: state (with the trust store), runtime files, configuration.

    ``more`` are further ones, such as a configuration file named on the command line; what is no absolute path is left out.
    """
    found = [path for path in more if PurePath(path).is_absolute()]
    for path in (state_directory, runtime_directory, lambda: config_file()[0], lambda: config_file(environ=_unnamed())[0].parent):
        try:
            found.append(str(path()))
        except ConfigFault:
            continue
    return found


def _unnamed() -> dict[str, str]:
    """The environment without a configuration file named by the user, whose folder may hold anything else."""
    import os

    return {name: value for name, value in os.environ.items() if name != "SIDECAR_CONFIG"}


@attrs.frozen
class FileRules:
    """``own`` returns the sidecar's own paths; ``protected`` are further patterns (``deploy/*``, ``*.tf``) that always ask."""

    own: Callable[[], Sequence[str]] = own_paths
    protected: Sequence[str] = ()

    def check(self, place: Place) -> None:
        """Raise ``Refused`` for what belongs to the sidecar itself. Touches the disk."""
        above = {identity(str(path)) for path in (PurePath(place.path), *PurePath(place.path).parents)} - {None}
        spelling = PurePath(_canonical(place.path))
        for own in self.own():
            if identity(own) in above or spelling.is_relative_to(PurePath(_canonical(own))):
                raise Refused(
                    f"{place.shown} belongs to the sidecar itself (settings, trust, stored sessions); no agent reads or writes it"
                )

    def why_ask(self, raw: str, place: Place) -> str | None:
        """Return why a write needs the user's own word, as a clause, or None. Both spellings count: asked and resolved."""
        for path in (raw, place.path, place.shown):
            reason = why_protected(path) or why_protected(_canonical(path))
            if reason is not None:
                return reason
        shown = _canonical(place.shown)
        for pattern in self.protected:
            if fnmatchcase(shown, pattern.casefold()) or fnmatchcase(PurePath(shown).name, pattern.casefold()):
                return f"your settings protect {pattern}"
        return None


def _canonical(path: str) -> str:
    """Return ``path`` as file systems that are easy about names may understand it: case, invisible characters, short names."""
    parts = path.replace("\\", "/").split("/")
    return "/".join(_canonical_part(part) for part in parts)


def _canonical_part(part: str) -> str:
    plain = unicodedata.normalize("NFKC", part)
    plain = "".join(character for character in plain if unicodedata.category(character) != "Cf").casefold()
    if plain not in {".", ".."}:
        plain = plain.rstrip(" .") or plain
    if sys.platform == "win32":
        plain = plain.partition(":")[0] or plain
    return _SHORT_NAMES.get(plain, plain)
