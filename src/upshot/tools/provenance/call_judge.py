"""Judges the calls of a Toolbox, and learns from settled ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from upshot.contract.base.structs import Json, JsonObject
from upshot.contract.message import Data, Message, Text
from upshot.contract.provenance import ToolDeclaration
from upshot.contract.settings import Policy
from upshot.contract.tool_calls import (
    TRUSTED,
    UNTRUSTED,
    ToolDenied,
    ToolExecutionResult,
    ToolOutcome,
    ToolRecord,
)
from upshot.state.run_state import place_of
from upshot.tools.provenance.acts import Act
from upshot.tools.provenance.facts import Facts
from upshot.tools.provenance.judgement import Verdict, is_clean, judge
from upshot.tools.provenance.saying import Saying
from upshot.tools.provenance.whereabouts import leaves

if TYPE_CHECKING:
    from upshot.contract.base.secrets import Secrets
    from upshot.tools.call_state import CallState
    from upshot.tools.definition.tool import Tool

Said: TypeAlias = Callable[[], tuple[Saying, ...]]


def sayings_of(value: object, source: str, today: date | None) -> tuple[Saying, ...]:
    """Return what the user said: a text, the trusted parts of a message, or an answer."""
    texts: list[Json] = []
    parts = value.parts if isinstance(value, Message) else ()
    for part in parts:
        if isinstance(part, Text) and part.trust != UNTRUSTED:
            texts.append(part.text)
        elif isinstance(part, Data):
            texts += leaves(part.data)
    if not isinstance(value, Message):
        texts += leaves(value)  # pyright: ignore[reportArgumentType]  # an answer is JSON
    strings = (str(one) for one in texts if one is not None)
    return tuple(Saying(one, source, today) for one in strings)


def stricter(then: ToolDeclaration, now: ToolDeclaration) -> ToolDeclaration:
    """Return the stricter of two declarations, for a result made under *then* and read *now*."""
    both = then.trust == now.trust == TRUSTED
    words = (then.trust, now.trust)
    return ToolDeclaration(
        arguments=now.arguments,
        records=tuple(record for record in now.records if record in then.records),
        trust=UNTRUSTED if UNTRUSTED in words else TRUSTED if both else "",
        private=then.private or now.private,
        asked_by=now.asked_by,
    )


class CallJudge:
    """Judges the calls of a Toolbox, and learns from settled ones.

    Args:
        policy: The user's rules.
        sayings: Returns what the user said so far.
        secrets: What is hidden in the log; None without secrets.
        declared: What tools declared according to the log, by their version.
        acts: The writes that were judged, including those of other runs of the tree.
        run_id: The run that makes the calls.
    """

    def __init__(
        self,
        policy: Policy,
        sayings: Said,
        secrets: Secrets | None,
        declared: Mapping[str, ToolDeclaration],
        acts: dict[str, set[str]],
        *,
        run_id: str,
    ) -> None:
        self._policy = policy
        self._said = sayings
        self._secrets = secrets
        self._declared = declared
        self._facts = Facts(acts=acts)
        self._run_id = run_id

    def judge(self, call: CallState) -> Verdict:
        """Judge a call with valid arguments."""
        self._facts.sayings = self._said()
        place = place_of(self._run_id, call.label, call.call_id)
        act = self._act_of(call.known_tool, call.arguments or {}, place)
        verdict = judge(act, self._facts, self._policy)
        if not call.is_dry and call.known_tool.may_write:
            self._facts.begin(act)
        return verdict

    def name_act(self, call: CallState) -> str:
        """Return the name of the act if the call is a write, otherwise ""."""
        if call.tool is None or call.arguments is None or not call.tool.may_write:
            return ""
        self._facts.sayings = self._said()
        return self._facts.name_act(self._act_of(call.tool, call.arguments, ""))

    def learn(self, record: ToolRecord, tool: Tool, *, is_tainted: bool) -> None:
        """Learn from a settled call.

        Args:
            record: The record of the call.
            tool: The current definition of the tool.
            is_tainted: Whether untrusted content was in the context before it settled.
        """
        arguments = record.arguments_validated
        if arguments is None:
            return
        act = self._act_of(tool, arguments, place_of(self._run_id, record.turn, record.call_id))
        if isinstance(record.outcome, ToolDenied):
            self._facts.drop(act)
            return
        now = then = tool.declaration
        if record.tool_version != tool.version:
            then = self._declared.get(record.tool_version, ToolDeclaration())
        trust = TRUSTED if record.trust == TRUSTED else ""
        read_as = stricter(msgspec.structs.replace(then, trust=trust), now)
        act = msgspec.structs.replace(act, declaration=read_as)
        if tool.may_write:
            self._facts.sayings = self._said()
        self._facts.learn(
            act,
            _output_of(record.outcome),
            call_id=record.call_id,
            is_trusted=read_as.trust == TRUSTED,
            is_clean=not is_tainted or is_clean(act, self._facts, self._policy),
        )

    def _act_of(self, tool: Tool, arguments: JsonObject, place: str) -> Act:
        shown = None if self._secrets is None else self._secrets.mask(arguments)
        return msgspec.structs.replace(act_of(tool, arguments), shown=shown, place=place)


def act_of(tool: Tool, arguments: JsonObject) -> Act:
    """Return the act of a call of *tool* with valid *arguments*, for judging."""
    return Act(
        tool_name=tool.name,
        arguments=arguments,
        declaration=tool.declaration,
        parameters=tool.parameters,
        effect=tool.declared_effect,
    )


def _output_of(outcome: ToolOutcome) -> Json:
    return outcome.output if isinstance(outcome, ToolExecutionResult) else None


def sayings_function(given: Iterable[str] | Said, today: date) -> Said:
    """Return what the user said as a function, for a Toolbox without a run."""
    if callable(given):
        return given
    texts = tuple(given)
    sayings = tuple(Saying(text, "request", today) for text in texts)
    return lambda: sayings
