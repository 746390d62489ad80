"""A state whose answer is decided by votes: the first that leads by enough wins."""

from __future__ import annotations

import json
from collections import Counter
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs.kit import Ordered
from upshot import (
    Agent,
    BrokenMachine,
    MachineEngine,
    Request,
    ScriptedModel,
    StepSettled,
    StepStarted,
    ToolError,
    load_machine,
    replay,
    resume,
    run,
)
from upshot.engines.machine.voting import Tally


def machine(**vote: Any) -> Any:
    state = {"type": "initial", "function": "answer", "vote": vote, "transitions": [{"to": "done"}]}
    return load_machine({"states": {"ask": state, "done": {"type": "final"}}})


def jury(answers: list[Any], calls: list[int] | None = None, **vote: Any) -> Agent[Any]:
    """An agent whose machine gets these answers; an exception is raised."""
    numbers = count()

    async def answer(**_: Any) -> Any:
        number = next(numbers)
        if calls is not None:
            calls.append(number)
        found = answers[number]
        if isinstance(found, Exception):
            raise found
        return found

    engine = MachineEngine(machine(**vote), functions={"answer": answer})
    return Agent("jury", engine=engine)


@pytest.mark.parametrize(
    ("answers", "vote", "output", "asked"),
    [
        (["a", "a"], {}, "a", 2),
        (["a", "b", "b", "b"], {}, "b", 4),
        (["a"], {"lead": 1}, "a", 1),
        (["a", "b", "a", "b", "b", "b"], {"lead": 2}, "b", 6),
        ([{"x": 1, "y": 2}, {"y": 2, "x": 1}], {}, {"x": 1, "y": 2}, 2),
        (["a", "b", "a", "a", "a"], {"lead": 3}, "a", 5),
        (["a", "b", "a", "a", "a"], {"lead": 3, "at_once": 1}, "a", 5),
        ([ToolError("no", retryable=False), "a", "a"], {}, "a", 3),
    ],
    ids=["two", "changed", "one", "late", "keys", "three", "one by one", "a failure is no vote"],
)
async def test_the_first_answer_that_leads_wins(
    answers: list[Any], vote: Any, output: Any, asked: int
) -> None:
    calls: list[int] = []
    result = await run(jury(answers, calls, **vote), "?")
    assert (result.output, len(calls)) == (output, asked)


async def test_a_part_of_the_output_may_be_compared() -> None:
    answers = [{"label": "spam", "why": "links"}, {"label": "spam", "why": "tone"}]
    result = await run(jury(answers, by="output.label"), "?")
    assert result.output == answers[0]


async def test_no_answer_that_leads_is_a_failure_that_a_state_may_handle() -> None:
    result = await run(jury(["a", "b", "c", "d"], at_most=4), "?")
    assert result.error is not None
    assert result.error.code == "dead_end"
    assert "no answer leads by 2 after 4 votes: 1 for" in result.error.message


async def test_only_failures_are_the_last_failure() -> None:
    result = await run(
        jury([ToolError(f"n{i}", retryable=False) for i in range(3)], at_most=3), "?"
    )
    assert result.error is not None
    assert (result.error.message, result.error.details["member"]) == ("n2", "vote 3")


async def test_any_cut_casts_no_vote_twice() -> None:
    answers = ["a", "b", "b", ToolError("no", retryable=False), "b", "b"]
    journal, calls = Ordered(), list[int]()
    result = await run(jury(answers, calls), Request("?", run_id="r"), journal=journal)
    assert result.output == "b"
    total = len(calls)
    for length in range(1, len(journal.order)):
        before = journal.cut(length)
        steps = [one for one in before.order if "vote-" in str(getattr(one, "key", ""))]
        done = sum(isinstance(one, StepSettled) for one in steps)
        begun = sum(isinstance(one, StepStarted) for one in steps)
        again: list[int] = []
        # Those under way are repeated; no other is.
        result = await resume("r", jury(answers[done:], again), journal=before)
        assert len(again) <= total - done + (begun - done), length


async def test_agents_vote_in_runs_of_their_own() -> None:
    state: Any = {"type": "initial", "agent": "clerk", "vote": {}, "transitions": [{"to": "done"}]}
    made = load_machine({"states": {"ask": state, "done": {"type": "final"}}})
    clerk = Agent("clerk", model=ScriptedModel(["4", "5", "4", "4"]))
    agent = Agent[Any]("jury", engine=MachineEngine(made, agents={"clerk": clerk}))
    journal = Ordered()
    result = await run(agent, Request("2 + 2?", run_id="r"), journal=journal)
    assert (result.content, len(result.child_runs)) == ("4", 4)
    assert (await replay("r", agent, journal=journal)).same


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"vote": {}}, "vote"),
        ({"function": "f", "vote": {"lead": 0}}, "lead"),
        ({"function": "f", "vote": {"lead": 5, "at_most": 3}}, "at_most 3"),
        ({"function": "f", "vote": {"by": "context.x"}}, "which does not read the output"),
        ({"function": "f", "foreach": "context.x", "vote": {}}, "vote"),
        ({"function": "f", "vote": {"leads": 2}}, "leads"),
    ],
    ids=["no work", "no lead", "too few", "reads no output", "foreach", "a typo"],
)
def test_a_vote_that_cannot_be_is_refused(state: Any, said: str) -> None:
    states = {"ask": {"type": "initial", "transitions": [{"to": "done"}], **state}}
    with pytest.raises(BrokenMachine) as caught:
        load_machine({"context": {"x": []}, "states": {**states, "done": {"type": "final"}}})
    assert said in str(caught.value)


LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
VALUES = LEAVES | st.lists(LEAVES, max_size=2) | st.dictionaries(st.text(max_size=2), LEAVES)


@given(lead=st.integers(1, 4), votes=st.lists(VALUES, max_size=12))
def test_it_is_decided_once_one_value_leads_all_others(lead: int, votes: list[Any]) -> None:
    tally = Tally(lead)
    for vote in votes:
        tally.add(vote)
    counted = Counter(json.dumps(one, sort_keys=True) for one in votes)
    ranked = [*sorted(counted.values(), reverse=True), 0, 0]
    assert (tally.needed == 0) is (ranked[0] - ranked[1] >= lead)
    assert tally.needed == max(0, lead - (ranked[0] - ranked[1]))
