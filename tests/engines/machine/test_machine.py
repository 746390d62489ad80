"""Machines that run: states and ways, failures, retries."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.engines.machine_kit import (
    COUNTING,
    add,
    asking,
    boom,
    engine_of,
    fails,
    go,
    talker,
    whole,
)
from upshot import (
    Agent,
    AgentError,
    Board,
    Budget,
    ErrorCode,
    MachineEngine,
    ScriptedModel,
    Status,
    load_machine,
)
from upshot.testing import FakeClock


async def test_states_follow_their_transitions_to_the_final_one() -> None:
    result = await go(engine_of(COUNTING, functions={"add": add}), inputs={"n": 0})
    assert result.unwrap() == {"n": 3}


async def test_the_context_begins_with_the_machine_and_the_inputs_win() -> None:
    text = whole("a: {type: initial, transitions: [{to: b}]}\nb: {type: final, output: context}",
                 context="{x: 1, y: [2]}")  # fmt: skip
    result = await go(MachineEngine(load_machine(text)), inputs={"x": 5})
    assert result.output == {"x": 5, "y": [2]}


async def test_expressions_read_the_request() -> None:
    engine = engine_of(
        "a: {type: initial, transitions: [{to: b}]}\n"
        "b: {type: final, output: {said: input.message, x: input.x}}"
    )
    assert (await go(engine, inputs={"x": 1})).output == {"said": "Go.", "x": 1}


async def test_the_variables_of_the_board_are_the_context() -> None:
    result = await go(engine_of(COUNTING, functions={"add": add}), inputs={"n": 0})
    assert isinstance(result.last_board, Board)
    assert result.last_board.get("n") == 3


async def test_an_agent_is_asked_the_message_and_its_answer_is_the_output() -> None:
    asked: list[str] = []

    def reply(messages: Any) -> str:
        asked.append(messages[-1].text)
        return "hello"

    more = """
        input: {message: 'input.message + "!"', n: 1}
        output_to_context: {said: output.content}
        transitions: [{to: done}]
    """
    result = await go(asking(more, agents={"talker": talker(reply)}))
    assert asked == ["Go.!"]
    assert result.content == result.output == "hello"
    assert result.last_board.get("said") == "hello"  # type: ignore[attr-defined]


async def test_what_an_agent_says_is_one_message_however_many_states_follow() -> None:
    engine = engine_of(
        """
        a: {type: initial, agent: talker, transitions: [{to: b}]}
        b: {transitions: [{to: c}]}
        c: {type: final}
        """,
        agents={"talker": talker("hi")},
    )
    result = await go(engine)
    assert [message.text for message in result.messages] == ["hi"]
    assert result.output == "hi"


async def test_an_input_without_a_message_is_shown_to_the_agent_as_json() -> None:
    asked: list[str] = []

    def reply(messages: Any) -> str:
        asked.append(messages[-1].text)
        return "ok"

    await go(
        asking("input: {n: 1 + 1}\ntransitions: [{to: done}]", agents={"talker": talker(reply)})
    )
    assert asked == ['{"n":2}']


async def test_without_an_input_an_agent_is_asked_what_the_machine_was() -> None:
    asked: list[str] = []

    def reply(messages: Any) -> str:
        asked.append(messages[-1].text)
        return "ok"

    await go(asking(agents={"talker": talker(reply)}))
    assert asked == ["Go."]


async def test_a_structured_output_is_the_payload_itself() -> None:
    agent: Agent[Any] = Agent(
        "talker",
        model=ScriptedModel(['{"n": 4}']),
        output_type={"type": "object", "properties": {"n": {"type": "integer"}}},
    )
    engine = asking("output_to_context: {n: output.n}\ntransitions: [{to: done}]",
                    agents={"talker": agent})  # fmt: skip
    result = await go(engine)
    assert result.last_board.get("n") == 4  # type: ignore[attr-defined]
    assert result.output == {"n": 4}


async def test_literal_text_is_no_expression() -> None:
    def echo(**given: Any) -> dict[str, Any]:
        return given

    engine = engine_of(
        """
        a:
          type: initial
          function: echo
          input: {a: {text: "context.n"}, b: '"quoted"', c: 5, d: true, e: null, f: [1, {text: x}]}
          transitions: [{to: b}]
        b: {type: final, output: output}
        """,
        functions={"echo": echo},
    )
    expected = {"a": "context.n", "b": "quoted", "c": 5, "d": True, "e": None, "f": [1, "x"]}
    assert (await go(engine)).output == expected


async def test_a_field_may_be_called_text() -> None:
    engine = engine_of(
        "a: {type: initial, function: f, input: {text: input.message}, transitions: [{to: b}]}\n"
        "b: {type: final, output: {got: output}}",
        functions={"f": lambda text: text},
    )
    assert (await go(engine)).output == {"got": "Go."}


async def test_a_function_gets_values_of_its_own() -> None:
    def spoil(items: list[int]) -> None:
        items.append(9)

    engine = engine_of(
        "a: {type: initial, function: f, input: {items: context.items}, transitions: [{to: b}]}\n"
        "b: {type: final, output: context.items}",
        functions={"f": spoil},
    )
    assert (await go(engine, inputs={"items": [1]})).output == [1]


async def test_async_functions_are_awaited() -> None:
    async def later(n: int) -> int:
        await asyncio.sleep(0)
        return n + 1

    engine = engine_of(
        "a: {type: initial, function: f, input: {n: 1}, transitions: [{to: b}]}\n"
        "b: {type: final, output: {n: output}}",
        functions={"f": later},
    )
    assert (await go(engine)).output == {"n": 2}


# ---- failures


async def test_a_failure_that_nothing_leads_on_from_is_that_of_the_run() -> None:
    error = AgentError("content_filter", "refused", provider_code="x")
    result = await go(asking(agents={"talker": talker(error)}))
    assert result.status is Status.FAILED
    assert result.error is not None
    assert (result.error.code, result.error.provider_code) == ("content_filter", "x")


async def test_on_error_names_the_state_that_follows_a_failure() -> None:
    agents = {"talker": talker(AgentError("content_filter", "refused"))}
    result = await go(asking("on_error: other\ntransitions: [{to: done}]", agents=agents))
    assert result.output == {"code": "content_filter", "message": "refused"}


@pytest.mark.parametrize(
    ("code", "end"), [("rate_limit", "done"), ("timeout", "other")], ids=["named", "default"]
)
async def test_on_error_may_name_states_by_code(code: str, end: str) -> None:
    agents = {"talker": talker(AgentError(code, "no"))}
    more = "on_error: {rate_limit: done, default: other}\ntransitions: [{to: done}]"
    result = await go(asking(more, agents=agents))
    assert result.success
    assert (result.output is None) == (end == "done")


async def test_on_error_without_a_default_leaves_other_failures_alone() -> None:
    agents = {"talker": talker(AgentError("timeout", "no"))}
    result = await go(asking("on_error: {rate_limit: done}", agents=agents))
    assert result.error is not None
    assert result.error.code == "timeout"


async def test_a_condition_that_looks_at_the_result_sees_failures() -> None:
    agents = {"talker": talker(AgentError("rate_limit", "no"))}
    more = """transitions:
      - {to: done, when: 'result.error.code == "timeout"'}
      - {to: other, when: 'result.error.code == "rate_limit"'}
      - {to: done}"""
    assert (await go(asking(more, agents=agents))).output == {"code": "rate_limit", "message": "no"}


async def test_a_way_for_success_does_not_hide_a_failure() -> None:
    agents = {"talker": talker(AgentError("rate_limit", "no"))}
    result = await go(asking("transitions: [{when: 'true', to: done}, {to: done}]", agents=agents))
    assert result.error is not None
    assert result.error.code == "rate_limit"


async def test_what_a_failed_state_would_keep_is_not_kept() -> None:
    agents = {"talker": talker(AgentError("rate_limit", "no"))}
    more = "output_to_context: {x: 1}\non_error: other\ntransitions: [{to: done}]"
    result = await go(asking(more, agents=agents))
    assert result.last_board.get("x") is None  # type: ignore[attr-defined]


async def test_a_bug_in_a_function_is_an_internal_failure_with_its_class() -> None:
    engine = engine_of("a: {type: initial, function: f, transitions: [{to: b}]}\nb: {type: final}",
                       functions={"f": boom})  # fmt: skip
    result = await go(engine)
    assert result.error is not None
    assert (result.error.code, result.error.type) == ("internal", "RuntimeError")


async def test_what_a_function_returns_must_have_a_form_in_json() -> None:
    engine = engine_of(
        "a: {type: initial, function: f, on_error: c, transitions: [{to: b}]}\n"
        "b: {type: final}\nc: {type: final, output: {code: result.error.code}}",
        functions={"f": object},
    )
    assert (await go(engine)).output == {"code": "invalid_output"}


async def test_a_function_may_raise_a_failure() -> None:
    engine = engine_of(
        "a: {type: initial, function: f, on_error: c, transitions: [{to: b}]}\n"
        "b: {type: final}\nc: {type: final, output: {code: result.error.code}}",
        functions={"f": fails("not_found")},
    )
    assert (await go(engine)).output == {"code": "not_found"}


@pytest.mark.parametrize(
    "transitions",
    ["", "transitions: []", "transitions: [{when: 'false', to: b}]"],
    ids=["none", "empty", "no condition holds"],
)
async def test_a_dead_end_is_a_failure_that_names_the_state(transitions: str) -> None:
    engine = engine_of(f"a:\n  type: initial\n  {transitions}\nb: {{type: final}}")
    result = await go(engine)
    assert result.error is not None
    assert result.error.code is ErrorCode.DEAD_END
    assert result.error.details["state"] == "a"


async def test_the_step_limit_is_a_failure() -> None:
    text = whole("a: {type: initial, transitions: [{to: a}]}\nb: {type: final}",
                 settings="{max_steps: 7}")  # fmt: skip
    result = await go(MachineEngine(load_machine(text)))
    assert result.error is not None
    assert result.error.code is ErrorCode.MAX_TURNS
    assert result.error.details["limit"] == 7


async def test_without_a_limit_of_its_own_the_budget_of_the_run_ends_it() -> None:
    engine = engine_of("a: {type: initial, transitions: [{to: a}]}\nb: {type: final}")
    result = await go(engine, budget=Budget(max_turns=4))
    assert result.error is not None
    assert result.error.code is ErrorCode.MAX_TURNS
    assert result.error.details["limit"] == 4


async def test_a_machine_of_more_states_than_turns_is_gone_through() -> None:
    chain = "\n".join(f"s{n}: {{transitions: [{{to: s{n + 1}}}]}}" for n in range(1, 9))
    first, last = (
        "s0: {type: initial, transitions: [{to: s1}]}",
        "s9: {type: final, output: {a: 1}}",
    )
    text = f"{first}\n{chain}\n{last}"
    assert (await go(engine_of(text), budget=Budget(max_turns=2))).output == {"a": 1}


@pytest.mark.parametrize(
    "condition",
    [
        "context.missing > 1",
        "1 / (size(input.message) - 3) == 1",
        "input.message < 3",
        "input.message",
    ],
    ids=["no such key", "no such number", "two kinds", "no truth value"],
)
async def test_a_broken_condition_fails_with_its_place(condition: str) -> None:
    way = f"{{when: '{condition}', to: b}}"
    engine = engine_of(f"a:\n  type: initial\n  transitions:\n  - {way}\nb: {{type: final}}")
    result = await go(engine)
    assert result.error is not None
    assert result.error.code is ErrorCode.INVALID_REQUEST
    assert result.error.message.startswith("machine:6:14: ")
    assert result.error.details["line"] == 6


async def test_a_broken_input_is_no_failure_of_the_agent() -> None:
    agents = {"talker": talker("never asked")}
    more = "input: {x: context.missing}\non_error: other\ntransitions: [{to: done}]"
    result = await go(asking(more, agents=agents))
    assert result.error is not None
    assert result.error.code is ErrorCode.INVALID_REQUEST


# ---- retry

RETRIED = "retry: {max_attempts: 3, backoff_s: 1}\non_error: other\ntransitions: [{to: done}]"


async def test_a_failure_that_may_pass_is_tried_again_after_longer_and_longer_waits() -> None:
    clock = FakeClock()
    again = AgentError("server_error", "again", retryable=True)
    result = await go(asking(RETRIED, agents={"talker": talker(again, again, "ok")}, clock=clock))
    assert result.content == "ok"
    assert len(clock.sleeps) == 2
    assert 1 <= clock.sleeps[0] <= 1.5
    assert 2 <= clock.sleeps[1] <= 3


async def test_without_a_word_of_the_provider_the_wait_is_that_of_the_state() -> None:
    clock = FakeClock()
    again = AgentError("server_error", "again", retryable=True)
    retried = RETRIED.replace("backoff_s: 1", "backoff_s: 0.1")
    await go(asking(retried, agents={"talker": talker(again, "ok")}, clock=clock))
    assert len(clock.sleeps) == 1
    assert 0.1 <= clock.sleeps[0] <= 0.15


async def test_what_the_provider_says_is_a_floor_and_chance_only_adds() -> None:
    clock = FakeClock()
    again = AgentError("rate_limit", "again", retryable=True, retry_after_s=7)
    await go(asking(RETRIED, agents={"talker": talker(again, "ok")}, clock=clock))
    assert len(clock.sleeps) == 1
    assert 7 <= clock.sleeps[0] <= 10.5


async def test_what_the_windows_say_is_a_floor_too() -> None:
    clock, replies = FakeClock(), [True, False]

    class Foreign:
        async def execute(self, input: Any, context: Any) -> Any:
            if not replies.pop(0):
                return "ok"
            error = {"code": "rate_limit", "message": "again", "retryable": True}
            return {"error": error, "rate_limit": {"limited": True, "retry_after": 9}}

    await go(asking(RETRIED, agents={"talker": Foreign()}, clock=clock))
    assert len(clock.sleeps) == 1
    assert 9 <= clock.sleeps[0] <= 13.5


async def test_a_state_that_retries_leaves_no_retry_to_the_model_call() -> None:
    clock = FakeClock()
    again = AgentError("rate_limit", "again", retryable=True)
    agent: Agent[Any] = Agent("talker", model=ScriptedModel([again, again, again, "late"]))
    result = await go(asking(RETRIED, agents={"talker": agent}, clock=clock))
    assert len(clock.sleeps) == 2
    assert result.output == {"code": "rate_limit", "message": "again"}


async def test_what_the_call_says_about_tries_holds_for_agents_in_states() -> None:
    clock = FakeClock()
    again = AgentError("rate_limit", "again", retryable=True)
    agent: Agent[Any] = Agent("talker", model=ScriptedModel([again, "late"]))
    result = await go(asking("on_error: other", agents={"talker": agent}), retry=None, clock=clock)
    assert result.output == {"code": "rate_limit", "message": "again"}
    assert clock.sleeps == []


async def test_what_will_not_pass_is_not_tried_again() -> None:
    clock = FakeClock()
    agents = {"talker": talker(AgentError("auth_error", "no"), "never")}
    result = await go(asking(RETRIED, agents=agents, clock=clock))
    assert clock.sleeps == []
    assert result.output == {"code": "auth_error", "message": "no"}


async def test_a_wait_past_the_deadline_is_not_begun() -> None:
    clock = FakeClock()
    again = AgentError("rate_limit", "again", retryable=True, retry_after_s=100)
    engine = asking(RETRIED, agents={"talker": talker(again, "never")}, clock=clock)
    result = await go(engine, budget=Budget(deadline_s=50))
    assert clock.sleeps == []
    assert result.output == {"code": "rate_limit", "message": "again"}


async def test_a_function_that_raises_may_be_tried_again() -> None:
    tries: list[int] = []

    def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("gone")
        return "here"

    engine = engine_of(
        "a: {type: initial, function: f, retry: {max_attempts: 3, backoff_s: 0}, "
        "transitions: [{to: b}]}\nb: {type: final}",
        functions={"f": flaky},
        clock=FakeClock(),
    )
    assert (await go(engine)).output == "here"
