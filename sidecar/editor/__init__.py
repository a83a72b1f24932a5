"""The LSP front: the only package that imports pygls or lsprotocol, and both only once an editor is there."""
