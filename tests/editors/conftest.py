"""Fixtures of the tests that drive real editors."""

from tests.agents.conftest import codex_acp, example_agent, model_server, work_folder

__all__ = ["codex_acp", "example_agent", "model_server", "work_folder"]
