"""ToolContract: what every tool must do."""

from __future__ import annotations

import asyncio
import math
from typing import cast
from unittest import SkipTest

from upshot.contract.base.enums import Effect
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.codec import decode, encode
from upshot.contract.tool_calls import (
    ToolArtifactReference,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolOutcome,
)
from upshot.testing.suite import Role, Suite
from upshot.tools.definition.tool import Tool
from upshot.tools.toolbox import Toolbox

# A schema nested deeper than this refers to itself.
_MAX_DEPTH = 20
_TEXTS = {
    "date-time": "2026-01-01T00:00:00Z",
    "date": "2026-01-01",
    "time": "00:00:00Z",
    "duration": "PT1S",
    "email": "somebody@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "127.0.0.1",
    "ipv6": "::1",
}


def sample_of(schema: JsonObject) -> JsonObject:
    """Return a small object that fits *schema*: its required properties, within their limits.

    Patterns and conditions are ignored.
    """
    made = _made(schema, schema, 0)
    return made if isinstance(made, dict) else {}


def _made(schema: Json, root: JsonObject, depth: int) -> Json:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return None
    for word in ("const", "default"):
        if word in schema:
            return schema[word]
    for word in ("enum", "examples"):
        if choices := _list(schema.get(word)):
            return choices[0]
    if isinstance(place := schema.get("$ref"), str):
        return _made(_found(place, root), root, depth + 1)
    for word in ("anyOf", "oneOf", "allOf"):
        if choices := _list(schema.get(word)):
            # Avoid null: it tests the least of the tool.
            best = next((one for one in choices if one != {"type": "null"}), None)
            return _made({**schema, **cast("JsonObject", best or {}), word: []}, root, depth + 1)
    return _of_type(schema, root, depth)


def _of_type(schema: JsonObject, root: JsonObject, depth: int) -> Json:
    kinds = _list(schema.get("type")) or [schema.get("type")]
    match next((kind for kind in kinds if kind != "null"), None):
        case "object":
            named = cast("JsonObject", schema.get("properties", {}))
            needed = (name for name in _list(schema.get("required")) if isinstance(name, str))
            return {name: _made(named.get(name), root, depth + 1) for name in needed}
        case "array":
            items = _list(schema.get("prefixItems"))
            if items:
                return [_made(one, root, depth + 1) for one in items]
            count = max(1, int(_number(schema, "minItems", 1)))
            return [_made(schema.get("items"), root, depth + 1)] * count
        case "string":
            text = _TEXTS.get(str(schema.get("format")), "1")
            return text.ljust(int(_number(schema, "minLength", 0)), "1")
        case "integer":
            return int(_within(schema))
        case "number":
            return _within(schema)
        case "boolean":
            return True
        case _:
            return None


def _within(schema: JsonObject) -> float:
    """Return one, or a number near the limits of *schema* that they allow."""
    step = _number(schema, "multipleOf", 1)
    bounds = [
        _number(schema, word, math.nan)
        for word in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
    ]
    low = next((one for one in bounds[:2] if not math.isnan(one)), math.nan)
    high = next((one for one in bounds[2:] if not math.isnan(one)), math.nan)
    near = (low, low + step, -(-low // step) * step, high, high - step, high // step * step)
    for one in (1, step, 2 * step, *near, (low + high) / 2):
        too_low, too_high = one < bounds[0] or one <= bounds[1], one > bounds[2] or one >= bounds[3]
        if not math.isnan(one) and not too_low and not too_high and not _has_rest(schema, one):
            return one
    return 1


def _has_rest(schema: JsonObject, number: float) -> bool:
    step = schema.get("multipleOf")
    return isinstance(step, int | float) and number % step != 0


def _number(schema: JsonObject, word: str, otherwise: float) -> float:
    found = schema.get(word)
    return found if isinstance(found, int | float) else otherwise


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _found(place: str, root: JsonObject) -> Json:
    """Return what a reference of the form ``#/$defs/Name`` names."""
    found: Json = root
    for step in place.lstrip("#").strip("/").split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) and name else found
    return found


_AT_ONCE = 5
# Schema keywords that allow other arguments than the named ones.
_FREE = ("additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf")


class _ToolRole(Role):
    def check(self, subject: object, who: str) -> None:
        super().check(subject, who)
        if not isinstance(subject, Tool):
            kind = type(subject).__name__
            made = f"make it one with @tool: {kind}" if callable(subject) else kind
            raise AssertionError(f"{who} gave no upshot tool: {made}")


class ToolContract(Suite[Tool]):
    """A suite for pytest: inherit, and define a ``make`` that returns the tool.

    ::

        class TestOrderStatus(ToolContract):
            arguments = {"order_id": "7"}

            def make(self):
                return order_status

    Attributes:
        arguments: Arguments with which it succeeds, several times in a row and at once; None makes
            small ones from its schema.
    """

    arguments: JsonObject | None = None
    _role: Role = _ToolRole("a tool")

    async def test_it_says_what_it_does(self) -> None:
        """A model can only choose what is described."""
        async with self._made() as tool:
            description, name = tool.description, tool.name
        if not description.strip():
            raise SkipTest(f"the tool {name} has no description: a model sees only its name")

    async def test_its_schema_is_one(self) -> None:
        """It is the JSON Schema of an object; it names the example arguments, and they fit."""
        async with self._made() as tool:
            schema, outcome = tool.parameters, await self._call(tool)
        named = cast("JsonObject", schema.get("properties", {}))
        unnamed = sorted(name for name in self.arguments or () if name not in named)
        is_free = any(schema.get(word, False) is not False for word in _FREE)
        assert is_free or not unnamed, f"its schema does not name {', '.join(unnamed)}"
        is_refused = isinstance(outcome, ToolDenied)
        assert not is_refused, f"{self._whose} arguments are refused: {outcome}"

    async def test_it_is_the_same_tool_each_time(self) -> None:
        """Its version is the same each time; approvals and pins identify the tool by it."""
        versions = list[str]()
        for _ in range(2):
            async with self._made() as tool:
                versions.append(tool.version)
        shown = " and ".join(versions)
        assert len(set(versions)) == 1, f"make() gave the versions {shown}: name or schema differ"

    async def test_its_arguments_give_a_result(self) -> None:
        """The example succeeds."""
        async with self._made() as tool:
            self._succeeded(await self._call(tool))

    async def test_a_reader_has_no_effect(self) -> None:
        """After a success, a tool that may write reports an applied effect, a reader none."""
        async with self._made() as tool:
            expected = Effect.APPLIED if tool.may_write else Effect.NONE
            outcome = await self._call(tool)
        problem = f"it is declared {tool.declared_effect}, and its effect is {outcome.effect}"
        assert outcome.effect is expected, f"{problem}: {outcome}"

    async def test_its_outcome_can_be_kept(self) -> None:
        """Its result has a JSON form that is read back equal."""
        async with self._made() as tool:
            outcome = await self._call(tool)
        self._succeeded(outcome)
        kept = decode(encode(outcome), type(outcome))
        assert kept == outcome, f"{outcome} was written, and {kept} was read"

    async def test_one_of_it_serves_many_runs_at_once(self) -> None:
        """None of its state belongs to one run only."""
        async with self._made() as tool:
            calls = [self._call(tool) for _ in range(_AT_ONCE)]
            for outcome in await asyncio.gather(*calls):
                self._succeeded(outcome)

    async def test_what_claims_to_be_idempotent_can_be_called_again(self) -> None:
        """A second call in another turn succeeds like the first."""
        async with self._made() as tool:
            if not tool.idempotent:
                raise SkipTest(f"the tool {tool.name} does not claim to be idempotent")
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
        problem = f"{self._whose} arguments gave {outcome}"
        assert isinstance(outcome, ToolExecutionResult | ToolArtifactReference), problem


def _box(tool: Tool) -> Toolbox:
    return Toolbox([tool], approve=lambda call: True)
