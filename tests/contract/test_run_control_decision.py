"""FinalizeDecision: a decider's word."""

from upshot.contract import FinalizeDecision


def test_each_constructor_makes_its_verdict() -> None:
    made = [
        FinalizeDecision.accept(),
        FinalizeDecision.discard("unsafe"),
        FinalizeDecision.keep_partial("enough"),
        FinalizeDecision.revise("Shorter.", "too long", state={"round": 1}),
    ]
    assert [d.verdict for d in made] == ["accept", "discard", "keep_partial", "revise"]
    assert [d.reason for d in made] == ["", "unsafe", "enough", "too long"]
    assert (made[3].feedback, made[3].state) == ("Shorter.", {"round": 1})


def test_the_feedback_is_the_reason_where_none_is_given() -> None:
    assert FinalizeDecision.revise("Shorter.").reason == "Shorter."
