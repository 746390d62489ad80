"""Messages: who said what, in typed parts."""

import copy
import pickle
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.contract.strategies import messages, parts
from upshot.contract import (
    Artifact,
    Data,
    Image,
    Message,
    MessageList,
    ModelRequest,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    Unknown,
    decode,
    encode,
)
from upshot.errors import Misuse


def test_a_message_is_made_of_role_and_content() -> None:
    message = Message("user", "Hello")
    assert (message.role, message.content, message.text) == (Role.USER, "Hello", "Hello")


@pytest.mark.parametrize("role", ["robot", None, 3, ""], ids=repr)
def test_a_role_that_nobody_has_is_misuse(role: Any) -> None:
    with pytest.raises(Misuse, match=f"there is no role {role!r}"):
        Message(role, "Hello")


@pytest.mark.parametrize("part", ["Hello", None, 3, {"kind": "text"}, Text], ids=repr)
def test_a_part_that_is_none_is_misuse(part: Any) -> None:
    with pytest.raises(Misuse, match="the parts of a message must be"):
        Message("user", (Text("a"), part))


def test_a_bare_text_among_parts_is_told_how_to_write_it() -> None:
    texts: Any = ["Hello"]
    with pytest.raises(Misuse, match=r"give Text\('Hello'\)"):
        Message("user", texts)


def test_content_of_another_type_is_misuse() -> None:
    content: Any = 5
    with pytest.raises(Misuse, match="must be a string or parts, got int"):
        Message("user", content)


def test_lists_are_frozen() -> None:
    content: Any = [Text("a"), Data(1)]
    calls: Any = [ToolCall("c1", "look")]
    message = Message("assistant", content, tool_calls=calls)
    assert message.content == (Text("a"), Data(1), ToolCall("c1", "look"))
    assert message.tool_calls == (ToolCall("c1", "look"),)
    bundle: Any = Artifact("report", content)
    assert bundle.parts == (Text("a"), Data(1))


def test_no_content_is_no_text() -> None:
    nothing: Any = None
    calls: Any = [ToolCall("c1", "look")]
    message = Message("assistant", nothing, tool_calls=calls)
    assert (message.content, message.tool_calls) == (tuple(calls), tuple(calls))
    assert (message.text, Message("assistant", nothing).content) == ("", "")


@pytest.mark.parametrize("calls", [5, "look", [{"name": "look"}], ToolCall])
def test_calls_that_are_none_are_misuse(calls: Any) -> None:
    with pytest.raises(Misuse, match="tool_calls must be ToolCall objects, got"):
        Message("assistant", "", tool_calls=calls)


@given(st.lists(parts(), max_size=5))
def test_the_text_is_that_of_all_text_parts_joined(said: list[Part]) -> None:
    message = Message("assistant", tuple(said))
    assert message.text == "".join(part.text for part in said if isinstance(part, Text))
    assert message.parts == tuple(said)


@pytest.mark.parametrize(("content", "parts"), [("", ()), ("x", (Text("x"),))])
def test_a_text_is_one_part_unless_it_is_empty(content: str, parts: tuple[Part, ...]) -> None:
    assert Message("user", content).parts == parts


def test_reasoning_and_pictures_are_no_text() -> None:
    message = Message("assistant", (Reasoning(text="hm"), Text("yes"), Image(url="u")))
    assert message.text == "yes"


@given(st.lists(messages(), max_size=4))
def test_a_conversation_is_a_sequence_that_grows(said: list[Message]) -> None:
    conversation = MessageList(said[:1])
    for message in said[1:2]:
        conversation.append(message)
    conversation.extend(said[2:])
    assert list(conversation) == conversation[:] == said
    assert len(conversation) == len(said)
    assert [conversation[place] for place in range(len(said))] == said
    assert conversation.encoded == {}
    assert repr(conversation) == f"MessageList({said!r})"


@given(st.lists(messages(), max_size=3), st.lists(messages(), max_size=3))
def test_a_conversation_equals_what_holds_the_same_messages(
    said: list[Message], other: list[Message]
) -> None:
    conversation = MessageList(said)
    for kind in (MessageList, list, tuple):
        assert conversation == kind(said) and kind(said) == conversation
        assert (conversation == kind(other)) is (said == other)
    assert conversation != "".join(message.text for message in said)


@given(st.lists(messages(), max_size=3), messages())
def test_a_copy_of_a_conversation_grows_apart_from_it(said: list[Message], more: Message) -> None:
    conversation = MessageList(said)
    conversation.encoded["a"] = "made of it"
    copy = conversation.copy()
    assert (copy, copy.encoded) == (conversation, {})
    copy.append(more)
    assert (list(conversation), list(copy)) == (said, [*said, more])


def test_a_conversation_that_grows_is_no_key() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(MessageList())


@given(st.lists(messages(), max_size=3), st.lists(messages(), min_size=1, max_size=3))
def test_a_conversation_so_far_stays_as_it_is(said: list[Message], more: list[Message]) -> None:
    conversation = MessageList(said)
    so_far = conversation.so_far()
    again = so_far.so_far()
    conversation.extend(more)
    for kept in (so_far, again, so_far.copy()):
        assert (len(kept), list(kept), kept[:], kept[-2:]) == (len(said), said, said, said[-2:])
        assert [kept[place] for place in range(-len(said), len(said))] == said * 2
        assert kept == said and kept != conversation and repr(kept) == f"MessageList({said!r})"
        with pytest.raises(IndexError):
            kept[len(said)]
    assert so_far.encoded is conversation.encoded


@given(st.lists(messages(), max_size=3), messages())
def test_a_conversation_is_pickled_and_copied_as_its_messages(
    said: list[Message], more: Message
) -> None:
    conversation = MessageList(said)
    conversation.encoded["a"] = lambda: "what cannot be pickled"
    so_far = conversation.so_far()
    conversation.append(more)
    for made in (pickle.loads(pickle.dumps(so_far)), copy.copy(so_far), copy.deepcopy(so_far)):
        made.append(more)
        assert (list(made), made.encoded) == ([*said, more], {})
    assert (list(so_far), list(conversation)) == (said, [*said, more])


@given(st.lists(messages(), max_size=3), messages())
def test_adding_to_a_conversation_so_far_leaves_the_whole_as_it_is(
    said: list[Message], more: Message
) -> None:
    conversation = MessageList(said)
    conversation.encoded["a"] = "made of it"
    so_far = conversation.so_far()
    so_far.append(more)
    so_far.extend([more])
    assert (list(conversation), list(so_far)) == (said, [*said, more, more])
    assert (conversation.encoded, so_far.encoded) == ({"a": "made of it"}, {})


@given(st.lists(messages(), max_size=3), st.lists(messages(), max_size=3))
def test_a_conversation_can_be_put_together_with_other_messages(
    said: list[Message], more: list[Message]
) -> None:
    for conversation in (MessageList(said), MessageList(said).so_far()):
        for kind in (MessageList, list, tuple):
            assert conversation + kind(more) == [*said, *more]
            assert kind(more) + conversation == [*more, *said]
        assert conversation == said


@given(st.lists(messages(), max_size=3))
@example([Message("system", (Unknown(raw={"kind": "hologram"}),))])
def test_a_conversation_is_written_as_the_list_of_its_messages(said: list[Message]) -> None:
    conversation = MessageList(said)
    assert encode(conversation.so_far()) == encode(conversation) == encode(said)
    request = ModelRequest(conversation.so_far())
    assert decode(encode(request), ModelRequest) == request


def test_an_unknown_part_is_made_of_its_kind_and_its_object() -> None:
    make: Any = Unknown
    part = Unknown(raw={"kind": "hologram", "depth": 3})
    assert make("hologram", {"depth": 3}) == part
    assert make(kind="hologram", raw={"kind": "hologram", "depth": 3}) == part
    assert (part.kind, make("hologram").raw) == ("hologram", {"kind": "hologram"})
    assert make().kind == "unknown"


def test_an_unknown_part_is_copied_and_read_back_as_it_is() -> None:
    part = Unknown(raw={"kind": "hologram", "depth": 3})
    message = Message("user", (part,))
    assert pickle.loads(pickle.dumps(part)) == copy.deepcopy(part) == part
    assert decode(encode(message)) == message
