"""The processes of tests: a forked one does what one does that Python starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from tests.processes import launched, run_python, start_python

PROGRAMS = {
    "output": "import sys; print('out', sys.argv[1:], __name__); print('err', file=sys.stderr)",
    "input": "import sys; print(input(), sys.stdin.read())",
    "folder and environment": "import os; print(os.getcwd(), os.environ['GIVEN'], len(os.environ))",
    "streams": "import os; print(os.isatty(0), os.listdir('/proc/self/fd')[:-1])",
    "exit code": "raise SystemExit(7)",
    "exit text": "raise SystemExit('no')",
    "error": "def f(): 1/0\nf()",
    "interrupt": "raise KeyboardInterrupt",
    "at exit": "import atexit; atexit.register(print, 'last')",
    "thread": "import threading; threading.Timer(0.01, print, ['late']).start()",
    "signals": "import signal; print([signal.getsignal(n) for n in (2, 13, 15, 17)])",
    "killed": "import os; os.kill(os.getpid(), 9)",
    "module": "import __main__; print(__main__.__spec__, hasattr(__main__, '__file__'))",
}


@pytest.mark.slow("file-*")
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("is_file", [False, True], ids=["code", "file"])
def test_it_does_what_python_does(tmp_path: Path, name: str, is_file: bool) -> None:
    how = ["-c", PROGRAMS[name]]
    if is_file:
        (tmp_path / "program.py").write_text(PROGRAMS[name])
        how = ["program.py"]
    env = {**os.environ, "GIVEN": "this"}
    options: Any = {"cwd": tmp_path, "env": env, "text": True}
    ways: dict[str, Any] = {
        "python": subprocess.run(
            [sys.executable, *how, "a"],
            input="one\ntwo",
            check=False,
            capture_output=True,
            **options,
        ),
        "forked": run_python(*how, "a", said="one\ntwo", **options),
        "launched": subprocess.run(
            launched(*how, "a"), input="one\ntwo", check=False, capture_output=True, **options
        ),
    }
    told = {way: (done.returncode, done.stdout, _error_of(done)) for way, done in ways.items()}
    assert told["forked"] == told["python"]
    assert told["launched"] == told["python"]


def _error_of(done: Any) -> str:
    # Python 3.13 knows the lines of `-c`; runpy stands between where a file is run by it.
    return (done.stderr.splitlines() or [""])[-1]


def test_a_module_is_the_main_one_and_warnings_can_be_errors(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("import warnings\nprint(__name__)\nwarnings.warn('x')\n")
    done = run_python("-W", "error", "-m", "shop", cwd=tmp_path, text=True)
    assert (done.returncode, done.stdout) == (1, "__main__\n")
    assert done.stderr.endswith("UserWarning: x\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_it_can_be_waited_for_in_one_thread_and_stopped_by_another(number: signal.Signals) -> None:
    with start_python("-c", "print('here', flush=True); input()", stdin=PIPE, stdout=PIPE) as one:
        assert one.stdout is not None and one.stdout.readline() == b"here\n"
        waiting = threading.Thread(target=one.wait)
        waiting.start()
        with pytest.raises(subprocess.TimeoutExpired):
            one.wait(0)
        assert one.poll() is None
        one.send_signal(number)
        waiting.join()
        assert one.returncode == -number


def test_it_has_a_session_of_its_own_where_that_is_asked_for() -> None:
    code = "import os; print(os.getsid(0) == os.getpid())"
    assert run_python("-c", code, start_new_session=True).stdout == b"True\n"
    assert run_python("-c", code).stdout == b"False\n"


def test_it_is_killed_with_what_launched_it_and_after_its_time() -> None:
    code = "print('here', flush=True); input()"
    with subprocess.Popen(launched("-c", code), stdin=PIPE, stdout=PIPE) as one:
        assert one.stdout is not None and one.stdout.readline() == b"here\n"
        one.kill()
        # Only what it launched holds the other end.
        assert one.stdout.read() == b""
    with start_python("-c", code, max_s=0, stdin=PIPE) as other:
        assert other.wait() == -signal.SIGKILL
