"""Standing approvals: calls that users allow for the rest of their run."""

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
    """A standing approval; it lasts as long as its run.

    Attributes:
        id: Its id, unique in the journal.
        run_id: The run.
        agent_id: The agent of the run.
        tool_name: The tool.
        scope: "tool" for all calls of the tool in its current version, "arguments" for calls with
            the same arguments.
        arguments: The arguments of the approved call.
        by: The person who approved it.
        at: When it was approved.
        uses: How many calls it has allowed since.
        withdrawn: Who withdrew it and when; None while it is in force.
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
    """Return the standing approvals of runs that have not ended; see ``App.grants``."""
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
    """Withdraw a standing approval; see ``App.withdraw``."""
    check_argument("grant_id", grant_id, _TEXT)
    check_argument("by", by, _TEXT)
    run_id, _, key = grant_id.rpartition(" ")
    runs = await journal.runs(run_id=run_id) if run_id else ()
    known = [one for run in runs for one in await _grants_of(run, journal)]
    if not any(one.id == grant_id and one.withdrawn is None for one in known):
        raise Misuse(f"there is no standing approval {grant_id!r}: give the id of one of grants()")
    await withdraw(journal, run_id, {key: Withdrawal(by=by, at=datetime.now(UTC))})
