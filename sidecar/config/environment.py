"""The environment an agent is started with: the user's own and the configuration's changes, without the sidecar's secrets."""

from collections.abc import Iterable, Mapping
from typing import Final

from sidecar.config.settings import Settings
from sidecar.config.values import EnvironmentSecret

# Where the sidecar itself keeps things; an agent that is a sidecar again must find its own.
_OWN_VARIABLES: Final = ("SIDECAR_CONFIG", "SIDECAR_STATE")


def withheld_variables(settings: Settings) -> frozenset[str]:
    """Return the variables that hold secrets for the sidecar's own connections and forwarders: no child gets them."""
    values: list[object] = [connection.token for connection in settings.connections.values()]
    for forwarder in settings.forwarders.values():
        values.extend(forwarder.headers.values())
    return frozenset(value.variable for value in values if isinstance(value, EnvironmentSecret)) | frozenset(_OWN_VARIABLES)


def child_environment(
    inherited: Mapping[str, str], changes: Mapping[str, str | None], withheld: Iterable[str] = ()
) -> dict[str, str]:
    """Return ``inherited`` without ``withheld``, then with ``changes`` (resolved; None removes a variable)."""
    taken = frozenset(withheld)
    environment = {name: value for name, value in inherited.items() if name not in taken}
    for name, value in changes.items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    return environment
