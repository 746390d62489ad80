"""Standing approvals: listed with their uses, and withdrawn for the next call in every process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from upshot import (
    Agent,
    App,
    Misuse,
    PendingApproval,
    ScriptedModel,
    ToolCall,
    fork,
    open_journal,
    resume,
    tool,
)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Any]:
    where: Any = {"memory": "memory:", "sqlite": tmp_path / "runs.db"}.get(request.param)
    if where is None:
        server = request.getfixturevalue("postgres")
        where = server.url(request.getfixturevalue("database"))
    async with open_journal(where) as opened:
        yield opened


def made(journal: Any, *, on_look: Callable[[], Any] | None = None) -> App:
    """An agent that sends three letters, and wipes a disk; between two of them it looks."""

    @tool(effect="write", approval=True)
    def send(to: str) -> str:
        """Send."""
        return "sent"

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        if on_look is not None:
            await on_look()
        return "seen"

    @tool(effect="destructive")
    def wipe() -> str:
        """Wipe."""
        return "wiped"

    def letter(id: str, to: str) -> list[ToolCall]:
        return [ToolCall(id, "send", {"to": to})]

    calls = [letter("1", "ann"), letter("2", "bob"), [ToolCall("l", "look", {})]]
    more = [letter("3", "ann"), [ToolCall("w", "wipe", {})], "Done."]
    agent = Agent[Any]("sender", model=ScriptedModel([*calls, *more]), tools=[send, look, wipe])
    return App([agent], journal=journal)


async def allowed(app: App, always: Literal["tool", "arguments"]) -> str:
    """The id of a run whose first letter was approved so."""
    handle = await app.submit("sender", "?", attributes={"user": "ann"})
    await app.activate(handle.id)
    await app.answer(handle.id, (await asked(app)).approve(always=always, by="bob"))
    return handle.id


async def asked(app: App) -> PendingApproval:
    [item] = await app.inbox()
    assert isinstance(item.pending, PendingApproval)
    return item.pending


async def test_what_stands_is_listed_with_its_uses_until_the_run_ends(journal: Any) -> None:
    app = made(journal)
    run_id = await allowed(app, "tool")
    await app.activate(run_id)
    assert (await asked(app)).tool_name == "wipe"
    [grant] = await app.grants(owner="ann")
    assert (grant.run_id, grant.agent_id, grant.tool_name) == (run_id, "sender", "send")
    assert (grant.scope, grant.by, grant.uses) == ("tool", "bob", 2)
    assert grant.arguments == {"to": "ann"} and grant.at is not None
    assert await app.grants(owner="bob") == ()
    await app.answer(run_id, (await asked(app)).approve())
    await app.activate(run_id)
    assert await app.grants() == ()


async def test_one_for_the_arguments_is_used_for_these_alone(journal: Any) -> None:
    app = made(journal)
    run_id = await allowed(app, "arguments")
    await app.activate(run_id)
    bob = await asked(app)
    assert bob.arguments == {"to": "bob"}
    await app.answer(run_id, bob.approve())
    await app.activate(run_id)
    [grant] = await app.grants()
    assert ((await asked(app)).tool_name, grant.scope, grant.uses) == ("wipe", "arguments", 1)


async def test_what_was_withdrawn_is_asked_about_by_the_run_under_way(journal: Any) -> None:
    other = made(journal)

    async def withdraw() -> None:
        # Of another App, as in another process, while the run is worked on.
        [grant] = await other.grants()
        await other.withdraw(grant.id)
        assert await other.grants() == ()
        with pytest.raises(Misuse, match="there is no standing approval"):
            await other.withdraw(grant.id)

    app = made(journal, on_look=withdraw)
    run_id = await allowed(app, "tool")
    await app.activate(run_id)
    third = await asked(app)
    assert (third.call_id, third.arguments) == ("3", {"to": "ann"})
    # Said again, it stands again.
    await app.answer(run_id, third.approve(always="tool", by="ann"))
    await made(journal).activate(run_id)
    [grant] = await app.grants()
    assert (grant.by, (await asked(app)).tool_name) == ("ann", "wipe")


async def test_what_was_withdrawn_is_gone_with_the_run(journal: Any) -> None:
    app = made(journal)
    run_id = await allowed(app, "tool")
    await app.activate(run_id)
    [grant] = await app.grants()
    await app.withdraw(grant.id)
    assert await journal.value(f"withdrawn {run_id}") != ""
    await journal.remove_runs([run_id])
    assert await journal.value(f"withdrawn {run_id}") == ""


async def test_a_fork_does_not_have_what_was_withdrawn(journal: Any) -> None:
    app = made(journal)
    run_id = await allowed(app, "tool")
    await app.activate(run_id)
    [grant] = await app.grants()
    await app.withdraw(grant.id)
    forked = await fork(run_id, at=await journal.last_seq(run_id), journal=journal)
    assert await app.grants() == ()
    # By a script in which it asks to send at once.
    letter = [ToolCall("5", "send", {"to": "cid"})]
    agent = app.agents["sender"].but(model=ScriptedModel([letter] * 9))
    [item] = await app.inbox(run_id=forked)
    assert isinstance(item.pending, PendingApproval)
    result = await resume(forked, agent, answers=[item.pending.deny()], journal=journal)
    assert [one.id for one in result.pending] == ["5"]


async def test_nothing_destructive_is_approved_for_good(journal: Any) -> None:
    app = made(journal)
    run_id = await allowed(app, "tool")
    await app.activate(run_id)
    wipe = await asked(app)
    with pytest.raises(Misuse, match="wipe is destructive: approve each of its calls"):
        await app.answer(run_id, wipe.approve(always="arguments"))
    await app.answer(run_id, wipe.approve())


async def test_who_withdrew_an_approval_is_kept_with_the_time(journal: Any) -> None:
    app = made(journal)
    await app.activate(await allowed(app, "tool"))
    [grant] = await app.grants()
    assert grant.withdrawn is None
    await app.withdraw(grant.id, by="eve")
    assert await app.grants() == ()
    [gone] = await app.grants(withdrawn=True)
    assert gone.withdrawn is not None and gone.withdrawn.by == "eve"
    with pytest.raises(Misuse, match="there is no standing approval"):
        await app.withdraw(grant.id, by="another")
