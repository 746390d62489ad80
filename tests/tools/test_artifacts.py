"""Stored outputs and the tool that reads them."""

from typing import Any

import pytest

from upshot.contract import (
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
    page = (await read(box, id=await stored(box), pattern=r"line 49\d\d$")).output
    assert page["text"].startswith("4901: line 4900\n")


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


@pytest.mark.parametrize("arguments", [{"offset": -1}, {"limit": 0}, {"pattern": "("}], ids=str)
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
