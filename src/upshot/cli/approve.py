"""Asks the user and resumes the run."""

from __future__ import annotations

import signal
import sys
import textwrap
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import click
from rich.text import Text

from upshot.cli.activity import Activity
from upshot.cli.answers import Editing, Given, Waiting
from upshot.cli.launch import Asked, Launching
from upshot.cli.lookup import command_line, existing_journal, find_run, read_activity
from upshot.cli.report import DIED, status_words
from upshot.cli.running import Shown, resume_agent
from upshot.cli.terminal import EXIT_CODES, Terminal, clean_lines, moment
from upshot.contract.base.enums import Effect, Status
from upshot.contract.base.structs import JsonObject
from upshot.contract.codec import encode
from upshot.contract.pending import (
    Answer,
    AnyAnswer,
    Approve,
    Deny,
    Edit,
    Pending,
    PendingApproval,
    PendingQuestion,
)
from upshot.entry.resume import keep_answers
from upshot.errors import Misuse
from upshot.journal.lease_holder import LeaseHolder
from upshot.journal.opening import open_journal

_INDENT = "   "
_STYLES = {Effect.READ: "green", Effect.WRITE: "yellow", Effect.DESTRUCTIVE: "red"}


def show_question(number: int, pending: Pending, *, width: int) -> Iterator[Text]:
    """The lines that show what is asked, whole: the user must not approve what was cut off."""
    if isinstance(pending, PendingApproval):
        yield Text.assemble(
            (f"{number}. {_plain(pending.tool_name)}", "bold"),
            "  ",
            (str(pending.effect), _STYLES.get(pending.effect, "")),
            (f"  {_plain(pending.call_id)}", "dim"),
        )
        for name, value in pending.arguments.items():
            yield from _field(_plain(name), encode(value).decode(), width)
        if pending.reason:
            yield from _field("why", pending.reason, width)
    else:
        is_question = isinstance(pending, PendingQuestion)
        text = pending.question if is_question else pending.description
        head = Text.assemble((f"{number}. question", "bold"), (f"  {_plain(pending.id)}", "dim"))
        yield head
        yield from _field("asks", text, width)
        if is_question and pending.choices:
            yield from _field("choices", ", ".join(pending.choices), width)
    if pending.run_id:
        yield from _field("asked by", _plain(pending.run_id), width)
    if pending.asked_at is not None:
        expires = pending.expires_at
        until = "" if expires is None else f", until {moment(expires)}"
        yield Text(f"{_INDENT}asked {moment(pending.asked_at)}{until}", "dim")


def _field(name: str, value: str, width: int) -> Iterator[Text]:
    label = f"{_INDENT}{name}: "
    room = max(20, width - len(_INDENT) - 2)
    lines = [
        part
        for line in clean_lines(value).expandtabs().splitlines() or [""]
        for part in textwrap.wrap(line, room, drop_whitespace=False) or [""]
    ]
    if len(lines) == 1 and len(label) + len(lines[0]) <= width:
        yield Text.assemble((label, "dim"), lines[0])
        return
    yield from (
        Text(part, "dim") for part in textwrap.wrap(label, width, subsequent_indent=_INDENT)
    )
    for line in lines:
        yield Text(f"{_INDENT}  {line}")


def _plain(text: str) -> str:
    return " ".join(clean_lines(text).split())


_BY_OTHERS = (Status.INTERRUPTED, Status.CANCELED, Status.ABORTED)
_KEYS = "[y]es, yes [a]lways, [n]o, [e]dit, [l]ater"


async def answer_run(
    wanted: str,
    given: Given,
    asked: Asked,
    terminal: Terminal,
    *,
    journal: str,
    shown: Shown,
    goes_on: bool,
    take_over: bool = False,
) -> int:
    """Show what a run waits for, take answers, and go on with it.

    Without answers on the command line they are asked for on a terminal; without a terminal
    the questions are shown and that is all.
    """
    given.check()
    where = existing_journal(journal)
    async with open_journal(where, create=False) as log:
        run_id = await find_run(log, wanted)
        activity = await read_activity(log, run_id)
        holders = await log.holders()
    if not activity.pending or activity.result is None:
        raise Misuse(_nobody(activity, holders.get(run_id), journal))
    launching = Launching(activity, asked)
    waiting = Waiting(activity)
    if not waiting.items:
        again = command_line("resume", run_id, journal=journal)
        raise Misuse(f"all that run {run_id} waits for is answered: go on, {again}")
    editing = Editing(launching, terminal, is_sure=goes_on)
    answers = given.read(waiting, editing)
    if not answers:
        if shown.as_json:
            terminal.put_json(encode(list(activity.pending)))
            return EXIT_CODES[Status.INPUT_REQUIRED]
        answers = _ask(waiting, editing, terminal, by=given.who)
    if not answers:
        terminal.hint(*_hints(waiting, run_id, journal))
        return EXIT_CODES[Status.INPUT_REQUIRED]
    if not goes_on:
        await keep_answers(run_id, answers, journal=where)
        terminal.hint(f"go on: {command_line('resume', run_id, journal=journal)}")
        return 0
    return await resume_agent(
        run_id,
        asked,
        terminal,
        journal=journal,
        shown=shown,
        answers=answers,
        launching=launching,
        take_over=take_over,
    )


def _nobody(activity: Activity, holder: LeaseHolder | None, journal: str) -> str:
    """Why there is nothing to answer, and what leads on where it died."""
    status = status_words(activity.status, holder)
    verb = (
        "was "
        if activity.status in _BY_OTHERS
        else "has "
        if activity.result is not None
        else "is "
    )
    if status == DIED:
        again = command_line("resume", activity.run_id, journal=journal)
        return f"run {activity.run_id} waits for no answer: it died; go on with it, {again}"
    return f"run {activity.run_id} waits for no answer: it {verb}{status}"


def _hints(waiting: Waiting, run_id: str, journal: str) -> Iterator[str]:
    """How to answer, for each kind of what waits."""
    calls = [n for n, one in waiting.items.items() if isinstance(one, PendingApproval)]
    questions = [n for n in waiting.items if n not in calls]
    if calls:
        said = command_line("approve", run_id, "--approve", str(calls[0]), journal=journal)
        yield f"answer: {said}"
        yield f"    or: --deny {calls[0]}, --edit {calls[0]} JSON, --all"
    if questions:
        said = command_line(
            "approve", run_id, "--answer", str(questions[0]), "TEXT", journal=journal
        )
        yield f"answer: {said}"


def _ask(waiting: Waiting, editing: Editing, terminal: Terminal, *, by: str) -> list[AnyAnswer]:
    """Show the questions, and ask for answers where a terminal is attended."""
    is_attended = _is_attended(terminal)
    answers: list[AnyAnswer] = []
    for number, one in waiting.items.items():
        terminal.tell(*show_question(number, one, width=terminal.err.width))
        if is_attended:
            found = (
                _ask_for_call(one, editing, terminal, by)
                if isinstance(one, PendingApproval)
                else _ask_for_answer(one, terminal, by)
            )
            answers += [] if found is None else [found]
    return answers


def _is_attended(terminal: Terminal) -> bool:
    # It is None where it was closed.
    return sys.stdin is not None and sys.stdin.isatty() and terminal.err.is_terminal


def _ask_for_answer(pending: Pending, terminal: Terminal, by: str) -> AnyAnswer | None:
    """Ask until there is an answer that may be given; None leaves it for later."""
    choices = pending.choices if isinstance(pending, PendingQuestion) else ()
    while text := _prompt("answer (empty: later)"):
        if not choices or text in choices:
            return Answer(pending.id, text, by=by)
        terminal.tell(Text(f"choose of {', '.join(choices)}", "yellow"))
    return None


def _ask_for_call(
    call: PendingApproval, editing: Editing, terminal: Terminal, by: str
) -> AnyAnswer | None:
    """Ask for one answer until there is one; None leaves it for later."""
    while True:
        match _prompt(_KEYS).strip().lower()[:1]:
            case "y":
                return Approve(call.id, by=by)
            case "a":
                return Approve(call.id, always="tool", by=by)
            case "n":
                return Deny(call.id, _prompt("reason (may be empty)"), by=by)
            case "e":
                edited = _edit(call, editing, terminal)
                if edited is not None:
                    return Edit(call.id, edited, by=by)
            case "l":
                return None
            case _:
                continue


def _edit(call: PendingApproval, editing: Editing, terminal: Terminal) -> JsonObject | None:
    """Ask for other arguments; None where there are none that fit."""
    terminal.tell(Text(clean_lines(f"now: {encode(call.arguments).decode()}")))
    text = _prompt("all arguments as JSON (empty: none)")
    if not text:
        return None
    try:
        return editing.read(text, call)
    except Misuse as error:
        terminal.tell(Text(clean_lines(str(error)), "yellow"))
        return None


def _prompt(text: str) -> str:
    with _stoppable():
        return str(click.prompt(text, default="", show_default=False, err=True))


@contextmanager
def _stoppable() -> Generator[None]:
    """Let Ctrl-C end a prompt: the event loop, which has the signal, stands still meanwhile."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
