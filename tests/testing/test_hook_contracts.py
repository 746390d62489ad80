"""The suites of observers and deciders: run on sound ones and on broken ones."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import force_setattr

from tests.testing.suites import assert_red, assert_skipped, checks_of, run_check, tried_by
from upshot import FinalizeDecision, Message, ModelRequest
from upshot.contract import Decider, Observer
from upshot.testing import DeciderContract, ObserverContract


class TestObserver(ObserverContract):
    def make(self) -> Any:
        return Observer()


class TestDecider(DeciderContract):
    def make(self) -> Any:
        return Decider()


class Counter:
    """Some of the methods, async."""

    ended = 0

    async def on_run_end(self, info: Any, result: Any) -> None:
        self.ended += 1

    def on_state_enter(self, state_name: str, context: Any) -> None:
        """A hook of machines beside it."""


class TestCounter(ObserverContract):
    async def make(self) -> Any:
        return Counter()


class Demanding:
    """Lets only answers pass that say please."""

    def before_finalize(self, info: Any, request: Any, result: Any) -> Any:
        if "please" not in (result.content or ""):
            return FinalizeDecision.revise("Say please.", "rude")
        return FinalizeDecision.accept("polite")


class TestDemanding(DeciderContract):
    answer = "Wait, please."

    def make(self) -> Any:
        return Demanding()


class Raising(Observer):
    def on_run_start(self, info: Any, request: Any) -> None:
        raise ValueError("it never works")


class Unready(Observer):
    """Takes every result for an answer."""

    def on_run_end(self, info: Any, result: Any) -> None:
        result.content.upper()


class Interrupted(Observer):
    def on_interrupt(self, info: Any) -> None: ...


class Revised(Observer):
    def on_run_revise(self, info: Any) -> None: ...


class Meddling(Observer):
    """Puts its own words into the result that it sees."""

    def on_run_end(self, info: Any, result: Any) -> None:
        force_setattr(result, "content", "Mine.")


class Committing(Observer):
    def on_run_end(self, info: Any, result: Any) -> None:
        force_setattr(result, "committed", not result.committed)


class Noting(Observer):
    def on_attempt_end(self, info: Any, result: Any) -> None:
        result.state["seen"] = result.metadata["seen"] = True


class Asking(Observer):
    def on_run_start(self, info: Any, request: Any) -> None:
        request.inputs["seen"] = info.attributes["seen"] = True


class Mistyped:
    def on_run_end(self, info: Any, result: Any) -> None: ...

    def on_run_started(self, info: Any, request: Any) -> None: ...


class Jealous(Observer):
    """Sees the first run that it hears of."""

    run_id = None

    def on_run_start(self, info: Any, request: Any) -> None:
        self.run_id = self.run_id or info.run_id
        assert self.run_id == info.run_id, "another run"


CHANGES = "test_it_changes_nothing_that_it_is_shown"


@pytest.mark.parametrize(
    ("broken", "check", "words"),
    [
        (Raising, "test_it_lets_a_run_be", "it never works"),
        (Meddling, CHANGES, "it changed the content that on_run_end was shown"),
        (Committing, CHANGES, "it changed the committed that on_run_end was shown"),
        (Noting, CHANGES, "metadata that on_attempt_end was shown and the state that"),
        (Asking, CHANGES, "attributes that on_run_start was shown and the inputs that"),
        (Unready, "test_it_sees_every_end", "Unready.on_run_end"),
        (Interrupted, "test_it_sees_every_end", "Interrupted.on_interrupt"),
        (Revised, "test_it_sees_every_end", "Revised.on_run_revise"),
        (
            Mistyped,
            "test_what_is_named_like_a_hook_is_one",
            "upshot never calls its on_run_started: the hook is on_run_start",
        ),
        (Jealous, "test_one_of_it_sees_many_runs_at_once", "another run"),
    ],
)
def test_a_broken_observer_is_found_out(broken: Any, check: str, words: str) -> None:
    assert_red(ObserverContract, check, broken, words)


class Discarding(Decider):
    def before_finalize(self, info: Any, request: Any, result: Any) -> Any:
        return FinalizeDecision.discard("never good enough")


class Revising(Decider):
    def before_finalize(self, info: Any, request: Any, result: Any) -> Any:
        return FinalizeDecision.revise("Once more.", "not yet")


class Hesitant(Decider):
    """Has the first attempt done again, whatever it is."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def before_finalize(self, info: Any, request: Any, result: Any) -> Any:
        if info.run_id not in self.seen:
            self.seen.add(info.run_id)
            return FinalizeDecision.revise("Once more.")
        return None


class Wordy(Decider):
    def before_finalize(self, info: Any, request: Any, result: Any) -> Any:
        return "accept"


class Loose(Decider):
    def before_model(self, info: Any, request: ModelRequest) -> Any:
        return [Message("user", "Hello")]


class Assuming(Decider):
    def before_finalize(self, info: Any, request: Any, result: Any) -> Any:
        result.content.upper()


class Misnamed(Decider):
    def before_finalise(self, info: Any, request: Any, result: Any) -> Any: ...


class Single(Decider):
    run_id = None

    def before_model(self, info: Any, request: Any) -> None:
        self.run_id = self.run_id or info.run_id
        assert self.run_id == info.run_id, "another run"


@pytest.mark.parametrize(
    ("broken", "check", "words"),
    [
        (Wordy, "test_it_lets_a_plain_run_pass", "it returned str, not a FinalizeDecision"),
        (Loose, "test_it_lets_a_plain_run_pass", "it returned list, not a ModelRequest"),
        (Assuming, "test_it_bears_a_run_without_an_answer", "Assuming.before_finalize"),
        (
            Misnamed,
            "test_what_is_named_like_a_hook_is_one",
            "upshot never calls its before_finalise: the hook is before_finalize",
        ),
        (Single, "test_one_of_it_decides_on_many_runs_at_once", "another run"),
    ],
)
def test_a_broken_decider_is_found_out(broken: Any, check: str, words: str) -> None:
    assert_red(DeciderContract, check, broken, words)


@pytest.mark.parametrize(
    ("suite", "check"),
    [
        (ObserverContract, "test_it_lets_a_run_be"),
        (DeciderContract, "test_it_lets_a_plain_run_pass"),
    ],
)
def test_an_object_without_any_hook_is_told(suite: Any, check: str) -> None:
    assert_red(suite, check, object, "it has none of")


STRICT = pytest.mark.parametrize(
    ("strict", "check", "words"),
    [
        (Discarding, "test_it_lets_a_plain_run_pass", "discard, 'never good enough'"),
        (Discarding, "test_one_of_it_decides_on_many_runs_at_once", "discard"),
        (Revising, "test_it_lets_a_plain_run_pass", "revise, 'not yet'"),
        (
            Hesitant,
            "test_it_asks_for_no_other_attempt_at_a_plain_run",
            "it had the run done 2 times",
        ),
    ],
)


@STRICT
def test_a_decider_need_not_let_an_answer_pass_that_is_not_its_own(
    strict: Any, check: str, words: str
) -> None:
    assert_skipped(DeciderContract, check, strict, words)
    assert_skipped(DeciderContract, check, strict, "give `answer` one that it accepts")


@STRICT
def test_a_decider_has_to_let_an_answer_of_its_own_pass(
    strict: Any, check: str, words: str
) -> None:
    assert_red(DeciderContract, check, strict, words, answer="Please wait.")


def test_a_decider_that_keeps_what_there_is_lets_a_whole_answer_pass() -> None:
    class Keeping(Decider):
        def before_finalize(self, info: Any, request: Any, result: Any) -> Any:
            return FinalizeDecision.keep_partial("better than nothing")

    run_check(DeciderContract, "test_it_lets_a_plain_run_pass", Keeping)


def test_every_check_of_the_suites_is_tried() -> None:
    assert tried_by(test_a_broken_observer_is_found_out) == checks_of(ObserverContract)
    strict = tried_by(test_a_decider_has_to_let_an_answer_of_its_own_pass)
    assert tried_by(test_a_broken_decider_is_found_out) | strict == checks_of(DeciderContract)
