"""The steps of two runs side by side: which are the same, changed, or in one run only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest

from upshot.contract.base.structs import JsonObject
from upshot.contract.base.words import call_words, clean
from upshot.serve import replies
from upshot.state.run_view import Row, RunView

_MOST_CHARS = 200
# Above so many different steps the alignment would take long, and steps are paired by their place.
_MOST_ALIGNED = 400


def compared_steps(first: RunView, second: RunView) -> Iterator[replies.ComparedStep]:
    """Yield the steps of two runs in order, those that correspond beside each other.

    Steps correspond if they are the same model turn, or the same call with the same arguments.
    """
    ours, theirs = steps_of(first), steps_of(second)
    for one, other in _pairs(ours, theirs):
        is_same = one is not None and other is not None and one.got == other.got
        yield replies.ComparedStep(left=one, right=other, same=is_same)


def steps_of(view: RunView) -> list[replies.StepLine]:
    """Return the steps of a run in the order of their start, with what each was given and got."""
    messages = {message.seq: message for message in view.messages}
    asked: dict[str, JsonObject] = {}
    for message in view.messages:
        for call in message.calls:
            asked[str(call["id"])] = call
    lines: list[replies.StepLine] = []
    for row in sorted(view.rows, key=lambda row: (row.start_s, row.id)):
        message = messages.get(row.end_seq)
        text = "" if message is None else message.text
        if message is not None and not text:
            text = ", ".join(_call_words(call) for call in message.calls)
        given = asked.get(row.call_id)
        lines.append(
            replies.StepLine(
                step=row.id,
                kind=row.kind,
                given=_given(row) if given is None else _call_words(given),
                got=clean(f"{row.word} {text or row.detail}", _MOST_CHARS),
                tone=row.tone,
            )
        )
    return lines


def _given(row: Row) -> str:
    # A child run has an id of its own in every run.
    return "child run" if row.child else row.name


def _call_words(call: JsonObject) -> str:
    arguments = call.get("arguments")
    given = arguments if isinstance(arguments, dict) else {}
    return call_words(str(call.get("name", "")), given, _MOST_CHARS)


def _pairs(
    ours: Sequence[replies.StepLine], theirs: Sequence[replies.StepLine]
) -> Iterator[tuple[replies.StepLine | None, replies.StepLine | None]]:
    """Yield the steps in pairs that were given the same; None beside a step of one run only."""
    if len(ours) + len(theirs) > 2 * _MOST_ALIGNED:
        yield from zip_longest(ours, theirs)
        return
    keys = [[(one.kind, one.given) for one in side] for side in (ours, theirs)]
    for word, a, b, c, d in SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        if word == "equal":
            yield from zip(ours[a:b], theirs[c:d], strict=True)
        else:
            yield from ((one, None) for one in ours[a:b])
            yield from ((None, one) for one in theirs[c:d])
