"""The suite of tools: run on sound ones and on broken ones."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import SkipTest

import pytest

from tests.testing.suites import assert_red, assert_skipped, checks_of, run_check, tried_by
from upshot.testing import ToolContract
from upshot.tools import Tool, ToolError, tool


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

    def make(self) -> Tool:
        return length


class TestWriter(ToolContract):
    arguments = {"text": "words"}

    def make(self) -> Tool:
        return keep


class TestLarge(ToolContract):
    """What it returns is kept as an artifact."""

    def make(self) -> Tool:
        @tool(effect="read")
        def page() -> str:
            """A long page."""
            return "word " * 10_000

        return page


class TestAnyArguments(ToolContract):
    arguments = {"text": "words"}

    async def make(self) -> Tool:
        schema = {"type": "object", "additionalProperties": True}
        return Tool.from_schema("any", "Takes anything.", schema, _echo, effect="read")


async def _echo(arguments: Any) -> Any:
    return arguments


def mute() -> Tool:
    @tool(effect="read")
    def says_nothing(text: str) -> str:
        return text

    return says_nothing


def vague() -> Tool:
    return Tool.from_schema("vague", "Says what it takes nowhere.", {}, _echo, effect="read")


def numeric() -> Tool:
    @tool(effect="read")
    def square(text: int) -> int:
        """Takes a number only."""
        return text * text

    return square


def one_more() -> Any:
    numbers = iter(range(100))

    def make() -> Tool:
        name = f"numbered_{next(numbers)}"
        return Tool.from_schema(name, "Another one.", {}, _echo, effect="read")

    return make


def failing() -> Tool:
    @tool(effect="read")
    def fail(text: str) -> str:
        """Fails."""
        raise ToolError("there is no such text")

    return fail


def doubtful() -> Tool:
    @tool(effect="write")
    async def doubt(text: str) -> str:
        """Keeps a text, or does not."""
        raise ToolError("who knows")

    return doubt


def opaque() -> Tool:
    @tool(effect="read")
    def give(text: str) -> Any:
        """Gives what nobody can write down."""
        return object()

    return give


def jealous() -> Tool:
    guests: set[str] = set()

    @tool(effect="read")
    async def serve(text: str) -> str:
        """Serves one at a time."""
        if guests:
            raise ToolError("somebody is here")
        guests.add(text)
        await asyncio.sleep(0)
        guests.clear()
        return text

    return serve


def once_only() -> Tool:
    done: list[str] = []

    @tool(effect="write", idempotent=True)
    async def create(text: str) -> str:
        """Claims what is not so."""
        done.append(text)
        if len(done) > 1:
            raise ToolError("it is there already")
        return text

    return create


@pytest.mark.parametrize(
    ("make", "check", "words"),
    [
        (vague, "test_its_schema_is_one", "its schema does not name text"),
        (numeric, "test_its_schema_is_one", "its own arguments are refused"),
        (one_more(), "test_it_is_the_same_tool_each_time", "name or schema differ"),
        (failing, "test_its_arguments_give_a_result", "there is no such text"),
        (
            doubtful,
            "test_a_reader_has_no_effect",
            "declared write, and its effect is unknown",
        ),
        (opaque, "test_its_outcome_can_be_kept", "its output cannot be used"),
        (jealous, "test_one_of_it_serves_many_runs_at_once", "somebody is here"),
        (
            once_only,
            "test_what_claims_to_be_idempotent_can_be_called_again",
            "it is there already",
        ),
    ],
)
def test_a_broken_tool_is_found_out(make: Any, check: str, words: str) -> None:
    assert_red(ToolContract, check, make, words, arguments={"text": "words"})


def test_every_check_of_the_suite_is_tried() -> None:
    tried = tried_by(test_a_broken_tool_is_found_out)
    assert tried | {"test_it_says_what_it_does"} == checks_of(ToolContract)


def test_a_tool_without_a_description_is_no_fault_and_not_green() -> None:
    words = "the tool says_nothing has no description"
    assert_skipped(ToolContract, "test_it_says_what_it_does", mute, words)


class TestMadeUp(ToolContract):
    """Without ``arguments``: some are made up."""

    def make(self) -> Tool:
        @tool(effect="read", idempotent=True)
        def add(a: int, tags: list[str], b: float = 2) -> dict[str, Any]:
            """Add."""
            return {"sum": a / b, "tags": [tag.strip() for tag in tags]}

        return add


def test_what_was_made_up_is_told_where_it_does_not_do() -> None:
    check = "test_its_arguments_give_a_result"
    assert_red(ToolContract, check, failing, "made-up (give `arguments`) arguments gave")
    assert_red(ToolContract, check, failing, "its own arguments gave", arguments={"text": "x"})


def test_a_function_is_told_from_a_tool() -> None:
    def plain(text: str) -> str:
        return text

    assert_red(ToolContract, "test_it_says_what_it_does", lambda: plain, "make it one with @tool")


def test_what_is_not_idempotent_is_not_called_again() -> None:
    with pytest.raises(SkipTest, match="keep does not claim"):
        run_check(
            ToolContract, "test_what_claims_to_be_idempotent_can_be_called_again", lambda: keep
        )
