"""The report on a run, as `upshot show` prints it above the timeline."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.cli.made_up import RUN_ID, a_whole_run, activity_of, replied, started
from upshot.cli.report import answer_text, error_text, report, trail_text
from upshot.cli.terminal import Glyphs
from upshot.contract import (
    AgentError,
    AgentResult,
    ApprovalRequested,
    ArtifactStored,
    ErrorCode,
    Event,
    File,
    PendingApproval,
    PendingQuestion,
    QuestionAsked,
    RunReleased,
    RunResumed,
    RunSettled,
    RunWarning,
    Warned,
)


def lines_of(*events: tuple[float, Event]) -> list[str]:
    shown = report(activity_of(events), journal="runs.db", width=80, glyphs=Glyphs())
    return "\n".join(line.plain for line in shown).splitlines()


def test_a_completed_run_is_reported_with_what_it_used() -> None:
    assert lines_of(*a_whole_run())[:10] == [
        f"{RUN_ID}  counter  completed",
        "request     Count the files.",
        "started     2025-03-01 12:00:00 UTC, worked 4.0 s",
        "model       openai:simulated",
        "tokens      220 (200 in, 20 out) in 2 model calls",
        "cost        $0.0125",
        "tool calls  3: 1 denied: validation, 1 result, 1 timeout",
        "journal     runs.db",
        f"events      12: upshot show {RUN_ID} --events --journal runs.db",
        "",
    ]


def test_a_run_that_was_killed_is_reported_as_far_as_it_came() -> None:
    lines = lines_of((0, started()), (1, replied(1)))
    assert lines[0].endswith("running or died")
    assert "tokens      110 (100 in, 10 out) in 1 model call" in lines
    assert "cost        unknown" in lines


def test_a_run_that_was_left_for_a_wait_says_until_when() -> None:
    left = RunReleased(reason="due", at=datetime(2025, 3, 1, 12, 30, tzinfo=UTC))
    lines = lines_of((0, started()), (1, left))
    assert lines[0].endswith("due at 2025-03-01 12:30:00 UTC")
    assert lines[-1].strip() == "due at 2025-03-01 12:30:00 UTC"
    assert lines_of((0, started()), (1, left), (2, RunResumed()))[0].endswith("running or died")


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            RunSettled(
                result=AgentResult[Any](
                    status="failed", error=AgentError("rate_limit", "slow down", retry_after_s=7)
                )
            ),
            "error       rate_limit: slow down (try again in 7.0 s)",
        ),
        (
            Warned(warning=RunWarning(code="lossy", message="a NaN")),
            "warning     lossy: a NaN",
        ),
        (
            ApprovalRequested(
                pending=PendingApproval(call_id="c1", tool_name="refund", arguments={"cents": 5})
            ),
            'waits for   approval of refund {"cents":5} (c1)',
        ),
        (
            QuestionAsked(pending=PendingQuestion(id="q1", question="Which one?")),
            "waits for   an answer: Which one? (q1)",
        ),
        (
            ArtifactStored(
                artifact=File(
                    id="art-1", media_type="text/plain; charset=utf-8", size_bytes=2048, lines=9
                )
            ),
            "artifact    art-1: text/plain, 2.0 KiB, 9 lines",
        ),
    ],
    ids=["error", "warning", "approval", "question", "artifact"],
)
def test_what_matters_has_a_line_of_its_own(event: Event, line: str) -> None:
    assert line in lines_of((0, started()), (1, event))


def test_a_long_request_goes_on_below_itself_within_80_columns() -> None:
    lines = lines_of((0, started("word " * 60)))
    assert max(map(len, lines)) <= 80
    assert lines[2].startswith(" " * 12 + "word")


def test_an_answer_is_text_or_indented_json() -> None:
    assert answer_text("plain") == "plain"
    assert answer_text(None) == ""
    assert answer_text({"files": 7}) == '{\n  "files": 7\n}'


def test_an_error_is_one_line() -> None:
    assert error_text(AgentError("timeout", "too\nlate")) == "timeout: too late"


def test_a_code_that_is_the_status_is_not_said_twice() -> None:
    error = AgentError("interrupted", "The run was interrupted.")
    assert error_text(error, "interrupted") == "The run was interrupted."
    assert error_text(error, "failed") == "interrupted: The run was interrupted."


@pytest.mark.parametrize(
    ("details", "text"),
    [
        ({}, ""),
        ({"limit": 3}, ""),
        ({"type": "KeyError", "raised_by": "the script"}, "KeyError raised by the script"),
        (
            {"raised_by": "the script", "file": "app.py", "line": 7, "function": "work"},
            "KeyError raised by the script at app.py:7, in work",
        ),
        (
            {"file": "app.py", "line": 7, "function": "work"},
            "KeyError raised at app.py:7, in work",
        ),
        ({"file": "machine.yml", "line": 7, "column": 3}, ""),
    ],
)
def test_an_exception_is_told_with_its_owner_and_its_place(details: Any, text: str) -> None:
    error = AgentError(ErrorCode.INTERNAL, "'k'", type="KeyError", details=details)
    assert trail_text(error) == text
