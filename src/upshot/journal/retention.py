"""Retention: how long runs are kept, by rules of agent, status, tenant and note.

The first rule that fits a run is its own. A root run goes or stays with its child runs: of the
rules of these runs, the one that keeps longest decides. Whatever the rules say, a run stays while
it has not ended, while one of its effects is unknown, and while a later turn of its conversation, a
fork or a parent reads it; a committed turn stays while an earlier one does. Effects stay after
their runs, until their keys expire.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, cast

import msgspec

from upshot.contract.base.enums import Status
from upshot.contract.base.structs import Value
from upshot.contract.effects import ledger_of
from upshot.contract.protocols import Journal, RunSummary
from upshot.errors import Misuse
from upshot.journal.run_list import RunFamily
from upshot.journal.shared import SharedJournal, needs_shared

_FOREVER = "forever"
_MOST_DAYS = 36_500
_ENDED = tuple(one.value for one in Status if one is not Status.INPUT_REQUIRED)


class RetentionRule(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long some runs are kept; what is left out fits every run.

    Attributes:
        days: For how many days after their end, or "forever".
        agent: The id of the agent, or a pattern such as "desk-*".
        status: How they ended: "completed", "failed", "aborted", "interrupted" or "canceled".
        tenant: The tenant, or a pattern.
        note: The name of a note on them, or ``name=value``.
    """

    days: float | str
    agent: str = ""
    status: str = ""
    tenant: str = ""
    note: str = ""

    def check(self) -> None:
        """Raise Misuse if a field has an invalid value."""
        days = self.days
        if isinstance(days, str) and days != _FOREVER:
            raise Misuse(f"days is {days!r}: give a number, or {_FOREVER!r}")
        if not isinstance(days, str) and not 0 <= days <= _MOST_DAYS:
            raise Misuse(f"days is {days:g}: give 0 to {_MOST_DAYS}, or {_FOREVER!r}")
        if self.status and self.status not in _ENDED:
            raise Misuse(f"status is {self.status!r}: give one of {', '.join(_ENDED)}")

    @property
    def life(self) -> timedelta | None:
        """How long runs are kept after their end; None is forever."""
        return None if isinstance(self.days, str) else timedelta(days=self.days)

    def fits(self, run: RunSummary) -> bool:
        """Whether it fits a run, apart from the run's notes."""
        return (
            (not self.agent or fnmatchcase(run.agent_id, self.agent))
            and self.status in ("", run.status)
            and (not self.tenant or fnmatchcase(run.tenant, self.tenant))
        )

    def __str__(self) -> str:
        named = (("agent", self.agent), ("status", self.status), ("tenant", self.tenant))
        found = [f"{name} {value}" for name, value in (*named, ("note", self.note)) if value]
        kept = self.days if isinstance(self.days, str) else f"{self.days:g} days"
        return f"{', '.join(found) or 'all others'}: {kept}"


class Retention(NamedTuple):
    """Rules, in order."""

    rules: tuple[RetentionRule, ...]


class RetentionPlan(NamedTuple):
    """What rules say of the runs of a journal.

    Attributes:
        ended_before: Root runs that ended before this may go.
        keep: Which of them stay, and why.
        old: How many root runs each rule lets go, with their child runs.
        young: How many ended root runs each rule still keeps, for their own or a child run's sake.
    """

    ended_before: datetime
    keep: dict[str, str]
    old: tuple[int, ...]
    young: tuple[int, ...]


def read_retention(path: str) -> Retention:
    """Read rules from a TOML file: a list of tables ``[[keep]]``, each a ``RetentionRule``.

    Raises:
        Misuse: The file cannot be read, or a rule is wrong.
    """
    try:
        with open(path, "rb") as file:
            found: dict[str, Any] = tomllib.load(file)
    except OSError as error:
        raise Misuse(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Misuse(f"{path} is not TOML: {error}") from None
    given = found.pop("keep", None)
    if found or not isinstance(given, list) or not given:
        raise Misuse(f"{path} has {', '.join(found) or 'no rules'}: give tables [[keep]] alone")
    rules: list[RetentionRule] = []
    for number, one in enumerate(cast("list[object]", given), 1):
        try:
            _check_texts(one)
            rule = msgspec.convert(one, RetentionRule)
            rule.check()
        except (msgspec.ValidationError, Misuse) as error:
            raise Misuse(f"{path}, rule {number}: {error}") from None
        rules.append(rule)
    return Retention(tuple(rules))


def _check_texts(table: object) -> None:
    """Raise Misuse for an empty text, which could be meant for no run or for every run."""
    for name, value in cast("dict[str, object]", table).items() if isinstance(table, dict) else ():
        if name != "days" and isinstance(value, str) and not value.strip():
            raise Misuse(f"{name} is {value!r}: give it a value, or leave it out to fit every run")


async def plan_retention(journal: Journal, retention: Retention, now: datetime) -> RetentionPlan:
    """Decide which runs to remove; ``remove_runs(ended_before=, keep=)`` removes them.

    Raises:
        Misuse: The journal cannot be shared by processes.
        JournalError: It cannot be read.
    """
    shared, rules = needs_shared(journal), retention.rules
    # A run that ends from here on is younger than any rule's age.
    keep = await unknown_effects(journal)
    old, young = [0] * len(rules), [0] * len(rules)
    listed = await journal.runs(limit=None)
    family = RunFamily(listed, forks={}, at_work=())
    for run in listed:
        if not run.ended or run.parent_run_id in family.known:
            continue
        tree = [family.known[run_id] for run_id in family.with_children([run.run_id])]
        number, longest = await _longest_rule(tree, rules, shared)
        if number is None:
            keep.setdefault(run.run_id, "no rule is for it")
            continue
        life, ended = rules[number].life, run.updated_at
        if life is None or ended is None or ended > now - life:
            young[number] += 1
            what = "it" if longest is run else f"run {longest.run_id}, which it started"
            keep.setdefault(run.run_id, f"rule {number + 1} keeps {what} ({rules[number]})")
        else:
            old[number] += 1
    return RetentionPlan(now, keep, tuple(old), tuple(young))


async def unknown_effects(journal: Journal) -> dict[str, str]:
    """Return the runs with an unknown effect, each with why it stays."""
    ledger = ledger_of(journal)
    unknown = () if ledger is None else await ledger.effects(state="unknown")
    return {one.run_id: f"effect {one.id} of it is unknown: settle it first" for one in unknown}


async def _longest_rule(
    tree: Sequence[RunSummary], rules: Sequence[RetentionRule], journal: SharedJournal
) -> tuple[int | None, RunSummary]:
    """Return the rule that decides about a root run and its child runs, and the run it fits.

    It is None if none fits the root run, which is the first of *tree*.
    """
    root = tree[0]
    number = await _rule_of(root, rules, journal)
    found = [] if number is None else [(number, root)]
    for one in tree[1:] if found else ():
        if (number := await _rule_of(one, rules, journal)) is not None:
            found.append((number, one))
    if not found:
        return None, root
    return max(
        found, key=lambda one: timedelta.max if (life := rules[one[0]].life) is None else life
    )


async def _rule_of(
    run: RunSummary, rules: Sequence[RetentionRule], journal: SharedJournal
) -> int | None:
    """Return the index of the first rule that fits a run."""
    notes: set[str] | None = None
    for number, rule in enumerate(rules):
        if not rule.fits(run):
            continue
        if rule.note and notes is None:
            notes = set[str]()
            for one in await journal.notes(run.run_id):
                notes |= {one.name, f"{one.name}={one.value}"}
        if not rule.note or rule.note in (notes or ()):
            return number
    return None
