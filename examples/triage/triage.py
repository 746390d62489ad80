"""A triage desk: hand-offs to billing and tech, and a refund that a person has to approve.

    .venv/bin/python examples/triage/triage.py [--model openai:gpt-5] [--journal runs.db]

Small refunds are approved by a rule. A large one parks its run: it waits in the journal, holding
nothing, until somebody answers, and then goes on where it stood.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import textwrap
from typing import Any

from desk import make_desk, refunds

from upshot import (
    AgentResult,
    Approve,
    Deny,
    Journal,
    Misuse,
    Observer,
    PendingApproval,
    RunInfo,
    Status,
    ToolExecutionResult,
    ToolOutcome,
    ToolRecord,
    open_journal,
    resume,
    run_with_handoffs,
)

LIMIT_CENTS = 5000
TICKETS = (
    "My router blinks red since this morning. My line is 4711.",
    "You charged me twice for order 7. I want a refund.",
    "When are you open?",
    "Order 9 was charged, but I do not like the colour. Refund!",
    "You charged me twice for order 12. That is a lot of money!",
)


class Clerk(Observer):
    """Prints what each agent did, when its run ends or waits."""

    def __init__(self) -> None:
        self.runs = 0
        self._told: set[tuple[str, str]] = set()

    def on_run_end(self, info: RunInfo, result: AgentResult[Any]) -> None:
        """Print the tool calls that are new, and to whom it was handed over."""
        self.runs += 1
        for record in result.tool_records:
            if (info.run_id, record.call_id) in self._told:
                continue
            self._told.add((info.run_id, record.call_id))
            if result.handoff is None or record.call_id != result.handoff.call_id:
                say(info.agent_id, f"{call_of(record)}: {shown(record.outcome)}")
        if result.handoff is not None:
            passed = result.handoff
            say(info.agent_id, f"hands over to {passed.to_agent_id}: {passed.reason}")


def within_limit(call: Any) -> bool | None:
    """The rule: small refunds are fine, and None leaves it to a person."""
    return True if call.arguments["cents"] <= LIMIT_CENTS else None


def ask_supervisor(question: str) -> bool:
    """Ask on a terminal; in a pipe the supervisor agrees."""
    if sys.stdin.isatty():
        return input(f"   supervisor  {question} [y/N] ").strip().lower() in ("y", "yes")
    say("supervisor", f"{question} Yes.")
    return True


async def work_on(ticket: str, journal: Journal, clerk: Clerk, model: str | None) -> bool:
    """One ticket from the customer's words to the answer; returns whether there is one."""
    desk = make_desk(model)
    options: dict[str, Any] = {"journal": journal, "observers": [clerk], "approve": within_limit}
    result = await run_with_handoffs(desk, ticket, **options)
    while result.status is Status.INPUT_REQUIRED:
        answers: list[Approve | Deny] = []
        for asked in result.pending:
            assert isinstance(asked, PendingApproval), "nothing here asks anything else"
            say(result.agent_id, f"waits for a person: {call_of(asked)}")
            agreed = ask_supervisor("Pay it back?")
            answers.append(asked.approve() if agreed else asked.deny("not this time"))
        agent = next(agent for agent in desk if agent.id == result.agent_id)
        result = await resume(result.run_id, agent, answers=answers, **options)
    say("answer", result.content or f"{result.status}: {result.error}")
    return result.success


def call_of(call: ToolRecord | PendingApproval) -> str:
    """A tool call as it would be written."""
    given = call.arguments if isinstance(call, PendingApproval) else call.arguments_validated or {}
    named = ", ".join(f"{name}={value}" for name, value in given.items())
    return f"{call.tool_name}({named})"


def shown(outcome: ToolOutcome) -> str:
    """What came of a call, in a few words."""
    if isinstance(outcome, ToolExecutionResult):
        return json.dumps(outcome.output.get("result", outcome.output))
    return outcome.kind.removeprefix("tool_")


def say(who: str, text: str) -> None:
    """A line of the story, within 80 columns."""
    lines = textwrap.wrap(text, 64)
    print(f"   {who:<11} {lines[0]}", *(f"{'':15}{line}" for line in lines[1:]), sep="\n")


async def work_on_all(journal_path: str, model: str | None) -> int:
    """Work on all tickets, one after the other; returns how many got an answer."""
    clerk, answered = Clerk(), 0
    async with open_journal(journal_path) as journal:
        for number, ticket in enumerate(TICKETS, start=1):
            print(f'{number}  "{ticket}"')
            answered += await work_on(ticket, journal, clerk, model)
            print()
    paid = sum(cents for _, cents in refunds) / 100
    print(f"{answered} of {len(TICKETS)} tickets, {clerk.runs} sessions of agents,", end=" ")
    print(f"{len(refunds)} refunds, {paid:.2f} in all.")
    return answered


def main() -> None:
    """Open the desk."""
    parser = argparse.ArgumentParser(description="A triage desk.")
    parser.add_argument("--model", help="a real one, such as openai:gpt-5; else scripted")
    parser.add_argument("--journal", default="memory:", help="where the log goes")
    given = parser.parse_args()
    try:
        answered = asyncio.run(work_on_all(given.journal, given.model))
    except Misuse as error:
        # Such as a model that is none.
        parser.error(str(error))
    sys.exit(0 if answered == len(TICKETS) else 1)


if __name__ == "__main__":
    main()
