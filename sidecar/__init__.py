"""A language server that gives any LSP editor a coding agent."""

__version__ = "0.1.0"
