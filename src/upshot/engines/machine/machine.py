"""Machine: states and transitions, and its chart."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from upshot.contract.agent import Agent
from upshot.contract.base.structs import JsonObject
from upshot.engines.machine.document import MachineFault, Mark
from upshot.engines.machine.expressions import Expression, Fields, Formula, expressions_of
from upshot.engines.mermaid import AGENT, FOR_EACH, PARALLEL, QUESTION, Box, Chart, Shape

_MAX_LABEL = 60


_NO_FIELDS = Fields({})


@dataclass(frozen=True)
class Transition:
    """A transition to another state.

    Attributes:
        to: The name of that state.
        when: The condition, None for always.
        mark: Where it is.
        is_broken: Whether its condition cannot be read, which is a fault.
    """

    to: str
    when: Expression | None = None
    mark: Mark = Mark()
    _: KW_ONLY
    is_broken: bool = False


@dataclass(frozen=True)
class Retrying:
    """How often something is tried.

    Attributes:
        max_attempts: At least 1.
        backoff_s: Seconds before the second try; doubled for each one after it.
    """

    max_attempts: int = 1
    backoff_s: float = 0.5


@dataclass(frozen=True)
class Task:
    """The work of a state, or of one item or member of it.

    Attributes:
        kind: What does it: "agent", "function" or "machine".
        name: The name of the agent or function; for a machine, used in messages only.
        machine: The sub-machine, None otherwise.
        input: Its input, None for the machine's input.
        retry: How often it is tried; None leaves that to the agent.
        mark: Where it is.
    """

    kind: str
    name: str
    _: KW_ONLY
    machine: Machine | None = None
    input: Formula | None = None
    retry: Retrying | None = None
    mark: Mark = Mark()


@dataclass(frozen=True)
class Each:
    """A ``foreach``: the same work for every item.

    Attributes:
        items: Returns a list, or a mapping, whose values are the items.
        name: The name of the item in expressions.
        key: The key of its output; None makes a list of the outputs.
        at_once: The maximum number at the same time, None for all.
    """

    items: Expression
    name: str = "item"
    key: Expression | None = None
    at_once: int | None = None


@dataclass(frozen=True)
class Vote:
    """A ``vote``: the same work until one answer leads.

    Attributes:
        lead: By how many votes it must lead.
        at_most: How often the work is done at most.
        by: Returns what is compared, from the output; None compares the whole output.
        at_once: The maximum number at the same time, None for as many as could decide it.
    """

    lead: int
    at_most: int
    by: Expression | None = None
    at_once: int | None = None


@dataclass(frozen=True)
class State:
    """One state.

    Attributes:
        name: Its name.
        mark: Where it is.
        is_final: Whether the machine ends in it.
        task: Its work, None for nothing, or for members or a question.
        each: The items to do it for; None for once.
        vote: When its answer is decided by votes; None for never.
        members: Work that is done at the same time, by name.
        wait: The name of a question to the user, "" for none.
        input: The input of the question.
        output: The output of the machine if it ends here, None for the output of the last state.
        keeps: Values to put into the context.
        on_error: The state after a failure, by its code; "" means any other code.
        transitions: In the order in which they are tried.
    """

    name: str
    _: KW_ONLY
    mark: Mark = Mark()
    is_final: bool = False
    task: Task | None = None
    each: Each | None = None
    vote: Vote | None = None
    members: Mapping[str, Task] = field(default_factory=dict[str, Task])
    wait: str = ""
    input: Formula | None = None
    output: Formula | None = None
    keeps: Fields = _NO_FIELDS
    on_error: Mapping[str, str] = field(default_factory=dict[str, str])
    transitions: tuple[Transition, ...] = ()

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """All work that is done in it."""
        return (*([] if self.task is None else [self.task]), *self.members.values())

    @cached_property
    def works(self) -> bool:
        """Whether it does anything besides selecting the next state."""
        return bool(self.tasks or self.wait)

    @cached_property
    def reads_handoff(self) -> bool:
        """Whether any of its expressions reads a handoff of an agent."""
        formulas = (self.input, self.output, self.keeps, *(task.input for task in self.tasks))
        found = [one for formula in formulas for one in expressions_of(formula)]
        found += [way.when for way in self.transitions if way.when is not None]
        if self.each is not None:
            found.append(self.each.items)
        return any(one.reads_of_result("handoff") for one in found)

    def targets(self) -> Iterator[str]:
        """Yield the states where it may lead without a hook."""
        yield from (transition.to for transition in self.transitions)
        yield from self.on_error.values()


@dataclass(frozen=True, eq=False)
class Machine:
    """States and their transitions, read by ``load_machine`` and run by a MachineEngine.

    Attributes:
        name: Its name.
        states: By name, in the order of the text.
        initial: The name of the first state.
        context: The initial context.
        agents: The agents that it describes itself, by name; None for one that must be given.
        max_steps: The maximum number of states to enter; None is the run's ``max_turns``, and at
            least the number of states.
        file: The file that it was read from, "" for data.
        warnings: What may be a mistake.
        data: What it was made from, as plain data.
    """

    name: str
    states: Mapping[str, State]
    initial: str
    _: KW_ONLY
    context: JsonObject = field(default_factory=dict[str, Any])
    agents: Mapping[str, Agent[Any] | None] = field(default_factory=dict[str, "Agent[Any] | None"])
    max_steps: int | None = None
    file: str = ""
    warnings: tuple[MachineFault, ...] = ()
    data: JsonObject = field(default_factory=dict[str, Any])

    @cached_property
    def digest(self) -> str:
        """A digest of it and its sub-machines."""
        made = hashlib.sha256(msgspec.json.encode(self.data, order="deterministic"))
        for _, task in self.tasks():
            if task.machine is not None:
                made.update(task.machine.digest.encode())
        return made.hexdigest()

    def tasks(self) -> Iterator[tuple[Machine, Task]]:
        """Yield all work in it and its sub-machines, each with the machine that contains it."""
        for state in self.states.values():
            for task in state.tasks:
                yield self, task
                if task.machine is not None:
                    yield from task.machine.tasks()

    def to_mermaid(self) -> str:
        """Return it as the text of a Mermaid flow chart, as ``upshot graph`` prints it.

        States are nodes, transitions are edges with their conditions. Where hooks lead is unknown,
        so it is not shown.
        """
        return _chart(self).to_mermaid()

    def __repr__(self) -> str:
        return f"Machine({self.name!r}, states={list(self.states)})"


def _chart(machine: Machine) -> Chart:
    boxes = {name: _box(state) for name, state in machine.states.items()}
    arrows = [arrow for state in machine.states.values() for arrow in _arrows(state)]
    ends = [name for name, state in machine.states.items() if state.is_final]
    return Chart(boxes, arrows, machine.initial, ends)


def _arrows(state: State) -> Iterator[tuple[str, str, str]]:
    for transition in state.transitions:
        when = "" if transition.when is None else transition.when.source.strip()
        label = when if len(when) <= _MAX_LABEL else f"{when[: _MAX_LABEL - 3]}..."
        yield state.name, transition.to, label
    for code, to in state.on_error.items():
        yield state.name, to, f"on error: {code}" if code else "on error"


def _box(state: State) -> Box:
    if state.wait:
        return Box(state.name, QUESTION)
    if state.members:
        inside = [_task_box(name, task) for name, task in state.members.items()]
        return Box(state.name + PARALLEL, inside=inside)
    if state.task is None:
        return Box(state.name)
    if state.each is not None:
        return Box(state.name + FOR_EACH, inside=[_task_box("work", state.task)])
    return _task_box(state.name, state.task)


def _task_box(name: str, task: Task) -> Box:
    if task.machine is not None:
        return Box(name, inside=_chart(task.machine))
    return Box(name, AGENT if task.kind == "agent" else Shape())
