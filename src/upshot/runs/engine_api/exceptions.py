"""The exceptions by which an engine or a script ends a run that has no answer.

They are not errors of upshot: at the run's edge each becomes a status and an error of the result,
and none reaches the caller.
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
    """The root of what engines raise to end a run.

    Attributes:
        said: What the agent said that ended so, whose text is on no board yet; the run keeps it.
        result: What it was read from, for the facts of its last call; None where code raised it.
        raised: What a hook raised that ends the run so, for the result's ``raw``.
    """

    said: str = ""
    raised: Exception | None = None
    result: AgentResult[Any] | None = None


class Interrupted(Signal):
    """The run followed a request to stop; it ends as interrupted.

    Attributes:
        interrupt: Who wished it and why.
    """

    def __init__(self, cause: str = "", detail: str = "") -> None:
        self.interrupt: Interrupt = Interrupt(cause, detail)
        super().__init__(self.detail or self.cause or "interrupted")

    @property
    def cause(self) -> str:
        """Who wished it, in a word."""
        return str(self.interrupt.cause)

    @property
    def detail(self) -> str:
        """Why."""
        return self.interrupt.detail


class Aborted(Signal):
    """The run cannot go on and was given up; it ends as aborted.

    Attributes:
        error: Why.
    """

    def __init__(self, message: str, code: str = ErrorCode.INTERNAL) -> None:
        super().__init__(message)
        self.error: AgentError = AgentError(ErrorCode(code), str(message), origin=Origin.ENGINE)

    @property
    def code(self) -> ErrorCode:
        """That of the error."""
        return self.error.code


class Failed(Signal):
    """The run ends as failed with this error: ``Failed(error)`` or ``Failed(code, message)``.

    Details are made JSON here: what ends a run is not to be lost over a fact beside it. What has
    no JSON form is replaced by a text that says what it is.

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
        """That of the error."""
        return self.error.code

    def __reduce__(self) -> tuple[type[Failed], tuple[AgentError], dict[str, object]]:
        # Its text alone would be taken for a code.
        return type(self), (self.error,), self.__dict__


class Parked(Signal):
    """The run waits for an answer; it ends this session as input_required.

    Engines let it through.

    Args:
        pending: What is waited for, one by one or together, such as ``result.pending``; a text
            says why, for people, and is no question.

    Attributes:
        pending: What is waited for.
        reason: Why, "" where nothing was said.

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
    """What an engine said by raising *error*, None where it said nothing.

    A group of nothing but signals, as a ``TaskGroup`` raises it, is one: what ends a run goes
    before what parks it, and several that park it wait for everything that one of them waits for.
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
    # What a mapping gives are its keys, which are no questions.
    is_many = isinstance(given, Iterable) and not isinstance(given, Mapping | bytes)
    items: list[object] = [*cast("Iterable[object]", given)] if is_many else [given]
    for item in items:
        if not isinstance(item, Pending):
            raise Misuse(
                f"Parked was given {kind_of(item)}: give what is waited for, such as "
                "PendingQuestion(id=..., question=...), or a text that says why"
            )
    return cast("list[Pending]", items)


def _to_facts(details: object) -> tuple[JsonObject, tuple[str, ...]]:
    """Details as JSON, and where something in them was replaced."""
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
