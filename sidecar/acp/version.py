"""The version of ACP spoken here, apart from the classes of its messages, which take their time to load."""

from typing import Final

PROTOCOL_VERSION: Final = 1
