"""What all suites share: how the subject is made, and what a red check says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.processes import run_pytest
from tests.testing.suites import assert_red, run_check
from upshot import testing
from upshot.adapters import from_strands
from upshot.contract import Decider, Observer
from upshot.engines import LoopEngine
from upshot.journal import MemoryJournal
from upshot.models import AiohttpTransport, ScriptedModel
from upshot.testing import ObserverContract
from upshot.tools import tool

SUITES = [getattr(testing, name) for name in testing.__all__ if name.endswith("Contract")]
# A check of each that every subject passes which plays the role.
FIRST = {
    "AdapterContract": "test_it_never_raises",
    "DeciderContract": "test_what_is_named_like_a_hook_is_one",
    "EngineContract": "test_it_answers",
    "HostContract": "test_what_it_has_can_be_called",
    "JournalContract": "test_claims_count_up",
    "ModelContract": "test_its_name_says_provider_and_model",
    "ObserverContract": "test_what_is_named_like_a_hook_is_one",
    "ToolContract": "test_it_says_what_it_does",
    "TransportContract": "test_it_unpacks_the_body",
}


@tool(effect="read")
def ping() -> str:
    """Says pong."""
    return "pong"


SOUND: dict[str, Any] = {
    "AdapterContract": lambda: from_strands,
    "DeciderContract": Decider,
    "EngineContract": LoopEngine,
    "HostContract": object,
    "JournalContract": MemoryJournal,
    "ModelContract": lambda: ScriptedModel(["Hello."]),
    "ObserverContract": Observer,
    "ToolContract": lambda: ping,
    "TransportContract": AiohttpTransport,
}


def every_check() -> list[Any]:
    """Each check of each suite."""
    return [
        pytest.param(suite, name, id=f"{suite.__name__}.{name}")
        for suite in SUITES
        for name in dir(suite)
        if name.startswith("test_")
    ]


def named(suite: Any) -> str:
    return suite.__name__


@pytest.mark.parametrize(("suite", "check"), every_check())
def test_a_forgotten_return_is_red_everywhere(suite: Any, check: str) -> None:
    assert_red(suite, check, lambda: None, "Suite.make() gave None: return a")


def test_each_check_has_a_sentence() -> None:
    for suite in SUITES:
        checks = [name for name in dir(suite) if name.startswith("test_")]
        assert [one for one in checks if not getattr(suite, one).__doc__.endswith(".")] == []


@pytest.mark.parametrize("suite", SUITES, ids=named)
def test_a_suite_without_make_is_told(suite: Any) -> None:
    with pytest.raises(NotImplementedError, match=rf"{suite.__name__} gives an? \w+ in make"):
        asyncio.run(getattr(suite(), FIRST[suite.__name__])())


@pytest.mark.parametrize("suite", SUITES[:2], ids=named)
@pytest.mark.parametrize("wrong", [5, "text", {"a": 1}, [], True], ids=repr)
def test_a_value_is_told_from_a_subject(suite: Any, wrong: Any) -> None:
    assert_red(
        suite, FIRST[suite.__name__], lambda: wrong, f"gave {wrong!r} ({type(wrong).__name__}"
    )


@pytest.mark.parametrize("suite", SUITES, ids=named)
def test_a_class_is_told_from_a_subject(suite: Any) -> None:
    class Mine: ...

    assert_red(suite, FIRST[suite.__name__], lambda: Mine, "gave the class Mine: return a")


def plainly(make: Any) -> Any:
    return make


def later(make: Any) -> Any:
    async def give() -> Any:
        return make()

    return give


def opened(make: Any) -> Any:
    @asynccontextmanager
    async def give() -> AsyncIterator[Any]:
        yield make()

    return give


def opened_later(make: Any) -> Any:
    async def give() -> Any:
        return opened(make)()

    return give


def held(make: Any) -> Any:
    @contextmanager
    def give() -> Iterator[Any]:
        yield make()

    return give


def yielded(make: Any) -> Any:
    def give() -> Iterator[Any]:
        yield make()

    return give


def yielded_later(make: Any) -> Any:
    async def give() -> AsyncIterator[Any]:
        yield make()

    return give


WAYS = [plainly, later, opened, opened_later, held, yielded, yielded_later]


# What makes the subject is the same in all of them.
@pytest.mark.parametrize(
    ("suite", "way"),
    [*((SUITES[0], way) for way in WAYS), *((suite, later) for suite in SUITES[1:])],
    ids=named,
)
def test_make_gives_the_subject_in_any_way(suite: Any, way: Any) -> None:
    run_check(suite, FIRST[suite.__name__], way(SOUND[suite.__name__]))


class Raising(Observer):
    def on_run_start(self, info: Any, request: Any) -> None:
        raise ValueError("it never works")


def test_what_is_opened_is_closed_however_the_check_ends() -> None:
    closed = []

    @asynccontextmanager
    async def make(kind: Any) -> AsyncIterator[Any]:
        try:
            yield kind()
        finally:
            closed.append(kind)

    run_check(ObserverContract, "test_it_lets_a_run_be", lambda: make(Observer))
    assert_red(ObserverContract, "test_it_lets_a_run_be", lambda: make(Raising), "it never works")
    assert closed == [Observer, Raising]


class Swallowing(Raising):
    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *error: object) -> bool:
        return True


def test_a_context_manager_that_swallows_errors_makes_no_check_green() -> None:
    assert_red(ObserverContract, "test_it_lets_a_run_be", Swallowing, "it never works")


class Unclosable(Raising):
    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *error: object) -> None:
        raise OSError("it is stuck")


def test_an_error_of_the_close_stands_beside_the_first_one() -> None:
    with pytest.raises(OSError, match="it is stuck") as caught:
        run_check(ObserverContract, "test_it_lets_a_run_be", Unclosable)
    assert "it never works" in str(caught.value.__context__)


def test_an_error_of_the_close_alone_is_told() -> None:
    class Stuck(Unclosable):
        def on_run_start(self, info: Any, request: Any) -> None: ...

    with pytest.raises(OSError, match="it is stuck"):
        run_check(ObserverContract, "test_it_lets_a_run_be", Stuck)


class Hanging(Observer):
    async def on_run_start(self, info: Any, request: Any) -> None:
        await asyncio.Event().wait()


def test_a_check_has_an_end() -> None:
    words = "it did not end within 0.05 s (patience_s)"
    assert_red(ObserverContract, "test_it_lets_a_run_be", Hanging, words, patience_s=0.05)


PROJECT = """\
[tool.pytest.ini_options]
asyncio_mode = "{mode}"
asyncio_default_fixture_loop_scope = "function"
"""


@pytest.mark.slow("auto")
@pytest.mark.parametrize("mode", ["auto", "strict"])
def test_a_suite_runs_in_either_mode_and_shows_what_it_compared(tmp_path: Path, mode: str) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT.format(mode=mode))
    (tmp_path / "test_it.py").write_text(
        "from upshot.testing import ModelContract\n"
        "class Named:\n    name = ''\n"
        "    async def call(self, request): ...\n    def stream(self, request): ...\n"
        "class TestIt(ModelContract):\n    def make(self):\n        return Named()\n"
    )
    options = ("-p", "no:cacheprovider", "-k", "name", "-W", "error")
    shown = run_pytest(tmp_path, *options, ".")
    assert "AssertionError: its name is '' and no text" in shown
    assert "test_its_name_says_provider_and_model" in shown
