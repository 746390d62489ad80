"""A run that had dependencies does not go on without any."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runs.kit import Ordered
from upshot import (
    Agent,
    Approve,
    Misuse,
    Request,
    ScriptedModel,
    ScriptEngine,
    ToolCall,
    ToolContext,
    replay,
    resume,
    run,
    tool,
)

PAID: list[object] = []


@tool(effect="write", approval=True)
async def pay(ctx: ToolContext, cents: int) -> str:
    """Pay."""
    PAID.append(ctx.dependencies)
    return "paid"


def paying() -> Agent[Any]:
    return Agent(
        "p", model=ScriptedModel([ToolCall("c", "pay", {"cents": 1}), "Done."]), tools=[pay]
    )


async def test_the_log_says_that_there_were_some_and_resume_needs_them() -> None:
    PAID.clear()
    journal = Ordered()
    await run(paying(), Request("?", run_id="r"), journal=journal, dependencies={"bank": 1})
    assert journal.order[0].options["dependencies"] == "builtins:dict"  # type: ignore[union-attr]
    length = len(journal.order)
    with pytest.raises(Misuse, match=r"resume\(\.\.\., dependencies=\.\.\.\)"):
        await resume("r", paying(), journal=journal, answers=[Approve("c")])
    assert (PAID, len(journal.order)) == ([], length)
    options: Any = {"journal": journal, "answers": [Approve("c")]}
    done = await resume("r", paying(), **options, dependencies={"bank": 2})
    assert (done.content, PAID) == ("Done.", [{"bank": 2}])
    # Nothing is called: neither for a result that is there, nor in a replay.
    assert (await resume("r", paying(), journal=journal)).content == "Done."
    assert (await replay("r", paying(), journal=journal)).same


async def test_a_child_run_gets_them_again_from_its_parent() -> None:
    PAID.clear()

    async def script(run: Any, host: Any, board: Any) -> Any:
        options = {"key": "k", "dependencies": run.dependencies}
        return (await run.child(paying(), "?", **options)).unwrap()

    journal, agent = Ordered(), Agent("a", engine=ScriptEngine(script))
    await run(agent, Request("?", run_id="r"), journal=journal, dependencies=7)
    done = await resume("r", agent, journal=journal, answers=[Approve("c")], dependencies=8)
    assert (done.success, PAID) == (True, [8])
