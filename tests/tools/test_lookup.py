"""``verify=Lookup(...)``: another tool tells whether a call took effect."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from upshot import (
    Agent,
    App,
    Budget,
    Lookup,
    Misuse,
    ScriptedModel,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    open_journal,
    run,
    tool,
)
from upshot.fleet.verifier import Verifier
from upshot.tools import Toolbox

FOUND = "refunds.exists(r, r.order == order_id)"
CALL = ToolCall("c", "refund", {"order_id": "7"})


class Bank:
    """A tool that refunds and raises, and one that lists what was refunded."""

    def __init__(self, *, loses: bool = False, lists: bool = True) -> None:
        self.made, self.asked = list[str](), list[Any]()
        self.loses, self.lists = loses, lists
        self.events = list[Any]()

    @property
    def warned(self) -> str:
        warned = [one.warning for one in self.events if one.kind == "warning"]
        (found,) = [one for one in warned if one.code == "verify_failed"]
        return str(found.message)

    def tools(self, verify: Any = None, **options: Any) -> list[Tool[..., Any]]:
        @tool(effect="write", once="order_id", verify=verify, **options)
        async def refund(order_id: str) -> str:
            if not self.loses:
                self.made.append(order_id)
            raise TimeoutError("the bank did not answer")

        @tool(effect="read")
        def list_refunds(context: ToolContext[None], order: str, limit: int = 5) -> dict[str, Any]:
            assert (context.call_id, context.tool_name) == ("c", "list_refunds")
            self.asked.append((order, limit))
            if not self.lists:
                raise ToolError("the bank is closed")
            return {"refunds": [{"order": one} for one in self.made]}

        return [refund, list_refunds]


async def outcome_of(bank: Bank, verify: Any, **options: Any) -> Any:
    box = Toolbox(bank.tools(verify, **options), emit=bank.events.append)
    (outcome,) = await box.dispatch([CALL])
    return outcome, box


@pytest.mark.parametrize(("loses", "effect"), [(False, "applied"), (True, "none")])
async def test_what_the_other_tool_gives_settles_the_effect(loses: bool, effect: str) -> None:
    bank = Bank(loses=loses)
    lookup = Lookup("list_refunds", {"order": "{order_id}", "limit": 3}, found=FOUND)
    outcome, box = await outcome_of(bank, lookup)
    assert outcome.effect == effect
    assert outcome.settled.by == "verify"
    assert bank.asked == [("7", 3)]
    # It is no call of the model: nothing is recorded of it.
    assert [one.tool_name for one in box.records] == ["refund"]


@pytest.mark.parametrize(
    ("lookup", "said"),
    [
        (Lookup("list_refunds", {"order": "{order_id}"}, found="nothing == 1"), "has no answer"),
        (Lookup("list_refunds", {"order": "{order_id}"}, found="refunds"), "not true or false"),
        (Lookup("list_refunds", {}, found=FOUND), "are invalid"),
    ],
)
async def test_a_lookup_without_an_answer_leaves_it_unknown(lookup: Lookup, said: str) -> None:
    bank = Bank()
    outcome, _ = await outcome_of(bank, lookup)
    assert outcome.effect == "unknown"
    assert said in bank.warned


async def test_a_tool_that_fails_leaves_it_unknown() -> None:
    lookup = Lookup("list_refunds", {"order": "{order_id}"}, found=FOUND)
    bank = Bank(lists=False)
    outcome, _ = await outcome_of(bank, lookup)
    assert outcome.effect == "unknown"
    assert "the bank is closed" in bank.warned


@pytest.mark.parametrize(
    ("value", "found", "holds"),
    [
        ('{"refunds": [{"order": "7"}]}', FOUND, True),
        ("7 was refunded", "result.contains(order_id)", True),
        (["7"], "order_id in result", True),
        ([], "order_id in result", False),
    ],
    ids=["JSON in a text", "a text", "a list", "an empty list"],
)
async def test_a_condition_reads_what_a_tool_gives(value: Any, found: str, holds: bool) -> None:
    async def call(name: str, arguments: Any) -> Any:
        assert (name, arguments) == ("find", {"a": ["x 7", {"b": 2}], "c": 7})
        return value

    lookup = Lookup("find", {"a": ["x {order_id}", {"b": 2}], "c": "{n}"}, found=found)
    assert await lookup.ask({"order_id": "7", "n": 7}, call) is holds


async def test_a_worker_looks_up_what_a_run_left_unknown() -> None:
    bank = Bank(lists=False)
    lookup = Lookup("list_refunds", {"order": "{order_id}"}, found=FOUND)
    model = ScriptedModel([CALL, "It is being checked."])
    agent: Agent[Any] = Agent("desk", model=model, tools=bank.tools(lookup))
    async with open_journal("memory:") as journal, App([agent], journal=journal) as app:
        await run(agent, "Refund 7.", journal=journal)
        (entry,) = await app.effects(state="unknown")
        bank.lists = True
        await journal.note_check(entry.id, entry.started_at)
        await Verifier(app).check()
        (entry,) = await app.effects()
    assert entry.settled is not None
    assert (entry.state, entry.settled.by) == ("applied", "verify")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [({"order": "{n}"}, "no argument 'n'"), ({"order": "x {none}"}, "'none' is None")],
)
async def test_an_argument_that_does_not_fit_is_not_asked_about(arguments: Any, said: str) -> None:
    async def call(name: str, arguments: Any) -> Any:
        raise AssertionError

    lookup = Lookup("find", arguments, found="true")
    with pytest.raises(Misuse, match=said):
        await lookup.ask({"order_id": "7", "none": None}, call)


async def test_a_tool_that_says_that_it_failed_leaves_it_unknown() -> None:
    @tool(effect="read")
    def find() -> dict[str, Any]:
        return {"error": "the bank is closed", "refunds": []}

    bank = Bank()
    (refund, _) = bank.tools(Lookup("find", found="refunds.size() > 0"))
    box = Toolbox([refund, find], emit=bank.events.append)
    (outcome,) = await box.dispatch([CALL])
    assert outcome.effect == "unknown"
    assert "find failed: the bank is closed" in bank.warned


def test_the_names_in_its_arguments_are_those_of_the_call() -> None:
    bank = Bank()
    with pytest.raises(
        Misuse, match=r"names \{ordre_id\}, which is not one of its arguments; did you mean"
    ):
        Toolbox(bank.tools(Lookup("list_refunds", {"order": "{ordre_id}"}, found="true")))


def test_a_lookup_is_refused_where_it_is_made() -> None:
    with pytest.raises(Misuse, match=r"the condition 'refunds\.' is broken"):
        Lookup("list_refunds", found="refunds.")
    with pytest.raises(Misuse, match="tool of a Lookup must be the name of a tool, got str"):
        Lookup("", found="true")
    with pytest.raises(Misuse, match="arguments of a Lookup must be a mapping, got"):
        Lookup("find", cast("Any", ["x"]), found="true")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("list_refund", "which is not among the tools; did you mean 'list_refunds'?"),
        ("refund", "which may write, but a lookup runs without approval"),
        ("apart", "which runs in a separate process"),
    ],
)
def test_the_tool_that_is_looked_up_stands_beside_and_reads(name: str, said: str) -> None:
    bank = Bank()
    other = LOCAL.but(name="apart", isolation="process")
    with pytest.raises(Misuse) as caught:
        Toolbox([*bank.tools(Lookup(name, found="true")), other])
    assert said in str(caught.value)


@tool(effect="read")
def LOCAL() -> str:
    """Do nothing."""
    return "nothing"


async def test_a_hanging_lookup_is_given_up() -> None:
    @tool(effect="read")
    async def hang() -> None:
        await asyncio.Event().wait()

    bank = Bank()
    (refund, _) = bank.tools(Lookup("hang", found="true"))
    box = Toolbox([refund, hang], emit=bank.events.append, budget=Budget(deadline_s=0.5))
    (outcome,) = await box.dispatch([CALL])
    assert outcome.effect == "unknown"
    assert "took too long" in bank.warned
