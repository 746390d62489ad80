"""What the console's API sends: one struct for each reply.

The console's script is checked against these types (``tests/serve/test_console_types.py``), so a
field that the script reads is a field that some reply has.
"""

from __future__ import annotations

from decimal import Decimal

from upshot.contract.agent_spec import AgentSpec
from upshot.contract.base.structs import Json, JsonObject, Moment, Value
from upshot.contract.conversation import ConversationSummary
from upshot.contract.effects import EffectEntry
from upshot.contract.message import Message
from upshot.contract.protocols import Note, RunSummary
from upshot.contract.usage import RateLimitWindow
from upshot.contract.user import User
from upshot.entry.annotations import Grant
from upshot.fleet.worker_list import WorkerState
from upshot.journal.run_counts import LimitedRun, OpenWork, SlowCall
from upshot.journal.shared import InboxItem
from upshot.lab.kept_reports import KeptExperiment
from upshot.runs.replay.comparison import Difference
from upshot.serve.contradictions import Contradiction
from upshot.state.activity import Tone
from upshot.state.run_view import Answered, Head


class AgentLine(Value, frozen=True, kw_only=True):
    """An agent of the App.

    Attributes:
        id: Its id.
        description: The description on its card; "" if it has none.
    """

    id: str
    description: str = ""


class Me(Value, frozen=True, kw_only=True):
    """The signed-in user, and what every page needs.

    Attributes:
        user: The signed-in user.
        agents: The agents that this process has.
        version: The version of the App's code.
        waits: How many items wait in runs that the user may see.
        trace_url: The address of a run's spans; "" if the site has none.
        lab: Whether the user sees the lab.
        datasets: Whether the user may add runs to datasets.
        workers: Whether the user may see the workers.
        audit: Whether the user may read the audit.
        sessions: Whether users sign in to sessions, and may sign out.
    """

    user: User
    agents: tuple[AgentLine, ...]
    version: str
    waits: int
    trace_url: str
    lab: bool = False
    datasets: bool = False
    workers: bool = False
    audit: bool = False
    sessions: bool = False


class Live(Value, frozen=True, kw_only=True):
    """The list of runs or the inbox may have changed.

    Attributes:
        waits: How many items wait in runs that the user may see.
    """

    waits: int


class RunList(Value, frozen=True, kw_only=True):
    """One page of the list of runs.

    Attributes:
        runs: The runs.
        next: The ``before`` of the next page; None on the last page.
        notes: The notes on each run that has some, if they were asked for.
        searched: How many runs were read to find a text; 0 if none was asked for.
        back_to: The start of the run that was read last; None if there are no more to read.
        answered: Those runs whose every question was answered and that wait for a worker.
    """

    runs: tuple[RunSummary, ...]
    next: str | None
    notes: dict[str, tuple[Note, ...]] = {}
    searched: int = 0
    back_to: Moment | None = None
    answered: tuple[str, ...] = ()


class BulkOutcome(Value, frozen=True, kw_only=True):
    """The outcome of an act on one of several runs.

    Attributes:
        run_id: The run.
        error: Why it was not done; "" if it was.
    """

    run_id: str
    error: str = ""


class BulkDone(Value, frozen=True, kw_only=True):
    """The outcomes of an act on several runs.

    Attributes:
        outcomes: One for each run, in the order of the request.
    """

    outcomes: tuple[BulkOutcome, ...]


class Begun(Value, frozen=True, kw_only=True):
    """A run that was submitted or forked.

    Attributes:
        run_id: The run.
        conversation: The id of its conversation in the journal; "" for none.
    """

    run_id: str
    conversation: str = ""


class CallAgain(Value, frozen=True, kw_only=True):
    """A call that a fork would repeat.

    Attributes:
        seq: The ``seq`` of its event in the run.
        tool: The tool; "" for a model call.
        call: The id of the tool call.
        model: The model; "" for a tool call.
    """

    seq: int
    tool: str = ""
    call: str = ""
    model: str = ""


class ForkDraft(Value, frozen=True, kw_only=True):
    """What a fork would repeat.

    Attributes:
        again: The calls after the event where it would start.
    """

    again: tuple[CallAgain, ...]


class Replayed(Value, frozen=True, kw_only=True):
    """Whether a run would do the same today as its log says.

    Attributes:
        same: Whether it would.
        compared: How many facts of the log were compared.
        difference: The first difference; None if there is none.
    """

    same: bool
    compared: int
    difference: Difference | None


class StepLine(Value, frozen=True, kw_only=True):
    """A step of a run beside one of another run.

    Attributes:
        step: Its ``Row.id``.
        kind: Its kind.
        given: The call with its arguments, or the name of the step.
        got: How it ended, and what it returned or said, shortened.
        tone: Whether that is good, odd or bad.
    """

    step: int
    kind: str
    given: str
    got: str
    tone: Tone


class ComparedStep(Value, frozen=True, kw_only=True):
    """Steps of two runs that correspond.

    Attributes:
        left: The step of the first run; None if only the second has it.
        right: The step of the second run; None if only the first has it.
        same: Whether both were given the same and got the same.
    """

    left: StepLine | None
    right: StepLine | None
    same: bool


class Compared(Value, frozen=True, kw_only=True):
    """What differs between two runs.

    Attributes:
        difference: The first difference; None if there is none.
        heads: The facts about both.
        agents: The agents of both, as their logs have them; None for a run that has not started.
        steps: Their steps in order.
    """

    difference: Difference | None
    heads: tuple[Head, ...]
    agents: tuple[AgentSpec | None, ...]
    steps: tuple[ComparedStep, ...]


class CauseLine(Value, frozen=True, kw_only=True):
    """Why one run of a chain ended as it did.

    Attributes:
        run_id: The run.
        agent: Its agent.
        status: Its status.
        says: Why, in one sentence.
        code: Its error code; "" if it has none.
        step: The ``Row.id`` of the step that decided it; None if no single step did.
        kind: The kind of that step.
        name: The name of that step.
    """

    run_id: str
    agent: str
    status: str
    says: str
    code: str
    step: int | None
    kind: str
    name: str


class Causes(Value, frozen=True, kw_only=True):
    """Why a run ended as it did.

    Attributes:
        chain: The run, then the child run that it ended by, and so on.
    """

    chain: tuple[CauseLine, ...]


class UnreadAnswer(Value, frozen=True, kw_only=True):
    """An answer that no session has read yet.

    Attributes:
        id: What it answers.
        by: Who gave it, "" if unknown.
        at: When.
        did: What they did: "approved", "denied" or the like.
        is_part: Whether it is one of several approvals that a call needs, and more are missing.
    """

    id: str
    by: str
    at: Moment | None
    did: str
    is_part: bool = False


class UnreadAnswers(Value, frozen=True, kw_only=True):
    """The answers to what a run waits for that no session has read yet.

    Attributes:
        answers: The answers, oldest first for each question.
    """

    answers: tuple[UnreadAnswer, ...]


class Costly(Value, frozen=True, kw_only=True):
    """Whether a run cost much more than others of its agent.

    Attributes:
        says: How much more, in one sentence; "" if it did not, or too few others are known.
    """

    says: str


class Copied(Value, frozen=True, kw_only=True):
    """A copy of a run or of a step that stands alone.

    Attributes:
        text: The text to paste.
        note: What to know about it, or a command that makes the same; "" for nothing.
    """

    text: str
    note: str = ""


class InboxEntry(InboxItem, frozen=True, kw_only=True):
    """An inbox item, as one user sees it.

    Attributes:
        description: The tool's description; "" if it is not known.
        answerable: Whether the user may answer it.
        due_at: When the answer is due; None if there is no deadline.
        after_due: What happens if it is late: see ``InboxItem.then``.
        contradictions: The arguments of a call that contradict the request.
        named: The paths of those whose value the request has.
        lookup: As in ``EffectLine``; "" if no effect is asked about.
    """

    description: str
    answerable: bool
    due_at: Moment | None
    after_due: str
    contradictions: tuple[Contradiction, ...]
    named: tuple[str, ...]
    lookup: str


class InboxPage(Value, frozen=True, kw_only=True):
    """One page of the inbox.

    Attributes:
        items: The items, the longest waiting first, without those that the user snoozed.
        total: How many items wait on all pages, snoozed ones included; None if the page is
            filtered by *assignee*.
        next: The ``before`` of the next page; None on the last page.
    """

    items: tuple[InboxEntry, ...]
    total: int | None
    next: str | None


class SentTool(Value, frozen=True, kw_only=True):
    """A tool of an agent, as models see it.

    Attributes:
        name: Its name.
        description: Its description; "" if it is not known.
        parameters: The JSON Schema of its arguments.
        withheld: Whether the call left it out.
    """

    name: str
    description: str = ""
    parameters: JsonObject = {}
    withheld: bool = False


class SentMessage(Value, frozen=True, kw_only=True):
    """A message of a model call.

    Attributes:
        message: The message; None if the log does not have it, since an engine made it for the
            call.
        is_new: Whether the call before did not send it.
    """

    message: Message | None
    is_new: bool


class SentRequest(Value, frozen=True, kw_only=True):
    """The whole input of one model call.

    Attributes:
        model: The model.
        purpose: As ``ModelStarted.purpose``.
        instructions: The instructions of the agent, as the log has them.
        is_instructed: Whether these were sent; else a decider or a function gave others.
        tools: The tools of the agent as it is today, and those that the call left out.
        has_tools: Whether these were sent; else the agent has changed, or the call had more.
        skipped: How many messages at the start are left out of this reply.
        messages: The messages in order.
        hidden: The messages that compaction left out of the call.
        before: The event of the model call before; 0 for the first.
        changed: The other parts that differ from the call before: "model", "instructions",
            "tools", "settings".
        dropped: How many messages of the call before are not sent any more.
    """

    model: str
    purpose: str
    instructions: str
    is_instructed: bool
    tools: tuple[SentTool, ...]
    has_tools: bool
    skipped: int
    messages: tuple[SentMessage, ...]
    hidden: tuple[Message, ...]
    before: int
    changed: tuple[str, ...]
    dropped: int


class EarlierDecision(Answered, frozen=True, kw_only=True):
    """An earlier decision about a call of the same tool.

    Attributes:
        run_id: The run that asked.
        same: Whether the arguments were the same.
    """

    run_id: str
    same: bool


class EarlierDecisions(Value, frozen=True, kw_only=True):
    """Earlier decisions about calls of the same tool.

    Attributes:
        answered: The decisions: those about the same arguments first, then the newest.
    """

    answered: tuple[EarlierDecision, ...]


class GrantList(Value, frozen=True, kw_only=True):
    """The standing approvals.

    Attributes:
        grants: The standing approvals of runs that the user may see.
    """

    grants: tuple[Grant, ...]


class EffectLine(EffectEntry, frozen=True, kw_only=True):
    """An effect, as one user sees it.

    Attributes:
        said: The last outcome of the call if the effect is unknown; "" if it has none.
        settleable: Whether the user may settle it.
        lookup: What is asked whether it happened: the tool of a ``Lookup``, or "verify" for a
            function of the tool; "" if there is nothing to ask.
    """

    said: str
    settleable: bool
    lookup: str


class EffectChecked(Value, frozen=True, kw_only=True):
    """The result of calling ``verify`` about an effect.

    Attributes:
        effect: The effect as it is now.
        said: What was found out, in words.
        seen: The result of the tool that a ``Lookup`` names; None without one.
    """

    effect: EffectLine
    said: str
    seen: Json


class EffectPage(Value, frozen=True, kw_only=True):
    """One page of the list of effects.

    Attributes:
        effects: The unknown ones first, each group newest first.
        next: The ``after`` of the next page; None on the last page.
    """

    effects: tuple[EffectLine, ...]
    next: str | None


class DatasetLine(Value, frozen=True, kw_only=True):
    """A dataset in the site's folder.

    Attributes:
        name: Its name.
        cases: How many cases it has.
        fault: Why it cannot be read; "" if it can.
    """

    name: str
    cases: int = 0
    fault: str = ""


class LabPage(Value, frozen=True, kw_only=True):
    """The lab: its experiments and datasets.

    Attributes:
        experiments: The experiments, the last started first.
        datasets: The datasets, by name.
        keeps_datasets: Whether runs can be added to datasets.
    """

    experiments: tuple[KeptExperiment, ...]
    datasets: tuple[DatasetLine, ...]
    keeps_datasets: bool


class ReportPart(Value, frozen=True, kw_only=True):
    """A part of the report of an experiment.

    Attributes:
        name: The experiment.
        nodes: A list of nodes: each a tag with classes, its attributes, and its children.
        next: The ``after`` of the next part; None for the last.
    """

    name: str
    nodes: Json
    next: int | None


class CasesAdded(Value, frozen=True, kw_only=True):
    """Runs were added to a dataset.

    Attributes:
        path: The file.
        added: How many cases are new; the others were in it.
        cases: How many it has now.
    """

    path: str
    added: int
    cases: int


class NoteList(Value, frozen=True, kw_only=True):
    """The notes of a run.

    Attributes:
        notes: The notes, oldest first.
    """

    notes: tuple[Note, ...]


class ConversationList(Value, frozen=True, kw_only=True):
    """The list of conversations.

    Attributes:
        conversations: The conversations, newest first.
    """

    conversations: tuple[ConversationSummary, ...]


class ConversationPage(Value, frozen=True, kw_only=True):
    """A conversation.

    Attributes:
        id: The conversation.
        runs: Its runs, oldest first.
        messages: The messages of its committed turns.
        revision: How many turns were committed.
    """

    id: str
    runs: tuple[RunSummary, ...]
    messages: tuple[Message, ...]
    revision: int


class Fault(Value, frozen=True, kw_only=True):
    """Why a request was refused.

    Attributes:
        error: One sentence.
    """

    error: str


class OverviewSums(Value, frozen=True, kw_only=True):
    """The runs that started in a period.

    Attributes:
        statuses: How many have each status, without zeros.
        costs: What they cost, by currency.
        applied: How many have the worst effect "applied".
        unknown: How many have "unknown".
        p50_s: The seconds that half of them took at most; None if there are none.
        p95_s: The seconds that 95 % of them took at most.
    """

    statuses: dict[str, int]
    costs: dict[str, Decimal]
    applied: int
    unknown: int
    p50_s: float | None
    p95_s: float | None


class OverviewPart(Value, frozen=True, kw_only=True):
    """The runs that started in a part of a period.

    Attributes:
        since: The start of the part.
        statuses: How many have each status, without zeros.
        costs: What they cost, by currency.
    """

    since: Moment
    statuses: dict[str, int]
    costs: dict[str, Decimal]


class OverviewAgent(Value, frozen=True, kw_only=True):
    """The runs of an agent in a period.

    Attributes:
        agent_id: The agent.
        runs: How many.
        before: How many in the period before.
        failed: How many of them failed or were aborted.
        costs: What they cost, by currency.
        p50_s: The seconds that half of them took at most.
        p95_s: The seconds that 95 % of them took at most.
    """

    agent_id: str
    runs: int
    before: int
    failed: int
    costs: dict[str, Decimal]
    p50_s: float | None
    p95_s: float | None


class OverviewError(Value, frozen=True, kw_only=True):
    """The runs of a period that failed with a code.

    Attributes:
        code: The error code.
        runs: How many.
        before: How many in the period before.
    """

    code: str
    runs: int
    before: int


class OverviewCalls(Value, frozen=True, kw_only=True):
    """The calls of a model or tool in the runs of a period.

    Attributes:
        name: The model or tool.
        calls: How many.
        failed: How many of them failed.
        p50_s: The seconds that half of them took at most; None if that was not measured.
        p95_s: The seconds that 95 % of them took at most.
        p95_before_s: The same for the period before; None without calls in it.
    """

    name: str
    calls: int
    failed: int
    p50_s: float | None
    p95_s: float | None
    p95_before_s: float | None


class ModelLimit(Value, frozen=True, kw_only=True):
    """What the provider of a model allows, as its last known reply said.

    Attributes:
        model: The model.
        at: When the session ended whose replies said so; None if none did in the period.
        windows: The rate-limit windows.
        refused: How many calls of the period a rate limit refused.
        runs: The last run that it refused in each part of the period, the latest first.
    """

    model: str
    at: Moment | None
    windows: tuple[RateLimitWindow, ...]
    refused: int
    runs: tuple[LimitedRun, ...]


class ToolLine(Value, frozen=True, kw_only=True):
    """The calls of a tool in the runs of a period.

    Attributes:
        name: The tool.
        calls: How many were started.
        failed: How many of them failed or timed out.
        timed_out: How many of them timed out.
        unknown: How many may have had an effect.
        denied: How many more were denied, without those cancelled because their run was stopped.
        repeated: How many more asked for what an earlier call had done, in any run.
        p50_s: The seconds that half of the calls took at most; None if there are none.
        p95_s: The seconds that 95 % of them took at most.
        p95_before_s: The same for the period before.
        approvals: How many approvals of its calls were answered.
        approval_p50_s: The seconds that half of these answers took at most.
        approval_p95_s: The seconds that 95 % of them took at most.
        slowest: The slowest call of each part of the period, the slowest first.
    """

    name: str
    calls: int
    failed: int
    timed_out: int
    unknown: int
    denied: int
    repeated: int
    p50_s: float | None
    p95_s: float | None
    p95_before_s: float | None
    approvals: int
    approval_p50_s: float | None
    approval_p95_s: float | None
    slowest: tuple[SlowCall, ...]


class ToolList(Value, frozen=True, kw_only=True):
    """The tools that the runs of a period called.

    Attributes:
        period: "hour", "day" or "week".
        since: The start of the period.
        until: The end of its last part, which is not over yet.
        tools: The tools, the one with the longest p95 first.
    """

    period: str
    since: Moment
    until: Moment
    tools: tuple[ToolLine, ...]


class WorkerList(Value, frozen=True, kw_only=True):
    """The workers of the journal.

    Attributes:
        workers: The workers, and other processes that hold runs; those that are gone last.
        drainable: Whether the user may drain them.
    """

    workers: tuple[WorkerState, ...]
    drainable: bool


class Overview(Value, frozen=True, kw_only=True):
    """How the runs of a period ended that the user may see, and what has not ended.

    Attributes:
        period: "hour", "day" or "week".
        since: The start of the period.
        until: The end of its last part, which is not over yet.
        step_s: The length of each part in seconds.
        now: The runs of the period.
        before: The runs of the period before, which has the same length.
        parts: The parts of the period.
        agents: The agents with most runs.
        errors: Why runs failed, the most frequent code first.
        models: The models with most calls.
        tools: The tools with most calls.
        work: What has not ended.
        ages_s: The ages by which ``work.waiting`` counts, in seconds.
        workers: The processes that work on runs; none for a user who may not see all runs.
        limits: What providers allow, those that refused calls first; none for such a user too.
    """

    period: str
    since: Moment
    until: Moment
    step_s: int
    now: OverviewSums
    before: OverviewSums
    parts: tuple[OverviewPart, ...]
    agents: tuple[OverviewAgent, ...]
    errors: tuple[OverviewError, ...]
    models: tuple[OverviewCalls, ...]
    tools: tuple[OverviewCalls, ...]
    work: OpenWork
    ages_s: tuple[int, ...]
    workers: tuple[WorkerState, ...]
    limits: tuple[ModelLimit, ...]


class SessionLine(Value, frozen=True, kw_only=True):
    """A user who is signed in with a browser; see ``WebSession``.

    Attributes:
        id: Names the session.
        user: The user.
        tenant: The user's tenant.
        name: The user's name for people.
        address: The address that signed in.
        browser: The browser, as it names itself.
        started_at: When the user signed in.
        seen_at: When the last request came, to the minute.
        until: When the session ends at the latest.
        here: Whether it is the session of this request.
    """

    id: str
    user: str
    tenant: str = ""
    name: str = ""
    address: str = ""
    browser: str = ""
    started_at: Moment
    seen_at: Moment
    until: Moment
    here: bool = False


class SessionList(Value, frozen=True, kw_only=True):
    """The sessions that a user may see and end.

    Attributes:
        sessions: The sessions, last seen first.
    """

    sessions: tuple[SessionLine, ...]


class SessionsEnded(Value, frozen=True, kw_only=True):
    """Sessions were ended.

    Attributes:
        ended: How many.
    """

    ended: int


class SignedOut(Value, frozen=True, kw_only=True):
    """The session is over.

    Attributes:
        to: Where the browser signs out at the provider, "" for nowhere.
    """

    to: str = ""
