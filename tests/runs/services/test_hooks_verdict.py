"""What becomes of a run: every way an engine ends, with every word of deciders and committers."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import Any

import pytest

from tests.runs.kit import Do, Ordered, Witness, kinds, log_of, raising, say
from upshot import (
    Aborted,
    Agent,
    AgentError,
    AgentResult,
    Budget,
    Failed,
    FinalizeDecision,
    Interrupted,
    Parked,
    PendingQuestion,
    Request,
    RunFailed,
    ScriptedModel,
    Status,
    run,
    start,
)
from upshot.runs.services.hooks import Verdict, wants_revision
from upshot.runs.session import reason_against


def broken(*_: Any) -> Any:
    raise RuntimeError("broken")


def answering(run: Any, host: Any, board: Any) -> None:
    board.append(say("Here."))


async def hanging(run: Any, host: Any, board: Any) -> None:
    board.append(say("Half."))
    await asyncio.sleep(60)


# How the engine ends: what it does, and status and code of the result without any hook.
ENDS: dict[str, tuple[Any, dict[str, Any], str, str | None]] = {
    "returns": (Do(answering), {}, "completed", None),
    "interrupted": (raising(Interrupted("custom")), {}, "interrupted", "interrupted"),
    "parks": (raising(Parked(PendingQuestion(id="q"))), {}, "input_required", "input_required"),
    "canceled": (Do(hanging), {"cancel": True}, "canceled", "canceled"),
    "deadline": (Do(hanging), {"budget": Budget(deadline_s=0.01)}, "failed", "timeout"),
    "aborts": (raising(Aborted("no", code="conflict")), {}, "aborted", "conflict"),
    "fails": (raising(Failed("not_found", "no")), {}, "failed", "not_found"),
    "raises": (Do(broken), {}, "failed", "internal"),
    "seeder raises": (Do(answering), {"prepare": broken}, "failed", "internal"),
    "no output": (Do(lambda *_: object()), {}, "failed", "internal"),
}
WORDS: dict[str, Any] = {
    "accept": FinalizeDecision.accept,
    "discard": lambda: FinalizeDecision.discard("d"),
    "keep_partial": lambda: FinalizeDecision.keep_partial("k"),
    "revise": lambda: FinalizeDecision.revise("again", "r"),
    "raises": broken,
    "nobody": None,
}
COMMITS = {
    ("completed", "accept"),
    ("completed", "nobody"),
    ("completed", "keep_partial"),
    ("completed", "revise"),
    ("interrupted", "keep_partial"),
}


HOOK_FAILED = AgentError("hook_failed", "no")


class Saying:
    """A decider that says one word."""

    def __init__(self, word: str) -> None:
        self.word = word

    def before_finalize(self, *_: Any) -> Any:
        return WORDS[self.word]()


async def lived(end: str, **options: Any) -> tuple[Any, Ordered, Witness]:
    engine, more, _, _ = ENDS[end]
    more = dict(more)
    cancel, witness, journal = more.pop("cancel", False), Witness(), Ordered()
    agent = Agent("a", engine=engine, observers=[witness])
    request = Request("?", run_id="r")
    async with start(agent, request, journal=journal, **options, **more) as live:
        if cancel:
            await asyncio.sleep(0.01)
            live.cancel()
        result = await live.result()
    return result, journal, witness


@pytest.mark.parametrize(
    ("end", "word", "commits"), list(product(ENDS, WORDS, [True, False])), ids=str
)
async def test_status_error_and_commit_follow_from_how_it_ended(
    end: str, word: str, *, commits: bool
) -> None:
    _, _, status, code = ENDS[end]
    deciders = [] if WORDS[word] is None else [Saying(word)]
    kept: list[Any] = []
    committer = (lambda *facts: kept.append(facts)) if commits else broken
    result, journal, witness = await lived(end, deciders=deciders, committers=[committer])
    if word == "raises" and status != "input_required":
        status, code = "failed", "hook_failed"
    wanted = (status, word) in COMMITS
    assert (str(result.status), result.error and str(result.error.code)) == (status, code)
    assert result.committed is (wanted and commits)
    assert len(kept) == (wanted and commits)
    hook_warnings = [one for one in result.warnings if one.code == "hook_failed"]
    assert len(hook_warnings) == (wanted and not commits)
    log = await log_of(journal, "r")
    assert kinds(log).count("run_settled") == 1
    assert log[-1].result == result  # type: ignore[union-attr]
    names = witness.names()
    assert names[0] == "on_run_start"
    assert names[-2:] == ["on_attempt_end", "on_run_end"]


def test_only_completed_and_kept_runs_count() -> None:
    for status, word in product(Status, ("accept", "discard", "keep_partial", "revise")):
        verdict = Verdict()
        verdict.word = word
        assert (not reason_against(verdict, status)) is ((str(status), word) in COMMITS)
        verdict.error = HOOK_FAILED
        assert reason_against(verdict, status)


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("end", ENDS)
async def test_only_a_completed_attempt_is_made_again(end: str, most: int) -> None:
    result, journal, _ = await lived(end, deciders=[Saying("revise")], max_attempts=most)
    completes = ENDS[end][2] == "completed"
    assert result.attempts == (most if completes else 1)
    assert result.state.get("revise_exhausted", False) is completes
    attempts = kinds(await log_of(journal, "r")).count("attempt_started")
    assert attempts == result.attempts


def test_a_verdict_that_is_an_error_wants_no_revision() -> None:
    verdict = Verdict()
    verdict.word, verdict.error = "revise", HOOK_FAILED
    assert not wants_revision(verdict, AgentResult())


async def test_the_defaults_commit_what_completed() -> None:
    assert (await run(Agent("a", engine=Do(answering)), "?")).committed


class Broken:
    def before_finalize(self, info: Any, request: Any, result: Any) -> None:
        raise KeyError("boom")


async def test_what_a_decider_raised_is_the_cause_of_the_failure() -> None:
    agent: Agent[str] = Agent("a", model=ScriptedModel(["Hi."]))
    result = await run(agent, "Go.", deciders=[Broken()])
    assert isinstance(result.raw, KeyError)
    with pytest.raises(RunFailed) as caught:
        result.unwrap()
    assert caught.value.__cause__ is result.raw
    assert result.last_board is not None
