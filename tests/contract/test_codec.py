"""Between values and JSON: nothing is lost, nothing unknown breaks a reader."""

import contextlib
import dataclasses
import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, get_args

import msgspec
import pydantic
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.contract.strategies import (
    STRUCTS,
    TAGGED,
    events,
    json_objects,
    kinds,
    messages,
    parts,
    results,
    structs,
    unknown_kinds,
    unknowns,
)
from tests.searching import examples
from upshot.contract import (
    Agent,
    AgentCard,
    AgentError,
    AgentResult,
    AgentSpec,
    BoardChanged,
    BoardSnapshot,
    Checkpoint,
    Cost,
    Data,
    Event,
    File,
    FinalizeDecision,
    Interrupt,
    Json,
    Local,
    Message,
    ModelResponse,
    Part,
    Pending,
    Reasoning,
    Request,
    RunSettled,
    Text,
    TextDelta,
    ToolCall,
    ToolExecutionResult,
    ToolOutcome,
    ToolRecord,
    Unknown,
    Usage,
    decode,
    encode,
)
from upshot.contract.base.structs import Root
from upshot.errors import Misuse

ROOTS = [kind for kind in TAGGED if issubclass(kind, Root)]


def by_name(kind: Any) -> str:
    return kind.__name__


def as_json(value: object) -> Any:
    return json.loads(encode(value))


@pytest.mark.parametrize("kind", STRUCTS, ids=by_name)
@examples(25)
@given(data=st.data())
def test_every_value_is_read_back_as_it_was_written(kind: Any, data: st.DataObject) -> None:
    value = data.draw(structs(kind))
    assert decode(encode(value), kind) == value


@pytest.mark.parametrize("kind", [k for k in TAGGED if k is not Unknown], ids=by_name)
@examples(10)
@given(data=st.data())
def test_a_tagged_value_is_recognised_by_its_kind(kind: Any, data: st.DataObject) -> None:
    value = data.draw(structs(kind))
    back = decode(encode(value))
    assert (type(back), back) == (kind, value)
    form = as_json(value)
    assert form["kind"] == value.kind
    # A root always says its version.
    assert form.get("schema_version") == (1 if kind in ROOTS else None)


def test_the_roots_are_those_that_are_stored_or_sent_on_their_own() -> None:
    told = {AgentResult, ModelResponse, Request, AgentCard, AgentSpec, ToolRecord, Checkpoint}
    assert set(ROOTS) == told | {kind for kind in get_args(Event) if kind is not Unknown}


@given(events())
def test_any_event_is_read_back_as_an_event(event: Event) -> None:
    assert decode(encode(event), Event) == event


@given(st.lists(messages(), max_size=4))
def test_a_container_of_values_is_written_too(said: list[Message]) -> None:
    assert decode(encode(said), list[Message]) == said


@given(results())
def test_what_was_written_is_json_for_any_reader(result: AgentResult[Json]) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    json.loads(encode(result).decode("utf-8"), parse_constant=refuse)


# ---- unknown fields and kinds


@given(structs(ToolRecord), json_objects())
def test_unknown_fields_are_ignored(record: ToolRecord, more: dict[str, Json]) -> None:
    form = {**{f"new_{name}": value for name, value in more.items()}, **as_json(record)}
    assert decode(json.dumps(form), ToolRecord) == record


@given(unknown_kinds())
def test_an_unknown_root_kind_is_refused_by_name(kind: str) -> None:
    with pytest.raises(Misuse) as caught:
        decode(json.dumps({"kind": kind, "schema_version": 7}))
    assert repr(kind) in str(caught.value)


@pytest.mark.parametrize("expected", [AgentResult, ModelResponse, ToolOutcome, Pending, Message])
def test_an_unknown_kind_is_refused_by_name_where_it_may_not_be(expected: Any) -> None:
    with pytest.raises(Misuse, match="'hologram'"):
        decode(b'{"kind":"hologram"}', expected)


@given(unknown_kinds(), json_objects())
def test_an_unknown_event_is_kept_and_written_back(kind: str, fields: dict[str, Json]) -> None:
    form = {**fields, "kind": kind}
    event = decode(json.dumps(form), Event)
    assert isinstance(event, Unknown)
    assert (event.kind, event.raw, as_json(event)) == (kind, form, form)


@st.composite
def messages_with_unknown_parts(draw: st.DrawFn) -> dict[str, Any]:
    """The JSON of a message among whose parts are some of unknown kinds."""
    known = [as_json(part) for part in draw(st.lists(parts(), max_size=3))]
    raw = [dict(part.raw) for part in draw(st.lists(unknowns(), min_size=1, max_size=4))]
    content = draw(st.permutations(known + raw))
    return {**as_json(draw(messages())), "content": list(content)}


@examples(60)
@given(messages_with_unknown_parts())
def test_unknown_parts_are_written_back_unchanged(form: dict[str, Any]) -> None:
    message = decode(json.dumps(form), Message)
    back = as_json(message)
    assert back["content"] == form["content"]
    assert decode(encode(message), Message) == message


@examples(40)
@given(st.lists(messages_with_unknown_parts(), max_size=3), st.lists(unknowns(), max_size=2))
def test_unknown_parts_and_events_may_stand_anywhere(
    said: list[dict[str, Any]], odd: list[Unknown]
) -> None:
    changed = {"kind": "board_changed", "schema_version": 1, "messages": said}
    settled = as_json(RunSettled(result=AgentResult(content="x")))
    settled["result"]["messages"] = said
    settled["result"]["artifacts"] = [
        {"kind": "artifact", "name": "a", "parts": message["content"]} for message in said
    ]
    log = [changed, *(unknown.raw for unknown in odd), settled]
    events = decode(json.dumps(log), list[Event])
    assert [type(event) for event in events] == [BoardChanged, *[Unknown] * len(odd), RunSettled]
    back = as_json(events)
    assert [m["content"] for m in back[0].get("messages", [])] == [m["content"] for m in said]
    assert back[1:-1] == [unknown.raw for unknown in odd]
    assert decode(encode(events), list[Event]) == events


def test_unknown_parts_are_found_in_the_channels_of_a_board() -> None:
    raw: dict[str, Any] = {"kind": "hologram", "depth": 3}
    said = {"kind": "message", "role": "user", "content": [raw]}
    board = {"channels": {"main": [said], "a.b[0]": [said, said]}}
    form = {"kind": "checkpoint", "exec_id": "run-1", "step": "s", "board": board}
    point = decode(json.dumps(form), Checkpoint)
    assert point.board.channels["a.b[0]"][1].content == (Unknown(raw=raw),)
    assert as_json(point)["board"]["channels"]["a.b[0]"][1]["content"] == [raw]


def test_any_number_of_unknown_kinds_is_kept() -> None:
    content = [{"kind": f"kind_{number}"} for number in range(2_000)]
    form = {"kind": "message", "role": "user", "content": content}
    message = decode(json.dumps([form] * 2), list[Message])[1]
    assert [part.kind for part in message.parts] == [part["kind"] for part in content]


def test_free_json_that_looks_like_an_unknown_part_stays_free_json() -> None:
    odd = {"kind": "hologram", "raw": {"kind": "?"}}
    form = {
        "kind": "message",
        "role": "user",
        "content": [{"kind": "data", "data": [odd]}, {"kind": "hologram"}],
        "metadata": {"content": [odd]},
    }
    message = decode(json.dumps(form), Message)
    assert message.content == (Data([odd]), Unknown(raw={"kind": "hologram"}))
    assert message.metadata == {"content": [odd]}
    assert as_json(message) == form


class Shelf(msgspec.Struct, tag_field="kind", tag="shelf"):
    items: tuple[Part, ...]


class Crate(msgspec.Struct, tag_field="kind", tag="crate"):
    items: tuple[Json, ...]


def test_free_json_under_the_same_name_as_parts_of_another_type_is_left_alone() -> None:
    raw: dict[str, Any] = {"kind": "hologram"}
    form = [{"kind": kind, "items": [raw, raw]} for kind in ("crate", "shelf", "crate")]
    crate, shelf, other = decode(json.dumps(form), list[Shelf | Crate])
    assert crate.items == other.items == (raw, raw)
    assert shelf.items == (Unknown(raw=raw), Unknown(raw=raw))


def test_a_known_kind_in_the_wrong_place_is_kept_as_it_is() -> None:
    form = {"kind": "message", "role": "user", "content": [{"kind": "run_started", "seq": 1}]}
    assert as_json(decode(json.dumps(form), Message))["content"] == form["content"]


@given(kinds())
def test_a_kind_without_its_fields_is_misuse_and_nothing_else(kind: str) -> None:
    try:
        value = decode(json.dumps({"kind": kind}))
    except Misuse:
        return
    assert value.kind == kind


# ---- bad input


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"nonsense",
        b'{"kind":"text","text":"\xff"}',
        b'{"kind":"text","text":"\\ud800"}',
        b"[" * 100_000,
        b'{"kind":"data","data":1e999}',
        b'{"kind":"message","role":"user","content":[{"kind":"new","n":1e999}]}',
        b'{"kind":"agent_result","started_at":"9999-12-31T23:59:59Z","duration_ms":9000000000}',
        b'{"kind":"agent_result","started_at":"0001-01-01T00:00:00+10:00"}',
        b'{"kind":"agent_result","started_at":"2026-01-01T00:00:00"}',
        b'{"kind":"agent_result","cost":{"total":"NaN"}}',
        b'{"kind":"agent_result","cost":{"total":1e99}}',
        b'{"kind":"agent_result","status":"failed"}',
        b'{"kind":"message","role":"robot"}',
        b'{"kind":"message","role":"user","content":[{"kind":5}]}',
        b'{"kind":"message","role":"user","content":[{}]}',
        b'{"kind":5}',
        b"{}",
        b"[]",
        b"null",
    ],
)
def test_what_cannot_be_read_is_misuse(data: bytes) -> None:
    with pytest.raises(Misuse):
        decode(data)


@examples(80)
@given(messages_with_unknown_parts(), st.data())
def test_reading_damaged_json_raises_nothing_but_misuse(
    form: dict[str, Any], data: st.DataObject
) -> None:
    whole = json.dumps(form).encode()
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 8)))
    damage = data.draw(st.sampled_from([b"", b"null", b'"', b"{}", b"1e999", b'"kind"']))
    with contextlib.suppress(Misuse):
        decode(whole[:start] + damage + whole[end:], Event)


def test_text_is_read_like_bytes() -> None:
    assert decode('{"kind":"text","text":"é"}') == Text("é")


# ---- what JSON cannot hold


def test_an_object_that_is_no_json_is_misuse_that_names_it() -> None:
    with pytest.raises(Misuse, match="Decoder"):
        encode(Data(msgspec.json.Decoder()))


def test_a_container_that_holds_itself_is_misuse() -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(Misuse):
        encode(Data(ring))


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_has_not_is_written_as_null(number: float) -> None:
    assert as_json(Data([number]))["data"] == [None]


def test_lone_surrogates_are_written_as_replacement_characters() -> None:
    call = ToolCall("c1", "grep\udcff", {"k\ud800": ["\ud800x"]})
    message = Message("assistant", (Text("a\udfffb"), Unknown(raw={"kind": "new", "t": "\udc00"})))
    assert as_json(call)["arguments"] == {"k\ufffd": ["\ufffdx"]}
    assert as_json(call)["name"] == "grep\ufffd"
    assert [part.get("text", part.get("t")) for part in as_json(message)["content"]] == [
        "a\ufffdb",
        "\ufffd",
    ]


def test_a_surrogate_pair_in_two_halves_becomes_its_character() -> None:
    assert as_json(Text("\ud83d\ude00"))["text"] == "\U0001f600"


def test_an_integer_too_long_for_digits_is_misuse() -> None:
    with pytest.raises(Misuse):
        encode(Data(10**5_000))


# ---- money, moments, what is local


@given(st.decimals(-(10**12), 10**12, allow_nan=False, places=30))
def test_money_is_exact_to_the_last_digit(amount: Decimal) -> None:
    assert decode(encode(Cost(total=amount)), Cost).total == amount


def test_money_is_a_json_number() -> None:
    assert b'"total":0.1000000000000000055' in encode(Cost(total="0.1000000000000000055"))


def test_money_is_exact_beside_an_unknown_kind() -> None:
    result = AgentResult(
        cost=Cost(total=Decimal("0.1234567890123456789")),
        messages=(Message("user", (Unknown(raw={"kind": "new"}),)),),
    )
    back = decode(encode(result), AgentResult[Json])
    assert back.cost == result.cost


def test_moments_are_written_in_utc() -> None:
    east = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    form = as_json(AgentResult(started_at=east, duration_ms=1_500))
    assert form["started_at"] == "2026-01-01T00:00:00Z"
    assert form["ended_at"] == "2026-01-01T00:00:01.500000Z"


def test_a_moment_with_an_offset_is_read_as_the_moment_it_names() -> None:
    result = decode(b'{"kind":"agent_result","started_at":"2026-01-01T02:00:00+02:00"}')
    assert isinstance(result, AgentResult)
    assert result.started_at == datetime(2026, 1, 1, tzinfo=UTC)


def test_what_is_local_is_not_written_and_makes_no_difference() -> None:
    kept = AgentResult(content="x", local=Local(raw=object(), last_board=object()))
    assert encode(kept) == encode(AgentResult(content="x"))
    assert decode(encode(kept)) == kept == AgentResult(content="x")
    assert decode(b'{"kind":"agent_result","local":{"raw":5}}') == AgentResult()


# ---- typed outputs


class Verdict(msgspec.Struct):
    ok: bool
    score: float = 0.0


@dataclasses.dataclass
class Place:
    city: str


class Person(pydantic.BaseModel):
    name: str
    born: date | None = None


@pytest.mark.parametrize(
    "output",
    [Verdict(ok=True, score=0.5), Place("Ulm"), Person(name="Ada", born=date(1815, 12, 10))],
    ids=["struct", "dataclass", "pydantic"],
)
def test_a_typed_output_is_written_and_read_by_its_type(output: object) -> None:
    result: AgentResult[Any] = AgentResult(output=output)
    assert decode(encode(result), AgentResult[type(output)]) == result


def test_an_output_that_is_not_of_its_type_is_misuse() -> None:
    with pytest.raises(Misuse):
        decode(encode(AgentResult(output={"name": 5})), AgentResult[Person])


# ---- agents, odds and ends


def test_an_agent_is_written_as_its_spec() -> None:
    agent: Agent[str] = Agent("support", instructions="Help.")
    assert decode(encode(agent)) == agent.spec()


def test_absent_means_unknown() -> None:
    assert as_json(ModelResponse(content="x")) == {
        "kind": "model_response",
        "schema_version": 1,
        "parts": [{"kind": "text", "text": "x"}],
    }


def test_each_part_of_a_reply_is_written_once() -> None:
    call = ToolCall("c1", "look")
    response = ModelResponse(content="x", tool_calls=(call,), reasoning=(Reasoning(text="hm"),))
    written = encode(response)
    for word in (b'"x"', b"c1", b"hm"):
        assert written.count(word) == 1
    assert decode(written) == response


def test_an_empty_output_of_a_tool_is_written_all_the_same() -> None:
    assert as_json(ToolExecutionResult("c1", "t"))["output"] == {}


@example(b"\x00\xff")
@given(st.binary(max_size=64))
def test_bytes_are_base64(data: bytes) -> None:
    assert decode(encode(File(data=data))) == File(data=data)


def test_an_event_without_its_kind_is_refused() -> None:
    with pytest.raises(Misuse):
        decode(b'{"text":"x"}', Event)


def test_a_value_of_one_kind_may_leave_its_kind_out() -> None:
    assert decode(b'{"text":"x"}', TextDelta) == TextDelta(text="x")
    assert decode(b'{"input_tokens":3}', Usage) == Usage(input_tokens=3)
    assert decode(b"{}", AgentError) == AgentError()


def test_parts_of_a_union_can_be_expected() -> None:
    assert decode(b'{"kind":"data","data":1}', Part) == Data(1)


def test_a_snapshot_without_messages_is_empty() -> None:
    assert encode(BoardSnapshot()) == b"{}"


BAD = "a\ud800"


@pytest.mark.parametrize(
    "value",
    [
        AgentError(message=BAD, details={"n": float("nan"), BAD: (1, BAD)}),
        Interrupt("custom", BAD),
        Message("user", BAD, metadata={"n": float("inf")}),
        Message("user", [Text(BAD), Data({"x": float("nan")}), Reasoning(text=BAD)]),
        ModelResponse(content=BAD, refusal=BAD),
        FinalizeDecision.revise(BAD),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_cannot_hold_is_replaced_where_it_enters(value: Any) -> None:
    assert decode(encode(value), type(value)) == value


@pytest.mark.parametrize("make", [Data, lambda bad: AgentError(details={"x": bad})])
def test_what_has_no_json_form_is_misuse_where_it_enters(make: Any) -> None:
    with pytest.raises(Misuse, match="object has no JSON form"):
        make(object())
