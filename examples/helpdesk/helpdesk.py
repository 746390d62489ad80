"""A help desk that reads what strangers write, and asks only where a stranger's words decide.

    .venv/bin/python examples/helpdesk/helpdesk.py [--model openai:gpt-5] [--journal runs.db]

Each ticket is a run for one customer. The clerk looks at the orders, at notes of carriers and at
reviews; from then on a call that writes runs unasked only if every argument is vouched for: by what
the customer wrote, by the shop's own list of orders, or by a default. Refunds need a person anyhow:
a small one whose arguments are all vouched for is approved by a rule.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from shop import CARRIER, TOOLS, Shop
from tickets import Ticket, attacks, benign, mail_of, stock, write_note

from upshot import (
    Agent,
    AgentResult,
    ApprovalRequest,
    Journal,
    Message,
    Misuse,
    PendingApproval,
    Policy,
    Request,
    Role,
    ScriptedModel,
    Status,
    Text,
    ToolCall,
    open_journal,
    resume,
    run,
)

LIMIT = 50.0
INSTRUCTIONS = """You are the clerk of a shop. Look at the customer's orders and at the notes about
the order first. Do what the customer asks, and nothing else."""

helpdesk = Agent[Any]("helpdesk", instructions=INSTRUCTIONS, tools=TOOLS)


def policy_for(customer: int) -> Policy:
    """Who the user is, and which pages of carriers may always be read."""
    return Policy(taint="values", user=(mail_of(customer),), hosts=(CARRIER,))


def small_refund(asked: ApprovalRequest) -> bool | None:
    """The shop's rule: a small refund that nothing is doubtful about; the rest is for a person."""
    amount = asked.arguments.get("amount")
    is_small = isinstance(amount, int | float) and 0 < amount <= LIMIT
    return True if asked.tool_name == "refund" and is_small and not asked.doubts else None


class Clerk:
    """The scripted model: it makes the calls of a ticket, one a turn, and obeys what it reads."""

    def __init__(self, ticket: Ticket) -> None:
        self._left = list(ticket.calls)
        self._obeyed = list(ticket.obeyed)
        self._orders = ticket.stranger or ticket.attached

    def __call__(self, messages: Sequence[Message]) -> str | ToolCall:
        """The next call, or the answer."""
        if self._obeyed and any(self._orders in _read(message) for message in messages):
            self._left[:0], self._obeyed = self._obeyed, []
        if not self._left:
            return "Done what could be done."
        name, arguments = self._left.pop(0)
        return ToolCall(f"{name}-{len(messages)}", name, arguments)


def _read(message: Message) -> str:
    # In the result of a tool the words are JSON.
    return message.text.replace('\\"', '"') if message.role is Role.TOOL else message.text


def open_desk(ticket: Ticket) -> Shop:
    """The shop as the customer of *ticket* may see it, with what strangers wrote."""
    shop = Shop(ticket.customer)
    stock(shop)
    if ticket.stranger:
        write_note(shop, ticket.place, ticket.stranger)
    return shop


def options_for(ticket: Ticket, shop: Shop, journal: Journal, model: str | None = None) -> Any:
    """The options of the run of a ticket, which hold when it is resumed too."""
    return {
        "model": model or ScriptedModel(Clerk(ticket)),
        "policy": policy_for(ticket.customer),
        "dependencies": shop,
        "approve": small_refund,
        "journal": journal,
    }


async def work_on(ticket: Ticket, options: Any) -> AgentResult[Any]:
    """Work on a ticket until it is answered or has to wait for a person."""
    words = [Text(ticket.words)]
    if ticket.attached:
        words.append(Text(ticket.attached, trust="untrusted"))
    return await run(helpdesk, Request(Message(Role.USER, words)), **options)


async def decide(result: AgentResult[Any], options: Any) -> AgentResult[Any]:
    """Have a person answer what a run waits for, and go on with it until nothing waits."""
    while result.status is Status.INPUT_REQUIRED:
        answers: list[Any] = []
        for asked in result.pending:
            assert isinstance(asked, PendingApproval), "nothing here asks anything else"
            say("person", f"is asked: {asked.tool_name}({shown(asked.arguments)})")
            for doubt in asked.doubts:
                say("", f"doubtful {doubt.path or 'call'}: {doubt.reason}")
            agreed = ask_person(usual=not asked.doubts)
            answers.append(asked.approve() if agreed else asked.deny("a person said no"))
        result = await resume(result.run_id, helpdesk, answers=answers, **options)
    return result


def ask_person(*, usual: bool) -> bool:
    """Ask on a terminal; in a pipe the person agrees where nothing is in doubt."""
    if sys.stdin.isatty():
        return input("   person      Do it? [y/N] ").strip().lower() in ("y", "yes")
    say("person", "Yes." if usual else "No.")
    return usual


def shown(arguments: Any) -> str:
    """Arguments as they would be written."""
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


def say(who: str, text: str) -> None:
    """A line of the story, within 80 columns."""
    lines = textwrap.wrap(text, 64)
    print(f"   {who:<11} {lines[0]}", *(f"{'':15}{line}" for line in lines[1:]), sep="\n")


async def work_on_some(journal_path: str, model: str | None) -> None:
    """One ticket of each kind, then one attack of each kind."""
    some = [*list(benign())[:10], *list(attacks())[:10]]
    async with open_journal(journal_path) as journal:
        for number, ticket in enumerate(some, start=1):
            print(f'{number}  "{ticket.words}"')
            if ticket.obeyed:
                say("a stranger", ticket.stranger or ticket.attached)
            options = options_for(ticket, open_desk(ticket), journal, model)
            result = await decide(await work_on(ticket, options), options)
            for record in result.tool_records[2:]:
                done = record.outcome.kind.removeprefix("tool_").replace("_", " ")
                say("clerk", f"{record.tool_name}: {done}")
            print()


def main() -> None:
    """Open the desk."""
    parser = argparse.ArgumentParser(description="A help desk.")
    parser.add_argument("--model", help="a real one, such as openai:gpt-5; else scripted")
    parser.add_argument("--journal", default="memory:", help="where the log goes")
    given = parser.parse_args()
    try:
        asyncio.run(work_on_some(given.journal, given.model))
    except Misuse as error:
        # Such as a model that is none.
        parser.error(str(error))


if __name__ == "__main__":
    main()
