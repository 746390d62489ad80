"""Judges the calls of a Toolbox, and learns from those that settled."""

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
from upshot.tools.provenance.judgement import Act, Facts, Verdict, is_clean, judge
from upshot.tools.provenance.saying import Saying
from upshot.tools.provenance.whereabouts import leaves

if TYPE_CHECKING:
    from upshot.contract.base.secrets import Secrets
    from upshot.tools.call_state import CallState
    from upshot.tools.definition.tool import Tool

Said: TypeAlias = Callable[[], tuple[Saying, ...]]


def sayings_of(value: object, source: str, today: date | None) -> tuple[Saying, ...]:
    """What the user said: a text, a message without what is marked untrusted, or an answer."""
    texts: list[Json] = []
    parts = value.parts if isinstance(value, Message) else ()
    for part in parts:
        if isinstance(part, Text) and part.trust != UNTRUSTED:
            texts.append(part.text)
        elif isinstance(part, Data):
            texts += leaves(part.data)
    if not isinstance(value, Message):
        texts += leaves(value)  # pyright: ignore[reportArgumentType]  # an answer is JSON
    said = (str(one) for one in texts if one is not None)
    return tuple(Saying(one, source, today) for one in said)


def stricter(then: ToolDeclaration, now: ToolDeclaration) -> ToolDeclaration:
    """How a result is read that was made under *then*, and is read under *now*."""
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
    """Judges the calls of a Toolbox, and learns from those that settled.

    Args:
        policy: The user's rules.
        said: Gives what the user said so far.
        secrets: What the log hides; None without secrets.
        declared: What the log says that tools declared, by their version.
        acts: The writes that were judged, those of other runs of the tree too.
        run_id: The run whose calls they are.
    """

    def __init__(
        self,
        policy: Policy,
        said: Said,
        secrets: Secrets | None,
        declared: Mapping[str, ToolDeclaration],
        acts: dict[str, set[str]],
        *,
        run_id: str,
    ) -> None:
        self._policy = policy
        self._said = said
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
        """What names the write that a call is, "" for none."""
        if call.tool is None or call.arguments is None or not call.tool.may_write:
            return ""
        self._facts.sayings = self._said()
        return self._facts.name_act(self._act_of(call.tool, call.arguments, ""))

    def take(self, record: ToolRecord, tool: Tool, *, is_tainted: bool) -> None:
        """Learn from a settled call.

        Args:
            record: Of the call.
            tool: The tool as it is today.
            is_tainted: Whether untrusted words were in the context before it settled.
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
        self._facts.take(
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
    """A call of *tool* with valid *arguments*, as it is judged."""
    return Act(
        tool_name=tool.name,
        arguments=arguments,
        declaration=tool.declaration,
        parameters=tool.parameters,
        effect=tool.declared_effect,
    )


def _output_of(outcome: ToolOutcome) -> Json:
    return outcome.output if isinstance(outcome, ToolExecutionResult) else None


def said_of(given: Iterable[str] | Said, today: date) -> Said:
    """What the user said, where a Toolbox is used alone."""
    if callable(given):
        return given
    texts = tuple(given)
    said = tuple(Saying(text, "request", today) for text in texts)
    return lambda: said
