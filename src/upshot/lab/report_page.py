"""A report as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from upshot.contract.base.words import count, visible
from upshot.lab.report import LabCall, Report, Row

_STYLE = """
:root { color-scheme: light dark; background: Canvas; color: CanvasText; }
:root { --line: #8884; --dim: light-dark(#595959, #a8a8a8); }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
th, td { vertical-align: top; }
.scroll { overflow-x: auto; }
.figures { min-width: 42rem; }
.answers { overflow-wrap: anywhere; }
.dim { color: var(--dim); }
details { border-bottom: 1px solid var(--line); padding: .4rem 0; }
summary { cursor: pointer; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .2rem 0; }
"""


def report_page(report: Report) -> str:
    """Return the report as the text of an HTML file; cases that changed most come first."""
    return "\n".join(_parts(report))


def _parts(report: Report) -> Iterator[str]:
    title = _text(report.name)
    yield f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<style>{_STYLE}</style></head><body><main><h1>{title}</h1>"
    yield f'<p class="dim">{_text(report.size)}</p>'
    if sentences := report.sentences():
        yield "<ul>" + "".join(f"<li>{_text(one)}</li>" for one in sentences) + "</ul>"
    head, *rows = report.lines()
    yield (
        '<div class="scroll" tabindex="0"><table class="figures"><thead>'
        + _cells(head, "th")
        + "</thead><tbody>"
    )
    yield from (_cells(row, "td") for row in rows)
    yield "</tbody></table></div><h2>Cases</h2>"
    by_case: dict[str, list[Row]] = {}
    for row in report.rows:
        by_case.setdefault(row.case, []).append(row)
    order = sorted(by_case, key=lambda case: -_change_in(by_case[case], report))
    for case in order:
        yield from _case(case, by_case[case])
    yield "</main></body></html>"


def _case(case: str, rows: list[Row]) -> Iterator[str]:
    states = ", ".join(map(_state, rows))
    yield f'<details><summary>{_text(case)} <span class="dim">{_text(states)}</span></summary>'
    yield '<div class="scroll" tabindex="0"><table class="answers"><tbody>'
    for row in rows:
        scores = "; ".join(
            f"{name} {'none' if one.value is None else one.value}"
            f"{f' ({one.reason})' if one.reason else ''}"
            for name, one in row.scores.items()
        )
        missed = "; ".join(map(_call, (*row.new_effects, *row.off_record)))
        yield (
            f"<tr><th>{_text(row.variant)}</th><td><pre>{_text(row.answer or row.error)}</pre>"
            f"<div>{_text(scores)}</div>"
            + (f"<div>not in the record: {_text(missed)}</div>" if missed else "")
            + f'<div class="dim">{_text(row.run_id)}</div></td></tr>'
        )
    yield "</tbody></table></div></details>"


def _state(row: Row) -> str:
    counts = ((len(row.new_effects), "new effect"), (len(row.off_record), "read off the record"))
    extra = [count(number, what) for number, what in counts if number]
    return f"{row.variant} {', '.join((row.error or row.status, *extra))}"


def _change_in(rows: list[Row], report: Report) -> float:
    """Return how much the variants of a case differ from its baseline."""
    found = float(sum(len(row.new_effects) + len(row.off_record) for row in rows))
    base = next((row for row in rows if row.variant == report.baseline), None)
    for row in rows:
        for name, score in row.scores.items():
            other = None if base is None else base.scores.get(name)
            if other is None or type(other.value) is not type(score.value):
                continue
            if isinstance(score.value, float) and isinstance(other.value, float):
                scale = max(abs(score.value), abs(other.value), 1e-9)
                found += abs(score.value - other.value) / scale
            else:
                found += score.value != other.value
    return found


def _cells(cells: list[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{_text(one)}</{tag}>" for one in cells) + "</tr>"


def _call(call: LabCall) -> str:
    return f"{call.tool} {call.arguments}"


def _text(text: str) -> str:
    return escape(visible(text))
