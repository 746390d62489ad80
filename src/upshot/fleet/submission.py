"""Submissions: a request and its options as data, with marks in place of secrets."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypedDict, cast

import msgspec
from msgspec.structs import replace

from upshot.contract.agent import ToolItem
from upshot.contract.base.checks import Allowed, check_argument, did_you_mean
from upshot.contract.base.json_values import UnserializableError, to_free_json
from upshot.contract.base.secrets import MARKS_OPTION
from upshot.contract.base.structs import JsonObject
from upshot.contract.codec import encode
from upshot.contract.events import RunStarted
from upshot.contract.message import Message
from upshot.contract.model_calls import Request
from upshot.contract.protocols import ArtifactStore, Decider, Host, Observer
from upshot.contract.result import AgentResult
from upshot.contract.settings import Budget, ModelSettings, Policy, Quota, Retry
from upshot.errors import Misuse
from upshot.journal.shared import Submission
from upshot.models.prices import Prices
from upshot.runs.plan import OPTIONS, Approver, Committer, ResumeOptions, check_options
from upshot.runs.redaction import COUNT_OPTION, Redaction, in_order, lift, name_marks
from upshot.tools.gates.approval_gate import PreToolHook
from upshot.tools.gates.standard_gates import GateChoice
from upshot.wire.pricing import Price


class AppOptions(TypedDict, total=False):
    """Options of ``run`` that an App applies to every session of its runs. See ``RunOptions``.

    Attributes:
        approve: Asked before a tool that needs approval.
        artifact_store: Stores large outputs.
        committers: Called when a run is committed.
        deciders: Asked after the agent's own.
        gates: Your own gates, or a function of the standard gates that returns all gates.
        host: Any object with some of the methods of ``Host``.
        observers: Called after the agent's own.
        on_pre_tool_use: Asked about each tool call with valid arguments.
        prices: The prices of models; they win over the public table.
        tools: Tools for the names in ``Agent.tools``.
        write_grace_s: Seconds that a call which writes may continue after its run is asked to stop.
    """

    approve: Approver | None
    artifact_store: ArtifactStore | None
    committers: Iterable[Committer]
    deciders: Iterable[Decider | object]
    gates: GateChoice | None
    host: Host | object | None
    observers: Iterable[Observer | object]
    on_pre_tool_use: PreToolHook | None
    prices: Prices | Mapping[str, Price] | None
    tools: Iterable[ToolItem]
    write_grace_s: float


class SubmitOptions(TypedDict, total=False):
    """Options of ``App.submit``: those of ``run`` that are data. See ``RunOptions`` for each.

    Attributes:
        artifacts: Channels whose messages become artifacts of the result.
        attributes: Free JSON for engine, tools and hooks.
        budget: Limits.
        history: Messages that come before the request.
        if_waiting: While another turn of the conversation waits for answers, "refuse" waits too,
            "tell" starts without waiting.
        max_attempts: The number of attempts that deciders may ask for.
        model: "provider:name".
        policy: Rules on tools, in place of those of the App.
        quotas: Caps that runs share, in addition to those of the App.
        remember: Whether the run is a turn of its conversation.
        retry: How failed model calls are retried.
        settings: Settings of model calls.
    """

    artifacts: Sequence[str]
    attributes: Mapping[str, Any]
    budget: Budget
    history: Sequence[Message]
    if_waiting: Literal["refuse", "tell"]
    max_attempts: int
    model: str
    policy: Policy
    quotas: Sequence[Quota]
    remember: bool
    retry: Retry | None
    settings: ModelSettings


_NAMES = SubmitOptions.__optional_keys__
_TYPES: Mapping[str, Any] = {
    "budget": Budget,
    "history": tuple[Message, ...],
    "policy": Policy,
    "quotas": tuple[Quota, ...],
    "retry": Retry | None,
    "settings": ModelSettings,
}
_LISTS = (tuple[Message, ...], tuple[Quota, ...])
# What a run starts with is in its log.
_RESUMED = ResumeOptions.__optional_keys__ - {"history"}
# Where to put options that are not data.
_HOMES: Mapping[str, str] = {
    **{name: f"name it in App({name}=...)" for name in AppOptions.__optional_keys__},
    "clock": "it is for tests; leave it out",
    "dependencies": "name what makes them in App(dependencies=...)",
    "engine": "give it to the agent, Agent(engine=...)",
    "journal": "name it in App(journal=...)",
    "launch": "it is for runs of the command line; leave it out",
    "pacer": "name it in App(pacer=...)",
    "parent_run_id": "a submitted run is in no other run; leave it out",
    "prepare": "give the agent an engine that makes its board, Agent(engine=...)",
    "resume_from": "to start from a checkpoint, use run(..., resume_from=...)",
    "secrets": "name them in App(secrets=...)",
}
MOMENT = Allowed("a moment, such as datetime.now(UTC)", (datetime, type(None)))
# A name that no log uses, so that equal requests have equal digests wherever they are submitted.
_FIXED = "submission"


def check_data(options: Mapping[str, object]) -> None:
    """Check that options can be stored as data.

    Raises:
        Misuse: An option is unknown, has the wrong type, or is not data.
    """
    for name, value in options.items():
        if name in OPTIONS and name not in _NAMES:
            raise Misuse(
                f"{name} cannot be submitted: {_HOMES[name]}; a submission takes "
                f"{', '.join(sorted(_NAMES))}"
            )
        if name not in OPTIONS:
            hint = did_you_mean(name, _NAMES, f"there are {', '.join(sorted(_NAMES))}")
            raise Misuse(f"a submission has no option {name!r}: {hint}")
        if name == "model" and not isinstance(value, str):
            raise Misuse(
                "model cannot be submitted as an object: give 'provider:name', or the Model to "
                "the agent or to App(...)"
            )
        if isinstance(value, AgentResult):
            raise Misuse(
                "history cannot be submitted as a result: give conversation=, or its messages, "
                "result.all_messages()"
            )
    check_options(options)


def to_data(options: Mapping[str, object]) -> JsonObject:
    """Return options as JSON.

    Raises:
        Misuse: A value in them has no JSON form.
    """
    found: JsonObject = {}
    for name, value in options.items():
        try:
            kind = _TYPES.get(name)
            # A list may be any iterable.
            whole = tuple(cast("Iterable[object]", value)) if kind in _LISTS else value
            plain = whole if kind is None else msgspec.to_builtins(whole, str_keys=True)
            form, lost = to_free_json(plain)
        except UnserializableError as error:
            raise Misuse(f"{name} cannot be submitted: {error}") from error
        if lost:
            raise Misuse(f"{name} cannot be submitted: {name}{lost[0]} holds what JSON cannot")
        found[name] = form
    return found


def from_data(data: JsonObject, *, goes_on: bool) -> dict[str, Any]:
    """Return options from JSON; with *goes_on* only those that a resumed run takes."""
    return {
        name: msgspec.convert(value, _TYPES[name]) if name in _TYPES else value
        for name, value in data.items()
        if not goes_on or name in _RESUMED
    }


def digest_of(agent_id: str, request: Request, options: JsonObject, secrets: Sequence[str]) -> str:
    """Return a digest of a submission that does not depend on its id."""
    facts = (agent_id, replace(request, run_id=""), options)
    masked = facts if not secrets else Redaction(secrets, name=_FIXED).write(facts)
    return hashlib.sha256(encode(masked)).hexdigest()


def masked(new: Submission, secrets: Sequence[str]) -> Submission:
    """Return a submission with marks in place of secrets."""
    if not secrets:
        return new
    name = name_marks()
    written = Redaction(secrets, name=name).write(new)
    marks: JsonObject = {MARKS_OPTION: name, COUNT_OPTION: len(in_order(secrets))}
    return replace(written, marks=marks)


def lifted(new: Submission, secrets: Sequence[str]) -> Submission:
    """Return a submission with its secrets in place of their marks.

    Raises:
        Misuse: The secrets given differ from those that it was submitted with.
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


def check_at(at: object) -> None:
    """Check the moment at which a run becomes due."""
    check_argument("at", at, MOMENT)
    if isinstance(at, datetime) and at.utcoffset() is None:
        raise Misuse("at has no time zone: give an aware moment, such as datetime.now(UTC)")
