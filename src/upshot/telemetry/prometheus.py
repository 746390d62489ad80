"""What one process did, as Prometheus counters: runs, tools, models, commits, notifications.

Each process counts only its own work, so sums over all processes are right. What is in the journal
is the same from every process and is not counted here: see ``upshot.fleet.status``.

A label never has a text of a run. Names of agents, tools and models are cleaned, and after
``MOST_NAMES`` different ones all others are ``other``, so that the number of series stays bounded.
A name that a model made up is not among them: a call of an unknown tool is ``(unknown)``. Error
codes and reasons are open words, which a tool may build from its arguments, so only upshot's own
are labels; all others are ``other``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram

from upshot.contract.base.enums import DeniedReason, Effect, ErrorCode, Status
from upshot.contract.error import AgentError
from upshot.contract.events import Event, RunSettled, ToolSettled
from upshot.contract.model_calls import ModelReplied, ModelResponse, ModelRetried
from upshot.contract.tool_calls import ToolDenied, ToolOutcome, ToolRecord
from upshot.journal.work_listeners import listen_to_work
from upshot.runs.plan import Plan
from upshot.runs.recorder import Listener, listen
from upshot.telemetry.attributes import error_type_of

MOST_NAMES = 200
"""How many different values a label may have."""
OTHER = "other"
_MOST_CHARS = 80
_UNSAFE = re.compile(r"[^\w.:/@+-]+", re.ASCII)
_RUN_S = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
_COMMIT_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_PROVIDER_ERRORS = (
    ErrorCode.AUTH_ERROR,
    ErrorCode.MODEL_UNAVAILABLE,
    ErrorCode.RATE_LIMIT,
    ErrorCode.SERVER_ERROR,
    ErrorCode.TIMEOUT,
)
# The further codes of failures that upshot itself gives to tool calls.
_OF_CALLS = (
    *("artifact_refused", "connection_lost", "cpu_limit", "in_progress", "memory_limit"),
    *("request_refused", "skill_changed", "tool_changed", "tool_error"),
    *("unserializable_output", "worker_failed"),
)
_KNOWN: frozenset[str] = frozenset({"ok", *ErrorCode, *DeniedReason, *_OF_CALLS})
_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


class Names:
    """The values of a label: cleaned, and bounded in number."""

    def __init__(self, most: int = MOST_NAMES) -> None:
        self._most = most
        self._known: dict[str, str] = {}

    def clean(self, name: str) -> str:
        """Return *name* as a label has it; ``other`` once there are too many."""
        found = self._known.get(name)
        if found is None:
            if len(self._known) >= self._most:
                return OTHER
            found = self._known[name] = _UNSAFE.sub("_", name)[:_MOST_CHARS]
        return found


class ProcessMetrics:
    """Counts what this process does until ``close``.

    Args:
        registry: Gets the metrics.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        def count(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"upshot_{name}", text, labels, registry=registry)

        def times(name: str, text: str, bounds: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"upshot_{name}", text, labels, registry=registry, buckets=bounds)

        self._ended = count("runs_ended", "Runs that ended.", "agent", "status", "error")
        self._parked = count("runs_parked", "Sessions that ended with a question.", "agent")
        self._took = times("run_seconds", "Time of a run, to its end.", _RUN_S, "agent")
        self._tools = count(
            "tool_calls", "Tool calls by outcome: ok, or what went wrong.", "tool", "outcome"
        )
        self._unknown = count(
            "unknown_effects", "Tool calls that ended with an unknown effect.", "tool"
        )
        self._calls = count(
            "model_calls", "Tries of model calls: ok, or what went wrong.", "model", "outcome"
        )
        self._tokens = count(
            "model_tokens", "Tokens, as the provider counts them.", "model", "kind"
        )
        self._cost = count("model_cost_usd", "Money for calls with a known price.", "model")
        self._waits = count("model_waits", "Waits before model calls.", "model", "reason")
        self._waited = count(
            "model_wait_seconds", "Time waited before model calls.", "model", "reason"
        )
        self._commits = times("commit_seconds", "Time of a commit of the journal.", _COMMIT_S)
        self._lost = count("leases_lost", "Runs that another process has claimed from this one.")
        self._notified = count("notifications", "Notifications that were sent.", "outcome")
        self._agents, self._tool_names, self._models = Names(), Names(), Names()
        for outcome in ("delivered", "failed"):
            self._notified.labels(outcome)
        self._ends = [listen(self._follow), listen_to_work(self)]

    def expect(self, agents: Iterable[str], models: Iterable[str]) -> None:
        """Count what alarms are on from 0 for these agents and models.

        Prometheus sees no increase in a series whose first value is 1.
        """
        for agent in agents:
            code = str(ErrorCode.WORKER_LOST)
            self._ended.labels(self._agents.clean(agent), str(Status.FAILED), code)
        for model in models:
            for outcome in ("ok", *_PROVIDER_ERRORS):
                self._calls.labels(self._models.clean(model), str(outcome))

    def close(self) -> None:
        """Count nothing more; sessions in progress are still counted to their end."""
        ends, self._ends = self._ends, []
        for end in ends:
            end()

    def committed(self, took_s: float, /) -> None:
        """See ``WorkListener.committed``."""
        self._commits.observe(took_s)

    def lost(self, runs: int, /) -> None:
        """See ``WorkListener.lost``."""
        self._lost.inc(runs)

    def notified(self, *, is_delivered: bool) -> None:
        """See ``WorkListener.notified``."""
        self._notified.labels("delivered" if is_delivered else "failed").inc()

    def called(self, tool: str, outcome: ToolOutcome, /) -> None:
        """See ``WorkListener.called``; the calls of runs are counted here too."""
        self._count_outcome(self._tool_names.clean(tool), outcome)

    def _count_outcome(self, name: str, outcome: ToolOutcome) -> None:
        self._tools.labels(name, _to_label(error_type_of(outcome) or "ok")).inc()
        if outcome.effect == Effect.UNKNOWN:
            self._unknown.labels(name).inc()

    def _follow(self, plan: Plan) -> Listener:
        agent = self._agents.clean(plan.agent.id)
        names = {tool.name for tool in plan.tools}
        counts: dict[type, Callable[[Any], None]] = {
            ModelReplied: self._count_reply,
            ModelRetried: self._count_retry,
            ToolSettled: lambda event: self._count_tool(names, event),
            RunSettled: lambda event: self._count_end(agent, event),
        }

        def count(fact: Event | ModelResponse) -> None:
            if isinstance(fact, ModelResponse):
                # An engine called the model by itself.
                self._count_call(str(fact.provider_data.get("model") or ""), fact)
            elif (taken := counts.get(type(fact))) is not None:
                taken(fact)

        return count

    def _count_end(self, agent: str, event: RunSettled) -> None:
        result = event.result
        if result.status == Status.INPUT_REQUIRED:
            self._parked.labels(agent).inc()
        else:
            code = _code_of(result.error, "")
            self._ended.labels(agent, str(result.status), code).inc()
            self._took.labels(agent).observe(result.duration_ms / 1000)

    def _count_tool(self, names: Collection[str], event: ToolSettled) -> None:
        record = event.record
        if _is_made_up(record, names):
            self._count_outcome("(unknown)", record.outcome)
        else:
            self.called(record.tool_name, record.outcome)

    def _count_reply(self, event: ModelReplied) -> None:
        self._count_call(event.model, event.response)

    def _count_retry(self, event: ModelRetried) -> None:
        self._count_call(event.model, event.response)
        if event.wait_s > 0:
            self._note_wait(event.model, _code_of(event.error, "retry"), event.wait_s)

    def _count_call(self, name: str, response: ModelResponse) -> None:
        model = self._models.clean(name)
        self._calls.labels(model, _code_of(response.error, "ok")).inc()
        for kind in _TOKENS:
            if (count := getattr(response.usage, kind)) is not None:
                self._tokens.labels(model, kind.removesuffix("_tokens")).inc(count)
        cost = response.cost
        if cost is not None and cost.total is not None and cost.currency == "USD":
            self._cost.labels(model).inc(float(cost.total))
        paced_ms = response.provider_data.get("paced_ms")
        if isinstance(paced_ms, int):
            self._note_wait(name, "turn", paced_ms / 1000)

    def _note_wait(self, model: str, reason: str, waited_s: float) -> None:
        labels = (self._models.clean(model), reason)
        self._waits.labels(*labels).inc()
        self._waited.labels(*labels).inc(waited_s)


def _code_of(error: AgentError | None, without: str) -> str:
    return without if error is None else _to_label(error.code)


def _to_label(code: str) -> str:
    """Return an error code or a reason as a label has it."""
    return str(code) if code in _KNOWN else OTHER


def _is_made_up(record: ToolRecord, names: Collection[str]) -> bool:
    # Another gate may have refused the call before its tool was looked up.
    is_unseen = isinstance(record.outcome, ToolDenied) and not record.tool_version
    return is_unseen and record.tool_name not in names
