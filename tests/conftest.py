"""Shared by all tests: hypothesis settings, a clean environment, the corpus."""

import gc
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tests.places import Place
from tests.postgres import PostgresServer, fast_folder, started_server
from tests.slow import mark_slow
from tests.times import Times

ROOT = Path(__file__).resolve().parent.parent

# Removed from the environment: keys and proxies, so that no test reaches a provider; variables that
# git sets for hooks, so that no test writes to this repository; and settings of the user that
# change the output or behaviour of programs under test.
NOT_OURS = re.compile(
    r".*_API_KEY|HF_TOKEN|(AWS|AZURE|CLOUDSDK|CLOUD_ML|GOOGLE)_.*|.*_PROXY|GIT_.*|OTEL_.*|COLUMNS|LINES|NO_COLOR"
    r"|(FORCE|PY)_COLORS?|CLICOLOR.*|TTY_.*|UPSHOT_JOURNAL|PYTEST_ADDOPTS"
    r"|PYTHON(DONTWRITEBYTECODE|IOENCODING|SAFEPATH|WARNINGS|OPTIMIZE|STARTUP|INSPECT|VERBOSE)",
    re.IGNORECASE,
)

# No deadline and no speed check, because a busy machine is not a failure. `make test` uses the same
# few examples each time, so that a failure is due to the change and not to chance. `make
# properties` tries many random ones.
settings.register_profile(
    "upshot",
    deadline=None,
    max_examples=10,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "search", settings.get_profile("upshot"), derandomize=False, max_examples=2_000
)
settings.load_profile("upshot")

# The rewritten test modules are kept for the next session, whose collection then takes a third.
sys.dont_write_bytecode = False

# Journals wait for the disk at each commit, which takes half the time of their tests.
if (memory := fast_folder()) is not None:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", memory)

# Collection makes millions of objects that stay; looking through them again and again is a waste.
gc.disable()


def pytest_collection_finish() -> None:
    """Keep the objects of the collection from the garbage collector, and start it."""
    gc.freeze()
    # What a test makes is mostly gone with it.
    gc.set_threshold(5_000, 10, 10)
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Record what tests cost if that is asked for.

    Also make the examples of `make test` independent of the modules that happen to be loaded.

    Hypothesis also tries the constants in their source. Which modules are loaded depends on the
    tests that ran before in this worker, and on the folder: one named "test" is left out.
    """
    if settings.default.derandomize and hasattr(providers, "_get_local_constants"):
        providers._get_local_constants = providers.Constants
    if path := os.environ.get("UPSHOT_TEST_TIMES"):
        config.pluginmanager.register(Times(path))


def pytest_cmdline_main(config: pytest.Config) -> None:
    """Have a worker of xdist send less to the process that prints."""
    if hasattr(config, "workerinput") and not (config.option.durations or config.option.xmlpath):
        for plugin in config.pluginmanager.get_plugins():
            if (send := getattr(plugin, "sendevent", None)) is not None:
                plugin.sendevent = partial(_send_what_is_shown, send)


def _send_what_is_shown(send: Callable[..., None], name: str, **event: Any) -> None:
    """Send an event, but not the start and the end of a test, which take most of the time."""
    report = event.get("data", {})
    passed = name == "testreport" and report["outcome"] == "passed" and not report["sections"]
    if name not in ("logstart", "logfinish") and not (passed and report["when"] != "call"):
        send(name, **event)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Start one process that forks for all workers of xdist, before they are started."""
    config = session.config
    if not hasattr(config, "workerinput") and (config.getoption("numprocesses", None) or 0) > 1:
        from tests.processes import SHARED, start_server

        with pytest.MonkeyPatch.context() as patch:
            _clear_environment(patch)
            os.environ[SHARED], _ = start_server()


# A process that a shell starts with "&" ignores Ctrl-C, and so would every process it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def environment_of_nobody() -> Iterator[None]:
    """Remove variables that would make a test find, do or print something else."""
    with pytest.MonkeyPatch.context() as patch:
        _clear_environment(patch)
        yield


def _clear_environment(patch: pytest.MonkeyPatch) -> None:
    for name in filter(NOT_OURS.fullmatch, list(os.environ)):
        patch.delenv(name)
    patch.setenv("TERM", "xterm")
    # Each HTTP client reads the certificates that it trusts. The 140 of the machine take 40 ms, and
    # no test needs them. The key of this one was thrown away.
    patch.setenv("SSL_CERT_FILE", str(ROOT / "tests" / "trusted.pem"))


@pytest.fixture(scope="session", autouse=True)
def fork_server(environment_of_nobody: None) -> None:
    """Start the process that forks others before the first test whose time it would take."""
    if (processes := sys.modules.get("tests.processes")) is not None:
        processes.start_server()


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of the recorded provider exchanges: ``items/`` and ``expected.jsonl``.

    Its place is ``UPSHOT_CORPUS`` or, by default, next to the project. Tests that use it are
    skipped if it is missing.
    """
    named = os.environ.get("UPSHOT_CORPUS")
    folder = Path(named) if named else ROOT.parent / "shared" / "corpus" / "public"
    if not (folder / "expected.jsonl").is_file():
        pytest.skip(f"no recorded exchanges in {folder}; UPSHOT_CORPUS names their folder")
    return folder


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server. Tests that use it are skipped if there is none."""
    with started_server() as server:
        yield server


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    """A database on the server with an empty journal."""
    name = postgres.new_journal()
    yield name
    postgres.drop(name)


@pytest.fixture
def empty_database(postgres: PostgresServer) -> Iterator[str]:
    """A database on the server without any tables."""
    name = postgres.new_database()
    yield name
    postgres.drop(name)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Place:
    """A new place for each journal that several processes may open."""
    return _place(request, "database")


@pytest.fixture(params=["sqlite", "postgres"])
def empty_place(request: pytest.FixtureRequest) -> Place:
    """As ``place``, and without tables."""
    return _place(request, "empty_database")


def _place(request: pytest.FixtureRequest, database: str) -> Place:
    if request.param == "sqlite":
        return Place.file(request.getfixturevalue("tmp_path"))
    server = request.getfixturevalue("postgres")
    return Place.database(server, request.getfixturevalue(database))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse ids that contain addresses, on which parallel workers differ; mark slow tests."""
    mark_slow(items)
    for item in items:
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(f"{item.nodeid}: give its parameters ids that stay the same")
