"""Expressions: parsed once, checked before they run, and evaluated over what they read only."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upshot import AgentError, AgentResult, Failed, RateLimitState, RateLimitWindow, Status, Usage
from upshot.engines.machine.document import Mark
from upshot.engines.machine.expressions import Expression
from upshot.engines.machine.variables import Variables
from upshot.tools.definition.cel import MAX_EXPRESSION_CHARS, BadExpression

CONTEXT = {
    "n": 1,
    "f": 1.5,
    "s": "hi",
    "l": [1, 2],
    "m": {"k": {"j": 7}, "size": 5},
    "u": "ßä€",
    "none": None,
    "big": 2**80,
}
GOOD: AgentResult[Any] = AgentResult(output={"a": 1}, usage=Usage(input_tokens=3, output_tokens=4))
BAD: AgentResult[Any] = AgentResult(
    status=Status.FAILED,
    error=AgentError("rate_limit", "slow down", retry_after_s=9.0),
    rate_limit=RateLimitState(
        limited=True,
        windows=(RateLimitWindow(name="requests_per_minute", remaining=0, resets_in=12),),
    ),
)


def scope(result: AgentResult[Any] = GOOD) -> Variables:
    return Variables(
        {"context": CONTEXT, "input": {"message": "Go."}, "output": {"a": 1}}, lambda: result
    )


def value(source: str, result: AgentResult[Any] = GOOD) -> Any:
    return Expression(source, Mark()).value(scope(result))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("context.n + 1", 2), ("context.f == 1.5", True), ("context.s + '!'", "hi!"),
        ("context.l.map(x, x * 2)", [2, 4]), ("context.l.exists(x, x == 2)", True),
        ("context.m.k.j", 7), ("context['n']", 1), ("context.none == null", True),
        ("has(context.zz)", False), ("has(context.m.k)", True), ("size(context.l)", 2),
        ("context.l.size()", 2), ("size('é😀x')", 3), ("context.u.size() + size(context.u)", 6),
        ("context.l.filter(x, size(string(x)) == 1).size()", 2), ("size(b'ab')", 2),
        ("'size(' + context.s", "size(hi"), ("context.m.size", 5), ("size(context.m)", 2),
        ("string(context.n == 1) + string(2) + string(false)", "true2false"),
        ("context.n // how many there are", 1), ("// (size\ncontext.l.existsOne(x, x == 2)", True),
        ("'// none' + context.s", "// nonehi"), ("context.l[1]", 2), ("'n' in context", True),
        ("context.n > 0 ? 'a' : 'b'", "a"), ("{'x': context.n, 'y': [1]}", {"x": 1, "y": [1]}),
        ("output.a", 1), ("input.message", "Go."), ("5", 5), ("1e3", 1000.0), ("2u", 2),
        ("type(context.n) == int", True), ("'AB'.lowerAscii()", "ab"),
        ("math.greatest(1, context.n, 3)", 3), ("context.l.contains(2)", True),
        ("context.s.contains('i')", True), ("['a', 'b'].join('-')", "a-b"),
        ("timestamp('2024-01-01T00:00:00Z')", "2024-01-01T00:00:00+00:00"),
    ],
)  # fmt: skip
def test_an_expression_gives_what_cel_says(source: str, expected: Any) -> None:
    assert value(source) == expected


def test_a_value_that_is_only_handed_on_keeps_its_form() -> None:
    assert value("context.big") == 2**80


def test_a_value_is_a_copy() -> None:
    value("context.l").append(3)
    assert CONTEXT["l"] == [1, 2]


@pytest.mark.parametrize(
    ("source", "good", "bad"),
    [
        ("result.success", True, False), ("result.status", "completed", "failed"),
        ("has(result.error)", False, True), ("result.error == null", True, False),
        ("result.error.code == 'rate_limit'", False, True),
        ("result.error.code in ['rate_limit', 'timeout']", False, True),
        ("result.error.status_code", None, None), ("result.usage.total_tokens", 7, None),
        ("has(result.rate_limit)", False, True),
        ("has(result.rate_limit) && result.rate_limit.limited", False, True),
        ("has(result.rate_limit) && result.rate_limit.windows.exists(w, w.exhausted)", False, True),
        ("has(result.rate_limit) && result.rate_limit.windows[0].resets_in < 60", False, True),
        ("has(result.rate_limit) && result.rate_limit.windows[0].limit == null", False, True),
        ("result.cost == null", True, True), ("result.tools_used", [], []),
    ],
)  # fmt: skip
def test_what_is_not_known_of_a_result_is_absent_and_null(source: str, good: Any, bad: Any) -> None:
    assert value(source) == good
    assert value(source, BAD) == bad


def test_the_whole_result_can_be_kept() -> None:
    assert value("result", BAD)["error"]["retry_after_s"] == 9


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("context.zz", "there is no context.zz"), ("context.n.x", "has no fields"),
        ("context.zz > 1", "there is no 'zz'"), ("context.n + 'x'", "No such overload"),
        ("1 / 0", "division by zero"), ("context.l[9]", "out of bounds"),
        ("result.output.zz", "there is no"), ("result.output.zz == 1", "there is no"),
        ("9223372036854775807 + 1", "overflow"),
        ("size(context.n)", "broken: size() takes a text, a list or a mapping, not int"),
        ("string(context.none)", "or a time, not null"),
        ("int(context.n == 1)", "broken: int() does not take what it is given here"),
        ("context.s.startsWith(5)", "startsWith() does not take what"),
        ("context.s.charAt(9)", "broken: charAt: index 9 out of range"),
    ],
)  # fmt: skip
def test_what_cannot_be_evaluated_fails_with_its_place(source: str, said: str) -> None:
    with pytest.raises(Failed) as caught:
        Expression(source, Mark("m.yml", 3, 9, "states.a")).value(scope())
    error = caught.value.error
    assert error.code == "invalid_request"
    assert error.message.startswith("m.yml:3:9: ")
    assert said in error.message
    assert error.details["expression"] == source


def test_what_fails_in_an_expression_is_not_written_to_the_terminal_too() -> None:
    value("size(context.s)")
    # With a handler of its own, the last resort of logging leaves it alone.
    assert logging.getLogger("cel").handlers


@pytest.mark.parametrize("source", ["context.n", "context.s", "context.none", "context.l"])
def test_a_condition_that_gives_no_truth_value_is_broken(source: str) -> None:
    with pytest.raises(Failed, match="true or false"):
        Expression(source, Mark()).holds(scope())


@pytest.mark.parametrize(
    ("source", "found", "expected", "column"),
    [
        ("context.n <", "broken", "in CEL", 12), ("1 +* 2", "broken", "in CEL", 4),
        ("context.s == 'x", "a text is not closed", "in CEL", 14),
        ("b c", "('c' is too much)", "in CEL", 3),
        ("context.(", "(it cannot be read on from '.(')", "in CEL", 9),
        ("len(context.l)", "the function 'len'", "did you mean 'size'?", 1),
        ("context.l.lenght()", "the function 'lenght'", "did you mean 'size'?", 11),
        ("", "broken", "in CEL", 1), ("contxt.n > 1", "'contxt'", "did you mean 'context'?", 1),
        ("context.n > foo", "'foo'", "a known name", 13),
        ("result.eror", "result.eror", "did you mean 'error'?", 1),
        ("1 == siz(context.l)", "'siz'", "did you mean 'size'", 6),
        ("item.x", "'item'", "a known name", 1),
        ("lists.range(9999999999)", "'range'", "a function of CEL", 7),
        ("(" * 200 + "1" + ")" * 200, "broken", "in CEL", 97),
        ("1" + "+1" * MAX_EXPRESSION_CHARS, "an expression of", "at most", 1),
    ],
)  # fmt: skip
def test_what_is_no_expression_is_told_before_it_runs(
    source: str, found: str, expected: str, column: int
) -> None:
    with pytest.raises(BadExpression) as caught:
        Expression(source, Mark())
    assert found in caught.value.found
    assert expected in caught.value.expected
    assert caught.value.column == column


def test_names_in_texts_and_fields_are_no_names() -> None:
    source = "\"foo.bar\" == context.s || context.m.foo == 'it''s' || {'foo': 1}.foo == 1"
    assert Expression(source.replace("''", ""), Mark()).reads == {"context"}


def test_macros_bind_names_of_their_own() -> None:
    assert value("context.l.map(context, context + 1)") == [2, 3]
    assert value("context.l.filter(each, each > 1).exists_one(x, x == 2)") is True


def test_the_item_of_a_foreach_is_a_name() -> None:
    expression = Expression("item.x + context.n", Mark(), ("item",))
    assert expression.value(scope().but("item", {"x": 4})) == 5


class Guarded(Mapping[str, Any]):
    """A context that allows only some of its names to be read."""

    def __init__(self, *allowed: str) -> None:
        self._allowed = allowed

    def __getitem__(self, name: str) -> Any:
        assert name in self._allowed
        return CONTEXT[name]

    def __contains__(self, name: object) -> bool:
        return name in CONTEXT

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("everything was read")

    def __len__(self) -> int:
        return len(CONTEXT)


def test_only_what_an_expression_reads_is_handed_over() -> None:
    expression = Expression("context.n < 3 && context.m.k.j == 7 && context.l.size() == 2", Mark())
    assert expression.holds(Variables({"context": Guarded("n", "m", "l")})) is True


def test_a_result_is_only_made_where_it_is_read() -> None:
    def make() -> AgentResult[Any]:
        raise AssertionError("it was made")

    assert Expression("context.n == 1", Mark()).holds(Variables({"context": CONTEXT}, make))


@given(st.text(max_size=60))
def test_any_text_is_an_expression_or_is_not(source: str) -> None:
    try:
        Expression(source, Mark())
    except BadExpression as problem:
        assert problem.line >= 1
        assert problem.column >= 1


WORDS = st.sampled_from(
    ["context", "input", "result", ".n", ".zz", ".error", ".code", "has(", ")", "(", "[", "]", "0",
     "1.5", "'x'", "null", "true", " + ", " == ", " && ", " ? ", " : ", "!", "-", ".map(x, ",
     ".size()", "x", ", ", "{", "}", "int(", "in "]
)  # fmt: skip


@given(st.lists(WORDS, max_size=12))
def test_any_expression_gives_a_value_or_fails(words: list[str]) -> None:
    try:
        Expression("".join(words), Mark()).value(scope(BAD))
    except (BadExpression, Failed):
        return
