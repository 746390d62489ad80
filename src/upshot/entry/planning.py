"""Turns a call into a plan, with what is cached per agent."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from types import FunctionType
from typing import Any, cast

import msgspec
from msgspec import convert
from msgspec.structs import replace

from upshot.clock import SYSTEM_CLOCK
from upshot.contract.agent import Agent, AgentTool, handoffs_of
from upshot.contract.agent_spec import AgentSpec, Handoff, RunInfo
from upshot.contract.base.secrets import MARKS_OPTION
from upshot.contract.base.structs import JsonObject, Local
from upshot.contract.events import RunStarted
from upshot.contract.message import Message
from upshot.contract.model_calls import Request, name_of
from upshot.contract.protocols import Decider, Engine, Journal, Model, Observer
from upshot.contract.settings import Budget, Compaction, Policy, Quota
from upshot.engines.loop import LoopEngine
from upshot.entry.conversations import asked_before, with_conversation
from upshot.entry.resume import check_checkpoint, history_of
from upshot.errors import Misuse
from upshot.journal.shared import needs_shared
from upshot.models.prices import default_prices
from upshot.models.registry import resolve
from upshot.runs.limits.quotas import BoundQuota, bind, quotas_in, renewed
from upshot.runs.plan import (
    ASK_WRITES_OPTION,
    LAB_ATTRIBUTE,
    POLICY_OPTION,
    USUAL_BUDGET,
    Child,
    OutputType,
    Plan,
    ResumeOptions,
    RunOptions,
    check_hooks,
    items_of,
    losses_of,
    object_of,
    to_request,
)
from upshot.runs.redaction import name_marks
from upshot.runs.run_context import current_run, stand_ins
from upshot.runs.services.agent_tools import with_agents
from upshot.runs.services.handoff_tools import handoff_tools
from upshot.state.run_state import RunState
from upshot.state.summary import OWNERS
from upshot.state.turns import turn_of
from upshot.tools.catalog import resolve_tools
from upshot.tools.definition.tool import Tool

# The methods of an observer and of a decider.
HOOKS = {
    name: [method for method in vars(role) if not method.startswith("_")]
    for name, role in (("observers", Observer), ("deciders", Decider))
}
# Options that a call may have and still reuse the cached plan of its agent. A trivial run takes
# 669,000 instructions with the cached plan and 735,000, 10 % more, without (callgrind).
_OPTIONS_OF_NO_EFFECT = frozenset({"journal"})
_GUARDS = ("gates", "on_pre_tool_use", "pacer", "policy", "priority")
_KEY = "_known"
_NOTHING = Request("")
# Items of an agent's tools that never change.
_FIXED = (Tool, AgentTool, FunctionType)


class AgentSetup(msgspec.Struct, eq=False):
    """What is the same for every run of an agent, since an agent is frozen."""

    output: OutputType
    handoffs: tuple[Handoff, ...]
    tools: tuple[Tool, ...] | None
    spec: AgentSpec | None
    is_fixed: bool
    usual: Plan | None = None


def known_of(agent: Agent[Any]) -> AgentSetup:
    """Return the setup of *agent*, computed at its first run."""
    kept: Local | None = vars(agent).get(_KEY)
    known = None if kept is None else kept.values[_KEY]
    if not isinstance(known, AgentSetup):
        known = _make_setup(agent)
        # Kept on the agent itself: a table would keep alive whatever refers to its agent.
        vars(agent)[_KEY] = Local(**{_KEY: known})
    return known


def without_call(plan: Plan) -> Plan:
    """Return *plan* without what belongs to its call, which the cache would keep alive."""
    return replace(
        plan,
        request=_NOTHING,
        journal=None,
        artifact_store=None,
        warnings=(),
        cached_logged=plan.logged_options(),
    )


def new_run_id() -> str:
    """Return a new, unique run id."""
    return f"run-{os.urandom(8).hex()}"


def _make_setup(agent: Agent[Any]) -> AgentSetup:
    for name, methods in HOOKS.items():
        check_hooks(name, getattr(agent, name), methods)
    own = agent.tools
    # A name is looked up among the call's tools, and a toolset may change between calls.
    is_fixed = own is not None and all(isinstance(item, _FIXED) for item in own)
    tools = None
    if own is not None and is_fixed:
        own = with_agents(own)
        tools = resolve_tools((*own, *handoff_tools(agent.handoffs)) if agent.handoffs else own)
    is_fixed = is_fixed or own is None
    # A model given by name is resolved again each time, because its key may have changed.
    summariser = None if agent.compaction is None else agent.compaction.summarise
    models = (agent.model, getattr(agent.engine, "model", None), summariser)
    return AgentSetup(
        output=OutputType.of(agent.output_type),
        handoffs=handoffs_of(agent),
        tools=tools,
        spec=agent.spec() if is_fixed else None,
        is_fixed=is_fixed and not any(isinstance(model, str) for model in models),
    )


def to_agent(agent: object, engine: Engine | None = None) -> Agent[Any]:
    """Return the agent that an API function was given."""
    if isinstance(agent, Agent):
        return cast("Agent[Any]", agent)
    if isinstance(agent, AgentSpec):
        return agent_of_spec(agent, engine)
    raise Misuse(
        f"a run needs an Agent first, not {type(agent).__name__}: run(Agent('id', ...), ...)"
    )


def agent_of_spec(spec: AgentSpec, engine: Engine | None = None) -> Agent[Any]:
    """Return the agent that *spec* describes; the names in it are resolved at the run."""
    missing = [name for name in spec.omitted if name != "observers"]
    if missing:
        raise Misuse(
            f"agent {spec.id!r} was written without its {' and '.join(missing)}, which have no "
            "JSON form: run the Agent itself, or set the spec's omitted to () to do without"
        )
    if engine is None and spec.engine not in ("", LoopEngine.__name__):
        raise Misuse(f"agent {spec.id!r} names the engine {spec.engine!r}: give run(..., engine=)")
    return Agent[Any](
        spec.id,
        model=spec.model or None,
        name=spec.name or None,
        instructions=spec.instructions,
        tools=spec.tools,
        output_type=spec.output_schema,
        handoffs=spec.handoffs,
        card=spec.card,
        budget=spec.budget,
        settings=spec.settings,
        retry=spec.retry,
        allow_empty=spec.allow_empty,
        allow_filtered=spec.allow_filtered,
        compaction=None
        if (compaction := spec.compaction) is None
        else Compaction(**cast("Any", compaction)),
        artifacts=spec.artifacts,
    )


async def plan_run(
    agent: Agent[Any] | AgentSpec,
    request: Request | str,
    options: RunOptions,
    journal: Journal | None,
    *,
    child: Child,
    handoff_messages: Sequence[Message] = (),
) -> Plan:
    """Check every argument and resolve every name.

    A plain string without options, outside any run, reuses the agent's first such plan.
    """
    is_usual = type(request) is str and options.keys() <= _OPTIONS_OF_NO_EFFECT
    is_usual = is_usual and not handoff_messages and current_run.get() is None
    agent = to_agent(agent, options.get("engine"))
    known = known_of(agent)
    if is_usual and known.usual is not None:
        return replace(
            known.usual,
            request=to_request(request),
            run_id=new_run_id(),
            journal=journal,
            artifact_store=getattr(journal, "artifacts", None),
            child=child,
        )
    _check_hooks(options)
    plan = await _plan(
        known, agent, request, options, journal, child=child, handoff_messages=handoff_messages
    )
    plan = _with_quotas(plan, items_of(options, "quotas"))
    if is_usual and known.usual is None and known.is_fixed:
        known.usual = without_call(plan)
    return plan


async def _plan(
    known: AgentSetup,
    agent: Agent[Any],
    request: Request | str,
    options: RunOptions,
    journal: Journal | None,
    *,
    child: Child,
    handoff_messages: Sequence[Message],
) -> Plan:
    given, request = request, with_conversation(to_request(request), options, journal)
    engine = options.get("engine") or agent.engine or LoopEngine()
    model = _model(agent, engine, options)
    budget = options.get("budget") or agent.budget or USUAL_BUDGET
    _check_models(engine, model)
    await check_checkpoint(options.get("resume_from"), engine, agent.id)
    near, parent, hidden = _near_parent(), _parent(), secrets_of(options)
    history, taint = history_of(request, options)
    request, attributes = _inherit(request, options, parent)
    await _check_budget(model, budget, request, journal)
    return Plan(
        agent=agent,
        request=request,
        run_id=_run_id(request, options),
        engine=engine,
        model=model,
        output=known.output,
        settings=_settings(agent, options),
        retry=options.get("retry", agent.retry),
        is_retry_given="retry" in options,
        budget=budget,
        tools=_tools(agent, options) if known.tools is None else known.tools,
        host=_host(options),
        **_hooks_of(agent, options),
        prepare=options.get("prepare"),
        handoffs=known.handoffs,
        spec=known.spec or agent.spec(),
        handoff_messages=handoff_messages,
        history=history,
        taint=taint,
        artifacts=tuple(dict.fromkeys((*agent.artifacts, *items_of(options, "artifacts")))),
        attributes=attributes,
        parent_run_id=options.get("parent_run_id") or ("" if parent is None else parent.run_id),
        resume_from=options.get("resume_from"),
        max_attempts=options.get("max_attempts") or 1,
        dependencies=options.get("dependencies"),
        journal=journal,
        approve=options.get("approve") or (None if near is None else near.approve),
        artifact_store=options.get("artifact_store") or getattr(journal, "artifacts", None),
        **_guards(options, parent),
        secrets=hidden,
        secret_marks=name_marks() if hidden else "",
        clock=options.get("clock") or (SYSTEM_CLOCK if parent is None else parent.clock),
        launch=object_of(options, "launch"),
        child=child,
        warnings=losses_of(given, options),
        summariser=agent.compaction and await _summariser(agent, budget, request, options, journal),
    )


def _with_quotas(plan: Plan, given: Sequence[Quota | BoundQuota]) -> Plan:
    """Return *plan* with its quotas, and those of the parent run."""
    parent = _parent()
    outer = () if parent is None else parent.quotas
    if not (outer or given):
        return plan
    if plan.journal is None:
        raise Misuse("quotas are kept in a journal: give journal=, or Budget(...) for this run")
    needs_shared(plan.journal)
    info = RunInfo(
        agent_id=plan.agent.id,
        run_id=plan.run_id,
        context_id=plan.request.context_id,
        attributes=plan.attributes,
    )
    return replace(plan, quotas=tuple(dict.fromkeys((*outer, *bind(given, info)))))


def _parent() -> Plan | None:
    """Return the plan of the parent run, or None for a root run."""
    link = current_run.get()
    return None if link is None else link.context.plan


def _guards(options: RunOptions, parent: Plan | None) -> dict[str, Any]:
    """Return the guards of tool and model calls; child runs inherit those that are not given."""
    guards = {name: options.get(name) for name in _GUARDS}
    guards["priority"] = guards["priority"] or 0
    if (grace_s := options.get("write_grace_s")) is not None:
        guards["write_grace_s"] = float(grace_s)
    elif parent is not None:
        guards["write_grace_s"] = parent.write_grace_s
    if isinstance(gates := guards["gates"], Iterable):
        # The caller's iterable may be readable only once.
        guards["gates"] = tuple(cast("Iterable[object]", gates))
    if parent is None:
        return guards
    return {**guards, **{name: guards[name] or getattr(parent, name) for name in _GUARDS}}


def _inherit(
    request: Request, options: RunOptions, parent: Plan | None
) -> tuple[Request, JsonObject]:
    """Return the request with the parent run's task, and the run's attributes.

    Attributes that are not given are the parent's; the owner always is, unless given.
    """
    attributes = object_of(options, "attributes")
    if parent is None:
        return request, attributes
    if options.get("attributes") is None:
        attributes = deepcopy(parent.attributes)
    elif owned := {name: parent.attributes[name] for name in OWNERS if name in parent.attributes}:
        attributes = {**owned, **attributes}
    return _with_task(request, parent.request), attributes


async def plan_again(
    past: RunState,
    run_id: str,
    agent: Agent[Any] | AgentSpec,
    options: dict[str, Any],
    journal: Journal,
    *,
    child: Child,
) -> Plan:
    """Return the plan of a resumed run; its log supplies what the call leaves out."""
    started = past.started
    if started is None:
        raise Misuse(f"run {run_id!r} never started")
    _check_no_trial(started)
    logged = past.options
    options.setdefault("attributes", started.attributes)
    options.setdefault("max_attempts", logged.get("max_attempts", 1))
    options.setdefault("parent_run_id", started.parent_run_id)
    options["quotas"] = renewed(items_of(options, "quotas"), quotas_in(logged))
    if options.get("budget") is None and "budget" in logged:
        options["budget"] = convert(logged["budget"], Budget)
    if options.get("artifacts") is None:
        options["artifacts"] = logged.get("artifacts", ())
    launch = logged.get("launch")
    if isinstance(launch, dict):
        options.setdefault("launch", launch)
    request = replace(started.request, run_id=run_id)
    plan = await plan_run(agent, request, cast("RunOptions", options), journal, child=child)
    if plan.policy is None and POLICY_OPTION in logged:
        # Resuming without a policy does not remove it.
        plan = replace(plan, policy=convert(logged[POLICY_OPTION], Policy))
    if started.options.get(ASK_WRITES_OPTION):
        plan = replace(plan, policy=_with_approvals(plan.policy))
    if (turn := turn_of(started.options)) is not None:
        plan = replace(plan, turn=turn, asked=await asked_before(turn, plan, journal))
    marks = started.options.get(MARKS_OPTION)
    return replace(plan, secret_marks=marks) if plan.secrets and isinstance(marks, str) else plan


def _check_no_trial(started: RunStarted) -> None:
    """Refuse a run of the lab outside the lab, where its tools would be real."""
    if isinstance(started.attributes.get(LAB_ATTRIBUTE), dict) and stand_ins.get() is None:
        raise Misuse(
            f"run {started.run_id!r} is a run of the lab, and its tools would be real here: "
            "start its experiment again to continue it"
        )


def _with_approvals(policy: Policy | None) -> Policy:
    """Return *policy* with an approval required for every call that may write."""
    asking = Policy(taint="off") if policy is None else policy
    rules = dict.fromkeys((*asking.ask, "effect:write", "effect:destructive"))
    return replace(asking, ask=tuple(rules))


def _with_task(request: Request, outer: Request) -> Request:
    """Return *request* with the task and conversation of the parent run, unless it names others."""
    task_id = request.task_id or outer.task_id
    context_id = request.context_id or outer.context_id
    if (task_id, context_id) == (request.task_id, request.context_id):
        return request
    return replace(request, task_id=task_id, context_id=context_id)


def secrets_of(options: RunOptions | ResumeOptions) -> tuple[str, ...]:
    """Return what is masked in a run with these options: its own secrets and its parent run's."""
    link, own = current_run.get(), items_of(options, "secrets")
    return own if link is None else tuple(dict.fromkeys((*link.context.plan.secrets, *own)))


def _run_id(request: Request, options: RunOptions) -> str:
    checkpoint = options.get("resume_from")
    if checkpoint is None:
        return request.run_id or new_run_id()
    if request.run_id and request.run_id != checkpoint.exec_id:
        raise Misuse(
            f"the checkpoint is of run {checkpoint.exec_id!r}, but the request names "
            f"{request.run_id!r}: leave the request's run_id empty"
        )
    return checkpoint.exec_id


def _check_hooks(options: RunOptions) -> None:
    if options.get("prepare") and options.get("history"):
        raise Misuse("prepare makes the board, and history would be lost: give one of the two")
    for name, methods in HOOKS.items():
        if options.get(name):
            check_hooks(name, items_of(options, name), methods)


def _hooks_of(agent: Agent[Any], options: RunOptions) -> dict[str, Any]:
    """Return the fields of a plan with the hooks: the agent's own come first."""
    return {
        "observers": (*agent.observers, *items_of(options, "observers")),
        "deciders": (*agent.deciders, *items_of(options, "deciders")),
        "committers": (*agent.committers, *items_of(options, "committers")),
        "preparers": tuple(agent.preparers),
    }


def _model(agent: Agent[Any], engine: Engine, options: RunOptions) -> Model | None:
    # Other engines may use a model of another kind, which is not checked here.
    of_engine = engine.model if isinstance(engine, LoopEngine) else None
    named = options.get("model") or of_engine or agent.model
    if named is None:
        if isinstance(engine, LoopEngine):
            raise Misuse(
                f"agent {agent.id!r} has neither a model nor an engine: "
                "give Agent(model='provider:name'), run(..., model=) or run(..., engine=)"
            )
        return None
    if isinstance(named, str):
        return resolve(named, prices=options.get("prices"))
    if isinstance(named, type):
        raise Misuse(f"model is the class {named.__name__}: make one: {named.__name__}(...)")
    if not callable(getattr(named, "call", None)):
        raise Misuse(f"model is of type {type(named).__name__}: give 'provider:name' or a Model")
    return named


async def _summariser(
    agent: Agent[Any],
    budget: Budget,
    request: Request,
    options: RunOptions,
    journal: Journal | None,
) -> Any:
    """Return what summarises older messages, after checking that the budget can price it."""
    compaction = cast("Compaction", agent.compaction)
    made: Any = compaction.summarise
    if isinstance(made, str):
        made = resolve(made, prices=options.get("prices"))
    if compaction.has_model:
        await _check_budget(made, budget, request, journal)
    return made


async def _check_budget(
    model: Model | None, budget: Budget, request: Request, journal: Journal | None
) -> None:
    if budget.scope == "conversation" and (journal is None or not request.context_id):
        raise Misuse(
            'the budget has scope="conversation", and the run is in none: give conversation= and '
            'journal=, or Budget(scope="run")'
        )
    if budget.max_cost_usd is None or budget.unpriced == "allow" or model is None:
        return
    if (loading := default_prices().load(name_of(model))) is not None:
        await loading
    if not getattr(model, "priced", False):
        raise Misuse(
            f"max_cost_usd cannot be enforced: the price of {name_of(model)} is unknown; "
            "give Budget(unpriced='allow') to run it uncounted"
        )


def _check_models(engine: Engine, model: Model | None) -> None:
    """Ask an engine with agents of its own to check that each of them has a model."""
    check = getattr(engine, "check_models", None)
    if callable(check):
        check(has_model=model is not None)


class _Asking:
    """A host that asks through the host of the parent run, and does nothing else."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self.ask_user = ask


def _host(options: RunOptions) -> object:
    near, given = _near_parent(), options.get("host")
    return _Asking(near.ask) if given is None and near is not None and near.ask else given


def _near_parent() -> Plan | None:
    """Return the plan of the parent run if it is in the same event loop, as its host is."""
    link = current_run.get()
    return link.context.plan if link is not None and link.is_near else None


def _settings(agent: Agent[Any], options: RunOptions) -> Any:
    own, over = agent.settings, options.get("settings")
    return over if own is None else own.merge(over)


def _tools(agent: Agent[Any], options: RunOptions) -> Any:
    named = with_agents(items_of(options, "tools"))
    own = named if agent.tools is None else with_agents(agent.tools)
    if not own and not agent.handoffs:
        return ()
    if agent.handoffs:
        own = (*own, *handoff_tools(agent.handoffs))
    return resolve_tools(own, named=named)
