"""Opening an address the user agreed to at the terminal."""

import os
from collections.abc import Awaitable, Callable

from sidecar.cli.render import Tell
from sidecar.session.interaction import OpenUrl


def url_opener(tell: Tell) -> Callable[[OpenUrl], Awaitable[bool]]:
    """Return what hands an address to the system's opener and says how that went, without the address."""

    async def open_it(body: OpenUrl) -> bool:
        from sidecar.workspace.opener import open_url

        opening = await open_url(body.url, env=os.environ, workspaces=[os.getcwd()])  # noqa: PTH109 - text for text
        tell("info", opening.message)
        return opening.opened

    return open_it
