"""What nobody could go on with is told: a run that waits without a log, outcomes without calls."""

from __future__ import annotations

from typing import Any

import pytest

from upshot import (
    Agent,
    AgentResult,
    Approve,
    Message,
    ModelRequest,
    ModelResponse,
    ScriptedModel,
    ScriptEngine,
    Status,
    ToolCall,
    open_journal,
    resume,
    run,
    run_with_handoffs,
    start,
    tool,
)
from upshot.journal import MemoryJournal

CALL = ToolCall("c1", "look", {})
HELLO = Message("user", "Hello.")
ASKED = Message("assistant", "", tool_calls=[CALL])
TOLD = Message("tool", "sunny", tool_call_id="c1", name="look")
SAID = Message("assistant", "It is sunny.")


@tool(effect="write", approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


def clerk() -> Agent[Any]:
    model = ScriptedModel([ToolCall("c", "pay", {}), "Done."], per_conversation=True)
    return Agent("clerk", model=model, tools=[pay])


def codes(result: AgentResult[Any]) -> list[str]:
    return [str(one.code) for one in result.warnings]


async def test_a_run_that_waits_without_a_journal_says_that_it_is_lost() -> None:
    result = await run(clerk(), "Pay.")
    assert (result.status, codes(result)) == (Status.INPUT_REQUIRED, ["no_journal"])


async def test_a_run_that_waits_in_a_journal_says_nothing() -> None:
    assert codes(await run(clerk(), "Pay.", journal=MemoryJournal())) == []


async def test_a_run_that_waits_in_memory_that_nobody_else_holds_says_that_it_is_lost() -> None:
    asked: Any = {"journal": "memory:"}
    assert codes(await run(clerk(), "Pay.", **asked)) == ["no_journal"]
    async with start(clerk(), "Pay.", **asked) as live:
        assert codes(await live.result()) == ["no_journal"]
    assert codes(await run_with_handoffs([clerk()], "Pay.", **asked)) == ["no_journal"]
    async with open_journal("memory:") as journal:
        for place in ("memory:", journal):
            result = await run(clerk(), "Pay.", journal=place)
            assert codes(result) == []
            done = await resume(result.run_id, clerk(), journal=place, answers=[Approve("c")])
            assert done.content == "Done."


async def test_only_the_root_says_so() -> None:
    inner: list[AgentResult[Any]] = []

    async def work(run: Any, host: Any, board: Any) -> Any:
        inner.append(await run.child(clerk(), "Pay."))
        return inner[0].unwrap()

    result = await run(Agent("outer", engine=ScriptEngine(work)), "Pay.")
    assert (codes(inner[0]), "no_journal" in codes(result)) == ([], True)


class Reader:
    """A model that keeps what it was sent."""

    name = "reader"

    def __init__(self) -> None:
        self.sent: list[Message] = []

    async def call(self, request: ModelRequest) -> ModelResponse:
        self.sent = [*request.messages]
        return ModelResponse(content="Done.")


NAMELESS = Message("tool", "sunny", name="look")


@pytest.mark.parametrize(
    ("history", "sent", "lost"),
    [
        ([HELLO, ASKED, TOLD, SAID], [HELLO, ASKED, TOLD, SAID], 0),
        ([TOLD, SAID], [SAID], 1),
        ([TOLD, HELLO, ASKED, TOLD, SAID], [HELLO, ASKED, TOLD, SAID], 1),
        ([HELLO, ASKED, TOLD, TOLD, SAID], [HELLO, ASKED, TOLD, SAID], 1),
        ([HELLO, ASKED, NAMELESS, SAID], [HELLO, ASKED, NAMELESS, SAID], 0),
        ([NAMELESS, HELLO], [HELLO], 1),
    ],
    ids=["whole", "cut", "cut before a whole one", "twice", "without an id", "neither"],
)
async def test_outcomes_whose_calls_were_cut_away_are_not_sent(
    history: list[Message], sent: list[Message], lost: int
) -> None:
    model = Reader()
    result = await run(Agent("a", model=model), "And now?", history=history)
    assert model.sent[:-1] == sent
    assert codes(result) == (["orphaned_outcome"] if lost else [])
    assert not lost or ": 1 left out" in result.warnings[0].message
