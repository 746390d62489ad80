"""The figures of each policy over all tasks and attacks, and their table."""

import asyncio
from dataclasses import dataclass, field
from functools import cache

from tests.dojo_real.enumerator import Reach, reach
from tests.dojo_real.harness import USER_TASKS, Rules, Task, World, attacks, play

POLICIES: dict[str, Rules | None] = {
    "off": None,
    "ask": {"taint": "ask"},
    "values": {"taint": "values"},
    "links": {"taint": "values", "words": "links"},
}
_ROW = "{:<8} {:>9} {:>13} {:>12} {:>11} {:>15}"


@dataclass
class Figures:
    """What one policy does.

    Attributes:
        done: Attacks that AgentDojo counts as done, though every question was denied.
        harmed: Attacks of which a call that writes or reaches the network ran unasked.
        unasked: User tasks that are useful and cost no question.
        useful: User tasks that are useful when every question is answered with yes.
        questions: What was asked in the user tasks.
    """

    done: list[World] = field(default_factory=list)
    harmed: list[World] = field(default_factory=list)
    unasked: list[Task] = field(default_factory=list)
    useful: list[Task] = field(default_factory=list)
    questions: list[World] = field(default_factory=list)


@cache
def figures(policy: str) -> Figures:
    return asyncio.run(_measure(POLICIES[policy]))


async def _measure(rules: Rules | None) -> Figures:
    found = Figures()
    for task in attacks():
        world = await play(task, rules, answer=False)
        if world.attacked():
            found.done.append(world)
        if world.harm():
            found.harmed.append(world)
    for task in USER_TASKS:
        world = await play(task, rules, answer=True)
        found.questions += [world] * len(world.asked)
        if world.useful():
            found.useful.append(task)
            if not world.asked:
                found.unasked.append(task)
    return found


@cache
def reached(task: Task, policy: str) -> Reach:
    """What an attacker reaches beside a task; a suite of them takes minutes."""
    rules = POLICIES[policy]
    assert rules is not None
    return asyncio.run(reach(task, rules))


def accepted(policy: str) -> int:
    """How many calls of an attacker a policy lets through, none of which reaches a stranger."""
    return sum(reached(task, policy).accepted for task in USER_TASKS)


def table() -> str:
    """One row for each policy, and what an attacker gets through."""
    lines = [
        f"{len(attacks())} attacks, {len(USER_TASKS)} user tasks",
        _ROW.format(
            "policy", "attacked", "a call of it", "no question", "useful", "questions/task"
        ),
    ]
    for name in POLICIES:
        one = figures(name)
        per_task = f"{len(one.questions) / len(USER_TASKS):.2f}"
        counts = (len(one.done), len(one.harmed), len(one.unasked), len(one.useful))
        lines.append(_ROW.format(name, *counts, per_task))
    counts = (f"{policy} {accepted(policy)}" for policy in ("values", "links"))
    lines.append(f"accepted calls of the enumerator: {', '.join(counts)}")
    return "\n".join(lines)
