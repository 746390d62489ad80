"""Standing approvals: what people let run always, for as long as their run lasts."""

from __future__ import annotations

from datetime import UTC, datetime

from upshot.contract.base.checks import Allowed, check_argument, check_whole
from upshot.contract.base.enums import Status
from upshot.contract.base.structs import JsonObject, Moment, Value
from upshot.contract.protocols import Journal, RunSummary
from upshot.entry.run_handle import RunHandle
from upshot.errors import Misuse
from upshot.journal.shared import Withdrawal, withdraw, withdrawn_in
from upshot.state.summary import RUNNING

_TEXT = Allowed("a string", (str,))
_ALWAYS = "always"


class Grant(Value, frozen=True, kw_only=True):
    """A standing approval of a run that has not ended, with which it ends.

    Attributes:
        id: Names it in the journal.
        run_id: The run.
        agent_id: Its agent.
        tool_name: The tool.
        scope: "tool" for all calls of it as it is now, "arguments" for those with the same ones.
        arguments: Those of the call that was approved.
        by: Who approved it.
        at: When.
        uses: How many calls it has let run since.
        withdrawn: Who withdrew it and when; None while it stands.
    """

    id: str
    run_id: str
    agent_id: str
    tool_name: str
    scope: str
    arguments: JsonObject = {}
    by: str = ""
    at: Moment | None = None
    uses: int = 0
    withdrawn: Withdrawal | None = None


async def list_grants(
    journal: Journal, *, owner: str, tenant: str, limit: int, withdrawn: bool
) -> tuple[Grant, ...]:
    """The standing approvals of runs that have not ended; see ``App.grants``."""
    check_whole("limit", limit, least=1)
    found: list[Grant] = []
    for status in (RUNNING, Status.INPUT_REQUIRED.value):
        for run in await journal.runs(status, owner=owner, tenant=tenant, limit=limit):
            found += await _grants_of(run, journal)
    return tuple(one for one in found if withdrawn or one.withdrawn is None)


async def _grants_of(run: RunSummary, journal: Journal) -> list[Grant]:
    withdrawn = await withdrawn_in(journal, run.run_id)
    records = [
        (record, record.approval)
        for record in (await RunHandle(run.run_id, journal).state()).records
        if record.approval is not None and record.approval.scope
    ]
    used = [
        (record.tool_name, one.scope, one.digest if one.scope == "arguments" else "")
        for record, one in records
        if one.decision == _ALWAYS
    ]
    return [
        Grant(
            id=f"{run.run_id} {one.key}",
            run_id=run.run_id,
            agent_id=run.agent_id,
            tool_name=record.tool_name,
            scope=one.scope,
            arguments=record.arguments_executed or {},
            by=one.by,
            at=one.at,
            uses=used.count(
                (record.tool_name, one.scope, one.digest if one.scope == "arguments" else "")
            ),
            withdrawn=withdrawn.get(one.key),
        )
        for record, one in records
        if one.decision not in (_ALWAYS, "denied")
    ]


async def withdraw_grant(grant_id: str, journal: Journal, by: str) -> None:
    """Have a standing approval stand no more; see ``App.withdraw``."""
    check_argument("grant_id", grant_id, _TEXT)
    check_argument("by", by, _TEXT)
    run_id, _, key = grant_id.rpartition(" ")
    runs = await journal.runs(run_id=run_id) if run_id else ()
    known = [one for run in runs for one in await _grants_of(run, journal)]
    if not any(one.id == grant_id and one.withdrawn is None for one in known):
        raise Misuse(f"there is no standing approval {grant_id!r}: give the id of one of grants()")
    await withdraw(journal, run_id, {key: Withdrawal(by=by, at=datetime.now(UTC))})
