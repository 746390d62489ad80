"""ToolContract: what every tool must do."""

from __future__ import annotations

import asyncio
import json

from ..contract import (
    Effect,
    JsonObject,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolOutcome,
    decode,
    encode,
    outcome_to_model_content,
)
from ..tools import Tool, Toolbox

__all__ = ["ToolContract"]

_COUNT = 5


class ToolContract:
    """A suite for pytest: inherit, and give a ``make`` that returns the tool.

    ::

        class TestOrderStatus(ToolContract):
            arguments = {"order_id": "7"}

            def make(self):
                return order_status

    Attributes:
        arguments: Arguments with which it succeeds, several times in a row.
    """

    arguments: JsonObject = {}

    def make(self) -> Tool:
        """The tool, ready to be called."""
        raise NotImplementedError("a ToolContract gives the tool in make()")

    def test_it_says_what_it_does(self) -> None:
        """A model can only choose what is described."""
        assert self.make().description.strip(), "the tool has no description"

    def test_its_schema_is_one(self) -> None:
        """JSON Schema of an object that the example arguments fit."""
        tool = self.make()
        assert tool.parameters.get("type", "object") == "object"
        properties = tool.parameters.get("properties", {})
        assert isinstance(properties, dict)
        assert not isinstance(self._call(), ToolDenied), "its own arguments are refused"

    def test_it_is_the_same_tool_each_time(self) -> None:
        """Approvals and pins know it by its version."""
        assert self.make().version == self.make().version

    def test_its_arguments_give_a_result(self) -> None:
        """The example succeeds."""
        outcome = self._call()
        assert not isinstance(outcome, ToolDenied), outcome
        assert getattr(outcome, "error", None) is None, outcome

    def test_a_reader_has_no_effect(self) -> None:
        """What may write has applied something after a success, what reads has not."""
        expected = Effect.APPLIED if self.make().may_write else Effect.NONE
        assert self._call().effect is expected

    def test_its_outcome_can_be_kept(self) -> None:
        """It is written and read back the same."""
        outcome = self._call()
        assert decode(encode(outcome), type(outcome)) == outcome

    def test_a_model_can_read_its_outcome(self) -> None:
        """The text for the model is JSON."""
        json.loads(outcome_to_model_content(self._call()))

    def test_arguments_that_are_no_object_never_reach_it(self) -> None:
        """They are denied."""
        outcome = self._dispatch([ToolCall("c", self.make().name, "[1")])[0]
        assert isinstance(outcome, ToolDenied)

    def test_calls_at_once_have_one_outcome_each(self) -> None:
        """In call order."""
        name = self.make().name
        outcomes = self._dispatch([ToolCall(f"c{n}", name, self.arguments) for n in range(_COUNT)])
        assert [outcome.call_id for outcome in outcomes] == [f"c{n}" for n in range(_COUNT)]

    def test_what_claims_to_be_idempotent_can_be_called_again(self) -> None:
        """A second call in another turn succeeds as the first did."""
        tool = self.make()
        if not tool.idempotent:
            return
        box = Toolbox([tool], approve=lambda call: True)
        first = asyncio.run(box.dispatch([ToolCall("c1", tool.name, self.arguments)]))
        box.new_turn()
        second = asyncio.run(box.dispatch([ToolCall("c2", tool.name, self.arguments)]))
        assert [type(one) for one in first] == [type(one) for one in second]
        assert isinstance(second[0], ToolExecutionResult), second

    def _call(self) -> ToolOutcome:
        return self._dispatch([ToolCall("c", self.make().name, self.arguments)])[0]

    def _dispatch(self, calls: list[ToolCall]) -> list[ToolOutcome]:
        box = Toolbox([self.make()], approve=lambda call: True)
        return asyncio.run(box.dispatch(calls))
