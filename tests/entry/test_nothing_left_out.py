"""What a caller gives is used, or it is said that it is not."""

from __future__ import annotations

from typing import Any

import pytest

from upshot import (
    Agent,
    Board,
    Budget,
    Checkpoint,
    Message,
    Misuse,
    ModelResponse,
    Request,
    ScriptedModel,
    ScriptEngine,
    Usage,
    run,
)


async def test_prepare_and_history_are_not_given_together() -> None:
    agent: Agent[Any] = Agent("a", model=ScriptedModel(["Hi."]))
    with pytest.raises(Misuse, match="prepare makes the board, and history would be lost"):
        await run(agent, "?", prepare=lambda info, request: Board(), history=[Message("user", "x")])


@pytest.mark.parametrize("run_id", ["a b", "a/b", "a\n", "\x00", "a\u2003b"])
async def test_a_run_id_is_one_word(run_id: str) -> None:
    agent: Agent[Any] = Agent("a", model=ScriptedModel(["Hi."]))
    with pytest.raises(Misuse, match="a run_id has no blanks, slashes or control characters"):
        await run(agent, Request("?", run_id=run_id))


@pytest.mark.parametrize("run_id", ["order-7", "2026-11-22T10:00:00Z", "änne.b_c@d", "a+b=c"])
async def test_other_run_ids_are_taken(run_id: str) -> None:
    agent: Agent[Any] = Agent("a", model=ScriptedModel(["Hi."]))
    assert (await run(agent, Request("?", run_id=run_id))).run_id == run_id


async def test_a_request_that_its_checkpoint_does_not_have_is_told() -> None:
    board = Board()
    board.append(Message("user", "Where is order 7?"))
    point = Checkpoint("r", "turn", board.snapshot())
    agent: Agent[Any] = Agent("a", model=ScriptedModel(["Hi."] * 2))
    told = [
        [str(one.code) for one in (await run(agent, asked, resume_from=point)).warnings]
        for asked in ("Where is order 7?", "Cancel it.")
    ]
    assert told == [[], ["request_left_out"]]


@pytest.mark.parametrize("own", [None, ScriptedModel(["Own."])], ids=["without", "with its own"])
async def test_the_model_of_the_call_is_that_of_a_scripts_children(own: Any) -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        return (await run.child(Agent("inner", model=own), "?")).content

    outer: Agent[Any] = Agent("outer", engine=ScriptEngine(work))
    assert (await run(outer, "?", model=ScriptedModel(["Lent."]))).output == "Lent."


async def test_a_child_of_a_script_keeps_its_own_model_where_the_call_names_none() -> None:
    async def work(run: Any, host: Any, board: Any) -> Any:
        return (await run.child(Agent("inner", model=ScriptedModel(["Own."])), "?")).content

    outer: Agent[Any] = Agent("outer", model=ScriptedModel(["No."]), engine=ScriptEngine(work))
    assert (await run(outer, "?")).output == "Own."


# -- money in tests


async def test_an_agent_with_a_limit_on_money_runs_with_a_script() -> None:
    agent: Agent[Any] = Agent("a", model="openai:gpt-5", budget=Budget(max_cost_usd=1))
    assert (await run(agent, "?", model=ScriptedModel(["Hi."]))).content == "Hi."


async def test_a_script_that_is_named_after_a_model_costs_what_that_does() -> None:
    pytest.importorskip("genai_prices")
    used = Usage(input_tokens=1_000_000, output_tokens=0, api_calls=1)
    model = ScriptedModel([ModelResponse(content="Hi.", usage=used)] * 2, name="openai:gpt-5")
    agent: Agent[Any] = Agent("a", model=model, budget=Budget(max_cost_usd="0.5"))
    result = await run(agent, "?")
    assert result.cost is not None and result.cost.total is not None
    assert (result.cost.total > 1, result.error and str(result.error.code)) == (True, None)
