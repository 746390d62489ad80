"""Which process has a run, and whether it lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import upshot.journal.lease_holder as holder
from tests.processes import watched
from upshot.journal import LeaseHolder
from upshot.journal.lease_holder import read_holder, this_process


@pytest.fixture(params=["told", "untold"])
def platform(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A platform that tells of its processes, and one that tells nothing."""
    if request.param == "untold":
        monkeypatch.setattr(holder, "_PROC", str(tmp_path))
    holder._describe.cache_clear()  # pyright: ignore[reportPrivateUsage]  # it is known by then
    yield
    holder._describe.cache_clear()  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with watched(
        subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=-1)
    ) as process:
        yield process
        process.kill()


def of(process: subprocess.Popen[bytes]) -> LeaseHolder:
    return msgspec.structs.replace(this_process(), pid=process.pid, started=None)


@pytest.mark.usefixtures("platform")
def test_the_process_that_asks_lives() -> None:
    assert this_process().state == "lives"
    assert this_process().is_this_process


@pytest.mark.usefixtures("platform")
def test_another_process_lives_until_its_end(sleeper: subprocess.Popen[bytes]) -> None:
    known = of(sleeper)
    assert (known.state, known.is_this_process) == ("lives", False)
    if this_process().started is not None:
        sleeper.send_signal(signal.SIGSTOP)
        os.waitpid(sleeper.pid, os.WUNTRACED)
        assert known.state == "stopped"
        sleeper.send_signal(signal.SIGCONT)
        os.waitpid(sleeper.pid, os.WCONTINUED)
        assert known.state == "lives"
    sleeper.kill()
    sleeper.wait()
    assert known.state == "gone"


@pytest.mark.skipif(this_process().started is None, reason="nothing is told of processes here")
@pytest.mark.parametrize("end", ["killed", "ended"])
def test_a_process_that_is_over_is_gone_though_nobody_has_waited_for_it(
    sleeper: subprocess.Popen[bytes], end: str
) -> None:
    known = of(sleeper)
    if end == "killed":
        sleeper.kill()
    else:
        assert sleeper.stdin is not None
        sleeper.stdin.close()
    # It is looked at and left as it is.
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert known.state == "gone"


@pytest.mark.skipif(this_process().started is None, reason="nothing is told of processes here")
def test_a_process_that_was_started_at_another_time_is_another_one() -> None:
    here = this_process()
    assert msgspec.structs.replace(here, started=(here.started or 0) - 1).state == "gone"


@pytest.mark.usefixtures("platform")
def test_of_another_machine_nothing_can_be_told() -> None:
    here = this_process()
    other = msgspec.structs.replace(here, boot=here.boot and "another", host="elsewhere")
    assert other.state == "unknown"


@pytest.mark.skipif(not this_process().boot, reason="the start of the machine is not told here")
def test_a_machine_that_was_renamed_is_the_same() -> None:
    assert msgspec.structs.replace(this_process(), host="elsewhere").state == "lives"


def test_nobody_is_gone() -> None:
    nobody = read_holder("")
    assert nobody is not None
    assert nobody.state == "gone"


@given(st.one_of(st.text(), st.integers(-(2**70), 2**70).map(lambda pid: f'{{"pid":{pid}}}')))
def test_whatever_a_file_says_is_read(text: str) -> None:
    found = read_holder(text)
    assert found is None or found.state in ("lives", "stopped", "gone", "unknown")


@given(st.builds(LeaseHolder, pid=st.integers(0, 2**22), started=st.none() | st.integers(0, 2**62)))
def test_a_holder_is_read_as_it_was_written(known: LeaseHolder) -> None:
    assert read_holder(msgspec.json.encode(known).decode()) == known


@pytest.mark.parametrize("pid", [0, -1])
def test_an_id_that_no_process_can_have_is_gone(pid: int) -> None:
    assert msgspec.structs.replace(this_process(), pid=pid, started=None).state == "gone"
