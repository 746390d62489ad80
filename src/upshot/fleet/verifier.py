"""Calls a tool's ``verify`` again about unknown effects, even after their runs have ended.

The ledger says which effects are due, and reserves each for one process at a time. If that process
is killed, nothing is lost: the effect is due again a little later.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from upshot.contract.base.checks import Allowed, check_argument
from upshot.contract.base.enums import Effect
from upshot.contract.base.structs import Json
from upshot.contract.effects import EffectCheck, EffectEntry, EffectLedger, ledger_of, next_check
from upshot.contract.events import ToolSettled
from upshot.contract.tool_calls import Settlement
from upshot.effects.settling import needs_ledger
from upshot.entry.run_lease import may_be_at_work
from upshot.errors import JournalError, Misuse
from upshot.journal.work_listeners import effect_listeners
from upshot.tools.definition.tool import Tool
from upshot.tools.execution.effect_claim import VERIFY_TIMEOUT_S, call_verify, question_of
from upshot.tools.repetition import hides, may_still_run

if TYPE_CHECKING:
    from upshot.fleet.app import App

_TEXT = Allowed("a string", (str,))
_LOOK_S = 1.0
_AT_ONCE = 10
# How often unknown effects are counted while telemetry is on.
_COUNTS_S = 15.0
# Reserve an effect this long; if this process is killed, others check it then.
_KEPT_S = 2 * VERIFY_TIMEOUT_S

_SAID = {
    Effect.APPLIED: "verify says that it happened.",
    Effect.NONE: "verify says that it did not happen.",
    None: "verify does not know.",
}
_MASKED = "verify says that it did not happen, but the log has masked what it was asked about."
_NOT_YET = "verify says that it did not happen, but its body may still be running."


class _Found(NamedTuple):
    """What ``verify`` found out, a sentence about it, and what a ``Lookup`` saw."""

    effect: Effect | None
    text: str
    seen: Json = None


def _describe_state(entry: EffectEntry) -> str:
    """Describe the state of an effect that needs no check."""
    by = "" if entry.settled is None else f", settled by {entry.settled.by}"
    return f"It is {entry.state}{by}."


_Known: TypeAlias = tuple[Tool[..., Any], Mapping[str, Tool[..., Any]]]

logger: logging.Logger = logging.getLogger("upshot.verifier")


class Verifier:
    """Settles unknown effects with the ``verify`` of an App's tools.

    If nothing is found out, an effect is due again after 1, 2, 4 seconds and so on up to 15
    minutes, for 24 hours.

    Args:
        app: The App; its own tools and those of its agents are used.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        # Each with its agent's other tools, which its verify may look up.
        named = {id: {one.name: one for one in app.each_tool(id)} for id in app.agents}
        tools = [
            ((agent_id, tool.name, tool.effect_name or tool.name), (tool, beside))
            for agent_id, beside in named.items()
            for tool in beside.values()
            if tool.verify is not None
        ]
        # Another agent may have made the effect, such as one nested in an agent of the App.
        self._tools = {("", *key[1:]): tool for key, tool in reversed(tools)} | dict(tools)
        self._counts_at = 0.0
        self._names = {tool.name for _, (tool, _) in tools}

    async def work(self) -> None:
        """Check what is due until it is cancelled.

        It ends at once if no tool has a ``verify`` and no telemetry counts unknown effects.
        """
        ledger = ledger_of(await self._app.open())
        if ledger is None:
            return
        while self._names or effect_listeners():
            try:
                asked = await self.check()
                await self._count(ledger)
            except JournalError as error:
                logger.warning("%s", error)
                asked = 0
            if not asked:
                await asyncio.sleep(_LOOK_S)

    async def _count(self, ledger: EffectLedger) -> None:
        """Report the number of unknown effects to listeners, from time to time."""
        listeners, now = effect_listeners(), time.monotonic()
        if not listeners or now < self._counts_at:
            return
        self._counts_at = now + _COUNTS_S
        counts = Counter(entry.name for entry in await ledger.effects(state="unknown"))
        for listener in listeners:
            listener.unknown(counts)

    async def check(self) -> int:
        """Check the effects that are due now; return how many there were."""
        ledger = ledger_of(await self._app.open())
        if ledger is None or not self._names:
            return 0
        taken = await ledger.claim_checks(self._names, limit=_AT_ONCE, for_s=_KEPT_S)
        async with asyncio.TaskGroup() as tasks:
            for entry in taken:
                tasks.create_task(self._check(entry, ledger))
        return len(taken)

    async def check_now(self, id: str) -> EffectCheck:
        """Check an effect now, and settle it with what is found out.

        Raises:
            Misuse: There is no such effect.
            JournalError: The journal cannot be read or written.
        """
        check_argument("id of an effect", id, _TEXT)
        ledger = needs_ledger(await self._app.open())
        entry = await ledger.effect(id)
        if entry is None:
            raise Misuse(f"there is no effect {id!r:.60}")
        if entry.state != "unknown":
            return EffectCheck(effect=entry, said=_describe_state(entry))
        found = await self._verify(entry)
        if found.effect is None:
            return EffectCheck(effect=entry, said=found.text, seen=found.seen)
        known = Settlement(effect=found.effect, by="verify", at=datetime.now(UTC))
        try:
            settled = await ledger.settle_effect(id, known)
        except Misuse:
            # Its call is being made again, or the effect was removed.
            settled = await ledger.effect(id) or entry
        finding = found.text if settled.settled == known else _describe_state(settled)
        return EffectCheck(effect=settled, said=finding, seen=found.seen)

    async def _check(self, entry: EffectEntry, ledger: EffectLedger) -> None:
        found, now = await self._verify(entry), datetime.now(UTC)
        if found.effect is None:
            await ledger.note_check(entry.id, next_check(entry, now))
            return
        known = Settlement(effect=found.effect, by="verify", at=now)
        try:
            await ledger.settle_effect(entry.id, known)
        except Misuse:
            # Its call is being made again, or the effect was removed.
            logger.debug(
                "effect %s has been settled since", entry.id, extra={"run_id": entry.run_id}
            )

    async def _verify(self, entry: EffectEntry) -> _Found:
        """Return what ``verify`` says, as far as it can be trusted."""
        known = self._tool_of(entry)
        if known is None:
            return _Found(None, "No tool of the App has a verify for it.")
        tool, beside = known
        try:
            started, settled = await self._app.call_of(entry)
        except JournalError as error:
            logger.warning(
                "effect %s cannot be verified: %s", entry.id, error, extra={"run_id": entry.run_id}
            )
            return _Found(None, f"Its log cannot be read: {error}")
        if started is None:
            return _Found(None, "Its call is no longer in the log.")
        may_still_run = await self._may_still_run(entry, settled)
        outcome = None if settled is None else settled.record.outcome
        asked = question_of(
            tool,
            started.arguments,
            entry.call_id,
            entry.run_id,
            key=started.idempotency_key,
            outcome=outcome,
        )
        warned, seen = list[str](), list[Json]()

        def warn(code: str, message: str) -> None:
            logger.warning("%s: %s", code, message)
            warned.append(message)

        effect = await call_verify(tool, asked, warn, find=beside.get, saw=seen.append)
        if effect is Effect.NONE and may_still_run:
            return _Found(None, _NOT_YET, *seen)
        if effect is Effect.NONE and hides(started.arguments):
            return _Found(None, _MASKED, *seen)
        finding = " ".join(warned) if effect is None and warned else _SAID[effect]
        return _Found(effect, finding, *seen)

    def _tool_of(self, entry: EffectEntry) -> _Known | None:
        name = entry.tool_name, entry.name
        own = self._tools.get((entry.agent_id, *name))
        if own is not None or entry.agent_id in self._app.agents:
            return own
        return self._tools.get(("", *name))

    async def _may_still_run(self, entry: EffectEntry, settled: ToolSettled | None) -> bool:
        """Whether the body may still run: "it did not happen" then proves nothing."""
        if settled is None:
            return await may_be_at_work(entry.run_id, await self._app.open())
        return may_still_run(settled.record.outcome)
