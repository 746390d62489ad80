"""Answering what a parked run waits for, from the command line."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import click
import msgspec
from rich.text import Text

from ..contract import (
    Answer,
    AnyAnswer,
    Approve,
    Deny,
    Edit,
    JsonObject,
    Pending,
    PendingApproval,
    Status,
    encode,
)
from ..entry.answering import keep_answers
from ..errors import Misuse
from ..journal import open_journal
from .conclusion import command_line
from .exit_code import EXIT_CODES
from .question import id_of, show_question
from .run_lookup import existing_journal, find_run, read_story
from .running import Asked, Shown, resume_agent
from .terminal import Terminal

__all__ = ["Given", "answer_run"]

_KEYS = "[y]es, yes [a]lways, [n]o, [e]dit, [l]ater"


@dataclass(frozen=True, kw_only=True)
class Given:
    """The answers that stand on a command line.

    Attributes:
        approve: Calls that may run, by id or place.
        approve_all: Whether all calls may run that no other answer names.
        always: How far a yes holds: "tool", "arguments" or "".
        deny: Calls that may not run.
        reason: What the model is told of them.
        edit: Calls that run with other arguments, as JSON.
        answer: Questions and their answers.
        by: Who answers.
    """

    approve: Sequence[str] = ()
    approve_all: bool = False
    always: Literal["", "tool", "arguments"] = ""
    deny: Sequence[str] = ()
    reason: str = ""
    edit: Sequence[tuple[str, str]] = ()
    answer: Sequence[tuple[str, str]] = ()
    by: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not (self.approve or self.approve_all or self.deny or self.edit or self.answer)


async def answer_run(
    wanted: str,
    given: Given,
    asked: Asked,
    terminal: Terminal,
    *,
    journal: str,
    shown: Shown,
    goes_on: bool,
) -> int:
    """Show what a run waits for, take answers, and go on with it.

    Without answers on the command line they are asked for on a terminal; without a terminal
    the questions are shown and that is all.

    Args:
        wanted: The run, as for ``find_run``.
        given: What the command line answers.
        asked: What shall be other than when the run was started.
        terminal: Where to print.
        journal: Where its log is.
        shown: How it is shown.
        goes_on: Whether the run goes on; else the answers are logged for later.

    Returns:
        The exit code; that of input_required where nothing was answered.

    Raises:
        Misuse: There is no such run, it waits for nobody, or an answer is for nothing.
        JournalError: The journal cannot be read or written.
    """
    where = existing_journal(journal)
    async with open_journal(where) as log:
        run_id = await find_run(log, wanted)
        story = await read_story(log, run_id)
    if not story.pending or story.result is None:
        status = "is under way" if story.result is None else f"is {story.result.status}"
        raise Misuse(f"run {run_id} waits for nobody: it {status}")
    answers = _read(given, story.pending)
    if not answers:
        if shown.as_json:
            terminal.put(encode(list(story.pending)).decode() + "\n")
            return EXIT_CODES[Status.INPUT_REQUIRED]
        answers = _ask(story.pending, terminal, by=given.by or _user())
    if not answers:
        terminal.tell(
            Text(f"answer: {command_line('approve', run_id, '--approve', 'ID', journal=journal)}")
        )
        return EXIT_CODES[Status.INPUT_REQUIRED]
    if not goes_on:
        await keep_answers(run_id, answers, journal=where)
        terminal.tell(Text(f"go on: {command_line('resume', run_id, journal=journal)}"))
        return 0
    return await resume_agent(
        run_id, asked, terminal, journal=journal, shown=shown, answers=answers
    )


def _read(given: Given, pending: Sequence[Pending]) -> list[AnyAnswer]:
    """The answers of the command line, one for each that is named."""
    by = given.by or _user()
    makers: list[tuple[str, Callable[[str], AnyAnswer]]] = [
        *((name, lambda id: Approve(id, always=given.always, by=by)) for name in given.approve),
        *((name, lambda id: Deny(id, given.reason, by=by)) for name in given.deny),
        *((name, _editor(text, by)) for name, text in given.edit),
        *((name, _answerer(text, by)) for name, text in given.answer),
    ]
    answers: dict[str, AnyAnswer] = {}
    for name, make in makers:
        id = _find(name, pending)
        if id in answers:
            raise Misuse(f"{id} is answered twice")
        answers[id] = make(id)
    if given.approve_all:
        for one in pending:
            if isinstance(one, PendingApproval):
                answers.setdefault(one.call_id, Approve(one.call_id, always=given.always, by=by))
    return list(answers.values())


def _editor(text: str, by: str) -> Callable[[str], AnyAnswer]:
    arguments = _arguments(text)
    return lambda id: Edit(id, arguments, by=by)


def _answerer(text: str, by: str) -> Callable[[str], AnyAnswer]:
    return lambda id: Answer(id, text, by=by)


def _arguments(text: str) -> JsonObject:
    try:
        found: object = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Misuse(f"the new arguments are no JSON: {error}") from error
    if not isinstance(found, dict):
        raise Misuse("the new arguments are no JSON object: give all of them, such as '{\"n\": 1}'")
    return cast("JsonObject", found)


def _find(name: str, pending: Sequence[Pending]) -> str:
    ids = [id_of(one) for one in pending]
    if name in ids:
        return name
    if name.isdecimal() and 1 <= int(name) <= len(ids):
        return ids[int(name) - 1]
    begun = [id for id in ids if name and id.startswith(name)]
    if len(begun) == 1:
        return begun[0]
    raise Misuse(f"nothing that waits is called {name}: there are {', '.join(ids)}")


def _ask(pending: Sequence[Pending], terminal: Terminal, *, by: str) -> list[AnyAnswer]:
    """Show the questions, and ask for answers where somebody can give them."""
    is_attended = _is_attended(terminal)
    answers: list[AnyAnswer] = []
    for number, one in enumerate(pending, 1):
        terminal.tell(*show_question(number, one, width=terminal.err.width))
        if is_attended:
            found = _ask_one(one, terminal, by)
            answers += [] if found is None else [found]
    return answers


def _is_attended(terminal: Terminal) -> bool:
    return sys.stdin.isatty() and terminal.err.is_terminal


def _ask_one(pending: Pending, terminal: Terminal, by: str) -> AnyAnswer | None:
    """Ask for one answer until there is one; None leaves it for later."""
    id = id_of(pending)
    if not isinstance(pending, PendingApproval):
        text = _prompt("answer (empty: later)")
        return Answer(id, text, by=by) if text else None
    while True:
        match _prompt(_KEYS).strip().lower()[:1]:
            case "y":
                return Approve(id, by=by)
            case "a":
                return Approve(id, always="tool", by=by)
            case "n":
                return Deny(id, _prompt("reason (may be empty)"), by=by)
            case "e":
                try:
                    return Edit(id, _arguments(_prompt("all arguments as JSON")), by=by)
                except Misuse as error:
                    terminal.tell(Text(str(error), "yellow"))
            case "l":
                return None
            case _:
                continue


def _prompt(text: str) -> str:
    return str(click.prompt(text, default="", show_default=False, err=True))


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A process whose user has no name.
        return ""
