"""What is loaded of the packages that the adapters read."""

import subprocess
import sys

import pytest

PACKAGES = (
    "pydantic_ai langgraph langchain langchain_core agents smolagents litellm aisuite openai "
    "strands agno google.adk claude_agent_sdk crewai agent_framework"
)


@pytest.mark.parametrize(
    "statement",
    ["import upshot", "from upshot.adapters import *", "from upshot.adapters import as_engine"],
)
def test_none_is_loaded_before_it_is_used(statement):
    program = f"import sys; {statement}; print(*(set(sys.modules) & set({PACKAGES.split()!r})))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == ""
