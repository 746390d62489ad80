"""What all values are made of: frozen, hashable without dicts, fit for pickle and copy."""

import copy
import pickle
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.strategies import STRUCTS, TAGGED, structs
from tests.searching import examples
from upshot.contract import AgentResult, Local, Unknown, encode
from upshot.contract.base.structs import Formed, freeze, settle_moments, to_snake
from upshot.errors import Misuse


def by_name(kind: Any) -> str:
    return kind.__name__


@pytest.mark.parametrize("kind", STRUCTS, ids=by_name)
@examples(10)
@given(data=st.data())
def test_a_value_survives_pickle_and_copy_and_its_like_hashes_alike(
    kind: Any, data: st.DataObject
) -> None:
    value = data.draw(structs(kind))
    other = pickle.loads(pickle.dumps(value))
    assert other == copy.copy(value) == copy.deepcopy(value) == value
    try:
        number = hash(value)
    except TypeError:
        assert b"{" in encode(value)  # it holds a dict
        return
    assert hash(other) == number


def test_every_struct_is_frozen() -> None:
    assert [kind for kind in STRUCTS if not kind.__struct_config__.frozen] == []


def test_every_field_is_described() -> None:
    inherited = {"schema_version", "run_id", "attempt", "time", "seq", "part", "call_id"}
    for kind in STRUCTS:
        described = (kind.__doc__ or "") + (kind.__base__.__doc__ or "")
        missing = {f for f in kind.__struct_fields__ if f"    {f}: " not in described}
        assert missing <= inherited, kind


def test_only_what_a_value_is_about_has_no_default() -> None:
    told = {"call_id", "tool_name", "id", "name", "role", "message", "exec_id", "step"}
    told |= {"outcome", "record", "result", "answer", "reason", "effect", "type"}
    for kind in STRUCTS:
        required = {field.name for field in msgspec.structs.fields(kind) if field.required}
        assert required <= told, kind


def test_kinds_are_not_used_twice() -> None:
    tags = [kind.__struct_config__.tag for kind in TAGGED]
    assert len(set(tags)) == len(tags)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("Text", "text"), ("ToolCall", "tool_call"), ("AgentResult", "agent_result")],
)
def test_a_kind_is_the_class_name_in_snake_case(name: str, kind: str) -> None:
    assert to_snake(name) == kind


def test_local_equals_any_other_and_none() -> None:
    one, other = Local(raw=1), Local(last_board=2)
    assert one == other == Local()
    assert one == None and one == None  # noqa: E711  # equality is what is tested
    assert hash(one) == hash(other) == hash(None)
    assert one != 1


def test_local_hands_its_objects_on_within_the_process_only() -> None:
    raw = object()
    local = Local(raw=raw)
    assert local.get("raw") is copy.copy(local).get("raw") is copy.deepcopy(local).get("raw") is raw
    assert pickle.loads(pickle.dumps(Local(raw=1))).get("raw") is None


def test_local_does_not_print_its_objects() -> None:
    assert repr(Local(raw="a secret")) == "Local(raw)"


def test_freezing_and_settling_leave_what_is_right_alone() -> None:
    result = AgentResult(messages=())
    freeze(result, "messages", "content")
    settle_moments(result, "started_at")
    assert result == AgentResult()


def test_unknown_has_always_a_kind() -> None:
    assert Unknown().raw == {"kind": "unknown"}
    assert Unknown(raw={"kind": 5, "x": 1}).raw == {"kind": "unknown", "x": 1}


def test_an_unknown_event_tells_its_run_and_place() -> None:
    event = Unknown(raw={"kind": "new", "run_id": "run-1", "seq": 7})
    assert (event.run_id, event.seq) == ("run-1", 7)
    assert (Unknown().run_id, Unknown().seq) == ("", 0)
    assert Unknown(raw={"kind": "new", "seq": "x"}).seq == 0


class Pair(Formed):
    def json_form(self) -> object:
        return {"first": 1, "last": Local()}


def test_what_has_a_form_of_its_own_is_written_by_it() -> None:
    assert encode({"pair": Pair()}) == b'{"pair":{"first":1,"last":null}}'


def test_what_is_no_json_is_told_by_no_method_that_it_has_by_chance() -> None:
    odd = type("Odd", (), {"so_far": lambda self: None, "__iter__": lambda self: iter("ab")})
    with pytest.raises(Misuse, match="Odd"):
        encode({"odd": odd()})
