"""Outcome: the result of a state's work, as a value for the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from msgspec.structs import replace

from upshot.contract.agent_spec import HandoffEvent
from upshot.contract.base.checks import has_own_output
from upshot.contract.base.enums import ErrorCode, Status
from upshot.contract.base.json_values import to_free_json
from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.error import AgentError
from upshot.contract.forms.flat_form import from_contract, to_contract
from upshot.contract.result import AgentResult
from upshot.contract.usage import Cost, Usage
from upshot.engines.common import form_of, read_failure, read_handoff
from upshot.native.returned import coerce_result
from upshot.runs.ending import read_returned
from upshot.runs.engine_api.exceptions import Failed, Signal

_STATUS_OF = {ErrorCode.CANCELED: Status.CANCELED, ErrorCode.INTERRUPTED: Status.INTERRUPTED}


class Outcome:
    """The result of a state, an item or a member.

    Args:
        payload: What expressions see as ``output``.
        result: The whole result; None makes one from the payload on request.
        exception: An unexpected exception of code, None for everything else.
        say: The answer of an agent, which becomes a message; "" for nothing.
        by_agent: Whether the result comes from an agent.

    Attributes:
        payload: What expressions see as ``output``.
        exception: An unexpected exception of code.
        say: The answer of an agent.
        by_agent: Whether the result comes from an agent.
    """

    __slots__ = ("_form", "_handoff", "_made", "_result", "by_agent", "exception", "payload", "say")

    def __init__(
        self,
        payload: Json = None,
        result: AgentResult[Any] | None = None,
        *,
        exception: Exception | None = None,
        say: str = "",
        by_agent: bool = False,
    ) -> None:
        self.payload: Json = payload
        self.exception: Exception | None = exception
        self.say: str = say
        self.by_agent: bool = by_agent
        self._result = result
        # Made from a payload, for hooks and expressions only; it is not logged.
        self._made: AgentResult[Any] | None = None
        self._form: JsonObject | None = None
        self._handoff: HandoffEvent | None = None

    @classmethod
    def of(cls, result: AgentResult[Any], *, exception: Exception | None = None) -> Outcome:
        """Return the outcome for a result."""
        return cls(_payload(result), result, exception=exception)

    @classmethod
    def of_agent(cls, result: AgentResult[Any]) -> Outcome:
        """Return the outcome for the result of an agent."""
        return cls(_payload(result), result, say=result.content or "", by_agent=True)

    @classmethod
    def failed(cls, failure: Failed) -> Outcome:
        """Return the outcome for a failure."""
        if isinstance(failure, Unhandled):
            return failure.outcome
        error = failure.error
        status = _STATUS_OF.get(error.code, Status.FAILED)
        content = failure.last_text or None
        return cls.of(AgentResult[Any](status=status, error=error, content=content))

    @classmethod
    def raised(cls, exception: Exception) -> Outcome:
        """Return the outcome for an exception: a reported failure, or a bug."""
        failure = read_failure(exception)
        if failure is not None:
            return cls.of(failure)
        return cls.of(coerce_result(exception), exception=exception)

    @classmethod
    def read(cls, form: JsonObject) -> Outcome:
        """Return the outcome that was logged."""
        outcome = cls(form.get("output"))
        result = form.get("result")
        if isinstance(result, dict):
            # Kept in its logged form: few results are read again, and decoding is slow.
            outcome._form = result
            outcome._handoff = read_handoff(form.get("handoff"))
        return outcome

    @property
    def result(self) -> AgentResult[Any]:
        """The whole result."""
        if self._result is not None:
            return self._result
        if self._form is not None:
            self._result = replace(from_contract(self._form), handoff=self._handoff)
            return self._result
        if self._made is None:
            content = self.payload if isinstance(self.payload, str) else None
            # Without its type argument, which would cost as much again.
            self._made = AgentResult(output=self.payload, content=content)
        return self._made

    @property
    def error(self) -> AgentError | None:
        """The error, None for a success."""
        if self._result is None and self._form is None:
            return None
        return self.result.error

    @property
    def ending(self) -> Signal | None:
        """The signal that ends the run if nothing handles this; None for an ordinary failure.

        An agent that was aborted or interrupted has not just failed.
        """
        if not self.by_agent or self.result.status not in (Status.ABORTED, Status.INTERRUPTED):
            return None
        returned = read_returned(self.result)
        return None if returned is None else returned.ending

    @property
    def handoff(self) -> HandoffEvent | None:
        """The handoff that an agent made in it, None for none."""
        return self._handoff if self._result is None else self._result.handoff

    @property
    def answer(self) -> Json:
        """The output of a machine that ends with this: a text as it is, else the payload."""
        if self._result is None and self._form is None:
            return self.payload
        if self.handoff is not None and not self.payload:
            # An agent that hands over has no answer.
            return None
        # The mapping is for expressions; the caller of the machine gets the text.
        if self.payload == {"content": self.result.content}:
            return self.result.content
        return None if self.error is not None else self.payload

    @property
    def spent(self) -> tuple[Usage, Cost | None] | None:
        """What it used, None if it uses nothing."""
        if self._result is None and self._form is None:
            return None
        return self.result.usage, self.result.cost

    def to_form(self) -> dict[str, object]:
        """Return the outcome as JSON, for the log."""
        form: dict[str, object] = {}
        if self.payload is not None:
            form["output"] = self.payload
        if self._form is not None:
            form["result"] = self._form
        elif self._result is not None:
            form["result"] = to_contract(self._result)
        if (handoff := self.handoff) is not None:
            form["handoff"] = form_of(handoff)
        return form

    def named(self, name: str) -> Outcome:
        """Return this failure with the name of the item or member that failed."""
        error = self.error
        if error is None:
            return self
        named_error = replace(error, details={**error.details, "member": name})
        made = Outcome.of(replace(self.result, error=named_error), exception=self.exception)
        made.by_agent = self.by_agent
        return made


class Unhandled(Failed):
    """A state's agent was aborted or interrupted, and no transition handles that.

    The state that contains a sub-machine may handle it; otherwise the run ends as the agent did.

    Attributes:
        outcome: The outcome of the agent.
        ending: The signal that ends the run.
    """

    def __init__(self, outcome: Outcome, error: AgentError, ending: Signal) -> None:
        super().__init__(error)
        self.outcome: Outcome = Outcome.of(
            AgentResult[Any](
                status=outcome.result.status,
                error=error,
                content=outcome.result.content,
                cause=outcome.result.cause,
                detail=outcome.result.detail,
            )
        )
        self.outcome.by_agent = True
        self.ending = ending


NOTHING = Outcome({})


def summed(outcomes: Iterable[Outcome]) -> tuple[Usage, Cost | None] | None:
    """Return the total usage of several outcomes, None if nothing was used."""
    spent = [one for outcome in outcomes if (one := outcome.spent) is not None]
    if not spent:
        return None
    usage = spent[0][0]
    for more, _ in spent[1:]:
        usage = usage + more
    # A function that called no model has no price, and needs none.
    return usage, Cost.of_calls(_costs(spent))


def _costs(spent: Sequence[tuple[Usage, Cost | None]]) -> list[Cost | None]:
    return [cost for usage, cost in spent if cost is not None or usage]


def _payload(result: AgentResult[Any]) -> Json:
    """Return a mapping as it is, a text as ``{"content": text}``, any other value as it is."""
    output: object = result.output
    if isinstance(output, dict):
        return to_free_json(cast("object", output))[0]
    if not has_own_output(output, result.content):
        return {} if result.content is None else {"content": result.content}
    return to_free_json(output)[0]
