"""Submits runs, and lists what waits for answers."""

from __future__ import annotations

from datetime import UTC, datetime

from upshot.cli.loading import Target, load_app
from upshot.cli.lookup import command_line, existing_journal, journal_of
from upshot.cli.terminal import Terminal
from upshot.contract.codec import encode
from upshot.contract.model_calls import Request
from upshot.contract.pending import PendingApproval, PendingQuestion
from upshot.entry.api import inbox
from upshot.errors import Misuse
from upshot.fleet.app import App
from upshot.journal.shared import InboxItem

_SHOWN_CHARS = 100


async def submit_run(
    terminal: Terminal,
    *,
    target: str,
    request: Request,
    agent: str,
    conversation: str,
    at: str,
    key: str,
    priority: int,
    journal: str | None,
    as_json: bool,
) -> int:
    """Put a run into the journal, and print its id."""
    app, found = load_app(Target(target))
    app.journal = journal_of(app.journal, journal)
    name = agent or (found.id if found is not None else _only_agent(app))
    async with app:
        run = await app.submit(
            name,
            request,
            conversation=conversation or None,
            at=read_moment(at) if at else None,
            key=key or None,
            priority=priority,
        )
    if as_json:
        terminal.put_json(encode({"run_id": run.id}))
    else:
        terminal.say(run.id)
    return 0


def _only_agent(app: App) -> str:
    if len(app.agents) == 1:
        return next(iter(app.agents))
    raise Misuse(f"the App has {len(app.agents)} agents: say which, --agent {min(app.agents)}")


def read_moment(text: str, option: str = "--at") -> datetime:
    """A moment as it was typed; one without a time zone is in UTC.

    Raises:
        Misuse: It is none.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Misuse(
            f"{option} is {text!r}: give a moment such as 2027-01-31T08:00 or "
            "2027-01-31T08:00+01:00"
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


async def list_inbox(
    terminal: Terminal, *, journal: str, conversation: str, limit: int, as_json: bool
) -> int:
    """Print what waits in all runs and nobody has answered."""
    where = existing_journal(journal)
    items = await inbox(journal=where, limit=limit or None, conversation=conversation)
    if as_json:
        terminal.put_json(encode(list(items)))
    elif items:
        for item in items:
            terminal.say(f"{item.run_id}  {item.agent_id}  {_asked(item)}")
        terminal.hint(f"answer: {command_line('inbox', items[0].run_id, journal=journal)}")
    else:
        terminal.tell("nothing waits for an answer")
    return 0


def _asked(item: InboxItem) -> str:
    """What is asked, in one line."""
    pending = item.pending
    if isinstance(pending, PendingApproval):
        said = f"{pending.tool_name} {encode(pending.arguments).decode()}"
    else:
        said = pending.question if isinstance(pending, PendingQuestion) else pending.id
    return " ".join(said.split())[:_SHOWN_CHARS]
