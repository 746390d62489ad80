"""What of a result goes to the model, and what is stored."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot.contract import (
    TOOL_MESSAGE_MAX_CHARS,
    File,
    ToolArtifactReference,
    ToolExecutionResult,
    outcome_to_model_content,
)
from upshot.tools import InMemoryArtifacts
from upshot.tools.execution.outcome_mapping import Fitted, cut_output, fit_output

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


async def fit(output: Any, store: InMemoryArtifacts | None = None, timeout_s: float = 1) -> Fitted:
    find_store = InMemoryArtifacts if store is None else lambda: store
    return await fit_output(result(output), find_store, "run", timeout_s=timeout_s)


@pytest.mark.parametrize("letter", ["a", "é", "😀"])
async def test_the_limit_counts_code_points_of_what_is_sent(letter: str):
    inline = await fit({"result": letter * ROOM})
    stored = await fit({"result": letter * (ROOM + 1)})
    assert isinstance(inline.outcome, ToolExecutionResult)
    assert isinstance(stored.outcome, ToolArtifactReference)
    assert stored.outcome.size_bytes == len((letter * (ROOM + 1)).encode())


async def test_one_text_is_stored_as_it_is():
    store = InMemoryArtifacts()
    text = "line\n" * 5000
    fitted = await fit({"result": text}, store)
    assert isinstance(fitted.outcome, ToolArtifactReference)
    assert fitted.artifact is not None
    assert fitted.artifact.media_type.startswith("text/plain")
    page = await store.read(fitted.outcome.artifact_id, run_id="run", offset=len(text) - 5)
    assert page == {"text": "line\n", "next_offset": None}


async def test_anything_else_is_stored_as_indented_json():
    store = InMemoryArtifacts()
    output = {"items": list(range(5000)), "name": "x"}
    fitted = await fit(output, store)
    assert fitted.artifact is not None
    assert fitted.artifact.media_type == "application/json"
    page = await store.read(fitted.artifact.id, run_id="run", limit=10**6)
    assert json.loads(str(page["text"])) == output
    assert str(page["text"]).startswith('{\n  "items"')
    assert "items: 5,000 items; name: 1 characters" in fitted.artifact.summary


async def test_a_reference_keeps_what_is_known_of_the_result():
    fitted = await fit({"result": "x" * 20_000})
    assert isinstance(fitted.outcome, ToolArtifactReference)
    assert (fitted.outcome.elapsed_ms, fitted.outcome.was_coerced) == (3, True)
    assert len(fitted.outcome.summary) <= 200


@pytest.mark.parametrize("store", [Refusing(), Hanging()], ids=["refusing", "hanging"])
async def test_a_store_that_refuses_leaves_head_and_tail_and_a_warning(store: InMemoryArtifacts):
    fitted = await fit({"result": "a" * 9000 + "z" * 9000}, store, timeout_s=0.01)
    assert isinstance(fitted.outcome, ToolExecutionResult)
    output = fitted.outcome.output
    assert output["truncated"] is True
    assert str(output["head"]).startswith("a")
    assert str(output["tail"]).endswith("z")
    assert fitted.warning is not None
    assert fitted.warning.code == "artifact_refused"


@given(st.text(st.characters(codec="utf-8")), st.integers(1, 2000))
def test_what_is_cut_always_fits(piece: str, times: int):
    cut = cut_output(result({"result": piece * times}))
    assert len(outcome_to_model_content(cut)) <= TOOL_MESSAGE_MAX_CHARS
