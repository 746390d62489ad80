"""GraphEngine: walks through a graph.

Each step runs all nodes at the same time that no other node under way can still reach. So what a
node sees depends on the graph and on what nodes did, and never on which was faster.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast

from msgspec.structs import replace

from upshot.contract.agent_spec import HANDOFF_STATE_KEY
from upshot.contract.base.checks import kind_of
from upshot.contract.base.enums import Effect, ErrorCode, Origin, Role
from upshot.contract.base.json_values import to_free_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import AgentError
from upshot.contract.message import Message
from upshot.contract.model_calls import Request
from upshot.contract.result import OUTPUT_VAR, AgentResult
from upshot.contract.run_control import Checkpoint
from upshot.contract.tool_calls import (
    ToolArtifactReference,
    ToolCall,
    ToolDenied,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolTimeout,
)
from upshot.engines.common import (
    ask_about,
    asked_in,
    check_models,
    form_of,
    hand_over,
    lent_options,
    read_handoff,
    warn_of_unread,
)
from upshot.engines.graph.branches import BoardCopy, Branch, Change, Merge, apply, join, read_change
from upshot.engines.graph.graph import Graph
from upshot.engines.graph.nodes import (
    AgentTask,
    ForEach,
    Node,
    Parallel,
    Question,
    ToolTask,
    WaitSignal,
    members_of,
)
from upshot.engines.walk import Visits, Walk, together
from upshot.errors import Misuse
from upshot.native.returned import reported_error, reports_failure
from upshot.runs.callbacks import blame
from upshot.runs.ending import read_returned
from upshot.runs.engine_api.exceptions import Aborted, Failed, Interrupted, Parked
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run
from upshot.state.board import Board

Commit: TypeAlias = Callable[[Sequence[Change]], None]


class _NodeOutcome(NamedTuple):
    """The outcome of a node: its branch after it, what it returned, and the next nodes.

    The handoff is the one that its last agents made.
    """

    branch: Branch
    value: Json
    targets: Sequence[str] = ()
    handoff: JsonObject | None = None


async def walk_graph(
    walk: Walk, graph: Graph, board: Board, *, key: str, commit: Commit, start: str = ""
) -> JsonObject | None:
    """Walk through *graph* from its start until nothing is under way.

    Args:
        walk: The walk that it belongs to.
        graph: The graph.
        board: What its first node sees; it is not written to.
        key: The prefix of the keys of its steps.
        commit: Called with the changes, whenever a single branch is left.
        start: Another node to start at.

    Returns:
        The handoff that the last agent of a branch made, None if there is none.

    Raises:
        Failed: No edge can be followed, the step limit is reached, branches conflict, or a node
            failed.
        Aborted: An agent in a node was aborted.
        Interrupted: The run was asked to stop, between nodes or in an agent.
        Parked: The run waits for the user.
    """
    return await _GraphWalk(walk, graph, board, key, commit).run(start or graph.start)


class _GraphWalk:
    def __init__(self, walk: Walk, graph: Graph, board: Board, key: str, commit: Commit) -> None:
        self._walk = walk
        self._graph = graph
        self._base = board
        self._commit = commit
        self._visits = Visits(
            walk, graph.nodes, graph.max_steps, key=key, word="node", option="Graph(max_steps=)"
        )

    async def run(self, start: str) -> JsonObject | None:
        self._visits.check_known(start)
        # The branches that arrived at each node, with the place of the previous node.
        arrived: dict[str, list[tuple[int, Branch]]] = {start: [(-1, Branch(board=self._base))]}
        ended: list[tuple[int, Branch]] = []
        handoff: JsonObject | None = None
        while arrived:
            self._settle_fork(arrived, ended)
            # All ready nodes finish before the next step, so that where branches meet does not
            # depend on which was faster.
            ready = self._graph.ready(arrived)
            branches = [self._join(arrived.pop(name), name) for name in ready]
            is_alone = len(branches) == 1 and not arrived and not ended
            # Only when alone: a join must still see what this branch changed since the fork, while
            # others are under way or have ended.
            if is_alone:
                branches = [self._settle(branches[0])]
            await self._walk.stop_if_asked()
            if is_alone and self._visits.has_points:
                await self._visits.save_point(ready[0])
            # All are counted before the first of them runs, so that no key depends on which is
            # faster.
            keys = self._visits.enter(*ready)
            works = [self._visit(*one) for one in zip(ready, keys, branches, strict=True)]
            for name, done in zip(ready, await together(works), strict=True):
                place = self._graph.places[name]
                for target in done.targets:
                    self._visits.check_known(target)
                    arrived.setdefault(target, []).append((place, done.branch))
                if not done.targets:
                    ended.append((place, done.branch))
                    # In the order of the nodes: of several parallel handoffs, the first counts.
                    handoff = handoff or done.handoff
        self._settle(self._join(ended, "the end"))
        return handoff

    def _join(self, arrived: list[tuple[int, Branch]], name: str) -> Branch:
        if len(arrived) == 1:
            return arrived[0][1]
        # In node order, not in the order of time: messages are the same in each session.
        arrived.sort(key=lambda one: one[0])
        # One branch arrives twice if two edges of a node lead here by different paths.
        branches = list(dict.fromkeys(branch for _, branch in arrived))
        return join(self._base, branches, self._graph.merges, name)

    def _settle_fork(
        self, arrived: dict[str, list[tuple[int, Branch]]], ended: Sequence[object]
    ) -> None:
        """Commit the common changes of several branches when they start."""
        if len(arrived) == 1 or ended:
            return
        branches = {branch for waiting in arrived.values() for _, branch in waiting}
        if len(branches) == 1:
            settled = self._settle(branches.pop())
            for name, waiting in arrived.items():
                arrived[name] = [(place, settled) for place, _ in waiting]

    def _settle(self, branch: Branch) -> Branch:
        """Commit the changes of the only branch left."""
        if not branch.story:
            return branch
        self._commit(branch.story)
        self._base = branch.board
        return Branch(board=branch.board)

    async def _visit(self, name: str, key: str, branch: Branch) -> _NodeOutcome:
        step = _Step(self._walk, key, self._graph.merges)
        return await step.run_node(
            name,
            self._graph.nodes[name],
            branch,
            route=lambda board: self._route(name, board, step.handoff),
        )

    async def _route(self, name: str, board: Board, handoff: JsonObject | None) -> list[str]:
        """Return the next nodes, by the edges whose conditions hold."""
        edges = self._graph.edges_of(name)
        targets: list[str] = []
        shown: Board | None = None
        for _, target, condition in edges:
            if condition is not None:
                # On a copy: changes by a condition would not be in the log.
                shown = shown or BoardCopy(board)
                try:
                    holds = await _evaluate(condition, shown)
                except Exception as error:
                    # The session handles the exception; here it is known whose code raised it.
                    blame(error, f"the condition from {name!r} to {target!r}", self._walk.run.id)
                    raise
                if not holds:
                    continue
            if target not in targets:
                targets.append(target)
        if edges and not targets and name not in self._graph.ends:
            raise Failed(
                ErrorCode.DEAD_END,
                f"no condition of the edges of {name!r} holds: add an edge without one, or name "
                f"it an end, Graph(ends=[{name!r}])",
                details={"node": name},
            )
        if handoff and targets and all(edge.condition is None for edge in edges):
            how = "a condition can look at board.get('handoff')"
            to = str(handoff["to_agent_id"])
            await warn_of_unread(self._walk.host, f"the node {name!r}", to, how)
        return targets


class _Step:
    """One visit of one node: a keyed step in the log.

    Args:
        walk: The walk that it belongs to.
        key: The key of the step.
        merges: By variable.
        keeps: Whether to store the node's return value on the board if it names no variable.

    Attributes:
        handoff: The handoff of an agent in it, None for none.
    """

    def __init__(
        self, walk: Walk, key: str, merges: Mapping[str, Merge], *, keeps: bool = True
    ) -> None:
        self._walk = walk
        self._keeps = keeps
        self._key = key
        self._merges = merges
        self._board: BoardCopy | None = None
        self.handoff: JsonObject | None = None

    async def run_node(
        self, name: str, node: Node, branch: Branch, *, route: Callable[[Board], Any] | None = None
    ) -> _NodeOutcome:
        """Run the node, or return its logged outcome."""

        async def body() -> dict[str, object]:
            # Earlier changes must be in the log before this step.
            self._walk.flush()
            board, value = await self._try(name, node, branch.board)
            self._board = board
            form = board.changes()
            # Without a route, the value is for the Parallel or ForEach that contains the node.
            if route is not None:
                # Within the step, so that the route is logged: a resumed run evaluates no condition
                # again.
                if targets := await route(board):
                    form["to"] = targets
            elif value is not None:
                form["value"] = value
            if self.handoff is not None:
                form["handoff"] = self.handoff
            return form

        host, effect = self._walk.host, node.effect
        logged: Any
        if node.asks:
            # Questions are numbered as they come, so ask each again; the host has the answers.
            form = await body()
            logged = await host.step(self._key, Effect.READ, lambda: form)
        else:
            logged = await host.step(self._key, effect, body, idempotent=node.idempotent)
        return self._to_outcome(name, branch, logged)

    def _to_outcome(self, name: str, branch: Branch, form: JsonObject) -> _NodeOutcome:
        board = self._board
        # The outcome came from the log: nothing ran in this session.
        if board is None:
            after = branch.after(read_change(name, form))
        else:
            # From the logged form, so that this session sees the same values as a later one.
            after = branch.after(board.settle(name, form), board)
        to: Any = form.get("to", ())
        handoff: Any = form.get("handoff")
        return _NodeOutcome(after, form.get("value"), to, handoff)

    async def _try(self, name: str, node: Node, base: Board) -> tuple[BoardCopy, Any]:
        """Work on a copy of *base*, with retries; a failed try changes nothing."""
        tries = 1 + await self._walk.tries_before(self._key)
        while True:
            # A copy for each try: changes of a failed one are dropped with it.
            board, self.handoff = BoardCopy(base), None
            # A child run that failed has ended, so a further try needs another run, with its own
            # key.
            key = self._key if tries == 1 else f"{self._key}~{tries}"
            try:
                value = await self._work(name, node, board, key)
            # These are not failures of the node: another try would end in the same way.
            except (Parked, Interrupted, Aborted, Misuse):
                raise
            except Exception as error:
                # Boundary: whether the node is retried depends only on the error.
                if not await self._may_try_again(node, error, tries):
                    blame(error, f"the node {name!r}", self._walk.run.id)
                    raise
                tries += 1
            else:
                return board, value

    async def _may_try_again(self, node: Node, error: Exception, tries: int) -> bool:
        reported = reported_error(error)
        if reported is not None and not reported.retryable:
            return False
        floor_s = getattr(reported or error, "retry_after_s", None) or 0.0
        return await self._walk.may_try_again(
            tries, node.attempts, node.backoff_s, key=self._key, floor_s=floor_s
        )

    async def _work(self, name: str, node: Node, board: BoardCopy, key: str) -> Any:
        walk, work, output = self._walk, node.work, node.output
        match work:
            case AgentTask():
                is_retried = node.attempts > 1
                value, self.handoff = await _run_agent(
                    walk, work, board, key, is_retried=is_retried
                )
                if work.is_typed:
                    output = output or self._default_output(name)
            case ToolTask():
                value = await _call_tool(walk, work, board, key)
                output = output or self._default_output(name)
            case Question():
                value = await _ask_person(walk, work, board, key)
                output = output or self._default_output(name)
            case Parallel():
                value = await self._parallel(work, board, key)
            case ForEach():
                value = await self._foreach(work, board, key)
                output = output or self._default_output(name)
            case Graph():
                value = await self._subgraph(work, board, key)
            case _:
                function: Any = work
                given = (board, walk.run) if node.wants_run else (board,)
                value = _answer_of(await _evaluate(function, *given), is_named=bool(output))
                if self._keeps or isinstance(value, Board):
                    _store_value(board, value, output=output, name=name)
                    return value if output else None
        if output:
            _store_value(board, value, output=output, name=name)
        return value

    def _default_output(self, name: str) -> str:
        return name if self._keeps else ""

    async def _subgraph(self, graph: Graph, board: BoardCopy, key: str) -> Json:
        story: list[Change] = []
        # Its first node gets a copy, since the changes are applied to this board at the end. They
        # go into the value of this step, not to the run's board, since this node may still fail.
        self.handoff = await walk_graph(
            self._walk, graph, BoardCopy(board), key=f"{key}/", commit=story.extend
        )
        _apply_all(story, board)
        return board.get(OUTPUT_VAR) if any(OUTPUT_VAR in one.variables for one in story) else None

    async def _parallel(self, work: Parallel, board: BoardCopy, key: str) -> Json:
        # The branches start from a copy, because only the join applies their changes to *board*.
        base = Branch(board=BoardCopy(board))
        members = dict(members_of(work))
        works = [
            _Step(self._walk, f"{key}/{name}", self._merges).run_node(name, node, base)
            for name, node in members.items()
        ]
        done = await together(works)
        _apply_all(join(base.board, [one.branch for one in done], self._merges, key).story, board)
        self.handoff = _first_handoff(done)
        return {name: one.value for name, one in zip(members, done, strict=True)}

    async def _foreach(self, work: ForEach, board: BoardCopy, key: str) -> Json:
        items = work.items
        found = board.get(items) if isinstance(items, str) else await _evaluate(items, board)
        # As JSON, like in the log, so that each session uses the same items.
        listed = to_free_json(found)[0]
        if not isinstance(listed, list):
            raise Misuse(f"ForEach needs a list, got {kind_of(listed)}: {items!r}")
        if not listed:
            return []
        _, node = next(members_of(work))
        asked = board.asked or asked_in(board.messages(), self._walk.run.feedback)
        works: list[Any] = []
        for number, item in enumerate(listed):
            mine = BoardCopy(board)
            # Lent, because as a change of every branch it would be a conflict at the join.
            mine.lend(work.name, item)
            mine.asked = ask_about(item, asked)
            # Kept as a variable, the return values of the items would conflict.
            step = _Step(self._walk, f"{key}/{number}", self._merges, keeps=False)
            works.append(step.run_node(str(number), node, Branch(board=mine)))
        done = await together(works, at_once=work.at_once)
        # Variables with a merge are wanted outside too.
        own = work.own_names.difference(self._merges)
        branches = [one.branch.without(own) for one in done]
        _apply_all(join(BoardCopy(board), branches, self._merges, key).story, board)
        self.handoff = _first_handoff(done)
        return [_value_of(one, own) for one in done]


def _value_of(done: _NodeOutcome, own: Collection[str]) -> Json:
    """Return the value of an item, or the variables that a graph without output set."""
    if done.value is not None:
        return done.value
    found = {
        name: value
        for change in done.branch.story
        for name, value in change.variables.items()
        if name in own
    }
    return found or None


def _first_handoff(done: Sequence[_NodeOutcome]) -> JsonObject | None:
    return next((one.handoff for one in done if one.handoff is not None), None)


def _apply_all(story: Sequence[Change], board: Board) -> None:
    for change in story:
        apply(change, board)


# -- the work of one node


async def _evaluate(function: Callable[..., Any], *arguments: object) -> Any:
    """Call a user's function, sync or async."""
    value = function(*arguments)
    # isawaitable is not cheap, and most conditions return one of these.
    if value is None or value is True or value is False:
        return value
    return await value if inspect.isawaitable(value) else value


def _answer_of(value: Any, *, is_named: bool) -> Any:
    """Return what a function returned; for a result, a reply or the like, its answer.

    Args:
        value: What it returned.
        is_named: Whether a variable takes it. Otherwise a mapping contains variables, and so does
            one with only a text as error, which edges can test.

    Raises:
        Signal: It is a form of a result that did not complete.
    """
    if value is None or isinstance(value, str | int | Board):
        return value
    is_data = isinstance(value, Mapping)
    if is_data:
        variables = cast("Mapping[str, object]", value)
        is_alone = not is_named and len(variables) == 1 and isinstance(variables.get("error"), str)
        if is_alone or not reports_failure(variables):
            return variables
    returned = read_returned(cast("object", value))
    if returned is not None and returned.ending is not None:
        raise returned.ending
    return cast("object", value) if returned is None or is_data else returned.answer


async def _run_agent(
    walk: Walk, task: AgentTask, board: BoardCopy, key: str, *, is_retried: bool
) -> tuple[Any, JsonObject | None]:
    """Run an agent as a child run; its answer is appended to the board.

    Args:
        walk: The walk that it belongs to.
        task: The agent and its request.
        board: The board of the node.
        key: The key of the child run, which resumes if it was interrupted.
        is_retried: Whether the node has retries; then its model calls have none, because the waits
            would multiply.

    Returns:
        Its output, and its handoff, None for none. The handoff is also set on the board.

    Raises:
        Aborted: It was aborted, and so is the run.
        Interrupted: It was interrupted, and so is the run.
        Failed: It did not complete for another reason.
        Parked: It waits for the user.
    """
    asked = task.request
    if callable(asked):
        asked = await _evaluate(asked, board)
    if asked is None:
        asked = board.asked or asked_in(board.messages(), walk.run.feedback)
    request = asked
    if not isinstance(request, Request):
        request = Request(str(asked), inputs=walk.run.request.inputs)
    options = lent_options(walk.run)
    if is_retried:
        options["retry"] = None
    result: AgentResult[Any] = await walk.run.child(task.agent, request, key=key, **options)
    returned = read_returned(result)
    if returned is not None and returned.ending is not None:
        raise returned.ending
    if result.content:
        board.append(Message(Role.ASSISTANT, result.content))
    handoff = None if result.handoff is None else form_of(result.handoff)
    if handoff is not None or (task.agent.handoffs and board.get(HANDOFF_STATE_KEY) is not None):
        # Remove an earlier handoff if this agent made none.
        board.set(HANDOFF_STATE_KEY, handoff)
    return result.output if result.output is not None else result.content, handoff


async def _call_tool(walk: Walk, task: ToolTask, board: Board, call_id: str) -> Json:
    """Call a tool of the run, unless an earlier session has settled the call.

    Returns:
        What it returned.

    Raises:
        Failed: It was refused, failed, or took too long.
        Parked: It waits for an approval.
    """
    run = walk.run
    arguments = task.arguments
    if callable(arguments):
        arguments = await _evaluate(arguments, board)
    given = cast("Mapping[str, Json]", arguments)
    call = ToolCall(call_id, task.tool, dict(given))
    # The graph itself decides about repetition, so each call is a turn of its own.
    run.tools.new_turn()
    outcomes = await run.tools.dispatch([call])
    if not outcomes:
        raise Parked(*run.tools.pending_of(call_id))
    return _output_of(outcomes[0])


def _output_of(outcome: ToolOutcome) -> Json:
    error = AgentError(
        outcome.code or ErrorCode.INTERNAL,
        f"tool {outcome.tool_name!r} failed",
        type=outcome.kind,
        origin=Origin.TOOL,
    )
    match outcome:
        case ToolExecutionResult(output=output):
            # An output that is not a mapping has been stored under this name.
            return output["result"] if output.keys() == {"result"} else output
        case ToolArtifactReference(artifact_id=id, summary=summary, size_bytes=size):
            return {"artifact_id": id, "summary": summary, "size_bytes": size}
        case ToolDenied(reason=reason, details=details):
            code = outcome.code or ErrorCode.POLICY_DENIED
            message = f"tool {outcome.tool_name!r} was refused ({reason}): {details}"
            raise Failed(replace(error, code=code, message=message))
        case ToolTimeout(timeout_s=limit, retryable=retryable):
            code = outcome.code or ErrorCode.TIMEOUT
            message = f"tool {outcome.tool_name!r} took longer than {limit:g} s"
            raise Failed(replace(error, code=code, message=message, retryable=retryable))
        case ToolFailure(error=text, retryable=retryable, retry_after_s=after_s):
            message = f"tool {outcome.tool_name!r} failed: {text}"
            raise Failed(
                replace(error, message=message, retryable=retryable, retry_after_s=after_s)
            )


async def _ask_person(walk: Walk, question: Question, board: Board, key: str) -> Json:
    """Ask the user, or wait for a signal.

    Raises:
        Parked: The user cannot answer now, or the signal has not arrived.
    """
    text = question.text
    if callable(text):
        text = str(await _evaluate(text, board))
    if isinstance(question, WaitSignal):
        return await walk.host.wait_signal(text, key=key)
    return await walk.questions.ask(key, text, question.choices)


def _store_value(board: Board, value: Any, *, output: str, name: str) -> None:
    """Put a function's return value on the board.

    Args:
        board: The node's copy of it.
        value: What it returned.
        output: The variable that takes it, "" for a board or a mapping of variables.
        name: The name of the node, for the error.

    Raises:
        Misuse: Without *output*, it is neither None, a board, nor a mapping.
    """
    if output:
        board.set(output, value)
    elif isinstance(value, Board):
        board.adopt(value)
    elif isinstance(value, Mapping):
        for variable, given in cast("Mapping[str, Any]", value).items():
            board.set(variable, given)
    elif value is not None:
        raise Misuse(
            f"node {name!r} returned {kind_of(value)}: return None, the board or a mapping "
            f"of variables, or name the variable that takes it, Node(..., output={OUTPUT_VAR!r})"
        )


class GraphEngine:
    """Walks through *graph*; each node is a step in the log, and a finished one does not run again.

    Args:
        graph: The graph.

    Raises:
        Misuse: It is not a Graph.
    """

    # It resumes from the log, so it is not asked whether it can resume.
    goes_on_by_log: ClassVar[bool] = True

    def __init__(self, graph: Graph) -> None:
        if not isinstance(graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            found = kind_of(graph)
            raise Misuse(f"a GraphEngine walks a Graph, not {found}: GraphEngine(Graph(nodes))")
        self.graph = graph

    def __repr__(self) -> str:
        return f"GraphEngine({self.graph!r})"

    def can_resume(self, checkpoint: Checkpoint) -> bool:
        """Whether the checkpoint is named after a node; the graph then starts there."""
        return checkpoint.step in self.graph.nodes

    def check_models(self, *, has_model: bool) -> None:
        """Check that all its agents have a model, before anything starts.

        Args:
            has_model: Whether the run has a model that agents without one may use.

        Raises:
            Misuse: Some have none; all of them are named.
        """
        check_models(self.graph.agents(), has_model=has_model)

    async def execute(self, run: Run, host: RunHost, board: Board) -> Board:
        """Walk through the graph from its start, or from the node that a checkpoint names.

        Raises:
            Interrupted: The run was asked to stop, between nodes or in an agent.
            Aborted: An agent in a node was aborted.
            Failed: No edge can be followed, branches conflict, the step limit is reached, or a node
                failed.
            Parked: The run waits for the user.
        """
        walk, graph = Walk(run, host, board, "graph"), self.graph
        first = await walk.begin(graph.start, graph.digest)
        try:
            handoff = await walk_graph(
                walk, graph, first, key=walk.key, commit=walk.commit, start=walk.start
            )
        finally:
            # Keep what was done in the result, however the walk ended.
            walk.flush()
        await hand_over(run, host, read_handoff(handoff))
        return board
