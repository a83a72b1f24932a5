"""The wrapper every secret value travels in, from where it is resolved to where it is used."""

from typing import Any


class SecretText:
    """Text that must reach no log, repr, store or record: tokens, authorisation URLs. Read it with ``reveal()``.

    ``str``, ``repr``, ``format`` and ``pickle`` give a placeholder. Two are equal when their texts are.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself; call only where it is used."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretText) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "SecretText(***)"

    def __str__(self) -> str:
        return "***"

    def __format__(self, format_spec: str) -> str:
        return "***"

    def __reduce__(self) -> str | tuple[Any, ...]:
        return (SecretText, ("***",))


_SECRET_WORDS = (
    "secret",
    "token",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "credential",
    "cookie",
    "authorization",
    "bearer",
)
_PLACE_ENDINGS = ("_file", "_path", "_dir", "_home", "_sock")
_SECRET_ENDINGS = ("_key", "_auth", "_pat", "_pass", "_pwd")


def looks_secret(name: str) -> bool:
    """Tell whether a name (of an environment variable, header or field) suggests that its value is a secret."""
    plain = name.lower().replace("-", "_")
    if plain.endswith(_PLACE_ENDINGS):
        return False
    return any(word in plain.replace("_", "") for word in _SECRET_WORDS) or plain.endswith(_SECRET_ENDINGS) or plain == "key"
