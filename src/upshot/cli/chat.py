"""A chat with an agent in a terminal, line by line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from secrets import token_hex
from typing import Any

from upshot.cli.approve import Given, answer_run, is_attended, stoppable
from upshot.cli.launching import open_launch
from upshot.cli.loading import Asked, load_launch, new_launch
from upshot.cli.lookup import MEMORY, new_journal
from upshot.cli.report import Shown
from upshot.cli.running import show_live
from upshot.cli.terminal import EXIT_CODES, Terminal
from upshot.contract.base.enums import Status
from upshot.contract.base.words import clean, count
from upshot.entry.api import start
from upshot.journal.opening import open_journal


async def chat_with_agent(
    terminal: Terminal, *, asked: Asked, conversation: str, journal: str, shown: Shown
) -> int:
    """Run each line as a turn of one conversation; return the exit code of the last turn."""
    id, code = conversation or f"talk-{token_hex(4)}", 0
    loaded = load_launch(launch := new_launch(asked))
    async with AsyncExitStack() as stack:
        opening = open_launch(launch, loaded, terminal)
        agent, options = await stack.enter_async_context(opening)
        log = await stack.enter_async_context(open_journal(new_journal(journal)))
        talk = await log.conversation(id)
        turns = count(talk.revision, "turn")
        terminal.hint(f"conversation {clean(id)}, {turns} so far; an empty line or Ctrl-D ends it")
        more: Any = {"asked": asked, "journal": journal, "shown": shown}
        for run in talk.runs:
            if run.status == Status.INPUT_REQUIRED and run.turn:
                code = await _answer(run.run_id, log, terminal, **more)
        for line in _lines(terminal):
            starting: Any = start(agent, line, **options, journal=log, conversation=id)
            async with starting as live:
                code = await show_live(live, terminal, log=log, journal=journal, shown=shown)
                result = await live.result()
            if result.status is Status.INPUT_REQUIRED:
                code = await _answer(result.run_id, log, terminal, **more)
    return code


async def _answer(
    run_id: str, log: Any, terminal: Terminal, *, asked: Asked, journal: str, shown: Shown
) -> int:
    """Ask for what a turn waits for and continue it, until nothing waits or the user skips it."""
    code, seen = EXIT_CODES[Status.INPUT_REQUIRED], 0
    # A log in memory can be answered only by this process, which does not.
    can_ask = is_attended(terminal) and journal != MEMORY
    while can_ask and code == EXIT_CODES[Status.INPUT_REQUIRED]:
        last = await log.last_seq(run_id)
        if last == seen:
            break
        seen = last
        code = await answer_run(
            terminal,
            wanted=run_id,
            given=Given(),
            asked=asked,
            journal=journal,
            shown=shown,
            goes_on=True,
        )
    return code


def _lines(terminal: Terminal) -> Iterator[str]:
    """Yield the lines that the user types, up to an empty line or the end of the input."""
    asks = is_attended(terminal)
    with suppress(EOFError, KeyboardInterrupt):
        while True:
            with stoppable():
                line = input("> ") if asks else sys.stdin.readline()
            if not line.strip():
                return
            yield line.rstrip("\n")
