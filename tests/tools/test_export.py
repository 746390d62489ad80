"""A Toolbox's tools for other frameworks, as far as that can be seen without them."""

import importlib.util

import pytest

from upshot.errors import Misuse
from upshot.tools import Toolbox


@pytest.mark.parametrize(
    ("method", "module", "package"),
    [
        ("for_pydantic_ai", "pydantic_ai", "pydantic-ai-slim"),
        ("for_openai_agents", "agents", "openai-agents"),
        ("for_langchain", "langchain_core", "langchain-core"),
    ],
)
def test_a_framework_that_is_missing_is_named(method, module, package):
    if importlib.util.find_spec(module) is not None:
        pytest.skip(f"{module} is installed")
    with pytest.raises(Misuse, match=rf"is not installed: pip install {package}$"):
        getattr(Toolbox([]), method)()
