"""Calls that several users must approve."""

from __future__ import annotations

import signal
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.processes import start_python
from tests.serve.kit import served
from upshot import (
    Agent,
    AgentResult,
    App,
    Approve,
    Misuse,
    Outdated,
    PendingApproval,
    Policy,
    Request,
    ScriptedModel,
    Taken,
    Tool,
    Toolbox,
    ToolCall,
    answer,
    open_journal,
    resume,
    run,
    tool,
)
from upshot.contract import ApprovalAnswered
from upshot.journal import MemoryJournal


class Bank:
    """An agent whose transfers several users must approve."""

    def __init__(self, *, users: int = 2, cents: int = 900, **options: Any) -> None:
        self.sent: list[int] = []

        @tool(effect="write", approvals=users, **options)
        def transfer(cents: int) -> str:
            """Send money."""
            self.sent.append(cents)
            return "sent"

        self.tool: Tool[..., Any] = transfer
        model = ScriptedModel([[ToolCall("t", "transfer", {"cents": cents})], "Done."])
        self.agent: Agent[Any] = Agent("bank", model=model, tools=[transfer])

    async def park(self, journal: Any, **options: Any) -> PendingApproval:
        request = Request("Send it.", run_id="r")
        return only(await run(self.agent, request, journal=journal, **options))

    async def resume(self, journal: Any, *answers: Any, **options: Any) -> AgentResult[Any]:
        return await resume("r", self.agent, journal=journal, answers=answers, **options)


def only(result: AgentResult[Any]) -> PendingApproval:
    (item,) = result.pending
    assert isinstance(item, PendingApproval)
    return item


def names(item: PendingApproval) -> list[str]:
    return [one.by for one in item.approved_by]


def warned(result: AgentResult[Any]) -> list[str]:
    return [one.message for one in result.warnings if one.code == "answer_outdated"]


async def approvals_in(journal: Any, run_id: str = "r") -> list[tuple[str, Any]]:
    return [
        (event.answer.by, event.answer.at)
        async for event in journal.events(run_id)
        if isinstance(event, ApprovalAnswered) and isinstance(event.answer, Approve)
    ]


async def test_two_users_approve_and_the_log_says_who_and_when(journal: Any) -> None:
    bank = Bank()
    item = await bank.park(journal)
    assert (item.approvals, item.approved_by, item.audience) == (2, (), "staff")
    first = item.approve(by="ann")
    assert await answer("r", [first], journal=journal) == (Taken(answer=first, missing=1),)
    ((shown),) = [one.pending for one in await journal.inbox()]
    assert names(shown) == ["ann"]
    assert shown.digest == item.digest
    # No session is needed before the last of them.
    assert await journal.due_runs() == []
    second = item.approve(by="bob")
    assert await answer("r", [second], journal=journal) == (Taken(answer=second),)
    assert await journal.inbox() == ()
    assert [one.run_id for one in await journal.due_runs()] == ["r"]
    result = await bank.resume(journal)
    assert (bank.sent, result.output) == ([900], "Done.")
    (record,) = result.tool_records
    assert record.approval is not None
    assert [one.by for one in record.approval.approved_by] == ["ann", "bob"]
    logged = await approvals_in(journal)
    assert [by for by, _ in logged] == ["ann", "bob"]
    assert [at for _, at in logged] == [one.at for one in record.approval.approved_by]


async def test_the_same_user_counts_once_and_is_told_so(journal: Any) -> None:
    bank = Bank()
    item = await bank.park(journal)
    await answer("r", [item.approve(by="ann")], journal=journal)
    (told,) = await answer("r", [item.approve(by="ann")], journal=journal)
    assert isinstance(told, Outdated)
    assert told.reason == "ann has approved call t already: another user must approve it"
    again = await bank.resume(journal, item.approve(by="ann"))
    assert warned(again) == [told.reason]
    assert (names(only(again)), bank.sent) == (["ann"], [])
    # The log has the approval now.
    (told,) = await answer("r", [item.approve(by="ann")], journal=journal)
    assert isinstance(told, Outdated)
    assert told.reason == "ann has approved call t already: another user must approve it"
    await bank.resume(journal, item.approve(by="bob"))
    assert bank.sent == [900]


@pytest.mark.parametrize("alike", ["José", "josé ", "JOSE\u0301", "jo\u200bsé", "ｊｏｓé"])
async def test_a_user_whose_name_is_spelt_in_another_way_counts_once(alike: str) -> None:
    bank, journal = Bank(), MemoryJournal()
    item = await bank.park(journal)
    await answer("r", [item.approve(by="José")], journal=journal)
    (told,) = await answer("r", [item.approve(by=alike)], journal=journal)
    assert isinstance(told, Outdated)
    assert warned(await bank.resume(journal, item.approve(by=alike)))
    assert bank.sent == []
    with pytest.raises(Misuse, match="does not say who approves"):
        await answer("r", [item.approve(by=" \t\u200b")], journal=journal)


async def test_any_denial_denies(journal: Any) -> None:
    bank = Bank()
    item = await bank.park(journal)
    await answer("r", [item.approve(by="ann")], journal=journal)
    no = item.deny("Too much.", by="bob")
    assert await answer("r", [no], journal=journal) == (Taken(answer=no),)
    (late,) = await answer("r", [item.approve(by="cid")], journal=journal)
    assert isinstance(late, Outdated)
    assert late.decision == no
    result = await bank.resume(journal)
    assert (bank.sent, result.output) == ([], "Done.")
    assert result.tool_outcomes[0].kind == "tool_denied"


async def test_approvals_given_to_resume_count_with_those_in_the_inbox(journal: Any) -> None:
    bank = Bank(users=3)
    item = await bank.park(journal)
    parked = await bank.resume(journal, item.approve(by="ann"))
    assert (names(only(parked)), only(parked).digest) == (["ann"], item.digest)
    await answer("r", [item.approve(by="bob")], journal=journal)
    assert names(only(parked)) == ["ann"]
    (taken,) = await answer("r", [item.approve(by="cid")], journal=journal)
    assert taken == Taken(answer=item.approve(by="cid"))
    await bank.resume(journal)
    assert bank.sent == [900]


async def test_an_edit_starts_the_count_anew_with_its_user(journal: Any) -> None:
    def is_large(given: dict[str, Any]) -> bool:
        return given["cents"] > 500

    bank = Bank(approval=is_large)
    item = await bank.park(journal)
    await answer("r", [item.approve(by="ann")], journal=journal)
    await answer("r", [item.edit({"cents": 100}, by="bob")], journal=journal)
    asked = only(await bank.resume(journal))
    assert (names(asked), asked.edited_by, asked.arguments) == (["bob"], "bob", {"cents": 100})
    assert asked.digest != item.digest
    assert asked.reason
    # Nothing of the edit is lost when another session asks again.
    assert only(await bank.resume(journal)) == asked
    (told,) = await answer("r", [asked.approve(by="bob")], journal=journal)
    assert isinstance(told, Outdated)
    (told,) = await answer("r", [item.approve(by="cid")], journal=journal)
    assert isinstance(told, Outdated)
    await answer("r", [asked.approve(by="ann")], journal=journal)
    result = await bank.resume(journal)
    approval = result.tool_records[0].approval
    assert approval is not None
    assert (bank.sent, approval.decision, approval.approvers) == ([100], "edited", "bob, ann")


async def test_an_edit_that_changes_nothing_is_a_new_question(journal: Any) -> None:
    bank = Bank()
    item = await bank.park(journal)
    await answer("r", [item.approve(by="ann")], journal=journal)
    await answer("r", [item.edit({"cents": 900}, by="bob")], journal=journal)
    asked = only(await bank.resume(journal))
    assert names(asked) == ["bob"]
    assert [one.pending.id for one in await journal.inbox()] == ["t"]
    await answer("r", [asked.approve(by="ann")], journal=journal)
    await bank.resume(journal)
    assert bank.sent == [900]


async def test_an_approval_needs_a_user_and_stands_for_one_call(journal: Any) -> None:
    bank = Bank()
    item = await bank.park(journal)
    needs = "transfer needs the approval of 2 different users"
    with pytest.raises(Misuse, match=f"does not say who approves, and {needs}: give by="):
        await answer("r", [item.approve()], journal=journal)
    with pytest.raises(Misuse, match="does not say who approves"):
        await bank.resume(journal, item.edit({"cents": 1}))
    with pytest.raises(Misuse, match=f"is a standing approval, and {needs}: approve each"):
        await answer("r", [item.approve(always="tool", by="ann")], journal=journal)
    with pytest.raises(Misuse, match="standing approval"):
        await bank.resume(journal, item.approve(always="arguments", by="ann"))
    assert bank.sent == []


async def test_a_standing_approval_does_not_count_as_a_user(journal: Any) -> None:
    sent: list[int] = []

    @tool(effect="write", approval=True)
    def transfer(cents: int) -> str:
        """Send money."""
        sent.append(cents)
        return "sent"

    @tool(effect="write", approval=True)
    def tell() -> str:
        """Tell the bank."""
        return "told"

    calls = [[ToolCall(f"t{n}", "transfer", {"cents": n})] for n in (1, 2)]
    model = ScriptedModel([calls[0], [ToolCall("tell", "tell", {})], calls[1], "Done."])
    agent = Agent[Any]("bank", model=model, tools=[transfer, tell])
    item = only(await run(agent, Request("Send.", run_id="r"), journal=journal))
    always = item.approve(always="tool", by="ann")
    item = only(await resume("r", agent, journal=journal, answers=[always]))
    assert (sent, item.tool_name) == ([1], "tell")
    rule = Policy(approvals={"transfer": 2}, taint="off")
    given = [item.approve(by="ann")]
    item = only(await resume("r", agent, journal=journal, answers=given, policy=rule))
    assert (sent, item.call_id, item.approvals, names(item)) == ([1], "t2", 2, [])


async def test_a_stricter_rule_asks_again(journal: Any) -> None:
    bank = Bank()
    item = await bank.park(journal)
    rule = Policy(approvals={"transfer": 3}, taint="off")
    parked = only(await bank.resume(journal, item.approve(by="ann"), policy=rule))
    assert (parked.approvals, names(parked)) == (3, [])
    for user in ("ann", "bob"):
        await answer("r", [parked.approve(by=user)], journal=journal)
    assert len(only(await bank.resume(journal, policy=rule)).approved_by) == 2
    assert bank.sent == []


@pytest.mark.parametrize(
    ("rules", "needed"),
    [({"transfer": 3}, 3), ({"tr*": 2, "effect:write": 3}, 3), ({"other": 3}, 2), ({}, 2)],
)
async def test_the_largest_number_of_policy_and_tool_counts(
    rules: dict[str, int], needed: int
) -> None:
    policy = Policy(approvals=rules, taint="off")
    item = await Bank().park(MemoryJournal(), policy=policy)
    assert item.approvals == needed


async def test_a_policy_alone_asks(journal: Any) -> None:
    bank = Bank(users=1)
    policy = Policy(approvals={"effect:write": 2}, taint="off")
    item = await bank.park(journal, policy=policy)
    assert (item.approvals, item.reason) == (2, "the policy asks 2 users about transfer")
    for user in ("ann", "bob"):
        await answer("r", [item.approve(by=user)], journal=journal)
    await bank.resume(journal, policy=policy)
    assert bank.sent == [900]


@pytest.mark.parametrize("wrong", [0, True, "2", 1.5])
def test_a_number_of_users_is_a_whole_number(wrong: Any) -> None:
    with pytest.raises(Misuse, match="approvals"):
        Policy(approvals={"transfer": wrong})
    with pytest.raises(Misuse, match="approvals"):
        Bank(users=wrong)


@pytest.mark.parametrize("options", [{"approval": False}, {"ask": "user"}])
def test_what_contradicts_it_is_misuse(options: Any) -> None:
    with pytest.raises(Misuse, match="so many of your staff must approve a call, which"):
        Bank(**options)


async def test_a_function_that_approves_is_not_two_users() -> None:
    asked: list[Any] = []

    def approve(request: Any) -> bool:
        asked.append(request)
        return True

    bank = Bank()
    item = await bank.park(MemoryJournal(), approve=approve)
    assert (item.approvals, asked, bank.sent) == (2, [], [])


async def test_a_toolbox_counts_without_a_run() -> None:
    bank = Bank()
    box = Toolbox([bank.tool])
    call = ToolCall("t", "transfer", {"cents": 5})
    assert await box.dispatch([call]) == []
    (item,) = box.pending
    assert await box.answer([item.approve(by="ann")]) == []
    assert await box.answer([item.approve(by="ann")]) == []
    (item,) = box.pending
    assert names(item) == ["ann"]
    with pytest.raises(Misuse, match="does not say who approves"):
        await box.answer([item.approve()])
    assert bank.sent == []
    await box.answer([item.approve(by="bob")])
    assert bank.sent == [5]


async def test_the_call_of_a_child_run_needs_two_users_too(journal: Any) -> None:
    bank = Bank()
    outer = ScriptedModel([[ToolCall("b", "bank", {"request": "Send."})], "All done."])
    lead = Agent[Any]("lead", model=outer, tools=[bank.agent.as_tool()])
    item = only(await run(lead, Request("Send.", run_id="top"), journal=journal))
    assert (item.approvals, bool(item.run_id)) == (2, True)
    (taken,) = await answer("top", [item.approve(by="ann")], journal=journal)
    assert taken == Taken(answer=item.approve(by="ann"), missing=1)
    ((shown),) = [one.pending for one in await journal.inbox()]
    assert names(shown) == ["ann"]
    parked = await resume("top", lead, journal=journal, answers=[item.approve(by="ann")])
    assert (names(only(parked)), bank.sent) == (["ann"], [])
    await resume("top", lead, journal=journal, answers=[item.approve(by="bob")])
    assert bank.sent == [900]


CHILD = """
import asyncio, sys
from tests.entry.test_several_approvals import Bank
from upshot import answer, open_journal
async def main(place, user):
    async with open_journal(place) as journal:
        (shown,) = await journal.inbox()
        await answer("r", [shown.pending.approve(by=user)], journal=journal)
        print("answered", flush=True)
        await asyncio.Event().wait()
asyncio.run(main(*sys.argv[1:]))
"""


async def test_approvals_survive_the_death_of_the_processes_that_took_them(tmp_path: Path) -> None:
    place = str(tmp_path / "runs.db")
    bank = Bank()
    await bank.park(place)
    for user in ("ann", "bob"):
        process = start_python("-c", CHILD, place, user, stdout=PIPE)
        assert process.stdout is not None
        assert process.stdout.readline().strip()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert bank.sent == []
    async with open_journal(place) as journal:
        await bank.resume(journal)
    assert bank.sent == [900]


WAYS = ("inbox", "resume", "inbox, then resume")
WHAT = ("approve", "approve", "approve", "deny", "edit", "stale")
STEPS = st.lists(
    st.tuples(st.sampled_from(WAYS), st.sampled_from(WHAT), st.sampled_from(("ann", "bob", "cid"))),
    max_size=7,
)


@settings(max_examples=40, deadline=None)
@given(users=st.integers(2, 3), steps=STEPS)
async def test_no_order_of_answers_makes_the_call_with_fewer_users(
    users: int, steps: list[tuple[str, str, str]]
) -> None:
    journal, bank = MemoryJournal(), Bank(users=users)
    first = item = await bank.park(journal)
    agreed, no, warnings, result = set[str](), False, 0, None
    for way, what, user in steps:
        made = {
            "approve": item.approve(by=user),
            "deny": item.deny(by=user),
            "edit": item.edit({"cents": 7}, by=user),
            "stale": first.approve(by=user),
        }[what]
        if way == "resume":
            result = await bank.resume(journal, made)
            is_taken = len(warned(result)) == warnings
        else:
            (told,) = await answer("r", [made], journal=journal)
            is_taken = isinstance(told, Taken)
            result = await bank.resume(journal) if way != "inbox" else result
        if is_taken:
            if what in ("edit", "deny"):
                agreed = {user} if what == "edit" else agreed
            else:
                agreed.add(user)
            no = no or what == "deny"
        if way == "inbox":
            assert bank.sent == []
            continue
        if not result or not result.pending:
            break
        warnings = len(warned(result))
        item = only(result)
        assert (bank.sent, set(names(item))) == ([], agreed)
    if bank.sent:
        assert len(agreed) >= users
        assert not no


@pytest.mark.slow
async def test_a_client_door_sees_only_that_it_waits(tmp_path: Path) -> None:
    bank = Bank(users=1, approval=True, ask="user")
    policy = Policy(approvals={"transfer": 2}, taint="off")
    app = App([bank.agent], journal=str(tmp_path / "runs.db"), policy=policy)
    async with served(app) as client:
        ann = client.by("ann")
        body = {"model": "bank", "input": "Send it.", "stream": False}
        status, told = await ann.post("/v1/responses", body)
        assert (status, told["status"]) == (200, "in_progress")
        assert "transfer" not in str(told["output"])
        ((item),) = await app.inbox()
        asked = item.pending
        assert isinstance(asked, PendingApproval)
        assert (asked.audience, asked.approvals) == ("staff", 2)
        yes = {"type": "mcp_approval_response", "approval_request_id": f"mcpr_{asked.digest}"}
        body = {"model": "bank", "previous_response_id": told["id"]}
        status, told = await ann.post(
            "/v1/responses", {**body, "input": [{**yes, "approve": True}]}
        )
        assert status >= 400, told
        assert (await app.inbox())[0].pending == asked
        for user in ("sam", "oz"):
            approval = {"kind": "approve", "call_id": "t", "digest": asked.digest}
            path = f"/api/runs/{item.run_id}/answer"
            status, _ = await client.by(user).post(path, {"answers": [approval]})
            assert status == 200
        await (await app.run(item.run_id)).result(60)
        assert bank.sent == [900]
