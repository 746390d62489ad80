"""Forks and replays from the command line."""

from __future__ import annotations

import json

from upshot.cli.launch import Asked, Launching, named_model
from upshot.cli.lookup import command_line, existing_journal, find_run, read_activity
from upshot.cli.terminal import Terminal
from upshot.contract.codec import encode
from upshot.entry.api import fork, replay
from upshot.entry.replay_run import Replay
from upshot.journal.opening import open_journal

_DIFFERENT = 1
_MAX_SHOWN = 400


async def fork_agent_run(
    wanted: str, terminal: Terminal, *, at: int, journal: str, as_json: bool
) -> int:
    """Begin a new run where another one stood, and print its id."""
    async with open_journal(existing_journal(journal), create=False) as log:
        run_id = await find_run(log, wanted)
        new_id = await fork(run_id, at=at, journal=log)
    if as_json:
        terminal.put_json(encode({"run_id": new_id, "forked_from": run_id, "at": at}))
    else:
        terminal.say(new_id)
        terminal.hint(f"go on with it: {command_line('resume', new_id, journal=journal)}")
    return 0


async def replay_agent_run(
    wanted: str, asked: Asked, terminal: Terminal, *, journal: str, as_json: bool
) -> int:
    """Run an agent against what was recorded, and print where it first does otherwise."""
    async with open_journal(existing_journal(journal), create=False) as log:
        run_id = await find_run(log, wanted)
        launching = Launching(await read_activity(log, run_id), asked)
        launch = launching.launch
        agent, options = launching.loaded
        with launching.folder():
            options["model"] = named_model(launch.model, agent, base_url=launch.base_url)
            told = await replay(run_id, agent, **options, journal=log)
    if as_json:
        terminal.put_json(_to_json(told))
    else:
        terminal.say(*_lines(told))
    return 0 if told.same else _DIFFERENT


def _to_json(told: Replay) -> bytes:
    said = {"run_id": told.run_id, "same": told.same, "compared": told.compared}
    return encode({**said, "difference": told.difference})


def _lines(told: Replay) -> list[str]:
    difference = told.difference
    if difference is None:
        return [f"{told.run_id}: the same, {told.compared} facts compared"]
    place = f"event {difference.seq}" if difference.seq else "beyond the record"
    lines = [f"{told.run_id}: another {difference.kind} at {place}"]
    lines += [f"  recorded  {_short(difference.recorded)}"] if difference.seq else []
    lines.append(f"  replayed  {_short(difference.replayed)}")
    lines += [f"  asked for {difference.asked}"] if difference.asked else []
    return lines


def _short(said: object) -> str:
    text = "nothing" if said is None else json.dumps(said, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
