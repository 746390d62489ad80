"""A Toolbox's tools for other frameworks, as far as that can be seen without them."""

import importlib.util

import pytest

from upshot.errors import Misuse
from upshot.tools import Toolbox


@pytest.mark.parametrize(
    ("method", "module"),
    [
        ("for_pydantic_ai", "pydantic_ai"),
        ("for_openai_agents", "agents"),
        ("for_langchain", "langchain_core"),
    ],
)
def test_a_framework_that_is_missing_is_named(method, module):
    if importlib.util.find_spec(module) is not None:
        pytest.skip(f"{module} is installed")
    with pytest.raises(Misuse, match="pip install"):
        getattr(Toolbox([]), method)()
