"""fork: a new run from a point of another run's log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.answering import keep_answers
from tests.engines.machine_kit import engine_of
from tests.runs.kit import ADD, Do, add, kinds, log_of, measured
from upshot import (
    Agent,
    Approve,
    Deny,
    Engine,
    Graph,
    GraphEngine,
    Misuse,
    Request,
    ScriptedModel,
    ScriptEngine,
    Status,
    ToolArtifactReference,
    ToolCall,
    fork,
    open_journal,
    resume,
    run,
    tool,
)

TOUCHED: list[str] = []


@tool(effect="destructive")
async def remove(what: str) -> str:
    """Remove something."""
    TOUCHED.append(what)
    return f"{what} is gone"


@tool(effect="read")
async def big(letter: str) -> str:
    """Give a large text."""
    return letter * 13_000


def agent(*replies: Any) -> Agent[Any]:
    model = ScriptedModel(list(replies), per_conversation=True)
    return Agent("a", model=model, tools=[add, remove, big])


@pytest.fixture(params=["memory", "sqlite"])
async def journal(request: Any, tmp_path: Path) -> Any:
    TOUCHED.clear()
    where = "memory:" if request.param == "memory" else tmp_path / "runs.db"
    async with open_journal(where) as opened:
        yield opened


async def test_a_fork_at_any_point_goes_on_from_there(journal: Any) -> None:
    first = agent(measured(None, ADD), "3.")
    whole = await run(first, Request("?", run_id="r"), journal=journal)
    log = await log_of(journal, "r")
    for at in range(1, len(log)):
        new = await fork("r", at=at, journal=journal)
        before = await log_of(journal, new)
        assert kinds(before) == kinds(log[:at])
        assert {event.run_id for event in before} == {new}
        assert before[0].request.run_id in ("", new)  # type: ignore[union-attr]
        result = await resume(new, first, journal=journal)
        assert (result.run_id, result.content) == (new, "3.")
        assert {record.run_id for record in result.tool_records} == {new}
        assert result.usage.total_tokens == whole.usage.total_tokens
    assert await log_of(journal, "r") == log


async def test_a_fork_may_take_another_turn(journal: Any) -> None:
    await run(agent(measured(None, ADD), "3."), Request("?", run_id="r"), journal=journal)
    kind = kinds(await log_of(journal, "r"))
    at = kind.index("tool_settled") + 1
    other = agent("never", "Three!")
    result = await resume(await fork("r", at=at, journal=journal), other, journal=journal)
    assert result.content == "Three!"


async def test_what_waits_for_a_word_may_get_another_one(journal: Any) -> None:
    first = agent(measured(None, ToolCall("c", "remove", {"what": "x"})), "Done.")
    parked = await run(first, Request("?", run_id="r"), journal=journal)
    at = len(await log_of(journal, "r"))
    new = await fork("r", at=at, journal=journal)
    yes = await resume("r", first, journal=journal, answers=[Approve("c")])
    no = await resume(new, first, journal=journal, answers=[Deny("c", "no")])
    assert parked.status is Status.INPUT_REQUIRED
    assert [yes.tool_outcomes[0].kind, no.tool_outcomes[0].kind] == [
        "tool_execution_result",
        "tool_denied",
    ]
    assert TOUCHED == ["x"]


async def test_what_was_allowed_for_good_is_asked_about_again(journal: Any) -> None:
    calls = [ToolCall(f"c{n}", "remove", {"what": str(n)}) for n in range(2)]
    first = agent(measured(None, calls[0]), measured(None, calls[1]), "Done.")
    await run(first, Request("?", run_id="r"), journal=journal)
    answers = [Approve("c0", always="tool")]
    await resume("r", first, journal=journal, answers=answers)
    at = kinds(await log_of(journal, "r")).index("tool_settled") + 1
    new = await fork("r", at=at, journal=journal)
    result = await resume(new, first, journal=journal)
    assert [one.id for one in result.pending] == ["c1"] and TOUCHED == ["0", "1"]
    # Said again in the fork, it stands there.
    yes = [Approve("c1", always="tool")]
    assert (await resume(new, first, journal=journal, answers=yes)).success
    assert TOUCHED == ["0", "1", "1"]


async def test_a_fork_reads_its_own_large_outputs(journal: Any) -> None:
    first = agent(measured(None, ToolCall("c", "big", {"letter": "x"})), "Long.")
    await run(first, Request("?", run_id="r"), journal=journal)
    at = kinds(await log_of(journal, "r")).index("tool_settled") + 1
    new = await fork("r", at=at, journal=journal)

    def read(messages: Any) -> ToolCall:
        import json

        stored = json.loads(messages[-1].text)["artifact_reference"]
        return ToolCall("read", "read_artifact", {"id": stored, "limit": 5})

    result = await resume(new, agent("never", read, "Read."), journal=journal)
    stored, page = result.tool_outcomes
    assert isinstance(stored, ToolArtifactReference)
    assert page.output["text"] == "xxxxx"  # type: ignore[union-attr]
    with pytest.raises(KeyError):
        await journal.artifacts.read(stored.artifact_id, run_id="r")


async def test_runs_inside_that_had_ended_are_shared(journal: Any) -> None:
    ran: list[str] = []

    async def inner(run: Any, host: Any, board: Any) -> str:
        ran.append(run.id)
        return run.id

    async def outer(run: Any, host: Any, board: Any) -> Any:
        child = Agent("inner", engine=Do(inner))
        return [(await run.child(child, "?", key=key)).output for key in "ab"]

    first = Agent("outer", engine=Do(outer))
    await run(first, Request("?", run_id="r"), journal=journal)
    settled = [e.seq for e in await log_of(journal, "r") if e.kind == "step_settled"]
    new = await fork("r", at=settled[0], journal=journal)
    result = await resume(new, first, journal=journal)
    assert result.output == [ran[0], ran[2]]
    again = await resume(await fork(new, at=settled[0], journal=journal), first, journal=journal)
    assert again.output == [ran[0], ran[3]]
    assert len(set(ran)) == 4


@pytest.mark.parametrize("at", [0, -1, 99])
async def test_a_point_that_is_not_there_is_misuse(journal: Any, at: int) -> None:
    await run(agent("Hi."), Request("?", run_id="r"), journal=journal)
    with pytest.raises(Misuse, match="has no event"):
        await fork("r", at=at, journal=journal)


@pytest.mark.parametrize("at", ["x", True, 1.5, None])
async def test_a_point_is_a_number(journal: Any, at: Any) -> None:
    with pytest.raises(Misuse, match="give the seq of an event"):
        await fork("r", at=at, journal=journal)


async def test_the_end_of_a_run_is_no_point_to_go_on_from(journal: Any) -> None:
    await run(agent("Hi."), Request("?", run_id="r"), journal=journal)
    with pytest.raises(Misuse, match="has ended at event"):
        await fork("r", at=len(await log_of(journal, "r")), journal=journal)
    with pytest.raises(Misuse, match="no run"):
        await fork("other", at=1, journal=journal)


def asking() -> Agent[Any]:
    """An agent that waits for approval."""
    replies = [ToolCall("c", "remove", {"what": "x"}), "Done."]
    return Agent("asking", model=ScriptedModel(replies, per_conversation=True), tools=[remove])


async def _once(run: Any, host: Any, board: Any) -> Any:
    return await run.child(asking(), "?")


async def _once_by_key(run: Any, host: Any, board: Any) -> Any:
    return await run.child(asking(), "?", key="k")


async def _twice_down(run: Any, host: Any, board: Any) -> Any:
    return await run.child(Agent("middle", engine=ScriptEngine(_once)), "?")


_STATES = "a: {type: initial, agent: asking, transitions: [{to: z}]}\nz: {type: final}"
WITH_ASKING_CHILD: dict[str, Callable[[], Engine]] = {
    "script": lambda: ScriptEngine(_once),
    "script_by_key": lambda: ScriptEngine(_once_by_key),
    "script_twice_down": lambda: ScriptEngine(_twice_down),
    "graph": lambda: GraphEngine(Graph({"n": asking()}, start="n", edges={})),
    "machine": lambda: engine_of(_STATES, agents={"asking": asking()}),
}


@pytest.mark.slow("sqlite-script*", "sqlite-graph*")
@pytest.mark.parametrize(
    ("shape", "kept", "word"),
    [
        pytest.param(
            shape,
            bool(kept),
            (Approve("c"), Deny("c", "no"))[(row + kept) % 2],
            id=f"{shape}, {('resumed', 'kept')[kept]}",
        )
        for row, shape in enumerate(WITH_ASKING_CHILD)
        for kept in (0, 1)
    ],
)
async def test_a_fork_takes_no_answer_that_its_origin_got_later(
    journal: Any, shape: str, kept: bool, word: Approve | Deny
) -> None:
    outer = Agent("outer", engine=WITH_ASKING_CHILD[shape]())
    await run(outer, Request("?", run_id="r"), journal=journal)
    length = len(await log_of(journal, "r"))
    forks = [await fork("r", at=at, journal=journal) for at in (2, length // 2 + 1, length)]
    if kept:
        await keep_answers("r", [word], journal=journal)
    else:
        await resume("r", outer, journal=journal, answers=[word])
    before = list(TOUCHED)
    for new in forks:
        waiting = await resume(new, outer, journal=journal)
        assert (waiting.status, TOUCHED) == (Status.INPUT_REQUIRED, before)
        other = Deny("c", "no") if isinstance(word, Approve) else Approve("c")
        await resume(new, outer, journal=journal, answers=[other])
        before += [] if isinstance(word, Approve) else ["x"]
        assert before == TOUCHED
