"""The gate of the caller's rules."""

from typing import Any

import pytest

from upshot.contract import Approve, Deny, PendingApproval, ToolCall, ToolDenied
from upshot.errors import Misuse
from upshot.tools import Policy, Toolbox, tool
from upshot.tools.call_resumption import EarlierCalls

LARGE = "x" * 13_000


@tool(effect="read", network=True, trust="untrusted")
async def fetch(size: int = 1) -> str:
    return LARGE[:size]


@tool(effect="read")
async def look() -> int:
    return 1


@tool(effect="write")
async def mail_send(to: str = "a") -> str:
    return to


@tool(effect="destructive", approval=False)
async def wipe() -> int:
    return 1


TOOLS = [fetch, look, mail_send, wipe]


async def denied(policy: Policy) -> list[str]:
    """The tools that may not be called under *policy*."""
    box = Toolbox(TOOLS, policy=policy)
    calls = [ToolCall(one.name, one.name) for one in TOOLS]
    outcomes = await box.dispatch(calls)
    return [
        one.tool_name for one in outcomes if isinstance(one, ToolDenied) and one.reason == "policy"
    ]


@pytest.mark.parametrize("web_mode", [True, False])
async def test_a_tool_that_needs_the_network_runs_in_web_mode_only(web_mode: bool):
    outcome = (await Toolbox([fetch], web_mode=web_mode).dispatch([ToolCall("1", "fetch")]))[0]
    assert isinstance(outcome, ToolDenied) is not web_mode
    assert web_mode or outcome.reason == "policy"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("policy", "tools"),
    [
        (Policy(), []),
        (Policy(network=False), ["fetch"]),
        (Policy(deny=["mail_*"]), ["mail_send"]),
        (Policy(deny=["effect:destructive", "look"]), ["look", "wipe"]),
        (Policy(allow=["effect:read"]), ["mail_send", "wipe"]),
        (Policy(allow=["*"], deny=["network:on"]), ["fetch"]),
        (Policy(allow=[]), ["fetch", "look", "mail_send", "wipe"]),
        (Policy(allow=["network:off"]), ["fetch"]),
    ],
    ids=str,
)
async def test_rules_go_by_name_glob_effect_and_network(policy: Policy, tools: list[str]):
    assert await denied(policy) == tools


@pytest.mark.parametrize("rules", ["look", ["effect:wild"], [""], [7], {"look": 1}], ids=repr)
def test_a_rule_of_no_known_form_is_misuse(rules: Any):
    with pytest.raises(Misuse):
        Policy(deny=rules)


def test_a_policy_that_is_none_is_misuse():
    with pytest.raises(Misuse, match="must be a Policy"):
        Toolbox([look], policy={"deny": ["look"]})  # type: ignore[arg-type]


async def test_what_was_stored_can_be_read_whatever_is_allowed():
    box = Toolbox(TOOLS, policy=Policy(allow=["fetch"]))
    reference = (await box.dispatch([ToolCall("1", "fetch", {"size": 13_000})]))[0]
    call = ToolCall("2", "read_artifact", {"id": reference.artifact_id})  # type: ignore[union-attr]
    assert (await box.dispatch([call]))[0].kind == "tool_execution_result"


async def tainted_box(**options: Any) -> Toolbox:
    box = Toolbox(TOOLS, policy=Policy(taint=True), **options)
    await box.dispatch([ToolCall("f", "fetch")])
    return box


async def test_after_an_untrusted_result_writes_are_asked_about_and_reads_are_not():
    box = await tainted_box()
    outcomes = await box.dispatch(
        [ToolCall("m", "mail_send"), ToolCall("w", "wipe"), ToolCall("l", "look")]
    )
    assert [outcome.call_id for outcome in outcomes] == ["l"]
    assert [pending.call_id for pending in box.pending] == ["m", "w"]
    assert box.pending[0].reason == "the context holds untrusted words: fetch"


@pytest.mark.parametrize("taint", [{}, {"taint": True}, {"taint": "ask"}], ids=str)
async def test_after_an_untrusted_result_reads_over_the_network_are_asked_about(taint: Any):
    box = Toolbox(TOOLS, policy=Policy(**taint))
    await box.dispatch([ToolCall("1", "fetch")])
    assert await box.dispatch([ToolCall("2", "fetch"), ToolCall("3", "mail_send")]) == []
    assert [pending.call_id for pending in box.pending] == ["2", "3"]


async def test_before_it_and_without_the_rule_writes_run():
    box = Toolbox(TOOLS, policy=Policy(taint=True))
    assert len(await box.dispatch([ToolCall("m", "mail_send")])) == 1
    for policy in (None, Policy(deny=["wipe"], taint="off")):
        box = Toolbox(TOOLS, policy=policy)
        await box.dispatch([ToolCall("f", "fetch")])
        assert len(await box.dispatch([ToolCall("m", "mail_send")])) == 1


async def test_the_taint_outlives_the_turn_and_is_restored_from_records():
    box = await tainted_box()
    box.new_turn()
    assert await box.dispatch([ToolCall("m", "mail_send")]) == []
    again = Toolbox(TOOLS, policy=Policy(taint=True))
    again.restore(box.records)
    assert await again.dispatch([ToolCall("m", "mail_send")]) == []


async def test_a_yes_for_the_tool_does_not_cover_what_strangers_may_have_chosen():
    box = Toolbox([fetch, mail_send.but(approval=True)], policy=Policy(taint=True))
    await box.dispatch([ToolCall("1", "mail_send")])
    await box.answer([Approve("1", always="tool")])
    assert len(await box.dispatch([ToolCall("2", "mail_send", {"to": "b"})])) == 1
    await box.dispatch([ToolCall("f", "fetch")])
    assert await box.dispatch([ToolCall("3", "mail_send", {"to": "b"})]) == []


async def test_untrusted_results_are_fenced_also_when_read_back_and_after_a_resume():
    box = Toolbox(TOOLS)
    calls = [ToolCall("1", "fetch", {"size": 13_000}), ToolCall("2", "look")]
    large, trusted = await box.dispatch(calls)
    call = ToolCall("3", "read_artifact", {"id": large.artifact_id})  # type: ignore[union-attr]
    page = (await box.dispatch([call]))[0]
    again = Toolbox(TOOLS)
    again.restore(box.records)
    for one in (box, again):
        fenced = [
            one.content_of(outcome).startswith("<untrusted-") for outcome in (large, trusted, page)
        ]
        assert fenced == [True, False, True]
    assert [record.trust for record in box.records] == ["untrusted", "", "untrusted"]


async def test_denials_are_our_own_words():
    box = Toolbox(TOOLS)
    outcome = (await box.dispatch([ToolCall("1", "fetch", {"size": "many"})]))[0]
    assert box.content_of(outcome).startswith("{")


async def test_a_no_is_taken_whatever_has_changed_since():
    box = Toolbox([mail_send])
    asked = {"1": PendingApproval(call_id="1", tool_name="mail_send", digest="of another version")}
    answers = {"1": Deny("1", "not this")}
    outcomes = await box.resume(
        [ToolCall("1", "mail_send")], EarlierCalls(asked=asked, answers=answers)
    )
    assert isinstance(outcomes[0], ToolDenied)
    assert outcomes[0].details == "not this"
