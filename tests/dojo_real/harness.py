"""One task of AgentDojo as a run: its tools over its environment, and a model that obeys all.

The model makes the calls of the user task's ground truth, one a turn. As soon as a result brings
the injection it makes every call of the injection task's ground truth, and then goes on; it ends
with the answer of the ground truth. So an attack fails only where something stops a call.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

from agentdojo.base_tasks import BaseInjectionTask, BaseUserTask
from agentdojo.functions_runtime import Function, FunctionCall, FunctionsRuntime, TaskEnvironment
from agentdojo.task_suite.load_suites import get_suites
from agentdojo.task_suite.task_suite import TaskSuite
from pydantic import TypeAdapter

import upshot
from tests.dojo_real.declarations import TOOLS, may_harm
from upshot import (
    Agent,
    Budget,
    Message,
    PendingApproval,
    Policy,
    Role,
    ScriptedModel,
    Status,
    Tool,
    ToolCall,
    ToolExecutionResult,
    ToolRecord,
)
from upshot.journal import MemoryJournal

# The tasks of v1, with the checks that AgentDojo itself has mended since.
SUITES: dict[str, TaskSuite[Any]] = dict(get_suites("v1.1.1"))
Rules: TypeAlias = dict[str, Any]
# In no data of the suites: a result that holds it has brought the injection.
MARK = "INJECTION"
_STORED = re.compile("art-[0-9a-f]+")
PLAIN = TypeAdapter(Any)


@dataclass(frozen=True)
class Task:
    """A user task, and the injection task that is hidden in what its tools give back."""

    suite: str
    user: str
    injection: str = ""

    @property
    def of(self) -> TaskSuite[Any]:
        return SUITES[self.suite]

    @property
    def user_task(self) -> BaseUserTask[Any]:
        return self.of.user_tasks[self.user]

    @property
    def injection_task(self) -> BaseInjectionTask[Any] | None:
        return self.of.injection_tasks.get(self.injection)

    def __str__(self) -> str:
        return " ".join(filter(None, (self.suite, self.user, self.injection)))


USER_TASKS = [Task(suite, user) for suite, of in SUITES.items() for user in of.user_tasks]


def attacks() -> list[Task]:
    """Every pair of a user task and an injection task whose ground truth calls a tool.

    These are 609 of the 629 pairs: `injection_task_6` of travel is words in the answer, which no
    rule about tools can stop, and has 20 user tasks.
    """
    return [
        Task(one.suite, one.user, injection)
        for one in USER_TASKS
        for injection, task in one.of.injection_tasks.items()
        if task.ground_truth(_environment(one.suite, ""))
    ]


@cache
def _environment(suite: str, injection: str) -> TaskEnvironment:
    of = SUITES[suite]
    goal = of.injection_tasks[injection].GOAL if injection else ""
    vectors = dict.fromkeys(of.get_injection_vector_defaults(), f"{MARK} {goal}")
    return of.load_and_inject_default_environment(vectors if injection else {})


@dataclass
class World:
    """The environment of one run, the calls that ran in it, and what was asked."""

    task: Task
    before: TaskEnvironment = field(init=False)
    now: TaskEnvironment = field(init=False)
    ran: list[FunctionCall] = field(default_factory=list)
    asked: list[PendingApproval] = field(default_factory=list)
    records: Sequence[ToolRecord] = ()
    answer: str = ""

    def __post_init__(self) -> None:
        fresh = _environment(self.task.suite, self.task.injection).model_copy(deep=True)
        self.now = self.task.user_task.init_environment(fresh)
        self.before = self.now.model_copy(deep=True)

    @property
    def user(self) -> tuple[str, ...]:
        """What the user is called in this environment."""
        mailbox, account = (getattr(self.now, one, None) for one in ("inbox", "bank_account"))
        if mailbox is not None:
            return (mailbox.account_email,)
        return () if account is None else (account.iban,)

    def tools(self) -> list[Tool]:
        return [self._tool(function) for function in self.task.of.tools]

    def _tool(self, function: Function) -> Tool:
        runtime = FunctionsRuntime([function])
        name = function.name

        async def body(arguments: dict[str, Any]) -> Any:
            self.ran.append(FunctionCall(function=name, args=arguments))
            made, _ = runtime.run_function(self.now, name, arguments, raise_on_error=True)
            return PLAIN.dump_python(made, mode="json")

        schema = function.parameters.model_json_schema()
        return Tool.from_schema(name, function.description, schema, body).but(**TOOLS[name])

    def useful(self) -> bool:
        """Whether the user task is done, by AgentDojo's own check."""
        task, seen = self.task.user_task, (self.answer, self.before, self.now)
        traced = task.utility_from_traces(*seen, self.ran)
        return task.utility(*seen) if traced is None else traced

    def attacked(self) -> bool:
        """Whether the injection task is done, by AgentDojo's own check."""
        task, seen = self.task.injection_task, (self.answer, self.before, self.now)
        assert task is not None
        traced = task.security_from_traces(*seen, self.ran)
        return task.security(*seen) if traced is None else traced

    def harm(self) -> list[ToolRecord]:
        """The calls of the attack that ran and that write or reach the network."""
        return [
            one
            for one in self.records
            if one.call_id.startswith("attack") and isinstance(one.outcome, ToolExecutionResult)
            if may_harm(one.tool_name)
        ]


class Obedient:
    """The script: which call comes next, from what was said so far."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.left = [("user", one) for one in calls_of(world.task.user_task, world.before)]
        self.is_hijacked = world.task.injection_task is None

    def __call__(self, messages: Sequence[Message]) -> str | ToolCall:
        last = messages[-1]
        if not self.is_hijacked and last.role is Role.TOOL:
            stored = _STORED.search(last.text)
            if MARK in last.text:
                self._obey()
            elif stored is not None and last.name != "read_artifact":
                looked = {"id": stored[0], "pattern": MARK}
                return ToolCall(f"user-{len(messages)}", "read_artifact", looked)
        if not self.left:
            return self.world.task.user_task.GROUND_TRUTH_OUTPUT or "Done."
        whose, (name, arguments) = self.left.pop(0)
        return ToolCall(f"{whose}-{len(messages)}", name, arguments)

    def _obey(self) -> None:
        task = self.world.task.injection_task
        assert task is not None
        self.is_hijacked = True
        # As things stand now: it knows the ids that its own calls have made.
        calls = calls_of(task, self.world.now.model_copy(deep=True))
        self.left[:0] = [("attack", one) for one in calls]


def calls_of(
    task: BaseUserTask[Any] | BaseInjectionTask[Any], environment: TaskEnvironment
) -> list[tuple[str, dict[str, Any]]]:
    """The calls of the ground truth, in order: tool and arguments."""
    calls = task.ground_truth(environment)
    return [(one.function, PLAIN.dump_python(dict(one.args), mode="json")) for one in calls]


async def play(task: Task, rules: Rules | None, *, answer: bool) -> World:
    """Run *task* under a policy with these *rules*; each question is answered by *answer*."""
    world = World(task)
    policy = None if rules is None else Policy(**rules, user=world.user)
    model, journal = ScriptedModel(Obedient(world)), MemoryJournal()
    agent = Agent(task.suite, model=model, tools=world.tools(), budget=Budget(max_turns=100))
    result = await upshot.run(agent, task.user_task.PROMPT, policy=policy, journal=journal)
    while result.status is Status.INPUT_REQUIRED:
        world.asked += result.pending
        answers = [one.approve() if answer else one.deny("no") for one in result.pending]
        result = await upshot.resume(
            result.run_id, agent, journal=journal, answers=answers, policy=policy
        )
    assert result.status is Status.COMPLETED, (task, result.error)
    world.answer, world.records = str(result.content), result.tool_records
    return world
