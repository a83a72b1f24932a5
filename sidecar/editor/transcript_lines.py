"""How a line of somebody else's text stands in the transcript: it can be taken for no heading of ours and is one line. Pure."""

import re
from typing import Final

from sidecar.session.neutral import escape_controls

COMPOSER_HEADING: Final = "## Your prompt"
QUESTION_PREFIX: Final = "### Question "

_SEPARATORS: Final = re.compile("[\u2028\u2029\ud800-\udfff]")
_MARKS: Final = ("```", "~~~", COMPOSER_HEADING, QUESTION_PREFIX)


def shown_line(line: str) -> str:
    """Return one line of somebody else's text as it may stand in the document."""
    shown = _SEPARATORS.sub(lambda found: f"\\u{{{ord(found.group()):x}}}", escape_controls(line))
    return "\\" + shown if shown.rstrip() == COMPOSER_HEADING or shown.startswith(QUESTION_PREFIX) else shown


def stands_as_it_is(text: str) -> bool:
    """Whether no line of ``text`` is shown in another way or begins or ends a code block: most are so, and need no look each."""
    if any(mark in text for mark in _MARKS):
        return False
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return True
    return not _SEPARATORS.search(text) and escape_controls(text) == text
