"""Makes agent text safe to show: what cannot be seen, or changes how its neighbours look, stands there as a visible escape. Pure.

Only what is shown passes here; what is sent back to an agent is what it sent (Security facts, section 2: Trojan-Source class,
hidden tails, terminal escapes). Nothing is cut.
"""

import re
from typing import Any, Final, cast

SHOWN_SPACES: Final = 16
SHOWN_SPACES_IN_BLOCK: Final = 120
SHOWN_LINE_BREAKS: Final = 8
SHOWN_MARKS: Final = 4
JSON_DEPTH: Final = 32
DEEPER: Final = "⟨deeper levels not shown⟩"

# Control, format, surrogate, private, separators other than the space, blank letters, and everything default-ignorable.
_RANGES: Final = (
    "\x00-\x1f\x7f-\xa0\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f"
    "\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ud800-\udfff\ue000-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
)
_UNSEEN: Final = re.compile(f"[{_RANGES}]")
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_MARK: Final = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_MARKS: Final = re.compile(f"({_MARK}{{{SHOWN_MARKS}}})({_MARK}+)")
_SPACES: Final = re.compile(f" {{{SHOWN_SPACES + 1},}}")
_BLOCK_SPACES: Final = re.compile(f"[ \t]{{{SHOWN_SPACES_IN_BLOCK + 1},}}")
_LINE_BREAKS: Final = re.compile(f"\n(?:[ \t]*\n){{{SHOWN_LINE_BREAKS},}}")
_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escape(char: str) -> str:
    return _NAMED.get(char) or f"\\u{{{ord(char):x}}}"


def _escape_all(text: str) -> str:
    return "".join(_escape(char) for char in text)


def neutralise(text: str, *, keep_newlines: bool = False) -> str:
    r"""Return ``text`` with everything invisible or misleading as escapes like ``\u{202e}``, long gaps as ``⟨5000 spaces⟩``.

    ``keep_newlines`` is for blocks of text (commands, diffs): line ends and tabs stay, and only gaps nobody would write are
    replaced.
    """
    if keep_newlines:
        text = text.replace("\r\n", "\n")
        shown = _UNSEEN.sub(lambda found: found.group() if found.group() in "\n\t" else _escape(found.group()), text)
        shown = _LINE_BREAKS.sub(lambda found: f"\n⟨{found.group().count(chr(10))} line breaks⟩\n", shown)
        shown = _BLOCK_SPACES.sub(lambda found: f"⟨{len(found.group())} spaces⟩", shown)
    else:
        shown = _UNSEEN.sub(lambda found: _escape(found.group()), text)
        shown = _SPACES.sub(lambda found: f"⟨{len(found.group())} spaces⟩", shown)
    return shown if shown.isascii() else _MARKS.sub(lambda found: found.group(1) + _escape_all(found.group(2)), shown)


def escape_controls(text: str) -> str:
    """Return prose with only terminal and direction controls as escapes; line ends, tabs and emoji sequences stay."""
    return _CONTROLS.sub(lambda found: _escape(found.group()), text.replace("\r\n", "\n"))


def is_plain(text: str) -> bool:
    """Return whether ``text`` looks like what it is: nothing invisible, no line break, no long gap."""
    return neutralise(text) == text


def neutralise_json(value: Any, depth: int = JSON_DEPTH, *, keep_newlines: bool = False) -> Any:
    """Return a copy of a JSON value with keys and strings neutralised, and levels below ``depth`` named as not shown."""
    if isinstance(value, str):
        return neutralise(value, keep_newlines=keep_newlines)
    if isinstance(value, (dict, list, tuple)) and not depth:
        return DEEPER
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {neutralise(str(key)): neutralise_json(item, depth - 1, keep_newlines=keep_newlines) for key, item in items}
    if isinstance(value, (list, tuple)):
        return [neutralise_json(item, depth - 1, keep_newlines=keep_newlines) for item in cast("list[Any]", value)]
    return value
