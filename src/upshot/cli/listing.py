"""Shows a run, its events, and lists of runs, conversations and questions; removes runs."""

from __future__ import annotations

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec
from msgspec.structs import replace
from rich.cells import cell_len
from rich.text import Text

from upshot.cli.lookup import (
    command_line,
    existing_journal,
    find_run,
    left_behind,
    outermost,
    read_activity,
    read_filters,
    uncollected,
    with_parents,
)
from upshot.cli.report import (
    DIED,
    FORKED,
    LEFT_BEHIND,
    RUNNING_OR_DIED,
    SUSPENDED,
    UNKNOWN_STYLE,
    effect_lines,
    fork_origin,
    pending_text,
    print_answer,
    report,
    status_style,
    status_words,
)
from upshot.cli.terminal import Glyphs, Terminal, glyphs_for
from upshot.cli.timeline import fit
from upshot.contract.base.enums import Effect, Status
from upshot.contract.base.structs import JsonObject, RunEvent
from upshot.contract.base.words import clean, count, duration, money, size
from upshot.contract.codec import encode
from upshot.contract.conversation import ConversationSummary
from upshot.contract.effects import ledger_of
from upshot.contract.events import (
    ApprovalAnswered,
    ApprovalRequested,
    Event,
    RunSettled,
    RunStarted,
    ToolSettled,
    ToolStarted,
)
from upshot.contract.model_calls import ModelReplied
from upshot.contract.protocols import Journal, RunFilters, RunSummary
from upshot.contract.tool_calls import outcome_to_model_content
from upshot.entry.api import inbox
from upshot.errors import Misuse
from upshot.journal.lease_holder import LeaseHolder
from upshot.journal.memory_journal import MemoryJournal
from upshot.journal.opening import init_journal, open_journal
from upshot.journal.postgres.urls import is_url, safe_place
from upshot.journal.run_list import RunQuery
from upshot.journal.sql.health import JournalHealth
from upshot.runs.redaction import lift_secrets
from upshot.state.activity import (
    PARKED,
    RUNNING,
    Activity,
    ending_of,
    ending_of_reply,
    ending_of_tool,
    label_of,
)
from upshot.state.run_page import PARTS, Part, PublicViewer, run_page
from upshot.state.run_state import RunState
from upshot.state.run_view import RunViewer
from upshot.state.stored_events import seeds_of, states

_MAX_AGENT_WIDTH = 20
# A smaller difference between clocks may be the delay of the network.
_CLOCK_S = 0.5
_MIN_REQUEST_WIDTH = 8
# Follows the status of a run in which the effect of a call is unknown.
_UNKNOWN = " !"
_HEADING = ("run", "status", "agent", "started (UTC)", "request")
_REQUEST = 4
# The columns that are left out first.
_LEAST_NEEDED = (3, 2, _REQUEST)


def runs_table(
    runs: Sequence[RunSummary],
    *,
    width: int | None,
    glyphs: Glyphs,
    holders: Mapping[str, LeaseHolder] | None = None,
    left: Container[str] = (),
    forked: Container[str] = (),
    unknown: Container[str] = (),
) -> Iterator[Text]:
    """Lay runs out as rows: id, status, agent, start and request.

    On a narrow terminal the request gets a line of its own. Runs in *unknown* are marked.
    """
    if not runs:
        return
    placed = list(_nest(runs))
    known = holders or {}
    rows = [
        _cells(
            run,
            depth,
            glyphs,
            _state(run, known.get(run.run_id), left, forked) + _UNKNOWN * (run.run_id in unknown),
        )
        for run, depth in placed
    ]
    widths = [max(map(cell_len, column)) for column in zip(_HEADING, *rows, strict=True)]
    widths[2] = min(widths[2], _MAX_AGENT_WIDTH)
    shown = _fit_columns(widths, width)
    yield _row(_HEADING, widths, shown, ["dim"] * len(widths))
    for (run, _), cells in zip(placed, rows, strict=True):
        style = UNKNOWN_STYLE if run.run_id in unknown else status_style(run.status)
        yield _row(cells, widths, shown, ["bold", style, "", "dim", ""])
        if _REQUEST not in shown and cells[_REQUEST]:
            yield Text(f"  {fit(cells[_REQUEST], max(1, (width or 0) - 2)).rstrip()}", no_wrap=True)


def _nest(runs: Sequence[RunSummary]) -> Iterator[tuple[RunSummary, int]]:
    """Yield the runs with their depth, each below its parent run."""
    ids = {run.run_id for run in runs}
    below: dict[str, list[RunSummary]] = {}
    for run in runs:
        parent = run.parent_run_id
        below.setdefault(parent if parent in ids else "", []).append(run)
    # A stack instead of recursion: runs may be nested to any depth.
    stack = [(run, int(bool(run.parent_run_id))) for run in reversed(below.get("", []))]
    while stack:
        run, depth = stack.pop()
        yield run, depth
        inner = below.get(run.run_id, []) if run.run_id else []
        stack += [(one, depth + 1) for one in reversed(inner)]


def _state(
    run: RunSummary, holder: LeaseHolder | None, left: Container[str], forked: Container[str]
) -> str:
    """Return a run's status; if a process works on a run that was left behind, name the process."""
    if run.run_id in forked:
        return FORKED
    is_held = holder is not None and holder.state in ("lives", "stopped")
    return LEFT_BEHIND if run.run_id in left and not is_held else status_words(run.status, holder)


def _fit_columns(widths: list[int], width: int | None) -> list[int]:
    """Return the columns that fit; the request gets the remaining width."""
    shown = list(range(len(widths)))
    if width is None:
        return shown
    left = _remaining_width(widths, shown, width)
    for column in _LEAST_NEEDED:
        if left >= _MIN_REQUEST_WIDTH:
            break
        shown.remove(column)
        left = _remaining_width(widths, shown, width)
    widths[_REQUEST] = max(1, left)
    return shown


def _remaining_width(widths: Sequence[int], shown: Sequence[int], width: int) -> int:
    return width - sum(widths[one] + 1 for one in shown if one != _REQUEST)


def _cells(run: RunSummary, depth: int, glyphs: Glyphs, state: str) -> tuple[str, ...]:
    inside = f"{'  ' * (depth - 1)}{glyphs.inner} " if depth else ""
    return (
        inside + clean(run.run_id),
        state,
        clean(run.agent_id),
        "" if run.started_at is None else f"{run.started_at:%Y-%m-%d %H:%M}",
        clean(run.request),
    )


def _row(
    cells: Sequence[str], widths: Sequence[int], shown: Sequence[int], styles: Sequence[str]
) -> Text:
    line = Text(no_wrap=True, overflow="crop")
    for column in shown:
        line.append(fit(cells[column], widths[column]) + " ", styles[column])
    line.rstrip()
    return line


def plain_table(rows: Sequence[Sequence[str]]) -> Iterator[Text]:
    """Lay out rows, the first as a heading; each column is as wide as it needs."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for number, cells in enumerate(rows):
        yield _row(cells, widths, range(len(widths)), ["" if number else "dim"] * len(widths))


def answer_rows(
    terminal: Terminal, value: object, rows: Sequence[Sequence[str]], without: str
) -> None:
    """Write *value* as JSON, or else its *rows* below their heading; *without* any, say so."""
    if terminal.as_json:
        terminal.answer(value)
    elif len(rows) > 1:
        terminal.say_rows(plain_table(rows))
    else:
        terminal.report(without)


# The stored status of runs that are shown with another word.
_SHOWN_FOR = {SUSPENDED: RUNNING, DIED: RUNNING, RUNNING_OR_DIED: RUNNING, FORKED: RUNNING}
# The statuses that the journal itself can filter by.
_GIVEN = ("queued", "due", "parked", "ended", *(status.value for status in Status))
STATUSES = (RUNNING, *_SHOWN_FOR, LEFT_BEHIND, *_GIVEN)


async def show_run(
    terminal: Terminal,
    *,
    wanted: str,
    journal: str,
    answer: bool,
    markdown: bool,
    events: bool,
    html: str,
    public: bool,
    without: str,
) -> int:
    """Print all that a journal has of a run, or write its page."""
    parts = _parts(without)
    if html and (terminal.as_json or events):
        raise Misuse("--html writes a file: leave out --json and --events")
    if html:
        return await _write_page(terminal, wanted, journal, html, parts, is_public=public)
    if public or without:
        raise Misuse("--public and --without need --html FILE")
    if events:
        return await _show_events(terminal, wanted, journal)
    async with open_journal(existing_journal(journal), create=False) as log:
        holders = await log.holders()
        activity = await read_activity(log, await find_run(log, wanted, "see"))
        runs = await with_parents(log, await log.runs(run_id=activity.run_id))
        for child in await log.runs(parent_run_id=activity.run_id):
            activity.name_run(child.run_id, child.agent_id)
    left = left_behind(runs)
    if terminal.as_json:
        terminal.answer(_to_json(activity))
        return 0
    glyphs, width = glyphs_for(terminal.out.encoding), terminal.out.width
    holder = holders.get(activity.run_id)
    is_left = activity.run_id in left
    lines = report(
        activity,
        journal=journal,
        width=width,
        glyphs=glyphs,
        holder=holder,
        is_left=is_left,
        outer_id=outermost(runs, activity.run_id),
    )
    with uncollected():
        terminal.say_all(lines)
    result = activity.result
    if answer and result is not None and (result.output or result.content):
        terminal.say(glyphs.rule * width)
        print_answer(result.output or result.content, terminal, markdown=markdown)
    return 0


def _parts(without: str) -> tuple[Part, ...]:
    given = {one.strip() for one in without.split(",")} - {""}
    if unknown := sorted(given.difference(PARTS)):
        raise Misuse(f"--without takes {', '.join(PARTS)}, not {unknown[0]!r}")
    return tuple(part for part in PARTS if part in given)


async def _write_page(
    terminal: Terminal,
    wanted: str,
    journal: str,
    file: str,
    without: tuple[Part, ...],
    *,
    is_public: bool,
) -> int:
    viewer = PublicViewer() if is_public else RunViewer()
    async with open_journal(existing_journal(journal), create=False) as log:
        run_id = await find_run(log, wanted, "export")
        with uncollected():
            stated = states(log.events(run_id), read=lift_secrets(), seeds=seeds_of(log))
            async for event, state in stated:
                viewer.add(event, state)
    page = run_page(viewer.view(), without=without, is_public=is_public)
    try:
        Path(file).write_text(page, "utf-8", "surrogatepass")
    except OSError as error:
        raise Misuse(f"{file} cannot be written: {error.strerror}: name another file") from error
    terminal.report(f"wrote {clean(file)}")
    return 0


async def _show_events(terminal: Terminal, wanted: str, journal: str) -> int:
    async with open_journal(existing_journal(journal), create=False) as log:
        run_id = await find_run(log, wanted, "see")
        stated = states(log.events(run_id), read=lift_secrets(), seeds=seeds_of(log))
        if terminal.as_json:
            terminal.answer([event async for event, _ in stated])
        else:
            terminal.say_rows([line async for line in event_lines(stated)])
    return 0


async def list_runs(
    terminal: Terminal,
    *,
    journal: str,
    status: str | None,
    limit: int,
    width: int | None,
    filters: Mapping[str, str],
) -> int:
    """Print the runs of a journal, newest first, child runs below their parent run.

    Args:
        terminal: The terminal to print on.
        journal: The journal of the runs.
        status: The status as shown; None means any.
        limit: The maximum number, 0 for all.
        width: Columns of a line; None for those of the terminal, and no limit in a pipe.
        filters: Those of ``RunFilters`` that were typed.
    """
    wanted = cast("RunFilters", read_filters(filters))
    async with open_journal(existing_journal(journal), create=False) as log:
        holders = await log.holders()
        runs = await _runs_shown_as(log, status, limit + 1 if limit else None, holders, wanted)
        is_more = bool(limit) and len(runs) > limit
        runs = runs[:limit] if is_more else runs
        left = left_behind(await _with_open_parents(log, runs))
        forked = await _untouched_forks(log, runs)
        unknown: tuple[str, ...] = ()
        if not terminal.as_json:
            runs = [await _with_wait(log, run) for run in runs]
            unknown = await _unknown_among(log, runs, holders)
    if terminal.as_json:
        terminal.answer(runs)
    elif runs:
        glyphs = glyphs_for(terminal.out.encoding)
        if width is not None:
            terminal.set_width(width)
        terminal.say_rows(
            runs_table(
                runs,
                glyphs=glyphs,
                width=terminal.free_width,
                holders=holders,
                left=left,
                forked=forked,
                unknown=unknown,
            )
        )
        if unknown:
            terminal.hint(
                "! it is unknown whether a call in that run took effect; show names it: "
                + command_line("show", unknown[0], journal=journal)
            )
        if is_more:
            terminal.hint(f"these are the first {limit}: give --limit N for more, 0 for all")
    else:
        terminal.report(
            f"{safe_place(journal)} has no runs" + (f" that are {status}" if status else "")
        )
    return 0


async def _runs_shown_as(
    log: Journal,
    status: str | None,
    limit: int | None,
    holders: Mapping[str, LeaseHolder],
    filters: RunFilters,
) -> list[RunSummary]:
    """Return the first runs that are shown with *status*, at most *limit*."""
    if status is None or status in _GIVEN:
        return [*await log.runs(status, **{**filters, "limit": limit})]
    # Whether a run died or was left behind is not stored: each candidate is checked.
    stored = [_SHOWN_FOR.get(status, RUNNING)]
    if status == LEFT_BEHIND:
        stored.append(Status.INPUT_REQUIRED.value)
    found = [run for one in stored for run in await log.runs(one, **filters)]
    if RUNNING in stored:
        # The journal lists separately those that no process works on.
        unheld = [run for one in ("died", "due") for run in await log.runs(one, **filters)]
        found += [run for run in unheld if run.status == RUNNING]
    left = left_behind(await _with_open_parents(log, found))
    forked = await _untouched_forks(log, found)
    states_shown = [(run, _state(run, holders.get(run.run_id), left, forked)) for run in found]
    shown = [run for run, words in states_shown if _is_shown_as(status, words)]
    wanted = RunQuery(**filters)
    shown.sort(
        key=lambda run: (wanted.key(run), run.started_at.timestamp() if run.started_at else 0),
        reverse=True,
    )
    return shown[:limit]


def _is_shown_as(status: str, words: str) -> bool:
    """Whether *words*, which may also name a process, mean *status*."""
    is_maybe = status == RUNNING and words == RUNNING_OR_DIED
    return words == status or words.startswith(f"{status} (") or is_maybe


async def _untouched_forks(log: Journal, runs: Sequence[RunSummary]) -> frozenset[str]:
    """Return the forks among *runs* that have not been resumed."""
    found: set[str] = set()
    for run in runs:
        if run.status == RUNNING:
            started = await anext(aiter(log.events(run.run_id)), None)
            origin = fork_origin(started) if isinstance(started, RunStarted) else None
            if origin is not None and origin[1] == run.events:
                found.add(run.run_id)
    return frozenset(found)


async def _with_wait(log: Journal, run: RunSummary) -> RunSummary:
    """Return a run as it is shown: one that was released until a moment is parked."""
    waits = run.status == RUNNING and await log.runs(PARKED, run_id=run.run_id)
    return replace(run, status=PARKED) if waits else run


async def _unknown_among(
    log: Journal, runs: Sequence[RunSummary], holders: Mapping[str, LeaseHolder]
) -> tuple[str, ...]:
    """Return the runs in which the effect of a call is unknown."""
    found: list[str] = []
    for run in runs:
        is_unknown = await _is_unknown(log, run)
        if run.status == RUNNING and status_words(RUNNING, holders.get(run.run_id)) == DIED:
            # The row gets the effects of a session only when that has ended.
            is_unknown |= any(effect_lines(await read_activity(log, run.run_id), is_dead=True))
        found += [run.run_id] * is_unknown
    return tuple(found)


async def _is_unknown(log: Journal, run: RunSummary) -> bool:
    """Return whether the effect of a call in a run or its child runs is still unknown.

    The row of a run has what was known at its end, the ledger what was settled since. A log is read
    only if something was settled and nothing is left, for steps have no row in the ledger.
    """
    ledger = ledger_of(log)
    if run.effect != Effect.UNKNOWN or ledger is None:
        return run.effect == Effect.UNKNOWN
    own = await ledger.effects(run_id=run.run_id)
    inside = await log.runs(parent_run_id=run.run_id, effect=Effect.UNKNOWN.value)
    if any(one.state == "unknown" for one in own):
        return True
    if not inside and all(one.settled is None for one in own):
        return True
    for child in inside:
        if await _is_unknown(log, child):
            return True
    return any(effect_lines(await read_activity(log, run.run_id), inside=False))


async def _with_open_parents(log: Journal, runs: Sequence[RunSummary]) -> list[RunSummary]:
    """Return the open runs and their parent runs, which show what was left behind."""
    return await with_parents(log, [run for run in runs if not run.ended])


def _to_json(activity: Activity) -> dict[str, Any]:
    """Return a run as one JSON object.

    For a settled run it is its AgentResult with three more fields: ``request``, ``answered`` (the
    answers so far to what is pending, by id) and ``timeline``. A run in progress, or whose process
    died, has those of these fields that are known, the status "running" and the kind
    "unsettled_run".
    """
    known: dict[str, Any]
    if activity.result is not None:
        known = msgspec.json.decode(encode(activity.result))
    else:
        started = activity.started
        known = {
            "kind": "unsettled_run",
            "schema_version": 1,
            "status": RUNNING,
            "run_id": activity.run_id,
            "agent_id": "" if started is None else started.agent.id,
            "started_at": None if started is None else started.time,
            "tool_outcomes": [record.outcome for record in activity.state.records],
            "tool_records": activity.state.records,
            "usage": activity.spent[0],
            "cost": activity.spent[1],
            "pending": activity.pending,
            "warnings": activity.warnings,
            "duration_ms": round(activity.length_s * 1000),
        }
    request = "" if activity.started is None else activity.started.request.text
    answered = {id: answer for (run_id, id, _), answer in activity.answered.items() if not run_id}
    more = {"request": request, "answered": answered, "timeline": _timeline(activity)}
    return {**known, **more}


def _timeline(activity: Activity) -> list[dict[str, Any]]:
    return [
        {
            "kind": step.kind,
            "name": step.name if step.kind == "step" else label_of(step),
            "start_s": round(step.start_s, 3),
            "took_s": None if step.took_s is None else round(step.took_s, 3),
            "wait_s": round(step.wait_s, 3),
            "outcome": ending_of(step).word,
            "detail": ending_of(step).detail,
        }
        for step in activity.steps
    ]


_CONVERSATIONS = ("conversation", "turns", "last (UTC)", "cost", "waits", "first request")
_MAX_ASKED = 100


async def list_conversations(terminal: Terminal, *, journal: str, limit: int) -> int:
    """Print the conversations of a journal, newest first."""
    async with open_journal(existing_journal(journal), create=False) as log:
        listed = await log.conversations(limit=limit or None)
    rows = [_CONVERSATIONS, *map(_conversation, listed)]
    answer_rows(terminal, listed, rows, f"{journal} has no conversations")
    return 0


def _conversation(one: ConversationSummary) -> tuple[str, ...]:
    return (
        clean(one.id),
        str(one.revision),
        "" if one.last_at is None else f"{one.last_at:%Y-%m-%d %H:%M}",
        "" if one.cost is None else money(one.cost),
        str(one.waiting or ""),
        clean(one.title),
    )


async def list_inbox(terminal: Terminal, *, journal: str, conversation: str, limit: int) -> int:
    """Print the unanswered questions of all runs."""
    where = existing_journal(journal)
    items = await inbox(journal=where, limit=limit or None, conversation=conversation)
    if terminal.as_json:
        terminal.answer(items)
    elif items:
        for line in await _unknown_in(where, dict.fromkeys(item.run_id for item in items)):
            terminal.report(Text(line, UNKNOWN_STYLE))
        for item in items:
            asked = clean(pending_text(item.pending), _MAX_ASKED)
            terminal.say(f"{item.run_id}  {clean(item.agent_id)}  {asked}")
        terminal.hint(f"answer: {command_line('inbox', items[0].run_id, journal=journal)}")
    else:
        terminal.report("nothing waits for an answer")
    return 0


async def _unknown_in(where: str, run_ids: Iterable[str]) -> list[str]:
    """Return the lines about unknown effects in some waiting runs, with their ids."""
    found: list[str] = []
    async with open_journal(where, create=False) as log:
        for run_id in run_ids:
            if any(run.effect == Effect.UNKNOWN for run in await log.runs(run_id=run_id)):
                lines = effect_lines(await read_activity(log, run_id), is_dead=True)
                found += [f"{run_id}: {line}" for line in lines]
    return found


async def redact_conversation(
    terminal: Terminal, *, conversation: str, journal: str, by: str
) -> int:
    """Redact a conversation, and print how many runs that changed."""
    async with open_journal(existing_journal(journal), create=False) as log:
        run_ids = await log.redact(conversation=conversation, by=by)
    line = f"redacted {count(len(run_ids), 'run')} of {clean(conversation)}"
    terminal.answer(run_ids, line)
    return 0


async def make_journal(terminal: Terminal, *, url: str) -> int:
    """Create the tables of a journal in a database."""
    await init_journal(url)
    terminal.say(f"{safe_place(url)} is a journal")
    return 0


# The alarm UpshotDiskFull has the same limit.
_LITTLE_BYTES = 10**9


async def show_health(terminal: Terminal, *, journal: str) -> int:
    """Print whether a journal can be used; the exit code is 1 if it cannot be written."""
    async with open_journal(existing_journal(journal), create=False) as log:
        if isinstance(log, MemoryJournal):
            raise Misuse("a journal in memory ends with its process: name a file or a URL")
        found = await log.health()
    if terminal.as_json:
        terminal.answer(found)
    else:
        # Not wrapped, so that the place can be copied.
        terminal.put(f"{found.place}\n")
        terminal.say(*(Text(f"{name:<9} {clean(text)}") for name, text in _health_rows(found)))
    return 0 if found.is_writable else 1


def _health_rows(found: JournalHealth) -> Iterator[tuple[str, str]]:
    yield "writing", "works" if found.is_writable else f"does not work: {found.why_not}"
    if found.standby == "synchronous":
        yield "standby", "synchronous: a commit waits for it"
    elif found.standby == "away":
        yield "standby", "away: every commit waits until it is connected and has caught up"
    elif found.standby:
        yield "standby", "none that commits wait for: a failover may lose what was written"
    if (free := found.disk_free_bytes) is not None:
        yield "disk", f"{size(free)} free{': make room' if free < _LITTLE_BYTES else ''}"
    yield "tables", f"version {found.schema}"
    ahead_s = found.clock_ahead_s
    side = "ahead of" if ahead_s > 0 else "behind"
    is_off = abs(ahead_s) >= _CLOCK_S
    yield "clock", f"{duration(abs(ahead_s))} {side} this one" if is_off else "as here"
    processes = count(found.processes, "process", "processes")
    yield "at work", f"{processes} with {count(found.held, 'run')}"
    since = f", the oldest for {duration(found.oldest_due_s)}" if found.due else ""
    died = f"; {count(found.died, 'run')} died" if found.died else ""
    yield "due", f"{count(found.due, 'run')}{since}{died}"


_MAX_SHOWN = 20


def salvage_journal(terminal: Terminal, *, journal: str, new_path: str) -> int:
    """Copy what can be read of a damaged journal into a new one, and print what was lost."""
    from upshot.journal.sqlite.salvage import salvage_file

    if is_url(journal):
        raise Misuse("salvage reads files: PostgreSQL has backups and tools of its own")
    salvaged = salvage_file(existing_journal(journal), str(Path(new_path).absolute()))
    terminal.answer(
        salvaged,
        f"{new_path} has {count(salvaged.runs, 'run')} with {count(salvaged.events, 'event')} and "
        f"{count(salvaged.artifacts, 'stored output')}",
    )
    for damage in () if terminal.as_json else salvaged.damages[:_MAX_SHOWN]:
        terminal.report(clean(f"run {damage.run_id} ends after event {damage.sound_to}"))
    return 0


_MAX_CHARS = 400
# Fields that are shown in the first columns, or are the same in all events.
_ENVELOPE = ("kind", "run_id", "seq", "time", "attempt", "schema_version", "path")
# No process worked on the run between two events; a shorter gap is not worth a line.
_WAIT_S = 1.0

Stated: TypeAlias = "tuple[Event, RunState]"


async def event_lines(events: AsyncIterable[Stated]) -> AsyncIterator[Text]:
    """Yield a line for each event: its number, its time in UTC, its kind and its content.

    Args:
        events: The events of one run with the state after each, as ``states`` yields them.

    Yields:
        The lines; between two sessions an extra one says how long the run waited.
    """
    before: datetime | None = None
    was_parked = False
    async for event, _ in events:
        if not isinstance(event, RunEvent):
            continue
        if was_parked and before is not None and event.time is not None:
            waited_s = (event.time - before).total_seconds()
            if waited_s >= _WAIT_S:
                yield Text(f"{'':24}no process worked on it for {duration(waited_s)}", "dim")
        was_parked, before = isinstance(event, RunSettled), event.time or before
        time = "" if event.time is None else f"{event.time:%m-%d %H:%M:%S}"
        kind = str(getattr(event, "kind", ""))
        yield Text.assemble(
            (f"{event.seq:>6}  {time:<16}", "dim"),
            (f"{kind:<20} ", "bold"),
            clean(_event_text(event), _MAX_CHARS),
        )


def _event_text(event: Event) -> str:
    match event:
        case RunStarted():
            return event.request.text
        case ModelReplied(response=response):
            ended = ending_of_reply(response)
            return f"{ended.word}: {response.content or ended.detail}"
        case ToolStarted(call=call, arguments=arguments):
            return f"{call.name} {_json(arguments)} ({call.id})"
        case ToolSettled(record=record):
            ended = ending_of_tool(record.outcome)
            content = outcome_to_model_content(record.outcome)
            return f"{record.tool_name} ({record.call_id}) {ended.word}: {content}"
        case ApprovalRequested(pending=pending):
            return pending_text(pending)
        case ApprovalAnswered():
            return _json(event.answer)
        case RunSettled(result=result):
            content = result.error.message if result.error is not None else result.content or ""
            return f"{result.status}: {content}"
        case _:
            fields: JsonObject = msgspec.json.decode(encode(event))
            return _json({name: one for name, one in fields.items() if name not in _ENVELOPE})


def _json(value: object) -> str:
    return encode(value).decode()
