"""Agent: an agent as plain data, and its spec."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from upshot.contract import (
    Agent,
    AgentCard,
    AgentSpec,
    Budget,
    Handoff,
    ModelSettings,
    Retry,
    decode,
    encode,
    handoffs_of,
)
from upshot.errors import Misuse


class Look:
    name = "look"
    description = "Looks."
    parameters: dict[str, Any] = {"type": "object"}


class Named:
    name = "test:model"

    async def call(self, request: Any) -> None: ...


class Loop:
    async def execute(self, run: Any, host: Any, board: Any) -> None: ...


def refund(order_id: str) -> None: ...


@pytest.mark.parametrize("id", ["", None, 5])
def test_an_agent_needs_an_id(id: Any) -> None:
    with pytest.raises(Misuse, match="the id of an agent must be"):
        Agent(id)


@pytest.mark.parametrize("field", ["tools", "handoffs", "observers", "deciders"])
def test_a_string_is_no_list(field: str) -> None:
    items: dict[str, Any] = {field: "look"}
    with pytest.raises(Misuse, match=f"{field} of agent 'support' must be a list, .* got str"):
        Agent("support", **items)


@pytest.mark.parametrize("field", ["tools", "handoffs", "observers", "deciders"])
def test_one_item_is_no_list(field: str) -> None:
    items: dict[str, Any] = {field: Look()}
    with pytest.raises(Misuse, match=f"{field} of agent 'support' must be a list, .* got Look"):
        Agent("support", **items)


@pytest.mark.parametrize(
    "handoffs",
    [
        ["billing", Handoff("billing")],
        ["Billing", "billing"],
        [Agent("a b"), "a-b"],
        [Handoff("x", tool_name="go"), Handoff("y", tool_name="go")],
        [Handoff("x", tool_name="transfer_to_y"), "y"],
    ],
)
def test_two_handoffs_with_one_tool_name_are_misuse(handoffs: Any) -> None:
    with pytest.raises(Misuse, match="two handoffs"):
        Agent("support", handoffs=handoffs)


def test_what_is_no_handoff_is_misuse() -> None:
    wrong: Any = [5]
    with pytest.raises(Misuse, match="5 is not a handoff"):
        Agent("support", handoffs=wrong)


def test_handoffs_may_be_named_in_three_ways() -> None:
    billing: Agent[str] = Agent("billing", card=AgentCard(description="For bills."))
    agent: Agent[str] = Agent("support", handoffs=["sales", billing, Handoff("law", "For law.")])
    made = handoffs_of(agent)
    assert [handoff.to_agent_id for handoff in made] == ["sales", "billing", "law"]
    assert [handoff.description for handoff in made] == ["", "For bills.", "For law."]


def test_lists_and_generators_are_frozen() -> None:
    def tools() -> Iterator[Any]:
        yield "look"

    assert Agent("support", tools=tools()).tools == ("look",)
    assert Agent("support", tools=[]).tools == ()
    assert Agent("support").tools is None


def test_an_agent_cannot_be_changed_but_made_anew() -> None:
    agent: Agent[str] = Agent("support", name="Support")
    with pytest.raises(AttributeError):
        agent.name = "Other"
    assert agent.but(name="Other") == Agent("support", name="Other")
    with pytest.raises(Misuse, match="Agent has no field 'nickname': did you mean 'name'"):
        agent.but(nickname="x")
    with pytest.raises(Misuse):
        agent.but(id="")


def test_plain_agents_are_equal_and_hash_alike() -> None:
    assert Agent("a", tools=["x"]) == Agent("a", tools=("x",))
    assert hash(Agent("a", tools=["x"])) == hash(Agent("a", tools=("x",)))


@pytest.mark.parametrize(
    ("field", "value", "hint"),
    [
        ("model", 5, "provider:name"),
        ("name", 5, "string"),
        ("instructions", 5, "string"),
        ("engine", "loop", "LoopEngine"),
        ("card", "x", "AgentCard"),
        ("budget", 5, "Budget"),
        ("settings", {"temperature": 1}, "ModelSettings"),
        ("retry", 3, "Retry"),
    ],
)
def test_a_field_of_another_type_is_named_with_what_to_give(
    field: str, value: Any, hint: str
) -> None:
    fields = {field: value}
    with pytest.raises(Misuse, match=rf"^{field} of agent 'a' must be .*{hint}"):
        Agent("a", **fields)


def test_its_spec_has_its_names() -> None:
    model: Any = Named()
    look = Look()
    tools: Any = [look, refund, "search", [look, "deep"]]
    agent: Agent[str] = Agent(
        "support",
        name="Support",
        model=model,
        instructions="Help.",
        tools=tools,
        output_type={"type": "object"},
        handoffs=["billing"],
        engine=Loop(),
        card=AgentCard(name="Support"),
        budget=Budget(max_turns=3),
        settings=ModelSettings(temperature=0.0),
        retry=None,
    )
    assert agent.spec() == AgentSpec(
        id="support",
        name="Support",
        model="test:model",
        instructions="Help.",
        tools=("look", "refund", "search", "look", "deep"),
        output_schema={"type": "object"},
        handoffs=("billing",),
        engine="Loop",
        card=AgentCard(name="Support"),
        budget=Budget(max_turns=3),
        settings=ModelSettings(temperature=0.0),
        retry=None,
    )


def test_its_spec_leaves_out_what_has_no_name() -> None:
    spec = Agent("support", instructions=lambda run: "Help.").spec()
    assert spec == AgentSpec(id="support", retry=Retry(), omitted=("instructions",))
    assert (spec.instructions, spec.tools, spec.engine, spec.model) == (None, None, "", "")


def test_no_tools_and_an_empty_list_are_not_the_same() -> None:
    for tools in (None, ()):
        agent: Agent[str] = Agent("support", tools=tools)
        spec = decode(encode(agent), AgentSpec)
        assert spec.tools == tools


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"id": " "}, "the id of an agent must be"),
        ({"id": "a", "output_type": 5}, "output_type of agent 'a' must be"),
        ({"id": "a", "output_type": "int"}, "output_type of agent 'a' must be"),
        ({"id": "a", "engine": Loop}, "engine of agent 'a' must be"),
        ({"id": "a", "model": Named}, "model of agent 'a' must be"),
        ({"id": "a", "modle": "x:y"}, "Agent has no field 'modle': did you mean 'model'?"),
        ({}, "Agent: missing a required argument: 'id'"),
    ],
    ids=str,
)
def test_what_cannot_work_is_refused_when_the_agent_is_made(fields: Any, said: str) -> None:
    with pytest.raises(Misuse, match=re.escape(said)):
        Agent(**fields)


@pytest.mark.parametrize("wanted", [int, list[int], int | None, {"type": "object"}, Any])
def test_an_output_type_may_be_any_type(wanted: Any) -> None:
    assert Agent("a", output_type=wanted).output_type == wanted


def test_a_spec_says_what_was_left_out() -> None:
    class Typed: ...

    class Hook:
        def on_run_start(self, *_: Any) -> None: ...
        def before_model(self, *_: Any) -> None: ...

    whole: Agent[Any] = Agent(
        "a",
        instructions=lambda run: "Help.",
        output_type=Typed,
        observers=[Hook()],
        deciders=[Hook()],
    )
    said = ("instructions", "output_type", "observers", "deciders")
    assert whole.spec().omitted == said
    assert decode(encode(whole), AgentSpec).omitted == said
    assert Agent("a", instructions="Help.", output_type=str, tools=["look"]).spec().omitted == ()


def test_a_spec_says_that_it_lacks_what_a_hand_off_had_besides_its_id() -> None:
    guarded = [
        Handoff("b", filter=lambda info, board: False),
        Handoff("b", on_invoke=lambda info, event: None),
        Handoff("b", history=False),
        Handoff("b", "For bills."),
        Handoff("b", tool_name="give"),
    ]
    for handoff in guarded:
        assert Agent("a", handoffs=[handoff]).spec().omitted == ("handoffs",)
    assert Agent("a", handoffs=["b", Handoff("c"), Agent("d")]).spec().omitted == ()


def _named_look(result: str) -> Any:
    def look() -> str:
        return result

    return look


def _in_parts() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ([lambda: 1], "has no name: give one with tool"),
        ([_in_parts], "'_in_parts' is a generator"),
        ([int], "'int' is a class"),
        ([_named_look("a"), [_named_look("b")]], "two tools are called 'look'"),
        ([{"name": "look"}], "'look' is a description without a function"),
        ([None], "None is not a tool"),
    ],
    ids=["lambda", "generator", "class", "one_name_twice", "schema", "none"],
)
def test_what_cannot_be_a_tool_is_refused_where_it_is_given(tools: Any, message: str) -> None:
    with pytest.raises(Misuse, match=message):
        Agent("a", tools=tools)


def test_tools_that_can_be_read_once_only_are_kept() -> None:
    tools: Any = [(one for one in [_named_look("a")])]
    agent = Agent("a", tools=tools)
    assert agent.spec().tools == agent.spec().tools == ("look",)
