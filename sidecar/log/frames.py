"""Exceptions as text that may leave the process: class names, and frames with base names only.

The text of an exception is shown only when the exception is ours (its message is written for people and holds no body) or the
operating system's; what a library puts into its messages may be anything.
"""

from collections.abc import Iterator
from types import TracebackType
from typing import Final, cast

from sidecar.errors import SidecarError
from sidecar.log.redaction import redact

MAX_FRAMES: Final = 60
MAX_LINKED: Final = 8
MAX_MEMBERS: Final = 8


def describe_exception(error: BaseException) -> str:
    """Return one line: the class and, where it is safe, the redacted text."""
    name = type(error).__name__
    if isinstance(error, SidecarError):
        return f"{name}: {redact(error.message)}"
    if isinstance(error, OSError) and error.strerror:
        return f"{name}: {redact(error.strerror)}"
    return name


def frame_lines(traceback: TracebackType | None) -> list[str]:
    """Return ``file.py:12 in function`` for each frame, outermost first; long ones keep both ends."""
    lines: list[str] = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        base = code.co_filename.replace("\\", "/").rsplit("/", 1)[-1]
        lines.append(f"{redact(base)}:{traceback.tb_lineno} in {redact(code.co_name)}")
        traceback = traceback.tb_next
    if len(lines) > MAX_FRAMES:
        half = MAX_FRAMES // 2
        lines[half:-half] = [f"({len(lines) - MAX_FRAMES} frames left out)"]
    return lines


def exception_lines(error: BaseException, *, with_text: bool = True) -> list[str]:
    """Return the exception, its causes and the members of a group, each with its frames, as lines without secrets."""
    return list(_lines(error, with_text, set(), ""))


def _lines(error: BaseException, with_text: bool, seen: set[int], prefix: str) -> Iterator[str]:
    if id(error) in seen or len(seen) >= MAX_LINKED * MAX_MEMBERS:
        return
    seen.add(id(error))
    yield f"{prefix}{describe_exception(error) if with_text else type(error).__name__}"
    for line in frame_lines(error.__traceback__):
        yield f"{prefix}  {line}"
    if isinstance(error, BaseExceptionGroup):
        members = cast("tuple[BaseException, ...]", cast("BaseExceptionGroup[BaseException]", error).exceptions)
        for member in members[:MAX_MEMBERS]:
            yield from _lines(member, with_text, seen, f"{prefix}  ")
    linked = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if linked is not None:
        yield f"{prefix}caused by" if error.__cause__ else f"{prefix}while handling"
        yield from _lines(linked, with_text, seen, prefix)
