"""Machines with several things under way: foreach, parallel, sub-machines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engines.machine_kit import (
    costly,
    engine_of,
    fails,
    go,
    talker,
    whole,
)
from upshot import (
    Agent,
    AgentError,
    ErrorCode,
    Failed,
    MachineEngine,
    ScriptedModel,
    load_machine,
)
from upshot.testing import FakeClock

# ---- foreach and parallel

EACH = """
    a:
      type: initial
      foreach: context.items
      as: x
      function: f
      input: {{n: x}}
      {more}
      on_error: c
      transitions: [{{to: b}}]
    b: {{type: final, output: {{all: output}}}}
    c: {{type: final, output: {{code: result.error.code, member: result.error.details.member}}}}
"""


def each(function: Callable[..., Any], more: str = "") -> MachineEngine:
    return engine_of(EACH.format(more=more), functions={"f": function})


@pytest.mark.parametrize(
    ("items", "more", "expected"),
    [
        ([1, 2], "", [2, 4]),
        ([], "", []),
        ({"p": 1, "q": 2}, "", {"p": 2, "q": 4}),
        ([1, 2], "key: string(x)", {"1": 2, "2": 4}),
        ([1, 2], "at_once: 1", [2, 4]),
    ],
    ids=["list", "nothing", "mapping", "key", "one at a time"],
)
async def test_foreach_keeps_what_came_of_every_item(items: Any, more: str, expected: Any) -> None:
    result = await go(each(lambda n: n * 2, more), inputs={"items": items})
    assert result.output == {"all": expected}


async def test_items_are_worked_on_at_the_same_time_as_far_as_allowed() -> None:
    most, now = 0, 0

    async def work(n: int) -> int:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return n

    await go(each(work, "at_once: 2"), inputs={"items": [1, 2, 3, 4]})
    assert most == 2


async def test_the_first_item_that_fails_is_the_failure_of_the_state() -> None:
    def work(n: int) -> int:
        if n == 2:
            raise Failed("not_found", "no two")
        return n

    result = await go(each(work), inputs={"items": [1, 2, 3]})
    assert result.output == {"code": "not_found", "member": "1"}


async def test_two_items_with_one_key_are_a_conflict() -> None:
    result = await go(each(lambda n: n, "key: context.k"), inputs={"items": [1, 2], "k": "k"})
    assert result.error is not None
    assert result.error.code is ErrorCode.CONFLICT


async def test_the_item_of_a_foreach_is_in_the_context_too_unless_that_has_the_name() -> None:
    own = EACH.replace("{{n: x}}", "{{n: context.x}}").format(more="")
    engine = engine_of(own, functions={"f": lambda n: n * 2})
    assert (await go(engine, inputs={"items": [1, 2]})).output == {"all": [2, 4]}
    assert (await go(engine, inputs={"items": [1, 2], "x": 5})).output == {"all": [10, 10]}


async def test_foreach_over_no_list_is_an_error_with_its_place() -> None:
    result = await go(each(lambda n: n), inputs={"items": 5})
    assert result.error is not None
    assert result.error.code is ErrorCode.INVALID_REQUEST
    assert "machine:5:14" in result.error.message


PARALLEL = """
    a:
      type: initial
      parallel:
        left: {agent: talker, input: {message: '"left"'}}
        right: {function: f}
      on_error: c
      transitions: [{to: b}]
    b: {type: final, output: output}
    c: {type: final, output: {code: result.error.code, member: result.error.details.member}}
"""


async def test_members_of_parallel_give_a_mapping() -> None:
    engine = engine_of(PARALLEL, agents={"talker": talker("hi")}, functions={"f": lambda: 2})
    assert (await go(engine)).output == {"left": {"content": "hi"}, "right": 2}


async def test_a_failure_in_parallel_carries_the_code_and_name_of_the_member() -> None:
    refused = AgentError("auth_error", "no")
    engine = engine_of(PARALLEL, agents={"talker": talker(refused)}, functions={"f": lambda: 2})
    assert (await go(engine)).output == {"code": "auth_error", "member": "left"}


async def test_what_a_state_says_of_input_and_retry_holds_for_every_member() -> None:
    tries: list[tuple[str, int]] = []

    def flaky(name: str) -> Callable[..., str]:
        def work(n: int) -> str:
            tries.append((name, n))
            if len([one for one in tries if one[0] == name]) < 2:
                raise ConnectionError("gone")
            return name

        return work

    engine = engine_of(
        """
        a:
          type: initial
          parallel: {x: {function: f}, y: {function: g, input: {n: 2}}}
          input: {n: 1}
          retry: {max_attempts: 2, backoff_s: 0}
          transitions: [{to: b}]
        b: {type: final, output: output}
        """,
        functions={"f": flaky("f"), "g": flaky("g")},
        clock=FakeClock(),
    )
    assert (await go(engine)).output == {"x": "f", "y": "g"}
    assert sorted(tries) == [("f", 1), ("f", 1), ("g", 2), ("g", 2)]


async def test_items_are_tried_again_one_by_one() -> None:
    tries: list[int] = []

    def flaky(n: int) -> int:
        tries.append(n)
        if n == 2 and tries.count(2) < 3:
            raise Failed(AgentError("server_error", "again", retryable=True))
        return n

    more = "retry: {max_attempts: 3, backoff_s: 0}"
    engine = engine_of(EACH.format(more=more), functions={"f": flaky}, clock=FakeClock())
    assert (await go(engine, inputs={"items": [1, 2, 3]})).output == {"all": [1, 2, 3]}
    assert sorted(tries) == [1, 2, 2, 2, 3]


async def test_a_failure_gives_up_what_is_under_way_beside_it() -> None:
    ended: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("slow")

    engine = engine_of(
        "a: {type: initial, parallel: {x: {function: slow}, y: {function: f}}, on_error: b}\n"
        "b: {type: final, output: {member: result.error.details.member}}",
        functions={"slow": slow, "f": fails("not_found")},
    )
    assert (await go(engine)).output == {"member": "y"}
    assert ended == ["slow"]


async def test_usage_and_cost_of_all_children_are_added_up() -> None:
    class Foreign:
        async def execute(self, input: Any, context: Any) -> Any:
            return {"content": "x", "usage": {"input_tokens": 1, "output_tokens": 1}, "cost": 0.5}

    engine = engine_of(
        """
        a: {type: initial, agent: talker, transitions: [{to: b}]}
        b:
          parallel: {x: {agent: talker}, y: {agent: foreign}}
          transitions: [{to: c}]
        c: {type: final, output: {cost: result.cost.total, tokens: result.usage.total_tokens}}
        """,
        agents={"talker": talker(costly("one"), costly("two")), "foreign": Foreign()},
    )
    result = await go(engine)
    assert result.usage.total_tokens == 32
    assert result.cost is not None
    assert float(result.cost) == 1.0
    assert result.output == {"cost": 0.75, "tokens": 17}


# ---- sub-machines

INNER = """
spec: upshot.machine/1
name: inner
context: {k: 10}
states:
  s: {type: initial, function: f, input: {n: input.n + context.k}, transitions: [{to: t}]}
  t: {type: final, output: {sum: output}}
"""
OUTER = """
a: {type: initial, machine: MACHINE, input: {n: 5}, on_error: c, transitions: [{to: b}]}
b: {type: final, output: {got: output.sum, k: has(context.k)}}
c: {type: final, output: {code: result.error.code}}
"""


async def test_a_sub_machine_is_found_beside_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "inner.yml").write_text(INNER)
    (tmp_path / "outer.yml").write_text(whole(OUTER.replace("MACHINE", "inner.yml")))
    machine = load_machine(tmp_path / "outer.yml")
    result = await go(MachineEngine(machine, functions={"f": lambda n: n}))
    assert result.output == {"got": 15, "k": False}


async def test_a_sub_machine_may_stand_inside() -> None:
    data: Any = load_machine(whole(OUTER.replace("MACHINE", "{states: {z: {type: initial}}}"))).data
    data["states"]["a"]["machine"] = load_machine(INNER).data
    result = await go(MachineEngine(load_machine(data), functions={"f": lambda n: n}))
    assert result.output == {"got": 15, "k": False}


async def test_a_sub_machine_that_fails_is_a_failure_of_its_state(tmp_path: Path) -> None:
    (tmp_path / "inner.yml").write_text(INNER)
    (tmp_path / "outer.yml").write_text(whole(OUTER.replace("MACHINE", "inner.yml")))
    engine = MachineEngine(load_machine(tmp_path / "outer.yml"),
                           functions={"f": lambda n: fails("not_found")()})  # fmt: skip
    assert (await go(engine)).output == {"code": "not_found"}


async def test_a_sub_machine_begins_anew_each_time_whatever_hooks_did_to_its_context() -> None:
    class Hooks:
        def on_state_exit(self, state_name: str, context: Any, output: Any) -> None:
            if state_name == "a/s":
                context["seen"].append(1)

    states = """
        a:
          type: initial
          machine:
            context: {seen: []}
            states: {s: {type: initial, transitions: [{to: t}]}, t: {type: final, output: context}}
          output_to_context: {n: context.n + 1, seen: output.seen}
          transitions: [{when: context.n < 3, to: a}, {to: b}]
        b: {type: final, output: context.seen}
    """
    result = await go(engine_of(states, hooks=Hooks()), inputs={"n": 0})
    assert result.output == [1]


# ---- what the agents of a foreach are asked

EACH_AGENT = """
    a: {{type: initial, foreach: context.items, as: topic, {what}, transitions: [{{to: b}}]}}
    b: {{type: final, output: output}}
"""


def echo() -> Agent[Any]:
    return Agent("echo", model=ScriptedModel(lambda messages: messages[-1].text))


async def asked_of_each(what: str, items: Any, **given: Any) -> Any:
    engine = engine_of(EACH_AGENT.format(what=what), **given)
    return (await go(engine, inputs={"items": items})).output


async def test_an_agent_of_foreach_is_asked_about_its_item() -> None:
    said = await asked_of_each("agent: echo", ["tea", {"n": 1}], agents={"echo": echo()})
    assert said == [{"content": "Go.\n\ntea"}, {"content": 'Go.\n\n{"n":1}'}]


async def test_an_input_of_its_own_wins_over_the_item() -> None:
    what = "agent: echo, input: '\"Only \" + topic'"
    assert await asked_of_each(what, ["tea"], agents={"echo": echo()}) == [{"content": "Only tea"}]


async def test_the_item_is_an_input_of_its_agent_by_its_name() -> None:
    class Foreign:
        async def execute(self, input: Any, context: Any) -> Any:
            return input["topic"]

    assert await asked_of_each("agent: f", [{"n": 1}], agents={"f": Foreign()}) == [{"n": 1}]


async def test_a_machine_of_foreach_finds_its_item() -> None:
    inner = "{spec: upshot.machine/1, states: {i: {type: initial, transitions: [{to: e}]}, "
    inner += "e: {type: final, output: {got: input.topic}}}}"
    assert await asked_of_each(f"machine: {inner}", ["tea"]) == [{"got": "tea"}]
