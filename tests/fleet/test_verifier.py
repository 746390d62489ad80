"""What is unknown is asked about again, by whichever worker is there, until somebody knows."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fleet.test_worker import at_work
from tests.fleet.verifying import make
from tests.places import Place
from tests.processes import start_python
from upshot import Agent, App, ScriptedModel, Tool, ToolCall, UnknownEffect, run, tool
from upshot.contract.effects import EffectEntry, next_check
from upshot.fleet.verifier import Verifier
from upshot.journal.watching import EFFECTS

START = datetime(2026, 11, 1, tzinfo=UTC)
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


def clerk(id: str, tool: Tool[..., Any]) -> Agent[Any]:
    """An agent that pays an order once."""
    call = ToolCall("c", "pay", {"order_id": "7"})
    return Agent[Any](id, model=ScriptedModel([call, "Done."]), tools=[tool])


class Bank:
    """An agent whose tool raises, and what its bank says each time that it is asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = [*answers], list[UnknownEffect]()

        async def verify(asked: UnknownEffect) -> Any:
            self.asked.append(asked)
            # Whoever else looks meanwhile gets its turn.
            await asyncio.sleep(0)
            answer = self.answers.pop(0) if self.answers else None
            if isinstance(answer, Exception):
                raise answer
            return answer

        @tool(effect="write", once="order_id", effect_name="payment", verify=verify)
        async def pay(order_id: str, cents: int = 900) -> str:
            raise TimeoutError("the bank did not answer")

        self.pay = pay
        self.agent = clerk("clerk", pay)

    async def run(self, journal: Any) -> EffectEntry:
        """Run to the end, with an effect that is unknown and due."""
        result = await run(self.agent, "Pay.", journal=journal)
        assert (result.output, result.tool_outcomes[0].effect) == ("Done.", "unknown")
        (entry,) = await journal.effects(state="unknown")
        await journal.note_check(entry.id, LONG_AGO)
        return entry


async def known(journal: Any, id: str) -> EffectEntry:
    """The entry of an effect, once it is settled."""
    with journal.watch(EFFECTS) as watch:
        while (entry := await journal.effect(id)).settled is None:
            await watch.changed(60)
    return entry


@pytest.mark.parametrize(("answer", "state"), [(True, "applied"), (False, "none")])
async def test_a_worker_settles_what_a_run_left_unknown_when_it_ended(
    journal: Any, answer: bool, state: str
) -> None:
    bank = Bank(None, answer)
    async with App([bank.agent], journal=journal) as app, asyncio.timeout(60):
        entry = await bank.run(journal)
        async with at_work(app):
            found = await known(journal, entry.id)
    assert found.settled is not None
    assert (found.state, found.settled.by) == (state, "verify")
    first, again = bank.asked
    assert again.outcome == replace(first.outcome, retryable=False)
    assert again.arguments == first.arguments == {"order_id": "7", "cents": 900}
    assert (again.call_id, again.idempotency_key) == (first.call_id, first.idempotency_key)


@pytest.mark.parametrize("answer", [None, "a word", RuntimeError("no line")])
async def test_what_tells_nothing_is_asked_again_later(journal: Any, answer: Any) -> None:
    bank = Bank(None, answer, True)
    async with App([bank.agent], journal=journal) as app:
        entry, verifier, before = await bank.run(journal), Verifier(app), datetime.now(UTC)
        assert await verifier.check() == 1
        found = await journal.effect(entry.id)
        assert (found.state, found.checks) == ("unknown", 1)
        assert found.check_at >= before + timedelta(seconds=2)
        assert await verifier.check() == 0
        await journal.note_check(entry.id, LONG_AGO)
        assert await verifier.check() == 1
        assert (await journal.effect(entry.id)).state == "applied"


async def test_one_asks_at_a_time(journal: Any) -> None:
    bank = Bank()
    async with App([bank.agent], journal=journal) as app:
        await bank.run(journal)
        asked = await asyncio.gather(*(Verifier(app).check() for _ in range(5)))
    assert sorted(asked) == [0, 0, 0, 0, 1] and len(bank.asked) == 2


async def test_the_tool_of_another_effect_is_not_asked(journal: Any) -> None:
    bank, other = Bank(None, True), Bank(True)
    stranger = clerk("stranger", other.pay.but(effect_name="fee"))
    async with App([stranger], journal=journal) as app:
        entry = await bank.run(journal)
        await Verifier(app).check()
        assert not other.asked
        assert (await journal.effect(entry.id)).state == "unknown"


async def test_that_a_thread_which_goes_on_has_done_nothing_is_no_news(journal: Any) -> None:
    may_end, answers = threading.Event(), [None, False, True]

    @tool(effect="write", once="order_id", verify=lambda _: answers.pop(0), timeout_s=0.05)
    def pay(order_id: str) -> str:
        may_end.wait()
        return "paid"

    agent = clerk("a", pay)
    async with App([agent], journal=journal) as app:
        await run(agent, "Pay.", journal=journal)
        for state in ("unknown", "applied"):
            (entry,) = await journal.effects()
            await journal.note_check(entry.id, LONG_AGO)
            assert await Verifier(app).check() == 1
            assert (await journal.effect(entry.id)).state == state
    may_end.set()


@pytest.mark.parametrize(("order", "state"), [("paid", "applied"), ("unpaid", "none")])
async def test_what_a_killed_worker_had_begun_is_settled_in_the_first_round(
    place: Place, tmp_path: Path, order: str, state: str
) -> None:
    bank = tmp_path / "bank"
    bank.touch()
    journal = await place.open()
    async with make(journal, bank) as app, asyncio.timeout(60):
        handle = await app.submit(order, "Pay.")
        with start_python("-m", "tests.fleet.verifying", place.where, bank, stdout=PIPE) as process:
            assert process.stdout is not None
            assert await asyncio.to_thread(process.stdout.readline) == b"under way\n"
            # Its call is under way, so nobody asks.
            assert await Verifier(app).check() == 0
            process.kill()
        (entry,) = await journal.effects(state="unknown")
        assert await Verifier(app).check() == 1
        found = await journal.effect(entry.id)
        assert found is not None and found.settled is not None
        assert (found.state, found.settled.by, found.checks) == (state, "verify", 1)
        async with at_work(app):
            result = await handle.result()
        assert result is not None
        (outcome,) = result.tool_outcomes
        assert (outcome.effect, outcome.settled) == (state, found.settled)
    await journal.aclose()


@pytest.mark.parametrize(
    ("checks", "wait_s"), [(0, 1), (1, 2), (5, 32), (9, 512), (10, 900), (99, 900)]
)
def test_the_waits_double_up_to_15_minutes(checks: int, wait_s: int) -> None:
    entry = EffectEntry(id="0" * 32, name="pay", checks=checks, ended_at=START)
    assert next_check(entry, START) == START + timedelta(seconds=wait_s)


def test_after_a_day_it_is_for_a_person() -> None:
    entry = EffectEntry(id="0" * 32, name="pay", checks=99, ended_at=START)
    assert next_check(entry, START + timedelta(hours=23, minutes=45)) is not None
    assert next_check(entry, START + timedelta(hours=23, minutes=46)) is None
