"""What the tests of machines share: runs of a machine, whole and cut off."""

from __future__ import annotations

import textwrap
from typing import Any

from tests.runs.kit import log_of
from upshot import (
    Agent,
    AgentResult,
    Event,
    MachineEngine,
    Request,
    ScriptedModel,
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
