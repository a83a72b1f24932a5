"""What of the user's environment no child gets: secrets that are for the sidecar's own connections."""

from collections.abc import Mapping

from sidecar.config.settings import Settings
from sidecar.config.values import EnvironmentSecret


def without_own_secrets(environment: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Return ``environment`` without the variables the configuration names as secrets of connections and forwarders.

    Agents get all the rest, since they break without the user's environment; a variable an agent needs itself can be given back
    with ``env = { NAME = { env = "NAME" } }``.
    """
    values: list[object] = [connection.token for connection in settings.connections.values()]
    for forwarder in settings.forwarders.values():
        values.extend(forwarder.headers.values())
    own = {value.variable for value in values if isinstance(value, EnvironmentSecret)}
    return {name: value for name, value in environment.items() if name not in own}
