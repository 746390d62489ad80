"""The report of an experiment: a value that is shown as a table, stored as JSON and checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from statistics import fmean
from typing import Any

from upshot.contract.base.structs import Json, JsonObject, Value
from upshot.contract.base.words import count
from upshot.contract.codec import decode, decoder_of, encode
from upshot.contract.schema import write_json_schema
from upshot.errors import Misuse
from upshot.lab.dataset import write_file
from upshot.lab.scorers import Score
from upshot.lab.statistics import ENOUGH_CASES, Interval, interval_of, spread_of

# How the reason of a score begins that could not be given.
_BROKEN = ("raised ", "did not complete")


class LabCall(Value, frozen=True, kw_only=True):
    """A call that the record does not have.

    Attributes:
        tool: The tool.
        arguments: Its arguments.
    """

    tool: str
    arguments: JsonObject = {}


class Row(Value, frozen=True, kw_only=True):
    """One run of one case.

    Attributes:
        case: The case.
        variant: The variant; "record" is what happened.
        repeat: Which repetition, from 1.
        run_id: The run in the journal of the experiment, or the recorded one.
        status: How it ended.
        answer: What it answered, None for nothing.
        error: Why it failed, "" if it did not.
        error_message: What the error says.
        scores: By scorer.
        off_record: Reads that the record does not have.
        new_effects: Writes that the record does not have: what the variant would have done.
        missing_effects: Writes of the record that were not made.
        simulated: Calls that the simulator answered.
        simulator_errors: Why it did not answer others, a text for each.
        cost: In US dollars, None if unknown.
        earlier_cost: What earlier tries of this run cost, which were stopped or failed; it is not
            part of *cost*.
        simulation_cost: What an agent that simulates cost, which is not part of *cost*.
        judging_cost: What the judges cost, which is not part of *cost* either.
        tokens: How many tokens it used.
        took_s: How long it worked.
    """

    case: str
    variant: str
    repeat: int = 1
    run_id: str = ""
    status: str = ""
    answer: str | None = None
    error: str = ""
    error_message: str = ""
    scores: dict[str, Score] = {}
    off_record: tuple[LabCall, ...] = ()
    new_effects: tuple[LabCall, ...] = ()
    missing_effects: tuple[LabCall, ...] = ()
    simulated: tuple[LabCall, ...] = ()
    simulator_errors: tuple[str, ...] = ()
    cost: float | None = None
    earlier_cost: float | None = 0.0
    simulation_cost: float | None = 0.0
    judging_cost: float | None = 0.0
    tokens: int = 0
    took_s: float = 0.0


class Comparison(Value, frozen=True, kw_only=True):
    """A scorer's scores of one variant.

    Attributes:
        mean: The mean over cases, with its interval.
        difference: The mean difference to the baseline by case, with its interval; None for the
            baseline, and if no case has both.
        higher: In how many cases the variant scores higher than the baseline.
        same: In how many it scores the same.
        lower: In how many it scores lower.
        spread: The mean standard deviation within a case, None without repetitions.
        labels: How often each label was given, if the scores are labels.
    """

    mean: Interval | None = None
    difference: Interval | None = None
    higher: int = 0
    same: int = 0
    lower: int = 0
    spread: float | None = None
    labels: dict[str, int] = {}


class Report(Value, frozen=True, kw_only=True, dict=True):
    """What an experiment found.

    Attributes:
        name: The experiment.
        dataset: The name of the dataset.
        digest: The digest of the dataset.
        cases: How many cases it has.
        repeat: How often each was run.
        variants: The names of the variants, the baseline first.
        scorers: The names of the scorers.
        rows: All runs.
        requests: What was asked, by case.
        expected: What a good answer is, by case, if the case says so.
        stopped: Why not all runs were made, "" if they were.
    """

    name: str
    dataset: str = ""
    digest: str = ""
    cases: int = 0
    repeat: int = 1
    variants: tuple[str, ...] = ()
    scorers: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    requests: dict[str, str] = {}
    expected: dict[str, Json] = {}
    stopped: str = ""

    @cached_property
    def runs_read(self) -> int:
        """How many runs were made by an earlier experiment, and only read; not stored."""
        return 0

    @property
    def size(self) -> str:
        """How many cases were run, and how often, in words."""
        times = "once" if self.repeat == 1 else f"{self.repeat} times"
        return f"{count(self.cases, 'case')} of {self.dataset}, each run {times}"

    @property
    def baseline(self) -> str:
        """The variant that the others are compared with."""
        return self.variants[0]

    def of(self, variant: str) -> tuple[Row, ...]:
        """Return the rows of a variant."""
        return tuple(row for row in self.rows if row.variant == variant)

    def compare(self, variant: str, scorer: str) -> Comparison:
        """Compare the scores of a variant with those of the baseline.

        Raises:
            Misuse: There is no such variant or scorer.
        """
        for what, name, names in (
            ("variant", variant, self.variants),
            ("scorer", scorer, self.scorers),
        ):
            if name not in names:
                listed = ", ".join(map(repr, names)) or "none"
                raise Misuse(f"there is no {what} {name!r}: there is {listed}")
        known = self._comparisons
        if (variant, scorer) not in known:
            known[variant, scorer] = self._compare(variant, scorer)
        return known[variant, scorer]

    @cached_property
    def _comparisons(self) -> dict[tuple[str, str], Comparison]:
        """The comparisons made so far: intervals take long."""
        return {}

    def _compare(self, variant: str, scorer: str) -> Comparison:
        found = _by_case(self.of(variant), scorer)
        labels = _labels(self.of(variant), scorer)
        if not found:
            return Comparison(labels=labels)
        means = {case: fmean(values) for case, values in found.items()}
        spreads = [one for one in map(spread_of, found.values()) if one is not None]
        mean = interval_of([*means.values()])
        spread = fmean(spreads) if spreads else None
        if variant == self.baseline:
            return Comparison(mean=mean, spread=spread, labels=labels)
        base = {case: fmean(one) for case, one in _by_case(self.of(self.baseline), scorer).items()}
        differences = [means[case] - base[case] for case in means if case in base]
        return Comparison(
            mean=mean,
            difference=interval_of(differences),
            higher=sum(one > 0 for one in differences),
            same=sum(one == 0 for one in differences),
            lower=sum(one < 0 for one in differences),
            spread=spread,
            labels=labels,
        )

    def lines(self) -> list[list[str]]:
        """Return the table: a heading, then a line for each scorer and variant."""
        head = ["scorer", "variant", "mean", "difference", "higher/same/lower"]
        return [head, *self._lines()]

    def _lines(self) -> Iterator[list[str]]:
        for scorer in self.scorers:
            for variant in self.variants:
                found = self.compare(variant, scorer)
                if found.mean is None and not found.labels:
                    yield [scorer, variant, "no score", "", ""]
                    continue
                counts = f"{found.higher}/{found.same}/{found.lower}"
                is_base = variant == self.baseline
                yield [
                    scorer,
                    variant,
                    score_text(found, self.cases),
                    "" if is_base or found.difference is None else change_text(found.difference),
                    "" if is_base or found.mean is None else counts,
                ]

    def sentences(self) -> list[str]:
        """Return what the figures say, one sentence each, the worst news first."""
        lines = [self.stopped] if self.stopped else []
        for variant in self.variants:
            lines += self._doubts_about(variant)
        for scorer in self.scorers:
            for variant in self.variants[1:]:
                found = self.compare(variant, scorer).difference
                if found is not None and found.is_clear:
                    way = "higher" if found.mean > 0 else "lower"
                    change = f"{abs(found.mean):.3g} {way} on {scorer}"
                    sure = f"95 %: {found.low:+.3g} to {found.high:+.3g}"
                    lines.append(f"{variant} scores {change} than {self.baseline} ({sure})")
        if self.cases < ENOUGH_CASES:
            few = count(self.cases, "case")
            lines.append(f"{few}: too few to tell small differences, use at least {ENOUGH_CASES}")
        lines += self._own_costs()
        return lines

    def _own_costs(self) -> Iterator[str]:
        """Yield what the lab's own agents cost, and the tries that were made again."""
        for what, costs in (
            ("earlier tries of runs", [row.earlier_cost for row in self.rows]),
            ("simulating tools", [row.simulation_cost for row in self.rows]),
            ("judging", [row.judging_cost for row in self.rows]),
        ):
            known = sum(one for one in costs if one is not None)
            if None in costs:
                yield f"what {what} cost beside the variants is unknown, in part or in whole"
            elif known:
                yield f"{what} cost ${known:.2g} beside the variants"

    def _doubts_about(self, variant: str) -> Iterator[str]:
        """Yield what a variant did that the record does not have, and what could not be judged."""
        rows = self.of(variant)
        new = [one for row in rows for one in row.new_effects]
        if new:
            where = len({row.case for row in rows if row.new_effects})
            yield (
                f"{variant} would have made {count(len(new), 'write')} that the record does "
                f"not have, in {count(where, 'case')}: {_tools_text(new)}"
            )
        missing = [one for row in rows for one in row.missing_effects]
        if missing:
            where = len({row.case for row in rows if row.missing_effects})
            yield (
                f"{variant} did not make {count(len(missing), 'write')} that the record has, in "
                f"{count(where, 'case')}: {_tools_text(missing)}"
            )
        unseen = [one for row in rows for one in row.off_record]
        if unseen:
            yield (
                f"{variant} asked for {count(len(unseen), 'read')} that the record does not "
                f"have: {_tools_text(unseen)}"
            )
        simulated = [one for row in rows for one in row.simulated]
        if simulated:
            yield (
                f"a simulator answered {count(len(simulated), 'call')} of {variant}: "
                f"{_tools_text(simulated)}"
            )
        for why, often in Counter(one for row in rows for one in row.simulator_errors).items():
            yield f"{why} ({count(often, 'time')} for {variant})"
        if failed := Counter(row.error for row in rows if row.error):
            yield f"{variant} failed in {count(failed.total(), 'run')}: {_labels_text(failed)}"
        if waiting := sum(row.status == "input_required" for row in rows):
            yield (
                f"{variant} waits in {count(waiting, 'run')} for an answer or a signal that the "
                "record does not have"
            )
        yield from self._unlike_scored(variant)
        for scorer in self.scorers:
            broken = [row.scores[scorer].reason for row in rows if _is_broken(row, scorer)]
            if broken:
                often = count(len(broken), "time")
                yield f"the scorer {scorer} {broken[0]} ({often} for {variant})"

    def _unlike_scored(self, variant: str) -> Iterator[str]:
        """Yield where a mean and that of the baseline are over different cases."""
        for scorer in self.scorers:
            mine = _by_case(self.of(variant), scorer).keys()
            base = _by_case(self.of(self.baseline), scorer).keys()
            if mine != base and (mine or base):
                yield (
                    f"{variant} has a score of {scorer} in {count(len(mine), 'case')}, and "
                    f"{self.baseline} in {len(base)}: their means are not comparable, only the "
                    f"difference in {count(len(mine & base), 'case')} is"
                )

    def facts(self, variant: str) -> JsonObject:
        """Return the figures of a variant, for a condition such as ``effects.new > 0``."""
        rows = self.of(variant)

        def means(of: str) -> dict[str, Json]:
            found = {one: self.compare(of, one).mean for one in self.scorers}
            return {as_word(name): one.mean for name, one in found.items() if one is not None}

        return {
            "effects": {
                "new": sum(len(row.new_effects) for row in rows),
                "missing": sum(len(row.missing_effects) for row in rows),
            },
            "off_record": sum(len(row.off_record) for row in rows),
            "failed": sum(row.status not in ("completed", "input_required") for row in rows),
            "waiting": sum(row.status == "input_required" for row in rows),
            "cases": self.cases,
            "score": means(variant),
            "base": means(self.baseline),
        }

    def write(self, path: str | PathLike[str]) -> None:
        """Write the report to a JSON file.

        Raises:
            Misuse: The file cannot be written.
        """
        write_file(path, encode(self) + b"\n")

    def to_inspect(self, folder: str | PathLike[str]) -> list[Path]:
        """Write logs for ``inspect view``: a file for the record, and one for each variant.

        A log has requests, answers, scores and what the record does not have. The messages and
        calls of a run are in the journal of the experiment.

        Args:
            folder: Where the files go, each with the name of its variant and ``.eval``.

        Returns:
            The files.

        Raises:
            Misuse: The extra ``lab`` is not installed, or two variants would have one file.
        """
        from upshot.lab.inspect_ai import write_inspect_logs

        return write_inspect_logs(self, folder)

    def to_pydantic_evals(self, variant: str = "") -> Any:
        """Return a variant as an ``EvaluationReport``, whose ``print(baseline=...)`` compares.

        Args:
            variant: The variant; "" is the baseline, "record" what really happened.

        Raises:
            Misuse: The extra ``lab`` is not installed, or there is no such variant.
        """
        from upshot.lab.pydantic_evals import to_evaluation_report

        variant = variant or self.baseline
        if not self.of(variant):
            listed = ", ".join(dict.fromkeys(row.variant for row in self.rows))
            raise Misuse(f"there is no variant {variant!r}: there is {listed}")
        return to_evaluation_report(self, variant)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Report:
        """Read a report from a JSON file.

        Raises:
            Misuse: It is no report.
        """
        try:
            return decode(Path(path).read_bytes(), decoder_of(Report))
        except OSError as error:
            raise Misuse(f"{path} cannot be read: {error.strerror}") from error


def listed_calls(row: Row, *kinds: str) -> JsonObject:
    """Return the calls of a row in its fields *kinds* as JSON, without those that are empty."""
    return {
        kind: [{"tool": one.tool, "arguments": one.arguments} for one in found]
        for kind in kinds
        if (found := getattr(row, kind))
    }


def report_schema() -> JsonObject:
    """Return the JSON Schema (draft 2020-12) of a report, as a new object."""
    return write_json_schema((Report, Row, LabCall, Score), {}, "Report", "upshot lab report")


def _by_case(rows: Iterable[Row], scorer: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for row in rows:
        score = row.scores.get(scorer)
        if score is not None and isinstance(score.value, int | float):
            found.setdefault(row.case, []).append(float(score.value))
    return found


def _labels(rows: Iterable[Row], scorer: str) -> dict[str, int]:
    values = (row.scores[scorer].value for row in rows if scorer in row.scores)
    return dict(Counter(value for value in values if isinstance(value, str)))


def _is_broken(row: Row, scorer: str) -> bool:
    score = row.scores.get(scorer)
    return score is not None and score.value is None and score.reason.startswith(_BROKEN)


def score_text(found: Comparison, cases: int) -> str:
    """Return the mean with its interval, or the labels, in words.

    Args:
        found: The comparison.
        cases: How many cases the experiment has; a mean of fewer says so.
    """
    if found.mean is None:
        return _labels_text(found.labels)
    few = "" if found.mean.cases == cases else f", {found.mean.cases} of {cases} cases"
    return f"{_mean_text(found.mean)}{few}"


def _mean_text(interval: Interval) -> str:
    if interval.low is None or interval.low == interval.high:
        return f"{interval.mean:.3g}"
    return f"{interval.mean:.3g} ({interval.low:.3g} to {interval.high:.3g})"


def change_text(interval: Interval) -> str:
    """Return a difference with its interval, in words."""
    if interval.low is None or interval.low == interval.high:
        return f"{interval.mean:+.3g}" if interval.mean else "0"
    return f"{interval.mean:+.3g} ({interval.low:+.3g} to {interval.high:+.3g})"


def _labels_text(labels: Mapping[str, int]) -> str:
    return ", ".join(f"{label} {count}" for label, count in sorted(labels.items()))


def _tools_text(calls: Sequence[LabCall]) -> str:
    return _labels_text(Counter(one.tool for one in calls))


def as_word(name: str) -> str:
    """Return the name of a scorer as a condition writes it."""
    return "".join(char if char.isalnum() else "_" for char in name).strip("_")
