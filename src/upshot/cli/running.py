"""Running and resuming an agent from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..contract import AgentResult, AgentSpec, AnyAnswer, Request, Status
from ..engines import LoopEngine
from ..entry import reopen, start
from ..entry.opening import has_log
from ..errors import Misuse
from ..journal import open_journal
from ..runs import Where
from .attendance import TextStream, attend
from .command_line import command_line
from .conclusion import print_result
from .exit_code import EXIT_CODES
from .launching import Asked, Launching, load_launch, new_launch
from .loading import AnyAgent
from .model_source import open_model
from .progress import choose_mode
from .run_lookup import existing_journal, find_run, new_journal, read_story
from .terminal import Terminal

__all__ = ["Shown", "resume_agent", "run_agent"]


@dataclass(frozen=True, kw_only=True)
class Shown:
    """How a command line wants a run to be shown.

    Attributes:
        as_json: Nothing on stdout but the result as JSON.
        stream: Text as it comes.
        markdown: The answer laid out on a terminal.
        progress: "auto", "live", "lines" or "none".
    """

    as_json: bool = False
    stream: bool = False
    markdown: bool = False
    progress: str = "auto"


async def run_agent(
    asked: Asked,
    request: Request,
    terminal: Terminal,
    *,
    journal: str,
    shown: Shown,
) -> int:
    """Run an agent and print what came of it.

    Args:
        asked: Which agent, and with which model.
        request: What is asked of it.
        terminal: Where to print.
        journal: Where its log goes.
        shown: How it is shown.

    Returns:
        The exit code.

    Raises:
        Misuse: Something that was asked for is not there; nothing was begun.
        JournalError: The journal cannot be opened.
    """
    launch = new_launch(asked)
    agent, options = load_launch(launch)
    if _is_asked(agent) and not request.to_message().text.strip():
        raise Misuse('the request is empty: say what you want, such as upshot run FILE.py "..."')
    async with AsyncExitStack() as stack:
        opened = open_model(launch.model, agent, base_url=launch.base_url)
        options["model"] = await stack.enter_async_context(opened)
        where = new_journal(journal)
        await _refuse_taken(request.run_id, where, journal)
        live = await stack.enter_async_context(start(agent, request, **options, journal=where))
        return await _attend(live, terminal, log=where, journal=journal, shown=shown)


def _is_asked(agent: AnyAgent) -> bool:
    """Whether *agent* puts the request to a model; other engines may need none."""
    return isinstance(agent, AgentSpec) or isinstance(agent.engine, LoopEngine | None)


async def resume_agent(
    wanted: str,
    asked: Asked,
    terminal: Terminal,
    *,
    journal: str,
    shown: Shown,
    answers: Sequence[AnyAnswer] = (),
    launching: Launching | None = None,
    take_over: bool = False,
) -> int:
    """Go on with a run and print what came of it; of one that has ended, just print that.

    Args:
        wanted: The run, as for ``find_run``.
        asked: What shall be other than when it was started.
        terminal: Where to print.
        journal: Where its log is.
        shown: How it is shown.
        answers: What people answered.
        launching: Its agent, where that was loaded before; None loads it.
        take_over: Whether it is taken also from another process that lives.

    Returns:
        The exit code.

    Raises:
        Misuse: There is no such run, or it is not known how it was started.
        JournalError: The journal cannot be read, or another process works on the run.
    """
    async with AsyncExitStack() as stack:
        opening = open_journal(existing_journal(journal), create=False)
        log = await stack.enter_async_context(opening)
        run_id = await find_run(log, wanted)
        story = await read_story(log, run_id)
        result = story.result
        if result is not None and result.status is not Status.INPUT_REQUIRED:
            print_result(
                result, terminal, journal=journal, as_json=shown.as_json, markdown=shown.markdown,
                summary=terminal.err.is_terminal, fork_at=story.whole_until,
                worked_s=story.length_s,
            )  # fmt: skip
            return EXIT_CODES[result.status]
        launching = launching or Launching(story, asked)
        launch = launching.launch
        stack.enter_context(launching.folder())
        if launching.lost_folder:
            gone = launching.lost_folder
            terminal.tell(f"the folder {gone} of the run is gone: it goes on in this one")
        agent, options = launching.loaded
        opened = open_model(launch.model, agent, base_url=launch.base_url)
        options["model"] = await stack.enter_async_context(opened)
        live = await stack.enter_async_context(
            reopen(run_id, agent, **options, journal=log, answers=answers, take_over=take_over)
        )
        return await _attend(live, terminal, log=log, journal=journal, shown=shown)


async def _refuse_taken(run_id: str, where: str, journal: str) -> None:
    if not run_id or not Path(where).is_file():
        return
    async with open_journal(where) as log:
        if await has_log(run_id, log):
            raise Misuse(
                f"the journal has a run {run_id} already: go on with it, "
                f"{command_line('resume', run_id, journal=journal)}, or give another --run-id"
            )


async def _attend(live: Any, terminal: Terminal, *, log: Where, journal: str, shown: Shown) -> int:
    mode = choose_mode(shown.progress, terminal, streaming=shown.stream)
    stream = TextStream(terminal) if shown.stream else None
    result: AgentResult[Any]
    result, story = await attend(live, terminal, mode=mode, stream=stream, journal=log)
    streamed = stream is not None and stream.wrote
    if mode != "none" and not streamed:
        terminal.tell("")
    print_result(
        result, terminal, journal=journal, as_json=shown.as_json, markdown=shown.markdown,
        streamed=streamed, summary=mode != "none", fork_at=story.whole_until,
        worked_s=story.length_s,
    )  # fmt: skip
    return EXIT_CODES[result.status]
