"""Tools that run in processes of their own, in a module that those can import."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from upshot.tools import ProcessLimits, ToolContext, ToolError, tool

LONG_S = 100.0


@dataclass
class Point:
    x: int
    y: float = float("nan")


@tool(effect="read", isolation="process")
def move(point: Point, by: int = 1) -> Point:
    print("this is no answer")
    return Point(point.x + by)


@tool(effect="read", isolation="process")
async def tell(context: ToolContext) -> list[object]:
    context.progress("half", {"n": 1})
    return [context.call_id, context.run_id, context.turn, context.dependencies, os.getpid()]


@tool(effect="write", isolation="process", error_key=None)
def refuse() -> None:
    raise ToolError("not today", code="closed", retryable=False, retry_after_s=3)


@tool(effect="write", isolation="process")
def stumble() -> None:
    raise ValueError("over\nthis")


@tool(effect="write", isolation="process")
def give_object() -> object:
    return object()


@tool(effect="write", isolation="process")
def vanish() -> None:
    os._exit(7)


@tool(effect="write", isolation="process", limits=ProcessLimits(memory_bytes=600_000_000))
def eat() -> int:
    return len(bytearray(1_000_000_000))


@tool(effect="read", isolation="process", env={"TOOL_KEY": "of-the-tool"})
def show_variables() -> dict[str, str]:
    return dict(os.environ)


@tool(effect="write", isolation="process", limits=ProcessLimits(cpu_s=1))
def spin() -> None:
    while True:
        pass


@tool(effect="read", isolation="process")
def large(size: int, text: str = "") -> str:
    return "x" * size + text[-1:]


@tool(effect="write", isolation="process")
def hang(folder: str, own_session: bool = False) -> None:
    """Start a grandchild, note who is there, and hang, deaf to TERM."""
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    start_sleeper(folder, own_session)
    time.sleep(LONG_S)


@tool(effect="write", isolation="process")
def leave(folder: str) -> str:
    """Start a grandchild and leave it behind."""
    start_sleeper(folder, own_session=True)
    return "left"


@tool(effect="read", isolation="process")
def outlast() -> str:
    """Have a grandchild whose parent has ended come to its end, and see it cleared away."""
    orphan = "sh -c 'echo $$; sleep 0.02' &"
    with subprocess.Popen(["sh", "-c", orphan], stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        pid = int(shell.stdout.readline())
        shell.stdout.read()
    for _ in range(4000):
        if not Path("/proc", str(pid)).exists():
            return "alone"
        time.sleep(0.01)
    return "not alone"


def start_sleeper(folder: str, own_session: bool) -> None:
    code = f"import time; time.sleep({LONG_S})"
    sleeper = subprocess.Popen([sys.executable, "-c", code], start_new_session=own_session)
    note = Path(folder, "pids.part")
    note.write_text(f"{os.getpid()} {sleeper.pid}")
    note.rename(Path(folder, "pids"))
    sleeper.returncode = 0


def plain(a: int) -> int:
    return a + 1


# Its name in this module still means the function.
renamed = tool(effect="read", isolation="process", name="plus")(plain)


@tool(effect="write", isolation="process", timeout_s=5.0, resources=["ledger"])
def note(path: str, text: str, after_s: float = 0.0, fault: str = "") -> str:
    time.sleep(after_s)
    with Path(path).open("a") as file:
        file.write(f"{text}\n")
    if fault == "exit":
        os._exit(3)
    if fault == "raise":
        raise ValueError("after the effect")
    if fault == "hang":
        time.sleep(LONG_S)
    return text


@tool(effect="write", isolation="process")
def persist(folder: str) -> None:
    """Note in a file that it was asked to end, and go on."""
    import signal

    signal.signal(signal.SIGTERM, lambda _number, _frame: Path(folder, "asked").touch())
    Path(folder, "pids").write_text(str(os.getpid()))
    while True:
        time.sleep(LONG_S)
