"""An option or an event that is forgotten in one of its places makes a test here fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest

import upshot
from upshot import Agent, Event, Misuse, resume, run
from upshot.contract import Unknown
from upshot.entry.option_checks import OPTIONS
from upshot.entry.planning import plan_run
from upshot.entry.session_setup import run_child
from upshot.journal import MemoryJournal
from upshot.models import ScriptedModel
from upshot.runs.plan import ResumeOptions, RunOptions

NAMES = sorted(RunOptions.__optional_keys__)
# Any value will do for these.
ANY = {"dependencies"}
# Said on resume too, but by a parameter.
OWN = {"journal"}


def hello() -> Agent:
    return Agent("a", model=ScriptedModel(["Hello."]))


def test_every_option_has_a_row_of_what_it_may_be() -> None:
    assert sorted(OPTIONS) == NAMES


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ANY])
async def test_every_option_of_run_is_checked(name: str) -> None:
    # max_attempts=5 is right, and nothing else is.
    wrong: dict[str, Any] = {name: 5 if name != "max_attempts" else 0}
    with pytest.raises(Misuse, match=name):
        await run(hello(), "?", **wrong)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ANY])
async def test_every_option_of_resume_is_checked(name: str) -> None:
    journal = MemoryJournal()
    result = await run(hello(), "?", journal=journal)
    wrong: dict[str, Any] = {"journal": journal, name: 5 if name != "max_attempts" else 0}
    with pytest.raises(Misuse, match=name):
        await resume(result.run_id, hello(), **wrong)


def test_what_run_takes_resume_takes() -> None:
    assert RunOptions.__optional_keys__ - ResumeOptions.__optional_keys__ == OWN


class Watched(dict[str, Any]):
    """Options that know which of them were looked at."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.read: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.read.add(str(key))
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        return super().__iter__()


async def test_no_option_is_taken_and_then_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    # Both run and resume plan by this function; one that it does not read does nothing.
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    options: Any = Watched(model="openai:gpt-5")
    await plan_run(Agent("a"), upshot.Request("?"), options, MemoryJournal(), child=run_child)
    assert set(NAMES) - options.read - OWN == set()


@pytest.mark.parametrize("event", get_args(Event), ids=lambda event: event.__name__)
def test_every_event_is_exported(event: type) -> None:
    assert event is Unknown or getattr(upshot, event.__name__) is event
    assert event is Unknown or event.__name__ in upshot.__all__
