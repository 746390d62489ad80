"""Functions whose effect a ledger makes once."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from upshot import (
    AlreadyDone,
    Conflict,
    EffectUnknown,
    InProgress,
    Ledger,
    Misuse,
    NotDone,
    open_journal,
)

made: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    made.clear()


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncGenerator[Ledger]:
    opened = Ledger(tmp_path / "effects.db")
    yield opened
    await opened.aclose()


def pay(order_id: str, cents: int = 900, *, then: BaseException | None = None) -> dict[str, str]:
    """Pay an order."""
    made.append(order_id)
    if then is not None:
        raise then
    return {"paid": order_id}


async def pay_async(order_id: str, cents: int = 900) -> dict[str, str]:
    """Pay an order."""
    made.append(order_id)
    await asyncio.sleep(0)
    return {"paid": order_id}


async def test_a_function_keeps_what_it_is(ledger: Ledger):
    once = ledger.once("order_id")(pay)
    assert (once.__name__, once.__doc__) == ("pay", "Pay an order.")
    assert inspect.signature(once) == inspect.signature(pay)


async def test_the_second_call_returns_what_the_first_did(ledger: Ledger):
    once = ledger.once("order_id")(pay)
    assert [once("7"), once(order_id="7"), once("8")] == [
        {"paid": "7"},
        {"paid": "7"},
        {"paid": "8"},
    ]
    assert made == ["7", "8"]


async def test_an_async_function_may_be_called_in_any_loop(ledger: Ledger):
    once = ledger.once("order_id")(pay_async)
    found: list[Any] = [await once("7")]
    thread = threading.Thread(target=lambda: found.append(asyncio.run(once("7"))))
    thread.start()
    await asyncio.to_thread(thread.join)
    assert found == [{"paid": "7"}] * 2 and made == ["7"]


async def test_callers_of_many_threads_get_one_effect(ledger: Ledger):
    once = ledger.once("order_id")(pay)
    found = await asyncio.gather(*(asyncio.to_thread(once, "7") for _ in range(16)))
    assert found == [{"paid": "7"}] * 16 and made == ["7"]


async def test_what_the_function_raises_is_raised_and_unknown(ledger: Ledger):
    once = ledger.once("order_id", may_differ="then")(pay)
    error = TimeoutError("no answer")
    with pytest.raises(TimeoutError) as raised:
        once("7", then=error)
    assert raised.value is error
    with pytest.raises(EffectUnknown) as unknown:
        once("7")
    (entry,) = await ledger.effects(state="unknown")
    assert unknown.value.effect_id == entry.id
    await ledger.settle(entry.id, applied=False, by="ann")
    assert once("7") == {"paid": "7"}


@pytest.mark.parametrize("error", [NotDone("closed"), ConnectionRefusedError(111, "refused")])
async def test_what_proves_that_nothing_was_done_frees_the_key(ledger: Ledger, error: Exception):
    once = ledger.once("order_id", may_differ="then")(pay)
    with pytest.raises(type(error)):
        once("7", then=error)
    assert once("7") == {"paid": "7"}


async def test_other_arguments_are_a_conflict(ledger: Ledger):
    once = ledger.once("order_id")(pay)
    once("7", 100)
    with pytest.raises(Conflict, match=r"100.*900"):
        once("7", 900)


async def test_a_second_call_may_be_refused(ledger: Ledger):
    once = ledger.once("order_id", on_repeat="deny")(pay)
    once("7")
    with pytest.raises(AlreadyDone):
        once("7")


async def test_verify_settles_what_is_unknown(ledger: Ledger):
    once = ledger.once("order_id", may_differ="then", verify=lambda asked: "none")(pay)
    with pytest.raises(TimeoutError):
        once("7", then=TimeoutError())
    assert once("7") == {"paid": "7"}


async def test_what_json_cannot_hold_needs_a_codec(ledger: Ledger):
    def connect(name: str) -> object:
        return object()

    once = ledger.once("name")(connect)
    assert isinstance(once("a"), object)
    with pytest.raises(AlreadyDone, match="give a codec"):
        once("a")


async def test_a_codec_turns_the_output_into_json_and_back(ledger: Ledger):
    class Bytes:
        def encode(self, value: bytes) -> str:
            return value.hex()

        def decode(self, value: Any) -> bytes:
            return bytes.fromhex(value)

    once = ledger.once("name", codec=Bytes())(lambda name: name.encode())
    assert once("a") == once("a") == b"a"


async def test_a_large_output_is_returned_whole_again(tmp_path: Path):
    place, large = tmp_path / "effects.db", "x" * 50_000
    for _ in range(2):
        ledger = Ledger(place)
        once = ledger.once("name")(lambda name: large)
        assert once("a") == once("a") == large
        await ledger.aclose()


async def test_arguments_that_json_cannot_hold_may_be_passed_on(ledger: Ledger):
    def use(order_id: str, connection: object) -> str:
        made.append(order_id)
        return order_id

    once = ledger.once("order_id")(use)
    assert once("7", object()) == once("7", object()) == "7"
    with pytest.raises(Misuse, match="identifies the effect"):
        ledger.once("connection")(use)("7", object())


async def test_a_text_may_be_the_key(ledger: Ledger):
    assert ledger.call("pay:7", pay, "7") == ledger.call("pay:7", pay, "8") == {"paid": "7"}
    assert await ledger.call("pay:9", pay_async, "9") == {"paid": "9"}


async def test_a_block_says_how_it_ended(ledger: Ledger):
    async with ledger.effect("pay:7") as effect:
        effect.applied({"paid": "7"})
    with pytest.raises(AlreadyDone) as done:
        async with ledger.effect("pay:7"):
            raise AssertionError("not entered")
    assert done.value.output == {"paid": "7"}
    async with ledger.effect("pay:8") as effect:
        effect.none("closed")
    async with ledger.effect("pay:8") as effect:
        pass
    with pytest.raises(EffectUnknown):
        async with ledger.effect("pay:8"):
            raise AssertionError("not entered")


async def test_forks_share_the_effects(tmp_path: Path):
    ledger = Ledger(tmp_path / "effects.db")
    once = ledger.once("order_id")(pay)
    children = [os.fork() for _ in range(2)]
    if 0 in children:
        try:
            found = once("7")
        except BaseException:
            os._exit(2)
        os._exit(0 if found == {"paid": "7"} and len(made) <= 1 else 1)
    for child in children:
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        assert status == 0
    assert once("7") == {"paid": "7"} and made == []
    await ledger.aclose()


async def test_an_open_journal_is_used_in_its_loop():
    async with open_journal("memory:") as journal:
        ledger = Ledger(journal)
        once = ledger.once("order_id")(pay_async)
        assert await once("7") == await once("7") == {"paid": "7"}
        assert made == ["7"]


def test_an_open_journal_needs_its_loop():
    with pytest.raises(Misuse, match="event loop"):
        Ledger(object())  # type: ignore[arg-type]


async def test_a_repetition_is_no_loop(ledger: Ledger):
    once = ledger.once("order_id")(pay)
    assert [once("7") for _ in range(8)] == [{"paid": "7"}] * 8 and made == ["7"]


async def test_a_key_is_free_after_its_time_in_the_same_process_too(ledger: Ledger):
    once = ledger.once("order_id", keep=timedelta(microseconds=1))(pay)
    for _ in range(3):
        once("7")
    assert made == ["7"] * 3


async def test_a_call_waits_no_longer_than_it_wants(ledger: Ledger):
    begun, go = threading.Event(), threading.Event()

    def wait(order_id: str) -> str:
        begun.set()
        go.wait(30)
        return order_id

    once = ledger.once("order_id", wait_s=0.01)(wait)
    first = asyncio.create_task(asyncio.to_thread(once, "7"))
    await asyncio.to_thread(begun.wait, 30)
    try:
        with pytest.raises(InProgress):
            await asyncio.to_thread(once, "7")
    finally:
        go.set()
    assert await first == "7"


async def test_a_function_may_call_itself(ledger: Ledger):
    def count(down: int, to: int) -> int:
        return once(down - 1, to) + 1 if down > to else 0

    once = ledger.once("down", wait_s=0.01)(count)
    assert once(3, 0) == 3

    def again(order_id: str) -> str:
        return same(order_id)

    same = ledger.once("order_id", wait_s=0.01)(again)
    with pytest.raises(InProgress):
        same("7")


@pytest.mark.parametrize("turns", range(6))
async def test_a_caller_that_is_cancelled_leaves_nothing_under_way(ledger: Ledger, turns: int):
    once = ledger.once("order_id", wait_s=30)(pay_async)
    task = asyncio.create_task(once("7"))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with suppress(EffectUnknown):
        assert await once("7") == {"paid": "7"}
    assert made == ["7"]


async def test_a_cancel_that_comes_with_the_end_does_not_undo_it(ledger: Ledger):
    async def pay_last(order_id: str) -> str:
        made.append(order_id)
        asyncio.get_running_loop().call_soon(task.cancel)
        return order_id

    once = ledger.once("order_id")(pay_last)
    task = asyncio.create_task(once("7"))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await once("7") == "7" and made == ["7"]


async def test_a_codec_that_fails_leaves_the_effect_made(ledger: Ledger):
    class Broken:
        def encode(self, value: Any) -> Any:
            raise ValueError("no code")

        def decode(self, value: Any) -> Any:
            return value

    once = ledger.once("order_id", codec=Broken())(pay)
    with pytest.raises(ValueError, match="no code"):
        once("7")
    with pytest.raises(AlreadyDone):
        once("7")
    assert made == ["7"]


async def test_an_open_journal_and_a_plain_function_need_a_thread():
    async with open_journal("memory:") as journal:
        once = Ledger(journal).once("order_id")(pay)
        with pytest.raises(Misuse, match="plain function"):
            once("7")
        assert await asyncio.to_thread(once, "7") == {"paid": "7"}


async def test_a_closed_ledger_leaves_no_thread_and_opens_again(tmp_path: Path):
    ledger = Ledger(tmp_path / "effects.db")
    once = ledger.once("order_id")(pay)
    before = set(threading.enumerate())
    for _ in range(2):
        assert once("7") == {"paid": "7"}
        (thread,) = {one for one in threading.enumerate() if one.name == "upshot-ledger"} - before
        await ledger.aclose()
        thread.join(30)
        assert not thread.is_alive()
    assert made == ["7"]
