"""RunOptions: what all doors to a run take, in one place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypeAlias, TypedDict

from ..contract import (
    AgentResult,
    AnyResult,
    ArtifactStore,
    Board,
    Budget,
    Checkpoint,
    Clock,
    Decider,
    Engine,
    Host,
    Journal,
    JsonObject,
    Message,
    Model,
    ModelSettings,
    Observer,
    Policy,
    Request,
    Retry,
    RunInfo,
    ToolItem,
)
from ..models import Prices
from ..tools import ApprovalRequest
from ..wire import Price

__all__ = ["Approver", "Committer", "History", "ResumeOptions", "RunOptions", "Seeder", "Where"]

Seeder: TypeAlias = Callable[[RunInfo, Request], Board | Awaitable[Board | None] | None]
Committer: TypeAlias = Callable[[RunInfo, Request, AnyResult], Awaitable[None] | None]
Approver: TypeAlias = Callable[[ApprovalRequest], bool | Awaitable[bool | None] | None]
History: TypeAlias = Sequence[Message] | AgentResult[Any] | Literal["context"]
Where: TypeAlias = str | PathLike[str] | Journal


class ResumeOptions(TypedDict, total=False):
    """Options of all doors to a run; the call's win over the agent's.

    Attributes:
        engine: Drives the steps; the loop engine where neither call nor agent names one.
        model: "provider:name" or a Model, so that any agent can be tested with a ScriptedModel.
        settings: Merged over the agent's, field by field.
        history: Messages or an earlier result, put before the request; "context" loads what
            earlier committed runs of the same context_id produced, from the journal.
        tools: Where names in ``Agent.tools`` are found; added to the agent's own where it has None.
        host: Any object with some of the methods of ``Host``.
        observers: After the agent's own.
        deciders: After the agent's own.
        committers: Called with (info, request, result) when a run is to be committed.
        prepare: Makes the board from (info, request); once an attempt.
        artifacts: Channels whose messages become artifacts of the result.
        attributes: Free JSON for engine and tools; identity is apart and cannot be forged by it.
        parent_run_id: Wins over the run that this one is started in.
        resume_from: A checkpoint for an engine that keeps none.
        max_attempts: How often a decider may have it done, the first included; at least 1.
        retry: Of failed model calls, those of agents in its graph or machine too; None is off.
        budget: Limits; wins over the agent's as a whole.
        dependencies: One object for tools and engines, ``ToolContext.dependencies``.
        approve: Asked before a tool that needs approval; True, False, or None to defer.
            Holds for runs inside too, as the host's ``ask_user`` does, unless they have their own.
        artifact_store: Where large outputs go; by default beside the journal, else in memory.
        policy: Rules on tools, held at every call.
        secrets: Texts that are masked in the log, in events, in errors, in artifacts, in the result
            and in what tools return; model and tools work with the real ones. The log holds marks
            for them, so a resume has to give the same ones, in any order; with more or fewer it
            warns ``secrets_changed``, and what stood for them stays masked.
        prices: What models cost, before the public table; for models that are given by name.
        clock: Time, for tests.
        launch: What a command line needs to start the run again; kept in the log, never a key.
    """

    engine: Engine | None
    model: str | Model | None
    settings: ModelSettings | None
    history: History
    tools: Iterable[ToolItem]
    host: Host | object | None
    observers: Iterable[Observer | object]
    deciders: Iterable[Decider | object]
    committers: Iterable[Committer]
    prepare: Seeder | None
    artifacts: Iterable[str]
    attributes: Mapping[str, Any] | None
    parent_run_id: str
    resume_from: Checkpoint | None
    max_attempts: int
    retry: Retry | None
    budget: Budget | None
    dependencies: object
    approve: Approver | None
    artifact_store: ArtifactStore | None
    policy: Policy | None
    secrets: Iterable[str]
    prices: Prices | Mapping[str, Price] | None
    clock: Clock | None
    launch: JsonObject


class RunOptions(ResumeOptions, total=False):
    """Options of ``run``, ``run_sync`` and ``start``: those of ``ResumeOptions``, and the journal.

    Attributes:
        journal: A path, "memory:" or an open journal; None keeps no log.
    """

    journal: Where | None
