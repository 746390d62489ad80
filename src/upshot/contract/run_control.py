"""Interrupts, checkpoints and finalize decisions."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Literal, TypeAlias, cast

from upshot.contract.base.checks import kind_of
from upshot.contract.base.enums import CauseField, InterruptCause, word
from upshot.contract.base.json_values import clean_fields
from upshot.contract.base.structs import (
    Json,
    JsonObject,
    Moment,
    Root,
    RunEvent,
    Value,
    check_types,
    set_field,
    settle_moments,
    written,
)
from upshot.contract.message import Message
from upshot.errors import Misuse

SPEC_VERSION = "upshot.checkpoint/1"


class Compacted(RunEvent, frozen=True, kw_only=True):
    """Older messages were replaced in the requests to models; the board and the log keep them.

    It applies until the next one, which also replaces the messages that this one left. The next
    reply says how many tokens are sent now.

    Attributes:
        end: How many messages of the main channel are replaced, including the messages in ``kept``.
        kept: The positions of messages before *end* that are still sent: system messages, and the
            request.
        summary: Sent after these, in place of the other messages; None if they were dropped.
        tokens_before: The input tokens of the last model call, as its provider counted them; None
            if it did not.
        turn: The turn of the last model call before it, 0 before the first.
    """

    end: int = 0
    kept: tuple[int, ...] = ()
    summary: Message | None = None
    tokens_before: int | None = None
    turn: int = 0

    def sent(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages to send instead of *messages*, those of the main channel."""
        summary = () if self.summary is None else (self.summary,)
        return [*map(messages.__getitem__, self.kept), *summary, *messages[self.end :]]


class BoardSnapshot(Value, frozen=True, kw_only=True):
    """A board as it was at one moment.

    Attributes:
        channels: Messages in order, by channel name.
        variables: JSON values by name.
        seeded: How many messages of each channel were on the board before the engine started.
        compacted: What replaces the older messages in requests to models; None for nothing.
    """

    channels: dict[str, tuple[Message, ...]] = {}
    variables: JsonObject = {}
    seeded: dict[str, int] = {}
    compacted: Compacted | None = None


class _Point(Root, frozen=True, kw_only=False):
    exec_id: str
    step: str
    board: BoardSnapshot = BoardSnapshot()


class Checkpoint(_Point, frozen=True, kw_only=True):
    """A point where a run can continue.

    Attributes:
        exec_id: The id of the run.
        step: The engine's name for the point.
        board: The board at that point; a Board is replaced by its snapshot.
        iteration: How many steps the engine had taken.
        payload: What the engine needs in addition to the board.
        attributes: The run's attributes.
        timestamp: When the checkpoint was saved.
        original_started_at: When the run first started; kept when it is resumed.
        agent_id: The agent of the run; "" if unknown.
        spec_version: The version of the payload's format; checked when it is read.
    """

    iteration: int = 0
    payload: Json = None
    attributes: JsonObject = {}
    timestamp: Moment | None = None
    original_started_at: Moment | None = None
    agent_id: str = ""
    spec_version: str = written(SPEC_VERSION)

    def __post_init__(self) -> None:
        settle_moments(self, "timestamp", "original_started_at")
        if self.attributes is None:  # pyright: ignore[reportUnnecessaryComparison]  # callers may be untyped
            set_field(self, "attributes", {})
        if not isinstance(self.board, BoardSnapshot):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            set_field(self, "board", _snapshot_of(self.board))
        check_types(self)


def _snapshot_of(board: object) -> BoardSnapshot:
    taken = None if isinstance(board, type) else getattr(board, "snapshot", None)
    made: object = taken() if callable(taken) else None
    if isinstance(made, BoardSnapshot):
        return made
    raise Misuse(f"a checkpoint needs a BoardSnapshot, got {kind_of(board)}: give board.snapshot()")


Verdict: TypeAlias = Literal["accept", "discard", "keep_partial", "refuse", "revise"]


class FinalizeDecision(Value, frozen=True, kw_only=True):
    """One decider's decision; created by its five constructors.

    Attributes:
        verdict: What to do with the attempt. Any refuse wins, then any discard, then any revise.
        reason: Why. The first reason given is stored as ``state["finalize_reason"]``, the reason of
            the winning verdict in ``Committed.reason`` and ``AttemptLine.revise_reason``.
        feedback: Instructions for the next attempt, for revise.
        state: Facts to merge into the result's ``state``.
    """

    verdict: Verdict = written("accept")
    reason: str = ""
    feedback: str = ""
    state: JsonObject = {}

    def __post_init__(self) -> None:
        clean_fields(self, "reason", "feedback")
        check_types(self)

    @staticmethod
    def accept(reason: str = "", *, state: JsonObject | None = None) -> FinalizeDecision:
        """Accept the attempt as it is.

        Args:
            reason: Why, for the log; "" for no reason.
            state: Facts for ``result.state``; None for none.
        """
        return FinalizeDecision(verdict="accept", reason=reason, state=state or {})

    @staticmethod
    def discard(reason: str, *, state: JsonObject | None = None) -> FinalizeDecision:
        """Do not commit the attempt, whatever its result.

        Args:
            reason: Why; it becomes the reason of ``Committed``.
            state: Facts for ``result.state``; None for none.
        """
        return FinalizeDecision(verdict="discard", reason=reason, state=state or {})

    @staticmethod
    def refuse(reason: str, *, state: JsonObject | None = None) -> FinalizeDecision:
        """Fail the run with code ``policy_denied``, and withhold its answer.

        Args:
            reason: Why; the error of the run names the decider and this reason.
            state: Facts for ``result.state``; None for none.
        """
        return FinalizeDecision(verdict="refuse", reason=reason, state=state or {})

    @staticmethod
    def keep_partial(reason: str, *, state: JsonObject | None = None) -> FinalizeDecision:
        """Commit what an interrupted attempt has produced so far.

        Args:
            reason: Why, for the log.
            state: Facts for ``result.state``; None for none.
        """
        return FinalizeDecision(verdict="keep_partial", reason=reason, state=state or {})

    @staticmethod
    def revise(
        feedback: str, reason: str = "", *, state: JsonObject | None = None
    ) -> FinalizeDecision:
        """Start another attempt with *feedback*, if attempts are left.

        Args:
            feedback: What the next attempt should do better.
            reason: Why, for the log; "" is the feedback.
            state: Facts for ``result.state``; None for none.
        """
        return FinalizeDecision(
            verdict="revise", reason=reason or feedback, feedback=feedback, state=state or {}
        )


class Interrupt(Value, frozen=True, kw_only=False):
    """Why a run is asked to stop.

    Attributes:
        cause: user_cancel, user_input, host_shutdown, deadline, custom, or your own word.
        detail: A free explanation.
    """

    cause: CauseField = word(InterruptCause.NONE)
    detail: str = ""

    def __post_init__(self) -> None:
        # A request to stop must not fail on a wrong type: other values are converted to text.
        cause, detail = cast("tuple[object, object]", (self.cause, self.detail))
        if type(cause) is not InterruptCause:
            set_field(self, "cause", InterruptCause(_text(cause)))
        if type(detail) is not str:
            set_field(self, "detail", _text(detail))
        clean_fields(self, "detail")


def _text(given: object) -> str:
    # The word of the caller's own enum is its value; str() would give "Why.USER".
    value: object = given.value if isinstance(given, Enum) else given
    if isinstance(value, str):
        return str.__str__(value)
    return "" if value is None else str(value)
