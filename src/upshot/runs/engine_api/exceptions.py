"""The exceptions that an engine or a script raises to end a run without an answer.

They are not errors of upshot. The session turns each into a status and an error of the result, so
callers never see them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast, overload

from upshot.contract.base.checks import kind_of
from upshot.contract.base.enums import ErrorCode, Origin
from upshot.contract.base.json_values import UnserializableError, clean_text, to_free_json
from upshot.contract.base.structs import JsonObject
from upshot.contract.error import AgentError
from upshot.contract.pending import Pending
from upshot.contract.result import AgentResult
from upshot.contract.run_control import Interrupt
from upshot.errors import Misuse


class Signal(Exception):
    """The base class of what engines raise to end a run.

    Attributes:
        last_text: Text of the agent that ended the run and is not on a board yet; the run adds it.
        result: The result it was made from, with facts of its last call; None if raised by code.
        raised: The exception of a hook that ends the run, for the result's ``raw``.
    """

    last_text: str = ""
    raised: Exception | None = None
    result: AgentResult[Any] | None = None


class Interrupted(Signal):
    """The run obeyed a request to stop; it ends as interrupted.

    Attributes:
        interrupt: The cause and detail of the request.
    """

    def __init__(self, cause: str = "", detail: str = "") -> None:
        self.interrupt: Interrupt = Interrupt(cause, detail)
        super().__init__(self.detail or self.cause or "interrupted")

    @property
    def cause(self) -> str:
        """The cause of the interrupt."""
        return str(self.interrupt.cause)

    @property
    def detail(self) -> str:
        """More about the cause, for people."""
        return self.interrupt.detail


class Aborted(Signal):
    """The run cannot continue and gives up; it ends as aborted.

    Attributes:
        error: Why.
    """

    def __init__(self, message: str, code: str = ErrorCode.INTERNAL) -> None:
        super().__init__(message)
        self.error: AgentError = AgentError(ErrorCode(code), str(message), origin=Origin.ENGINE)

    @property
    def code(self) -> ErrorCode:
        """The code of the error."""
        return self.error.code


class Failed(Signal):
    """The run ends as failed with this error: ``Failed(error)`` or ``Failed(code, message)``.

    The details are converted to JSON here, so that they cannot hide the failure itself. A value
    without a JSON form is replaced by a text that describes it.

    Attributes:
        error: Why.
        lost: JSON pointers of what was replaced in the details; the run warns of them.
    """

    lost: tuple[str, ...] = ()

    @overload
    def __init__(self, error: AgentError, /) -> None: ...
    @overload
    def __init__(
        self,
        code: str,
        message: str,
        *,
        retryable: bool = False,
        details: JsonObject | None = None,
    ) -> None: ...
    def __init__(
        self,
        code: AgentError | str,
        message: str = "",
        *,
        retryable: bool = False,
        details: JsonObject | None = None,
    ) -> None:
        error = code
        if not isinstance(error, AgentError):
            facts, self.lost = _to_facts(details) if details else ({}, ())
            error = AgentError(
                ErrorCode(error),
                str(message),
                retryable=bool(retryable),
                details=facts,
                origin=Origin.ENGINE,
            )
        super().__init__(str(error))
        self.error = error

    @property
    def code(self) -> ErrorCode:
        """The code of the error."""
        return self.error.code

    def __reduce__(self) -> tuple[type[Failed], tuple[AgentError], dict[str, object]]:
        # By default the message alone would be passed, and read as a code.
        return type(self), (self.error,), self.__dict__


class Parked(Signal):
    """The run waits for an answer; this session ends as input_required.

    Engines must not catch it.

    Args:
        pending: What it waits for, as separate arguments or iterables such as ``result.pending``. A
            string is a reason for people, and not a question.

    Attributes:
        pending: What it waits for.
        reason: Why, "" if no reason was given.

    Raises:
        Misuse: It is given something else.
    """

    def __init__(self, *pending: Pending | Iterable[Pending] | str) -> None:
        waits: list[Pending] = []
        reasons: list[str] = []
        for given in pending:
            if isinstance(given, str):
                reasons.append(clean_text(given))
            else:
                waits += [given] if isinstance(given, Pending) else _all_pending(given)
        self.pending: tuple[Pending, ...] = tuple(waits)
        self.reason: str = " ".join(reasons)
        answers = "1 answer" if len(waits) == 1 else f"{len(waits)} answers"
        super().__init__(self.reason or f"waiting for {answers}")


def signal_of(error: BaseException) -> Signal | None:
    """Return the signal that *error* is or contains, None if it has none.

    A group that contains only signals, as a ``TaskGroup`` raises it, is one signal: one that ends
    the run wins over Parked, and several Parked are combined.
    """
    if not isinstance(error, BaseExceptionGroup):
        return error if isinstance(error, Signal) else None
    leaves = list(_leaves(cast("BaseExceptionGroup[BaseException]", error)))
    signals = [leaf for leaf in leaves if isinstance(leaf, Signal)]
    if len(signals) < len(leaves):
        return None
    pending: list[Pending] = []
    reasons: list[str] = []
    for signal in signals:
        if not isinstance(signal, Parked):
            return signal
        pending += signal.pending
        reasons += [signal.reason] if signal.reason else []
    return Parked(*{item.id: item for item in pending}.values(), *reasons)


def _all_pending(given: object) -> list[Pending]:
    # Iterating a mapping gives keys, which are not questions.
    is_many = isinstance(given, Iterable) and not isinstance(given, Mapping | bytes)
    items: list[object] = [*cast("Iterable[object]", given)] if is_many else [given]
    for item in items:
        if not isinstance(item, Pending):
            raise Misuse(
                f"Parked got {kind_of(item)}: give what the run waits for, such as "
                "PendingQuestion(id=..., question=...), or a text that says why"
            )
    return cast("list[Pending]", items)


def _to_facts(details: object) -> tuple[JsonObject, tuple[str, ...]]:
    """Return details as JSON, and the pointers of what was replaced."""
    facts, lost = JsonObject(), list[str]()
    if not isinstance(details, Mapping):
        details = {"details": details}
    for name, value in cast("Mapping[object, object]", details).items():
        try:
            form, replaced = to_free_json({name: value})
        except UnserializableError:
            key = clean_text(str(name))
            form, replaced = {key: kind_of(value)}, (f"/{key}",)
        facts |= cast("JsonObject", form)
        lost += replaced
    return facts, tuple(lost)


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(cast("BaseExceptionGroup[BaseException]", error))
        else:
            yield error
