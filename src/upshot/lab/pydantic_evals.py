"""Evaluators and reports of pydantic-evals: theirs judge our runs, and their reports show ours.

An evaluator gets a context with the request as ``inputs``, the answer as ``output``, what the case
expects, the attributes of the case as ``metadata``, the duration, and a span tree. The tree has a
span for the run, and below it one for each model call and each tool call, with tool, arguments and
whether it failed. It is made of the log: it has no times, and a child run has no span of its own.

Source:
    pydantic-evals 2.62, ``evaluators/context.py`` and ``evaluators/agentic.py``, as of 2026-11.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any, cast

from upshot.contract.tool_calls import ToolFailure, ToolTimeout
from upshot.errors import Misuse, need_of_extra
from upshot.lab.dataset import Case
from upshot.lab.report import Report, Row, listed_calls
from upshot.lab.scorers import Score, Scorer, Trial


def evaluator_scorer(evaluator: Any) -> Scorer:
    """Return a scorer that asks an evaluator; what it returns by name are several scores."""

    async def ask(case: Case, trial: Trial) -> object:
        found: object = await evaluator.evaluate_async(_context_of(case, trial))
        if isinstance(found, Mapping):
            several = cast("Mapping[str, object]", found)
            return {name: _score_of(one) for name, one in several.items()}
        return _score_of(found)

    return Scorer(str(evaluator.get_default_evaluation_name()), ask)


def _score_of(found: Any) -> Score:
    """Read a bool, a number, a label, or one of these with a reason."""
    value, reason = getattr(found, "value", found), getattr(found, "reason", None) or ""
    if value is None or isinstance(value, str):
        return Score(value=value, reason=reason)
    return Score(value=float(value), reason=reason)


def _context_of(case: Case, trial: Trial) -> Any:
    result = trial.result
    usage = {"requests": result.usage.api_calls, "total_tokens": result.usage.total_tokens}
    metrics = {name: value for name, value in usage.items() if value is not None}
    return _module("evaluators").EvaluatorContext(
        name=case.id,
        inputs=case.request.text,
        metadata=dict(case.attributes),
        expected_output=case.expected,
        output=result.content if result.output is None else result.output,
        duration=result.duration_ms / 1000,
        _span_tree=_spans_of(case, trial),
        attributes={"run_id": result.run_id},
        metrics=metrics if trial.cost is None else {**metrics, "cost": trial.cost},
    )


def _spans_of(case: Case, trial: Trial) -> Any:
    """Return the run as their tree of spans, whose times only keep the order."""
    trees, started = _module("otel.span_tree"), case.started_at or datetime(2000, 1, 1, tzinfo=UTC)
    agent, spans = case.agent or "agent", list[Any]()

    def add(name: str, parent: int | None, facts: dict[str, str], status: str) -> None:
        number = len(spans) + 1
        spans.append(
            trees.SpanNode(
                name=name,
                trace_id=1,
                span_id=number,
                parent_span_id=parent,
                start_timestamp=started + timedelta(microseconds=number),
                end_timestamp=started + timedelta(microseconds=number),
                attributes=facts,
                status=status,
            )
        )

    about = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent}
    add(f"invoke_agent {agent}", None, about, "ok" if trial.result.success else "error")
    for _ in range(trial.result.usage.api_calls or 0):
        facts = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "unknown"}
        add("chat", 1, facts, "ok")
    for call in trial.made:
        failed = isinstance(call.outcome, ToolFailure | ToolTimeout)
        facts = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.tool,
            "gen_ai.tool.call.arguments": json.dumps(call.arguments),
        }
        add(f"execute_tool {call.tool}", 1, facts, "error" if failed else "ok")
    tree = trees.SpanTree()
    tree.add_spans(spans)
    return tree


def to_evaluation_report(report: Report, variant: str) -> Any:
    """Return the rows of a variant as an ``EvaluationReport``; see ``Report.to_pydantic_evals``."""
    reporting = _module("reporting")
    failures = [
        reporting.ReportCaseFailure(
            **_facts_of(report, row), error_message=row.error, error_stacktrace=""
        )
        for row in report.of(variant)
        if row.error
    ]
    cases = [
        reporting.ReportCase(
            **_facts_of(report, row),
            output=row.answer,
            metrics=_metrics_of(row),
            attributes={"run_id": row.run_id},
            scores=_results_of(row, float),
            labels=_results_of(row, str),
            assertions={},
            task_duration=row.took_s,
            total_duration=row.took_s,
        )
        for row in report.of(variant)
        if not row.error
    ]
    return reporting.EvaluationReport(
        name=f"{report.name} {variant}", cases=cases, failures=failures, dataset_name=report.dataset
    )


def _facts_of(report: Report, row: Row) -> dict[str, Any]:
    is_repeated = report.repeat > 1
    return {
        "name": f"{row.case} [{row.repeat}/{report.repeat}]" if is_repeated else row.case,
        "source_case_name": row.case if is_repeated else None,
        "inputs": report.requests.get(row.case, ""),
        "expected_output": report.expected.get(row.case),
        "metadata": {"status": row.status, **listed_calls(row, "off_record", "new_effects")},
    }


def _metrics_of(row: Row) -> dict[str, float | int]:
    found: dict[str, float | int] = {"tokens": row.tokens}
    return found if row.cost is None else {**found, "cost": row.cost}


def _results_of(row: Row, kind: type) -> dict[str, Any]:
    evaluators = _module("evaluators")
    return {
        name: evaluators.EvaluationResult(
            name=name,
            value=score.value,
            reason=score.reason or None,
            source=evaluators.EvaluatorSpec(name=name, arguments=None),
        )
        for name, score in row.scores.items()
        if isinstance(score.value, kind)
    }


def _module(name: str) -> Any:
    try:
        return import_module(f"pydantic_evals.{name}")
    except ImportError as error:
        raise Misuse(need_of_extra("pydantic-evals", "lab")) from error
