"""Forking: a new run from a point of another run's log."""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile

from msgspec.structs import replace

from upshot.contract.base.enums import Status
from upshot.contract.base.structs import Json
from upshot.contract.codec import encode
from upshot.contract.events import Event, RunSettled, RunStarted
from upshot.contract.message import Unknown
from upshot.entry.option_checks import check_run_id
from upshot.errors import Misuse
from upshot.journal.artifact_store import StoredArtifact
from upshot.journal.export_file import ExportedRun, read_lines, write_lines
from upshot.journal.opening import open_journal
from upshot.runs.plan import Where
from upshot.state.child_runs import FORKED_FROM


async def fork_run(run_id: str, *, at: int, journal: Where) -> str:
    """See ``fork``."""
    check_run_id(run_id)
    if not isinstance(at, int) or isinstance(at, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
        raise Misuse(f"at is {at!r:.60}: give the seq of an event of the run, from 1")
    async with open_journal(journal, create=False) as opened:
        new_id = f"run-{secrets.token_hex(8)}"
        with tempfile.TemporaryDirectory(prefix="upshot-") as folder:
            whole, part = os.path.join(folder, "whole"), os.path.join(folder, "part")
            events = await opened.export(run_id, whole)
            if not 1 <= at <= events:
                raise Misuse(f"run {run_id} has no event {at}: give one from 1 to {events}")
            await asyncio.to_thread(_write, whole, part, new_id=new_id, at=at)
            return await opened.import_(part)


def _write(whole: str, part: str, *, new_id: str, at: int) -> None:
    """Write the first events of the run in *whole* to *part*, as a run of its own."""
    bodies: list[bytes] = []
    artifacts: list[StoredArtifact] = []
    last: Event | None = None
    for line in read_lines(whole):
        if isinstance(line, StoredArtifact):
            artifacts.append(line)
        elif line.entry.seq <= at:
            last = line.event
            bodies.append(_renamed(line.event, line.entry.seq, new_id, at))
    if isinstance(last, RunSettled) and last.result.status is not Status.INPUT_REQUIRED:
        raise Misuse(f"the run has ended at event {at}: fork it at an earlier one")
    kept = [one for one in artifacts if any(one.id.encode() in body for body in bodies)]
    # Ids of artifacts are hard to guess, so nothing else in the log reads like one.
    names = {one.id.encode(): f"art-{secrets.token_hex(12)}".encode() for one in kept}
    renamed = [replace(one, id=names[one.id.encode()].decode(), run_id=new_id) for one in kept]
    bodies = [_translated(body, names) for body in bodies]
    write_lines(part, ExportedRun(new_id, len(bodies), bodies, len(renamed), renamed))


def _translated(body: bytes, names: dict[bytes, bytes]) -> bytes:
    for old, new in names.items():
        body = body.replace(old, new)
    return body


def _renamed(event: Event, seq: int, new_id: str, at: int) -> bytes:
    if isinstance(event, Unknown):
        raise Misuse(f"event {seq} is of a kind that this version does not know")
    run_id = event.run_id
    event = replace(event, run_id=new_id)
    match event:
        case RunStarted():
            origins = event.options.get(FORKED_FROM)
            known = origins if isinstance(origins, list) else []
            origin: Json = {"run_id": run_id, "seq": at}
            options = {**event.options, FORKED_FROM: [*known, origin]}
            request = replace(event.request, run_id="")
            event = replace(event, options=options, request=request)
        case _:
            pass
    return encode(event)
