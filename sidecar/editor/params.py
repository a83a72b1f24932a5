"""How the params of both doors are read; each fault says how to do it right. Raises EditorFault."""

from typing import Any, Final, cast

from sidecar.errors import EditorFault

COMMAND_PREFIX: Final = "sidecar."
EXECUTE_COMMAND: Final = "workspace/executeCommand"


def object_params(name: str, params: Any) -> dict[str, Any]:
    """Return the params as an object; none at all are an empty one. ``name`` stands in the error."""
    if params is None:
        return {}
    if not isinstance(params, dict):
        raise EditorFault(f"{name}: params must be one JSON object, or be left out")
    return cast("dict[str, Any]", params)


def command_call(params: Any) -> tuple[str, Any]:
    """Return the operation a ``workspace/executeCommand`` names, and its arguments as they came."""
    given = object_params(EXECUTE_COMMAND, params)
    command = given.get("command")
    if not isinstance(command, str):
        raise EditorFault(f"{EXECUTE_COMMAND}: command must be a string")
    if not command.startswith(COMMAND_PREFIX):
        raise EditorFault(
            f"{EXECUTE_COMMAND}: {command[:80]!a} is not a command of this server; its commands begin with sidecar."
        )
    return command.removeprefix(COMMAND_PREFIX), given.get("arguments")


def only_argument(name: str, arguments: Any) -> dict[str, Any]:
    """Return the one object among the arguments of a command; none at all are an empty one."""
    values = cast("list[Any]", arguments) if isinstance(arguments, list) else [arguments]
    if len(values) > 1:
        raise EditorFault(f"{name}: {len(values)} arguments were given; put everything into one JSON object, the only argument")
    if not values or values[0] is None:
        return {}
    if not isinstance(values[0], dict):
        raise EditorFault(f"{name}: the only argument must be one JSON object, or be left out")
    return cast("dict[str, Any]", values[0])
