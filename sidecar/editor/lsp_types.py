"""Loads the classes of lsprotocol, which is most of a start, without a ``__repr__`` of their own."""

import importlib
from typing import Any

import attrs


def load_lsp_types() -> None:
    """Import ``lsprotocol.types``; to be called before anything imports it the usual way, in which it does the same.

    It builds more than 500 attrs classes. Their reprs cost a good part of that, and the text of a message is to be in no log.
    """
    library: Any = attrs
    define = library.define

    def define_without_repr(*arguments: Any, **options: Any) -> Any:
        return define(*arguments, **{"repr": False, **options})

    library.define = define_without_repr
    try:
        importlib.import_module("lsprotocol.types")
    finally:
        library.define = define
