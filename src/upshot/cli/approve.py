"""Reads the user's answers to a parked run, from the command line or a terminal, and resumes it."""

from __future__ import annotations

import signal
import sys
import textwrap
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, cast

import click
import msgspec
from rich.text import Text

from upshot.cli.loading import Asked, Launching
from upshot.cli.lookup import command_line, existing_journal, find_run, read_activity, user_name
from upshot.cli.report import DIED, UNKNOWN_STYLE, effect_lines, status_words
from upshot.cli.running import Shown, resume_agent
from upshot.cli.terminal import EXIT_CODES, Terminal
from upshot.contract.agent import Agent
from upshot.contract.agent_spec import AgentSpec
from upshot.contract.base.checks import json_fault
from upshot.contract.base.enums import Effect, Status
from upshot.contract.base.structs import JsonObject
from upshot.contract.base.words import clean, clean_lines, moment, visible
from upshot.contract.codec import encode
from upshot.contract.pending import (
    Answer,
    AnyAnswer,
    Outdated,
    Pending,
    PendingApproval,
    PendingEffect,
    PendingQuestion,
    Taken,
)
from upshot.contract.provenance import Doubt, Voucher
from upshot.engines.machine.machine_engine import MachineEngine
from upshot.entry.answers import answer_run as answer_parked
from upshot.entry.run_handle import chain_from
from upshot.errors import Misuse
from upshot.journal.lease_holder import LeaseHolder
from upshot.journal.opening import open_journal
from upshot.journal.shared import shared_journal
from upshot.state.activity import Activity, key_of
from upshot.tools.arguments.argument_check import Checked
from upshot.tools.catalog import resolve_tools
from upshot.tools.definition.tool import Tool


class Editing:
    """Reads new arguments of calls, checked against the schemas of the agent's tools."""

    def __init__(self, launching: Launching, terminal: Terminal, *, is_sure: bool) -> None:
        self._launching = launching
        self._terminal = terminal
        self._is_sure = is_sure

    def read(self, text: str, pending: PendingApproval) -> JsonObject:
        """Return the arguments in *text*, for the call that waits."""
        arguments = _parse(text)
        tools = self._tools(pending.tool_name)
        if not tools:
            self._terminal.report(
                Text(f"not checked: the tool {pending.tool_name} is not found", "yellow")
            )
            return arguments
        # The agents of a machine may have different tools of one name.
        refused = ""
        for tool in tools:
            found = tool.check.read(arguments)
            if isinstance(found, Checked):
                return arguments
            refused = f"the new arguments do not fit {tool.name}: {found.details}. {found.hint}"
        raise Misuse(refused)

    def _tools(self, name: str) -> list[Tool]:
        try:
            agent, options = self._launching.loaded
        except Misuse as error:
            if self._is_sure:
                raise
            self._terminal.report(Text(str(error), "yellow"))
            return []
        launch = self._launching.launch
        found = [*_tools_of(agent, options.get("tools") or ())]
        found += _tools_in({launch.file, *launch.tools})
        return [*dict.fromkeys(tool for tool in found if tool.name == name)]


def _tools_of(agent: Agent[Any] | AgentSpec, named: Any) -> Iterator[Tool]:
    """Yield the tools of an agent, and of the agents of its machine."""
    yield from _resolved(agent.tools or (), named)
    yield from _resolved(named, ())
    if isinstance(agent.engine, MachineEngine):
        for inner in agent.engine.agents:
            yield from _resolved(inner.tools or (), named)


def _resolved(items: Any, named: Any) -> tuple[Tool, ...]:
    try:
        return resolve_tools(items, named=named)
    except Misuse:
        # The resumed run reports it; here it only means that nothing is checked.
        return ()


def _tools_in(files: set[str]) -> Iterator[Tool]:
    """Yield the tools that the files define, which agents of a machine may have."""
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) in files:
            yield from (value for value in vars(module).values() if isinstance(value, Tool))


def _parse(text: str) -> JsonObject:
    try:
        found: object = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Misuse(f"the new arguments are not JSON: {json_fault(error)}") from error
    if not isinstance(found, dict):
        raise Misuse(
            "the new arguments are not a JSON object: give all of them, such as '{\"n\": 1}'"
        )
    return cast("JsonObject", found)


class Waiting:
    """What a run waits for, each with its fixed number in the run."""

    def __init__(self, activity: Activity) -> None:
        self._numbers = activity.numbers
        open_ = [one for one in activity.pending if key_of(one) not in activity.answered]
        numbered = {self._numbers[key_of(one)]: one for one in open_}
        self.items: dict[int, Pending] = dict(sorted(numbered.items()))

    @property
    def calls(self) -> list[PendingApproval]:
        """The calls among them."""
        return [one for one in self.items.values() if isinstance(one, PendingApproval)]

    def call(self, name: str) -> PendingApproval:
        """Return the call with the number or id *name*."""
        number, found = self._find(name)
        if isinstance(found, PendingApproval):
            return found
        raise Misuse(f"{_label_of(number, found)} is a question: give --answer {number} TEXT")

    def question(self, name: str) -> Pending:
        """Return the question with the number or id *name*."""
        number, found = self._find(name)
        if not isinstance(found, PendingApproval):
            return found
        raise Misuse(
            f"{_label_of(number, found)} is a call: give --approve {number}, --deny {number} or "
            f"--edit {number} JSON"
        )

    def _find(self, name: str) -> tuple[int, Pending]:
        for number, one in self.items.items():
            if one.id == name:
                return self._check_named(number)
        listed = ", ".join(self._listed([*self.items]))
        if name.isdecimal() and int(name) in self._numbers.values():
            number = int(name)
            if number in self.items:
                return number, self.items[number]
            raise Misuse(f"{number} is answered already: what waits is {listed}")
        waiting = {key_of(one) for one in self.items.values()}
        if any(name in (key[1], f"{key[0]}/{key[1]}") for key in self._numbers.keys() - waiting):
            # Not a prefix match: it may be the start of a later question's id, as "c" is of "c_2".
            raise Misuse(f"{clean(name, 60)} is answered already: what waits is {listed}")
        begun = [n for n, one in self.items.items() if name and one.id.startswith(name)]
        if len(begun) > 1:
            raise Misuse(f"several that wait begin with {name}: {', '.join(self._listed(begun))}")
        if not begun:
            raise Misuse(f"nothing that waits is called {name}: there is {listed}")
        return self._check_named(begun[0])

    def _check_named(self, number: int) -> tuple[int, Pending]:
        """Return the item named by its id; refuse an id that an earlier question also had."""
        found = self.items[number]
        run_id, id, _ = key_of(found)
        if sum((run_id, id) == key[:2] for key in self._numbers) > 1:
            raise Misuse(
                f"several questions were asked under the id {clean(id, 60)}: give the number of "
                f"the one that you have seen; {number} waits now"
            )
        return number, found

    def _listed(self, numbers: Sequence[int]) -> list[str]:
        return [_label_of(number, self.items[number]) for number in numbers]


def _label_of(number: int, pending: Pending) -> str:
    tool = f"{pending.tool_name}, " if isinstance(pending, PendingApproval) else ""
    return f"{number} ({clean(tool + pending.id, 60)})"


@dataclass(frozen=True, kw_only=True)
class Given:
    """The answers on a command line; the fields are options of ``approve``."""

    approve: Sequence[str] = ()
    approve_all: bool = False
    always: Literal["tool", "arguments"] | None = None
    deny: Sequence[str] = ()
    reason: str = ""
    edit: Sequence[tuple[str, str]] = ()
    answer: Sequence[tuple[str, str]] = ()
    by: str = ""

    def check(self) -> None:
        """Check that no option is without effect."""
        if self.always and not (self.approve or self.approve_all):
            raise Misuse("--always sets the scope of an approval: it needs --approve ID or --all")
        if self.reason and not self.deny:
            raise Misuse("--reason is sent to the model with a denial: it needs --deny ID")

    @property
    def who(self) -> str:
        """The name of the person who answers."""
        return self.by or user_name()

    def read(self, waiting: Waiting, editing: Editing) -> list[AnyAnswer]:
        """Return the answers, one for each item that is named; empty if there are none."""
        by, always = self.who, self.always or ""
        given: list[AnyAnswer] = []
        for name in self.approve:
            given.append(waiting.call(name).approve(always=always, by=by))
        for name in self.deny:
            given.append(waiting.call(name).deny(self.reason, by=by))
        for name, text in self.edit:
            call = waiting.call(name)
            given.append(call.edit(editing.read(text, call), by=by))
        for name, text in self.answer:
            given.append(Answer(waiting.question(name).id, text, by=by))
        answers: dict[str, AnyAnswer] = {}
        for one in given:
            id = one.id if isinstance(one, Answer) else one.call_id
            if id in answers:
                raise Misuse(f"{id} is answered twice")
            answers[id] = one
        if self.approve_all:
            if not waiting.calls and not answers:
                number = next(iter(waiting.items))
                raise Misuse(f"--all is for calls, and no call waits: give --answer {number} TEXT")
            for call in waiting.calls:
                answers.setdefault(call.id, call.approve(always=always, by=by))
        return list(answers.values())


_INDENT = "   "
_MAX_REQUEST_CHARS = 1_000
_STYLES = {Effect.READ: "green", Effect.WRITE: "yellow", Effect.DESTRUCTIVE: "red"}


def show_origin(activity: Activity, *, width: int) -> Iterator[Text]:
    """Yield the lines that say which run asks, and what the user had requested."""
    if (started := activity.started) is None:
        return
    yield Text.assemble(
        (_plain(activity.run_id), "bold"), f"  agent {_plain(activity.state.agent.id)}"
    )
    yield from _field("request", clean(started.request.text, _MAX_REQUEST_CHARS), width)


def show_question(number: int, pending: Pending, *, width: int) -> Iterator[Text]:
    """Yield the lines that show a question in full: approving needs all of it in view."""
    if isinstance(pending, PendingApproval):
        yield from _show_call(number, pending, width)
    else:
        is_question = isinstance(pending, PendingQuestion)
        text = pending.question if is_question else pending.description
        yield Text.assemble((f"{number}. question", "bold"), (f"  {_plain(pending.id)}", "dim"))
        yield from _field("asks", text, width)
        if isinstance(pending, PendingEffect):
            yield from _effect_fields(pending, width)
        if is_question and pending.choices:
            yield from _field("choices", ", ".join(pending.choices), width)
    if pending.run_id:
        yield from _field("asked by", _plain(pending.run_id), width)
    if pending.asked_at is not None:
        expires = pending.expires_at
        until = "" if expires is None else f", until {moment(expires)}"
        yield Text(f"{_INDENT}asked {moment(pending.asked_at)}{until}", "dim")


def _show_call(number: int, pending: PendingApproval, width: int) -> Iterator[Text]:
    """Yield a call, and why it is asked about."""
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
    if pending.approvals > 1:
        given = "".join(f", {_plain(one.by)} approved it" for one in pending.approved_by)
        yield from _field("needs", f"{pending.approvals} different users{given}", width)
    if (taint := pending.taint) is not None:
        place = f"call {taint.call_id} of {taint}" if taint.call_id else str(taint)
        yield from _field("untrusted", place, width)
    for doubt in pending.doubts:
        yield from _field("in doubt", _doubt_text(doubt), width)
    if pending.vouched:
        yield from _field("vouched for", ", ".join(map(_vouched_text, pending.vouched)), width)


def _effect_fields(pending: PendingEffect, width: int) -> Iterator[Text]:
    """Yield what helps to find out whether a call took effect."""
    for name, value in pending.arguments.items():
        yield from _field(_plain(name), encode(value).decode(), width)
    for name, at in (("began", pending.started_at), ("ended", pending.ended_at)):
        if at is not None:
            yield from _field(name, moment(at), width)
    for name, text in (("said", pending.error), ("idempotency key", pending.idempotency_key)):
        if text:
            yield from _field(name, text, width)


def _doubt_text(doubt: Doubt) -> str:
    """Return a doubt as one line; untrusted text is in quotation marks."""
    if not doubt.path:
        return doubt.reason
    text = (
        f"{doubt.path} is {encode(doubt.value).decode()}: {doubt.reason}; it stands {doubt.found}"
    )
    return f"{text}; you said {encode(doubt.said).decode()}" if doubt.said else text


def _vouched_text(voucher: Voucher) -> str:
    source = f" by {voucher.source}" if voucher.source else ""
    return f"{voucher.path} ({voucher.rule}{source})"


def _field(name: str, value: str, width: int) -> Iterator[Text]:
    label = f"{_INDENT}{name}: "
    room = max(20, width - len(_INDENT) - 2)
    lines = [
        part
        for line in visible(value).expandtabs().split("\n")
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
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


_BY_OTHERS = (Status.INTERRUPTED, Status.CANCELED, Status.ABORTED)
_KEYS = "[y]es, yes [a]lways, [n]o, [e]dit, [l]ater"


async def answer_run(
    terminal: Terminal,
    *,
    wanted: str,
    given: Given,
    asked: Asked,
    journal: str,
    shown: Shown,
    goes_on: bool | None,
    take_over: bool = False,
) -> int:
    """Show what a run waits for, read answers, and resume it.

    By default the run is resumed if its agent is known; otherwise that is left to others. Without
    answers on the command line the user is asked on a terminal; without a terminal the questions
    are only shown.
    """
    given.check()
    where = existing_journal(journal)
    async with open_journal(where, create=False) as log:
        # A submitted run may have handed its request over to the run that asks.
        run_id = (await chain_from(await find_run(log, wanted), log))[-1]
        activity = await read_activity(log, run_id)
        holders = await log.holders()
        shared = shared_journal(log)
        is_submitted = shared is not None and await shared.submission(run_id) is not None
    if not activity.pending or activity.result is None:
        if activity.started is None:
            raise Misuse(f"run {run_id} waits for no answer: it has not started")
        raise Misuse(_why_nothing_waits(activity, holders.get(run_id), journal))
    launching = Launching(activity, asked)
    goes_on = launching.is_known if goes_on is None else goes_on
    who, then = _who_continues(
        run_id, journal, is_submitted=is_submitted, is_known=launching.is_known
    )
    waiting = Waiting(activity)
    if not waiting.items:
        raise Misuse(f"all that run {run_id} waits for is answered: {who}, {then}")
    editing = Editing(launching, terminal, is_sure=goes_on)
    answers = given.read(waiting, editing)
    if not answers:
        lines = effect_lines(activity, is_dead=True)
        terminal.report(*(Text(line, UNKNOWN_STYLE) for line in lines))
        if terminal.as_json:
            terminal.answer(activity.pending)
            return EXIT_CODES[Status.INPUT_REQUIRED]
        answers = _ask(activity, waiting, editing, terminal, by=given.who)
    if not answers:
        terminal.hint(*_hints(waiting, run_id, journal))
        return EXIT_CODES[Status.INPUT_REQUIRED]
    if not goes_on:
        missing = await _store_answers(run_id, answers, where)
        users = f"{missing} more {'user' if missing == 1 else 'users'} must approve it"
        terminal.hint(users if missing else f"{who}: {then}")
        return 0
    return await resume_agent(
        terminal,
        wanted=run_id,
        asked=asked,
        journal=journal,
        shown=shown,
        answers=answers,
        launching=launching,
        take_over=take_over,
    )


async def _store_answers(run_id: str, answers: Sequence[AnyAnswer], where: str) -> int:
    """Store answers for the process that resumes the run.

    Returns:
        How many more users must approve if no answer lets the run continue; 0 if it continues.

    Raises:
        Misuse: One of them came too late.
    """
    receipts = await answer_parked(run_id, answers, journal=where)
    if late := [one.reason for one in receipts if isinstance(one, Outdated)]:
        raise Misuse("; ".join(late))
    return min((one.missing for one in receipts if isinstance(one, Taken)), default=0)


def _who_continues(
    run_id: str, journal: str, *, is_submitted: bool, is_known: bool
) -> tuple[str, str]:
    """Return who continues an answered run, and with which command."""
    if is_submitted and not is_known:
        return "a worker continues it", command_line("work", "FILE.py", journal=journal)
    agent = () if is_known else ("FILE.py:AGENT",)
    return "continue it", command_line("resume", run_id, *agent, journal=journal)


def _why_nothing_waits(activity: Activity, holder: LeaseHolder | None, journal: str) -> str:
    """Explain why there is nothing to answer, and how to continue if the process died."""
    status = status_words(activity.status, holder)
    no_answer = f"run {activity.run_id} waits for no answer: it"
    if status == DIED:
        again = command_line("resume", activity.run_id, journal=journal)
        return f"{no_answer} died; continue it, {again}"
    if activity.status in _BY_OTHERS:
        return f"{no_answer} was {status}"
    return f"{no_answer} {'is' if activity.result is None else 'has'} {status}"


def _hints(waiting: Waiting, run_id: str, journal: str) -> Iterator[str]:
    """Yield how to answer, for each kind of question."""
    calls = [n for n, one in waiting.items.items() if isinstance(one, PendingApproval)]
    questions = [n for n in waiting.items if n not in calls]
    if calls:
        words = ("approve", run_id, "--approve", str(calls[0]))
        yield f"answer: {command_line(*words, journal=journal)}"
        yield f"    or: --deny {calls[0]}, --edit {calls[0]} JSON, --all"
    if questions:
        words = ("approve", run_id, "--answer", str(questions[0]), "TEXT")
        yield f"answer: {command_line(*words, journal=journal)}"


def _ask(
    activity: Activity, waiting: Waiting, editing: Editing, terminal: Terminal, *, by: str
) -> list[AnyAnswer]:
    """Show the questions, and ask for answers if there is a user at the terminal."""
    asks = is_attended(terminal)
    answers: list[AnyAnswer] = []
    terminal.report(*show_origin(activity, width=terminal.err.width))
    for number, one in waiting.items.items():
        terminal.report(*show_question(number, one, width=terminal.err.width))
        if asks:
            found = (
                _ask_for_call(one, editing, terminal, by)
                if isinstance(one, PendingApproval)
                else _ask_for_answer(one, terminal, by)
            )
            answers += [] if found is None else [found]
    return answers


def is_attended(terminal: Terminal) -> bool:
    """Whether there is a user at the terminal."""
    # A closed stdin is None.
    return sys.stdin is not None and sys.stdin.isatty() and terminal.err.is_terminal


def _ask_for_answer(pending: Pending, terminal: Terminal, by: str) -> AnyAnswer | None:
    """Ask until there is a valid answer; None leaves it for later."""
    choices = pending.choices if isinstance(pending, PendingQuestion) else ()
    while text := _prompt("answer (empty: later)"):
        if not choices or text in choices:
            return Answer(pending.id, text, by=by)
        terminal.report(Text(f"choose one of {', '.join(choices)}", "yellow"))
    return None


def _ask_for_call(
    call: PendingApproval, editing: Editing, terminal: Terminal, by: str
) -> AnyAnswer | None:
    """Ask for one answer until there is one; None leaves it for later."""
    while True:
        match _prompt(_KEYS).strip().lower()[:1]:
            case "y":
                return call.approve(by=by)
            case "a":
                return call.approve(always="tool", by=by)
            case "n":
                return call.deny(_prompt("reason (may be empty)"), by=by)
            case "e":
                edited = _edit(call, editing, terminal)
                if edited is not None:
                    return call.edit(edited, by=by)
            case "l":
                return None
            case _:
                continue


def _edit(call: PendingApproval, editing: Editing, terminal: Terminal) -> JsonObject | None:
    """Ask for other arguments; None if there are none that fit."""
    terminal.report(Text(visible(f"now: {encode(call.arguments).decode()}")))
    text = _prompt("all arguments as JSON (empty: none)")
    if not text:
        return None
    try:
        return editing.read(text, call)
    except Misuse as error:
        terminal.report(Text(clean_lines(str(error)), "yellow"))
        return None


def _prompt(text: str) -> str:
    _drop_typed_ahead()
    with stoppable():
        return str(click.prompt(text, default="", show_default=False, err=True))


def _drop_typed_ahead() -> None:
    """Discard what was typed before the question was shown: it cannot be an answer to it."""
    if sys.platform == "win32":
        import msvcrt

        while msvcrt.kbhit():
            msvcrt.getwch()
        return
    import termios

    # An input that is closed or not a terminal has nothing to discard.
    with suppress(termios.error, OSError, ValueError):
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


@contextmanager
def stoppable() -> Generator[None]:
    """Make Ctrl-C end a prompt: the event loop, which handles the signal, is blocked by it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
