"""The contract suites, each run on something that keeps it and on something that breaks it."""

import pytest

from upshot.contract import Decider, Observer
from upshot.models import ScriptedModel
from upshot.testing import DeciderContract, ModelContract, ObserverContract, ToolContract
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


class TestObserver(ObserverContract):
    def make(self):
        return Observer()


class TestDecider(DeciderContract):
    def make(self):
        return Decider()


class Raises(ObserverContract, DeciderContract):
    def make(self):
        class Raising(Observer, Decider):
            def on_run_start(self, info, request):
                raise ValueError("an observer that raises")

            def before_model(self, info, request):
                raise ValueError("a decider that raises")

        return Raising()


@pytest.mark.parametrize("name", ["test_it_lets_a_run_be", "test_it_lets_a_plain_run_pass"])
def test_a_hook_that_raises_is_found_out(name):
    with pytest.raises(AssertionError):
        getattr(Raises(), name)()


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
