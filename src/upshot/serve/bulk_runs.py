"""Acts on many runs of the list: each is permitted, done and reported by itself."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal, TypeAlias

import msgspec

from upshot.contract.base.enums import Status
from upshot.contract.base.structs import Json
from upshot.contract.user import User
from upshot.errors import JournalError, Misuse
from upshot.journal.shared import needs_shared
from upshot.serve import replies
from upshot.serve.permissions import Missing, Refused
from upshot.serve.site import Site

MOST = 100
"""The most runs of one request."""

_Action: TypeAlias = Literal["cancel", "resume", "note", "collect"]


class Bulk(msgspec.Struct, forbid_unknown_fields=True):
    """What to do with which runs.

    Attributes:
        action: "cancel", "resume", "note" or "collect", which adds to a dataset.
        runs: The runs.
        name: The name of the note or of the dataset.
        value: The value of the note; None removes the user's own.
    """

    action: _Action
    runs: Annotated[list[str], msgspec.Meta(min_length=1, max_length=MOST)]
    name: str = ""
    value: Json = None


async def act_on_runs(site: Site, user: User, given: Bulk) -> replies.BulkDone:
    """Do the same with several runs; a failure does not stop the rest.

    Raises:
        Misuse: A note or a dataset needs a name.
        Missing: The site keeps no datasets.
        Refused: The user may not add to them.
    """
    if given.action in ("note", "collect") and not given.name:
        raise Misuse(f"name is empty: give the name of the {_WHAT[given.action]}")
    if given.action == "collect":
        site.lab.check(user)

    async def outcome_of(run_id: str) -> replies.BulkOutcome:
        error = ""
        try:
            await _act(site, user, run_id, given)
        except (Missing, Refused, Misuse, JournalError) as refused:
            error = str(refused)
        return replies.BulkOutcome(run_id=run_id, error=error)

    ids = dict.fromkeys(given.runs)
    if given.action == "cancel":
        # Each may wait for the process that works on its run.
        return replies.BulkDone(outcomes=tuple(await asyncio.gather(*map(outcome_of, ids))))
    return replies.BulkDone(outcomes=tuple([await outcome_of(run_id) for run_id in ids]))


_WHAT = {"note": "note", "collect": "dataset"}


async def _act(site: Site, user: User, run_id: str, given: Bulk) -> None:
    match given.action:
        case "cancel":
            await cancel_run(site, user, run_id)
        case "resume":
            await resume_run(site, user, run_id)
        case "note":
            run = await site.run_of(user, run_id, "note", act="note")
            await site.app.note(run.id, given.name, given.value, by=user.id)
        case "collect":
            run = await site.run_of(user, run_id, act="collect")
            await site.lab.add(user, given.name, await site.app.open(), [run.id], {})


async def cancel_run(site: Site, user: User, run_id: str) -> None:
    """Cancel a run, and wait for its end.

    Raises:
        Missing: There is no such run, or it belongs to another user.
        Refused: The user may see it but not do this.
        Misuse: It has ended, or ended otherwise at the same moment.
        JournalError: The process that works on it does not respond; the cancel stays in force.
    """
    why = "there is nothing to cancel"
    run = await site.run_of(user, run_id, "operate", act="cancel", unless_ended=why)
    await run.cancel()
    last = await (await run.last_run()).summary()
    if not last.ended:
        raise JournalError(
            f"run {last.run_id} is still worked on, by a process that does not respond: it ends as "
            "soon as that process or another one works on it"
        )
    if last.status != Status.CANCELED:
        raise Misuse(f"run {last.run_id} was not canceled: it has ended as {last.status}")


async def resume_run(site: Site, user: User, run_id: str) -> None:
    """Make a run due that has not ended, such as one whose process died.

    If it handed its request over, this is the last run that got it.

    Raises:
        Missing: There is no such run, or it belongs to another user.
        Refused: The user may see it but not do this.
        Misuse: It has ended.
    """
    why = "fork it to continue from one of its events"
    run = await site.run_of(user, run_id, "operate", act="resume", unless_ended=why)
    last = await run.last_run()
    await needs_shared(await site.app.open()).make_due(last.id, "resumed")
