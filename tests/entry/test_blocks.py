"""What is opened for a block says how to enter it, however else it is used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from upshot import Agent, LiveRun, Misuse, open_journal, reopen, run, start
from upshot.journal import MemoryJournal
from upshot.models import ScriptedModel


def hello() -> Agent:
    return Agent("a", model=ScriptedModel(["Hello."]))


MADE: list[tuple[Callable[[], Any], str]] = [
    (lambda: start(hello(), "?"), "enter it: async with upshot.start(...) as live"),
    (
        lambda: reopen("r1", hello(), journal="memory:"),
        "enter it: async with upshot.reopen(...) as live",
    ),
    (
        lambda: open_journal("memory:"),
        "enter it: async with upshot.open_journal(...) as journal",
    ),
    (
        lambda: open_journal(MemoryJournal()),
        "enter it: async with upshot.open_journal(...) as journal",
    ),
]


async def iterate(made: Any) -> None:
    async for _ in made:
        pass


async def wait(made: Any) -> None:
    await made


async def enter_plainly(made: Any) -> None:
    with made:
        pass


async def loop_plainly(made: Any) -> None:
    for _ in made:
        pass


async def ask(made: Any) -> None:
    print(made.run_id)


async def call(made: Any) -> None:
    await made.runs()


@pytest.mark.parametrize(("make", "said"), MADE)
@pytest.mark.parametrize("use", [iterate, wait, enter_plainly, loop_plainly, ask, call])
async def test_a_wrong_use_says_what_to_write(
    make: Callable[[], Any], said: str, use: Callable[[Any], Awaitable[None]]
) -> None:
    with pytest.raises(Misuse) as caught:
        await use(make())
    assert str(caught.value) == said


async def test_a_journal_that_was_not_entered_is_none_for_a_run() -> None:
    journal: Any = open_journal("memory:")
    with pytest.raises(Misuse, match=r"async with upshot\.open_journal\(\.\.\.\) as journal"):
        await run(hello(), "?", journal=journal)


async def test_the_class_of_a_journal_is_none() -> None:
    journal: Any = MemoryJournal
    with pytest.raises(Misuse, match="the class MemoryJournal"):
        await run(hello(), "?", journal=journal)


@pytest.mark.parametrize(("make", "said"), MADE)
async def test_tools_that_look_at_any_object_can(make: Callable[[], Any], said: str) -> None:
    made = make()
    assert not hasattr(made, "run_id")
    assert getattr(made, "_repr_html_", None) is None
    assert repr(made) == f"<{said.split()[4]}, to be entered by async with>"


async def test_what_is_raised_in_the_block_is_seen_by_what_was_opened() -> None:
    seen: list[LiveRun[Any]] = []
    with pytest.raises(ZeroDivisionError):
        async with start(hello(), "?") as live:
            seen.append(live)
            raise ZeroDivisionError
    assert seen[0].done


async def test_what_was_entered_is_not_entered_again() -> None:
    begun = start(hello(), "?")
    async with begun as live:
        await live.result()
    with pytest.raises(Misuse, match=r"already entered: create another one with upshot\.start"):
        await begun.__aenter__()
