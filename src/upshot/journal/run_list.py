"""The list of runs: filters, order and counts; and which runs may be removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple
from unicodedata import normalize

from upshot.contract.base.checks import check_moment, check_whole
from upshot.contract.base.enums import EFFECTS, Status
from upshot.contract.base.structs import Value
from upshot.contract.protocols import DayCost, RunCounts, RunSummary
from upshot.contract.usage import Cost, to_money
from upshot.errors import JournalError, Misuse

PHASES = ("queued", "running", "due", "parked", "died", "ended")
"""Filters usable in place of a status: each run is in exactly one phase."""


STATUSES = tuple(dict.fromkeys((*PHASES, *(one.value for one in Status))))
"""What ``runs`` accepts as a status: the statuses of a run, and the phases."""


LEAST_TOOK_S = 0.1
"""The shortest duration by which runs are sorted; shorter runs are left out of the index."""
SORTS: dict[str, Callable[[RunSummary], float]] = {
    "cost": lambda run: money_of(run.cost),
    "tokens": lambda run: run.usage.total_tokens or 0,
    "took": lambda run: run.took_s if run.took_s >= LEAST_TOOK_S else 0,
    "effect": lambda run: EFFECTS.index(run.effect),
}
"""The sort orders of the list of runs, largest first."""


def money_of(cost: Cost | None) -> float:
    """Return the amount to sort a cost by, 0 if it is unknown."""
    return 0.0 if cost is None or cost.total is None else float(cost.total)


def currency_of(cost: Cost | None) -> str:
    """Return the currency of a cost, "" if nothing was paid."""
    return cost.currency if cost is not None and money_of(cost) > 0 else ""


class RunQuery(NamedTuple):
    """Filters of the list of runs, with defaults filled in."""

    status: str | None = None
    limit: int | None = None
    before: str = ""
    context_id: str = ""
    parent_run_id: str | None = None
    run_id: str = ""
    prefix: str = ""
    agent_id: str = ""
    effect: str = ""
    error_code: str = ""
    owner: str = ""
    tenant: str = ""
    tool: str = ""
    model: str = ""
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None
    currency: str = ""
    sort: str = ""

    @property
    def phase(self) -> str:
        """The phase to filter by, "" if it is a status, or any."""
        return self.status if self.status in PHASES else ""

    def check(self) -> None:
        """Raise Misuse for an invalid limit, status, effect, sort order or time."""
        check_whole("limit", self.limit, least=1, none="all")
        for name, given, allowed in (
            ("status", self.status or "", STATUSES),
            ("effect", self.effect, [one.value for one in EFFECTS]),
            ("sort", self.sort, [*SORTS]),
        ):
            if given not in ("", *allowed):
                raise Misuse(f"{name} is {given!r}: give one of {', '.join(allowed)}")
        check_moment("since", self.since)
        check_moment("until", self.until)

    def key(self, run: RunSummary) -> tuple[str, float]:
        """Return the sort key of *run*, before its start; amounts of one currency are grouped."""
        currency = currency_of(run.cost) if self.sort == "cost" else ""
        return currency, SORTS[self.sort](run) if self.sort else 0.0

    def holds(self, run: RunSummary) -> bool:
        """Whether *run* matches the filters; limit, place, phase and model are ignored."""
        return bool(
            (self.phase or self.status in (None, run.status))
            and self.agent_id in ("", run.agent_id)
            and self.effect in ("", run.effect)
            and self.error_code in ("", run.error_code)
            and self._is_owned(run)
            and (not self.tool or self.tool in run.tools)
            and self._has_text(run)
            and self._is_in_time(run.started_at)
            and self.currency in ("", currency_of(run.cost))
            and not (self.sort and SORTS[self.sort](run) <= 0)
            and self.context_id in ("", run.context_id)
            and self.parent_run_id in (None, run.parent_run_id)
            and self.run_id in ("", run.run_id)
            and run.run_id.startswith(self.prefix)
        )

    def _is_owned(self, run: RunSummary) -> bool:
        # User and tenant together identify a user; without a tenant, the user belongs to none.
        if self.owner:
            return (run.owner, run.tenant) == (self.owner, self.tenant)
        return self.tenant in ("", run.tenant)

    def _has_text(self, run: RunSummary) -> bool:
        if searched(self.text) in searched(f"{run.request}\n{run.answer}"):
            return True
        return run.run_id.lower().startswith(searched_id(self.text))

    def _is_in_time(self, at: datetime | None) -> bool:
        if at is None:
            return self.since is None and self.until is None
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


def searched(text: str) -> str:
    """Normalize *text* for searching: lower case, accents in composed form."""
    return normalize("NFC", text).lower()


def searched_id(text: str) -> str:
    """Return *text* as the beginning of a run's id: one that was pasted may have spaces in it."""
    return searched("".join(text.split()) or text)


def to_lines(tools: Iterable[str]) -> str:
    """Return names of tools as a column stores them: each between two newlines."""
    return "".join(f"\n{name}\n" for name in tools)


def counted(wanted: RunQuery) -> RunQuery:
    """Return *wanted*, checked, without paging and sort order."""
    wanted.check()
    return wanted._replace(limit=None, before="", sort="")


def counts_of(runs: Iterable[RunSummary], roots: Iterable[RunSummary]) -> RunCounts:
    """Count *runs*, and sum the cost of *roots*, those that are not child runs."""
    listed = [*runs]
    costs: dict[str, list[Cost | None]] = {}
    for run in roots:
        if run.started_at is not None:
            costs.setdefault(str(run.started_at.date()), []).append(run.cost)
    return RunCounts(
        statuses=dict(Counter(run.status for run in listed)),
        errors=dict(Counter(run.error_code for run in listed if run.error_code)),
        cost_by_day=tuple(
            DayCost(day=day, costs=_sums_of(some), runs=len(some))
            for day, some in sorted(costs.items(), reverse=True)
        ),
    )


def _sums_of(costs: Iterable[Cost | None]) -> dict[str, Decimal]:
    """Return one sum for each currency."""
    sums: dict[str, float] = {}
    for cost in costs:
        if cost is not None and cost.total is not None:
            sums[cost.currency] = sums.get(cost.currency, 0.0) + money_of(cost)
    return {currency: to_money(sums[currency]) for currency in sorted(sums)}


class TurnClaim(NamedTuple):
    """A claim of a turn of a conversation.

    Attributes:
        conversation: The conversation.
        head: The first run of the turn.
        passes: Whether the claim may pass turns that wait for answers.
    """

    conversation: str
    head: str
    passes: bool = False

    def is_blocked_by(self, status: str) -> bool:
        """Whether another turn with that status, which has not ended, blocks this one."""
        return status != Status.INPUT_REQUIRED or not self.passes


class TurnInTheWay(NamedTuple):
    """Another turn that prevents a claim.

    Attributes:
        run_id: The run of that turn.
        status: "running", "input_required", or "died" if its process ended.
    """

    run_id: str
    status: str


class RemovedRuns(Value, frozen=True, kw_only=True):
    """What was removed from a journal.

    Attributes:
        run_ids: The runs, including child runs.
        artifacts: How many stored outputs were removed with them.
        size_bytes: The total size of those outputs.
        kept: Runs that ended before the date but stay: the reason by run id.
    """

    run_ids: tuple[str, ...] = ()
    artifacts: int = 0
    size_bytes: int = 0
    kept: dict[str, str] = {}


def earlier_turn(run_id: str, conversation: str, later: str) -> JournalError:
    """Return the exception for an import of a turn that would come after a later one."""
    return JournalError(
        f"run {run_id} is an earlier turn of conversation {conversation!r} than run {later}, which "
        "the journal has: import the turns of a conversation oldest first, into a journal without "
        "later ones",
        run_id=run_id,
    )


def no_such_page(run_id: str) -> Misuse:
    """Return the exception for a run that no page can start after."""
    return Misuse(
        f"before is {run_id!r}, but the journal has no such run: give the previous page's last run"
    )


def no_such_run(run_id: str) -> Misuse:
    """Return the exception for a run that the journal does not have, or no longer has."""
    return Misuse(f"the journal has no run {run_id!r}")


def already_there(run_id: str) -> JournalError:
    """Return the exception for an import of a run that the journal already has."""
    return JournalError(f"the journal has run {run_id} already", run_id=run_id)


def check_removal(run_ids: Sequence[str], ended_before: datetime | None, conversation: str) -> None:
    """Raise Misuse for a removal that does not say what to remove."""
    if isinstance(run_ids, str):
        raise Misuse(f"run_ids is the text {run_ids!r:.60}: give a list of ids")
    if bool(run_ids) + (ended_before is not None) + bool(conversation) != 1:
        raise Misuse("say which runs to remove: give one of run_ids, ended_before and conversation")
    if ended_before is not None and ended_before.utcoffset() is None:
        raise Misuse("ended_before has no time zone: give an aware moment, datetime.now(UTC)")


def choose_removal(
    run_ids: Sequence[str],
    ended_before: datetime | None,
    conversation: str,
    family: RunFamily,
    keep: Mapping[str, str],
) -> tuple[list[str], dict[str, str]]:
    """Choose the runs to remove, with their child runs.

    These are the named ones, those of a conversation, or those that ended before a date.

    Args:
        run_ids: See ``SqlJournal.remove_runs``.
        ended_before: See there.
        conversation: See there.
        family: All runs.
        keep: See there.
    """
    if ended_before is not None:
        return _choose_ended(family, ended_before, keep)
    if conversation:
        run_ids = family.of_conversation.get(conversation, ())
        if not run_ids:
            raise Misuse(f"the journal has no conversation {conversation!r}")
    unknown = [run_id for run_id in run_ids if run_id not in family.known]
    if unknown:
        raise no_such_run(unknown[0])
    chosen = family.with_children(run_ids)
    for run_id in chosen:
        if reason := family.needed(run_id, chosen.keys()):
            raise Misuse(f"run {run_id} cannot be removed: {reason}")
    return [*chosen], {}


def unarchived(
    known: Iterable[str],
    archived: Mapping[str, object],
    fingerprint: Callable[[str], object],
) -> dict[str, str]:
    """Return why runs stay in the journal after an archive was written, by run.

    Args:
        known: All runs.
        archived: The fingerprints of the archived runs, from before they were exported.
        fingerprint: Returns the present one of a run.
    """
    found: dict[str, str] = {}
    for run_id in known:
        if run_id not in archived:
            found[run_id] = "it is not in the archive"
        elif fingerprint(run_id) != archived[run_id]:
            found[run_id] = "it changed while it was archived"
    return found


def choose_redaction(conversation: str, family: RunFamily) -> tuple[RunSummary, ...]:
    """Choose the runs with content of a conversation.

    These are its own runs, their child runs and forks, and all runs of the conversations of those.

    Args:
        conversation: The conversation.
        family: All runs.
    """
    chosen = family.with_words_of(conversation)
    if not chosen:
        raise Misuse(f"the journal has no conversation {conversation!r}")
    for run in chosen.values():
        parent = chosen.get(run.parent_run_id)
        # A child run that was abandoned by its parent has no end in its log.
        is_open = not (run.ended or (parent is not None and parent.ended))
        if is_open or run.run_id in family.at_work:
            raise open_error(conversation, run.run_id, run.status)
    return tuple(chosen.values())


def open_error(conversation: str, run_id: str, status: str) -> Misuse:
    """Return the exception for a redaction while a run has not ended."""
    return Misuse(
        f"conversation {conversation!r} cannot be redacted while its run {run_id} is {status}: "
        "wait for its end, or cancel it"
    )


def _choose_ended(
    family: RunFamily, ended_before: datetime, keep: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    trees = {
        run.run_id: family.with_children([run.run_id])
        for run in family.known.values()
        if run.parent_run_id not in family.known and _is_past(run, ended_before)
    }
    kept: dict[str, str] = {}
    for root, tree in [*trees.items()]:
        if reasons := [keep[run_id] for run_id in tree if run_id in keep]:
            kept[root] = reasons[0]
            del trees[root]
    # Repeat until nothing changes: a run that stays may need another one.
    while True:
        chosen = {run_id for tree in trees.values() for run_id in tree}
        blocked = {root: family.blocked(tree, chosen, ended_before) for root, tree in trees.items()}
        reasons = {root: reason for root, reason in blocked.items() if reason}
        if not reasons:
            return [run_id for tree in trees.values() for run_id in tree], kept
        kept.update(reasons)
        for root in reasons:
            del trees[root]


class RunFamily:
    """Which run started which, and which was forked from which.

    Args:
        runs: All runs, latest start first.
        forks: The forks of each run.
        at_work: The runs that a process works on.
    """

    def __init__(
        self,
        runs: Iterable[RunSummary],
        *,
        forks: Mapping[str, Collection[str]],
        at_work: Collection[str],
    ) -> None:
        self.known: dict[str, RunSummary] = {run.run_id: run for run in runs}
        self._forks: Mapping[str, Collection[str]] = forks
        self.at_work: Collection[str] = at_work
        self._children: dict[str, list[str]] = {}
        self.of_conversation: dict[str, list[str]] = {}
        for run in self.known.values():
            self._children.setdefault(run.parent_run_id, []).append(run.run_id)
            if run.context_id:
                self.of_conversation.setdefault(run.context_id, []).append(run.run_id)

    def with_children(self, run_ids: Iterable[str]) -> dict[str, None]:
        """Return the runs and all their descendants, deduplicated and in order."""
        found: dict[str, None] = {}
        left = [*reversed([*run_ids])]
        while left:
            run_id = left.pop()
            if run_id not in found:
                found[run_id] = None
                left += reversed(self._children.get(run_id, []))
        return found

    def with_words_of(self, conversation: str) -> dict[str, RunSummary]:
        """Return the runs that have content of a conversation."""
        found: dict[str, RunSummary] = {}
        left = [*self.of_conversation.get(conversation, ())]
        while left:
            run = self.known.get(left.pop())
            if run is not None and run.run_id not in found:
                found[run.run_id] = run
                left += self._children.get(run.run_id, ())
                left += self._forks.get(run.run_id, ())
                left += self.of_conversation.get(run.context_id, ())
        return found

    def needed(self, run_id: str, chosen: AbstractSet[str]) -> str:
        """Return why a run has to stay when *chosen* are removed, "" if it may go."""
        if run_id in self.at_work:
            return "a process works on it: wait for its end, or stop that process"
        parent = self.known[run_id].parent_run_id
        if parent in self.known and parent not in chosen:
            return f"its parent run {parent} reads it: remove that one"
        # A fork copied its events, but reads the child runs from the original.
        readers = [one for one in self._forks.get(parent, ()) if one in self.known.keys() - chosen]
        if readers:
            return f"run {readers[0]}, a fork, reads it: remove that one too"
        return self._needed_by_turn(self.known[run_id], chosen)

    def _needed_by_turn(self, turn: RunSummary, chosen: AbstractSet[str]) -> str:
        """Return why a turn of a conversation has to stay: only its log has its messages."""
        id = turn.context_id
        for later in self.of_conversation[id] if turn.turn else ():
            if later == turn.run_id:
                break
            if later not in chosen:
                return (
                    f"run {later} of conversation {id!r} started later, with its messages: "
                    "remove the whole conversation"
                )
        return ""

    def blocked(
        self, tree: Collection[str], chosen: AbstractSet[str], ended_before: datetime
    ) -> str:
        """Return why the runs of a tree have to stay, "" if they may go."""
        for run_id in tree:
            run = self.known[run_id]
            if not _is_past(run, ended_before):
                state = "ended later" if run.ended else f"is {run.status}"
                return f"run {run_id}, which it started, {state}"
            if reason := self.needed(run_id, chosen) or self._follows_turn(run, chosen):
                return reason
        return ""

    def _follows_turn(self, turn: RunSummary, chosen: AbstractSet[str]) -> str:
        """Return which earlier turn stays: without this one, the conversation would fall back."""
        id = turn.context_id
        for earlier in reversed(self.of_conversation[id]) if turn.turn and turn.revision else ():
            if earlier == turn.run_id:
                break
            if earlier not in chosen and self.known[earlier].turn:
                return f"run {earlier}, an earlier turn of conversation {id!r}, stays"
        return ""


def _is_past(run: RunSummary, ended_before: datetime) -> bool:
    return run.ended and run.updated_at is not None and run.updated_at < ended_before
