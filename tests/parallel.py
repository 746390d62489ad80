"""``pytest --workers N``: runs the tests in N processes that are forked after one collection.

The processes take piece after piece of the list of tests from a pipe, and report what a reader
wants to know. If one dies, the test that it was at has failed, and another one does the rest.
"""

from __future__ import annotations

import atexit
import json
import os
import selectors
import signal
import sys
import traceback
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

__all__ = ["Parallel"]

PIECE = 20
"""So many tests are taken at once. A file is split, so that nobody waits long for the last one."""
NUMBER_BYTES = 4
AT_ONCE_BYTES = 1 << 16


class Parallel:
    """A plugin that takes the place of pytest's loop over the tests."""

    def __init__(self, workers: int) -> None:
        self._workers = workers

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run the tests; None leaves that to pytest."""
        if session.config.option.collectonly or session.testsfailed or self._workers < 2:
            return None
        # Made here, so that the processes share it.
        _folders_of(session.config).getbasetemp()
        pieces, feed = os.pipe()
        for first in range(0, len(session.items), PIECE):
            os.write(feed, first.to_bytes(NUMBER_BYTES, "big"))
        os.close(feed)
        with selectors.DefaultSelector() as selector:
            for number in range(self._workers):
                _start(Worker(session, number, pieces), selector)
            try:
                self._follow(session, selector)
            finally:
                for key in [*selector.get_map().values()]:
                    key.data.end(kill=True)
                os.close(pieces)
        return True

    def _follow(self, session: pytest.Session, selector: selectors.BaseSelector) -> None:
        while selector.get_map():
            for key, _ in selector.select():
                worker: Worker = key.data
                if worker.read():
                    pass
                elif (rest := worker.end()) is None:
                    selector.unregister(key.fd)
                else:
                    selector.unregister(key.fd)
                    _start(Worker(session, worker.number, worker.pieces, rest), selector)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)


def _start(worker: Worker, selector: selectors.BaseSelector) -> None:
    selector.register(worker.reports, selectors.EVENT_READ, worker)


class Worker:
    """A process that runs tests, and what it has reported.

    Attributes:
        number: Its number, from 0.
        pieces: The pipe with the index of the first test of each piece.
        reports: The pipe on which it sends a line for each report.
    """

    def __init__(
        self, session: pytest.Session, number: int, pieces: int, left: list[int] | None = None
    ) -> None:
        self.number, self.pieces = number, pieces
        self._session = session
        self._left = left or []
        self._at = -1
        self._line = b""
        self.reports, writing = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if not self._pid:
            _run(session, number, _indices(self._left, pieces, writing), writing)
        os.close(writing)

    def read(self) -> bool:
        """Read and pass on its reports; returns whether there may be more."""
        data = os.read(self.reports, AT_ONCE_BYTES)
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            match json.loads(line):
                case [first, after]:
                    self._left += range(first, after)
                case int(index):
                    self._at = index
                    self._left.remove(index)
                case report:
                    self._log(report)
        return bool(data)

    def end(self, *, kill: bool = False) -> list[int] | None:
        """Wait for its end; returns the tests that it has left if it died, else None."""
        if kill:
            os.kill(self._pid, signal.SIGKILL)
        os.close(self.reports)
        code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        if not code or kill:
            return None
        item = self._session.items[self._at]
        died = pytest.TestReport(
            item.nodeid, item.location, {}, "failed", f"its process ended with {code}", "call"
        )
        self._session.config.hook.pytest_runtest_logreport(report=died)
        return self._left

    def _log(self, data: dict[str, Any]) -> None:
        config = self._session.config
        report = config.hook.pytest_report_from_serializable(config=config, data=data)
        config.hook.pytest_runtest_logreport(report=report)
        config.hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)


def _indices(left: list[int], pieces: int, writing: int) -> Iterator[int]:
    """In a worker, the tests to run: those left by one that died, then piece after piece."""
    yield from left
    while number := os.read(pieces, NUMBER_BYTES):
        first = int.from_bytes(number, "big")
        after = first + PIECE
        _send(writing, [first, after])
        yield from range(first, after)


def _run(session: pytest.Session, number: int, indices: Iterator[int], writing: int) -> NoReturn:
    """In a worker, run the tests and report."""
    code = 3
    try:
        config = session.config
        capture: Any = config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()
        capture.start_global_capturing()
        config.pluginmanager.unregister(name="terminalreporter")
        folders = _folders_of(config)
        folders._basetemp = folders.getbasetemp() / f"worker-{number}"
        folders._basetemp.mkdir(exist_ok=True)
        config.pluginmanager.register(Sender(config, writing))
        index = next(indices, None)
        while index is not None and index < len(session.items):
            following = next(indices, len(session.items))
            after = session.items[following] if following < len(session.items) else None
            _send(writing, index)
            config.hook.pytest_runtest_protocol(item=session.items[index], nextitem=after)
            index = following
        capture.stop_global_capturing()
        _run_exit_functions()
        code = 0
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(code)


class Sender:
    """A plugin that sends the reports that count."""

    def __init__(self, config: pytest.Config, writing: int) -> None:
        self._config = config
        self._to = writing

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send a report of a call, or of what failed or was skipped before or after it."""
        if report.when == "call" or not report.passed:
            hook = self._config.hook
            _send(self._to, hook.pytest_report_to_serializable(config=self._config, report=report))


def _send(to: int, told: Any) -> None:
    line = json.dumps(told).encode() + b"\n"
    while line:
        line = line[os.write(to, line) :]


def _folders_of(config: Any) -> Any:
    return config._tmp_path_factory


def _run_exit_functions() -> None:
    exit_functions: Any = atexit
    exit_functions._run_exitfuncs()
