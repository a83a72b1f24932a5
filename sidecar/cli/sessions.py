"""``sidecar sessions``: the stored sessions, and with ``--agent`` those that agent lists itself. No file of an agent is read."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import anyio

from sidecar.cli.arguments import SessionsOptions
from sidecar.cli.output import write_text
from sidecar.cli.printing import print_json, print_table
from sidecar.cli.render import tell_on_stderr
from sidecar.cli.session_choice import absolute, agent_sessions
from sidecar.client import first_error, open_client
from sidecar.config import Configuration, load_configuration
from sidecar.errors import SidecarError

SHOWN: Final = ("sessionId", "agentSessionId", "agent", "title", "cwd", "updatedAt")


def main(options: SessionsOptions) -> int:
    """Print the sessions and return the exit code."""
    configuration = load_configuration(options.common.config)
    sessions = anyio.run(functools.partial(_list, options, configuration))
    shown = [{key: entry[key] for key in SHOWN if entry.get(key) is not None} for entry in sessions]
    shown.sort(key=lambda entry: str(entry.get("updatedAt", "")), reverse=True)
    if options.output == "json":
        print_json({"sessions": shown})
    elif shown:
        print_table(
            ("session", "agent", "updated", "folder", "title"),
            [[str(entry.get(key, "")) for key in (_id_key(entry), "agent", "updatedAt", "cwd", "title")] for entry in shown],
        )
    else:
        write_text("There are no sessions. sidecar run or an editor makes them.\n")
    return 0


def _id_key(entry: Mapping[str, Any]) -> str:
    return "sessionId" if "sessionId" in entry else "agentSessionId"


async def _list(options: SessionsOptions, configuration: Configuration) -> Sequence[Mapping[str, Any]]:
    narrowed = {"workspace": absolute(options.cwd)} if options.cwd is not None else {}
    found: list[Mapping[str, Any]] = []
    try:
        async with open_client(configuration, on_trouble=lambda text: tell_on_stderr("warning", text)) as client:
            if options.agent is not None:
                found = await agent_sessions(client, options.agent, narrowed)
            else:
                found = (await client.call("session.list", narrowed))["sessions"]
    except* SidecarError as group:
        raise first_error(group) from None
    return found
