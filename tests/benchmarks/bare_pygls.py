"""The reference for the cold start: a language server of pygls that does nothing."""

from pygls.lsp.server import LanguageServer

LanguageServer("bare", "1").start_io()
