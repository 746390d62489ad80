"""The user's answers to a parked run."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import msgspec
from rich.text import Text

from upshot.cli.activity import Activity
from upshot.cli.launch import Launching
from upshot.cli.terminal import Terminal, clean
from upshot.contract.agent import Agent
from upshot.contract.agent_spec import AgentSpec
from upshot.contract.base.checks import json_fault
from upshot.contract.base.structs import JsonObject
from upshot.contract.pending import Answer, AnyAnswer, Approve, Deny, Edit, Pending, PendingApproval
from upshot.engines.machine.machine_engine import MachineEngine
from upshot.errors import Misuse
from upshot.state.child_runs import bare_id
from upshot.tools.arguments.argument_check import Checked
from upshot.tools.catalog import resolve_tools
from upshot.tools.definition.tool import Tool


class Editing:
    """Reads new arguments of calls, against the schemas of the tools that the run's agent has."""

    def __init__(self, launching: Launching, terminal: Terminal, *, is_sure: bool) -> None:
        self._launching = launching
        self._terminal = terminal
        self._is_sure = is_sure

    def read(self, text: str, pending: PendingApproval) -> JsonObject:
        """The arguments in *text*, for the call that waits."""
        arguments = _parse(text)
        tools = self._tools(pending.tool_name)
        if not tools:
            self._terminal.tell(
                Text(f"not checked: the tool {pending.tool_name} is not found", "yellow")
            )
            return arguments
        # Agents inside may have different tools of one name.
        refused = ""
        for tool in tools:
            found = tool.check.read(arguments)
            if isinstance(found, Checked):
                return arguments
            refused = f"the new arguments do not fit {tool.name}: {found.details}. {found.hint}"
        raise Misuse(refused)

    def _tools(self, name: str) -> list[Tool]:
        try:
            agent, options = self._launching.loaded
        except Misuse as error:
            if self._is_sure:
                raise
            self._terminal.tell(Text(str(error), "yellow"))
            return []
        launch = self._launching.launch
        found = [*_tools_of(agent, options.get("tools") or ())]
        found += _tools_in({launch.file, *launch.tools})
        return [*dict.fromkeys(tool for tool in found if tool.name == name)]


def _tools_of(agent: Agent[Any] | AgentSpec, named: Any) -> Iterator[Tool]:
    """The tools of an agent, and of those that a machine gives its states to."""
    yield from _resolved(agent.tools or (), named)
    yield from _resolved(named, ())
    if isinstance(agent.engine, MachineEngine):
        for inner in agent.engine.agents:
            yield from _resolved(inner.tools or (), named)


def _resolved(items: Any, named: Any) -> tuple[Tool, ...]:
    try:
        return resolve_tools(items, named=named)
    except Misuse:
        # The resumed run reports it; here it only means that nothing can be checked.
        return ()


def _tools_in(files: set[str]) -> Iterator[Tool]:
    """What the files define by a name of their own: agents inside are made of that."""
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) in files:
            yield from (value for value in vars(module).values() if isinstance(value, Tool))


def _parse(text: str) -> JsonObject:
    try:
        found: object = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Misuse(f"the new arguments are no JSON: {json_fault(error)}") from error
    if not isinstance(found, dict):
        raise Misuse("the new arguments are no JSON object: give all of them, such as '{\"n\": 1}'")
    return cast("JsonObject", found)


class Waiting:
    """What a run waits for, each with its number in that run, which no answer shifts."""

    def __init__(self, activity: Activity) -> None:
        self._numbers = activity.numbers
        open_ = [one for one in activity.pending if _key(one) not in activity.answered]
        numbered = {self._numbers[_key(one)]: one for one in open_}
        self.items: dict[int, Pending] = dict(sorted(numbered.items()))

    @property
    def calls(self) -> list[PendingApproval]:
        """Those that are calls."""
        return [one for one in self.items.values() if isinstance(one, PendingApproval)]

    def call(self, name: str) -> PendingApproval:
        """The call that *name* names."""
        number, found = self._find(name)
        if isinstance(found, PendingApproval):
            return found
        raise Misuse(f"{_described(number, found)} is a question: give --answer {number} TEXT")

    def question(self, name: str) -> Pending:
        """The question that *name* names."""
        number, found = self._find(name)
        if not isinstance(found, PendingApproval):
            return found
        raise Misuse(
            f"{_described(number, found)} is a call: give --approve {number}, --deny {number} or "
            f"--edit {number} JSON"
        )

    def _find(self, name: str) -> tuple[int, Pending]:
        for number, one in self.items.items():
            if one.id == name:
                return number, one
        listed = ", ".join(self._listed([*self.items]))
        if name.isdecimal() and int(name) in self._numbers.values():
            number = int(name)
            if number in self.items:
                return number, self.items[number]
            raise Misuse(f"{number} is answered already: what waits is {listed}")
        begun = [n for n, one in self.items.items() if name and one.id.startswith(name)]
        if len(begun) > 1:
            raise Misuse(f"several that wait begin with {name}: {', '.join(self._listed(begun))}")
        if not begun:
            raise Misuse(f"nothing that waits is called {name}: there is {listed}")
        return begun[0], self.items[begun[0]]

    def _listed(self, numbers: Sequence[int]) -> list[str]:
        return [_described(number, self.items[number]) for number in numbers]


def _key(pending: Pending) -> tuple[str, str]:
    return pending.run_id, bare_id(pending)


def _described(number: int, pending: Pending) -> str:
    tool = f"{pending.tool_name}, " if isinstance(pending, PendingApproval) else ""
    return f"{number} ({clean(tool + pending.id, 60)})"


@dataclass(frozen=True, kw_only=True)
class Given:
    """The answers that stand on a command line."""

    approve: Sequence[str] = ()
    approve_all: bool = False
    always: Literal["", "tool", "arguments"] = ""
    deny: Sequence[str] = ()
    reason: str = ""
    edit: Sequence[tuple[str, str]] = ()
    answer: Sequence[tuple[str, str]] = ()
    by: str = ""

    def check(self) -> None:
        """Check that nothing stands there in vain."""
        if self.always and not (self.approve or self.approve_all):
            raise Misuse("--always says how far a yes holds: it needs --approve ID or --all")
        if self.reason and not self.deny:
            raise Misuse("--reason is what the model is told of a no: it needs --deny ID")

    @property
    def who(self) -> str:
        """Who answers."""
        return self.by or _user()

    def read(self, waiting: Waiting, editing: Editing) -> list[AnyAnswer]:
        """The answers, one for each that is named; empty where none stands there."""
        by = self.who
        given: list[AnyAnswer] = []
        for name in self.approve:
            given.append(Approve(waiting.call(name).id, always=self.always, by=by))
        for name in self.deny:
            given.append(Deny(waiting.call(name).id, self.reason, by=by))
        for name, text in self.edit:
            call = waiting.call(name)
            given.append(Edit(call.id, editing.read(text, call), by=by))
        for name, text in self.answer:
            given.append(Answer(waiting.question(name).id, text, by=by))
        answers: dict[str, AnyAnswer] = {}
        for one in given:
            id = one.id if isinstance(one, Answer) else one.call_id
            if id in answers:
                raise Misuse(f"{id} is answered twice")
            answers[id] = one
        if self.approve_all:
            self._approve_rest(answers, waiting, by)
        return list(answers.values())

    def _approve_rest(self, answers: dict[str, AnyAnswer], waiting: Waiting, by: str) -> None:
        if not waiting.calls and not answers:
            number = next(iter(waiting.items))
            raise Misuse(f"--all is for calls, and no call waits: give --answer {number} TEXT")
        for call in waiting.calls:
            answers.setdefault(call.id, Approve(call.id, always=self.always, by=by))


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A process whose user has no name.
        return ""
