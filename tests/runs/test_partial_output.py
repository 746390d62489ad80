"""live.partial(): the answer as far as it has arrived, as an object of its type."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict

from tests.runs.kit import ADD, add
from upshot import (
    Agent,
    AgentError,
    Decider,
    FinalizeDecision,
    LiveRun,
    ModelInput,
    ModelResponse,
    ModelStarted,
    Retry,
    TextDelta,
    start,
)
from upshot.runs.partial_output import PartialOutput
from upshot.runs.plan import OutputType


class Pieces:
    """Streams each reply piece by piece, and notes what is known after each."""

    name = "test:pieces"

    def __init__(self, *replies: list[str | ModelResponse]) -> None:
        self.live: LiveRun[Any] | None = None
        self.seen: list[Any] = []
        self._replies = iter(replies)

    async def call(self, request: ModelInput) -> ModelResponse:
        raise NotImplementedError

    async def stream(self, request: ModelInput) -> AsyncIterator[Any]:
        text = ""
        for piece in next(self._replies):
            if isinstance(piece, ModelResponse):
                yield piece
                return
            text += piece
            yield TextDelta(text=piece)
            assert self.live is not None
            self.seen.append(self.live.partial())
        yield ModelResponse(content=text)


async def seen_of(
    output_type: Any, *replies: list[str | ModelResponse], **options: Any
) -> tuple[list[Any], Any]:
    model = Pieces(*replies)
    agent = Agent("a", model=model, output_type=output_type, tools=[add])
    async with start(agent, "Go.", **options) as live:
        assert live.partial() is None
        model.live = live
        await live.result()
        return model.seen, live.partial()


class Struct(msgspec.Struct):
    title: str
    tags: list[str] = []


class Model(BaseModel):
    title: str
    tags: list[str] = Field(default_factory=list)


@dataclass
class Data:
    title: str
    tags: list[str] = field(default_factory=list[str])


class Typed(TypedDict):
    title: str
    tags: NotRequired[list[str]]


@pytest.mark.parametrize("kind", [Struct, Model, Data], ids=lambda kind: kind.__name__)
async def test_a_typed_answer_grows_as_it_arrives(kind: Any) -> None:
    pieces: list[str | ModelResponse] = ['{"ti', 'tle": "A', 'nt", "tags": ["b', '", "c"', "]}"]
    seen, last = await seen_of(kind, pieces)
    assert seen == [
        None,
        kind(title="A"),
        kind(title="Ant", tags=["b"]),
        kind(title="Ant", tags=["b", "c"]),
        kind(title="Ant", tags=["b", "c"]),
    ]
    assert last == seen[-1]
    assert type(last) is kind


async def test_a_typed_dictionary_has_the_keys_that_have_begun() -> None:
    seen, _ = await seen_of(Typed, ['{"title": "A', '", "tags": [1'])
    assert seen == [{"title": "A"}, {"title": "A", "tags": []}]


async def test_an_answer_that_follows_a_schema_is_not_validated_before_its_end() -> None:
    schema = {"type": "object", "required": ["a", "b"], "properties": {"b": {"minLength": 3}}}
    seen, last = await seen_of(schema, ['{"a": tr', "ue", ', "b": "x', 'yz"}'])
    assert seen == [{}, {}, {"a": True, "b": "x"}, {"a": True, "b": "xyz"}]
    assert last == {"a": True, "b": "xyz"}


async def test_without_a_type_it_is_the_text() -> None:
    seen, last = await seen_of(None, ["It ", "is 3."])
    assert (seen, last) == (["It ", "It is 3."], "It is 3.")


class Picky(BaseModel):
    name: str = Field(default="", min_length=3)
    state: Literal["", "done"] = ""

    @field_validator("name")
    @classmethod
    def no_bugs(cls, name: str) -> str:
        if name == "Ann":
            raise RuntimeError("a validator of the user")
        return name


async def test_what_the_type_refuses_is_left_out() -> None:
    pieces: list[str | ModelResponse] = ['{"name": "A', "nn", 'a", "state": "do', 'ne"}']
    seen, _ = await seen_of(list[Picky], ["[", *pieces, "]"])
    names = [[(one.name, one.state) for one in step] for step in seen]
    assert names[:3] == [[], [("", "")], [("", "")]]
    assert names[3:] == [[("Anna", "")], [("Anna", "done")], [("Anna", "done")]]


async def test_a_field_that_is_required_must_have_begun() -> None:
    class Both(BaseModel):
        a: str
        b: int

    seen, _ = await seen_of(list[Both], ['[{"a": "x", "b": 1', '}, {"a": "y', '", "b": 22', "}]"])
    assert [len(step) for step in seen] == [0, 1, 1, 2]


async def test_a_reply_that_broke_off_counts_for_nothing() -> None:
    broken = ModelResponse(content="{", error=AgentError("server_error", "off", retryable=True))
    seen, last = await seen_of(
        Struct,
        ['{"title": "Old', broken],
        ["", '{"title": "New"}'],
        retry=Retry(base_s=0.0),
    )
    assert seen == [Struct("Old"), None, Struct("New")]
    assert last == Struct("New")


async def test_an_answer_that_is_sent_back_counts_for_nothing() -> None:
    seen, last = await seen_of(
        Struct, ['{"title": "Old"', ', "tags": 5}'], ["{", '"title": "New"}']
    )
    assert seen == [Struct("Old"), None, None, Struct("New")]
    assert last == Struct("New")


class Again(Decider):
    def before_finalize(self, info: Any, request: Any, result: Any) -> FinalizeDecision | None:
        old = result.content == '{"title": "Old"}'
        return FinalizeDecision.revise("Again.", "old") if old else None


async def test_a_revised_attempt_counts_for_nothing() -> None:
    replies: Any = (['{"title": "Old"}'], ["{", '"title": "New"}'])
    seen, _ = await seen_of(Struct, *replies, deciders=[Again()], max_attempts=2)
    assert seen == [Struct("Old"), None, Struct("New")]


async def test_a_reply_with_calls_is_no_answer() -> None:
    calls = ModelResponse(content="I add.", tool_calls=(ADD,))
    seen, last = await seen_of(None, ["I add.", calls], ["", "It is 3."])
    assert seen[:2] == ["I add.", None]
    assert last == "It is 3."


async def test_a_fence_around_the_answer_is_no_part_of_it() -> None:
    seen, last = await seen_of(Struct, ["```js", 'on\n{"title": "A', '"}', "\n```"])
    assert seen == [None, Struct("A"), Struct("A"), Struct("A")]
    assert last == Struct("A")


def of_text(text: str, output_type: object) -> Any:
    partial = PartialOutput(OutputType.of(output_type))
    partial.add(ModelStarted())
    partial.add(TextDelta(text=text))
    return partial.value()


ANY: dict[str, Any] = {}
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | FLOATS | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def is_part(part: Any, whole: Any) -> bool:
    """Whether *part* is *whole* with its end left out."""
    kind: Any = type(part)  # pyright: ignore[reportUnknownVariableType]
    if kind is not type(whole):
        return False
    if kind is dict:
        items = zip(part.items(), whole.items(), strict=False)
        return all(a == b and is_part(old, new) for (a, old), (b, new) in items)
    if kind is list:
        return all(is_part(old, new) for old, new in zip(part, whole, strict=False))
    return bool(whole.startswith(part) if kind is str else part == whole)


@given(VALUES, st.data(), st.booleans())
def test_any_prefix_gives_a_part_of_the_answer(value: Any, data: Any, ascii: Any) -> None:
    text = json.dumps(value, ensure_ascii=ascii, indent=data.draw(st.sampled_from([None, 1])))
    partial = PartialOutput(OutputType.of(ANY))
    partial.add(ModelStarted())
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    for first, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        partial.add(TextDelta(text=text[first:end]))
        found = partial.value()
        assert found is None or is_part(found, value), text[:end]
        assert found == of_text(text[:end], ANY)
    if isinstance(value, list | dict | str):
        assert partial.value() == value


@given(st.text())
def test_any_text_gives_something_or_nothing(text: str) -> None:
    of_text(text, ANY)
    of_text(text, Struct)
