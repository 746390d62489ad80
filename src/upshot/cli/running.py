"""Runs an agent; resumes, forks and replays its runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from rich.text import Text

from upshot.cli.launching import add_tools, calls_model, open_launch, open_servers
from upshot.cli.loading import (
    Asked,
    Launching,
    load_launch,
    named_model,
    new_launch,
)
from upshot.cli.lookup import (
    answer_each,
    command_line,
    existing_journal,
    find_run,
    new_journal,
    read_activity,
)
from upshot.cli.report import Shown, print_result
from upshot.cli.stopping import stop_signals
from upshot.cli.terminal import Terminal
from upshot.cli.timeline import Mode, Progress, choose_mode
from upshot.contract.base.enums import InterruptCause, Status
from upshot.contract.base.structs import Json, path_of
from upshot.contract.events import (
    DELTAS,
    AttemptEnded,
    Event,
    RunStarted,
    StepSettled,
    StepStarted,
    ToolStarted,
)
from upshot.contract.model_calls import ModelReplied, ModelRetried, Request, TextDelta
from upshot.contract.pending import AnyAnswer
from upshot.contract.result import AgentResult
from upshot.entry.api import attach, cancel, fork, reopen, replay, start
from upshot.entry.replay_run import Replay
from upshot.entry.run_handle import chain_from
from upshot.entry.session_setup import has_log
from upshot.errors import Misuse
from upshot.journal.audit import add_act
from upshot.journal.opening import open_journal
from upshot.journal.shared import needs_shared
from upshot.runs.live_run import LiveRun
from upshot.runs.plan import Where
from upshot.state.activity import Activity
from upshot.state.child_runs import child_of
from upshot.state.run_state import STOPPED

# Shown when a model call whose reply was already printed is repeated.
_VOID = "the reply was cut off: its text above is void, and the model is called again"

_DELIVERIES = {
    "delivered": "is delivered",
    "repeated": "was delivered before with this key",
    "ended": "came too late: the run has ended",
}

_REFUSED = "a guardrail refused this: the text above is void"


class TextStream:
    """Writes a model's text to stdout as it arrives.

    Other output on the same terminal starts on a new line.
    """

    def __init__(self, terminal: Terminal) -> None:
        self.wrote: bool = False
        self._terminal = terminal
        self._at_line_start = True
        self._is_in_reply = False

    def add(self, event: Event) -> None:
        """Write the text of a delta; the end of a reply, or other output, ends its line."""
        if isinstance(event, TextDelta) and event.text:
            self._terminal.put(event.text)
            self.wrote = self._is_in_reply = True
            self._at_line_start = event.text.endswith("\n")
        elif isinstance(event, AttemptEnded) and self.wrote and _is_refused(event):
            self.end_line()
            self.wrote = False
            self._terminal.report(Text(_REFUSED, "yellow"))
        elif isinstance(event, ModelReplied | ModelRetried | ToolStarted) or (
            # The next message must not follow half a line of text.
            self._terminal.is_one_screen and not isinstance(event, DELTAS)
        ):
            self.end_line()
            if isinstance(event, ModelRetried) and self._is_in_reply:
                # What was printed cannot be erased.
                self.wrote = False
                self._terminal.report(Text(_VOID, "yellow"))
            if isinstance(event, ModelReplied | ModelRetried):
                self._is_in_reply = False

    def end_line(self) -> None:
        """End the current line."""
        if not self._at_line_start:
            self._terminal.put("\n")
            self._at_line_start = True


def _is_refused(event: AttemptEnded) -> bool:
    error = event.line.error
    return error is not None and bool(error.guardrail)


async def attend(
    live: LiveRun[Any],
    terminal: Terminal,
    *,
    mode: Mode,
    stream: TextStream | None = None,
    journal: Where | None = None,
) -> tuple[AgentResult[Any], Activity]:
    """Watch a run to its end.

    The first Ctrl-C or SIGTERM asks it to stop at its next safe point; the second cancels it, the
    third ends the process.
    """
    activity = Activity()
    progress = Progress(activity, terminal, mode, stopping=lambda: live.stopping)

    def report(line: str) -> None:
        if stream is not None:
            stream.end_line()
        progress.print_line(Text(line, "yellow"))

    with stop_signals(live, report, is_redrawn=mode == "live"):
        async with progress:
            async for event in live:
                if path_of(event):
                    # An event of a child run, which is shown as one step.
                    continue
                if stream is not None:
                    stream.add(event)
                if isinstance(event, StepStarted | StepSettled) and mode != "none":
                    await _name_inner(event.key, activity, journal)
                progress.add(event)
        result = await live.result()
    if stream is not None:
        stream.end_line()
    return result, activity


async def _name_inner(key: str, activity: Activity, journal: Where | None) -> None:
    """Name the step of a child run after its agent, as soon as its log has it."""
    run_id = child_of(key)
    if journal is None or run_id is None:
        return
    async with open_journal(journal) as log:
        async for event in log.events(run_id):
            if isinstance(event, RunStarted):
                activity.name_run(run_id, event.agent.id)
            return


async def run_agent(
    terminal: Terminal, *, asked: Asked, request: Request, journal: str, shown: Shown
) -> int:
    """Run an agent and print its result."""
    loaded = load_launch(launch := new_launch(asked))
    if calls_model(loaded[0]) and not request.to_message().text.strip():
        raise Misuse('the request is empty: say what you want, such as upshot run FILE.py "..."')
    async with AsyncExitStack() as stack:
        opening = open_launch(launch, loaded, terminal)
        agent, options = await stack.enter_async_context(opening)
        where = new_journal(journal)
        await _refuse_taken(request.run_id, where, journal)
        live = await stack.enter_async_context(start(agent, request, **options, journal=where))
        return await show_live(live, terminal, log=where, journal=journal, shown=shown)


async def resume_agent(
    terminal: Terminal,
    *,
    wanted: str,
    asked: Asked,
    journal: str,
    shown: Shown,
    answers: Sequence[AnyAnswer] = (),
    launching: Launching | None = None,
    take_over: bool = False,
    continue_stopped: bool = False,
) -> int:
    """Resume a run and print its result; if it has ended, only print that."""
    async with AsyncExitStack() as stack:
        opening = open_journal(existing_journal(journal), create=False)
        log = await stack.enter_async_context(opening)
        run_id = await find_run(log, wanted)
        activity = await read_activity(log, run_id)
        result = activity.result
        goes_on = (Status.INPUT_REQUIRED, *(STOPPED if continue_stopped else ()))
        if result is not None and result.status not in goes_on:
            summary = terminal.err.is_terminal
            return print_result(
                result, activity, terminal, journal=journal, shown=shown, summary=summary
            )
        await add_act(log, "resume", run_id=run_id)
        launching = launching or Launching(activity, asked)
        stack.enter_context(launching.folder())
        if launching.lost_folder:
            gone = launching.lost_folder
            terminal.report(f"the folder {gone} of the run is gone: it continues in this one")
        starting = open_launch(launching.launch, launching.loaded, terminal)
        agent, options = await stack.enter_async_context(starting)
        live = await stack.enter_async_context(
            reopen(
                run_id,
                agent,
                **options,
                journal=log,
                answers=answers,
                take_over=take_over,
                continue_stopped=continue_stopped,
            )
        )
        return await show_live(live, terminal, log=log, journal=journal, shown=shown)


async def _refuse_taken(run_id: str, where: str, journal: str) -> None:
    if not run_id or not Path(where).is_file():
        return
    async with open_journal(where) as log:
        if await has_log(run_id, log):
            raise Misuse(
                f"the journal already has a run {run_id}: continue it, "
                f"{command_line('resume', run_id, journal=journal)}, or give another --run-id"
            )


async def show_live(
    live: Any, terminal: Terminal, *, log: Where, journal: str, shown: Shown
) -> int:
    """Watch a run to its end and print its result; return the exit code."""
    mode = choose_mode(shown.progress, terminal, streaming=shown.stream)
    stream = TextStream(terminal) if shown.stream else None
    result: AgentResult[Any]
    result, activity = await attend(live, terminal, mode=mode, stream=stream, journal=log)
    streamed = stream is not None and stream.wrote
    if mode != "none" and not streamed:
        terminal.report("")
    return print_result(
        result,
        activity,
        terminal,
        journal=journal,
        shown=shown,
        streamed=streamed,
        summary=mode != "none",
    )


_DIFFERENT = 1
_MAX_SHOWN = 400


async def stop_runs(
    terminal: Terminal, *, wanted: tuple[str, ...], now: bool, reason: str, journal: str
) -> int:
    """Stop runs, whichever processes work on them; with *now* wait for their ends.

    Raises:
        Misuse: There is no such run, it has ended, or *now* has a *reason*, which no log takes.
    """
    if now and reason:
        raise Misuse("--reason is for a stop without --now: the log of a canceled run has none")

    async with open_journal(existing_journal(journal), create=False) as log:

        async def stop(named: str) -> tuple[object, str, str]:
            # Stop the run that the request was handed over to.
            act = "cancel" if now else "interrupt"
            run_id = (await chain_from(await find_run(log, named, act), log))[-1]
            if now:
                result = await cancel(run_id, journal=log)
                return result, f"{run_id} is {result.status}", ""
            async with attach(run_id, journal=log) as run:
                if (state := await run.state()).ended and state.last_settled is not None:
                    raise Misuse(
                        f"run {run_id} has ended: it is {state.last_settled.result.status}"
                    )
                await run.interrupt(InterruptCause.USER_CANCEL, reason)
            line = f"{run_id} stops at its next safe point, once a process works on it"
            return {"run_id": run_id}, line, ""

        return await answer_each(terminal, wanted, stop)


async def signal_run(
    terminal: Terminal, *, wanted: str, name: str, value: str, key: str, by: str, journal: str
) -> int:
    """Send a signal to a run, and print whether it was delivered."""
    try:
        given: Json = json.loads(value)
    except ValueError:
        given = value
    async with open_journal(existing_journal(journal), create=False) as log:
        run_id = await find_run(log, wanted)
        async with attach(run_id, journal=log) as run:
            delivery = await run.signal(name, given, key=key, by=by)
    found = {"run_id": run.id, "name": name, "delivery": delivery}
    terminal.answer(found, f"{run.id}: {name} {_DELIVERIES[delivery]}")
    return 1 if delivery == "ended" else 0


async def fork_run(terminal: Terminal, *, wanted: str, at: int, is_due: bool, journal: str) -> int:
    """Start a new run from a point of another one, and print its id."""
    async with open_journal(existing_journal(journal), create=False) as log:
        run_id = await find_run(log, wanted, "fork")
        new_id = await fork(run_id, at=at, journal=log)
        if is_due:
            await needs_shared(log).make_due(new_id, "resumed")
    terminal.answer({"run_id": new_id, "forked_from": run_id, "at": at}, new_id)
    if not (terminal.as_json or is_due):
        terminal.hint(f"continue it: {command_line('resume', new_id, journal=journal)}")
    return 0


async def replay_run(terminal: Terminal, *, wanted: str, asked: Asked, journal: str) -> int:
    """Run an agent against the record of a run, and print the first difference."""
    async with open_journal(existing_journal(journal), create=False) as log:
        run_id = await find_run(log, wanted)
        launching = Launching(await read_activity(log, run_id), asked)
        launch = launching.launch
        with launching.folder():
            agent, options = launching.loaded
            options["model"] = named_model(launch.model, agent, base_url=launch.base_url)
            # They are listed only: a replay calls no tool.
            async with open_servers(launch.mcp, terminal) as tools:
                agent, options = add_tools(agent, options, tools)
            replayed = await replay(run_id, agent, **options, journal=log)
    found = {name: getattr(replayed, name) for name in ("run_id", "same", "compared", "difference")}
    terminal.answer(found, *_lines(replayed))
    return 0 if replayed.same else _DIFFERENT


def _lines(replayed: Replay) -> list[str]:
    difference = replayed.difference
    if difference is None:
        return [f"{replayed.run_id}: the same, {replayed.compared} facts compared"]
    place = f"event {difference.seq}" if difference.seq else "beyond the record"
    lines = [f"{replayed.run_id}: another {difference.kind} at {place}"]
    lines += [f"  recorded  {_short(difference.recorded)}"] if difference.seq else []
    lines.append(f"  replayed  {_short(difference.replayed)}")
    lines += [f"  asked for {difference.asked}"] if difference.asked else []
    return lines


def _short(value: object) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
