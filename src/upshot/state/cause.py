"""Why a run ended as it did, or what it is doing: one sentence, and the step that decided it.

The console and the page in a file both show it. A step that waited for a child run leads to the
cause of that run.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from upshot.contract.base.enums import ErrorCode, Status
from upshot.contract.base.structs import Value
from upshot.contract.base.words import clean, count
from upshot.contract.error import AgentError
from upshot.contract.pending import Pending, PendingApproval, PendingEffect, PendingExternal
from upshot.state.activity import Activity, Step, ending_of, label_of
from upshot.state.child_runs import child_of
from upshot.state.spending import spending_of

_MOST_CHARS = 300
_MOST_NAMED = 3

# How the sentence starts, by status; the message of the error follows a colon.
_OPENINGS = {
    Status.FAILED: "It failed",
    Status.ABORTED: "The engine gave up",
    Status.CANCELED: "It was canceled",
    Status.INTERRUPTED: "It was interrupted",
}


class Cause(Value, frozen=True, kw_only=True):
    """Why a run ended as it did, or what it is doing.

    Attributes:
        says: One sentence.
        step: The ``Row.id`` of the step that decided it; None if no single step did.
        child: The child run that this step waited for, which has the cause; "" for none.
        spent: Which steps cost most, in one sentence; "" while it runs, and if nothing is known.
    """

    says: str = ""
    step: int | None = None
    child: str = ""
    spent: str = ""


def cause_of(activity: Activity) -> Cause:
    """Return why a run ended as it did, from its log so far."""
    cause = _cause_of(activity)
    return cause if activity.result is None else replace(cause, spent=spending_of(activity))


def _cause_of(activity: Activity) -> Cause:
    if activity.started is None:
        return Cause(says="It is queued: no worker has claimed it yet.")
    result = activity.result
    if result is None:
        return Cause(says=_sentence("It is running", _named(_running(activity))))
    if result.status is Status.COMPLETED:
        return Cause(says=_completed(activity))
    error = result.error
    if result.status is Status.INPUT_REQUIRED:
        return Cause(says=_sentence("It waits for", _named(map(_wait, activity.pending)), glue=" "))
    step = None if error is None else _decisive_step(activity, error)
    opening = _OPENINGS.get(result.status, str(result.status))
    message = "" if error is None else clean(error.message, _MOST_CHARS) or str(error.code)
    if step is None:
        return Cause(says=_sentence(opening, message))
    child = child_of(activity.logged[step].name) or ""
    name = "a child run" if child else label_of(activity.logged[step])
    place = f"{opening} at step {step + 1}, {name}"
    return Cause(says=_sentence(place, message), step=step, child=child)


def _sentence(opening: str, rest: str, *, glue: str = ": ") -> str:
    text = f"{opening}{glue}{rest}" if rest else opening
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _running(activity: Activity) -> Iterator[str]:
    return (label_of(step) for step in activity.running)


def _named(names: Iterator[str]) -> str:
    every = [*dict.fromkeys(names)]
    more = f" and {len(every) - _MOST_NAMED} more" if len(every) > _MOST_NAMED else ""
    return ", ".join(every[:_MOST_NAMED]) + more


def _wait(pending: Pending) -> str:
    match pending:
        case PendingApproval(tool_name=tool):
            return f"an approval of {tool}"
        case PendingEffect(tool_name=tool):
            return f"word on whether {tool} happened"
        case PendingExternal(id=id, description=description):
            return f"a result: {clean(description or id, 80)}"
        case _:
            return f"an answer: {clean(pending.question, 80)}"


def _completed(activity: Activity) -> str:
    state = activity.state
    models = [step for step in activity.logged if step.kind == "model" and not step.again]
    records = [step.record for step in activity.logged if step.record is not None]
    failed = sum(
        step.record is not None and ending_of(step).tone == "bad" for step in activity.logged
    )
    parts = [
        count(len(models), "model call") if models else "",
        count(len(records), "tool call") if records else "",
        count(len(state.children), "child run") if state.children else "",
    ]
    after = ", ".join(filter(None, parts))
    lost = f"; {failed} of the tool calls failed" if failed else ""
    return f"It completed{' after ' * bool(after)}{after}{lost}."


def _decisive_step(activity: Activity, error: AgentError) -> int | None:
    """Return the last step that ended with this error; None if the run failed between steps."""
    for at in range(len(activity.logged) - 1, -1, -1):
        step = activity.logged[at]
        if ending_of(step).tone == "bad" and _has_ended_with(step, error):
            return at
    return None


def _has_ended_with(step: Step, error: AgentError) -> bool:
    ended = ending_of(step)
    if step.kind == "tool":
        return bool(ended.detail) and ended.detail in error.message
    # Words of other steps end with the code, after an HTTP status.
    is_same = ended.word.rpartition(" ")[2] == error.code
    return is_same and (error.code is not ErrorCode.INPUT_REQUIRED)
