"""What is asked of an agent and of a model."""

import gc
import weakref
from typing import Any

import pytest
from hypothesis import given

from tests.contract.strategies import messages, texts
from upshot.contract import (
    AgentCard,
    Message,
    MessageList,
    ModelRequest,
    Request,
    RequestConfig,
    Skill,
    decode,
    encode,
)
from upshot.errors import Misuse


@given(texts())
def test_a_text_becomes_a_message_of_the_user(text: str) -> None:
    request = Request(text)
    assert request.message == request.to_message() == Message("user", text)
    assert request.text == text


@given(messages())
def test_a_message_is_taken_as_it_is(message: Message) -> None:
    request = Request(message)
    assert request.message is request.to_message() is message
    assert request.text == message.text


@pytest.mark.parametrize("field", ["task_id", "context_id", "run_id", "config"])
def test_a_field_of_another_type_is_misuse(field: str) -> None:
    fields: dict[str, Any] = {field: 5}
    with pytest.raises(Misuse, match=rf"Request\({field}=5\): expected"):
        Request("Hi", **fields)


def test_no_inputs_are_no_variables() -> None:
    nothing: Any = None
    request = Request("Hi", inputs=nothing, metadata=nothing)
    assert request == Request("Hi")
    assert decode(encode(request)) == request


def test_a_model_request_is_made_of_text_messages_or_itself() -> None:
    said = MessageList([Message("user", "Hi")])
    whole = ModelRequest(said, system="Be brief.")
    assert ModelRequest.of("Hi").messages == (Message("user", "Hi"),)
    assert ModelRequest.of(said).messages is said
    assert ModelRequest.of(whole) is whole


def test_lists_are_frozen() -> None:
    modes: Any = ["text/plain"]
    skills: Any = [Skill(id="a", tags=modes)]
    card = AgentCard(skills=skills, default_input_modes=modes)
    assert RequestConfig(accepted_output_modes=modes).accepted_output_modes == ("text/plain",)
    assert card.skills[0].tags == card.default_input_modes == ("text/plain",)
    assert hash(card) == hash(AgentCard(skills=tuple(skills), default_input_modes=tuple(modes)))


@pytest.mark.parametrize("asked", ["hi", Message("user", "hi"), [Message("user", "hi")]], ids=repr)
def test_a_model_request_takes_a_text_for_a_message(asked: Any):
    assert list(ModelRequest(asked).messages) == [Message("user", "hi")]


@pytest.mark.parametrize("asked", [None, 5, ["hi"], [{"role": "user"}]], ids=repr)
def test_what_is_no_message_is_refused_where_the_request_is_made(asked: Any):
    with pytest.raises(Misuse, match="messages"):
        ModelRequest(asked)


def test_what_stands_among_messages_and_is_none_is_named() -> None:
    with pytest.raises(Misuse, match="got int: give Message"):
        ModelRequest([Message("user", "hi"), 3])  # type: ignore[list-item]


@pytest.mark.parametrize("field", ["inputs", "metadata"])
def test_inputs_that_are_no_mapping_are_misuse(field: str) -> None:
    fields: dict[str, Any] = {field: 5}
    with pytest.raises(Misuse, match=f"{field} of the request must be a mapping .* got int"):
        Request("Hi", **fields)


def test_modes_are_texts() -> None:
    mode: Any = "text/plain"
    with pytest.raises(Misuse, match="accepted_output_modes='text/plain'"):
        RequestConfig(accepted_output_modes=mode)


def test_a_request_that_its_own_inputs_hold_is_let_go() -> None:
    class Session(dict[str, Any]):
        request: Request

    session = Session()
    session.request = Request("Hi.", inputs=session)
    kept = weakref.ref(session)
    del session
    gc.collect()
    assert kept() is None
