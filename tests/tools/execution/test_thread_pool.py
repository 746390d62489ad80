"""Daemon threads of our own, with real threads."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from upshot.tools.execution.executor import Job, Workers

PATIENCE_S = 60.0


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What hung jobs wait for; opened when the test is over."""
    event = threading.Event()
    yield event
    event.set()


def hang(
    workers: Workers, gate: threading.Event, *, waits: bool = False
) -> tuple[Job, threading.Event]:
    """A job that runs until the gate opens, and the event that tells its end.

    It has begun, but where it *waits* for a thread.
    """
    running, ended = threading.Event(), threading.Event()

    def work() -> None:
        running.set()
        gate.wait(PATIENCE_S)
        ended.set()

    job = Job(work)
    workers.submit(job)
    if not waits:
        assert running.wait(PATIENCE_S)
    return job, ended


def run(workers: Workers) -> int:
    """Run a job and give the thread that ran it."""
    seen: list[int] = []
    done = threading.Event()

    def work() -> None:
        seen.append(threading.get_ident())
        done.set()

    workers.submit(Job(work))
    assert done.wait(PATIENCE_S)
    return seen[0]


def until_idle(workers: Workers) -> None:
    """Wait until no thread has work: a job tells its end before its thread has gone back."""
    for _ in range(60_000):
        with workers._lock:
            if len(workers._idle) == workers.alive:
                return
        threading.Event().wait(0.001)
    raise AssertionError("a thread never went back")


def test_a_thread_is_used_again():
    workers = Workers()
    first = run(workers)
    until_idle(workers)
    assert run(workers) == first
    assert workers.alive == 1


def test_threads_do_not_keep_the_process_alive():
    run(Workers())
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "upshot-tool")


def test_no_more_threads_than_the_cap(gate: threading.Event):
    workers = Workers(cap=2)
    jobs = [hang(workers, gate, waits=number >= 2)[0] for number in range(5)]
    assert workers.alive == 2
    assert [job.started for job in jobs] == [True, True, False, False, False]


def test_a_waiting_job_runs_when_a_thread_is_free(gate: threading.Event):
    workers = Workers(cap=1)
    hang(workers, gate)
    _, ended = hang(workers, gate, waits=True)
    gate.set()
    assert ended.wait(PATIENCE_S)


def test_a_waiting_job_can_be_taken_back(gate: threading.Event):
    workers = Workers(cap=1)
    running, _ = hang(workers, gate)
    waiting, _ = hang(workers, gate, waits=True)
    assert workers.withdraw(waiting)
    assert not workers.withdraw(running)


def test_a_job_that_its_thread_has_not_begun_with_can_be_taken_back(gate: threading.Event):
    class Sluggish(Workers):
        def _work(self, worker: SimpleQueue[Job]) -> None:
            gate.wait(PATIENCE_S)
            super()._work(worker)

    workers, ran = Sluggish(), list[str]()
    job = Job(lambda: ran.append("ran"))
    workers.submit(job)
    assert workers.withdraw(job)
    gate.set()
    until_idle(workers)
    assert (ran, job.started, workers.lost) == ([], False, 0)
    assert run(workers)


def test_a_lost_thread_is_counted_until_it_comes_back(gate: threading.Event):
    workers = Workers(cap=2)
    job, ended = hang(workers, gate)
    workers.write_off(job)
    assert workers.lost == 1
    assert run(workers)
    gate.set()
    assert ended.wait(PATIENCE_S)
    until_idle(workers)
    assert workers.lost == 0
    assert run(workers)


def test_a_job_that_has_just_ended_is_not_counted_as_lost():
    workers = Workers()
    job = Job(lambda: None)
    workers.submit(job)
    until_idle(workers)
    workers.write_off(job)
    assert workers.lost == 0


def test_a_hung_thread_does_not_keep_the_interpreter_from_its_exit():
    code = (
        "import asyncio, time\n"
        "from upshot.tools import Toolbox, ToolCall, tool\n"
        "@tool(effect='read', timeout_s=0.02)\n"
        "def hang() -> None:\n"
        "    time.sleep(600)\n"
        "print(asyncio.run(Toolbox([hang]).dispatch([ToolCall('1', 'hang')]))[0].kind)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "tool_timeout"
