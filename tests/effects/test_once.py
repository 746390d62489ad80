"""An effect is made once on a journal, whichever run asks for it."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from upshot import (
    Agent,
    NotDone,
    ScriptedModel,
    Settlement,
    ToolCall,
    ToolDenied,
    ToolFailure,
    open_journal,
    run,
    tool,
)

PLACES = pytest.mark.parametrize("kind", ["memory", "sqlite"])
made: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    made.clear()


@tool(effect="write", once="order_id", may_differ="note")
async def refund(order_id: str, cents: int = 900, note: str = "") -> str:
    """Refund an order."""
    made.append(order_id)
    await asyncio.sleep(0)
    if note == "raise":
        raise RuntimeError("the line broke")
    if note == "nothing":
        raise NotDone("the bank is closed")
    return f"re_{order_id}"


def clerk(*calls: dict[str, Any], tools: Any = (refund,)) -> Agent[str]:
    replies = [
        ToolCall(f"c{n}", "refund", {"order_id": "7", **call}) for n, call in enumerate(calls)
    ]
    return Agent("clerk", model=ScriptedModel([*replies, "done"]), tools=list(tools))


def place(kind: str, folder: Path) -> str:
    return "memory:" if kind == "memory" else str(folder / "runs.db")


async def outcomes(journal: Any, *calls: dict[str, Any], **given: Any) -> Any:
    result = await run(clerk(*calls, **given), "go", journal=journal)
    assert result.success, result.error
    return result.tool_outcomes


@PLACES
async def test_a_second_run_gets_the_output_of_the_first(kind: str, tmp_path: Path):
    async with open_journal(place(kind, tmp_path)) as journal:
        (first,) = await outcomes(journal, {})
        (second,) = await outcomes(journal, {"note": "again"})
        assert second.output == first.output == {"result": "re_7"}
        assert second.repeats is not None and second.repeats.at is not None
        assert (first.effect, second.effect, made) == ("applied", "none", ["7"])
        (entry,) = await journal.effects()
        assert (entry.state, entry.name, entry.attempts) == ("applied", "refund", 1)


@PLACES
async def test_the_result_names_the_effect_that_it_made(kind: str, tmp_path: Path):
    async with open_journal(place(kind, tmp_path)) as journal:
        first = await run(clerk({}), "go", journal=journal)
        second = await run(clerk({}), "go", journal=journal)
        (entry,) = await journal.effects()
        assert [one.key for one in first.effects] == [entry.id]
        assert second.effects == () and second.effect == "none"


@PLACES
async def test_other_arguments_are_a_conflict(kind: str, tmp_path: Path):
    async with open_journal(place(kind, tmp_path)) as journal:
        await outcomes(journal, {"cents": 100})
        (refused,) = await outcomes(journal, {"cents": 900})
        assert isinstance(refused, ToolDenied) and refused.reason == "conflict"
        assert '{"cents":100}' in refused.details and '{"cents":900}' in refused.details
        assert made == ["7"]


@PLACES
async def test_what_is_unknown_is_denied_until_it_is_settled(kind: str, tmp_path: Path):
    async with open_journal(place(kind, tmp_path)) as journal:
        await outcomes(journal, {"note": "raise"})
        (refused,) = await outcomes(journal, {})
        assert isinstance(refused, ToolDenied) and refused.reason == "effect_unknown"
        (entry,) = await journal.effects(state="unknown")
        await journal.settle_effect(entry.id, Settlement(effect="none", by="ann"))
        (again,) = await outcomes(journal, {})
        assert again.effect == "applied" and made == ["7", "7"]
        (entry,) = await journal.effects()
        assert entry.attempts == 2


@PLACES
async def test_what_was_settled_as_applied_is_not_made_again(kind: str, tmp_path: Path):
    async with open_journal(place(kind, tmp_path)) as journal:
        await outcomes(journal, {"note": "raise"})
        (entry,) = await journal.effects(state="unknown")
        await journal.settle_effect(entry.id, Settlement(effect="applied", by="ann"))
        (again,) = await outcomes(journal, {})
        assert again.repeats is not None and again.output == {} and made == ["7"]


@PLACES
@pytest.mark.parametrize("answer", ["applied", "none", None])
async def test_verify_of_the_second_call_settles_the_first(
    kind: str, answer: str | None, tmp_path: Path
):
    asked: list[Any] = []

    def verify(unknown: Any) -> str | None:
        asked.append(unknown)
        return answer if len(asked) > 1 else None

    checked = refund.but(verify=verify)
    async with open_journal(place(kind, tmp_path)) as journal:
        await outcomes(journal, {"note": "raise"}, tools=[checked])
        (second,) = await outcomes(journal, {}, tools=[checked])
        assert asked[1].idempotency_key == asked[0].idempotency_key
        assert made == (["7", "7"] if answer == "none" else ["7"])
        assert isinstance(second, ToolDenied) is (answer is None)


@PLACES
async def test_a_body_that_may_be_at_work_yet_has_not_done_nothing(kind: str, tmp_path: Path):
    go_on = threading.Event()

    @tool(name="refund", effect="write", once="order_id", timeout_s=0.05, verify=lambda _: False)
    def slow(order_id: str) -> str:
        """Refund an order, whenever the bank gets round to it."""
        go_on.wait(60)
        return "re_7"

    try:
        async with open_journal(place(kind, tmp_path)) as journal:
            (first,) = await outcomes(journal, {}, tools=[slow])
            assert (first.effect, first.stopped) == ("unknown", False)
            (second,) = await outcomes(journal, {}, tools=[slow])
            assert isinstance(second, ToolDenied) and second.reason == "effect_unknown"
    finally:
        go_on.set()


@PLACES
async def test_what_certainly_did_nothing_is_made_again(kind: str, tmp_path: Path):
    async with open_journal(place(kind, tmp_path)) as journal:
        (failed,) = await outcomes(journal, {"note": "nothing"})
        assert isinstance(failed, ToolFailure) and failed.effect == "none"
        (again,) = await outcomes(journal, {})
        assert again.effect == "applied" and made == ["7", "7"]


@PLACES
async def test_many_runs_at_once_make_it_once(kind: str, tmp_path: Path):
    async with open_journal(place(kind, tmp_path)) as journal:
        found = await asyncio.gather(*(outcomes(journal, {}) for _ in range(8)))
        assert [one.output for (one,) in found] == [{"result": "re_7"}] * 8
        assert made == ["7"]


@PLACES
async def test_a_second_call_of_the_same_run_repeats_too(kind: str, tmp_path: Path):
    async with open_journal(place(kind, tmp_path)) as journal:
        first, second = await outcomes(journal, {}, {"note": "again"})
        assert second.repeats is not None and second.repeats.call_id == first.call_id
        assert made == ["7"]


async def test_on_repeat_denies_a_second_call(tmp_path: Path):
    async with open_journal("memory:") as journal:
        strict = refund.but(on_repeat="deny")
        await outcomes(journal, {}, tools=[strict])
        (refused,) = await outcomes(journal, {}, tools=[strict])
        assert isinstance(refused, ToolDenied) and refused.reason == "duplicate"


async def test_scopes_keep_effects_apart(tmp_path: Path):
    async with open_journal("memory:") as journal:
        own = refund.but(scope="run")
        for _ in range(2):
            await outcomes(journal, {}, tools=[own])
        assert made == ["7", "7"]


async def test_a_run_without_a_journal_makes_it_once_and_says_so():
    result = await run(clerk({}, {"note": "again"}), "go")
    assert made == ["7"]
    assert [one.code for one in result.warnings] == ["no_ledger"]


@PLACES
async def test_a_call_out_of_the_body_that_makes_the_same_does_not_wait_for_it(
    kind: str, tmp_path: Path
):
    found: list[Any] = []

    @tool(effect="write", once="order_id")
    async def refund(order_id: str) -> str:
        """Refund an order through another agent, which asks for the same."""
        made.append(order_id)
        found.extend(await outcomes(journal, {}, tools=[refund]))
        return "made"

    async with open_journal(place(kind, tmp_path)) as journal:
        (outer,) = await outcomes(journal, {}, tools=[refund])
        assert outer.effect == "applied" and made == ["7"]
        assert [one.code for one in found] == ["in_progress"]


@PLACES
@pytest.mark.parametrize("how", ["redacted", "removed"])
async def test_a_key_outlives_the_words_of_its_run(kind: str, how: str, tmp_path: Path):
    async with open_journal(place(kind, tmp_path)) as journal:
        first = await run(clerk({}), "go", journal=journal, conversation="a")
        if how == "redacted":
            await journal.redact(conversation="a")
        else:
            await journal.remove_runs([first.run_id])
        (second,) = await outcomes(journal, {})
        assert second.repeats is not None and not isinstance(second, ToolDenied)
        assert made == ["7"]


@PLACES
async def test_a_key_is_free_after_its_time_in_the_same_run(kind: str, tmp_path: Path):
    short = refund.but(keep=timedelta(microseconds=1))
    async with open_journal(place(kind, tmp_path)) as journal:
        await outcomes(journal, {}, {}, tools=[short])
        assert made == ["7", "7"]


@PLACES
async def test_nobody_is_asked_about_an_effect_that_is_known(kind: str, tmp_path: Path):
    asked: list[str] = []

    def approve(request: Any) -> bool:
        asked.append(request.call_id)
        return True

    careful = refund.but(approval=True)
    async with open_journal(place(kind, tmp_path)) as journal:

        async def ask_for(**arguments: Any) -> Any:
            agent = clerk(arguments, tools=[careful])
            result = await run(agent, "go", journal=journal, approve=approve)
            return result.tool_outcomes[0]

        first, second = await ask_for(), await ask_for()
        assert (first.effect, second.repeats.run_id != "") == ("applied", True)
        assert (await ask_for(cents=100)).reason == "conflict"
        await ask_for(order_id="8", note="raise")
        assert len(asked) == 2
        assert (await ask_for(order_id="8")).reason == "effect_unknown"
        await ask_for(order_id="9", note="nothing")
        await ask_for(order_id="9")
        # The first of each of the three, and the one after a call that certainly did nothing.
        assert (len(asked), made) == (4, ["7", "8", "9", "9"])


async def test_a_question_about_a_key_that_is_free_again_is_asked(tmp_path: Path):
    careful = refund.but(approval=True, keep=timedelta(microseconds=1))
    async with open_journal(str(tmp_path / "runs.db")) as journal:
        await outcomes_of(journal, careful, approve=lambda _: True)
        again = await run(clerk({}, tools=[careful]), "go", journal=journal)
        assert [one.tool_name for one in again.pending] == ["refund"]


async def outcomes_of(journal: Any, one: Any, **given: Any) -> Any:
    return (await run(clerk({}, tools=[one]), "go", journal=journal, **given)).tool_outcomes
