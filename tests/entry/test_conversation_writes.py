"""What turns did that left no messages: told to the next one, and not done again."""

from __future__ import annotations

from typing import Any

from upshot import (
    Agent,
    AgentResult,
    Approve,
    Effect,
    FinalizeDecision,
    ScriptedModel,
    ToolCall,
    ToolDenied,
    resume,
    run,
    tool,
)


class Shop:
    """Tools that pay: at once, after a yes, and without knowing whether it was done."""

    def __init__(self) -> None:
        self.paid: list[int] = []

        @tool(effect="write")
        def pay(order: int) -> str:
            """Pay."""
            self.paid.append(order)
            return "paid"

        @tool(effect="write", approval=True)
        def refund(order: int) -> str:
            """Refund."""
            self.paid.append(order)
            return "refunded"

        @tool(effect="write")
        def post(order: int) -> str:
            """Post."""
            self.paid.append(order)
            raise ConnectionError("gone")

        self.tools = [pay, refund, post]

    async def say(self, text: str, *replies: Any, journal: Any, **options: Any) -> Any:
        model = ScriptedModel([*replies])
        agent = Agent[Any]("shop", model=model, tools=self.tools)
        more = {"conversation": "ada", "retry": None, **options}
        return await run(agent, text, journal=journal, **more), model


def called(name: str, order: int, id: str = "c") -> list[ToolCall]:
    return [ToolCall(id, name, {"order": order})]


def first_texts(model: ScriptedModel) -> list[str]:
    return [message.text for message in model.calls[0].messages]


def reasons(result: AgentResult[Any]) -> list[str]:
    return [one.reason for one in result.tool_outcomes if isinstance(one, ToolDenied)]


NOTE = (
    'Not shown above, in an earlier turn that did not complete: pay({"order":7}) was applied; the '
    "same call with the same arguments will be refused."
)


async def test_what_a_failed_turn_wrote_is_told_until_a_committed_turn_has(journal: Any) -> None:
    shop = Shop()
    failed, _ = await shop.say("Pay 7.", called("pay", 7), journal=journal)
    assert failed.status == "failed"
    again, model = await shop.say("Pay 7!", called("pay", 7), journal=journal)
    assert (again.status, first_texts(model), reasons(again)) == (
        "failed",
        [NOTE, "Pay 7!"],
        ["duplicate"],
    )
    done, model = await shop.say("And?", called("pay", 7), "It was paid.", journal=journal)
    assert (first_texts(model), reasons(done), shop.paid) == ([NOTE, "And?"], ["duplicate"], [7])
    later, model = await shop.say("Pay 7 again.", called("pay", 7), "Done.", journal=journal)
    assert first_texts(model)[:2] == [NOTE, "And?"]
    assert first_texts(model)[-1] == "Pay 7 again."
    assert (reasons(later), shop.paid) == ([], [7, 7])


async def test_other_arguments_are_another_call(journal: Any) -> None:
    shop = Shop()
    await shop.say("Pay 7.", called("pay", 7), journal=journal)
    done, _ = await shop.say("Pay 8.", called("pay", 8), "Done.", journal=journal)
    assert (reasons(done), shop.paid) == ([], [7, 8])


async def test_what_may_have_been_done_is_told_as_such(journal: Any) -> None:
    shop = Shop()
    failed, _ = await shop.say("Post 7.", called("post", 7), journal=journal)
    assert failed.tool_outcomes[0].effect is Effect.UNKNOWN
    done, model = await shop.say("And?", called("post", 7), "Hm.", journal=journal)
    assert 'post({"order":7}) may have been applied;' in first_texts(model)[0]
    assert (reasons(done), shop.paid) == (["duplicate"], [7])


class Discards:
    """A decider that lets nothing count."""

    def before_finalize(self, info: Any, request: Any, result: Any) -> FinalizeDecision:
        return FinalizeDecision.discard("no")


async def test_what_a_discarded_turn_wrote_is_told(journal: Any) -> None:
    shop = Shop()
    more: Any = {"deciders": [Discards()]}
    gone, _ = await shop.say("Pay 7.", called("pay", 7), "Done.", journal=journal, **more)
    assert not gone.committed
    _, model = await shop.say("And?", "Yes.", journal=journal)
    assert first_texts(model) == [NOTE, "And?"]


async def test_what_a_child_run_of_a_failed_turn_wrote_is_told(journal: Any) -> None:
    shop = Shop()
    inner = Agent[Any]("inner", model=ScriptedModel([called("pay", 7), "Paid."]), tools=shop.tools)

    @tool(effect="read")
    async def ask() -> str:
        """Ask."""
        return str((await run(inner, "Pay 7.")).content)

    outer = Agent[Any]("outer", model=ScriptedModel([[ToolCall("a", "ask", {})]]), tools=[ask])
    failed = await run(outer, "Pay 7.", journal=journal, conversation="ada", retry=None)
    assert failed.status == "failed"
    _, model = await shop.say("And?", "Yes.", journal=journal)
    assert first_texts(model) == [NOTE, "And?"]


async def test_a_turn_that_is_told_what_waits_begins_and_does_not_do_it(journal: Any) -> None:
    shop = Shop()
    both = [*called("pay", 6, "p"), *called("refund", 7, "r")]
    waits, _ = await shop.say("Refund 7.", both, "Refunded.", journal=journal)
    assert waits.status == "input_required"
    done, model = await shop.say(
        "Refund 7!", called("refund", 7), "It waits.", journal=journal, if_waiting="tell"
    )
    assert first_texts(model) == [
        'Not shown above, in an earlier turn that did not complete: pay({"order":6}) was applied, '
        'refund({"order":7}) waits for approval; the same call with the same arguments will be '
        "refused.",
        "Refund 7!",
    ]
    (denied,) = [one for one in done.tool_outcomes if isinstance(one, ToolDenied)]
    assert (denied.reason, "waits for approval" in denied.details) == ("duplicate", True)
    assert (done.success, shop.paid) == (True, [6])
    talk = await journal.conversation("ada")
    assert [(one.run_id, one.tool_name) for one in talk.pending] == [(waits.run_id, "refund")]


async def test_a_turn_that_was_passed_stands_where_it_ends(journal: Any) -> None:
    shop = Shop()
    model = ScriptedModel([called("refund", 7, "r"), "Refunded."])
    agent = Agent[Any]("shop", model=model, tools=shop.tools)
    waits = await run(agent, "Refund 7.", journal=journal, conversation="ada")
    await shop.say("How are you?", "Well.", journal=journal, if_waiting="tell")
    done = await resume(waits.run_id, agent, journal=journal, answers=[Approve("r")])
    assert (done.content, shop.paid) == ("Refunded.", [7])
    talk = await journal.conversation("ada")
    asked = [one.text for one in talk.messages if one.role == "user"]
    assert asked[1:] == ["How are you?", "Refund 7."]
    assert talk.revision == 2
    _, later = await shop.say("And?", "Yes.", journal=journal)
    assert first_texts(later)[-2:] == ["Refunded.", "And?"]


async def test_a_resumed_turn_still_does_not_do_it(journal: Any) -> None:
    shop = Shop()
    await shop.say("Pay 7.", called("pay", 7), journal=journal)
    model = ScriptedModel([called("refund", 8, "r"), called("pay", 7), "Done."])
    agent = Agent[Any]("shop", model=model, tools=shop.tools)
    waits = await run(agent, "Refund 8.", journal=journal, conversation="ada")
    done = await resume(waits.run_id, agent, journal=journal, answers=[Approve("r")])
    assert (reasons(done), shop.paid) == (["duplicate"], [7, 8])


async def test_a_turn_of_which_nothing_was_written_tells_nothing(journal: Any) -> None:
    shop = Shop()
    await shop.say("Hi.", journal=journal)
    _, model = await shop.say("And?", "Yes.", journal=journal)
    assert first_texts(model) == ["And?"]
