"""Patience with rate limits: a machine that waits a little, parks, or asks another provider.

    .venv/bin/pip install -e '.[machine]'
    .venv/bin/python examples/waiting/waiting.py [--real]

Two simulated providers with real limits answer over HTTP; somebody else has used up the first
one's quota already. The machine, patient.yml, reads the windows in every result. A long wait parks
the run: this program stands for the scheduler that resumes it. Time is made up, so that it takes a
second; with --real it takes some minutes.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from upshot import (
    Agent,
    AgentResult,
    Answer,
    Clock,
    MachineEngine,
    Misuse,
    PendingQuestion,
    Request,
    Status,
    load_machine,
    open_journal,
    resolve,
    resume,
    run,
)
from upshot.clock import SYSTEM_CLOCK
from upshot.models import aclose_transports
from upshot.sim import Simulator
from upshot.testing import FakeClock

MACHINE = Path(__file__).with_name("patient.yml")
QUESTIONS = [f"Question {number}?" for number in range(1, 6)]
MAIN_LIMITS = {"requests_per_minute": 2}
SPARE_LIMITS = {"requests_per_minute": 1}


def make_engine(main: Simulator, spare: Simulator, clock: Clock) -> MachineEngine:
    """The machine, with an agent for each provider."""

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)

    agents = {name: Agent(name, model=model_of(sim)) for name, sim in
              (("main", main), ("spare", spare))}  # fmt: skip
    return MachineEngine(load_machine(MACHINE), agents=agents, functions={"sleep": sleep})


def model_of(simulator: Simulator) -> Any:
    """A model of a simulated provider."""
    return resolve("openai:simulated", base_url=simulator.base_url, api_key="any")


async def ask_all(
    clock: Clock, questions: Sequence[str] = QUESTIONS
) -> tuple[AgentResult[Any], list[float]]:
    """Have all questions answered, whatever the limits say.

    Returns:
        The result, and for how many seconds the run was parked each time.
    """
    scenario = {"replies": ["An answer."]}
    parked_s: list[float] = []
    async with (
        Simulator(scenario, limits=MAIN_LIMITS, clock=clock) as main,
        Simulator(scenario, limits=SPARE_LIMITS, clock=clock) as spare,
        open_journal("memory:") as journal,
    ):
        for _ in range(MAIN_LIMITS["requests_per_minute"]):
            # Somebody who shares the key.
            await model_of(main).call("Hello.")
        patient: Agent[Any] = Agent("patient", engine=make_engine(main, spare, clock))
        request = Request("Answer all.", inputs={"questions": list(questions)})
        result = await run(patient, request, journal=journal)
        while result.status is Status.INPUT_REQUIRED:
            (quota,) = result.pending
            assert isinstance(quota, PendingQuestion)
            parked_s.append(float(quota.question))
            await clock.sleep(parked_s[-1])
            answers = [Answer(quota.id, True)]
            result = await resume(result.run_id, patient, journal=journal, answers=answers)
        await aclose_transports()
    return result, parked_s


def main() -> None:
    """Ask, and tell what was done."""
    parser = argparse.ArgumentParser(description="A machine that is patient with rate limits.")
    parser.add_argument("--real", action="store_true", help="wait in real time")
    arguments = parser.parse_args()
    clock: Clock = SYSTEM_CLOCK if arguments.real else FakeClock()
    try:
        result, parked_s = asyncio.run(ask_all(clock))
    except Misuse as error:
        # Such as the extra that is not installed.
        parser.error(str(error))
    output = result.unwrap()
    for step in output["trail"]:
        print(step)
    parked = ", ".join(f"{seconds:g} s" for seconds in parked_s)
    print(f"{len(output['answers'])} answers; parked for {parked or 'no time'}")


if __name__ == "__main__":
    main()
