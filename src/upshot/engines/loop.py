"""LoopEngine: model, tools, model, until there is an answer.

Its whole state is on the board: the last message says what comes next. So a resumed run simply
continues, and a logged call is never made again.

Messages are on the board in the order in which things happened. If a call waited for an approval,
later outcomes of its reply may come before its own. A model reads them in the order of the calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar, NoReturn

from upshot.contract.base.checks import check_whole
from upshot.contract.base.enums import ErrorCode, Origin, Role
from upshot.contract.base.structs import unchecked
from upshot.contract.error import AgentError
from upshot.contract.message import CUT, Message, MessageList
from upshot.contract.model_calls import ModelRequest, ModelResponse
from upshot.contract.protocols import Model
from upshot.contract.result import OUTPUT_VAR
from upshot.contract.run_control import Checkpoint, Compacted
from upshot.contract.tool_calls import ToolCall, ToolOutcome
from upshot.runs.engine_api.exceptions import Failed, Interrupted, Parked
from upshot.runs.engine_api.run_host import RunHost
from upshot.runs.engine_api.run_view import Run
from upshot.state.board import Board
from upshot.tools.execution.batch import SLICE
from upshot.tools.toolbox import Toolbox

# Module constants: in Python 3.11, looking a member up on its enum class is slow.
_ASSISTANT = Role.ASSISTANT
_USER = Role.USER
# Makes the message of an outcome.
_make_message = unchecked(Message(Role.TOOL))


class InCallOrder:
    """Puts the outcomes in a channel into call order, for the model requests of one session.

    Only messages from earlier sessions can be out of order, because within a session the outcomes
    of a reply are added together. So the messages are searched once.
    """

    def __init__(self) -> None:
        self._shown: MessageList | None = None
        self._is_looked = False
        self._compacted: Compacted | None = None
        # The number of messages that the copy contains.
        self._taken = 0

    def of(self, messages: MessageList, compacted: Compacted | None = None) -> MessageList:
        """Return *messages* if they are in order, else a sorted copy that grows with them.

        Args:
            messages: The messages of the channel.
            compacted: What replaces older messages; None for nothing.
        """
        if not self._is_looked or compacted is not self._compacted:
            self._is_looked, self._compacted, self._shown = True, compacted, None
            ordered = in_call_order(messages)
            sent = ordered if compacted is None else compacted.sent(ordered)
            if sent is not messages:
                self._shown, self._taken = messages.in_order(sent), len(messages)
        if self._shown is None:
            return messages
        self._shown.extend(messages[self._taken :])
        self._taken = len(messages)
        return self._shown.so_far()


def in_call_order(messages: Sequence[Message]) -> Sequence[Message]:
    """Return *messages* with the outcomes after each reply in the order of its calls.

    Returns:
        The same object if nothing has to move.
    """
    moved: list[Message] | None = None
    for at, message in enumerate(messages):
        if len(message.tool_calls) < 2:
            # One call needs no order.
            continue
        places = {call.id: place for place, call in enumerate(message.tool_calls)}
        if len(places) < len(message.tool_calls):
            # If two calls share an id, it is unknown which outcome belongs to which.
            continue
        end = at + 1
        while end < len(messages) and messages[end].role is Role.TOOL:
            end += 1
        found = messages[at + 1 : end]
        ordered = sorted(found, key=lambda one: places.get(one.tool_call_id or "", len(places)))
        if any(a is not b for a, b in zip(ordered, found, strict=True)):
            moved = list(messages) if moved is None else moved
            moved[at + 1 : end] = ordered
    return messages if moved is None else moved


def keeps_points(host: RunHost) -> bool:
    """Whether the host takes checkpoints; only the run's own host can say so."""
    return bool(getattr(host, "keeps_checkpoints", False))


async def save_point(run: Run, host: RunHost, board: Board, *, step: str, iteration: int) -> None:
    """Give the host a checkpoint of the current *board*.

    Args:
        run: The run.
        host: Its host, which takes checkpoints.
        board: Its content is copied.
        step: Where the engine continues from there, in its own words.
        iteration: The number of steps so far.
    """
    await host.checkpoint(Checkpoint(run.id, step, board.snapshot(), iteration=iteration))


_CORRECTIVE_TURNS = 1
# Appended to a reply that was cut off when the run was stopped, to continue it.
_CONTINUE = Message(Role.USER, "Your reply was cut off there. Go on.")
# The step of a loop's checkpoints; their iteration is the turn.
_POINT = "turn"


def _complete_calls(response: ModelResponse) -> tuple[ToolCall, ...]:
    """Return the calls of a failed reply to keep: only a filtered reply has complete ones."""
    error = response.error
    is_filtered = error is not None and error.code == ErrorCode.CONTENT_FILTER
    return response.tool_calls if is_filtered else ()


class LoopEngine:
    """Calls the model, runs the tools that it calls, and repeats until it answers.

    Args:
        model: Used if the call names none; overrides the agent's model. None uses the agent's.
        corrective_turns: How often an answer that is not of the output type is sent back with
            an explanation, before the run fails with invalid_output.
    """

    # It resumes from the log, so it is not asked whether it can resume.
    goes_on_by_log: ClassVar[bool] = True

    def __init__(
        self, model: Model | None = None, *, corrective_turns: int = _CORRECTIVE_TURNS
    ) -> None:
        check_whole("corrective_turns", corrective_turns)
        self.model = model
        self.corrective_turns = corrective_turns

    def __repr__(self) -> str:
        return f"LoopEngine({'' if self.model is None else repr(self.model)})"

    def can_resume(self, checkpoint: Checkpoint) -> bool:
        """Whether the checkpoint is of a loop and its board is not empty."""
        return checkpoint.step == _POINT and bool(checkpoint.board.channels)

    async def execute(self, run: Run, host: RunHost, board: Board) -> Board:
        """Work on the main channel of *board* until the model answers without calls.

        Raises:
            Interrupted: The run was asked to stop.
            Failed: The model's error persists, or the answer is not of its type.
            Parked: A tool call waits for an approval.
        """
        turns = _Turns(run, host, board, self)
        if run.reply is not None and run.reply.error is not None and not run.is_again:
            turns.fail_again(run.reply, run.reply.error)
        while not await turns.run_turn():
            pass
        return board

    async def ask_model(self, run: Run, host: RunHost, request: ModelRequest) -> ModelResponse:
        """Return the reply of one turn: by the run's model, unless another engine uses this one."""
        return await run.call_model(request, model=None if run.engine is self else self.model)


class _Turns:
    """The turns of one attempt: the board, and how many corrections are left."""

    def __init__(self, run: Run, host: RunHost, board: Board, engine: LoopEngine) -> None:
        self._run = run
        self._host = host
        self._stop_request = host.interrupts
        self._board = board
        self._engine = engine
        # Inside an engine that called hand_back, this loop's calls are answered from the log too.
        self._is_again = run.is_again
        roles: list[Role] = []
        if board.last_produced() is not None:
            produced = board.so_far()[len(board.seeded()) :]
            roles = [message.role for message in produced if message != _CONTINUE]
        # Earlier sessions may have used corrections; nothing else adds user messages here.
        self._corrections = engine.corrective_turns - roles.count(_USER)
        self._number = roles.count(_ASSISTANT)
        self._keeps_points = keeps_points(host)
        self._order = InCallOrder()

    def fail_again(self, reply: ModelResponse, error: AgentError) -> None:
        """Fail like the earlier session, whose last reply was an error.

        Raises:
            Failed: Unless the request was too long and can be compacted.
        """
        replies = [one for one in self._board.produced() if one.role is Role.ASSISTANT]
        is_shown = bool(replies) and (replies[-1].text, replies[-1].tool_calls) == (
            reply.content or "",
            _complete_calls(reply),
        )
        if is_shown or not self._run.may_compact(error):
            self._run.reply = None
            self._fail(reply, error, is_shown=is_shown)

    async def run_turn(self) -> bool:
        """Do what the last message asks for; True if the run has its answer."""
        last = self._board.last_produced()
        if last is not None and (calls := self._board.open_calls()):
            await self._call_tools(calls)
            return self._run.handoff is not None
        # A provider continues a reply that it paused when it is sent back unchanged.
        if last is None or last.role is not _ASSISTANT or last.paused:
            if self._run.handoff is not None:
                return True
            await self._stop_if_asked()
            # Not before the first turn, where there is nothing to resume.
            if self._keeps_points and self._number:
                run, host, number = self._run, self._host, self._number
                await save_point(run, host, self._board, step=_POINT, iteration=number)
            await self._call_model()
            return False
        if last.metadata.get(CUT):
            self._board.append(_CONTINUE)
            return False
        return self._conclude()

    # -- model calls

    async def _call_model(self) -> None:
        self._number += 1
        run = self._run
        response = None if self._is_again else run.reply
        if response is not None:
            # An earlier session got and counted it, but died before it was on the board.
            run.reply = None
        else:
            if run.agent.handoffs:
                await run.ask_filters()
            if run.agent.compaction is not None:
                await run.compact()
            response = await self._engine.ask_model(run, self._host, self._request())
        while response.error is not None and await run.compact(response.error):
            response = await self._engine.ask_model(run, self._host, self._request())
        if response.error is not None:
            self._fail(response, response.error, is_shown=False)
        self._board.append(response.to_message())

    def _fail(self, response: ModelResponse, error: AgentError, *, is_shown: bool) -> NoReturn:
        calls = _complete_calls(response)
        if (response.content or calls) and not is_shown:
            # The text before the fault. The end of the attempt settles calls that are not made.
            message = Message(Role.ASSISTANT, response.content or "", tool_calls=calls)
            self._board.append(message)
        raise Failed(error)

    def _request(self) -> ModelRequest:
        # Until the engine has caught up with the log, messages come one by one.
        board = self._board
        is_again, messages = board.is_again, board.so_far()
        return ModelRequest(
            InCallOrder().of(messages) if is_again else self._order.of(messages, board.compacted),
            system=self._run.instructions,
            tools=self._run.schemas,
            output_schema=self._run.output.schema,
            settings=self._run.settings,
        )

    async def _stop_if_asked(self) -> None:
        stop = await self._stop_request()
        if stop:
            raise Interrupted(stop.cause, stop.detail)

    # -- tools

    async def _call_tools(self, calls: list[ToolCall]) -> None:
        """Run *calls* and put their outcomes on the board, even when cancelled."""
        run, tools = self._run, self._run.tools
        if await self._stop_request():
            # The request to stop came during the model call or while parked: start no call.
            tools.cancel(running=False)
        # Only once, because a later reply may use the same ids.
        settled, earlier = ({}, None) if self._is_again else run.pop_left_over()
        outcomes = [settled[call.id] for call in calls if call.id in settled] if settled else []
        fresh = [call for call in calls if call.id not in settled] if settled else calls
        # A cancelled dispatch returns nothing; the outcomes are then found in the records.
        known = len(tools.records)
        try:
            if run.has_repeated_ids:
                # In an old log an answer or outcome may belong to either call, so make neither.
                outcomes += await tools.call_off(
                    fresh, earlier and earlier.started, turn=self._number
                )
            elif earlier is not None and any(earlier):
                outcomes += await tools.resume(fresh, earlier, turn=self._number)
            else:
                outcomes += await tools.dispatch(fresh, turn=self._number)
        except asyncio.CancelledError:
            # The calls were settled nevertheless; the messages must stay valid.
            outcomes += [record.outcome for record in tools.records[known:]]
            await self._append_outcomes(tools, calls, outcomes)
            raise
        await self._append_outcomes(tools, calls, outcomes)
        if tools.pending:
            if await self._stop_request():
                # The request to stop came while others ran: ask no more questions.
                waiting = self._board.open_calls()
                off = await tools.call_off(waiting, turn=self._number)
                await self._append_outcomes(tools, waiting, off)
            if pending := tools.pending:
                raise Parked(*pending)
        if why := tools.stalled:
            raise Failed(AgentError(ErrorCode.NO_PROGRESS, why, origin=Origin.MODEL))
        await self._stop_if_asked()

    async def _append_outcomes(
        self, tools: Toolbox, calls: list[ToolCall], outcomes: list[ToolOutcome]
    ) -> None:
        """Put *outcomes* on the board; for thousands of calls, in several changes."""
        # A list for each id, because a confused model may use one id twice.
        by_call: dict[tuple[str, str], list[ToolOutcome]] = {}
        for outcome in outcomes:
            by_call.setdefault((outcome.call_id, outcome.tool_name), []).append(outcome)
        for first in range(0, len(calls), SLICE):
            if first:
                await asyncio.sleep(0)
            shown = [
                _make_message(
                    content=tools.content_of(by_call[call.id, call.name].pop(0)),
                    tool_call_id=call.id,
                    name=call.name,
                    metadata={},
                )
                for call in calls[first : first + SLICE]
                if by_call.get((call.id, call.name))
            ]
            self._board.extend(shown)

    # -- answering

    def _conclude(self) -> bool:
        """Accept the last text as the answer, or send it back once with an explanation."""
        output = self._run.output
        if output.is_text:
            return True
        try:
            self._board.set(OUTPUT_VAR, output.parse(self._board.answer() or ""))
        except ValueError as error:
            if self._corrections <= 0:
                raise Failed(
                    AgentError(ErrorCode.INVALID_OUTPUT, str(error), origin=Origin.MODEL)
                ) from error
            self._corrections -= 1
            self._board.append(
                Message(Role.USER, f"{error}. Answer again with nothing but the corrected JSON.")
            )
            return False
        return True
