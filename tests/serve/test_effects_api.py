"""Effects over the console's routes: what is listed to whom, and how an unknown one is settled."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.serve.kit import Client, served
from upshot import Agent, App, Misuse, Request, ScriptedModel, ToolCall, UnknownEffect, run, tool

BANK: dict[str, bool | None] = {}
"""What the bank says of an order once somebody asks it, and nothing at first."""


def was_refunded(asked: UnknownEffect) -> bool | None:
    return BANK.get(asked.arguments["order_id"])


@tool(effect="write", once="order_id", may_differ="cents", verify=was_refunded)
async def refund(order_id: str, cents: int = 1) -> str:
    """Refund an order."""
    if order_id != "1":
        raise TimeoutError("the bank did not answer")
    return "re_1"


async def make(app: App) -> None:
    """One effect of ann that was made, and two of which nobody knows: of ann and of ben."""
    journal = await app.open()
    for order, user in (("1", "ann"), ("7", "ann"), ("8", "ben")):
        call = ToolCall("c", "refund", {"order_id": order, "cents": 900})
        agent = Agent("desk", model=ScriptedModel([call, "Done."]), tools=[refund])
        request = Request("Go.", run_id=f"run-{order}")
        await run(agent, request, journal=journal, attributes={"user": user})


@pytest.fixture
async def app(tmp_path: Path) -> AsyncGenerator[App]:
    agent = Agent("desk", model=ScriptedModel(["Done."]), tools=[refund])
    async with App([agent], journal=str(tmp_path / "runs.db"), version="1") as one:
        await make(one)
        yield one


@pytest.fixture
async def site(app: App) -> AsyncGenerator[Client]:
    async with served(app) as client:
        yield client


async def listed(client: Client, query: str = "") -> list[dict[str, Any]]:
    status, said = await client.get(f"/api/effects{query}")
    assert status == 200, said
    return said["effects"]


def keys(effects: list[dict[str, Any]]) -> list[str]:
    return [one["key"] for one in effects]


ONE, SEVEN, EIGHT = (f'{{"order_id":"{order}"}}' for order in ("1", "7", "8"))


async def test_the_app_lists_and_settles(app: App) -> None:
    first, second = await app.effects(state="unknown")
    assert [first.key, second.key] == [EIGHT, SEVEN]
    known = await app.settle(second.id, applied=False, by="webhook:bank", note="none at the bank")
    assert (known.state, known.settled and known.settled.by) == ("none", "webhook:bank")
    with pytest.raises(Misuse, match="say who found out"):
        await app.settle(first.id, applied=False, by="")


async def test_users_see_the_effects_of_runs_that_they_may_see(site: Client) -> None:
    assert keys(await listed(site.by("vic"))) == [EIGHT, SEVEN, ONE]
    assert keys(await listed(site.by("ann"))) == [SEVEN, ONE]
    assert keys(await listed(site.by("tia"))) == []


async def test_filters_and_what_the_call_said(site: Client) -> None:
    sam = site.by("sam")
    assert keys(await listed(sam, "?state=applied")) == [ONE]
    assert keys(await listed(sam, "?key=7&tool=refund")) == [SEVEN]
    assert keys(await listed(sam, "?run_id=run-8")) == [EIGHT]
    assert keys(await listed(sam, f"?after={(await listed(sam))[0]['id']}")) == [SEVEN, ONE]
    unknown, *_ = await listed(sam)
    assert "the bank did not answer" in unknown["said"] and unknown["settleable"]
    assert keys(await listed(sam, "?state=unknown&younger=300")) == [EIGHT, SEVEN]
    assert keys(await listed(sam, "?older=300")) == []
    assert keys(await listed(sam, "?older=0&younger=300")) == [EIGHT, SEVEN, ONE]
    assert (await sam.get("/api/effects?older=-1"))[0] == 400
    assert (await sam.get("/api/effects?state=odd"))[0] == 400
    assert (await sam.get("/api/effects?colour=red"))[0] == 400


async def test_an_effect_is_settled_by_the_user_and_the_first_answer_counts(site: Client) -> None:
    (effect,) = await listed(site.by("sam"), "?key=7")
    path = f"/api/effects/{effect['id']}"
    assert (await site.by("ben").post(path, {"applied": True}))[0] == 404
    assert (await site.by("vic").post(path, {"applied": True}))[0] == 403
    assert (await site.by("ann").post(path, {"applied": True}))[0] == 403
    assert (await site.by("sam").post(path, {"applied": True, "by": "ann"}))[0] == 400
    status, known = await site.by("sam").post(path, {"applied": True, "note": "re_7"})
    assert (status, known["state"]) == (200, "applied")
    assert (known["settled"]["by"], known["settled"]["note"]) == ("sam", "re_7")
    status, known = await site.by("oz").post(path, {"applied": False})
    assert (status, known["state"], known["settled"]["by"]) == (200, "applied", "sam")
    assert (await site.by("sam").post("/api/effects/none", {"applied": True}))[0] == 404


async def test_check_now_asks_verify_and_says_what_it_saw(
    site: Client, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    (effect,) = await listed(site.by("sam"), "?key=7")
    path = f"/api/effects/{effect['id']}/check"
    assert (await site.by("ben").post(path, {}))[0] == 404
    assert (await site.by("vic").post(path, {}))[0] == 403
    status, found = await site.by("sam").post(path, {})
    assert (status, found["said"]) == (200, "verify does not know.")
    assert (found["effect"]["state"], found["seen"]) == ("unknown", None)
    monkeypatch.setitem(BANK, "7", False)
    monkeypatch.setitem(BANK, "8", True)
    status, found = await site.by("sam").post(path, {})
    assert (found["said"], found["effect"]["state"]) == (
        "verify says that it did not happen.",
        "none",
    )
    assert found["effect"]["settled"]["by"] == "verify"
    assert (await site.by("sam").post(path, {}))[1]["said"] == "It is none, settled by verify."
    (other,) = await app.effects(state="unknown")
    assert (await app.check(other.id)).effect.state == "applied"
    with pytest.raises(Misuse, match="there is no effect 'x'"):
        await app.check("x")
    with pytest.raises(Misuse, match="id of an effect must be a string, got None"):
        await app.check(None)  # type: ignore[arg-type]
