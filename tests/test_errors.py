"""Exceptions: one tree, with the facts as attributes."""

import copy
import pickle

import pytest

from upshot.contract import AgentError, AgentResult, ErrorCode, ModelResponse, Status
from upshot.errors import JournalError, Misuse, RunFailed, UpshotError

RESULT: AgentResult[str] = AgentResult(
    status=Status.FAILED, error=AgentError(ErrorCode.MAX_TURNS, "50 turns and no answer")
)


def test_every_exception_is_of_one_tree() -> None:
    for kind in (Misuse, RunFailed, JournalError):
        assert issubclass(kind, UpshotError)
    assert issubclass(Misuse, ValueError)


def test_run_failed_tells_status_code_and_message() -> None:
    error = RunFailed(RESULT)
    assert str(error) == "failed: max_turns: 50 turns and no answer"
    assert error.result is RESULT


def test_run_failed_says_a_code_that_is_the_status_once() -> None:
    error = AgentError(ErrorCode.INPUT_REQUIRED, "It waits.")
    parked = AgentResult[str](status=Status.INPUT_REQUIRED, error=error)
    assert str(RunFailed(parked)) == "input_required: It waits."


@pytest.mark.parametrize(
    "error",
    [
        RunFailed(RESULT),
        RunFailed(ModelResponse(error=AgentError(message="x"))),
        JournalError("torn", run_id="run-1", seq=7),
        Misuse("give an id"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_survives_pickle_and_copy(error: UpshotError) -> None:
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert (type(other), str(other), vars(other)) == (type(error), str(error), vars(error))
