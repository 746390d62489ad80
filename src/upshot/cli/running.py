"""Running and resuming an agent from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack, chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ..contract import AgentResult, AgentSpec, AnyAnswer, Request, Status
from ..engines import MachineEngine
from ..entry import reopen, start
from ..errors import Misuse
from ..journal import open_journal
from ..runs import ResumeOptions
from .attendance import TextStream, attend
from .conclusion import print_result
from .exit_code import EXIT_CODES
from .launch import Launch
from .loading import AnyAgent, Target, load_agent, load_tools
from .model_source import absolute_model, open_model
from .progress import choose_mode
from .run_lookup import existing_journal, find_run, new_journal, read_story
from .story import Story
from .terminal import Terminal

__all__ = ["Asked", "Shown", "load_launch", "old_launch", "resume_agent", "run_agent"]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a command line says of the agent; "" is what was not said.

    Attributes:
        target: ``FILE.py:agent`` or an agent file.
        model: As for ``--model``.
        base_url: As for ``--base-url``.
        tools: Files with the tools that an agent file names.
    """

    target: str = ""
    model: str = ""
    base_url: str = ""
    tools: Sequence[str] = ()


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
    if not request.to_message().text.strip():
        raise Misuse('the request is empty: say what you want, such as upshot run FILE.py "..."')
    launch = _new_launch(asked)
    agent, options = load_launch(launch)
    async with AsyncExitStack() as stack:
        opened = open_model(launch.model, agent, base_url=launch.base_url)
        options["model"] = await stack.enter_async_context(opened)
        where = new_journal(journal)
        live = await stack.enter_async_context(start(agent, request, **options, journal=where))
        return await _attend(live, terminal, journal=journal, shown=shown)


async def resume_agent(
    wanted: str,
    asked: Asked,
    terminal: Terminal,
    *,
    journal: str,
    shown: Shown,
    answers: Sequence[AnyAnswer] = (),
) -> int:
    """Go on with a run and print what came of it; of one that has ended, just print that.

    Args:
        wanted: The run, as for ``find_run``.
        asked: What shall be other than when it was started.
        terminal: Where to print.
        journal: Where its log is.
        shown: How it is shown.
        answers: What people answered.

    Returns:
        The exit code.

    Raises:
        Misuse: There is no such run, or it is not known how it was started.
        JournalError: The journal cannot be read, or another process has the run.
    """
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(open_journal(existing_journal(journal)))
        run_id = await find_run(log, wanted)
        story = await read_story(log, run_id)
        result = story.result
        if result is not None and result.status is not Status.INPUT_REQUIRED:
            print_result(
                result, terminal, journal=journal, as_json=shown.as_json, markdown=shown.markdown,
                summary=terminal.err.is_terminal,
            )  # fmt: skip
            return EXIT_CODES[result.status]
        launch = old_launch(story, asked)
        if launch.folder and Path(launch.folder).is_dir():
            # Relative paths of its tools count from where the run was started.
            stack.enter_context(chdir(launch.folder))
        elif launch.folder:
            terminal.tell(f"the folder {launch.folder} of the run is gone: it goes on in this one")
        agent, options = load_launch(launch)
        opened = open_model(launch.model, agent, base_url=launch.base_url)
        options["model"] = await stack.enter_async_context(opened)
        live = await stack.enter_async_context(
            reopen(run_id, agent, **options, journal=log, answers=answers)
        )
        return await _attend(live, terminal, journal=journal, shown=shown)


async def _attend(live: Any, terminal: Terminal, *, journal: str, shown: Shown) -> int:
    mode = choose_mode(shown.progress, terminal, streaming=shown.stream)
    stream = TextStream(terminal) if shown.stream else None
    result: AgentResult[Any]
    result, _ = await attend(live, terminal, mode=mode, stream=stream)
    if mode != "none":
        terminal.tell("")
    print_result(
        result, terminal, journal=journal, as_json=shown.as_json, markdown=shown.markdown,
        streamed=stream is not None and stream.wrote, summary=mode != "none",
    )  # fmt: skip
    return EXIT_CODES[result.status]


def _new_launch(asked: Asked) -> Launch:
    target = Target(asked.target)
    return Launch(
        file=str(target.file),
        agent=target.name,
        model=absolute_model(asked.model),
        base_url=asked.base_url,
        tools=_absolute(asked.tools),
        folder=str(Path.cwd()),
    )


def old_launch(story: Story, asked: Asked) -> Launch:
    """How the run was started, with what the command line says otherwise.

    Raises:
        Misuse: It was not started by the command, and no agent is named.
    """
    old = None if story.started is None else Launch.of(story.started.options)
    new = _new_launch(asked) if asked.target else None
    base = old or new
    if base is None:
        raise Misuse(
            f"run {story.run_id} was not started by this command: say which agent goes on with "
            f"it, upshot resume {story.run_id} FILE.py:agent"
        )
    changes: dict[str, Any] = {}
    if new is not None:
        changes |= {"file": new.file, "agent": new.agent}
    if asked.model:
        # The old server need not know the new model.
        changes |= {"model": absolute_model(asked.model), "base_url": ""}
    if asked.base_url:
        changes["base_url"] = asked.base_url
    if asked.tools:
        changes["tools"] = _absolute(asked.tools)
    return replace(base, **changes)


def _absolute(files: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(Path(file).absolute()) for file in files)


def load_launch(launch: Launch) -> tuple[AnyAgent, ResumeOptions]:
    """The agent that *launch* names, and the options that go with it.

    Raises:
        Misuse: A file or a name in it is not there.
    """
    target = Target(launch.file if not launch.agent else f"{launch.file}:{launch.agent}")
    files = [Path(file) for file in launch.tools]
    agent = load_agent(target, files)
    options: ResumeOptions = {"launch": launch.to_json()}
    if isinstance(agent, AgentSpec) and agent.tools and not launch.tools:
        raise Misuse(f"agent {agent.id!r} names tools: say which file has them, --tools FILE.py")
    if files and not isinstance(agent.engine, MachineEngine):
        options["tools"] = load_tools(files)
    return agent, options
