"""The contract suites, each run on something that keeps it and on something that breaks it."""

import pytest

from upshot.models import ScriptedModel
from upshot.testing import ModelContract, ToolContract
from upshot.tools import tool


@tool(effect="read", idempotent=True)
async def length(text: str) -> int:
    """How long a text is."""
    return len(text)


@tool(effect="write", approval=True)
def keep(text: str) -> str:
    """Keeps a text."""
    return text


class TestReader(ToolContract):
    arguments = {"text": "words"}

    def make(self):
        return length


class TestWriter(ToolContract):
    arguments = {"text": "words"}

    def make(self):
        return keep


class TestModel(ModelContract):
    def make(self):
        return ScriptedModel(["Hello yourself."])


@tool(effect="read", idempotent=True)
async def bad(text: str):
    raise ValueError("always")


class Broken(ToolContract):
    arguments = {"text": "words"}

    def make(self):
        return bad


@pytest.mark.parametrize(
    "name",
    [
        "test_it_says_what_it_does",
        "test_its_arguments_give_a_result",
        "test_what_claims_to_be_idempotent_can_be_called_again",
    ],
)
def test_a_bad_tool_is_found_out(name):
    with pytest.raises(AssertionError):
        getattr(Broken(), name)()
