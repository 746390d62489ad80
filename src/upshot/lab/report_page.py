"""A report as nodes of HTML, for the console, and as one file that needs nothing else.

The nodes are data: the console draws them with its own functions, so that no text of a model or a
tool is ever read as HTML there; the file has them escaped. Cases that changed most come first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from html import escape
from importlib.resources import files
from typing import TypeAlias
from urllib.parse import quote

from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.base.words import count, visible
from upshot.lab.report import (
    Comparison,
    LabCall,
    Report,
    Row,
    change_text,
    score_text,
)
from upshot.lab.scorers import Score

Node: TypeAlias = list[Json]
"""A node: its tag with its classes, such as ``"p.soft"``, its attributes, and its children: texts
and nodes."""

RECORD = "record"
# What answers may take together in the page, and how many trials the file shows: a browser reads
# more of them too slowly.
_ANSWER_CHARS = 600_000
_FILE_ROWS = 1_000
_LEAST_CHARS = 200
_MOST_CHARS = 4_000
_ARGUMENT_CHARS = 400
_REQUEST_CHARS = 200
# Scores that differ a little in every run of a model: no reason to read a case.
_FIGURES = ("cost", "tokens", "latency")
# From this relative distance on, another score is named beside its case.
_TELLING = 0.1

# The colours of the console.
_COLOURS = """
:root { color-scheme: light dark;
  --ground: light-dark(#fbfbfa, #131416); --paper: light-dark(#fff, #1a1c1f);
  --sunk: light-dark(#f3f3f1, #222428); --ink: light-dark(#1c1d1f, #e8e8e6);
  --soft: light-dark(#5b5f66, #a3a8b0); --line: light-dark(#dfdfdb, #33363b);
  --accent: light-dark(#1f5fbf, #86b4f7);
  --good: light-dark(#1a6b3c, #7fd6a0); --good-ground: light-dark(#e2f2e8, #173323);
  --odd: light-dark(#855400, #eebd62); --odd-ground: light-dark(#fbeed3, #382a10);
  --bad: light-dark(#b3261e, #ff9d94); --bad-ground: light-dark(#fce8e6, #431c19);
  --plain: light-dark(#4d5157, #bfc3c9); --plain-ground: light-dark(#ececea, #2b2e32); }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1480px; margin: 0 auto; padding: 18px 20px 48px; }
h1 { font-size: 1.3rem; margin: 0; } h2 { font-size: 1rem; } p { margin: 0; }
code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
code { font-size: .88em; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
"""


def report_page(report: Report) -> str:
    """Return the report as the text of an HTML file, without scripts.

    Of a large report the file has the cases that changed most: about 1,000 trials.
    """
    title = escape(visible(report.name))
    pages = ReportNodes(report)
    whole = len(pages.order)
    most = min(whole, max(1, _FILE_ROWS * whole // max(1, len(report.rows))))
    parts = pages.head()
    if most < whole:
        words = f"Of {count(whole, 'case')}, the {most:,} that changed most are shown here."
        parts.append(node("p.soft", f"{words} The console and the report as JSON have all."))
    shown = node("div.report", *parts, *pages.cases(0, most))
    return "\n".join(
        (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<style>{_COLOURS}{style_sheet()}</style></head><body><main>",
            to_html(node("div.report", node("h1", report.name))),
            to_html(shown),
            "</main></body></html>",
        )
    )


def style_sheet() -> str:
    """Return the rules for the nodes of a report; the colours are those of the page around it."""
    return files("upshot.lab").joinpath("report.css").read_text("utf-8")


def node(tag: str, *children: Json, **given: str) -> Node:
    """Return a node; ``aria_label=`` gives the attribute ``aria-label``."""
    named: JsonObject = {name.replace("_", "-"): value for name, value in given.items()}
    return [tag, named, *children]


def to_html(made: Json) -> str:
    """Return a node as HTML, with its texts escaped."""
    if not isinstance(made, list):
        return escape(visible(str(made)))
    head, given, *children = made
    tag, *classes = str(head).split(".")
    named = {**given} if isinstance(given, dict) else {}
    if classes:
        named["class"] = " ".join(classes)
    inside = "".join(f' {name}="{escape(str(value))}"' for name, value in named.items())
    return f"<{tag}{inside}>{''.join(map(to_html, children))}</{tag}>"


class ReportNodes:
    """The parts of a report as nodes.

    Args:
        report: The report.
        has_links: Whether runs are links to their pages in the console, and can be compared there.
    """

    def __init__(self, report: Report, *, has_links: bool = False) -> None:
        self._report = report
        self._has_links = has_links
        rows = max(1, min(_FILE_ROWS, len(report.rows)))
        self._answer_chars = min(_MOST_CHARS, max(_LEAST_CHARS, _ANSWER_CHARS // rows))
        self._by_case: dict[str, list[Row]] = {}
        for row in report.rows:
            self._by_case.setdefault(row.case, []).append(row)
        changes = {case: _change_in(rows, report) for case, rows in self._by_case.items()}
        self.order: list[str] = sorted(changes, key=changes.__getitem__, reverse=True)
        self._changed = sum(change > 0 for change, _ in changes.values())

    def head(self) -> list[Node]:
        """Return what comes before the cases."""
        report = self._report
        parts = [node("p.soft", report.size)]
        if sentences := report.sentences():
            bad = ("would have made", "raised", "stopped", "failed")
            lines = [
                node("li.bad" if any(one in text for one in bad) else "li", text)
                for text in sentences
            ]
            parts.append(node("ul.told", *lines))
        else:
            parts.append(node("ul.told", node("li.good", "No difference can be told.")))
        label = "Variants side by side"
        table = node("table", self._table_head, node("tbody", *self._lines()))
        shown = node("div.scroll", table, tabindex="0", role="region", aria_label=label)
        return [*parts, shown]

    @cached_property
    def _table_head(self) -> Node:
        variants = [
            node("th", one, *([] if at else [node("span.soft", " baseline")]), scope="col")
            for at, one in enumerate(self._report.variants)
        ]
        return node("thead", node("tr", node("th", "scorer", scope="col"), *variants))

    def _lines(self) -> Iterator[Node]:
        report = self._report
        for name, counts in self._counts():
            cells = [node("td", _mark(number)) for number in counts]
            yield node("tr", node("th", name, scope="row"), *cells)
        for scorer in report.scorers:
            found = [report.compare(one, scorer) for one in report.variants]
            scale = max((_reach(one) for one in found), default=0.0)
            cells = [self._cell(one, scale) for one in found]
            yield node("tr", node("th", scorer, scope="row"), *cells)

    def _counts(self) -> Iterator[tuple[str, list[int]]]:
        """Yield what should be nothing, where it is something."""
        of = [self._report.of(one) for one in self._report.variants]
        lines = {
            "new effects": [sum(len(row.new_effects) for row in rows) for rows in of],
            "writes not made": [sum(len(row.missing_effects) for row in rows) for rows in of],
            "reads off the record": [sum(len(row.off_record) for row in rows) for rows in of],
            "not completed": [sum(row.status != "completed" for row in rows) for rows in of],
        }
        yield from ((name, counts) for name, counts in lines.items() if any(counts))

    def _cell(self, found: Comparison, scale: float) -> Node:
        if found.mean is None and not found.labels:
            return node("td", node("span.soft", "no score"))
        parts = [_mean(found, self._report.cases)]
        if found.difference is not None:
            sure = ".clear" if found.difference.is_clear else ""
            counts = f"{found.higher} higher, {found.same} same, {found.lower} lower"
            parts += [
                *_bar(found, scale),
                node(f"span.change{sure}", change_text(found.difference)),
                node("span.soft", counts),
            ]
        return node("td", *parts)

    def cases(self, start: int, end: int) -> list[Node]:
        """Return the cases of these places in the order, under their headings."""
        parts: list[Node] = []
        whole = len(self.order)
        groups = (
            ("changed", 0, self._changed, "most changed first"),
            ("did not change", self._changed, whole, ""),
        )
        for words, first, last, more in groups:
            begin, stop = max(first, start), min(last, end)
            if begin >= stop:
                continue
            size = f"{count(last - first, 'case')} {words}"
            title = [node("h2", size + (f", {more}" if more else ""))] if begin == first else []
            shown = [self._case(case) for case in self.order[begin:stop]]
            parts.append(node("section", *title, node("div", *shown)))
        return parts

    def _case(self, case: str) -> Node:
        rows = self._by_case[case]
        asked = self._report.requests.get(case, "")[:_REQUEST_CHARS]
        tags = [tag for tag in map(self._tag, self._report.variants, [rows] * len(rows)) if tag]
        summary = node(
            "summary",
            node("span.asked", asked or case),
            *([node("code", case)] if asked else []),
            node("span.tags", *tags),
        )
        named = (RECORD, *self._report.variants)
        columns = [self._variant(one, [row for row in rows if row.variant == one]) for one in named]
        return node("details.case", summary, node("div.variants", *filter(None, columns)))

    def _tag(self, variant: str, rows: Sequence[Row]) -> Node | None:
        """Return what a variant did differently, in a few words."""
        mine = [row for row in rows if row.variant == variant]
        new, unseen = (
            sum(len(row.new_effects) for row in mine),
            sum(len(row.off_record) for row in mine),
        )
        failed = sum(row.status != "completed" for row in mine)
        base = {row.repeat: row for row in rows if row.variant == self._report.baseline}
        differs = {name for row in mine for name, _ in _differing(row, base.get(row.repeat))}
        words = [
            count(number, what)
            for number, what in ((new, "new effect"), (unseen, "unknown read"))
            if number
        ]
        if failed:
            words.append(mine[0].error or mine[0].status.replace("_", " ") or "no end")
        words += sorted(differs)[:3]
        if not words:
            return None
        tone = "bad" if new or failed else "odd"
        return node(f"span.tag.{tone}", f"{variant}: {', '.join(words)}")

    def _variant(self, variant: str, rows: Sequence[Row]) -> Node | None:
        if not rows or (variant == RECORD and not rows[0].status):
            return None
        # Few nodes: a large report has many trials.
        if len(rows) == 1:
            return node("section.variant", node("h3", variant), *self._trial(rows[0]))
        trials = [node("div.trial", *self._trial(row)) for row in rows]
        return node("section.variant", node("h3", variant), *trials)

    def _trial(self, row: Row) -> Iterator[Node]:
        base = self._base_of(row)
        tone = {"completed": "good", "input_required": "odd"}.get(row.status, "bad")
        words = row.error or row.status.replace("_", " ")
        calls = [
            node(f"li.{tone}", f"{what} ", node("code", _call(call)))
            for tone, what, made in (
                ("bad", "would have made", row.new_effects),
                ("odd", "did not make", row.missing_effects),
                ("odd", "asked in vain for", row.off_record),
            )
            for call in made
        ]
        yield node(f"span.tag.{tone}", words)
        yield self._answer(row, base)
        if calls:
            yield node("ul.calls", *calls)
        yield from _scores(row, base)
        if row.run_id:
            yield self._links(row, base) if self._has_links else node("code", row.run_id)

    def _answer(self, row: Row, base: Row | None) -> Node:
        if base is not None and row.answer and row.answer == base.answer:
            return node("p.answer.soft", f"the answer of {base.variant}")
        text = row.answer or "no answer"
        if len(text) > self._answer_chars:
            text = f"{text[: self._answer_chars]} …"
        return node("p.answer" if row.answer else "p.answer.soft", text)

    def _links(self, row: Row, base: Row | None) -> Node:
        own = f"/runs/{quote(row.run_id, safe='')}"
        links = [node("a", "Open the run", href=own)]
        record = next((one for one in self._by_case[row.case] if one.variant == RECORD), None)
        for other in (record, base):
            if row.variant != RECORD and other is not None and other.run_id:
                path = f"/runs/{quote(other.run_id, safe='')}/compare/{quote(row.run_id, safe='')}"
                links.append(node("a", f"Compare with {other.variant}", href=path))
        return node("div.links", *links)

    def _base_of(self, row: Row) -> Row | None:
        """Return the row of the baseline that a row is compared with; None for its own."""
        if row.variant in (RECORD, self._report.baseline):
            return None
        rows = self._by_case[row.case]
        return next((one for one in rows if _is_of(one, self._report.baseline, row.repeat)), None)


def _is_of(row: Row, variant: str, repeat: int) -> bool:
    return row.variant == variant and row.repeat == repeat


def _mean(found: Comparison, cases: int) -> Node:
    text, interval = score_text(found, cases), ""
    if found.mean is not None:
        text, _, few = text.partition(", ")
        text, _, interval = text.removesuffix(")").partition(" (")
        interval = ", ".join(filter(None, (interval, few)))
    return node("span.mean", text, *([node("span.soft", f" {interval}")] if interval else []))


def _bar(found: Comparison, scale: float) -> list[Node]:
    """Return the interval of a difference beside zero, which is in the middle."""
    change = found.difference
    if change is None or change.low is None or change.high is None or not scale:
        return []

    def place(value: float) -> float:
        return 50 + 48 * value / scale

    low, high, mean = map(place, (change.low, change.high, change.mean))
    width = f"{max(0.6, high - low):.2f}"
    return [
        node(
            "svg",
            node("rect", x=f"{low:.2f}", y="4", width=width, height="6"),
            node("line", x1="50", x2="50", y1="0", y2="14"),
            node("rect.point", x=f"{mean - 0.6:.2f}", y="2", width="1.2", height="10"),
            viewBox="0 0 100 14",
            preserveAspectRatio="none",
            aria_hidden="true",
        )
    ]


def _reach(found: Comparison) -> float:
    """Return how far from zero the interval of a difference goes."""
    change = found.difference
    ends = () if change is None else (change.low, change.high)
    return max((abs(one) for one in ends if one is not None), default=0.0)


def _mark(number: int) -> Node:
    return node("span.alarm" if number else "span.soft", str(number))


def _scores(row: Row, base: Row | None) -> Iterator[Node]:
    """Yield the scores that are not those of the baseline, one by one, and the others in a line:
    a large report has many."""
    others = {} if base is None else base.scores
    differ = {
        name: one
        for name, one in row.scores.items()
        if name not in _FIGURES and name in others and others[name].value != one.value
    }
    lines: list[Node] = []
    for name, one in differ.items():
        was = node("span.soft", f" ({base.variant if base else ''} {_value_text(others[name])})")
        reason = [node("span.soft", f" {one.reason}")] if one.reason else []
        lines.append(node("div", node("dt", name), node("dd", _value_text(one), was, *reason)))
    if lines:
        yield node("dl.scores", *lines)
    same = [
        f"{name} {_value_text(one)}" + (f": {one.reason}" if one.reason else "")
        for name, one in row.scores.items()
        if name not in differ
    ]
    if same:
        yield node("p.soft", ", ".join(same))


def _value_text(score: Score) -> str:
    value = score.value
    return "none" if value is None else value if isinstance(value, str) else f"{value:.4g}"


def _differing(row: Row, base: Row | None) -> Iterator[tuple[str, float]]:
    """Yield the scorers whose score differs from the baseline's by enough to be named, and how far
    it does."""
    if base is None or row.variant in (RECORD, base.variant):
        return
    for name, score in row.scores.items():
        other = base.scores.get(name)
        distance = 0.0 if other is None or name in _FIGURES else _distance(score, other)
        if distance >= _TELLING:
            yield name, distance


def _distance(one: Score, other: Score) -> float:
    """Return how different two scores are, from 0 to 2."""
    if isinstance(one.value, int | float) and isinstance(other.value, int | float):
        scale = max(abs(one.value), abs(other.value), 1e-9)
        return abs(one.value - other.value) / scale
    return float(one.value != other.value)


def _change_in(rows: Sequence[Row], report: Report) -> tuple[float, int]:
    """Return how much the variants of a case differ from its baseline and from the record, and how
    many answers differ."""
    found = 10.0 * sum(len(row.new_effects) + len(row.off_record) for row in rows)
    base = {row.repeat: row for row in rows if row.variant == report.baseline}
    answers = 0
    for row in rows:
        other = base.get(row.repeat)
        if row.variant != RECORD and other is not None:
            found += 5.0 * (row.status != other.status)
            found += sum(distance for _, distance in _differing(row, other))
            answers += row.answer != other.answer
    return found, answers


def _call(call: LabCall) -> str:
    arguments: Mapping[str, Json] = call.arguments
    text = f"{call.tool} {json.dumps(arguments, ensure_ascii=False)}"
    return text if len(text) <= _ARGUMENT_CHARS else f"{text[:_ARGUMENT_CHARS]} …"
