import asyncio
import signal
import subprocess
from subprocess import PIPE

import pytest

from tests.places import Place
from tests.processes import start_python

WRITER = """
import asyncio, sys
from upshot.contract import RunStarted, StepStarted
from upshot import open_journal

async def main(where):
    async with open_journal(where) as journal:
        epoch = await journal.claim("r")
        seq = await journal.last_seq("r")
        while True:
            for _ in range(1 + seq % 7):
                seq += 1
                # All kinds of transactions: those that change the list of runs, and others.
                event = StepStarted(run_id="r", seq=seq, key=str(seq))
                if seq == 1 or seq % 5 == 0:
                    event = RunStarted(run_id="r", seq=seq, options={"n": seq})
                journal.append(event, epoch=epoch)
            await journal.durable("r", seq)
            print(seq, flush=True)

asyncio.run(main(sys.argv[1]))
"""

CLAIMER = """
import asyncio, sys
from upshot import open_journal

async def main(where):
    async with open_journal(where) as journal:
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(20):
            print(await journal.claim("r"), flush=True)

asyncio.run(main(sys.argv[1]))
"""

OPENER = """
import asyncio, sys
from upshot.contract import RunStarted
from upshot import open_journal

async def main(where, run_id):
    print("ready", flush=True)
    sys.stdin.readline()
    async with open_journal(where) as journal:
        journal.append(RunStarted(run_id=run_id, seq=1))
        await journal.durable(run_id, 1)

asyncio.run(main(*sys.argv[1:]))
"""


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    return start_python("-c", code, *arguments, stdin=PIPE, stdout=PIPE, text=True)


def release(processes: list[subprocess.Popen[str]]) -> list[str]:
    """Let all go on at once; returns what each said, once all have ended well."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return said


async def read(place: Place) -> list[int]:
    journal = await place.open()
    seqs = [event.seq async for event in journal.events("r")]
    assert await journal.damage("r") is None
    await journal.aclose()
    return seqs


@pytest.mark.slow("*-20")
@pytest.mark.parametrize("barriers", [3, 20, 71])
def test_what_was_safe_survives_a_killed_process(place: Place, barriers: int):
    safe = 0
    for _ in range(2):
        with start(WRITER, place.where) as process:
            assert process.stdout is not None
            for _ in range(barriers):
                safe = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
            safe = max([safe, *map(int, process.stdout.read().split())])
        seqs = asyncio.run(read(place))
        assert len(seqs) >= safe
        assert seqs == list(range(1, len(seqs) + 1))


def test_claims_of_racing_processes_are_all_different(place: Place):
    said = release([start(CLAIMER, place.where) for _ in range(3)])
    epochs = [[int(word) for word in text.split()] for text in said]
    assert all(own == sorted(own) for own in epochs)
    assert sorted(epoch for own in epochs for epoch in own) == list(range(1, 61))


def test_processes_may_make_one_journal_at_once(empty_place: Place):
    release([start(OPENER, empty_place.where, f"r{number}") for number in range(4)])

    async def runs() -> set[str]:
        journal = await empty_place.open()
        found = {run.run_id for run in await journal.runs()}
        await journal.aclose()
        return found

    assert asyncio.run(runs()) == {"r0", "r1", "r2", "r3"}


TAKER = """
import asyncio, os, sys
from upshot import JournalError, open_journal

async def main(where):
    async with open_journal(where) as journal:
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            print("took", await journal.claim_free("r"), flush=True)
        except JournalError as error:
            print(error, flush=True)
        # The others look at a process that lives.
        sys.stdin.readline()

asyncio.run(main(sys.argv[1]))
"""


def test_of_eight_processes_that_take_one_run_one_has_it(place: Place):
    async def make() -> None:
        await (await place.open()).aclose()

    asyncio.run(make())
    processes = [start(TAKER, place.where) for _ in range(8)]
    for word in ("ready\n", ""):
        said = [one.stdout.readline() for one in processes if one.stdout is not None]
        assert not word or said == [word] * 8
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
    assert sorted(said).count("took 1\n") == 1
    assert sum("is being worked on by process" in one for one in said) == 7
    for process in processes:
        process.communicate(timeout=60)
