"""The lab on the command line: collect past runs, and try agents on them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from rich.text import Text

from upshot.cli.listing import plain_table
from upshot.cli.loading import Target, import_file, load_agent
from upshot.cli.lookup import existing_journal, read_filters
from upshot.cli.terminal import Terminal
from upshot.contract.agent import Agent
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.base.words import count
from upshot.errors import Misuse
from upshot.journal.opening import open_journal
from upshot.lab import scorers as built_in
from upshot.lab.dataset import Dataset, write_file
from upshot.lab.experiment import check_scorers, run
from upshot.lab.inspect_ai import from_inspect
from upshot.lab.report import Report, Row, as_word
from upshot.lab.report_page import report_page
from upshot.lab.scorers import Score, Scorer, ScorerFunction
from upshot.tools.definition.cel import Condition, ConditionError, compile_condition

_NAMES = ("effects", "off_record", "failed", "waiting", "cases", "score", "base")


async def collect_cases(
    terminal: Terminal,
    *,
    path: str,
    journal: str,
    status: str,
    note: str,
    sample: int,
    seed: int,
    limit: int,
    min_cost: float,
    after: int,
    secrets: str,
    **filters: str,
) -> int:
    """Write past runs into a dataset."""
    _check_file(path)
    given = read_filters(filters)
    async with open_journal(existing_journal(journal), create=False) as log:
        given["limit"] = limit or None
        found = await Dataset.from_journal(
            log,
            name=Path(path).stem,
            status=status,
            note=note or None,
            sample=sample or None,
            seed=seed,
            min_cost=min_cost,
            after=after,
            secrets=_secrets(secrets),
            **given,
        )
    if not len(found):
        raise Misuse("no run fits: upshot runs lists what there is")
    found.write(path)
    facts = {"path": path, "cases": len(found), "digest": found.digest}
    terminal.answer(facts, f"{path}: {count(len(found), 'case')}, {found.digest}")
    return 0


async def run_cases(
    terminal: Terminal,
    *,
    path: str,
    target: str,
    against: Sequence[str],
    scorers: str,
    simulator: str,
    secrets: str,
    budget: float | None,
    fail_if: str | None,
    report_file: str,
    html: str,
    **options: Any,
) -> int:
    """Try agents on a dataset, and print how they compare; exit with 1 if a condition holds.

    *options* are for ``lab.run``.
    """
    judges = check_scorers(_scorers(scorers))
    condition = _condition(fail_if, judges)
    for file in filter(None, (report_file, html)):
        _check_file(file)
    dataset = Dataset.read(path)
    variants = {_name_of(one): _agent(one) for one in (target, *against)}
    if len(variants) < 1 + len(against):
        raise Misuse("two variants have one name: give each file or agent its own")

    def progress(done: int, total: int, row: Row) -> None:
        if not terminal.as_json:
            terminal.report(f"{done} of {total}: {row.variant}, {row.case}: {row.status}")

    found = await run(
        dataset,
        variants,
        scorers=judges,
        simulator=_simulator(simulator),
        secrets=_secrets(secrets),
        budget_usd=budget,
        progress=progress,
        **options,
    )
    if terminal.as_json:
        terminal.answer(found)
    else:
        terminal.say_rows(_lines(found))
        if found.runs_read:
            made = len(found.rows) - found.cases
            read = "1 was" if found.runs_read == 1 else f"{found.runs_read} were"
            terminal.report(f"of {count(made, 'run')}, {read} read from {options['journal']}")
    if report_file:
        found.write(report_file)
    if html:
        write_file(html, report_page(found).encode())
    failed = [
        variant
        for variant in found.variants[1:] or found.variants
        if condition is not None and _holds(condition, found.facts(variant))
    ]
    for variant in failed:
        terminal.report(f"{variant}: {fail_if}")
    return 1 if failed else 0


def export_report(terminal: Terminal, *, path: str, inspect: str) -> int:
    """Write a report as logs of Inspect."""
    files = [str(one) for one in Report.read(path).to_inspect(inspect)]
    terminal.answer({"files": list[Json](files)}, "\n".join(files))
    return 0


def read_inspect_log(terminal: Terminal, *, log: str, path: str) -> int:
    """Write a log of Inspect as a dataset."""
    _check_file(path)
    found = from_inspect(log)
    found.write(path)
    facts = {"path": path, "cases": len(found), "digest": found.digest}
    terminal.answer(facts, f"{path}: {count(len(found), 'case')}, {found.digest}")
    return 0


def _condition(text: str | None, scorers: Sequence[Scorer]) -> Condition | None:
    """Read a condition, and try it once, so that a mistake is found before a model is asked."""
    if text is None:
        return None
    if not text.strip():
        raise Misuse("--fail-if is empty: give a condition, such as 'effects.new > 0'")
    condition = compile_condition(text, names=_NAMES)
    names = tuple(one.name for one in scorers)
    words = set(re.findall(r"\b(?:score|base)\.(\w+)", text))
    # A scorer may give several scores, and only a run shows their names.
    several = (f"{as_word(name)}_" for name in names)
    names += tuple(word for start in several for word in words if word.startswith(start))
    row = Row(case="c", variant="v", scores=dict.fromkeys(names, Score(value=0.0)))
    _holds(condition, Report(name="", variants=("v",), scorers=names, rows=(row,)).facts("v"))
    return condition


def _holds(condition: Condition, facts: JsonObject) -> bool:
    try:
        return condition.holds(facts)
    except ConditionError as error:
        raise Misuse(f"--fail-if: {error}; there is {', '.join(_known(facts))}") from error


def _known(facts: JsonObject) -> Iterator[str]:
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from (f"{name}.{inner}" for inner in value)
        else:
            yield name


def _check_file(path: str) -> None:
    """Check that a file can be written, before anything is paid for.

    Raises:
        Misuse: It cannot.
    """
    file = Path(path).resolve()
    if not file.parent.is_dir():
        raise Misuse(f"{path} cannot be written: there is no folder {file.parent}")
    if file.is_dir():
        raise Misuse(f"{path} is a folder: give the name of a file")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise Misuse(f"{path} cannot be written: permission denied")


def _lines(report: Report) -> Iterator[Text]:
    yield from plain_table(report.lines())
    for sentence in report.sentences():
        yield Text(sentence)


def _name_of(target: str) -> str:
    file, _, name = target.partition(":")
    return f"{Path(file).stem}:{name}" if name else Path(file).stem


def _agent(target: str) -> Agent[Any]:
    found = load_agent(Target(target))
    if not isinstance(found, Agent):
        raise Misuse(f"{target} is an agent's file: the lab takes agents of Python files")
    return found


def _secrets(file: str) -> list[str]:
    """Return the lines of a file of secrets."""
    if not file:
        return []
    try:
        lines = Path(file).read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise Misuse(f"--secrets: {file} cannot be read: {error}") from error
    return [line for line in lines if line.strip()]


def _simulator(given: str) -> Any:
    """Return the function or agent of a file, or the name of a model."""
    file, _, name = given.partition(":")
    if not file.endswith(".py"):
        return given or None
    found = vars(import_file(Path(file))).get(name or "simulator")
    if found is None:
        raise Misuse(f"{file} has no {name or 'simulator'!r}: give FILE.py:NAME")
    return found


def _scorers(target: str) -> list[Scorer | ScorerFunction | Agent[Any]]:
    """Return the built-in scorers, and those of a list in a Python file."""
    found: list[Scorer | ScorerFunction | Agent[Any]] = [
        built_in.completed(),
        built_in.same_effects(),
        built_in.trajectory(),
        built_in.cost(),
        built_in.tokens(),
    ]
    if not target:
        return found
    file, _, name = target.partition(":")
    values = vars(import_file(Path(file)))
    given = values.get(name or "scorers")
    if not isinstance(given, list | tuple):
        raise Misuse(f"{file} has no list {name or 'scorers'!r}: put the scorers into one")
    return [*found, *cast("list[ScorerFunction]", given)]
