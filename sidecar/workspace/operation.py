"""One operation of the contract's table: its name, its params as data, and how wrong ones are told."""

import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import attrs

from sidecar.errors import EditorFault

Kind: TypeAlias = Literal["string", "boolean", "integer", "object", "array", "any"]

_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "object": Mapping,
    "array": list,
    "any": object,
}
_WORDS: Final[Mapping[str, str]] = {
    "string": "a string",
    "boolean": "true or false",
    "integer": "a whole number",
    "object": "an object",
    "array": "a list",
    "any": "any value",
}


@attrs.frozen
class Param:
    """One member of an operation's params object."""

    name: str
    kind: Kind = "string"
    required: bool = False
    choices: Sequence[str] = ()
    doc: str = ""


Params: TypeAlias = Mapping[str, Any]


@attrs.frozen
class Operation:
    """A row of the table. ``open_ended`` takes members beside those named (an answer's own)."""

    name: str
    doc: str
    run: Callable[[Params], Awaitable[Any]]
    params: Sequence[Param] = ()
    result: str = "{}"
    open_ended: bool = False

    async def __call__(self, params: Params) -> Any:
        """Check ``params`` and run; raises ``EditorFault`` with a sentence that says the fix."""
        check(self, params)
        return await self.run(params)


def check(operation: Operation, params: Params) -> None:
    """Raise ``EditorFault`` for an unknown, missing or wrongly typed member."""
    known = {param.name: param for param in operation.params}
    for name, value in params.items():
        param = known.get(name)
        if param is None:
            if operation.open_ended:
                continue
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it takes {', '.join(known) or 'nothing'}"
            raise EditorFault(f"{operation.name}: unknown parameter {name!r}{hint}")
        _check_value(operation.name, param, value)
    for param in operation.params:
        if param.required and params.get(param.name) is None:
            raise EditorFault(f"{operation.name}: {param.name!r} is missing; give {_WORDS[param.kind]}")


def _check_value(operation: str, param: Param, value: Any) -> None:
    if value is None and not param.required:
        return
    right = isinstance(value, _TYPES[param.kind]) and not (param.kind == "integer" and isinstance(value, bool))
    if not right:
        raise EditorFault(f"{operation}: {param.name!r} must be {_WORDS[param.kind]}")
    if param.choices and value not in param.choices:
        raise EditorFault(f"{operation}: {param.name!r} must be one of {', '.join(param.choices)}")
