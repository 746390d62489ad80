"""The options of a Toolbox: what they are, and their checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypedDict

import msgspec

from upshot.contract.agent_spec import RunInfo
from upshot.contract.base.checks import Allowed, check_argument, did_you_mean, is_amount, is_whole
from upshot.contract.base.secrets import Secrets
from upshot.contract.protocols import ArtifactStore, Clock, Journal
from upshot.contract.provenance import ToolDeclaration
from upshot.contract.settings import Budget, Policy
from upshot.contract.tool_calls import ToolRecord
from upshot.errors import Misuse
from upshot.tools.call_resumption import KnownOutcomes
from upshot.tools.call_state import ReplayScope
from upshot.tools.definition.tool import Tool
from upshot.tools.execution.call_log import RunCalls
from upshot.tools.execution.executor import Workers
from upshot.tools.gates.approval_gate import Approver, PreToolHook
from upshot.tools.gates.standard_gates import AskModel, AtStart, EarlierTurnCalls, GateChoice
from upshot.tools.provenance.call_judge import CallJudge, Said, sayings_function
from upshot.tools.rate_limiter import ActiveTime
from upshot.tools.toolbox_state import Barrier, Emit, Offered, Withheld

__all__ = ["Doubtful", "ToolboxOptions", "check_options", "judge_of", "policy_of"]

Doubtful: TypeAlias = tuple[Tool[..., Any] | None, ToolRecord]
"""A call whose effect is unknown, with its tool."""


_NONE = (type(None),)
_FUNCTION = Allowed("a function", _NONE, methods=("__call__",))
_ALLOWED = {
    "budget": Allowed("a Budget", (Budget, *_NONE)),
    "policy": Allowed("a Policy", (Policy, *_NONE)),
    "identity": Allowed("a RunInfo", (RunInfo, *_NONE)),
    "workers": Allowed("Workers", (Workers, *_NONE)),
    "artifacts": Allowed(
        "an artifact store, such as InMemoryArtifacts()", _NONE, methods=("put", "read")
    ),
    "journal": Allowed(
        "a journal, such as open_journal(...)",
        _NONE,
        methods=("append", "claim", "durable", "events"),
    ),
    "clock": Allowed("a clock", _NONE, methods=("monotonic", "now", "sleep")),
    "gates": Allowed(
        "a list of gates, or a function of the standard ones",
        (Iterable, *_NONE),
        but=(str,),
        methods=("__call__",),
    ),
    **dict.fromkeys(("emit", "barrier", "offered", "step", "at_start", "spent"), _FUNCTION),
    **dict.fromkeys(("approve", "on_pre_tool_use", "repair", "unknown", "withheld"), _FUNCTION),
    "said": Allowed("a list of texts", (Iterable,), but=(str,), methods=("__call__",)),
    "replay_scope": Allowed("turn, run or context", fits=("turn", "run", "context").__contains__),
    "parallel": Allowed(
        "True, False, or how many at a time", (bool,), fits=partial(is_whole, least=1)
    ),
    "deadline": Allowed(
        "a moment of the clock, or None", _NONE, fits=partial(is_amount, above=-math.inf)
    ),
    "web_mode": Allowed("True or False", (bool,)),
}


class ToolboxOptions(TypedDict, total=False):
    """Options of a Toolbox.

    Attributes:
        budget: Limits; None is the default budget.
        gates: Your own gates, asked before approval; or a function that gets the standard gates
            and returns all gates to ask, in order.
        policy: Rules for tools; None means no rules.
        approve: Called if a call needs approval; returns True, False, or None to leave the call
            parked. None parks every such call.
        on_pre_tool_use: Called for every call with valid arguments; returns Allow, Refuse, Ask
            or EditArguments; None is Allow.
        artifacts: Where large outputs are stored; None keeps them in memory.
        secrets: Texts that are masked everywhere except in the tool itself.
        web_mode: Whether tools that declare the network may run; the older name of
            ``Policy(network=)``.
        parallel: Whether bodies of one reply may run concurrently; a number limits how many.
        repair: Called once to correct invalid arguments, for tools with ``repair=True``: the
            ``call`` of a model. None leaves such calls denied.
        replay_scope: How long a success denies its repetition: "turn", or the lifetime of the
            Toolbox including what ``restore`` adds ("run", "context").
        journal: Where events are logged if no run does that.
        keeps_outputs: Whether outputs stay whole in the log, however large, because no model reads
            them.
        run_calls: What the log of its run knows of calls that wait or ran agents; None outside
            a run.
        ledger: The journal that knows which effects were made, by their identity; None is
            ``journal``.
        clock: Time for deadlines and durations; bodies themselves run in real time.
        identity: The run that it works for, and whose budget it then uses. None means no run.
        parent_run_id: That run's parent.
        attempt: The number of the engine's pass.
        step: Returns the key of the step in whose body a call is made, "" for none.
        dependencies: The one object that tools find in their context.
        emit: Receives events without run, attempt, time and seq; it must be quick.
        barrier: Waits until all emitted events are on disk; awaited before bodies that may write.
        offered: Returns the names that are offered now; None offers all.
        withheld: Returns the names that the model was not offered when it made a call.
        at_start: Called just before a body starts; it must be quick and must not raise.
        deadline: When time is up, monotonic; None counts ``budget.deadline_s``.
        working: The same, except for time spent asking the user; None counts
            ``budget.working_s``.
        spent: Returns which limit counted elsewhere, such as tokens, is reached; "" for none.
        workers: Threads for plain tools; None is the process's own.
        known_outcomes: Outcomes that are returned instead of making their calls.
        said: The user's words, for ``Policy(taint="values")``: texts, or a function that returns
            what was said so far.
        acts: The writes that the policy judged in this and other runs: by the name of the act,
            the places where it was made, each starting with its run.
        declared: What tools declared when the log's calls were made, by their version.
        earlier_may_work: Whether the process that made the calls passed to ``resume`` may still be
            running them; a finding that such a call has done nothing is then ignored.
        earlier_calls: Calls of earlier turns that are denied as duplicates: the tool, the
            arguments, and the state of the call in words.
        unknown: Called with the calls whose effect is unknown, and their tools, once all calls of
            a reply have settled; if it raises, no outcomes are returned.
        is_checked: Whether tools and options were checked already, as a run does.
    """

    budget: Budget | None
    gates: GateChoice | None
    policy: Policy | None
    approve: Approver | None
    on_pre_tool_use: PreToolHook | None
    artifacts: ArtifactStore | None
    secrets: Iterable[str]
    web_mode: bool
    parallel: bool | int
    repair: AskModel | None
    replay_scope: ReplayScope
    journal: Journal | None
    keeps_outputs: bool
    run_calls: RunCalls | None
    ledger: Journal | None
    clock: Clock | None
    identity: RunInfo | None
    parent_run_id: str
    attempt: Callable[[], int] | int
    step: Callable[[], str] | None
    dependencies: object
    emit: Emit | None
    barrier: Barrier | None
    offered: Offered | None
    withheld: Withheld | None
    at_start: AtStart | None
    deadline: float | None
    working: ActiveTime | None
    spent: Callable[[], str] | None
    workers: Workers | None
    known_outcomes: KnownOutcomes | None
    said: Iterable[str] | Said
    declared: Mapping[str, ToolDeclaration]
    acts: dict[str, set[str]]
    earlier_may_work: bool
    earlier_calls: EarlierTurnCalls
    unknown: Callable[[Sequence[Doubtful]], None] | None
    is_checked: bool


def check_options(options: Mapping[str, object]) -> None:
    """Check the options of a Toolbox; raises Misuse."""
    known = ToolboxOptions.__optional_keys__
    for name, value in options.items():
        if name not in known:
            hint = did_you_mean(name, known, f"give {', '.join(sorted(known))}")
            raise Misuse(f"a Toolbox has no option {name!r}: {hint}")
        if name in _ALLOWED:
            check_argument(name, value, _ALLOWED[name])


def policy_of(options: ToolboxOptions) -> Policy | None:
    """Return the policy, with what ``web_mode`` forbids."""
    policy = options.get("policy")
    if options.get("web_mode", True):
        return policy
    return msgspec.structs.replace(policy or Policy(taint="off"), network=False)


def judge_of(
    policy: Policy,
    options: ToolboxOptions,
    secrets: Secrets | None,
    clock: Clock,
    whose: RunInfo,
) -> CallJudge:
    """Return the judge of calls that the policy requires."""
    sayings = sayings_function(options.get("said", ()), clock.now().date())
    declared, acts = options.get("declared", {}), options.get("acts")
    acts = {} if acts is None else acts
    return CallJudge(policy, sayings, secrets, declared, acts, run_id=whose.run_id)
