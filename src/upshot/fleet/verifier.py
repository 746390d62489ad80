"""Asks a tool's ``verify`` again about effects that are unknown, also after their runs have ended.

The ledger says which are due, and gives each to one process at a time. One that is killed while it
asks loses nothing: the effect is due again a little later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from upshot.contract.base.enums import Effect
from upshot.contract.effects import EffectEntry, EffectLedger, ledger_of, next_check
from upshot.contract.events import ToolSettled
from upshot.contract.tool_calls import Settlement, ToolTimeout
from upshot.entry.run_lease import may_be_at_work
from upshot.errors import JournalError, Misuse
from upshot.fleet.app import App
from upshot.tools.definition.tool import Tool
from upshot.tools.execution.effect_claim import VERIFY_TIMEOUT_S, found_out, question_of
from upshot.tools.repetition import CANCELLED

_LOOK_S = 1.0
_AT_ONCE = 10
# Others leave an effect alone for so long; if this process is killed they take it then.
_KEPT_S = 2 * VERIFY_TIMEOUT_S

_Known: TypeAlias = tuple[Tool[..., Any], Mapping[str, Tool[..., Any]]]

logger: logging.Logger = logging.getLogger("upshot.verifier")


class Verifier:
    """Has unknown effects settled by the tools of an App that have a ``verify``.

    An effect about which nothing was found out is due again after 1, 2, 4 seconds and so on up to
    15 minutes, for 24 hours.

    Args:
        app: Whose tools: those of its agents, and its own.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        # Each with the tools beside it, which its verify may look up.
        named = {id: {one.name: one for one in app.each_tool(id)} for id in app.agents}
        tools = [
            ((agent_id, tool.name, tool.effect_name or tool.name), (tool, beside))
            for agent_id, beside in named.items()
            for tool in beside.values()
            if tool.verify is not None
        ]
        # Another agent may have made the effect, such as one inside an agent of the App.
        self._tools = {("", *key[1:]): tool for key, tool in reversed(tools)} | dict(tools)
        self._names = {tool.name for _, (tool, _) in tools}

    async def work(self) -> None:
        """Ask about what is due, until it is cancelled; ends at once where no tool can tell."""
        if ledger_of(await self._app.open()) is None:
            return
        while self._names:
            try:
                asked = await self.check()
            except JournalError as error:
                logger.warning("%s", error)
                asked = 0
            if not asked:
                await asyncio.sleep(_LOOK_S)

    async def check(self) -> int:
        """Ask about what is due now; returns about how many effects."""
        ledger = ledger_of(await self._app.open())
        if ledger is None or not self._names:
            return 0
        taken = await ledger.take_checks(self._names, limit=_AT_ONCE, for_s=_KEPT_S)
        async with asyncio.TaskGroup() as tasks:
            for entry in taken:
                tasks.create_task(self._check(entry, ledger))
        return len(taken)

    async def _check(self, entry: EffectEntry, ledger: EffectLedger) -> None:
        effect, now = await self._found_out(entry), datetime.now(UTC)
        if effect is None:
            await ledger.note_check(entry.id, next_check(entry, now))
            return
        try:
            await ledger.settle_effect(entry.id, Settlement(effect=effect, by="verify", at=now))
        except Misuse:
            # Its call is made again meanwhile, or it was removed.
            logger.debug("effect %s is not unknown any more", entry.id)

    async def _found_out(self, entry: EffectEntry) -> Effect | None:
        """What ``verify`` says, as far as that is to be believed."""
        known = self._tool_of(entry)
        if known is None:
            return None
        tool, beside = known
        try:
            started, settled = await self._app.call_of(entry)
        except JournalError as error:
            logger.warning("effect %s cannot be verified: %s", entry.id, error)
            return None
        if started is None:
            return None
        may_go_on = await self._may_go_on(entry, settled)
        outcome = None if settled is None else settled.record.outcome
        asked = question_of(
            tool,
            started.arguments,
            entry.call_id,
            entry.run_id,
            key=started.idempotency_key,
            outcome=outcome,
        )
        effect = await found_out(tool, asked, _warn, find=beside.get)
        return None if effect is Effect.NONE and may_go_on else effect

    def _tool_of(self, entry: EffectEntry) -> _Known | None:
        name = entry.tool_name, entry.name
        own = self._tools.get((entry.agent_id, *name))
        if own is not None or entry.agent_id in self._app.agents:
            return own
        return self._tools.get(("", *name))

    async def _may_go_on(self, entry: EffectEntry, settled: ToolSettled | None) -> bool:
        """Whether the body may do yet what it has not done: that it has not is then no news."""
        if settled is None:
            return await may_be_at_work(entry.run_id, await self._app.open())
        outcome = settled.record.outcome
        if isinstance(outcome, ToolTimeout):
            return not outcome.stopped
        return outcome.code == CANCELLED and settled.record.mode == "thread"


def _warn(code: str, message: str) -> None:
    logger.warning("%s: %s", code, message)
