"""``Ledger.once`` on the tools of other frameworks: one refund, whoever asks for it.

Each test is red where the decorator is left out: ``test_without_it_...`` holds that.
"""

import asyncio
import importlib
import importlib.util
import threading
from contextlib import nullcontext

import pytest

from bench.effects.play import Play
from tests.adapters_real.guarding import Book
from upshot import Ledger

# CrewAI has an environment of its own, with older packages than the others need.
NAMES = ["adk", "agno", "claude_sdk", "openai_agents", "smolagents", "strands"]
if importlib.util.find_spec("crewai"):
    NAMES = ["crewai"]
AGAIN = "may have made it; it is not made again until that is known"


@pytest.fixture(params=NAMES)
def desk(request):
    return importlib.import_module(f"bench.effects.desks.{request.param}")


@pytest.fixture
def book(tmp_path):
    return Book(tmp_path / "book")


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(tmp_path / "effects.db")
    yield made
    asyncio.run(made.aclose())


def refund_in(book, *, fails=False, holding=None):
    def refund(order_id: str, cents: int) -> str:
        """Refund an order.

        Args:
            order_id: The order.
            cents: How much.
        """
        book.write(order_id)
        if fails:
            raise TimeoutError("the bank did not answer")
        with holding or nullcontext():
            return f"re_{order_id}_{len(book.rows)}"

    return refund


def asks(desk, refund, *plays, folder):
    """What the model read of each call, in as many runs as there are scripts."""
    for number, play in enumerate(plays):
        desk.talk(refund, play, session=f"case{number}", folder=folder)
    return [text for play in plays for text in play.told.values()]


def test_without_it_a_refund_is_made_by_each_run(desk, book, tmp_path):
    asks(desk, refund_in(book), Play([[{}]]), Play([[{}]]), folder=tmp_path)
    assert book.orders == ["7", "7"]


def test_without_it_a_refund_that_timed_out_is_made_again(desk, book, tmp_path):
    asks(desk, refund_in(book, fails=True), Play([[{}], [{}]]), folder=tmp_path)
    assert book.orders == ["7", "7"]


def test_a_refund_is_made_by_one_run_and_both_get_its_output(desk, book, ledger, tmp_path):
    refund = ledger.once("order_id")(refund_in(book))
    told = asks(desk, refund, Play([[{}, {}]]), Play([[{}]]), folder=tmp_path)
    assert all("re_7_1" in text for text in told) and len(told) == 3
    assert book.orders == ["7"]


def test_the_model_reads_that_a_refund_may_have_been_made(desk, book, ledger, tmp_path):
    refund = ledger.once("order_id")(refund_in(book, fails=True))
    first, *later = asks(desk, refund, Play([[{}], [{}]]), Play([[{}]]), folder=tmp_path)
    assert "the bank did not answer" in first
    assert all(AGAIN in text for text in later) and len(later) == 2
    assert book.orders == ["7"]


def test_the_model_reads_that_a_refund_was_made_with_other_arguments(desk, book, ledger, tmp_path):
    refund = ledger.once("order_id")(refund_in(book))
    _, told = asks(desk, refund, Play([[{}], [{"cents": 100}]]), folder=tmp_path)
    assert "900" in told and "one of them is wrong" in told
    assert book.orders == ["7"]


def test_the_model_reads_that_a_refund_is_under_way(desk, book, ledger, tmp_path):
    holding = threading.Lock()
    refund = ledger.once("order_id", wait_s=0.05)(refund_in(book, holding=holding))
    with holding:
        other = threading.Thread(target=refund, args=("7", 900))
        other.start()
        while not book.rows:
            pass
        (told,) = asks(desk, refund, Play([[{}]]), folder=tmp_path)
    other.join()
    assert "under way" in told or "in progress" in told
    assert book.orders == ["7"]


def test_the_framework_reads_the_same_schema(desk, book, ledger):
    refund = refund_in(book)
    if desk.__name__.endswith("claude_sdk"):
        pytest.skip("the schema of its tools is written by hand")
    assert desk.schema_of(ledger.once("order_id")(refund)) == desk.schema_of(refund)


# -- the frameworks' own approvals: one question, answered by two processes


def only(name):
    return pytest.mark.skipif(name not in NAMES, reason="of another environment")


@only("openai_agents")
@pytest.mark.parametrize("guarded", [False, True])
def test_an_approval_that_is_given_twice_to_openai_agents(guarded, book, ledger):
    from agents import Agent, Runner, RunState, function_tool

    from bench.effects.desks.openai_agents import Scripted

    refund = refund_in(book)
    tool = function_tool(
        ledger.once("order_id")(refund) if guarded else refund, needs_approval=True
    )

    def agent_of(*replies):
        return Agent(name="clerk", model=Scripted(Play(replies)), tools=[tool])

    async def approve(kept):
        agent = agent_of()
        state = await RunState.from_json(agent, kept)
        for one in state.get_interruptions():
            state.approve(one)
        return (await Runner.run(agent, state)).new_items

    async def work():
        parked = await Runner.run(agent_of([{}]), "Refund order 7.")
        assert parked.interruptions and book.rows == []
        kept = parked.to_state().to_json()
        return [str([await approve(kept) for _ in range(2)])]

    (items,) = asyncio.run(work())
    assert book.orders == (["7"] if guarded else ["7", "7"])
    assert not guarded or items.count("re_7_1") >= 2
