"""What a run has used, whoever asks and however often."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot import AgentError, Budget, Cost, ModelResponse, Usage
from upshot.runs.budget import RunBudget
from upshot.testing.doubles import FakeClock


def ledger(parent: RunBudget | None = None, **limits: int) -> RunBudget:
    return RunBudget(Budget(**limits), clock=FakeClock(), parent=parent)  # type: ignore[arg-type]


PRICED = ModelResponse(usage=Usage(input_tokens=1, api_calls=1), cost=Cost(total=Decimal("0.1")))
UNPRICED = ModelResponse(usage=Usage(input_tokens=1, api_calls=1))
UNMEASURED = ModelResponse()
REFUSED = ModelResponse(error=AgentError("auth_error", "no", status_code=401))
REPLIES = st.lists(st.sampled_from([PRICED, UNPRICED, UNMEASURED, REFUSED, None]), max_size=12)


@given(REPLIES)
def test_the_sums_do_not_depend_on_when_they_are_asked_for(replies: list[ModelResponse]) -> None:
    once, often = ledger(), ledger()
    for reply in replies:
        for one in (once, often):
            one.add_unfinished() if reply is None else one.add(reply)
        assert often.total == often.total
        often.since_mark()
    assert once.total == often.total


@given(REPLIES, st.integers(0, 12))
def test_marks_divide_the_whole(replies: list[ModelResponse], place: int) -> None:
    whole = ledger()
    parts: list[tuple[Usage, Cost | None]] = []
    for number, reply in enumerate(replies):
        if number == place:
            parts.append(whole.since_mark())
        whole.add_unfinished() if reply is None else whole.add(reply)
    parts.append(whole.since_mark())
    total = Usage()
    for usage, _ in parts:
        total = total + usage
    assert total == whole.total[0]


@pytest.mark.parametrize(
    ("reply", "usage", "unpriced"),
    [
        (UNPRICED, Usage(input_tokens=1, api_calls=1), 1),
        (UNMEASURED, Usage(api_calls=1, unmeasured_calls=1), 1),
        (REFUSED, Usage(api_calls=1), 0),
    ],
)
def test_a_call_without_a_price_is_counted(
    reply: ModelResponse, usage: Usage, unpriced: int
) -> None:
    account = ledger()
    account.add(reply)
    assert account.total == (usage, None)
    account.add(PRICED)
    cost = account.total[1]
    assert cost is not None
    assert cost.unpriced_calls == unpriced


def test_a_childs_calls_count_for_its_parents() -> None:
    root = ledger()
    middle = ledger(root)
    ledger(middle).add(PRICED)
    assert root.total[0] == middle.total[0] == Usage(input_tokens=1, api_calls=1)


def test_turns_are_a_runs_own_and_tokens_are_shared() -> None:
    root = ledger(max_turns=1, max_tokens=2)
    child = ledger(root)
    child.turns = 5
    assert child.spent() is None
    child.add(ModelResponse(usage=Usage(input_tokens=1, output_tokens=1, api_calls=1)))
    spent = child.spent()
    assert spent is not None
    assert spent.details == {"dimension": "tokens", "limit": 2, "used": 2}


@pytest.fixture
def _impatient_threads() -> Iterator[None]:
    """Threads that take turns all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(*works: Callable[[], object], times: int = 3_000) -> None:
    """Do each of *works* so many times, in a thread of its own."""

    begin = threading.Barrier(len(works))

    def again(work: Callable[[], object]) -> None:
        begin.wait()
        for _ in range(times):
            work()

    threads = [threading.Thread(target=again, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.usefixtures("_impatient_threads")
def test_calls_of_other_threads_count_while_it_is_summed_up() -> None:
    root = ledger()
    inner = ledger(root)
    at_once(lambda: inner.add(PRICED), lambda: root.total)
    usage, cost = root.total
    assert usage == Usage(input_tokens=3_000, api_calls=3_000)
    assert cost is not None
    assert cost.total == Decimal("300.0")


@pytest.mark.usefixtures("_impatient_threads")
def test_tool_calls_of_several_threads_all_count() -> None:
    root = ledger()
    first, second = ledger(root), ledger(root)
    at_once(lambda: first.count_tool("add"), lambda: second.count_tool("add"), times=20_000)
    assert root.tool_calls == {"add": 40_000}


@pytest.mark.usefixtures("_impatient_threads")
def test_marks_lose_no_call_of_another_thread() -> None:
    account = ledger()
    parts: list[Usage] = []
    at_once(lambda: account.add(UNPRICED), lambda: parts.append(account.since_mark()[0]))
    parts.append(account.since_mark()[0])
    assert sum(part.api_calls for part in parts) == 3_000


def test_a_run_inside_is_allowed_what_is_left() -> None:
    outer = ledger(max_tokens=100, max_tool_calls=5, max_depth=3, max_turns=2, deadline_s=60)
    outer.add(ModelResponse(usage=Usage(input_tokens=30)))
    outer.count_tool("look", 2)
    inner = ledger(outer)
    expected = Budget(max_tokens=70, max_tool_calls=3, max_depth=3, deadline_s=60)
    assert inner.allowed == expected
    inner.add(ModelResponse(usage=Usage(input_tokens=90)))
    assert ledger(inner).allowed.max_tokens == 0
    assert (inner.allowed, outer.allowed) == (expected, outer.budget)


def test_the_lesser_limit_is_what_is_allowed() -> None:
    outer = ledger(max_tokens=100, max_cost_usd=2)
    outer.add(PRICED)
    inner = ledger(outer, max_tokens=10, max_cost_usd=3, max_turns=4)
    assert inner.allowed == Budget(max_tokens=10, max_cost_usd=Decimal("1.9"), max_turns=4)


def test_without_limits_round_it_a_run_is_allowed_its_own() -> None:
    inner = ledger(ledger(), max_turns=7)
    assert inner.allowed is inner.budget


def test_tokens_of_which_only_one_side_is_known_count() -> None:
    one = ledger(max_tokens=50)
    one.add(ModelResponse(usage=Usage(input_tokens=60)))
    error = one.spent()
    assert error is not None
    assert error.details == {"dimension": "tokens", "limit": 50, "used": 60}
