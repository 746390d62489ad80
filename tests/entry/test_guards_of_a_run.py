"""Gates, a hook before each call and a policy that asks, as options of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.processes import run_python
from tests.runs.kit import Ordered
from upshot import (
    Agent,
    Approve,
    Decider,
    DeniedReason,
    Graph,
    GraphEngine,
    Misuse,
    PendingApproval,
    Policy,
    Request,
    ScriptedModel,
    Status,
    ToolCall,
    ToolDenied,
    cancel,
    resume,
    run,
    tool,
)
from upshot.journal.artifact_store import MemoryArtifactStore
from upshot.runs.plan import lacks
from upshot.tools import Ask, Denial, Refuse

sent: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_sent() -> None:
    sent.clear()


@tool(effect="write")
def mail(to: str) -> str:
    """Send a mail."""
    sent.append(to)
    return "sent"


@tool(effect="read")
def look(at: str) -> str:
    """Look at something."""
    return at


def clerk() -> Agent[Any]:
    calls = [[ToolCall("1", "look", {"at": "it"}), ToolCall("2", "mail", {"to": "ann"})], "Done."]
    return Agent("clerk", model=ScriptedModel(calls, per_conversation=True), tools=[look, mail])


def in_graph() -> Agent[Any]:
    return Agent("outer", engine=GraphEngine(Graph({"work": clerk()}, start="work")))


AROUND = pytest.mark.parametrize("made", [clerk, in_graph])


class NoMail:
    """A gate that denies mail."""

    name = "no_mail"

    def check(self, call: Any) -> Denial | None:
        return Denial(DeniedReason.POLICY, "no mail today") if call.tool_name == "mail" else None


def no_mail(request: Any) -> Refuse | None:
    return Refuse("no mail today") if request.tool_name == "mail" else None


class Named(NoMail):
    """A gate that says what it is."""

    def __init__(self, name: str, version: int = 1) -> None:
        self.name, self.version = name, version


GUARDS: dict[str, Any] = {"gates": [NoMail()], "on_pre_tool_use": no_mail}


@AROUND
@pytest.mark.parametrize("name", GUARDS)
async def test_a_guard_holds_in_a_run_and_in_those_inside(
    made: Callable[[], Agent[Any]], name: str
) -> None:
    result = await run(made(), "Write.", **{name: GUARDS[name]})
    assert (result.success, sent) == (True, [])


async def test_a_function_of_the_standard_gates_gives_all() -> None:
    result = await run(clerk(), "Write.", gates=lambda standard: (*standard, NoMail()))
    denied = [one for one in result.tool_outcomes if isinstance(one, ToolDenied)]
    assert ([one.details for one in denied], sent) == (["no mail today"], [])


async def test_gates_that_can_be_read_once_hold_for_every_run() -> None:
    result = await run(in_graph(), "Write.", gates=iter([NoMail()]))
    assert (result.success, sent) == (True, [])


async def test_a_hook_has_the_user_asked() -> None:
    result = await run(clerk(), "Write.", on_pre_tool_use=lambda request: Ask("look at it"))
    assert [one.reason for one in approvals(result)] == ["look at it", "look at it"]


@pytest.mark.parametrize("name", GUARDS)
async def test_a_run_does_not_go_on_without_its_guard(name: str) -> None:
    journal, options = Ordered(), {name: GUARDS[name], "policy": Policy(ask=("look",))}
    await run(clerk(), Request("Write.", run_id="r"), journal=journal, **options)
    answers = [Approve("1")]
    with pytest.raises(Misuse, match=rf"run 'r' was given {name} \(.*\), which no log can hold"):
        await resume("r", clerk(), journal=journal, answers=answers)
    result = await resume("r", clerk(), journal=journal, answers=answers, **{name: GUARDS[name]})
    assert (result.content, sent) == ("Done.", [])


def no_look(request: Any) -> Refuse | None:
    return Refuse("no look today") if request.tool_name == "look" else None


OTHERS: dict[str, tuple[str, Any, Any, list[Any]]] = {
    "another function": ("on_pre_tool_use", no_mail, no_look, [no_mail, partial(no_mail)]),
    "another name": ("gates", [Named("a")], [Named("b")], [[Named("a")]]),
    "another version": ("gates", [Named("a")], [Named("a", 2)], [[Named("a")]]),
    "one of two": (
        "gates",
        [NoMail(), Named("a")],
        [NoMail()],
        [[Named("a"), NoMail()], [Named("a"), Named("c"), NoMail()]],
    ),
    "two of one": ("gates", [Named("a"), Named("a")], [Named("a")], [[Named("a"), Named("a")]]),
}


@pytest.mark.parametrize("kind", OTHERS)
async def test_a_run_does_not_go_on_with_another_guard(kind: str) -> None:
    name, first, other, same = OTHERS[kind]
    for again in same:
        journal, options = Ordered(), {"policy": Policy(ask=("look",))}
        more: Any = {name: first}
        request = Request("Write.", run_id="r")
        await run(clerk(), request, journal=journal, **options, **more)
        answers = [Approve("1")]
        with pytest.raises(
            Misuse, match=rf"given {name} \(.*\), which .* and has .* now: give it again"
        ):
            await resume("r", clerk(), journal=journal, answers=answers, **{name: other})
        result = await resume("r", clerk(), journal=journal, answers=answers, **{name: again})
        assert result.success


PROGRAM = """
from upshot.runs.plan import identity_of

class Gate:
    name = "mail"
    def check(self, call): ...

def make(info): ...

print(identity_of(Gate()), identity_of(Gate().check), identity_of(make))
"""


def test_what_a_run_was_given_is_called_alike_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(PROGRAM)
    (tmp_path / "other.py").write_text("import desk")
    said = [
        run_python(*how, cwd=tmp_path, text=True, check=True).stdout
        for how in (["desk.py"], ["-m", "desk"], ["other.py"])
    ]
    assert set(said) == {"desk:Gate(name=mail) desk:Gate.check(name=mail) desk:make\n"}
    assert not lacks(["desk:make"], ["pkg.desk:make"])


class Careful(Decider):
    """Judges nothing."""


def keep(info: Any, request: Any, result: Any) -> None:
    """Commit nothing."""


FED: dict[str, tuple[Any, str]] = {
    "deciders": ([Careful()], "tests.entry.test_guards_of_a_run:Careful"),
    "committers": ([keep], "tests.entry.test_guards_of_a_run:keep"),
    "artifact_store": (
        MemoryArtifactStore(),
        "upshot.journal.artifact_store:MemoryArtifactStore",
    ),
    "dependencies": ({"db": 1}, "builtins:dict"),
}


@pytest.mark.parametrize("name", FED)
async def test_a_run_does_not_go_on_without_what_feeds_it(name: str) -> None:
    journal, (given, said) = Ordered(), FED[name]
    more: Any = {name: given}
    options: Any = {"policy": Policy(ask=("look",)), **more}
    await run(clerk(), Request("Write.", run_id="r"), journal=journal, **options)
    with pytest.raises(Misuse, match=rf"run 'r' was given {name} \({said}\), which no log can"):
        await resume("r", clerk(), journal=journal, answers=[Approve("1")])
    result = await resume("r", clerk(), journal=journal, answers=[Approve("1")], **more)
    assert result.content == "Done."


async def test_a_run_is_ended_without_what_it_was_given() -> None:
    journal = Ordered()
    options: Any = {name: given for name, (given, _) in FED.items()}
    options |= {"gates": [NoMail()], "policy": Policy(ask=("look",))}
    await run(clerk(), Request("Write.", run_id="r"), journal=journal, **options)
    assert (await cancel("r", journal=journal)).status == Status.CANCELED


async def test_what_an_agent_brings_along_need_not_be_given_again() -> None:
    journal, agent = Ordered(), replace(clerk(), deciders=[Careful()])
    policy = Policy(ask=("look",))
    await run(agent, Request("Write.", run_id="r"), journal=journal, policy=policy)
    assert (await resume("r", agent, journal=journal, answers=[Approve("1")])).content == "Done."


@pytest.mark.parametrize("given", [5, "no_mail"])
async def test_gates_of_another_kind_are_misuse(given: Any) -> None:
    with pytest.raises(Misuse, match="gates must be a list of gates, or a function"):
        await run(clerk(), "Write.", gates=given)


# -- a policy that asks


def approvals(result: Any) -> list[PendingApproval]:
    return [one for one in result.pending if isinstance(one, PendingApproval)]


@AROUND
async def test_every_write_is_confirmed_where_the_policy_asks(
    made: Callable[[], Agent[Any]],
) -> None:
    asked: list[str] = []

    def refuse(request: Any) -> bool:
        asked.append(request.tool_name)
        return False

    result = await run(made(), "Write.", approve=refuse, policy=Policy(ask=("effect:write",)))
    assert (result.status, asked, sent) == (Status.COMPLETED, ["mail"], [])


async def test_the_rule_is_logged_and_holds_when_the_run_goes_on() -> None:
    journal = Ordered()
    request = Request("Write.", run_id="r")
    policy = Policy(ask=("effect:write", "look"))
    parked = await run(clerk(), request, journal=journal, policy=policy)
    assert [one.reason for one in approvals(parked)] == [
        "the policy asks about look",
        "the policy asks about effect:write",
    ]
    parked = await resume("r", clerk(), journal=journal, answers=[Approve("1")])
    assert ([one.tool_name for one in approvals(parked)], sent) == (["mail"], [])
    result = await resume("r", clerk(), journal=journal, answers=[Approve("2")])
    assert (result.content, sent) == ("Done.", ["ann"])


async def test_an_approver_alone_is_asked_only_where_something_wants_it() -> None:
    await run(clerk(), "Write.", approve=lambda request: False)
    assert sent == ["ann"]
