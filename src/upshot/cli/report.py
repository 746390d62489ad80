"""The report on a run, and its result."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from rich.markdown import Markdown
from rich.text import Text

from upshot.cli.lookup import MEMORY, command_line
from upshot.cli.terminal import EXIT_CODES, Glyphs, Terminal, glyphs_for
from upshot.cli.timeline import STYLES, timeline
from upshot.contract.base.enums import Effect, ErrorCode, Status
from upshot.contract.base.words import (
    call_words,
    clean,
    clean_lines,
    count,
    duration,
    figures,
    moment,
    money,
    size,
    tokens,
)
from upshot.contract.codec import encode
from upshot.contract.error import AgentError
from upshot.contract.events import RunStarted
from upshot.contract.message import File
from upshot.contract.pending import Pending, PendingApproval, PendingExternal, PendingQuestion
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import ToolFailure, ToolOutcome, ToolRecord, ToolTimeout
from upshot.journal.lease_holder import LeaseHolder
from upshot.journal.postgres.urls import safe_place
from upshot.state.activity import CUT_OFF, RUNNING, Activity, Tone, key_of, step_title
from upshot.state.child_runs import FORKED_FROM, child_of
from upshot.state.redacted_events import redacted_words
from upshot.state.run_effects import awaited_by
from upshot.state.run_state import STOPPED

CONTINUE = "--continue-stopped"
DIED = "died"
SUSPENDED = "suspended"
RUNNING_OR_DIED = "running or died"
FORKED = "forked"
"""The status of a fork that has not been resumed."""
# An open child run whose parent run, which would have read its result, has ended.
LEFT_BEHIND = "left behind"

UNKNOWN_STYLE = "bold yellow"

_ASKS = ErrorCode.INPUT_REQUIRED
_ENDED = "the process ended while it ran"
_LABEL_WIDTH = 12
_MAX_TEXT_CHARS = 400
_TONES: dict[str, Tone] = {
    Status.COMPLETED: "good",
    Status.FAILED: "bad",
    Status.ABORTED: "bad",
}


@dataclass(frozen=True, kw_only=True)
class Shown:
    """How a command line wants a run to be shown."""

    stream: bool = False
    markdown: bool = False
    progress: str = "auto"


def report(
    activity: Activity,
    *,
    journal: str,
    width: int,
    glyphs: Glyphs,
    holder: LeaseHolder | None = None,
    is_left: bool = False,
    outer_id: str = "",
) -> Iterator[Text]:
    """Lay out everything known of a run, except its answer."""
    yield _title(activity, holder)
    for name, text, style in _facts(activity, journal, holder, is_left=is_left, outer_id=outer_id):
        yield _line(name, text, style, width)
    if activity.steps:
        yield Text()
    yield from timeline(activity, width=width, glyphs=glyphs)


def status_words(status: str, holder: LeaseHolder | None = None) -> str:
    """Return a run's status as it is shown."""
    if status != RUNNING:
        return status
    state = "unknown" if holder is None else holder.state
    if holder is not None and state == "lives":
        return f"running (process {holder.pid})"
    if holder is not None and state == "stopped":
        return f"{SUSPENDED} (process {holder.pid})"
    return DIED if state == "gone" else RUNNING_OR_DIED


def fork_origin(started: RunStarted | None) -> tuple[str, int] | None:
    """Return the run and the event that a run was last forked from; None if it is not a fork."""
    origins = None if started is None else started.options.get(FORKED_FROM)
    last = origins[-1] if isinstance(origins, list) and origins else None
    if not isinstance(last, dict):
        return None
    seq = last.get("seq")
    return str(last.get("run_id", "")), seq if isinstance(seq, int) else 0


def _is_untouched(activity: Activity) -> bool:
    """Whether a run is a fork that has not been resumed."""
    origin = fork_origin(activity.started)
    return activity.status == RUNNING and origin is not None and activity.state.seq == origin[1]


def status_style(status: str) -> str:
    """Return the style for a status."""
    return STYLES[_TONES.get(status, "odd")]


def answer_text(output: object) -> str:
    """Return an answer as text: a string unchanged, None as "", other values as indented JSON."""
    if output is None or isinstance(output, str):
        return output or ""
    return msgspec.json.format(encode(output), indent=2).decode()


def error_text(error: AgentError, status: str = "") -> str:
    """Return an error as one line: its code, its message, and when to try again."""
    later = (
        "" if error.retry_after_s is None else f" (try again in {duration(error.retry_after_s)})"
    )
    code = "" if error.code == status else f"{error.code}: "
    return clean(f"{code}{error.message}{later}", _MAX_TEXT_CHARS)


def trail_text(error: AgentError) -> str:
    """Return whose exception an error was and where it was raised; "" if that is unknown."""
    details = error.details
    who, file = details.get("raised_by"), details.get("file")
    # Without a function it is a place in a document, which the message names.
    function = details.get("function")
    place = f" at {file}:{details.get('line')}, in {function}" if file and function else ""
    whose = f"raised by {who}" if who else "raised" if place else ""
    kind = f"{error.type} " if whose and error.type else ""
    return clean(f"{kind}{whose}{place}", _MAX_TEXT_CHARS)


def pending_text(pending: Pending) -> str:
    """Return what a run waits for, as one line."""
    match pending:
        case PendingApproval(call_id=call_id, tool_name=tool, arguments=arguments):
            doubted = ", ".join(doubt.path or "the call itself" for doubt in pending.doubts)
            doubted = f", in doubt: {doubted}" if doubted else ""
            return clean(f"approval of {tool} {encode(arguments).decode()} ({call_id}){doubted}")
        case PendingExternal(id=id, description=description):
            return clean(f"a result: {description} ({id})")
        case _:
            return clean(f"an answer: {pending.question} ({pending.id})")


def _asked_text(pending: Pending) -> str:
    if isinstance(pending, PendingQuestion):
        return f"{pending.question} ({pending.id})"
    return pending_text(pending)


def _title(activity: Activity, holder: LeaseHolder | None) -> Text:
    agent = "" if activity.started is None else clean(activity.started.agent.id, 40)
    words = FORKED if _is_untouched(activity) else status_words(activity.status, holder)
    if activity.state.time.due_at is not None:
        words = f"due at {moment(activity.state.time.due_at)}"
    status = (words, f"bold {status_style(activity.status)}")
    return Text.assemble((activity.run_id, "bold"), "  ", agent, "  ", status)


def _facts(
    activity: Activity, journal: str, holder: LeaseHolder | None, *, is_left: bool, outer_id: str
) -> Iterator[tuple[str, str, str]]:
    """Yield name, text and style of every line of the head."""
    started, result = activity.started, activity.result
    for line in effect_lines(activity, is_dead=not _may_be_worked_on(activity, holder)):
        yield "unknown", line, UNKNOWN_STYLE
    if started is not None:
        yield from _origin_lines(started, is_left=is_left)
    yield "started", _when(activity), ""
    yield "model", _model(activity), ""
    yield "tokens", _tokens(activity), ""
    yield "cost", money(activity.spent[1]), ""
    if activity.state.records:
        yield "tool calls", _outcomes(activity), ""
    # What it waits for says more than the error that it waits.
    if result is not None and result.error is not None and not activity.pending:
        yield "error", error_text(result.error, result.status), "red"
    for pending in activity.pending:
        answer = activity.answered.get(key_of(pending))
        if answer is None:
            yield "waits for", pending_text(pending), "yellow"
        else:
            yield "answered", clean(f"{_asked_text(pending)}: {answer}", _MAX_TEXT_CHARS), "green"
    for warning in activity.warnings:
        yield "warning", clean(f"{warning.code}: {warning.message}", _MAX_TEXT_CHARS), "yellow"
    for artifact in activity.state.stored:
        yield from (
            ("artifact", _artifact(file), "") for file in artifact.parts if isinstance(file, File)
        )
    yield "journal", safe_place(journal), ""
    shown = command_line("show", activity.run_id, "--events", journal=journal)
    yield "events", f"{activity.state.seq}: {shown}", ""
    if onward := _continue_command(
        activity, holder, activity.run_id if is_left else outer_id or activity.run_id
    ):
        yield "continue", command_line(*onward, journal=journal), ""


def _may_be_worked_on(activity: Activity, holder: LeaseHolder | None) -> bool:
    """Whether a living process may be working on the run."""
    return activity.status == RUNNING and status_words(RUNNING, holder) != DIED


def effect_lines(
    activity: Activity, *, is_dead: bool = False, inside: bool = True
) -> Iterator[str]:
    """Yield a line for each call and step whose effect is unknown.

    Args:
        activity: The run.
        is_dead: Whether no process works on it, so that what has no outcome was interrupted.
        inside: Whether child runs are named too.
    """
    result = activity.result
    records = activity.state.records if result is None else result.tool_records
    for one in records:
        if one.effect is Effect.UNKNOWN and one.outcome.settled is None:
            yield _record_line(one)
    state = activity.state
    for key, settled in state.steps_settled.items():
        error = settled.error
        if settled.effect is Effect.UNKNOWN and not (error and error.code == _ASKS):
            yield _may_have_happened(_step(key), "" if error is None else error.message)
    for key, spent in state.children.items():
        if (
            inside
            and spent is not None
            and any(one.state is Effect.UNKNOWN for one in spent.effects)
        ):
            run_id = child_of(key) or key
            yield _may_have_happened(f"something in the run {run_id}", "that run names it")
    if is_dead:
        cut = [
            call_words(begun.call.name, begun.arguments)
            for begun in state.unsettled.values()
            if begun.effect is not Effect.READ and not awaited_by(state, activity.run_id, begun)
        ]
        cut += [
            _step(key)
            for key, effect in state.steps_started.items()
            if effect is not Effect.READ and child_of(key) is None
        ]
        yield from (_may_have_happened(what, _ENDED) for what in cut)


def _record_line(record: ToolRecord) -> str:
    call = call_words(
        record.tool_name, record.arguments_executed or record.arguments_validated or {}
    )
    return _may_have_happened(call, _why(record.outcome))


def _may_have_happened(what: str, why: str) -> str:
    return clean(f"{what} may have happened{': ' if why else ''}{why}", _MAX_TEXT_CHARS)


def _step(key: str) -> str:
    return f"the step {clean(step_title(key), 60)}"


def _why(outcome: ToolOutcome) -> str:
    match outcome:
        case ToolTimeout(timeout_s=timeout_s):
            return f"it did not finish within {timeout_s:g} s"
        case ToolFailure(code="cancelled"):
            return "it was stopped while it ran"
        case ToolFailure(error=error):
            return error
        case _:
            return ""


def _origin_lines(started: RunStarted, *, is_left: bool) -> Iterator[tuple[str, str, str]]:
    """Yield the lines that say where a run comes from."""
    if started.redacted is not None:
        yield "redacted", clean(redacted_words(started.redacted), _MAX_TEXT_CHARS), "yellow"
    yield "request", clean(started.request.text, _MAX_TEXT_CHARS), ""
    if started.parent_run_id:
        ended = ", and left behind: nothing there takes its result" if is_left else ""
        yield "started by", f"{started.parent_run_id}{ended}", ""
    if origin := fork_origin(started):
        yield "forked from", f"{origin[0]} at event {origin[1]}", ""


def _continue_command(
    activity: Activity, holder: LeaseHolder | None, outer_id: str
) -> tuple[str, ...]:
    """Return the words of the command that continues the run; none if it ended or is running."""
    status, run_id = activity.status, activity.run_id
    if status == Status.INPUT_REQUIRED:
        waits = any(key_of(one) not in activity.answered for one in activity.pending)
        return ("approve" if waits else "resume", outer_id)
    if status in STOPPED:
        return ("resume", run_id, CONTINUE)
    # A child run continues with its parent run.
    is_inside = activity.started is not None and activity.started.parent_run_id
    is_open = status_words(status, holder) == DIED or _is_untouched(activity)
    return ("resume", run_id) if is_open and not is_inside else ()


def _line(name: str, text: str, style: str, width: int) -> Text:
    """Return one fact; a long one continues on the next line, indented."""
    rows = textwrap.wrap(
        text, max(20, width - _LABEL_WIDTH), break_long_words=False, break_on_hyphens=False
    )
    body = ("\n" + " " * _LABEL_WIDTH).join(rows)
    return Text.assemble((f"{name:<{_LABEL_WIDTH}}", "dim"), (body, style))


def _when(activity: Activity) -> str:
    started = None if activity.started is None else activity.started.time
    worked = duration(activity.length_s)
    if activity.sessions <= 1:
        return f"{moment(started)}, worked {worked}"
    sessions = f"{moment(started)}, worked {worked} in {activity.sessions} sessions"
    waited_s = activity.waited_s
    return sessions if waited_s is None else f"{sessions}, waited {duration(waited_s)} between them"


def _model(activity: Activity) -> str:
    if activity.state.model:
        return clean(activity.state.model)
    return "asked by child runs" if activity.spent[0].api_calls else "none was asked"


def _tokens(activity: Activity) -> str:
    usage = activity.spent[0]
    known = (
        ("in", usage.input_tokens),
        ("of them from cache", usage.cache_read_tokens),
        ("out", usage.output_tokens),
    )
    parts = ", ".join(f"{number:,} {name}" for name, number in known if number)
    calls = count(usage.api_calls, "model call")
    return f"{tokens(usage)} ({parts}) in {calls}" if parts else f"{tokens(usage)} in {calls}"


def _outcomes(activity: Activity) -> str:
    """Return the number of calls, in total and by outcome."""
    # Counted by rows, which are in the order of settling, as in the timeline.
    rows = (step.ended for step in activity.ended if step.kind == "tool")
    words = Counter(ended.word for ended in rows if ended is not None and ended != CUT_OFF)
    # "2 results", but "2 denied: validation".
    counts = (count(n, word, "" if word.isalpha() else word) for word, n in words.items())
    return f"{len(activity.state.records)}: {', '.join(counts)}"


def _artifact(artifact: File) -> str:
    lines = "" if artifact.lines is None else f", {count(artifact.lines, 'line')}"
    named = f" of {clean(artifact.name, 60)}" if artifact.name else ""
    kind = f"{artifact.media_type.partition(';')[0]}, {size(artifact.size_bytes)}{lines}"
    return f"{clean(artifact.id, 80)}{named}: {kind}"


_MAX_TOLD = 3


def print_result(
    result: AgentResult[Any],
    activity: Activity,
    terminal: Terminal,
    *,
    journal: str,
    shown: Shown,
    streamed: bool = False,
    summary: bool,
) -> int:
    """Print a run's result, the answer on stdout and the rest on stderr; return the exit code.

    An answer that was *streamed* is not printed again.
    """
    if terminal.as_json:
        terminal.answer(result)
    elif not streamed:
        answer = result.output if result.success else result.content
        print_answer(answer, terminal, markdown=shown.markdown)
    terminal.report(*(Text(line, UNKNOWN_STYLE) for line in effect_lines(activity, is_dead=True)))
    if result.error is not None:
        style = status_style(result.status)
        terminal.report(*(Text(line, style) for line in _outcome_lines(result, result.error)))
        terminal.hint(*_next_commands(result, journal))
    elif summary:
        terminal.report("", _summary(result, terminal, activity.length_s))
    return EXIT_CODES[result.status]


def print_answer(output: object, terminal: Terminal, *, markdown: bool = False) -> None:
    """Print an answer on stdout, if there is one."""
    text = answer_text(output)
    if markdown and terminal.out.is_terminal:
        terminal.say(Markdown(clean_lines(text)))
    elif text:
        terminal.put(text if text.endswith("\n") else text + "\n")


def _outcome_lines(result: AgentResult[Any], error: AgentError) -> Iterator[str]:
    """Yield the status and the error, without repetition; for a parked run what it waits for."""
    for pending in result.pending[:_MAX_TOLD]:
        yield f"waits for {pending_text(pending)}"
    if len(result.pending) > _MAX_TOLD:
        yield f"and for {len(result.pending) - _MAX_TOLD} more"
    if not result.pending:
        same = error.code == result.status
        yield f"{'' if same else f'{result.status}: '}{error_text(error, result.status)}"
        if where := trail_text(error):
            yield where


def _next_commands(result: AgentResult[Any], journal: str) -> Iterator[str]:
    """Yield the commands for what can be done next; none if no log was kept."""
    if journal == MEMORY:
        return
    if result.status is Status.INPUT_REQUIRED:
        yield f"it waits for an answer: {command_line('approve', result.run_id, journal=journal)}"
        return
    error = result.error
    if error is not None and error.code == ErrorCode.CONFLICT and "run_id" in error.details:
        # Nothing was logged: another turn of its conversation is in the way.
        words = "approve" if error.details.get("pending") else "resume"
        yield f"continue: {command_line(words, str(error.details['run_id']), journal=journal)}"
        return
    yield f"what happened: {command_line('show', result.run_id, journal=journal)}"
    if result.status in STOPPED:
        words = ("resume", result.run_id, CONTINUE)
        yield f"continue from there: {command_line(*words, journal=journal)}"


def _summary(result: AgentResult[Any], terminal: Terminal, worked_s: float) -> Text:
    dot = f" {glyphs_for(terminal.err.encoding).dot} "
    spent = figures(worked_s, result.usage, result.cost, len(result.tool_records))
    return Text.assemble(
        (str(result.status), status_style(result.status)), (dot + dot.join(spent), "dim")
    )
