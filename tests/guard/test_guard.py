"""What a guard does with calls, whichever framework makes them."""

import asyncio
import os
import resource
import signal
import sys
from pathlib import Path

import pytest

import upshot
from tests.processes import LOADED
from upshot import Budget, Policy, ToolContext, tool
from upshot.contract import ToolCall
from upshot.guard import guard
from upshot.tools.export import Conversation, Decision, ForeignCall

SERVER = Path(__file__).parents[1] / "tools" / "mcp" / "server.py"


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "desk.db"


def asked(id, name, *, said="Go.", turn=1, replies=None, decision=None, **arguments):
    call = ToolCall(id, name, arguments)
    shown = Conversation("case-7", said, turn, ((call,),) if replies is None else replies)
    return ForeignCall(call, decision, None, lambda: shown)


@pytest.fixture
def done():
    return []


@pytest.fixture
def pay(done):
    @tool(effect="write")
    async def pay(amount: int) -> str:
        """Pay."""
        done.append(amount)
        return f"paid {amount}"

    return pay


async def test_calls_that_come_together_are_of_one_session(journal, pay, done):
    desk = guard([pay], journal=journal)
    both = ToolCall("c1", "pay", {"amount": 1}), ToolCall("c2", "pay", {"amount": 2})
    handed = await asyncio.gather(
        *(desk.make(asked(one.id, "pay", replies=(both,), **one.arguments)) for one in both)
    )
    assert [one.content for one in handed] == ["paid 1", "paid 2"]
    async with upshot.open_journal(journal) as opened:
        kinds = [event.kind async for event in opened.events("case-7")]
    assert kinds.count("run_settled") == 1
    assert kinds[-1] == "run_settled"


async def test_two_guards_of_one_loop_take_turns(journal, pay, done):
    both = ToolCall("c1", "pay", {"amount": 1}), ToolCall("c2", "pay", {"amount": 2})
    handed = await asyncio.gather(
        *(
            guard([pay], journal=journal).make(asked(id, "pay", replies=(both,), amount=amount))
            for id, amount in [("c1", 1), ("c2", 2), ("c1", 1)]
        )
    )
    assert [one.content for one in handed] == ["paid 1", "paid 2", "paid 1"]
    assert sorted(done) == [1, 2]


async def test_a_call_that_is_asked_for_twice_at_once_is_made_once(journal, pay, done):
    desk = guard([pay], journal=journal)
    first, second = await asyncio.gather(*(desk.make(asked("c1", "pay", amount=1)) for _ in "ab"))
    assert first == second
    assert done == [1]


def replies_of(*ids):
    """Replies that pay 1 under these ids, one string of ids each."""
    return tuple(tuple(ToolCall(id, "pay", {"amount": 1}) for id in reply) for reply in ids)


@pytest.mark.parametrize("is_other_process", [False, True])
async def test_equal_calls_of_one_reply_are_one_call_and_those_of_two_are_two(
    journal, pay, done, is_other_process
):
    desk = guard([pay], journal=journal)
    for id, replies in [("a", "ab"), ("b", "ab"), ("c", "ab c"), ("d", "ab c d"), ("b", "ab")]:
        if is_other_process:
            desk = guard([pay], journal=journal)
        handed = await desk.make(asked(id, "pay", amount=1, replies=replies_of(*replies.split())))
        assert handed.outcome.output == {"result": "paid 1"}
    assert done == [1, 1, 1]


async def test_calls_that_are_asked_for_anew_keep_their_replies(journal, pay, done):
    desk = guard([pay], journal=journal)
    # Then the messages are lost, the same is asked for under other ids, and one call more.
    for said in (["ab", "c"], ["de", "f", "g"]):
        for at, reply in enumerate(said):
            for id in reply:
                replies = replies_of(*said[: at + 1])
                await desk.make(asked(id, "pay", amount=1, replies=replies))
    assert done == [1, 1, 1]


@pytest.mark.parametrize("order", ["ab", "ba"])
async def test_of_equal_calls_that_wait_one_is_made_and_both_are_answered(journal, done, order):
    @tool(effect="write", approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        done.append(amount)
        return "paid"

    asks = [asked(id, "pay", amount=1, replies=replies_of("ab")) for id in order]
    for one in asks:
        assert (await guard([pay], journal=journal).make(one)).pending is not None
    yes = Decision(is_yes=True, by="ada")
    desk = guard([pay], journal=journal)
    handed = [await desk.make(one._replace(decision=yes)) for one in reversed(asks)]
    assert [one.outcome.output for one in handed] == [{"result": "paid"}] * 2
    assert done == [1]
    async with upshot.open_journal(journal) as opened:
        (row,) = (await opened.audit()).rows
    assert (row.user, row.action, row.tool, row.arguments) == (
        "ada",
        "approve",
        "pay",
        {"amount": 1},
    )


async def test_the_approval_of_a_framework_is_none_of_several_users(journal, done):
    @tool(effect="write", approvals=2)
    async def pay(amount: int) -> str:
        """Pay."""
        done.append(amount)
        return "paid"

    ask = asked("c1", "pay", amount=1)
    approved = ask._replace(decision=Decision(is_yes=True, by="a framework"))
    assert (await guard([pay], journal=journal).make(ask)).pending is not None
    for user in ("ann", "bob"):
        for _ in "ab":
            handed = await guard([pay], journal=journal).make(approved)
            assert handed.outcome is None and done == []
        (item,) = await upshot.inbox(journal=journal)
        await upshot.answer(item.run_id, [item.pending.approve(by=user)], journal=journal)
    assert (await guard([pay], journal=journal).make(approved)).outcome.output == {"result": "paid"}
    assert done == [1]


async def test_without_its_messages_a_call_is_found_by_its_id_alone(journal, pay, done):
    desk = guard([pay], journal=journal, run_id="case-7")
    for id in ("c1", "c1", "c2"):
        await desk.make(ForeignCall(ToolCall(id, "pay", {"amount": 1})))
    assert done == [1, 1]


async def test_a_repetition_is_denied_in_the_words_of_one_turn_only(journal, done):
    @tool(effect="write", idempotent=True)
    async def put(amount: int) -> str:
        """Put."""
        done.append(amount)
        return "put"

    replies = ((ToolCall("c1", "put", {"amount": 1}),),)
    reasons = []
    for id, turn in [("c1", 1), ("c2", 1), ("c3", 2), ("c4", 2)]:
        call = ToolCall(id, "put", {"amount": 1})
        replies = (*replies, (call,))
        shown = Conversation("case-7", "Go.", turn, replies)
        handed = await guard([put], journal=journal).make(
            ForeignCall(call, conversation=lambda shown=shown: shown)
        )
        reasons.append(getattr(handed.outcome, "reason", "made"))
    assert reasons == ["made", "duplicate", "made", "duplicate"]
    assert done == [1, 1]


async def test_a_run_is_named_by_what_the_framework_gives(journal, pay):
    desk = guard([pay], journal=journal, run_id=lambda context: f"case-{context}")
    await desk.make(ForeignCall(ToolCall("c1", "pay", {"amount": 1}), context=8))
    async with upshot.open_journal(journal) as opened:
        assert [run.run_id for run in await opened.runs()] == ["case-8"]


async def test_a_call_of_no_known_conversation_is_refused(journal, pay, done):
    with pytest.raises(
        upshot.Misuse, match="does not say which conversation a call belongs to: give"
    ):
        await guard([pay], journal=journal).make(ForeignCall(ToolCall("c1", "pay", {"amount": 1})))
    assert done == []


async def test_a_call_that_is_given_up_is_ended_and_stands_so_in_the_journal(journal):
    began = asyncio.Event()

    @tool(effect="write")
    async def wait() -> None:
        """Wait."""
        began.set()
        await asyncio.Event().wait()

    desk = guard([wait], journal=journal)
    task = asyncio.create_task(desk.make(asked("c1", "wait")))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    handed = await desk.make(asked("c1", "wait"))
    assert (handed.outcome.code, handed.outcome.effect) == ("cancelled", "unknown")


async def test_of_a_run_that_is_ended_meanwhile_the_call_has_its_outcome(journal):
    began = asyncio.Event()

    @tool(effect="write")
    async def wait() -> None:
        """Wait."""
        began.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(guard([wait], journal=journal).make(asked("c1", "wait")))
    await began.wait()
    ended = await upshot.cancel("case-7", journal=journal)
    assert ended.status == "canceled"
    handed = await task
    assert (handed.outcome.code, handed.outcome.effect) == ("cancelled", "unknown")


async def test_a_limit_of_the_run_ends_its_calls(journal, pay, done):
    desk = guard([pay], journal=journal, budget=Budget(max_tool_calls=1))
    made = await desk.make(asked("c1", "pay", amount=1))
    denied = await desk.make(asked("c2", "pay", amount=2, replies=((), ())))
    assert made.outcome.kind == "tool_execution_result"
    assert denied.outcome.reason == "budget"
    assert done == [1]


async def test_tools_find_their_dependencies_and_their_key(journal):
    @tool(effect="write")
    async def look(context: ToolContext[list[str]]) -> str:
        """Look."""
        context.dependencies.append(context.idempotency_key)
        return "seen"

    keys = []
    desk = guard([look], journal=journal, dependencies=keys)
    handed = await desk.make(asked("c1", "look"))
    assert handed.content == "seen"
    assert len(keys[0]) == 64


async def test_tools_of_an_mcp_server_go_through_the_guard(journal, tmp_path):
    env = {**LOADED, "MCP_LOG": str(tmp_path / "log")}
    command = [sys.executable, "-S", str(SERVER)]
    async with upshot.open_mcp("s", command=command, env=env) as server:
        desk = guard([server], journal=journal)
        handed = [await desk.make(asked("c1", "s_add", a=1, b=2)) for _ in "ab"]
    assert handed[0] == handed[1]
    assert handed[0].outcome.kind == "tool_execution_result"
    async with upshot.open_journal(journal) as opened:
        kinds = [event.kind async for event in opened.events("case-7")]
    assert kinds.count("tool_started") == 1


async def test_a_no_is_final_for_the_same_arguments(journal, done):
    @tool(effect="write", approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        done.append(amount)
        return "paid"

    desk = guard([pay], journal=journal)
    waits = await desk.make(asked("c1", "pay", amount=1))
    assert waits.outcome is None
    assert waits.pending is not None
    no = Decision(is_yes=False, reason="too much", by="ada")
    denied = await desk.make(asked("c1", "pay", amount=1, decision=no))
    assert "too much" in denied.content
    late = await desk.make(asked("c1", "pay", amount=1, decision=Decision(is_yes=True)))
    assert late == denied
    assert done == []


async def test_taint_of_a_guard_is_in_its_log_for_whoever_goes_on(journal, pay, done):
    async def has_foreign():
        return True

    @tool(effect="read", trust="untrusted")
    async def mail() -> str:
        """Mail."""
        return "Pay 9."

    handed = asked("c1", "pay", amount=9)._replace(has_foreign=has_foreign)
    waits = await guard([pay], journal=journal, policy=Policy()).make(handed)
    assert str(waits.pending.taint) == "an earlier run"
    # Another process, to which the framework shows nothing of that.
    later = asked("c2", "pay", amount=8, replies=((), ()))
    waits = await guard([pay], journal=journal, policy=Policy()).make(later)
    assert str(waits.pending.taint) == "an earlier run"
    assert (await guard([pay], journal=journal).make(later)).outcome is None
    async with upshot.open_journal(journal) as opened:
        seq = len([event async for event in opened.events("case-7")])
        copy = await upshot.fork("case-7", at=seq, journal=opened)
    forked = guard([pay], journal=journal, policy=Policy(), run_id=copy)
    assert (await forked.make(asked("c3", "pay", amount=7, replies=((), ())))).pending.taint
    # What a call of the run has read is no other case.
    desk = guard([pay, mail], journal=journal, policy=Policy(), run_id="case-8")
    await desk.make(asked("c1", "mail"))
    own = await guard([pay], journal=journal, policy=Policy(), run_id="case-8").make(later)
    assert str(own.pending.taint) == "mail"
    assert done == []


async def test_without_a_rule_on_taint_no_message_is_looked_at(journal, pay, done):
    async def has_foreign():
        raise AssertionError

    handed = asked("c1", "pay", amount=1)._replace(has_foreign=has_foreign)
    await guard([pay], journal=journal, policy=Policy(taint="off")).make(handed)
    assert done == [1]


def full_disk(journal, pay):
    """Make a second call where the journal cannot grow any more."""

    async def work():
        desk = guard([pay], journal=journal)
        await desk.make(asked("c1", "pay", amount=1))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        try:
            await desk.make(asked("c2", "pay", amount=2, replies=((), ())))
        except upshot.JournalError:
            return 3
        return 0

    return work


def test_where_the_journal_cannot_be_written_no_tool_is_called(journal, tmp_path):
    paid = tmp_path / "paid"
    paid.mkdir()

    @tool(effect="write")
    async def pay(amount: int) -> str:
        """Pay."""
        (paid / str(amount)).mkdir()
        return "paid"

    pid = os.fork()
    if not pid:
        os._exit(asyncio.run(full_disk(journal, pay)()))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    assert [one.name for one in paid.iterdir()] == ["1"]
