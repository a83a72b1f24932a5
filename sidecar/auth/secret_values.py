"""From a reference in the configuration to the secret itself, at the moment it is used.

Everything resolved is registered with the log, so that it is found by value wherever it turns up.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from sidecar.config import CommandSecret, EnvironmentSecret, SecretReference, SecretValue, StoredSecret, private_directory
from sidecar.errors import ConfigFault, Unavailable
from sidecar.log import register_secret
from sidecar.secret import SecretText, looks_secret
from sidecar.store.secrets import SecretStore
from sidecar.transport.process import Completed, run_once
from sidecar.transport.programs import resolve_program

COMMAND_SECONDS: Final = 30.0


class RunCommand(Protocol):
    """Runs ``argv`` to its end and returns what became of it: a ``CommandRunner``, or a stand-in."""

    async def __call__(self, argv: Sequence[str], seconds: float) -> Completed:
        """Raise ``Unavailable`` when the program cannot be started."""
        ...


class CommandRunner:
    """Runs the programs a configuration names for secrets: from ``folder``, never looked up in a workspace, no shell.

    ``folder`` is a folder of ours (the state folder), made when missing. ``forbidden`` are the workspace folders, where no
    program is looked for; the sequence is read at each run, so it may grow.
    """

    def __init__(self, folder: str, environ: Mapping[str, str] | None = None, forbidden: Sequence[str] = ()) -> None:
        self._folder = folder
        self._environ = dict(os.environ if environ is None else environ)
        self._forbidden = forbidden

    async def __call__(self, argv: Sequence[str], seconds: float) -> Completed:
        program = resolve_program(argv[0], path=self._environ.get("PATH", ""), forbidden=self._forbidden)
        return await run_once([program, *argv[1:]], timeout=seconds, cwd=self._working_folder(), env=self._environ)

    def _working_folder(self) -> str:
        try:
            return str(private_directory(Path(self._folder)))
        except Unavailable:
            # A home that cannot be written takes nothing from a program that only reads.
            return Path(self._folder).anchor


OpenStore: TypeAlias = Callable[[], SecretStore]


class SecretResolver:
    """Resolves references; the secret store is opened on the first ``{ secret = … }``, since most configurations need none."""

    def __init__(self, open_store: OpenStore, run: RunCommand, environ: Mapping[str, str] | None = None) -> None:
        """Take how to open the store, how to run a program, and the environment ``{ env = … }`` reads."""
        self._open_store = open_store
        self._store: SecretStore | None = None
        self._run = run
        self._environ = os.environ if environ is None else environ

    async def resolve(self, value: SecretValue) -> SecretText:
        """Return the secret. Raises ``ConfigFault`` when it is not there and ``Unavailable`` when it cannot be had now."""
        if isinstance(value, SecretText):
            return value
        secret = await self._look_up(value)
        register_secret(secret)
        return secret

    async def resolve_table(self, table: Mapping[str, SecretValue]) -> dict[str, str]:
        """Return headers or environment variables with their secrets in place, as plain text for the wire."""
        plain: dict[str, str] = {}
        for name, value in table.items():
            secret = await self.resolve(value)
            if looks_secret(name):
                register_secret(secret)
            plain[name] = secret.reveal()
        return plain

    async def resolve_environment(self, table: Mapping[str, SecretValue | None]) -> dict[str, str | None]:
        """Return an agent's ``env`` with its secrets in place; None still means that the variable is removed."""
        set_here = {name: value for name, value in table.items() if value is not None}
        plain = await self.resolve_table(set_here)
        return {name: plain.get(name) for name in table}

    async def _look_up(self, reference: SecretReference) -> SecretText:
        match reference:
            case EnvironmentSecret(variable=variable):
                found = self._environ.get(variable)
                if not found:
                    raise ConfigFault(
                        f"the environment variable {variable}, which the configuration names for a secret, is not set"
                    )
                return SecretText(found)
            case StoredSecret(name=name):
                return await self._stored(name)
            case CommandSecret(argv=argv):
                return await self._printed(argv)

    async def _stored(self, name: str) -> SecretText:
        if self._store is None:
            self._store = self._open_store()
        secret = await self._store.get(name)
        if secret is None:
            raise ConfigFault(f'no secret "{name}" is kept ({self._store.kind}); store it with: sidecar config set-secret {name}')
        return secret

    async def _printed(self, argv: Sequence[str]) -> SecretText:
        output = await checked_output(self._run, argv)
        line = output.decode("utf-8", "replace").split("\n", 1)[0].strip()
        if not line:
            raise Unavailable(f"the secret command {argv[0]} printed nothing; it must print the secret on its first line")
        return SecretText(line)


async def checked_output(run: RunCommand, argv: Sequence[str]) -> bytes:
    """Return what the program printed; its output never stands in an error.

    Raises ``Unavailable`` when it cannot be started, takes too long, prints too much, or fails.
    """
    done = await run(argv, COMMAND_SECONDS)
    if done.timed_out:
        raise Unavailable(f"the secret command {argv[0]} did not end within {COMMAND_SECONDS:g} s; it must not wait for input")
    if done.status.code != 0:
        raise Unavailable(f"the secret command {argv[0]} {done.status}; run it in a terminal to see why")
    if done.truncated:
        raise Unavailable(f"the secret command {argv[0]} printed too much to be a secret")
    return done.stdout
