"""ToolContract: what every tool must do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager
from typing import cast

from ..contract import (
    Effect,
    JsonObject,
    ToolArtifactReference,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolOutcome,
    decode,
    encode,
)
from ..tools import Tool, Toolbox
from .check import Role, Suite, check, skip
from .sample import sample_of

__all__ = ["ToolContract"]

_AT_ONCE = 5
# What says that other arguments than those that are named may be sent.
_FREE = ("additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf")


class _ToolRole(Role):
    def check(self, subject: object, who: str) -> None:
        super().check(subject, who)
        if not isinstance(subject, Tool):
            kind = type(subject).__name__
            made = f"make it one with @tool: {kind}" if callable(subject) else kind
            raise AssertionError(f"{who} gave no tool of upshot: {made}")


class ToolContract(Suite):
    """A suite for pytest: inherit, and give a ``make`` that returns the tool.

    ::

        class TestOrderStatus(ToolContract):
            arguments = {"order_id": "7"}

            def make(self):
                return order_status

    Attributes:
        arguments: Arguments with which it succeeds, several times in a row and at once; None has
            small ones made up from its schema.
        patience_s: How many seconds a check may take; a longer one is red.
    """

    arguments: JsonObject | None = None
    _role: Role = _ToolRole("a tool")

    def make(self) -> Tool | Awaitable[Tool] | AbstractAsyncContextManager[Tool]:
        """The tool, ready to be called.

        A coroutine of it will do, and so will an async context manager.
        """
        raise NotImplementedError("a ToolContract gives the tool in make()")

    @check
    async def test_it_says_what_it_does(self) -> None:
        """A model can only choose what is described."""
        async with self._made() as tool:
            told, name = tool.description, tool.name
        if not told.strip():
            raise skip(f"the tool {name} has no description: a model has only its name to go by")

    @check
    async def test_its_schema_is_one(self) -> None:
        """JSON Schema of an object that names the example arguments, which fit it."""
        async with self._made() as tool:
            schema, outcome = tool.parameters, await self._call(tool)
        named = cast("JsonObject", schema.get("properties", {}))
        unnamed = sorted(name for name in self.arguments or () if name not in named)
        is_free = any(schema.get(word, False) is not False for word in _FREE)
        assert is_free or not unnamed, f"its schema does not name {', '.join(unnamed)}"
        is_refused = isinstance(outcome, ToolDenied)
        assert not is_refused, f"{self._whose} arguments are refused: {outcome}"

    @check
    async def test_it_is_the_same_tool_each_time(self) -> None:
        """Approvals and pins know it by its version."""
        versions = list[str]()
        for _ in range(2):
            async with self._made() as tool:
                versions.append(tool.version)
        told = " and ".join(versions)
        assert len(set(versions)) == 1, f"make() gave the versions {told}: name or schema differ"

    @check
    async def test_its_arguments_give_a_result(self) -> None:
        """The example succeeds."""
        async with self._made() as tool:
            self._succeeded(await self._call(tool))

    @check
    async def test_a_reader_has_no_effect(self) -> None:
        """What may write has applied something after a success, what reads has not."""
        async with self._made() as tool:
            expected = Effect.APPLIED if tool.may_write else Effect.NONE
            outcome = await self._call(tool)
        said = f"it is declared {tool.declared_effect}, and its effect is {outcome.effect}"
        assert outcome.effect is expected, f"{said}: {outcome}"

    @check
    async def test_its_outcome_can_be_kept(self) -> None:
        """What it returns has a JSON form; it is written and read back the same."""
        async with self._made() as tool:
            outcome = await self._call(tool)
        self._succeeded(outcome)
        kept = decode(encode(outcome), type(outcome))
        assert kept == outcome, f"{outcome} was written, and {kept} was read"

    @check
    async def test_one_of_it_serves_many_runs_at_once(self) -> None:
        """Nothing that it keeps belongs to one run only."""
        async with self._made() as tool:
            calls = [self._call(tool) for _ in range(_AT_ONCE)]
            for outcome in await asyncio.gather(*calls):
                self._succeeded(outcome)

    @check
    async def test_what_claims_to_be_idempotent_can_be_called_again(self) -> None:
        """A second call in another turn succeeds as the first did."""
        async with self._made() as tool:
            if not tool.idempotent:
                raise skip(f"the tool {tool.name} does not claim to be idempotent")
            box = _box(tool)
            for turn in ("c1", "c2"):
                (outcome,) = await box.dispatch([self._call_of(tool, turn)])
                self._succeeded(outcome)
                box.new_turn()

    @property
    def _whose(self) -> str:
        return "its own" if self.arguments is not None else "made-up (give `arguments`)"

    def _call_of(self, tool: Tool, call_id: str) -> ToolCall:
        given = self.arguments
        return ToolCall(call_id, tool.name, sample_of(tool.parameters) if given is None else given)

    async def _call(self, tool: Tool) -> ToolOutcome:
        (outcome,) = await _box(tool).dispatch([self._call_of(tool, "c")])
        return outcome

    def _succeeded(self, outcome: ToolOutcome) -> None:
        said = f"{self._whose} arguments gave {outcome}"
        assert isinstance(outcome, ToolExecutionResult | ToolArtifactReference), said


def _box(tool: Tool) -> Toolbox:
    return Toolbox([tool], approve=lambda call: True)
