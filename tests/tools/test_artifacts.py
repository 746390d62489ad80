"""Stored outputs and the tool that reads them."""

from typing import Any

import pytest

from upshot.contract import (
    TOOL_MESSAGE_MAX_CHARS,
    Budget,
    RunInfo,
    ToolArtifactReference,
    ToolCall,
    ToolExecutionResult,
    ToolFailure,
)
from upshot.tools import InMemoryArtifacts, Toolbox, tool


@tool(effect="read")
def lines(count: int) -> str:
    return "".join(f"line {number}\n" for number in range(count))


async def stored(box: Toolbox) -> str:
    """Make the box store an output; gives its id."""
    outcome = (await box.dispatch([ToolCall("big", "lines", {"count": 5000})]))[0]
    assert isinstance(outcome, ToolArtifactReference)
    return outcome.artifact_id


async def read(box: Toolbox, **arguments: Any) -> Any:
    return (await box.dispatch([ToolCall("r", "read_artifact", arguments)]))[0]


async def test_pages_make_up_the_whole():
    box = Toolbox([lines])
    id, offset, text = await stored(box), 0, ""
    while offset is not None:
        page = (await read(box, id=id, offset=offset)).output
        text, offset = text + page["text"], page["next_offset"]
    assert text == lines(5000)


async def test_lines_are_searched():
    box = Toolbox([lines])
    page = (await read(box, id=await stored(box), pattern="LINE 49")).output
    assert page["text"].startswith("50: line 49\n491: line 490\n")


async def test_what_is_read_is_never_stored_again():
    box = Toolbox([lines])
    outcome = await read(box, id=await stored(box), limit=10**6)
    assert isinstance(outcome, ToolExecutionResult)
    assert len(str(outcome.output["text"])) <= 10_000


async def test_unknown_ids_and_those_of_other_runs_are_answered_alike():
    store = InMemoryArtifacts()
    mine = Toolbox([lines], artifacts=store, identity=RunInfo(run_id="mine"))
    other = Toolbox([lines], artifacts=store, identity=RunInfo(run_id="other"))
    id = await stored(mine)
    foreign, unknown = await read(other, id=id), await read(other, id="art-0")
    assert isinstance(foreign, ToolFailure)
    assert foreign.error.replace(id, "ID") == unknown.error.replace("art-0", "ID")
    assert foreign.retryable


@pytest.mark.parametrize(
    "arguments", [{"offset": -1}, {"limit": 0}, {"pattern": "x" * 1_001}], ids=str
)
async def test_arguments_that_make_no_sense_are_a_failure_to_try_again(arguments: Any):
    box = Toolbox([lines])
    outcome = await read(box, id=await stored(box), **arguments)
    assert isinstance(outcome, ToolFailure)
    assert outcome.retryable


async def test_the_reader_is_offered_once_there_is_something_to_read():
    box = Toolbox([lines])
    assert [spec.name for spec in box.schemas()] == ["lines"]
    await stored(box)
    assert [spec.name for spec in box.schemas()] == ["lines", "read_artifact"]


async def test_the_same_page_may_be_read_twice():
    box = Toolbox([lines])
    id = await stored(box)
    assert (await read(box, id=id)).output == (await read(box, id=id)).output


async def test_the_store_tells_what_it_stored():
    artifact = await InMemoryArtifacts().put("r", "c", "a\nb é\n".encode(), "text/plain")
    assert (artifact.size_bytes, artifact.lines) == (7, 2)
    assert len(artifact.sha256) == 64


@pytest.mark.parametrize("text", ["\x01" * 30_000, "\n" * 30_000, '"\\' * 15_000], ids=len)
@pytest.mark.parametrize("pattern", [None, "*"])
async def test_a_page_fits_into_a_message_whatever_is_in_it(text: str, pattern: str | None):
    @tool(effect="read")
    def tell() -> str:
        return text

    box = Toolbox([tell])
    stored = (await box.dispatch([ToolCall("big", "tell")]))[0]
    assert isinstance(stored, ToolArtifactReference)
    read_to, whole = 0, ""
    while read_to is not None:
        outcome = await read(box, id=stored.artifact_id, offset=read_to, pattern=pattern)
        assert len(box.content_of(outcome)) <= TOOL_MESSAGE_MAX_CHARS
        whole, read_to = whole + outcome.output["text"], outcome.output["next_offset"]
    assert pattern or whole == text


async def test_a_store_that_gives_too_much_is_cut():
    class Generous(InMemoryArtifacts):
        async def read(self, *args: Any, **options: Any) -> Any:
            return {"text": "x" * 50_000, "next_offset": None}

    box = Toolbox([lines], artifacts=Generous())
    outcome = await read(box, id=await stored(box))
    assert len(box.content_of(outcome)) <= TOOL_MESSAGE_MAX_CHARS
    assert outcome.output["truncated"]


async def test_a_spent_budget_leaves_what_was_stored_to_be_read():
    box = Toolbox([lines], budget=Budget(max_tool_calls=1, max_calls_per_tool=1))
    id = await stored(box)
    for _ in range(3):
        assert isinstance(await read(box, id=id), ToolExecutionResult)
    denied = (await box.dispatch([ToolCall("2", "lines", {"count": 1})]))[0]
    assert getattr(denied, "reason", "") == "budget"
