"""A result as HTML, for notebooks: figures and outcomes, and a bar for each tool call.

It contains no text from a user, a model or a tool, so that a notebook can be shown to others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any

from upshot.contract.base.enums import Effect, Status
from upshot.contract.base.words import count, duration, figures, moment, visible
from upshot.contract.tool_calls import (
    ToolArtifactReference,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolRecord,
    ToolTimeout,
)

if TYPE_CHECKING:
    from upshot.contract.result import AgentResult

# A notebook is light or dark independently of the system, so the colours come from the notebook.
_STYLE = """
.upshot-result{font:13px/1.5 system-ui,sans-serif;max-width:760px;overflow-wrap:anywhere}
.upshot-result p{margin:2px 0}.upshot-result ol{list-style:none;margin:8px 0 0;padding:0}
.upshot-result li{display:grid;grid-template-columns:20ch 8ch 1fr 28ch;gap:0 12px;
align-items:center;padding:3px 0;border-top:1px solid #8884}
.upshot-result .time{text-align:right}.upshot-result svg{width:100%;height:8px;display:block}
.upshot-result .good{color:#1f8a50;fill:#1f8a50}.upshot-result .odd{color:#b37400;fill:#b37400}
.upshot-result .bad{color:#d33a30;fill:#d33a30}.upshot-result small{opacity:.7}
"""


def to_html(result: AgentResult[Any]) -> str:
    """Return a result as a fragment of HTML, without scripts.

    Args:
        result: The result.

    Returns:
        Its agent, status and error code, what it used, the codes of its warnings, what it waits
        for, and for each tool call its name, time, outcome and effect. A name that is not the name
        of a tool is left out, since a model wrote it.
    """
    return "".join(_html(result))


def bar(start: float, end: float, tone: str) -> str:
    """Return a bar of a timeline as the ``rect`` of an SVG that is 100 wide.

    Args:
        start: Where it starts, in percent.
        end: Where it ends; it is drawn 0.4 wide or more.
        tone: Its class.
    """
    width = max(0.4, end - start)
    return f'<rect class="{tone}" x="{min(start, 99.6):.2f}" width="{width:.2f}" height="8"/>'


def tone_of(status: str) -> str:
    """Return the class of a status: good, odd or bad."""
    good, bad = status == Status.COMPLETED, status in (Status.FAILED, Status.ABORTED)
    return "good" if good else "bad" if bad else "odd"


def _html(result: AgentResult[Any]) -> Iterator[str]:
    code = f" {_line(result.error.code)}" if result.error and not result.pending else ""
    yield (
        f'<div class="upshot-result"><style>{_STYLE}</style><p><b>{_line(result.agent_id)}</b> '
        f'<b class="{tone_of(result.status)}">{_line(result.status)}</b>{code}</p>'
    )
    used = figures(result.duration_ms / 1000, result.usage, result.cost, len(result.tool_records))
    yield f"<p>{_line(' · '.join((*used, *_more(result))))}</p>"
    yield f"<p><small>{_line(f'{result.run_id} {moment(result.started_at)}')}</small></p>"
    if result.tool_records:
        yield "<ol>"
        yield from (_row(result, record) for record in result.tool_records)
        yield "</ol>"
    yield "</div>"


def _more(result: AgentResult[Any]) -> Iterator[str]:
    if result.attempts > 1:
        yield count(result.attempts, "attempt")
    effects = Counter(one.effect for one in result.tool_records if one.effect != Effect.NONE)
    yield from (f"{number} {effect}" for effect, number in sorted(effects.items()))
    if result.pending:
        yield f"waits for {count(len(result.pending), 'answer')}"
    if result.warnings:
        yield f"warnings: {', '.join(sorted({str(one.code) for one in result.warnings}))}"


def _row(result: AgentResult[Any], record: ToolRecord) -> str:
    word, tone = _outcome(record)
    drawn = time = ""
    if record.started_at is not None and result.started_at is not None:
        whole_ms = max(1, result.duration_ms)
        start_ms = (record.started_at - result.started_at).total_seconds() * 1000
        # A call of another session of the run may be outside of this session's time.
        first = min(max(100 * start_ms / whole_ms, 0.0), 100.0)
        last = min(first + 100 * record.run_ms / whole_ms, 100.0)
        drawn, time = bar(first, last, tone), duration(record.run_ms / 1000)
    effect = "" if record.effect == Effect.NONE else f", {record.effect}"
    name = _line(record.tool_name) if record.tool_version else "<i>no tool</i>"
    return (
        f'<li><span>{name}</span><span class="time">{time}</span>'
        f'<svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">{drawn}</svg>'
        f'<span><b class="{tone}">{_line(word)}</b>{_line(effect)}</span></li>'
    )


def _outcome(record: ToolRecord) -> tuple[str, str]:
    """Return the word and the tone for the outcome of a call."""
    match record.outcome:
        case ToolExecutionResult():
            return "result", "good"
        case ToolArtifactReference():
            return "artifact", "good"
        case ToolDenied(reason=reason):
            return f"denied: {reason}", "odd"
        case ToolTimeout():
            return "timeout", "bad"
        case ToolFailure():
            return "failure", "bad"


def _line(text: str) -> str:
    return escape(" ".join(visible(text).split()))
