"""JSON at the borders: bytes to values, values to the attrs classes of a wire, and back. Pure."""

from sidecar.codec.text import MAX_DEPTH, NotJson, decode, encode, encode_line, encode_plain
from sidecar.codec.wire import ABSENT, Absent, BadShape, Unknown, Wire, converter

__all__ = [
    "ABSENT",
    "MAX_DEPTH",
    "Absent",
    "BadShape",
    "NotJson",
    "Unknown",
    "Wire",
    "converter",
    "decode",
    "encode",
    "encode_line",
    "encode_plain",
]
