"""live.text(): what a run says comes once, however its model or engine says it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.runs.kit import ADD, Do, add, say
from upshot import (
    Agent,
    AgentError,
    Message,
    ModelRequest,
    ModelResponse,
    ScriptedModel,
    start,
)


class Whole:
    """A model that gives its replies whole."""

    name = "test:whole"

    def __init__(self, *replies: ModelResponse) -> None:
        self._replies = iter(replies)

    async def call(self, request: ModelRequest) -> ModelResponse:
        return next(self._replies)


async def text_of(agent: Agent[Any], **options: Any) -> list[str]:
    async with start(agent, "Go.", **options) as live:
        return [text async for text in live.text()]


async def test_the_text_of_a_model_that_gives_it_whole() -> None:
    replies = ModelResponse(content="Well.", tool_calls=(ADD,)), ModelResponse(content="It is 3.")
    agent = Agent("a", model=Whole(*replies), tools=[add])
    assert await text_of(agent) == ["Well.", "\n\n", "It is 3."]


async def test_text_that_came_in_pieces_does_not_come_again() -> None:
    pieces = await text_of(Agent("a", model=ScriptedModel(["It is 3, I think."])))
    assert "".join(pieces) == "It is 3, I think."


async def test_pieces_and_whole_replies_come_in_their_order() -> None:
    async def work(run: Any, host: Any, board: Any) -> None:
        models = (
            ScriptedModel(["One. "]),
            Whole(ModelResponse(content="Two. ")),
            ScriptedModel(["Three."]),
        )
        for model in models:
            await run.call_model(ModelRequest((Message("user", "?"),)), model=model)

    assert "".join(await text_of(Agent("a", engine=Do(work)))) == "One. \n\nTwo. \n\nThree."


@pytest.mark.parametrize(
    ("end", "between"), [("", "\n\n"), ("\n", "\n"), ("\n\n", ""), ("\n\n\n", ""), (" \n", "\n")]
)
@pytest.mark.parametrize("kind", [Whole, lambda *replies: ScriptedModel(replies)])
async def test_two_replies_stand_a_blank_line_apart(kind: Any, end: str, between: str) -> None:
    replies = [
        ModelResponse(content=f"One.{end}", tool_calls=(ADD,)),
        ModelResponse(content=None, tool_calls=(replace(ADD, id="call-2"),)),
        ModelResponse(content="Two."),
    ]
    pieces = await text_of(Agent("a", model=kind(*replies), tools=[add]))
    assert "".join(pieces) == f"One.{end}{between}Two."


async def test_the_answer_of_an_engine_that_asks_no_model() -> None:
    async def work(run: Any, host: Any, board: Any) -> None:
        board.append(say("Hello."))

    assert await text_of(Agent("a", engine=Do(work))) == ["Hello."]


async def test_the_answer_that_a_run_inside_gave() -> None:
    inner = Agent("inner", model=ScriptedModel(["Found."]))

    async def work(run: Any, host: Any, board: Any) -> None:
        board.append(say((await run.child(inner, "?")).content))

    assert await text_of(Agent("outer", engine=Do(work))) == ["Found."]


@pytest.mark.parametrize("content", [None, ""])
async def test_where_nothing_is_said_nothing_comes(content: str | None) -> None:
    error = AgentError("server_error", "no")
    model = Whole(ModelResponse(content=content, error=error))
    assert await text_of(Agent("a", model=model), retry=None) == []
