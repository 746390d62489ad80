"""Scorers and logs of Inspect: its scorers judge our runs, and its logs hold our reports.

A scorer gets a ``TaskState`` with the request, the messages, the answer and the attributes of the
case as metadata, and a ``Target`` with what the case expects. It gets no store, no sandbox and no
model of the task: a scorer that grades by a model must be given one.

Source:
    inspect-ai 0.3.285, ``log/_log.py`` and ``solver/_task_state.py``, as of 2026-11.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib import import_module
from inspect import iscoroutinefunction
from os import PathLike
from pathlib import Path
from statistics import fmean
from typing import Any, cast

from upshot.contract.base.checks import format_value
from upshot.contract.base.structs import Json
from upshot.contract.message import Message
from upshot.contract.model_calls import Request
from upshot.contract.result import AgentResult
from upshot.contract.tool_calls import ToolExecutionResult, ToolFailure, ToolOutcome
from upshot.errors import Misuse, need_of_extra
from upshot.lab.dataset import Case, Dataset, RecordedCall
from upshot.lab.report import Report, Row, listed_calls
from upshot.lab.scorers import Score, Scorer, Trial, is_made_by

# What Inspect's own scorers say: correct, incorrect, partial, no answer.
_GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}


def inspect_scorer(scorer: Any) -> Scorer:
    """Return a scorer that asks one of Inspect; an object of values is several scores.

    Raises:
        Misuse: It is the function that makes the scorer.
    """
    name = str(scorer.__registry_info__.name).rpartition("/")[2]
    if not iscoroutinefunction(scorer) and not iscoroutinefunction(type(scorer).__call__):
        raise Misuse(f"{name} makes a scorer of Inspect: call it, as in scorers=[{name}()]")

    async def ask(case: Case, trial: Trial) -> object:
        found = await scorer(_state_of(case, trial.result), _target_of(case.expected))
        if found is None:
            return None
        reason = found.explanation or found.reason or ""
        value: object = found.value
        if isinstance(value, Mapping):
            several = cast("Mapping[str, object]", value)
            return {key: _score_of(one, reason) for key, one in several.items()}
        return _score_of(value, reason)

    return Scorer(name, ask)


def _score_of(value: object, reason: str) -> Score:
    if isinstance(value, str):
        return Score(value=_GRADES.get(value, value), reason=reason)
    if value is None or isinstance(value, bool | int | float):
        return Score(value=None if value is None else float(value), reason=reason)
    raise Misuse(f"a score of Inspect is {format_value(value)}: a number, a text or an object")


def _state_of(case: Case, result: AgentResult[Any]) -> Any:
    model, name = _module("model"), f"upshot/{case.agent or 'agent'}"
    messages = [*case.history, case.request.to_message(), *result.messages]
    return _module("solver").TaskState(
        model=model.ModelName(name),
        sample_id=case.id,
        epoch=1,
        input=case.request.text,
        messages=[*map(_message_of, messages)],
        target=_target_of(case.expected),
        output=model.ModelOutput.from_content(name, result.content or ""),
        completed=True,
        metadata=dict(case.attributes),
    )


def _target_of(expected: Json) -> Any:
    return _module("scorer").Target(_target_text(expected))


def _target_text(expected: Json) -> str | list[str]:
    if isinstance(expected, list) and all(isinstance(one, str) for one in expected):
        return cast("list[str]", expected)
    if expected is None or isinstance(expected, str):
        return expected or ""
    return json.dumps(expected)


def _message_of(message: Message) -> Any:
    model, text = _module("model"), message.text
    if message.role == "assistant":
        calls = [
            _module("tool").ToolCall(id=one.id, function=one.name, arguments=_object(one.arguments))
            for one in message.tool_calls
        ]
        return model.ChatMessageAssistant(content=text, tool_calls=calls or None)
    if message.tool_call_id:
        return model.ChatMessageTool(
            content=text, tool_call_id=message.tool_call_id, function=message.name or None
        )
    kinds = {"system": model.ChatMessageSystem, "developer": model.ChatMessageSystem}
    return kinds.get(str(message.role), model.ChatMessageUser)(content=text)


def _object(given: object) -> dict[str, Any]:
    """Read the arguments of a call; text that is no object is under "text"."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return {"text": given}
    return dict(cast("Mapping[str, Any]", given)) if isinstance(given, Mapping) else {}


def write_inspect_logs(report: Report, folder: str | PathLike[str]) -> list[Path]:
    """Write a log for the record and for each variant; see ``Report.to_inspect``."""
    log, place = _module("log"), Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for variant in dict.fromkeys(row.variant for row in report.rows):
        file = place / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', variant)}.eval"
        if file in written:
            raise Misuse(f"two variants would be written to {file}: give them other names")
        log.write_eval_log(_log_of(report, variant), str(file), format="eval")
        written.append(file)
    return written


def _log_of(report: Report, variant: str) -> Any:
    log, rows, now = _module("log"), report.of(variant), datetime.now(UTC).isoformat()
    ids = list(dict.fromkeys(row.case for row in rows))
    named = f"upshot/{variant}"
    return log.EvalLog(
        status="success",
        eval=log.EvalSpec(
            created=now,
            task=report.name,
            dataset=log.EvalDataset(name=report.dataset, samples=len(ids), sample_ids=ids),
            model=named,
            config=log.EvalConfig(epochs=report.repeat),
            metadata={"digest": report.digest, "variant": variant},
        ),
        results=log.EvalResults(
            total_samples=len(rows),
            completed_samples=len(rows),
            scores=[*_means_of(rows)],
        ),
        stats=log.EvalStats(started_at=now, completed_at=now),
        samples=[_sample_of(report, row, named) for row in rows],
    )


def _means_of(rows: tuple[Row, ...]) -> Iterator[Any]:
    log = _module("log")
    for name in dict.fromkeys(name for row in rows for name in row.scores):
        values = [row.scores[name].value for row in rows if name in row.scores]
        numbers = [one for one in values if isinstance(one, int | float)]
        metrics = {"mean": log.EvalMetric(name="mean", value=fmean(numbers))} if numbers else {}
        yield log.EvalScore(name=name, scorer=name, metrics=metrics)


def _sample_of(report: Report, row: Row, named: str) -> Any:
    model, asked = _module("model"), report.requests.get(row.case, "")
    output = model.ModelOutput.from_content(named, row.answer or "", error=row.error or None)
    usage = model.ModelUsage(total_tokens=row.tokens)
    return _module("log").EvalSample(
        id=row.case,
        epoch=row.repeat,
        input=asked,
        target=_target_text(report.expected.get(row.case)),
        messages=[model.ChatMessageUser(content=asked), output.message],
        output=output,
        scores={
            name: _module("scorer").Score(
                value=one.value, answer=row.answer, explanation=one.reason or None
            )
            for name, one in row.scores.items()
            if one.value is not None
        },
        metadata={
            "status": row.status,
            "run_id": row.run_id,
            **listed_calls(row, "off_record", "new_effects", "simulated"),
        },
        model_usage={named: usage},
        total_time=row.took_s,
        working_time=row.took_s,
    )


def from_inspect(log: Any, *, name: str = "") -> Dataset:
    """Read a log of Inspect as a dataset: a case for each sample, of its first epoch.

    A case has the sample's input, target and metadata, the answer, and the tool calls with their
    results. Inspect does not say which calls change something outside, so the lab cannot compare
    effects with such a record.

    Args:
        log: An ``EvalLog``, or the path of a log.
        name: The name of the dataset; "" takes the one in the log.

    Raises:
        Misuse: It is no log, or it has no samples.
    """
    if isinstance(log, str | PathLike):
        path = Path(cast("str | PathLike[str]", log))
        try:
            log = _module("log").read_eval_log(str(path))
        except Misuse:
            raise
        except Exception as error:  # their reader raises what its parts raise
            raise Misuse(f"{path} cannot be read as a log of Inspect: {error}") from error
    if not is_made_by("inspect_ai", "EvalLog", cast("object", log)):
        raise Misuse(f"from_inspect takes an EvalLog or a path, got {format_value(log)}")
    if not log.samples:
        raise Misuse("the log has no samples: read it whole, not only its header")
    first = {str(one.id): one for one in reversed(log.samples)}
    cases = tuple(_case_of(id, first[id]) for id in reversed(first))
    return Dataset(name or log.eval.dataset.name or log.eval.task, cases)


def _case_of(id: str, sample: Any) -> Case:
    asked = [Message("user", sample.input)]
    if not isinstance(sample.input, str):
        asked = [Message(one.role, one.text) for one in sample.input]
    last = next((at for at in reversed(range(len(asked))) if asked[at].role == "user"), -1)
    return Case(
        id=id,
        request=Request(asked[last].text if asked else ""),
        history=tuple(asked[:last]) if last > 0 else (),
        attributes=json.loads(json.dumps(sample.metadata, default=str)),
        expected=_expected_of(sample.target),
        status="failed" if sample.error or sample.output.error else "completed",
        answer=sample.output.completion or None,
        error=str(sample.output.error or "") or ("error" if sample.error else ""),
        calls=tuple(_calls_of(sample.messages)),
        tokens=sum(one.total_tokens for one in sample.model_usage.values()),
        took_s=sample.total_time or 0.0,
    )


def _expected_of(target: str | list[str]) -> Json:
    if isinstance(target, list) and len(target) == 1:
        return target[0]
    return cast("Json", target) or None


def _calls_of(messages: Any) -> Iterator[RecordedCall]:
    """Yield the calls that have a result, in the order of the results."""
    open_calls: dict[str, Any] = {}
    for message in messages:
        if message.role == "assistant":
            open_calls |= {one.id: one for one in message.tool_calls or ()}
        elif message.role == "tool" and message.tool_call_id in open_calls:
            call = open_calls.pop(message.tool_call_id)
            yield RecordedCall(
                tool=call.function,
                arguments=json.loads(json.dumps(call.arguments, default=str)),
                outcome=_outcome_of(call, message),
            )


def _outcome_of(call: Any, message: Any) -> ToolOutcome:
    if message.error is not None:
        text = str(message.error.message)
        return ToolFailure(call.id, call.function, error=text, retryable=False, effect="none")
    try:
        output: Json = json.loads(message.text)
    except ValueError:
        output = message.text
    output = output if isinstance(output, dict) else {"result": output}
    return ToolExecutionResult(call.id, call.function, output=output, effect="none")


def _module(name: str) -> Any:
    try:
        return import_module(f"inspect_ai.{name}")
    except ImportError as error:
        raise Misuse(need_of_extra("Inspect", "lab")) from error
