"""What the user sends, as content blocks (ACP v1, content)."""

from typing import Any

from sidecar.errors import EditorFault
from sidecar.session.lenient import object_or_none
from sidecar.workspace.operation import Params


def read_prompt(params: Params) -> tuple[str, list[dict[str, Any]]]:
    """Return the text and the blocks of an operation's ``text`` and ``context``; raises ``EditorFault`` when there is nothing."""
    text = params.get("text") or ""
    context: list[object] = params.get("context") or []
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text.strip() else []
    for index, item in enumerate(context):
        block = object_or_none(item)
        if block is None or not isinstance(block.get("type"), str):
            raise EditorFault(f"prompt: context[{index}] must be a content block with a type")
        blocks.append(dict(block))
    if not blocks:
        raise EditorFault("there is nothing to send; give text")
    return text, blocks
