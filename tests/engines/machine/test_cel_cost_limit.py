"""What an expression may go through is limited, and counting it changes nothing else."""

from __future__ import annotations

from typing import Any

import cel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines.machine_kit import engine_of, go
from upshot.engines.machine.document import Mark
from upshot.engines.machine.expressions import Expression
from upshot.engines.machine.variables import Variables
from upshot.runs.engine_api.exceptions import Failed
from upshot.tools.definition.cel import MAX_ITEMS, ItemCount, guarded

TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"


def value(source: str, **context: Any) -> Any:
    return Expression(source, Mark()).value(Variables({"context": context}))


def nested(macro: str, body: str) -> str:
    for level in range(6):
        body = f"{TEN}.{macro}(x{level}, {body})"
    return body


@pytest.mark.parametrize(
    "source",
    [
        nested("map", "x0 + x5"),
        nested("exists", "x0 == 99"),
        nested("all", "x0 < 99"),
        f"{nested('exists', 'false')} || true",
    ],
    ids=["map", "exists", "all", "what an or would take in"],
)
def test_macros_inside_of_macros_come_to_an_end(source: str) -> None:
    # On a slow machine the time may be over first.
    said = rf"more than {MAX_ITEMS} items|computes for over"
    with pytest.raises(Failed, match=said) as caught:
        value(source)
    assert caught.value.error.code == "invalid_request"


def test_a_long_list_is_gone_through() -> None:
    assert value("context.all.exists(x, x == 39999)", all=list(range(40_000)))


def test_each_evaluation_counts_for_itself() -> None:
    expression = Expression("context.all.all(x, x == 0)", Mark())
    for _ in range(3):
        assert expression.value(Variables({"context": {"all": [0] * 30_000}}))


@pytest.mark.slow
def test_a_list_that_is_built_for_too_long_comes_to_an_end() -> None:
    with pytest.raises(Failed, match="computes for over 1 s"):
        value("context.all.map(x, x)", all=[0] * 45_000)


def test_the_count_is_of_items_and_of_time() -> None:
    times = iter([0.0, 0.5, 1.1, 0.2])
    count = ItemCount(lambda: next(times))
    assert [count(), count(), count(), count.is_spent] == [0, 1, 1, True]


async def test_a_condition_that_goes_through_too_much_fails_the_machine() -> None:
    states = f"""
    a: {{type: initial, transitions: [{{when: '{nested("exists", "x0 == 99")}', to: z}}]}}
    z: {{type: final}}
    """
    result = await go(engine_of(states))
    assert result.error is not None
    assert result.error.code == "invalid_request"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("[1, 2].map(x, x > 1, x * 2)", [4]),
        ("[[1, 2], [3]].map(x, x.map(y, y + 1))", [[2, 3], [4]]),
        ("{'a': 1}.map(k, k + ')')", ["a)"]),
        ("[1].map(x, ',(' + string(x)) // ),(", [",(1"]),
        (r"['a'].map(x, x + r'\')", ["a\\"]),
        ("['a'].map(x, x + r'''y' z''')", ["ay' z"]),
        ("['a'] . map ( x , [x, {'k': (x)}] )", [["a", {"k": "a"}]]),
        ("[1, 2].exists_one(x, x == 2) ? [3].filter(x, true) : []", [3]),
        ("context.items.exists(x, has(x.n) && x.n == 2)", True),
        ("context.items.filter(x, !(x.n in [1]))", [{"n": 2}]),
        ("['a'].map(x, x.upperAscii())", ["A"]),
        ("[null, true].map(x, x)", [None, True]),
        ("[0, 1].exists(x, 1 / x == 1)", True),
    ],
)
def test_counting_changes_nothing(source: str, expected: Any) -> None:
    try:
        plain = cel.compile(source).execute({"context": {"items": [{"n": 1}, {"n": 2}]}})
        assert plain == expected
    except (RuntimeError, ZeroDivisionError) as error:
        # The library of functions is not given here; and what a fault is stays one.
        if isinstance(error, ZeroDivisionError):
            with pytest.raises(Failed):
                value(source)
            return
    assert value(source, items=[{"n": 1}, {"n": 2}]) == expected


@pytest.mark.parametrize("source", ["context.map", "size('x.map(y, y)') > 1", "filter(1, 2)"])
def test_what_has_no_macro_stays_as_it_is(source: str) -> None:
    assert guarded(source) == source


@given(st.text(alphabet="()[]{},.'\"r\\/ mapx\n", max_size=40))
def test_guarding_never_raises_and_keeps_what_was_there(source: str) -> None:
    text = guarded(source)
    for part in source.split():
        assert all(letter in text for letter in part)
