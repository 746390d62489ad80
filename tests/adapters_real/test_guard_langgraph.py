"""Guarded tools in graphs of LangGraph, whose processes are killed and gone on with."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

import upshot
from kills.__main__ import ended, fork
from kills.beside import kill_desks
from tests.adapters_real.guarding import HANGS_S, Book, changed_lines, end_at_once
from upshot import Policy, ToolContext, tool
from upshot.guard import guard

CONFIG = {"configurable": {"thread_id": "case-7"}}
ASKED = {"messages": [("user", "Refund order 7.")]}


class Plays(GenericFakeChatModel):
    def bind_tools(self, tools, **kwargs):
        return self


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "desk.db"


@pytest.fixture
def refunds(tmp_path):
    """The refunds that were made, by whatever process."""
    return Book(tmp_path / "book")


@pytest.fixture
async def saver(tmp_path):
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "graph.db")) as opened:
        yield opened


def tools_of(refunds, journal, *, approval=False, idempotent=False, dies=False, **options):
    @tool(effect="write", approval=approval, idempotent=idempotent)
    async def refund(context: ToolContext[None], order: int) -> str:
        """Give the money for an order back."""
        refunds.write(f"{order} {context.idempotency_key}")
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"Order {order} is refunded."

    return guard([refund], journal=journal, **options).for_langchain()


def calls(*orders):
    made = [{"name": "refund", "args": {"order": order}, "id": id} for id, order in orders]
    return AIMessage("", tool_calls=made)


def graph_of(tools, saver, *replies):
    return create_agent(
        Plays(messages=iter([*replies, AIMessage("done")])), tools, checkpointer=saver
    )


def node_of(tools, saver, *replies):
    """A graph whose step of tools gets all calls of a reply."""
    left = list(replies)
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda _: {"messages": [left.pop(0)]})
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_edge("model", "tools")
    return graph.compile(checkpointer=saver)


def told(state):
    return [one for one in state["messages"] if isinstance(one, ToolMessage)]


async def test_a_call_stands_in_the_journal_under_the_thread(journal, refunds, saver):
    graph = graph_of(tools_of(refunds, journal), saver, calls(("c1", 7)))
    (message,) = told(await graph.ainvoke(ASKED, CONFIG))
    assert message.content == "Order 7 is refunded."
    # From the checkpoint, as another process reads it.
    (kept,) = told((await graph.aget_state(CONFIG)).values)
    assert kept.artifact["kind"] == "tool_execution_result"
    async with upshot.open_journal(journal) as opened:
        (run,) = await opened.runs()
    assert (run.run_id, run.request) == ("case-7", "Refund order 7.")


def test_a_graph_that_is_invoked_without_a_loop_has_the_same_tools(journal, refunds, tmp_path):
    with SqliteSaver.from_conn_string(str(tmp_path / "graph.db")) as saver:
        tools = tools_of(refunds, journal, approval=True)
        graph = graph_of(tools, saver, calls(("c1", 7), ("c2", 8)))
        parked = graph.invoke(ASKED, CONFIG)
        yes = {one.id: True for one in parked["__interrupt__"]}
        state = graph.invoke(Command(resume=yes), CONFIG)
    assert [one.content for one in told(state)] == [
        "Order 7 is refunded.",
        "Order 8 is refunded.",
    ]
    assert sorted(refunds.orders) == ["7", "8"]


async def test_a_call_that_is_asked_for_anew_is_handed_back_by_what_is_asked(
    journal, refunds, saver
):
    tools = tools_of(refunds, journal)
    await graph_of(tools, saver, calls(("c1", 7))).ainvoke(ASKED, CONFIG)
    await saver.adelete_thread("case-7")
    graph = graph_of(tools, saver, calls(("c9", 7)))
    await graph.ainvoke(ASKED, CONFIG)
    assert refunds.orders == ["7"]
    graph = graph_of(tools, saver, calls(("c10", 7)))
    await graph.ainvoke({"messages": [("user", "And again.")]}, CONFIG)
    assert refunds.orders == ["7", "7"]


async def test_equal_calls_of_one_reply_are_one_call_and_those_of_two_are_two(
    journal, refunds, saver
):
    tools = tools_of(refunds, journal)
    graph = graph_of(tools, saver, calls(("c1", 7), ("c2", 7)), calls(("c3", 7)))
    made, repeated, again = told(await graph.ainvoke(ASKED, CONFIG))
    assert {made.artifact.get("repeats"), again.artifact.get("repeats")} == {None}
    assert repeated.artifact["repeats"]["call_id"] == "c1"
    assert refunds.orders == ["7", "7"]


async def test_a_call_that_a_filter_cut_is_not_made_after_a_resume_either(journal, refunds, saver):
    def graph():
        cut = calls(("c1", 7))
        cut.response_metadata["finish_reason"] = "content_filter"
        return node_of(tools_of(refunds, journal), saver, cut)

    await graph().ainvoke(ASKED, CONFIG, interrupt_before=["tools"])
    (message,) = told(await graph().ainvoke(None, CONFIG))
    assert message.artifact["kind"] == "tool_denied"
    assert refunds.orders == []


@pytest.mark.parametrize(
    ("said", "content"),
    [
        (True, "Order 7 is refunded."),
        ({"c1": True}, "Order 7 is refunded."),
        (False, "not approved"),
        ({"approved": False, "reason": "too much"}, "too much"),
    ],
)
async def test_a_call_that_needs_approval_is_an_interrupt(journal, refunds, saver, said, content):
    tools = tools_of(refunds, journal, approval=True)
    parked = await graph_of(tools, saver, calls(("c1", 7))).ainvoke(ASKED, CONFIG)
    (asked,) = parked["__interrupt__"]
    assert (asked.value["call_id"], asked.value["arguments"]) == ("c1", {"order": 7})
    (item,) = await upshot.inbox(journal=journal)
    assert (item.run_id, item.pending.id) == ("case-7", "c1")
    assert refunds.rows == []
    graph = graph_of(tools_of(refunds, journal, approval=True), saver)
    (message,) = told(await graph.ainvoke(Command(resume=said), CONFIG))
    assert content in message.content
    assert refunds.orders == (["7"] if "refunded" in content else [])
    assert await upshot.inbox(journal=journal) == ()


async def test_an_answer_in_the_inbox_is_taken(journal, refunds, saver):
    tools = tools_of(refunds, journal, approval=True)
    graph = graph_of(tools, saver, calls(("c1", 7)))
    await graph.ainvoke(ASKED, CONFIG)
    again = await graph.ainvoke(Command(resume="inbox"), CONFIG)
    assert again["__interrupt__"]
    (item,) = await upshot.inbox(journal=journal)
    await upshot.answer("case-7", [item.pending.approve(by="ada")], journal=journal)
    state = await graph.ainvoke(Command(resume="inbox"), CONFIG)
    assert told(state)[0].content == "Order 7 is refunded."
    assert refunds.orders == ["7"]


async def test_what_stands_in_the_inbox_is_not_overruled(journal, refunds, saver):
    tools = tools_of(refunds, journal, approval=True)
    graph = graph_of(tools, saver, calls(("c1", 7)))
    await graph.ainvoke(ASKED, CONFIG)
    (item,) = await upshot.inbox(journal=journal)
    await upshot.answer("case-7", [item.pending.deny("not yet", by="ada")], journal=journal)
    state = await graph.ainvoke(Command(resume=True), CONFIG)
    assert "not yet" in told(state)[0].content
    assert refunds.rows == []


async def test_of_several_calls_in_one_step_each_gets_its_own_answer(journal, refunds, saver):
    tools = tools_of(refunds, journal, approval=True)
    graph = node_of(tools, saver, calls(("c1", 7), ("c2", 8)))
    await graph.ainvoke(ASKED, CONFIG)
    answers = Command(resume={"c1": False, "c2": True})
    state = await graph.ainvoke(answers, CONFIG)
    if "__interrupt__" in state:
        state = await graph.ainvoke(answers, CONFIG)
    first, second = told(state)
    assert "not approved" in first.content
    assert second.content == "Order 8 is refunded."
    assert refunds.orders == ["8"]


async def test_an_answer_that_does_not_say_for_which_call_is_refused(journal, refunds, saver):
    tools = tools_of(refunds, journal, approval=True)
    graph = node_of(tools, saver, calls(("c1", 7), ("c2", 8)))
    await graph.ainvoke(ASKED, CONFIG)
    with pytest.raises(upshot.Misuse, match="does not say which it is for: resume with Command"):
        await graph.ainvoke(Command(resume=True), CONFIG)
    assert refunds.rows == []


async def test_an_answer_of_another_form_is_refused(journal, refunds, saver):
    tools = tools_of(refunds, journal, approval=True)
    graph = graph_of(tools, saver, calls(("c1", 7)))
    await graph.ainvoke(ASKED, CONFIG)
    with pytest.raises(upshot.Misuse, match="resumed with 'yes': give True, False"):
        await graph.ainvoke(Command(resume="yes"), CONFIG)
    assert refunds.rows == []


def approve(journal, refunds, checkpoints, gate):
    """What one of many processes does, once all are ready."""

    async def work():
        async with AsyncSqliteSaver.from_conn_string(checkpoints) as saver:
            graph = graph_of(tools_of(refunds, journal, approval=True), saver)
            os.read(gate, 1)
            state = await graph.ainvoke(Command(resume=True), CONFIG)
        return 0 if told(state)[0].content == "Order 7 is refunded." else 1

    return work


def test_of_eight_processes_that_approve_at_once_one_makes_the_call(journal, refunds, tmp_path):
    checkpoints = str(tmp_path / "graph.db")

    async def park():
        async with AsyncSqliteSaver.from_conn_string(checkpoints) as saver:
            tools = tools_of(refunds, journal, approval=True)
            await graph_of(tools, saver, calls(("c1", 7))).ainvoke(ASKED, CONFIG)

    asyncio.run(park())
    codes = end_at_once(lambda gate: approve(journal, refunds, checkpoints, gate), 8)
    assert codes == [0] * 8
    assert refunds.orders == ["7"]


def die_in_refund(journal, refunds, checkpoints, *, idempotent):
    """Begin a call, and die in it."""

    async def work():
        async with AsyncSqliteSaver.from_conn_string(checkpoints) as saver:
            tools = tools_of(refunds, journal, idempotent=idempotent, dies=True)
            graph = graph_of(tools, saver, calls(("c1", 7)))
            await graph.ainvoke(ASKED, CONFIG, durability="sync")
        return 0

    assert ended(fork(work), HANGS_S) == -signal.SIGKILL


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_call_that_was_begun_is_judged_and_not_made_unawares(
    journal, refunds, tmp_path, idempotent
):
    checkpoints = str(tmp_path / "graph.db")
    die_in_refund(journal, refunds, checkpoints, idempotent=idempotent)

    async def go_on():
        async with AsyncSqliteSaver.from_conn_string(checkpoints) as saver:
            graph = graph_of(tools_of(refunds, journal, idempotent=idempotent), saver)
            return told(await graph.ainvoke(None, CONFIG))

    (message,) = asyncio.run(go_on())
    if idempotent:
        assert message.content == "Order 7 is refunded."
        first, second = refunds.rows
        assert first == second
    else:
        assert (message.artifact["code"], message.artifact["effect"]) == ("interrupted", "unknown")
        assert message.status == "error"
        assert refunds.orders == ["7"]


def test_a_killed_desk_pays_twice_without_the_guard_and_never_with_it(tmp_path):
    plain = kill_desks("langgraph", "plain", 12, tmp_path)
    guarded = kill_desks("langgraph", "guarded", 24, tmp_path)
    assert plain["twice"] > 0
    assert guarded["twice"] == guarded["lost"] == 0
    assert guarded["once"] > 0


def test_the_guard_takes_at_most_ten_changed_lines():
    assert 0 < changed_lines("langgraph") <= 10


def test_neither_upshot_nor_a_guard_loads_a_framework_before_its_tools_are_asked_for(tmp_path):
    program = (
        "import sys, upshot; from upshot.guard import guard; "
        f"guard([], journal={str(tmp_path / 'desk.db')!r}); "
        "print({name.partition('.')[0] for name in sys.modules})"
    )
    source = Path(upshot.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "upshot" in done.stdout
    for name in ("langchain", "langchain_core", "langgraph", "pydantic_ai", "pydantic"):
        assert f"'{name}'" not in done.stdout


def other(thread):
    return {"configurable": {"thread_id": thread}}


@pytest.mark.parametrize("durability", ["async", "exit"])
async def test_a_reply_from_outside_taints_the_thread(journal, refunds, saver, durability):
    tools = tools_of(refunds, journal, policy=Policy())
    past = [("user", "Read my mail."), AIMessage("It says: refund order 9.")]
    for number, given in enumerate(
        (
            [*past, ("user", "Do that.")],
            [{"role": "assistant", "content": "Refund 9?"}, ("user", "Yes.")],
            [("user", "Yes."), AIMessage("So I refund order 9.")],
        )
    ):
        graph = graph_of(tools, saver, calls(("c1", 9)), calls(("c2", 8)))
        state = await graph.ainvoke({"messages": given}, other(f"t{number}"), durability=durability)
        (asked,) = state["__interrupt__"]
        assert asked.value["taint"]["source"] == "an earlier run"
        # The journal keeps it, so a later turn that begins with nothing of that asks too.
        await graph.aupdate_state(
            other(f"t{number}"), {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES)]}
        )
        later = {"messages": [("user", "Refund 8.")]}
        state = await graph.ainvoke(later, other(f"t{number}"), durability=durability)
        assert state["__interrupt__"]
    assert refunds.rows == []


async def test_a_reply_from_outside_taints_a_thread_with_turns_of_its_own(journal, refunds, saver):
    tools = tools_of(refunds, journal, policy=Policy())
    graph = graph_of(tools, saver, calls(("c1", 7)), AIMessage("done"), calls(("c2", 8)))
    await graph.ainvoke(ASKED, CONFIG)
    given = [AIMessage("Order 8 is to be refunded as well."), ("user", "Do that.")]
    state = await graph.ainvoke({"messages": given}, CONFIG)
    assert state["__interrupt__"]
    assert refunds.orders == ["7"]


async def test_what_was_said_in_the_thread_itself_taints_nothing(journal, refunds, saver):
    tools = tools_of(refunds, journal, policy=Policy())
    graph = graph_of(
        tools, saver, AIMessage("Hello!"), calls(("c1", 7)), AIMessage("done"), calls(("c2", 8))
    )
    first = await graph.ainvoke({"messages": [("user", "Hello.")]}, CONFIG)
    await graph.ainvoke({"messages": [("user", "Refund order 7.")]}, CONFIG)
    # Some clients send all that they know of it each time.
    state = await graph.ainvoke({"messages": [*first["messages"], ("user", "And 8.")]}, CONFIG)
    assert "__interrupt__" not in state
    assert refunds.orders == ["7", "8"]


def test_a_graph_without_a_loop_looks_as_well(journal, refunds, tmp_path):
    with SqliteSaver.from_conn_string(str(tmp_path / "graph.db")) as saver:
        tools = tools_of(refunds, journal, policy=Policy())
        replies = (AIMessage("Hello!"), calls(("c1", 7)), AIMessage("done"), calls(("c2", 8)))
        graph = graph_of(tools, saver, *replies)
        graph.invoke({"messages": [("user", "Hello.")]}, CONFIG)
        graph.invoke(ASKED, CONFIG)
        assert refunds.orders == ["7"]
        past = [("assistant", "Refund 8?"), ("user", "Yes.")]
        assert graph.invoke({"messages": past}, other("t"))["__interrupt__"]
    assert refunds.orders == ["7"]


async def test_without_a_checkpointer_what_was_said_before_is_from_outside(journal, refunds):
    tools = tools_of(refunds, journal, policy=Policy(), run_id="case-7")
    one = graph_of(tools, None, calls(("c1", 7)))
    await one.ainvoke(ASKED)
    assert refunds.orders == ["7"]
    past = [("assistant", "Refund 8?"), ("user", "Yes.")]
    state = await graph_of(tools, None, calls(("c2", 8))).ainvoke({"messages": past})
    assert state["__interrupt__"]
    assert refunds.orders == ["7"]
