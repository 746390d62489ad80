"""Reports in the journal of their runs, for those who look later: the console, and other tools.

A report cannot be made again from the runs alone, since its scorers are code. So an experiment
keeps it: an entry in a list when it starts, and the report as a text when all runs have ended.
"""

from __future__ import annotations

from msgspec.structs import replace

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.base.structs import Moment, Value
from upshot.contract.codec import decode, decoder_of, encode
from upshot.contract.protocols import Journal
from upshot.journal.shared import SharedValues, shared_journal
from upshot.lab.report import Report

_LIST = "lab experiments"
_REPORT = "lab report "
# Older experiments leave the list, and their reports the journal.
_MOST = 200


class KeptExperiment(Value, frozen=True, kw_only=True):
    """An experiment in the list of a journal.

    Attributes:
        name: Its name.
        dataset: The name of its dataset.
        cases: How many cases that has.
        repeat: How often each is run.
        variants: The variants, the baseline first.
        started_at: When it was started last.
        ended_at: When its report was made; None if it is under way, or was stopped.
        finding: The first sentence of its report, "" if it has none.
    """

    name: str
    dataset: str = ""
    cases: int = 0
    repeat: int = 1
    variants: tuple[str, ...] = ()
    started_at: Moment | None = None
    ended_at: Moment | None = None
    finding: str = ""


class _List(Value, frozen=True, kw_only=True):
    """The experiments of a journal, the last started first."""

    experiments: tuple[KeptExperiment, ...] = ()


async def keep_start(journal: Journal, started: KeptExperiment) -> None:
    """Put an experiment at the top of the list; a journal that cannot keep a list is left alone."""
    shared = shared_journal(journal)
    if shared is not None:
        entry = replace(started, started_at=SYSTEM_CLOCK.now())
        await shared.change_values(lambda values: _put(values, entry))


async def keep_report(journal: Journal, report: Report) -> None:
    """Keep the report of an experiment that has ended."""
    shared = shared_journal(journal)
    if shared is None:
        return
    text, now = encode(report).decode(), SYSTEM_CLOCK.now()
    finding = next(iter(report.sentences()), "")

    def change(values: SharedValues) -> None:
        known = {one.name: one for one in _read(values.read(_LIST))}
        before = known.get(report.name) or KeptExperiment(name=report.name)
        _put(values, replace(before, ended_at=now, finding=finding))
        values.read(_REPORT + report.name)
        values.write(_REPORT + report.name, text)

    await shared.change_values(change)


async def experiments(journal: Journal) -> tuple[KeptExperiment, ...]:
    """Return the experiments of a journal, the last started first."""
    shared = shared_journal(journal)
    return () if shared is None else _read(await shared.value(_LIST))


async def kept_report(journal: Journal, name: str) -> Report | None:
    """Return the last report of an experiment; None if it has none yet."""
    shared = shared_journal(journal)
    text = "" if shared is None else await shared.value(_REPORT + name)
    return decode(text, decoder_of(Report)) if text else None


def _put(values: SharedValues, entry: KeptExperiment) -> None:
    others = [one for one in _read(values.read(_LIST)) if one.name != entry.name]
    for old in others[_MOST - 1 :]:
        values.read(_REPORT + old.name)
        values.forget(_REPORT + old.name, _REPORT + old.name + " ")
    kept = _List(experiments=(entry, *others[: _MOST - 1]))
    values.write(_LIST, encode(kept).decode())


def _read(text: str) -> tuple[KeptExperiment, ...]:
    return decode(text, decoder_of(_List)).experiments if text else ()
