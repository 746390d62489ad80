"""What the tests of machines share: runs of a machine, whole and cut off."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from tests.runs.kit import log_of
from upshot import (
    Agent,
    AgentError,
    AgentResult,
    Cost,
    Event,
    Failed,
    MachineEngine,
    ModelResponse,
    Request,
    ScriptedModel,
    Usage,
    load_machine,
    resume,
    run,
)
from upshot.journal import MemoryJournal

AGENT: Agent[Any] = Agent("machinist")


def engine_of(text: str, **given: Any) -> MachineEngine:
    """An engine of a machine that consists of *text* below ``states:``."""
    return MachineEngine(load_machine(whole(text)), **given)


def whole(states: str, **head: str) -> str:
    """A machine with these states, and what *head* says."""
    lines = ["spec: upshot.machine/1", *(f"{name}: {value}" for name, value in head.items())]
    return "\n".join([*lines, "states:", textwrap.indent(textwrap.dedent(states).strip(), "  ")])


async def go(engine: MachineEngine, **options: Any) -> AgentResult[Any]:
    """Run *engine* without a journal."""
    inputs = options.pop("inputs", None)
    return await run(AGENT, Request("Go.", inputs=inputs, run_id="run-1"), engine=engine, **options)


async def logged(engine: MachineEngine, **options: Any) -> tuple[AgentResult[Any], list[Event]]:
    """Run *engine*; the result and all that was logged."""
    journal = MemoryJournal()
    result = await go(engine, journal=journal, **options)
    return result, await log_of(journal, "run-1")


async def cut_and_resumed(
    engine: MachineEngine, events: list[Event], **options: Any
) -> tuple[AgentResult[Any], list[Event]]:
    """Go on with a run of which only *events* reached the disk."""
    journal = MemoryJournal()
    epoch = await journal.claim("run-1")
    for event in events:
        journal.append(event, epoch=epoch)
    result = await resume("run-1", AGENT, journal=journal, engine=engine, **options)
    return result, await log_of(journal, "run-1")


def talker(*replies: Any) -> Agent[Any]:
    """An agent that plays a script."""
    return Agent("talker", model=ScriptedModel(list(replies)), retry=None)


COUNTING = """
    count:
      type: initial
      function: add
      input: {n: context.n, by: 1}
      output_to_context: {n: output}
      transitions: [{when: context.n < 3, to: count}, {to: done}]
    done: {type: final, output: {n: context.n}}
"""


def add(n: int, by: int) -> int:
    return n + by


def boom() -> None:
    raise RuntimeError("a bug")


def fails(code: str = "rate_limit", **more: Any) -> Callable[[], None]:
    def work() -> None:
        raise Failed(AgentError(code, "no", **more))

    return work


ASKING = """
    ask:
      type: initial
      agent: talker
      {more}
    done: {{type: final}}
    other: {{type: final, output: {{code: result.error.code, message: result.error.message}}}}
"""


def asking(more: str = "transitions: [{to: done}]", **given: Any) -> MachineEngine:
    text = ASKING.format(more=textwrap.indent(textwrap.dedent(more), " " * 6).strip())
    return engine_of(text, **given)


def costly(text: str) -> ModelResponse:
    """A reply that cost something."""
    usage = Usage(input_tokens=10, output_tokens=5)
    return ModelResponse(content=text, usage=usage, cost=Cost(total=Decimal("0.25")))
