"""What is submitted: a request and options as data, with marks in the place of secrets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

import msgspec
from msgspec.structs import replace

from upshot.contract.base.checks import did_you_mean
from upshot.contract.base.json_values import UnserializableError, to_free_json
from upshot.contract.base.structs import JsonObject
from upshot.contract.codec import encode
from upshot.contract.events import RunStarted
from upshot.contract.model_calls import Request
from upshot.contract.settings import Budget, ModelSettings, Policy, Retry
from upshot.entry.option_checks import OPTIONS, check_options
from upshot.errors import Misuse
from upshot.journal.shared import Submission
from upshot.runs.plan import ResumeOptions
from upshot.runs.redaction import (
    COUNT_OPTION,
    MARKS_OPTION,
    Redaction,
    in_order,
    lift,
    name_marks,
)


class SubmitOptions(TypedDict, total=False):
    """Options of ``App.submit``: those of ``run`` that are data. See ``RunOptions`` for each.

    Attributes:
        artifacts: Channels whose messages become artifacts of the result.
        attributes: Free JSON for engine, tools and hooks.
        budget: Limits.
        if_waiting: "refuse" waits while another turn of the conversation waits for answers,
            "tell" begins all the same.
        max_attempts: How often a decider may have it done.
        model: "provider:name".
        policy: Rules on tools, in place of those of the App.
        remember: Whether it is a turn of its conversation.
        retry: Of failed model calls.
        settings: Of model calls.
    """

    artifacts: Sequence[str]
    attributes: Mapping[str, Any]
    budget: Budget
    if_waiting: Literal["refuse", "tell"]
    max_attempts: int
    model: str
    policy: Policy
    remember: bool
    retry: Retry | None
    settings: ModelSettings


_NAMES = SubmitOptions.__optional_keys__
_TYPES: Mapping[str, Any] = {
    "budget": Budget,
    "policy": Policy,
    "retry": Retry | None,
    "settings": ModelSettings,
}
_RESUMED = ResumeOptions.__optional_keys__
# A name that no log has: by it the same request has the same digest wherever it is submitted.
_FIXED = "submission"


def check_data(options: Mapping[str, object]) -> None:
    """See that options can be written down.

    Raises:
        Misuse: One is unknown, of a wrong type, or no data.
    """
    for name, value in options.items():
        if name in OPTIONS and name not in _NAMES:
            raise Misuse(
                f"{name} cannot be submitted, since it is no data: give it to the agent or to "
                f"App(...); a submission takes {', '.join(sorted(_NAMES))}"
            )
        if name not in OPTIONS:
            hint = did_you_mean(name, _NAMES, f"there are {', '.join(sorted(_NAMES))}")
            raise Misuse(f"a submission has no option {name!r}: {hint}")
        if name == "model" and not isinstance(value, str):
            raise Misuse(
                "model cannot be submitted as an object: give 'provider:name', or the Model to "
                "the agent or to App(...)"
            )
    check_options(options)


def to_data(options: Mapping[str, object]) -> JsonObject:
    """Options as JSON.

    Raises:
        Misuse: A value in them has no JSON form.
    """
    found: JsonObject = {}
    for name, value in options.items():
        try:
            plain = msgspec.to_builtins(value, str_keys=True) if name in _TYPES else value
            form, lost = to_free_json(plain)
        except UnserializableError as error:
            raise Misuse(f"{name} cannot be submitted: {error}") from error
        if lost:
            raise Misuse(f"{name} cannot be submitted: {name}{lost[0]} holds what JSON cannot")
        found[name] = form
    return found


def from_data(data: JsonObject, *, goes_on: bool) -> dict[str, Any]:
    """Options again; those that a run has which goes on, or which begins."""
    return {
        name: msgspec.convert(value, _TYPES[name]) if name in _TYPES else value
        for name, value in data.items()
        if not goes_on or name in _RESUMED
    }


def digest_of(agent_id: str, request: Request, options: JsonObject, secrets: Sequence[str]) -> str:
    """What tells two submissions apart, whatever their ids."""
    told = (agent_id, replace(request, run_id=""), options)
    masked = told if not secrets else Redaction(secrets, name=_FIXED).write(told)
    return hashlib.sha256(encode(masked)).hexdigest()


def masked(new: Submission, secrets: Sequence[str]) -> Submission:
    """A submission with marks in the place of secrets."""
    if not secrets:
        return new
    name = name_marks()
    written = Redaction(secrets, name=name).write(new)
    marks: JsonObject = {MARKS_OPTION: name, COUNT_OPTION: len(in_order(secrets))}
    return replace(written, marks=marks)


def lifted(new: Submission, secrets: Sequence[str]) -> Submission:
    """A submission with its secrets again.

    Raises:
        Misuse: The secrets given are not those that it was submitted with.
    """
    if not new.marks:
        return new
    found = lift(secrets, RunStarted(run_id=new.run_id, seq=1, options=new.marks))
    if found is None:
        count = new.marks.get(COUNT_OPTION)
        raise Misuse(
            f"run {new.run_id!r} was submitted with secrets ({count}): give App(secrets=...) the "
            "same ones"
        )
    return found.mask(new)
