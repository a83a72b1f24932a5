"""The built-in agent: ACP protocol 1 with the Kiro V3 dialect on stdio, without a model and without a network.

It exists so that everything can be tried on a fresh machine. ``python -m sidecar.demo`` starts it; nothing imports it.
"""
