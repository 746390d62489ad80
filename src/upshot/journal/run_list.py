"""The list of runs: what of it is wanted, and which runs may be removed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import NamedTuple

from upshot.contract.base.checks import check_whole
from upshot.contract.base.enums import Status
from upshot.contract.base.structs import Value
from upshot.contract.protocols import RunSummary
from upshot.errors import JournalError, Misuse

PHASES = ("queued", "running", "due", "parked", "died", "ended")
"""What may be asked for in place of a status: each run is in one of them."""


class RunQuery(NamedTuple):
    """Which runs are wanted; what is not given does not matter."""

    status: str | None = None
    limit: int | None = None
    before: str = ""
    context_id: str = ""
    parent_run_id: str | None = None
    run_id: str = ""
    prefix: str = ""
    agent_id: str = ""

    @property
    def phase(self) -> str:
        """The phase that is wanted, "" for a status, or any."""
        return self.status if self.status in PHASES else ""

    def check(self) -> None:
        """Refuse a limit that is none."""
        check_whole("limit", self.limit, least=1, none="all")

    def holds(self, run: RunSummary) -> bool:
        """Whether *run* is one of those; limit, place and phase are not looked at."""
        return bool(
            (self.phase or self.status in (None, run.status))
            and self.agent_id in ("", run.agent_id)
            and self.context_id in ("", run.context_id)
            and self.parent_run_id in (None, run.parent_run_id)
            and self.run_id in ("", run.run_id)
            and run.run_id.startswith(self.prefix)
        )


class TurnClaim(NamedTuple):
    """The wish to take a turn of a conversation.

    Attributes:
        conversation: The conversation.
        head: The first run of the turn.
        passes: Whether turns that wait for answers are passed.
    """

    conversation: str
    head: str
    passes: bool = False

    def is_blocked_by(self, status: str) -> bool:
        """Whether another turn of that status, which has not ended, is in the way."""
        return status != Status.INPUT_REQUIRED or not self.passes


class TurnInTheWay(NamedTuple):
    """Another turn, because of which a turn cannot be taken.

    Attributes:
        run_id: The run that has it.
        status: "running", "input_required", or "died" where its process ended.
    """

    run_id: str
    status: str


class RemovedRuns(Value, frozen=True, kw_only=True):
    """What was removed from a journal.

    Attributes:
        run_ids: The runs, child runs included.
        artifacts: How many stored outputs went with them.
        size_bytes: The size of those.
        kept: Why runs stay that ended before the date, by their ids.
    """

    run_ids: tuple[str, ...] = ()
    artifacts: int = 0
    size_bytes: int = 0
    kept: dict[str, str] = {}


def no_such_page(run_id: str) -> Misuse:
    """The exception for a run that no page can begin after."""
    return Misuse(
        f"before is {run_id!r}, and the journal has no such run: give the last of the page before"
    )


def already_there(run_id: str) -> JournalError:
    """The exception for an import of a run that the journal has."""
    return JournalError(f"run {run_id} is in the journal already", run_id=run_id)


def check_removal(run_ids: Sequence[str], ended_before: datetime | None, conversation: str) -> None:
    """Refuse a removal that does not say what to remove."""
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
    runs: Iterable[RunSummary],
    *,
    forks: Mapping[str, Collection[str]],
    at_work: Collection[str],
) -> tuple[list[str], dict[str, str]]:
    """Choose the runs to remove: those named, or of a conversation, or that ended before a date;
    with child runs.

    Args:
        run_ids: See ``SqlJournal.remove_runs``.
        ended_before: See there.
        conversation: See there.
        runs: All runs, those that began last first.
        forks: The forks of a run.
        at_work: The runs that a process works on.
    """
    family = _Family(runs, forks=forks, at_work=at_work)
    if ended_before is not None:
        return _choose_ended(family, ended_before)
    if conversation:
        run_ids = family.of_conversation.get(conversation, ())
        if not run_ids:
            raise Misuse(f"the journal has no conversation {conversation!r}")
    unknown = [run_id for run_id in run_ids if run_id not in family.known]
    if unknown:
        raise Misuse(f"the journal has no run {unknown[0]!r}")
    chosen = family.with_children(run_ids)
    for run_id in chosen:
        if reason := family.needed(run_id, chosen.keys()):
            raise Misuse(f"run {run_id} cannot be removed: {reason}")
    return [*chosen], {}


def _choose_ended(family: _Family, ended_before: datetime) -> tuple[list[str], dict[str, str]]:
    trees = {
        run.run_id: family.with_children([run.run_id])
        for run in family.known.values()
        if run.parent_run_id not in family.known and _is_past(run, ended_before)
    }
    kept: dict[str, str] = {}
    # Again until nothing changes: what stays may read another one.
    while True:
        chosen = {run_id for tree in trees.values() for run_id in tree}
        blocked = {root: family.blocked(tree, chosen, ended_before) for root, tree in trees.items()}
        reasons = {root: reason for root, reason in blocked.items() if reason}
        if not reasons:
            return [run_id for tree in trees.values() for run_id in tree], kept
        kept.update(reasons)
        for root in reasons:
            del trees[root]


class _Family:
    """Which run started or was forked from which."""

    def __init__(
        self,
        runs: Iterable[RunSummary],
        *,
        forks: Mapping[str, Collection[str]],
        at_work: Collection[str],
    ) -> None:
        self.known = {run.run_id: run for run in runs}
        self._forks = forks
        self._at_work = at_work
        self._children: dict[str, list[str]] = {}
        self.of_conversation: dict[str, list[str]] = {}
        for run in self.known.values():
            self._children.setdefault(run.parent_run_id, []).append(run.run_id)
            if run.context_id:
                self.of_conversation.setdefault(run.context_id, []).append(run.run_id)

    def with_children(self, run_ids: Iterable[str]) -> dict[str, None]:
        """The runs and all below them, each once and in order."""
        found: dict[str, None] = {}
        left = [*reversed([*run_ids])]
        while left:
            run_id = left.pop()
            if run_id not in found:
                found[run_id] = None
                left += reversed(self._children.get(run_id, []))
        return found

    def needed(self, run_id: str, chosen: AbstractSet[str]) -> str:
        """Why a run has to stay when *chosen* go, "" if it may go."""
        if run_id in self._at_work:
            return "a process works on it: wait for its end, or stop that process"
        parent = self.known[run_id].parent_run_id
        if parent in self.known and parent not in chosen:
            return f"run {parent}, which started it, reads it: remove that one"
        # A fork has the events that it was made of, but reads the child runs where they are.
        readers = [one for one in self._forks.get(parent, ()) if one in self.known.keys() - chosen]
        if readers:
            return f"run {readers[0]}, a fork, reads it: remove that one too"
        return self._begun_with(self.known[run_id], chosen)

    def _begun_with(self, turn: RunSummary, chosen: AbstractSet[str]) -> str:
        """Why a turn of a conversation has to stay: its messages stand in no other log."""
        id = turn.context_id
        for later in self.of_conversation[id] if turn.turn else ():
            if later == turn.run_id:
                break
            if later not in chosen:
                return (
                    f"run {later} of conversation {id!r} began after it, with what was said: "
                    "remove the whole conversation"
                )
        return ""

    def blocked(
        self, tree: Collection[str], chosen: AbstractSet[str], ended_before: datetime
    ) -> str:
        """Why the runs of a tree have to stay, "" if they may go."""
        for run_id in tree:
            run = self.known[run_id]
            if not _is_past(run, ended_before):
                state = "ended later" if run.ended else f"is {run.status}"
                return f"run {run_id}, which it started, {state}"
            if reason := self.needed(run_id, chosen):
                return reason
        return ""


def _is_past(run: RunSummary, ended_before: datetime) -> bool:
    return run.ended and run.updated_at is not None and run.updated_at < ended_before
