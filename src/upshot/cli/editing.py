"""Editing: a call's arguments as a person gives them, checked before anything is answered."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, cast

import msgspec
from rich.text import Text

from ..contract import Agent, AgentSpec, JsonObject, PendingApproval
from ..contract.json_fault import json_fault
from ..engines import MachineEngine
from ..errors import Misuse
from ..tools import Tool, resolve_tools
from ..tools.check import Checked
from .launching import Launching
from .terminal import Terminal

__all__ = ["Editing"]


class Editing:
    """Reads new arguments of calls, against the schemas of the tools that the run's agent has.

    Args:
        launching: The agent.
        terminal: Where it is told that something could not be checked.
        is_sure: Whether an agent that cannot be loaded is misuse; else it is told.
    """

    def __init__(self, launching: Launching, terminal: Terminal, *, is_sure: bool) -> None:
        self._launching = launching
        self._terminal = terminal
        self._is_sure = is_sure

    def read(self, text: str, pending: PendingApproval) -> JsonObject:
        """The arguments in *text*, for the call that waits.

        Raises:
            Misuse: They are no JSON object, or do not fit the tool.
        """
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
        # It is told when the run goes on; here it only means that nothing can be checked.
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
