"""Tools in processes of their own, with real processes."""

import asyncio
import functools
import importlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.tools import isolated
from upshot.contract import (
    Effect,
    RunInfo,
    ToolArtifactReference,
    ToolCall,
    ToolExecutionResult,
    ToolFailure,
    ToolOutcome,
    ToolProgress,
    ToolTimeout,
    Warned,
)
from upshot.errors import Misuse
from upshot.testing import FakeClock
from upshot.tools import ProcessLimits, Tool, Toolbox, tool
from upshot.tools.toolbox_state import MAX_PROCESSES

ROOT = Path(__file__).resolve().parents[3]


async def one(used: Tool, arguments: dict[str, object] | None = None) -> ToolOutcome:
    call = ToolCall("1", used.name, arguments or {})  # pyright: ignore[reportArgumentType]
    return (await Toolbox([used]).dispatch([call]))[0]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie has ended; whoever is its parent may not have been told yet.
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return Path("/proc").exists() is False
    except ProcessLookupError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def wait_until_gone(pids: list[int]) -> bool:
    for _ in range(3000):
        if not any(map(is_alive, pids)):
            return True
        threading.Event().wait(0.01)
    return False


def wait_for_pids(folder: Path) -> list[int]:
    for _ in range(3000):
        if (folder / "pids").exists():
            return [int(pid) for pid in (folder / "pids").read_text().split()]
        threading.Event().wait(0.01)
    raise AssertionError("the tool never started")


async def test_typed_arguments_and_values_cross_over():
    box = Toolbox([isolated.move], clock=FakeClock())
    outcome = (await box.dispatch([ToolCall("1", "move", {"point": {"x": "4", "y": 0}})]))[0]
    assert isinstance(outcome, ToolExecutionResult), outcome
    assert (outcome.output, outcome.was_coerced) == ({"x": 5, "y": None}, True)
    assert (box.records[0].mode, box.records[0].lossy) == ("process", ("/y",))


async def test_a_process_inherits_no_key_of_its_caller(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "of-the-caller")
    monkeypatch.setenv("LC_TIME", "C")
    outcome = await one(isolated.show_variables)
    assert isinstance(outcome, ToolExecutionResult), outcome
    seen = outcome.output
    assert isinstance(seen, dict)
    assert (seen["TOOL_KEY"], seen["LC_TIME"]) == ("of-the-tool", "C")
    assert seen["PATH"] == os.environ["PATH"]
    assert "OPENAI_API_KEY" not in seen
    assert "of-the-tool" not in repr(isolated.show_variables)


async def test_a_context_is_there_without_dependencies():
    events: list[object] = []
    box = Toolbox([isolated.tell], identity=RunInfo(run_id="r"), dependencies=1, emit=events.append)
    outcome = (await box.dispatch([ToolCall("7", "tell")], turn=3))[0]
    assert isinstance(outcome, ToolExecutionResult), outcome
    *told, pid = outcome.output["result"]  # type: ignore[misc]
    assert told == ["7", "r", 3, None]
    assert pid != os.getpid()
    progress = [event for event in events if isinstance(event, ToolProgress)]
    assert [(event.text, event.data) for event in progress] == [("half", {"n": 1})]


async def test_what_it_raises_is_told_as_from_anywhere():
    outcome = await one(isolated.refuse)
    assert isinstance(outcome, ToolFailure)
    assert (outcome.error, outcome.code, outcome.retryable) == ("not today", "closed", False)
    assert outcome.retry_after_s == 3
    outcome = await one(isolated.stumble)
    assert isinstance(outcome, ToolFailure)
    assert outcome.error == "ValueError: over this"


async def test_what_json_cannot_hold_is_a_failure_that_took_effect():
    outcome = await one(isolated.give_object)
    assert isinstance(outcome, ToolFailure)
    assert (outcome.code, outcome.effect) == ("unserializable_output", Effect.APPLIED)


@pytest.mark.slow
async def test_processes_make_room_for_those_that_come_after_them():
    box = Toolbox([isolated.move])
    async with asyncio.timeout(50):
        for number in range(MAX_PROCESSES + 1):
            call = ToolCall(str(number), "move", {"point": {"x": number, "y": 0}})
            assert isinstance((await box.dispatch([call]))[0], ToolExecutionResult)


async def test_a_large_output_and_large_arguments_cross_over():
    outcome = await one(isolated.large, {"size": 3_000_000, "text": "y" * 500_000})
    assert isinstance(outcome, ToolArtifactReference), outcome
    assert outcome.size_bytes == 3_000_001


@pytest.mark.slow("cpu")
@pytest.mark.parametrize(
    ("used", "code"),
    [
        (isolated.vanish, "worker_failed"),
        pytest.param(
            isolated.eat,
            "memory_limit",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="held by Linux only"),
        ),
        (isolated.spin, "cpu_limit"),
    ],
    ids=["exit", "memory", "cpu"],
)
async def test_a_process_that_is_cut_off_is_a_typed_failure(used: Tool, code: str):
    outcome = await one(used)
    assert isinstance(outcome, ToolFailure)
    assert (outcome.code, outcome.effect, outcome.retryable) == (code, Effect.UNKNOWN, False)


@pytest.mark.skipif(sys.platform != "linux", reason="found by /proc")
async def test_the_end_of_a_grandchild_is_not_that_of_the_tool():
    outcome = await one(isolated.outlast)
    assert isinstance(outcome, ToolExecutionResult), outcome
    assert outcome.output == {"result": "alone"}


@pytest.mark.slow("session")
@pytest.mark.skipif(sys.platform != "linux", reason="found by /proc")
@pytest.mark.parametrize("own_session", [False, True], ids=["group", "session"])
async def test_a_hung_tool_is_killed_in_time_with_its_grandchildren(
    tmp_path: Path, own_session: bool
):
    arguments = {"folder": str(tmp_path), "own_session": own_session}
    # Cancelled once it hangs, so that the test waits for no timeout.
    box = Toolbox([isolated.hang])
    running = asyncio.create_task(box.dispatch([ToolCall("1", "hang", arguments)]))  # pyright: ignore[reportArgumentType]
    pids = await asyncio.to_thread(wait_for_pids, tmp_path)
    assert all(map(is_alive, pids))
    box.cancel()
    outcome = (await running)[0]
    assert isinstance(outcome, ToolFailure)
    assert (outcome.code, outcome.effect) == ("cancelled", Effect.UNKNOWN)
    assert not any(map(is_alive, pids))


async def test_a_hung_tool_gives_its_outcome_in_time(tmp_path: Path):
    outcome = await one(isolated.hang.but(timeout_s=1.0), {"folder": str(tmp_path)})
    assert isinstance(outcome, ToolTimeout)
    assert outcome.stopped
    assert outcome.elapsed_ms < 30_000


async def test_time_that_is_over_before_the_start_leaves_no_effect(tmp_path: Path):
    outcome = await one(isolated.hang.but(timeout_s=0.001), {"folder": str(tmp_path)})
    assert isinstance(outcome, ToolTimeout)
    assert outcome.effect is Effect.NONE


async def test_a_process_that_does_not_come_to_its_start_is_killed_and_did_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # What it imports first, in place of the module of that name.
    (tmp_path / "ctypes.py").write_text("import threading; threading.Event().wait()")
    monkeypatch.syspath_prepend(tmp_path)
    events: list[object] = []
    box = Toolbox([isolated.hang.but(timeout_s=0.01)], emit=events.append)
    (outcome,) = await box.dispatch([ToolCall("1", "hang", {"folder": str(tmp_path)})])
    assert isinstance(outcome, ToolTimeout)
    assert (outcome.stopped, outcome.effect) == (True, Effect.NONE)
    assert not [event for event in events if isinstance(event, Warned)]


def test_a_body_is_not_started_once_its_caller_has_given_up():
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from upshot.tools.execution.process_supervisor import main; main()",
        ],
        input=b"{}\n",
        capture_output=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
    )
    assert done.stdout == b""


@pytest.mark.skipif(sys.platform != "linux", reason="found by /proc")
async def test_what_a_tool_leaves_behind_is_killed(tmp_path: Path):
    outcome = await one(isolated.leave, {"folder": str(tmp_path)})
    assert isinstance(outcome, ToolExecutionResult)
    assert not any(map(is_alive, wait_for_pids(tmp_path)))


def caller(code: str, tmp_path: Path) -> "subprocess.Popen[str]":
    script = (
        "import asyncio\n"
        "from tests.tools.isolated import hang\n"
        "from upshot.tools import Toolbox, ToolCall\n"
        f"call = ToolCall('1', 'hang', {{'folder': {str(tmp_path)!r}, 'own_session': True}})\n"
    )
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    return subprocess.Popen(
        [sys.executable, "-c", script + code],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.mark.skipif(sys.platform != "linux", reason="found by /proc")
def test_it_dies_with_its_caller_however_that_dies(tmp_path: Path):
    with caller("asyncio.run(Toolbox([hang]).dispatch([call]))", tmp_path) as process:
        pids = wait_for_pids(tmp_path)
        process.send_signal(signal.SIGKILL)
    assert wait_until_gone(pids)


def test_a_hung_process_does_not_keep_the_interpreter_from_its_exit(tmp_path: Path):
    code = "print(asyncio.run(Toolbox([hang.but(timeout_s=1.0)]).dispatch([call]))[0].kind)"
    with caller(code, tmp_path) as process:
        said, _ = process.communicate(timeout=60)
    assert (said.strip(), process.returncode) == ("tool_timeout", 0)


def test_a_script_is_found_by_its_file_and_not_run_again(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(
        "import asyncio\n"
        "from upshot.tools import Toolbox, ToolCall, tool\n"
        "@tool(effect='read', isolation='process')\n"
        "def add(a: int) -> int:\n"
        "    return a + 1\n"
        "if __name__ == '__main__':\n"
        "    box = Toolbox([add])\n"
        "    print(asyncio.run(box.dispatch([ToolCall('1', 'add', {'a': 1})]))[0].output)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.stdout.strip() == "{'result': 2}"


async def test_a_function_that_was_made_a_tool_elsewhere_is_found():
    outcome = await one(isolated.renamed, {"a": 1})
    assert isinstance(outcome, ToolExecutionResult), outcome
    assert outcome.output == {"result": 2}


async def test_a_tool_that_cannot_be_loaded_has_no_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "soon_gone.py"
    file.write_text("def work() -> None: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    lost = tool(effect="write", isolation="process")(importlib.import_module("soon_gone").work)
    file.write_text("")
    outcome = await one(lost)
    assert isinstance(outcome, ToolFailure)
    assert (outcome.code, outcome.effect) == ("worker_failed", Effect.NONE)
    assert "work" in outcome.error


class Owner:
    def method(self) -> None:
        """Has an owner that no other process has."""


@pytest.mark.parametrize(
    "function",
    [
        lambda: None,
        functools.partial(isolated.plain, 1),
        Owner().method,
    ],
    ids=["lambda", "partial", "method"],
)
def test_what_no_other_process_can_import_is_misuse(function: object):
    with pytest.raises(Misuse, match="import it by name"):
        tool(isolation="process", name="x")(function)  # type: ignore[arg-type]


def test_a_method_is_misuse():
    with pytest.raises(Misuse, match="top of a module"):
        tool(isolation="process")(Owner.method)


def test_a_function_in_a_function_is_misuse():
    def inner() -> None:
        """Nobody finds it."""

    with pytest.raises(Misuse, match="import it by name"):
        tool(isolation="process")(inner)


def test_limits_are_for_processes():
    with pytest.raises(Misuse, match="isolation='process'"):
        tool(limits=ProcessLimits(cpu_s=1))(isolated.plain)
    with pytest.raises(Misuse, match="above 0"):
        ProcessLimits(cpu_s=0)


PERSIST = (
    "from tests.tools.isolated import persist\n"
    "call = ToolCall('1', 'persist', {{'folder': {folder!r}}})\n"
    "asyncio.run(Toolbox([persist.but(timeout_s={timeout_s})]).dispatch([call]))"
)


@pytest.mark.skipif(sys.platform != "linux", reason="found by /proc")
def test_a_worker_whose_caller_is_gone_is_killed_without_being_asked(tmp_path: Path):
    with caller(PERSIST.format(folder=str(tmp_path), timeout_s=60), tmp_path) as process:
        pids = wait_for_pids(tmp_path)
        process.send_signal(signal.SIGKILL)
    assert wait_until_gone(pids)
    assert not (tmp_path / "asked").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="found by /proc")
def test_a_worker_that_is_given_up_is_asked_first(tmp_path: Path):
    with caller(PERSIST.format(folder=str(tmp_path), timeout_s=2), tmp_path) as process:
        process.wait(timeout=60)
    assert wait_until_gone(wait_for_pids(tmp_path))
    assert (tmp_path / "asked").exists()
