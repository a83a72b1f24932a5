"""Text as it stands in bytes: encoding, byte order mark, line ends. Pure; bytes in, bytes out.

What is not touched keeps its bytes: an encoding is kept, a line nobody changed keeps its own line end, and a file that ended
without a newline still does (pains, encodings and line ends).
"""

import codecs
import hashlib
from typing import Final, Literal, TypeAlias

import attrs

from sidecar.errors import INVALID_PARAMS, RESOURCE_NOT_FOUND, SidecarError
from sidecar.workspace.edits_blocks import changed_blocks

Encoding: TypeAlias = Literal["utf-8", "utf-16-le", "utf-16-be"]

_MARKS: Final[tuple[tuple[bytes, Encoding], ...]] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_UTF32_MARKS: Final = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_ENDS: Final = ("\r\n", "\n", "\r")


class MissingFile(SidecarError):
    """There is no such file. The wording holds every phrase by which agents tell this from other errors."""

    code = RESOURCE_NOT_FOUND

    def __init__(self, path: str) -> None:
        super().__init__(f"Resource not found: {path} does not exist (ENOENT: no such file or directory)", data={"uri": path})


class UnusableFile(SidecarError):
    """What the path names cannot be read or written as text: a folder, a device, binary, too large, read-only."""

    code = INVALID_PARAMS


@attrs.frozen
class TextForm:
    """How a text stands in bytes. UTF-16 always has its mark, since without it nobody knows."""

    encoding: Encoding = "utf-8"
    mark: bool = False


PLAIN: Final = TextForm()


def decode(data: bytes, name: str) -> tuple[str, TextForm]:
    """Return the text of a file's bytes, line ends as they are, and its form; raises ``UnusableFile`` naming ``name``."""
    form, body = _form_of(data)
    if form.encoding == "utf-8" and b"\0" in body:
        raise UnusableFile(f"{name} is a binary file (it holds NUL bytes); it cannot be handled as text")
    if data.startswith(_UTF32_MARKS):
        raise UnusableFile(f"{name} is UTF-32, which is not supported; convert it to UTF-8")
    try:
        return body.decode(form.encoding), form
    except UnicodeDecodeError as error:
        raise UnusableFile(
            f"{name} is no {form.encoding.upper()} text (byte {error.start}); it is binary or in another encoding, "
            "and is left as it is"
        ) from None


def _form_of(data: bytes) -> tuple[TextForm, bytes]:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return TextForm(encoding, mark=True), data[len(mark) :]
    return PLAIN, data


def encode(text: str, form: TextForm, name: str) -> bytes:
    """Return the bytes of ``text``; raises ``UnusableFile`` for half a character (a lone surrogate)."""
    try:
        body = text.encode(form.encoding)
    except UnicodeEncodeError as error:
        raise UnusableFile(f"the text for {name} holds half a character at offset {error.start}; it was not written") from None
    mark = next((mark for mark, encoding in _MARKS if encoding == form.encoding), b"") if form.mark else b""
    return mark + body


def digest(data: bytes) -> str:
    """Return the content hash by which two states of a file are told apart."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def plain(text: str) -> str:
    """Return ``text`` with LF line ends, for comparing and merging; a lone CR counts only where nothing else ends a line."""
    if "\r" not in text:
        return text
    return text.replace("\r\n", "\n") if "\n" in text else text.replace("\r", "\n")


def same_lines(first: str, second: str) -> bool:
    """Return whether two texts differ in line ends at most."""
    return first == second or plain(first) == plain(second)


def cut(text: str) -> list[tuple[str, str]]:
    """Return the lines of ``text`` as (content, end); a last line without end has end "", an empty text has no lines.

    A lone CR ends a line only in a text that has no LF; elsewhere it is part of a line (progress output).
    """
    end = "\n" if "\n" in text else "\r"
    windows = end == "\n"
    lines = [(piece[:-1], "\r\n") if windows and piece.endswith("\r") else (piece, end) for piece in text.split(end)]
    content, last_end = lines.pop()
    if last_end == "\r\n":
        content += "\r"
    if content:
        lines.append((content, ""))
    return lines


def keep_line_ends(old: str, new: str) -> str:
    """Return ``new`` with the line ends of ``old``.

    A line that stands in both keeps its end as it was in ``old``, whatever an agent made of it; a changed line keeps the end of
    the line it stands for, a new one takes its neighbour's. A last line that was not touched ends as before, with or without a
    newline, unless that is the only change. Without any line end in ``old`` the ends are those of ``new``.
    """
    if old == new or not old or not new:
        return new
    end = _only_end(old)
    if end == "":
        return new
    if end is not None:
        return _with_old_final(old, plain(new).replace("\n", end), end)
    before, after = cut(old), cut(new)
    contents = [content for content, _ in before], [content for content, _ in after]
    made = _with_own_ends(before, after, contents)
    _keep_final(before, made, contents)
    return "".join(content + end for content, end in made)


def _only_end(text: str) -> str | None:
    """Return the one line end of ``text``, "" when it has none, None when there are several."""
    if "\r" not in text:
        return "\n" if "\n" in text else ""
    if "\n" not in text:
        return "\r"
    pairs = text.count("\r\n")
    return "\r\n" if pairs == text.count("\n") == text.count("\r") else None


def _with_old_final(old: str, new: str, end: str) -> str:
    """Return ``new`` with an untouched last line ending as it did, unless its newline is all that was changed."""
    before, after = old.removesuffix(end), new.removesuffix(end)
    if before == after or before.rpartition(end)[2] != after.rpartition(end)[2]:
        return new
    return after + end if old.endswith(end) else after


def _with_own_ends(
    before: list[tuple[str, str]], after: list[tuple[str, str]], contents: tuple[list[str], list[str]]
) -> list[tuple[str, str]]:
    """Mixed line ends: each line of ``after`` gets the end of the line of ``before`` it comes from, or of its neighbour."""
    ends = [end for _, end in before]
    dominant = max(_ENDS, key=ends.count)
    chosen: list[str] = []
    at = 0
    for block in (*changed_blocks(*contents), None):
        same = (len(before) if block is None else block.old_start) - at
        chosen += ends[at : at + same]
        if block is None:
            break
        replaced = ends[block.old_start : block.old_end]
        neighbour = ends[block.old_start - 1] if block.old_start else ends[block.old_end] if block.old_end < len(ends) else ""
        count = block.new_end - block.new_start
        chosen += [*replaced[:count], *[(replaced[-1:] or [neighbour])[0]] * (count - len(replaced))]
        at = block.old_end
    return [(content, (own or dominant) if end else "") for (content, end), own in zip(after, chosen, strict=True)]


def _keep_final(before: list[tuple[str, str]], made: list[tuple[str, str]], contents: tuple[list[str], list[str]]) -> None:
    """Let an untouched last line end as it did, unless its newline is all that was changed."""
    if contents[0] == contents[1] or contents[0][-1] != contents[1][-1]:
        return
    content, end = made[-1]
    if bool(end) != bool(before[-1][1]):
        made[-1] = (content, before[-1][1])
