"""What of a result goes to the model, and what is stored."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.contract import (
    TOOL_MESSAGE_MAX_CHARS,
    Event,
    File,
    RunWarning,
    ToolArtifactReference,
    ToolCall,
    ToolExecutionResult,
    ToolOutcome,
    Warned,
    outcome_to_model_content,
)
from upshot.tools import InMemoryArtifacts, Toolbox, tool
from upshot.tools.execution.outcome_mapping import cut_output, store_output

# {"result":"..."} around the text.
ROOM = TOOL_MESSAGE_MAX_CHARS - len('{"result":""}')


class Refusing(InMemoryArtifacts):
    """A store that cannot store."""

    async def put(self, run_id: str, call_id: str, data: bytes, media_type: str) -> File:
        raise OSError("disk full")


class Hanging(InMemoryArtifacts):
    """A store that does not answer."""

    async def put(self, run_id: str, call_id: str, data: bytes, media_type: str) -> File:
        await asyncio.Event().wait()
        raise AssertionError


def result(output: Any) -> ToolExecutionResult:
    return ToolExecutionResult("c", "t", output=output, elapsed_ms=3, was_coerced=True)


async def store(
    output: Any, where: InMemoryArtifacts | None = None
) -> tuple[ToolArtifactReference, File]:
    kept = await store_output(result(output), where or InMemoryArtifacts(), "run", timeout_s=1)
    assert isinstance(kept, tuple)
    return kept


async def call(answer: str, artifacts: InMemoryArtifacts | None = None) -> tuple[ToolOutcome, str]:
    """The outcome of a tool that returns *answer*, and the code of the warning, "" for none."""

    @tool(effect="read")
    async def tell() -> str:
        return answer

    told: list[Event] = []
    box = Toolbox([tell], artifacts=artifacts, emit=told.append)
    (outcome,) = await box.dispatch([ToolCall("c", "tell")])
    return outcome, "".join(one.warning.code for one in told if isinstance(one, Warned))


@pytest.mark.parametrize("letter", ["a", "é", "😀"])
async def test_the_limit_counts_code_points_of_what_is_sent(letter: str):
    inline, _ = await call(letter * ROOM)
    stored, _ = await call(letter * (ROOM + 1))
    assert isinstance(inline, ToolExecutionResult)
    assert isinstance(stored, ToolArtifactReference)
    assert stored.size_bytes == len((letter * (ROOM + 1)).encode())


async def test_one_text_is_stored_as_it_is():
    where = InMemoryArtifacts()
    text = "line\n" * 5000
    reference, artifact = await store({"result": text}, where)
    assert artifact.media_type.startswith("text/plain")
    page = await where.read(reference.artifact_id, run_id="run", offset=len(text) - 5)
    assert page == {"text": "line\n", "next_offset": None}


async def test_anything_else_is_stored_as_indented_json():
    where = InMemoryArtifacts()
    output = {"items": list(range(5000)), "name": "x"}
    _, artifact = await store(output, where)
    assert artifact.media_type == "application/json"
    page = await where.read(artifact.id, run_id="run", limit=10**6)
    assert json.loads(str(page["text"])) == output
    assert str(page["text"]).startswith('{\n  "items"')
    assert "items: 5,000 items; name: 1 characters" in artifact.summary


async def test_a_reference_keeps_what_is_known_of_the_result():
    reference, _ = await store({"result": "x" * 20_000})
    assert (reference.elapsed_ms, reference.was_coerced) == (3, True)
    assert len(reference.summary) <= 200


async def test_a_store_that_refuses_leaves_head_and_tail_and_a_warning():
    outcome, warning = await call("a" * 9000 + "z" * 9000, Refusing())
    assert isinstance(outcome, ToolExecutionResult)
    output = outcome.output
    assert output["truncated"] is True
    assert str(output["head"]).startswith("a")
    assert str(output["tail"]).endswith("z")
    assert warning == "artifact_refused"


async def test_a_store_that_hangs_counts_as_one_that_refuses():
    large = result({"result": "a" * 20_000})
    told = await store_output(large, Hanging(), "run", timeout_s=0.01)
    assert isinstance(told, RunWarning)


@given(st.text(st.characters(codec="utf-8")), st.integers(1, 2000))
def test_what_is_cut_always_fits(piece: str, times: int):
    cut = cut_output(result({"result": piece * times}))
    assert len(outcome_to_model_content(cut)) <= TOOL_MESSAGE_MAX_CHARS
